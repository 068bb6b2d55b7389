//! The body of Set Service Properties, in old versions and new.

use crate::checks::refused;
use tepui_model::blob::BlobServiceProperties;
use tepui_model::service_properties::ServiceProperties;
use tepui_wire::address::Service;
use tepui_wire::version::ServiceVersion;
use tepui_wire::xml::{
    parse_blob_service_properties, parse_service_properties, print_blob_service_properties,
    print_service_properties,
};

pub(super) const WORDS: &[&str] = &[
    "<StorageServiceProperties>",
    "</StorageServiceProperties>",
    "<Logging>",
    "</Logging>",
    "<Version>1.0</Version>",
    "<HourMetrics>",
    "</HourMetrics>",
    "<MinuteMetrics>",
    "</MinuteMetrics>",
    "<Metrics>",
    "</Metrics>",
    "<Enabled>true</Enabled>",
    "<Enabled>false</Enabled>",
    "<IncludeAPIs>true</IncludeAPIs>",
    "<Days>7</Days>",
    "366",
    "<RetentionPolicy>",
    "</RetentionPolicy>",
    "<Read>1</Read>",
    "<Cors>",
    "</Cors>",
    "<Cors/>",
    "<CorsRule>",
    "</CorsRule>",
    "<AllowedOrigins>*</AllowedOrigins>",
    "<AllowedMethods>GET,PUT</AllowedMethods>",
    "<AllowedHeaders>x-ms-*</AllowedHeaders>",
    "<ExposedHeaders/>",
    "<DefaultServiceVersion>2021-08-06</DefaultServiceVersion>",
    "<DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days></DeleteRetentionPolicy>",
    "<StaticWebsite><Enabled>true</Enabled><IndexDocument>i</IndexDocument></StaticWebsite>",
    "<MaxAgeInSeconds>5</MaxAgeInSeconds>",
    ",",
    " , ",
    "&#x2C;",
    "&#0;",
    "&#1;",
    "&amp;",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "\u{FEFF}",
    "\u{3000}",
    "\0",
    "\r",
];

/// Settings are the same once printed and read again.
pub fn service_properties(data: &[u8]) {
    for version in ["2026-10-06", "2012-02-12"] {
        let version = ServiceVersion::parse(version).expect("a version that there was");
        let change = match parse_service_properties(data, version) {
            Ok(change) => change,
            Err(error) => {
                refused(&error);
                continue;
            }
        };
        let mut settings = ServiceProperties::default();
        change.apply(&mut settings);
        let body = print_service_properties(&settings, version, Service::Table);
        let mut again = ServiceProperties::default();
        parse_service_properties(&body, version)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&body)))
            .apply(&mut again);
        assert_eq!(again, settings, "{}", String::from_utf8_lossy(&body));
    }
    of_blobs(data);
}

/// The Blob service has more of them.
fn of_blobs(data: &[u8]) {
    let version = ServiceVersion::NEWEST;
    let change = match parse_blob_service_properties(data, version) {
        Ok(change) => change,
        Err(error) => return refused(&error),
    };
    let mut settings = BlobServiceProperties::default();
    change.apply(&mut settings);
    let body = print_blob_service_properties(&settings, version);
    let mut again = BlobServiceProperties::default();
    parse_blob_service_properties(&body, version)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&body)))
        .apply(&mut again);
    assert_eq!(again, settings, "{}", String::from_utf8_lossy(&body));
}
