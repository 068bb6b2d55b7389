//! The body of Set Table ACL.

use crate::checks::refused;
use tepui_model::access_policy::{AccessPolicy, MAX_ID_CHARS, MAX_POLICIES, SignedIdentifier};
use tepui_wire::address::Service;
use tepui_wire::xml::{parse_signed_identifiers, print_signed_identifiers};

pub(super) const WORDS: &[&str] = &[
    "<SignedIdentifiers>",
    "</SignedIdentifiers>",
    "<SignedIdentifier>",
    "</SignedIdentifier>",
    "<Id>",
    "</Id>",
    "<AccessPolicy>",
    "</AccessPolicy>",
    "<Start>",
    "</Start>",
    "<Expiry>",
    "</Expiry>",
    "<Permission>",
    "raud",
    "</Permission>",
    "<Start/>",
    "2026-03-10T08:15:30.0000000Z",
    "9999-12-31",
    "&amp;",
    "&#x0;",
    "&#13;",
    "&#",
    ";",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?xml version=\"1.0\"?>",
    "<!DOCTYPE a [<!ENTITY e \"x\">]>",
    "&e;",
    " xmlns=\"u\"",
    "\u{FEFF}",
];

/// Policies are few, and the same once printed and read again.
pub fn acl(data: &[u8]) {
    let identifiers = match parse_signed_identifiers(data) {
        Ok(identifiers) => identifiers,
        Err(error) => return refused(&error),
    };
    assert!(identifiers.len() <= MAX_POLICIES);
    assert!(identifiers.iter().all(|each| (1..=MAX_ID_CHARS).contains(&each.id.chars().count())));
    let body = print_signed_identifiers(&identifiers, Service::Table);
    // A policy that says nothing is not printed.
    let says = |policy: &AccessPolicy| *policy != AccessPolicy::default();
    let identifiers: Vec<_> = identifiers
        .into_iter()
        .map(|each| SignedIdentifier { policy: each.policy.filter(says), ..each })
        .collect();
    assert_eq!(parse_signed_identifiers(&body), Ok(identifiers), "{}", String::from_utf8_lossy(&body));
}
