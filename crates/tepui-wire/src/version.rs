//! The version of the protocol that a request asks for, and what changed with which version.

use crate::query::Query;
use http::HeaderMap;
use std::fmt;
use tepui_model::{ErrorCode, Service, ServiceError};

/// A version that the protocol has had. Later ones are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceVersion(u8);

/// Every version, oldest first.
#[rustfmt::skip]
const KNOWN: [&str; 51] = [
    "2008-10-27", "2009-04-14", "2009-07-17", "2009-09-19", "2011-08-18", "2012-02-12", "2013-08-15",
    "2014-02-14", "2015-02-21", "2015-04-05", "2015-07-08", "2015-12-11", "2016-05-31", "2017-04-17",
    "2017-07-29", "2017-11-09", "2018-03-28", "2018-11-09", "2019-02-02", "2019-07-07", "2019-10-10",
    "2019-12-12", "2020-02-10", "2020-04-08", "2020-06-12", "2020-08-04", "2020-10-02", "2020-12-06",
    "2021-02-12", "2021-04-10", "2021-06-08", "2021-08-06", "2021-10-04", "2021-12-02", "2022-11-02",
    "2023-01-03", "2023-05-03", "2023-08-03", "2023-11-03", "2024-02-04", "2024-05-04", "2024-08-04",
    "2024-11-04", "2025-01-05", "2025-05-05", "2025-07-05", "2025-11-05", "2026-02-06", "2026-04-06",
    "2026-06-06", "2026-10-06",
];

/// What to do with a version that the protocol never had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VersionPolicy {
    /// Refuse it, unless it is newer than every known one.
    #[default]
    Check,
    /// Serve it as the last known one before it, or as the newest if it is no date.
    Skip,
}

