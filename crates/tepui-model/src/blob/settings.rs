//! Settings of the Blob service of an account: those that all services have, and those of its own.

use crate::service_properties::{ServiceProperties, ServicePropertiesChange};

/// What Get Blob Service Properties returns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlobServiceProperties {
    pub shared: ServiceProperties,
    /// The version of requests that name none.
    pub default_version: Option<String>,
    pub delete_retention: DeleteRetention,
    pub static_website: StaticWebsite,
}

/// What Set Blob Service Properties asks for: a group that is not given keeps its setting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlobServicePropertiesChange {
    pub shared: ServicePropertiesChange,
    pub default_version: Option<String>,
    pub delete_retention: Option<DeleteRetention>,
    pub static_website: Option<StaticWebsite>,
}

impl BlobServicePropertiesChange {
    pub fn apply(&self, to: &mut BlobServiceProperties) {
        self.shared.apply(&mut to.shared);
        if let Some(version) = &self.default_version {
            to.default_version = Some(version.clone());
        }
        if let Some(retention) = &self.delete_retention {
            to.delete_retention = *retention;
        }
        if let Some(website) = &self.static_website {
            to.static_website = website.clone();
        }
    }
}

/// For how long deleted blobs can be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeleteRetention {
    /// `None`: deleted is deleted.
    pub days: Option<u32>,
    pub allow_permanent_delete: bool,
}

/// The website in the container `$web`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StaticWebsite {
    pub enabled: bool,
    pub index_document: Option<String>,
    pub error_document: Option<String>,
    pub default_index_document: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_given_changes() {
        let mut settings = BlobServiceProperties::default();
        let retention = DeleteRetention { days: Some(7), allow_permanent_delete: true };
        BlobServicePropertiesChange { delete_retention: Some(retention), ..Default::default() }
            .apply(&mut settings);
        BlobServicePropertiesChange { default_version: Some("2021-08-06".to_owned()), ..Default::default() }
            .apply(&mut settings);
        let expected = BlobServiceProperties {
            default_version: Some("2021-08-06".to_owned()),
            delete_retention: retention,
            ..Default::default()
        };
        assert_eq!(settings, expected);
    }
}
