//! Keys with which users sign SAS in their own name.
//!
//! Such a key is made of a secret of the account and of what it is for, so none is stored: whoever checks a SAS makes it again.

use crate::{ErrorCode, Service, ServiceError, Timestamp, guid};
use std::fmt;
use std::time::Duration;

/// The longest time from now until a key ends, or since it began.
const MAX_DISTANCE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How far the clock of a client may be ahead.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// What a user asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRequest {
    /// `None`: now.
    pub start: Option<Timestamp>,
    pub expiry: Timestamp,
    /// The tenant of the users who may use SAS of the key, if it is another than the asker's.
    pub delegated_tenant: Option<String>,
}

impl KeyRequest {
    /// From when and until when the key is good: at most seven days from now, either way.
    pub fn lifetime(&self, now: Timestamp) -> Result<(Timestamp, Timestamp), ServiceError> {
        let invalid = |element: &str, value: String, reason: &str| {
            ServiceError::new(ErrorCode::InvalidXmlNodeValue)
                .with_detail("XmlNodeName", element)
                .with_detail("XmlNodeValue", value)
                .with_detail("Reason", reason)
        };
        let is_near = |time: Timestamp| {
            let most = MAX_DISTANCE + SKEW;
            now.since(time) <= most && time.since(now) <= most
        };
        let start = self.start.unwrap_or(now);
        if !is_near(start) {
            return Err(invalid("Start", start.to_iso_7(), "it must be within 7 days of now"));
        }
        if !is_near(self.expiry) || self.expiry <= now {
            return Err(invalid("Expiry", self.expiry.to_iso_7(), "it must be within 7 days from now"));
        }
        if self.expiry <= start {
            return Err(invalid("Expiry", self.expiry.to_iso_7(), "it must be after Start"));
        }
        match &self.delegated_tenant {
            Some(tenant) if guid::parse(tenant).is_none() => {
                Err(invalid("DelegatedUserTid", tenant.clone(), "it must be a GUID"))
            }
            _ => Ok((start, self.expiry)),
        }
    }
}

/// A key of a user. Times are in whole seconds.
#[derive(Clone, PartialEq, Eq)]
pub struct UserDelegationKey {
    pub object_id: String,
    pub tenant_id: String,
    /// As a SAS repeats them.
    pub start: String,
    pub expiry: String,
    pub service: Service,
    pub version: String,
    pub delegated_tenant: Option<String>,
    /// Never printed, but in the answer.
    pub value: [u8; 32],
}

impl fmt::Debug for UserDelegationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserDelegationKey({} of {})", self.object_id, self.tenant_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_live_within_seven_days() {
        let at = |text: &str| Timestamp::parse_iso(text).unwrap();
        let now = at("2026-03-10T08:00:00Z");
        for (start, expiry, tenant, wrong) in [
            (None, "2026-03-10T09:00:00Z", None, None),
            (Some("2026-03-10T07:00:00Z"), "2026-03-17T08:00:00Z", None, None),
            (Some("2026-03-03T08:00:00Z"), "2026-03-11T00:00:00Z", None, None),
            (None, "2026-03-17T08:04:59Z", None, None),
            (None, "2026-03-17T08:05:01Z", None, Some("Expiry")),
            (None, "2026-03-10T08:00:00Z", None, Some("Expiry")),
            (None, "2026-03-09T08:00:00Z", None, Some("Expiry")),
            (Some("2026-03-12"), "2026-03-12", None, Some("Expiry")),
            (Some("2026-03-13"), "2026-03-12", None, Some("Expiry")),
            (Some("2026-03-03T07:54:59Z"), "2026-03-12", None, Some("Start")),
            (Some("2026-03-18"), "2026-03-19", None, Some("Start")),
            (None, "2026-03-12", Some("5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11"), None),
            (None, "2026-03-12", Some("contoso"), Some("DelegatedUserTid")),
        ] {
            let request = KeyRequest {
                start: start.map(at),
                expiry: at(expiry),
                delegated_tenant: tenant.map(str::to_owned),
            };
            let found = request.lifetime(now);
            let refused = found.as_ref().err().map(|error| (error.code, &*error.details[0].1));
            let expected = wrong.map(|element| (ErrorCode::InvalidXmlNodeValue, element));
            assert_eq!(refused, expected, "{start:?} {expiry} {tenant:?}");
        }
    }

    #[test]
    fn values_of_keys_are_not_printed() {
        let key = UserDelegationKey {
            object_id: "o".to_owned(),
            tenant_id: "t".to_owned(),
            start: String::new(),
            expiry: String::new(),
            service: Service::Blob,
            version: String::new(),
            delegated_tenant: None,
            value: [65; 32],
        };
        assert_eq!(format!("{key:?}"), "UserDelegationKey(o of t)");
    }
}