macro_rules! gates {
    ($($(#[$doc:meta])* $name:ident = $since:literal;)*) => {
        impl ServiceVersion {
            $($(#[$doc])* pub fn $name(self) -> bool {
                const SINCE: ServiceVersion = ServiceVersion::known($since);
                self >= SINCE
            })*
        }
    };
}

gates! {
    has_batch = "2009-04-14";
    /// Answers name the version that was used.
    answers_version = "2009-09-19";
    /// `$select`, and PUT and MERGE without `If-Match`.
    has_upsert = "2011-08-18";
    /// Messages of 64 KiB, invisible for up to 7 days.
    has_large_messages = "2011-08-18";
    has_sas = "2012-02-12";
    has_json = "2013-08-15";
    has_prefer = "2013-08-15";
    has_cors = "2013-08-15";
    /// Metrics by the hour and by the minute, and groups of service properties that may be left out.
    has_hour_and_minute_metrics = "2013-08-15";
    /// Lists name the endpoint instead of the account.
    lists_name_endpoint = "2013-08-15";
    /// A `Content-Length` of 0 is signed as an empty line.
    signs_no_zero_length = "2015-02-21";
    /// The resource that a service SAS signs begins with the name of the service.
    signs_service_name = "2015-02-21";
    has_account_sas = "2015-04-05";
    /// A service SAS signs `sip` and `spr`.
    signs_ip_and_protocol = "2015-04-05";
    /// A SAS that allows too little is told so, instead of "not found".
    has_sas_mismatch_errors = "2015-04-05";
    atom_removed = "2015-12-11";
    /// The `timeout` parameter counts for every table operation.
    honours_timeout = "2016-05-31";
    /// The answer to Put Message has a body.
    describes_put_messages = "2016-05-31";
    /// `x-ms-` headers without a value are signed too.
    signs_empty_headers = "2016-05-31";
    /// Analytics logs have the error code in place of the status `ClientOtherError`.
    logs_error_codes = "2017-04-17";
    has_error_code_header = "2017-07-29";
    /// Messages may live for more than 7 days, or for ever.
    has_long_lifetimes = "2017-07-29";
    /// A blob SAS signs `sr` and the snapshot.
    signs_snapshot = "2018-11-09";
    /// Blocks of 100 MiB and blobs of 256 MiB in one request, up from 4 MiB and 64 MiB.
    has_large_blocks = "2016-05-31";
    /// Writes say that they were encrypted.
    says_encrypted = "2015-12-11";
    /// Blobs that were deleted can be restored.
    has_soft_delete = "2017-07-29";
    says_creation_time = "2017-11-09";
    has_tiers = "2017-04-17";
    has_static_website = "2018-03-28";
    has_crc64 = "2019-02-02";
    says_hierarchical_namespace = "2019-07-07";
    /// Versions of blobs, tags, blocks of 4000 MiB and blobs of 5000 MiB in one request.
    has_tags_and_versions = "2019-12-12";
    has_put_blob_from_url = "2020-04-08";
    /// A user delegation SAS signs who was authorized, and a correlation.
    signs_authorized_ids = "2020-02-10";
    /// Names that XML cannot hold are listed in another form.
    lists_encoded_names = "2021-02-12";
    has_cold_tier = "2021-12-02";
    /// Appends of 100 MiB, up from 4 MiB.
    has_large_appends = "2022-11-02";
    /// A user delegation SAS signs for whom it was made.
    signs_delegated_user = "2025-07-05";
    /// Copies that cannot read their source tell what was said of it.
    tells_of_copy_source = "2025-11-05";
    /// A user delegation SAS signs which headers and parameters a request must have.
    signs_required_headers = "2026-04-06";
    has_smart_tier = "2026-06-06";
    /// A SAS that may create blobs may do so from blocks, too.
    creates_from_blocks = "2026-06-06";
    /// Get Blob names the tier, as Get Blob Properties always did.
    reads_name_tier = "2026-10-06";
    /// Tokens of a directory are accepted.
    has_tokens = "2017-11-09";
    /// Users get keys of their own from the Blob service.
    has_user_delegation_keys = "2018-11-09";
    /// From the Queue and the Table service, too, and tokens are good for access policies.
    has_tokens_for_everything = "2025-07-05";
    /// A SAS signs `ses`.
    signs_encryption_scope = "2020-12-06";
}

impl ServiceVersion {
    pub const OLDEST: Self = Self(0);
    pub const NEWEST: Self = Self(KNOWN.len() as u8 - 1);
    /// What clients of tables speak unless they are told otherwise: the last version that brought tables anything new.
    pub const OF_TABLE_CLIENTS: Self = Self::known("2019-02-02");
    /// What clients of queues and blobs speak unless they are told otherwise: new enough for all that they do, and old
    /// enough for emulators.
    pub const OF_CLIENTS: Self = Self::known("2021-12-02");

    /// A version that is in the list: for constants.
    const fn known(text: &str) -> Self {
        let mut index = 0;
        while index < KNOWN.len() {
            if same(KNOWN[index].as_bytes(), text.as_bytes()) {
                return Self(index as u8);
            }
            index += 1;
        }
        panic!("not a known version")
    }

    /// Requests of the service without acceptable credentials are told how to get a token.
    ///
    /// Fidelity: tables came later. scenario: auth-none-new
    pub fn challenges_bearer(self, service: Service) -> bool {
        const OF_TABLES: ServiceVersion = ServiceVersion::known("2020-12-06");
        const OF_OTHERS: ServiceVersion = ServiceVersion::known("2019-12-12");
        match service {
            Service::Table => self >= OF_TABLES,
            Service::Queue | Service::Blob => self >= OF_OTHERS,
        }
    }

    /// A known version, or the newest for one that is newer still: clients that are ahead of this server
    /// are served, not refused.
    pub fn parse(text: &str) -> Option<Self> {
        let floor = Self::floor(text)?;
        (floor == Self::NEWEST || floor.text() == text).then_some(floor)
    }

    /// The last known version that is not after the given date.
    pub fn floor(text: &str) -> Option<Self> {
        if !is_date(text) {
            return None;
        }
        let after = KNOWN.partition_point(|known| *known <= text);
        after.checked_sub(1).map(|index| Self(index as u8))
    }

    pub fn text(self) -> &'static str {
        KNOWN[usize::from(self.0)]
    }
}

const fn same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 10
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
        && ("01"..="12").contains(&&text[5..7])
        && ("01"..="31").contains(&&text[8..10])
}

