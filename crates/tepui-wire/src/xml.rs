//! The XML of access policies, service properties and stats: reading and printing.

pub(crate) const BOM: &str = "\u{FEFF}";
pub(crate) const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";

/// Appends text between tags.
pub(crate) fn push_escaped(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            _ => out.push(character),
        }
    }
}

use crate::version::ServiceVersion;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::service_properties::{ServiceProperties, ServicePropertiesChange};
use tepui_model::{ErrorCode, ServiceError, Timestamp};

/// The body of Set Table ACL and its like. An empty one clears the list.
pub fn parse_signed_identifiers(_body: &[u8]) -> Result<Vec<SignedIdentifier>, ServiceError> {
    Err(ErrorCode::InvalidXmlDocument.into())
}

/// The body of Get Table ACL and its like.
pub fn print_signed_identifiers(_identifiers: &[SignedIdentifier]) -> Vec<u8> {
    Vec::new()
}

/// The body of Set Service Properties.
pub fn parse_service_properties(
    _body: &[u8],
    _version: ServiceVersion,
) -> Result<ServicePropertiesChange, ServiceError> {
    Err(ErrorCode::InvalidXmlDocument.into())
}

/// The body of Get Service Properties.
pub fn print_service_properties(_properties: &ServiceProperties, _version: ServiceVersion) -> Vec<u8> {
    Vec::new()
}

/// How far the secondary endpoint is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeoReplication {
    Live { last_sync: Timestamp },
    Bootstrap,
    Unavailable,
}

/// The body of Get Service Stats.
pub fn print_service_stats(_replication: GeoReplication) -> Vec<u8> {
    Vec::new()
}
