//! What a certificate says about itself.

use super::der::{CONTEXT_0, CONTEXT_3, Der, GENERALIZED_TIME, INTEGER, OCTETS, OID, SEQUENCE, UTC_TIME};
use std::collections::BTreeSet;
use std::net::IpAddr;
use tepui_model::Timestamp;
use tepui_model::time::Calendar;

/// The parts of a certificate that matter here. Whether it is good is for those to decide who connect.
pub(super) struct Facts<'a> {
    pub(super) issuer: &'a [u8],
    pub(super) subject: &'a [u8],
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    /// The alternative names of its subject.
    pub(super) names: BTreeSet<Name>,
}

/// A name that a server can be reached by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Dns(String),
    Ip(IpAddr),
}

/// 2.5.29.17
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

impl<'a> Facts<'a> {
    /// `None` if it is no certificate.
    pub(super) fn read(certificate: &'a [u8]) -> Option<Self> {
        let mut fields = Der::new(certificate).inside(SEQUENCE)?.inside(SEQUENCE)?;
        // The version, the serial number and the algorithm.
        fields.optional(CONTEXT_0);
        fields.take(INTEGER)?;
        fields.take(SEQUENCE)?;
        let issuer = fields.take(SEQUENCE)?;
        let mut validity = fields.inside(SEQUENCE)?;
        let (not_before, not_after) = (time(&mut validity)?, time(&mut validity)?);
        let subject = fields.take(SEQUENCE)?;
        fields.take(SEQUENCE)?;
        let mut names = BTreeSet::new();
        while let Some(field) = fields.next() {
            if field.tag == CONTEXT_3 {
                names = alternative_names(Der::new(field.content))?;
            }
        }
        Some(Self { issuer, subject, not_before, not_after, names })
    }
}

fn alternative_names(mut extensions: Der<'_>) -> Option<BTreeSet<Name>> {
    let mut names = BTreeSet::new();
    let mut list = extensions.inside(SEQUENCE)?;
    while let Some(mut extension) = list.inside(SEQUENCE) {
        if extension.take(OID)? != SUBJECT_ALT_NAME {
            continue;
        }
        // Whether it is critical comes before its value.
        let value = loop {
            let field = extension.next()?;
            if field.tag == OCTETS {
                break field.content;
            }
        };
        let mut given = Der::new(value).inside(SEQUENCE)?;
        while let Some(name) = given.next() {
            match name.tag {
                DNS_NAME => {
                    let text = String::from_utf8_lossy(name.content);
                    names.insert(Name::Dns(text.to_ascii_lowercase()));
                }
                IP_ADDRESS => {
                    let v4 = <[u8; 4]>::try_from(name.content).map(IpAddr::from);
                    let v6 = || <[u8; 16]>::try_from(name.content).map(IpAddr::from);
                    names.extend(v4.or_else(|_| v6()).map(Name::Ip));
                }
                _ => {}
            }
        }
    }
    Some(names)
}

/// The next element as a time: `YYMMDDHHMMSSZ`, or with the year in full.
fn time(der: &mut Der<'_>) -> Option<Timestamp> {
    let element = der.next()?;
    let text = std::str::from_utf8(element.content).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match element.tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: u32 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    if rest.len() != 10 {
        return None;
    }
    let part = |at: usize| rest[at..at + 2].parse().ok();
    Timestamp::from_calendar(Calendar {
        year,
        month: part(0)?,
        day: part(2)?,
        hour: part(4)?,
        minute: part(6)?,
        second: part(8)?,
        ticks: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (tag, text, expected) in [
            (UTC_TIME, "260301120059Z", Some("2026-03-01T12:00:59Z")),
            (UTC_TIME, "490101000000Z", Some("2049-01-01T00:00:00Z")),
            (UTC_TIME, "500101000000Z", Some("1950-01-01T00:00:00Z")),
            (GENERALIZED_TIME, "20500101000000Z", Some("2050-01-01T00:00:00Z")),
            (GENERALIZED_TIME, "99991231235959Z", Some("9999-12-31T23:59:59Z")),
            (UTC_TIME, "260301120059", None),
            (UTC_TIME, "2603011200Z", None),
            (UTC_TIME, "26030112005xZ", None),
            (UTC_TIME, "261301120059Z", None),
            (OCTETS, "260301120059Z", None),
        ] {
            let mut der = vec![tag, text.len() as u8];
            der.extend_from_slice(text.as_bytes());
            let expected = expected.map(|text| Timestamp::parse_iso(text).unwrap());
            assert_eq!(time(&mut Der::new(&der)), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_certificate_has_no_facts() {
        for bytes in [&b""[..], b"hello", &[0x30, 0], &[0x30, 2, 0x30, 0]] {
            assert!(Facts::read(bytes).is_none(), "{bytes:?}");
        }
    }
}