impl fmt::Display for ServiceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Debug for ServiceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The version in which a request is served. With a SAS, `sas_version` is its `sv`, and the `api-version`
/// parameter counts before the header; a request that names no version at all gets the newest.
pub fn negotiate(
    headers: &HeaderMap,
    query: &Query,
    sas_version: Option<ServiceVersion>,
    policy: VersionPolicy,
) -> Result<ServiceVersion, ServiceError> {
    let in_query = sas_version.and_then(|_| query.get_ignore_case("api-version"));
    let mut sent = headers.get_all("x-ms-version").into_iter();
    let asked = match (in_query, sent.next(), sent.next()) {
        (Some(text), ..) => text,
        (None, Some(value), None) => value.to_str().unwrap_or_default().trim(),
        // Two of them name none.
        (None, Some(_), Some(_)) => "",
        (None, None, _) => return Ok(sas_version.unwrap_or(ServiceVersion::NEWEST)),
    };
    match (ServiceVersion::parse(asked), policy) {
        (Some(version), _) => Ok(version),
        (None, VersionPolicy::Check) => Err(ServiceError::new(ErrorCode::InvalidHeaderValue)
            .with_detail("HeaderName", "x-ms-version")
            .with_detail("HeaderValue", asked)
            .with_cause("x-ms-version")),
        (None, VersionPolicy::Skip) => Ok(ServiceVersion::floor(asked).unwrap_or(ServiceVersion::NEWEST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    #[test]
    fn the_list_rises() {
        assert!(KNOWN.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(KNOWN.iter().all(|text| ServiceVersion::parse(text).unwrap().text() == *text));
    }

    #[test]
    fn gates_open_with_their_version() {
        let version = |text| ServiceVersion::parse(text).unwrap();
        assert!(!version("2015-07-08").atom_removed() && version("2015-12-11").atom_removed());
        for (service, before, since) in [
            (Service::Blob, "2019-10-10", "2019-12-12"),
            (Service::Queue, "2019-10-10", "2019-12-12"),
            (Service::Table, "2020-10-02", "2020-12-06"),
        ] {
            assert!(!version(before).challenges_bearer(service) && version(since).challenges_bearer(service));
        }
        assert!(!version("2012-02-12").has_json() && ServiceVersion::NEWEST.has_json());
    }

    #[test]
    fn versions_are_negotiated() {
        let sas = ServiceVersion::parse("2015-04-05");
        let (check, skip) = (VersionPolicy::Check, VersionPolicy::Skip);
        for (header, query, sas, policy, expected) in [
            (Some("2019-02-02"), "", None, check, Some("2019-02-02")),
            (Some(" 2019-02-02 "), "", None, check, Some("2019-02-02")),
            (None, "", None, check, Some("2026-10-06")),
            (Some("2031-01-01"), "", None, check, Some("2026-10-06")),
            (Some("2019-02-03"), "", None, check, None),
            (Some("2019-02-03"), "", None, skip, Some("2019-02-02")),
            (Some("2007-01-01"), "", None, check, None),
            (Some("2007-01-01"), "", None, skip, Some("2026-10-06")),
            (Some("latest"), "", None, check, None),
            (Some("latest"), "", None, skip, Some("2026-10-06")),
            (Some("2031-13-01"), "", None, check, None),
            (Some(""), "", None, check, None),
            (None, "", sas, check, Some("2015-04-05")),
            (Some("2019-02-02"), "", sas, check, Some("2019-02-02")),
            (Some("2019-02-02"), "api-version=2013-08-15", sas, check, Some("2013-08-15")),
            (Some("2019-02-02"), "api-version=2013-08-15", None, check, Some("2019-02-02")),
            (None, "api-version=x", sas, check, None),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(header) = header {
                headers.insert("x-ms-version", HeaderValue::from_static(header));
            }
            let outcome = negotiate(&headers, &Query::parse(Some(query)), sas, policy);
            assert_eq!(outcome.map(ServiceVersion::text).ok(), expected, "{header:?} {query} {sas:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_not(text in "[0-9é-]{0,12}") {
            let _ = (ServiceVersion::parse(&text), ServiceVersion::floor(&text));
        }
    }
}
