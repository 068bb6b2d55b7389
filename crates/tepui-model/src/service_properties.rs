//! Settings of a whole service of an account: logging, metrics, and the rules of cross-origin requests.

/// What Get Service Properties returns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceProperties {
    pub logging: Logging,
    pub hour_metrics: Metrics,
    pub minute_metrics: Metrics,
    pub cors: Vec<CorsRule>,
}

/// What Set Service Properties asks for: a group that is not given keeps its setting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServicePropertiesChange {
    pub logging: Option<Logging>,
    pub hour_metrics: Option<Metrics>,
    pub minute_metrics: Option<Metrics>,
    pub cors: Option<Vec<CorsRule>>,
}

impl ServicePropertiesChange {
    pub fn apply(&self, to: &mut ServiceProperties) {
        if let Some(logging) = &self.logging {
            to.logging = logging.clone();
        }
        if let Some(metrics) = &self.hour_metrics {
            to.hour_metrics = metrics.clone();
        }
        if let Some(metrics) = &self.minute_metrics {
            to.minute_metrics = metrics.clone();
        }
        if let Some(cors) = &self.cors {
            to.cors = cors.clone();
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logging {
    pub version: String,
    pub read: bool,
    pub write: bool,
    pub delete: bool,
    /// `None`: kept for ever.
    pub retention_days: Option<u32>,
}

impl Logging {
    /// Whether any requests are logged.
    pub fn is_enabled(&self) -> bool {
        self.read || self.write || self.delete
    }
}

impl Default for Logging {
    fn default() -> Self {
        Self { version: "1.0".to_owned(), read: false, write: false, delete: false, retention_days: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    pub version: String,
    pub enabled: bool,
    /// Only sent when metrics are enabled.
    pub include_apis: Option<bool>,
    pub retention_days: Option<u32>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { version: "1.0".to_owned(), enabled: false, include_apis: None, retention_days: None }
    }
}

/// One rule of cross-origin requests. The lists are kept as they were written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CorsRule {
    pub allowed_origins: Vec<String>,
    pub allowed_methods: Vec<String>,
    pub allowed_headers: Vec<String>,
    pub exposed_headers: Vec<String>,
    pub max_age_seconds: u32,
}
