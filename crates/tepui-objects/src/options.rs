//! What is configured.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tepui_storage::READER_TIMEOUT;

/// How a store of objects is used. Credentials are not here: they come from the variables that each vendor's own tools read.
#[derive(Debug, Clone)]
pub struct ObjectOptions {
    /// `s3://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or `gs://BUCKET/PREFIX`. The prefix may be missing.
    pub url: String,
    /// Whose rows refer to the extents. A store is of the installation that used it first, and is refused to others, which would
    /// take its extents for garbage. `None`: not checked.
    pub installation: Option<u64>,
    /// How long a call may take, with its retries.
    pub timeout: Duration,
    /// How far the clocks of the nodes may be apart.
    pub max_clock_skew: Duration,
    /// How long readers may take once what they read was deleted.
    pub reader_timeout: Duration,
    /// How long frees wait for the readers of other nodes. Zero if no other process uses the store.
    pub wait_for_other_nodes: Duration,
    /// How long the lease on a volume lasts. It is renewed four times as often.
    pub lease: Duration,
    /// How long extents are written to one volume before the next one is begun.
    pub rotate_after: Duration,
    /// When a swept volume is looked at once more, for uploads that were still on their way.
    pub sweep_again_after: Duration,
    /// Longer extents are sent in parts of this size, each of which is in memory. At least 5 MiB, as S3 demands; there are at
    /// most 10,000 parts.
    pub part_bytes: usize,
    pub clock: MachineClock,
    /// Credentials, and where the store is.
    pub environment: Environment,
}

impl ObjectOptions {
    pub fn new(url: impl Into<String>) -> Self {
        let max_clock_skew = Duration::from_secs(1);
        Self {
            url: url.into(),
            installation: None,
            timeout: Duration::from_secs(30),
            max_clock_skew,
            reader_timeout: READER_TIMEOUT,
            wait_for_other_nodes: READER_TIMEOUT + max_clock_skew,
            lease: Duration::from_secs(120),
            rotate_after: Duration::from_secs(60 * 60),
            sweep_again_after: Duration::from_secs(60 * 60),
            part_bytes: 8 << 20,
            clock: MachineClock::default(),
            environment: Environment::default(),
        }
    }
}

/// The variables by which the tools of each vendor are told credentials and endpoints, such as `AWS_ACCESS_KEY_ID`.
#[derive(Clone)]
pub struct Environment(Arc<Vec<(String, String)>>);

impl Environment {
    /// These variables, and no others.
    pub fn of(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(Arc::new(variables.into_iter().collect()))
    }

    /// Those whose names begin so, as keys of configuration that `object_store` knows.
    #[cfg_attr(not(feature = "cloud"), expect(dead_code, reason = "no vendor is built in"))]
    pub(crate) fn keys<K: std::str::FromStr>(&self, prefix: &str) -> impl Iterator<Item = (K, &str)> {
        let of_vendor = self.0.iter().filter(move |(name, _)| name.starts_with(prefix));
        of_vendor.filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value.as_str())))
    }

    #[cfg_attr(not(feature = "cloud"), expect(dead_code, reason = "no vendor is built in"))]
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Default for Environment {
    /// Those of this process.
    fn default() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::of(std::env::vars_os().filter_map(text))
    }
}

impl fmt::Debug for Environment {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

/// Tells the time by which leases are judged: that of the machine, or one for tests.
#[derive(Clone)]
pub struct MachineClock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl MachineClock {
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        ms((self.0)().duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl Default for MachineClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "leases in the bucket are judged by the clock of the machine"
    )]
    fn default() -> Self {
        Self::new(SystemTime::now)
    }
}

impl fmt::Debug for MachineClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MachineClock")
    }
}

pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
