//! Stored access policies as XML: the bodies of Get and Set Table ACL and their like.

use super::Printer;
use super::document::{self, Element, invalid};
use crate::address::Service;
use tepui_model::access_policy::{AccessPolicy, MAX_ID_CHARS, MAX_POLICIES, SignedIdentifier};
use tepui_model::{ServiceError, Timestamp};

/// Reads the body of Set Table ACL and its like. An empty body clears the list.
pub fn parse_signed_identifiers(body: &[u8]) -> Result<Vec<SignedIdentifier>, ServiceError> {
    if document::text(body).is_some_and(|text| text.trim().is_empty()) {
        return Ok(Vec::new());
    }
    let root = document::parse(body, "SignedIdentifiers")?;
    if root.children.len() > MAX_POLICIES {
        return Err(invalid("too many identifiers"));
    }
    let mut identifiers: Vec<SignedIdentifier> = Vec::with_capacity(root.children.len());
    for child in root.children {
        let identifier = read_identifier(child)?;
        if identifiers.iter().any(|other| other.id == identifier.id) {
            return Err(invalid("an id is there twice"));
        }
        identifiers.push(identifier);
    }
    Ok(identifiers)
}

fn read_identifier(mut element: Element) -> Result<SignedIdentifier, ServiceError> {
    if element.name != "SignedIdentifier" {
        return Err(invalid("not a SignedIdentifier"));
    }
    let id = element.require("Id")?.into_text()?;
    let policy = element.take("AccessPolicy").map(read_policy).transpose()?;
    element.done()?;
    if id.is_empty() || id.chars().count() > MAX_ID_CHARS {
        return Err(invalid("the id is empty or too long"));
    }
    Ok(SignedIdentifier { id, policy })
}

fn read_policy(mut element: Element) -> Result<AccessPolicy, ServiceError> {
    let mut given = |name| element.take(name).map(Element::into_text).transpose();
    // An empty element says as little as none.
    let not_empty = |text: &String| !text.trim().is_empty();
    let time = |text: String| Timestamp::parse_iso(text.trim()).ok_or_else(|| invalid("not a time"));
    let policy = AccessPolicy {
        start: given("Start")?.filter(not_empty).map(time).transpose()?,
        expiry: given("Expiry")?.filter(not_empty).map(time).transpose()?,
        permission: given("Permission")?.filter(not_empty).map(|text| text.trim().to_owned()),
    };
    element.done()?;
    Ok(policy)
}

/// Prints the body of Get Table ACL and its like. What was not given is not returned.
pub fn print_signed_identifiers(identifiers: &[SignedIdentifier], service: Service) -> Vec<u8> {
    let mut body = Printer::new(service);
    body.parent("SignedIdentifiers", |body| {
        for identifier in identifiers {
            body.parent("SignedIdentifier", |body| {
                body.leaf("Id", &identifier.id);
                match &identifier.policy {
                    // Fidelity: clients of tables take an empty element for a policy. scenario: acl-empty-policies
                    Some(policy) if service == Service::Table && *policy == AccessPolicy::default() => {}
                    Some(policy) => print_policy(body, policy),
                    // Clients of queues look into the element without asking whether it is there.
                    None if service == Service::Queue => body.empty("AccessPolicy"),
                    None => {}
                }
            });
        }
    });
    body.finish()
}

fn print_policy(body: &mut Printer, policy: &AccessPolicy) {
    body.parent("AccessPolicy", |body| {
        if let Some(start) = policy.start {
            body.leaf("Start", &start.to_iso_7());
        }
        if let Some(expiry) = policy.expiry {
            body.leaf("Expiry", &expiry.to_iso_7());
        }
        if let Some(permission) = &policy.permission {
            body.leaf("Permission", permission);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(inside: &str) -> Option<Vec<SignedIdentifier>> {
        parse_signed_identifiers(format!("<SignedIdentifiers>{inside}</SignedIdentifiers>").as_bytes()).ok()
    }

    fn named(id: &str) -> String {
        format!("<SignedIdentifier><Id>{id}</Id></SignedIdentifier>")
    }

    #[test]
    fn lists_may_be_empty() {
        for body in
            ["", " \n", "\u{FEFF}", "<SignedIdentifiers/>", "<SignedIdentifiers> </SignedIdentifiers>"]
        {
            assert_eq!(parse_signed_identifiers(body.as_bytes()), Ok(vec![]), "{body}");
        }
    }

    #[test]
    fn identifiers_are_read() {
        let time = |text| Timestamp::parse_iso(text);
        for (inside, policy) in [
            ("", None),
            ("<AccessPolicy/>", Some(AccessPolicy::default())),
            (
                "<AccessPolicy><Start/><Expiry></Expiry><Permission /></AccessPolicy>",
                Some(AccessPolicy::default()),
            ),
            (
                "<AccessPolicy><Permission>raud</Permission><Expiry>2026-01-02</Expiry>\
                 <Start>2026-01-01T12:10:00Z</Start></AccessPolicy>",
                Some(AccessPolicy {
                    start: time("2026-01-01T12:10:00Z"),
                    expiry: time("2026-01-02"),
                    permission: Some("raud".to_owned()),
                }),
            ),
        ] {
            let body = format!("<SignedIdentifier><Id>a &lt; b</Id>{inside}</SignedIdentifier>");
            let expected = vec![SignedIdentifier { id: "a < b".to_owned(), policy }];
            assert_eq!(parse(&body), Some(expected), "{inside}");
        }
    }

    #[test]
    fn lists_are_refused() {
        let many = |count: usize| (0..count).map(|id| named(&id.to_string())).collect::<String>();
        let policy = |inside: &str| {
            format!("<SignedIdentifier><Id>a</Id><AccessPolicy>{inside}</AccessPolicy></SignedIdentifier>")
        };
        for (case, inside, good) in [
            ("five", many(5), true),
            ("six", many(6), false),
            ("the same twice", named("a") + &named("a"), false),
            ("two cases", named("a") + &named("A"), true),
            ("no id", "<SignedIdentifier/>".to_owned(), false),
            ("empty id", named(""), false),
            ("long id", named(&"é".repeat(64)), true),
            ("too long id", named(&"x".repeat(65)), false),
            ("bad date", policy("<Start>soon</Start>"), false),
            ("unknown element", policy("<Begin>2026-01-01</Begin>"), false),
            ("repeated element", policy("<Start>2026-01-01</Start><Start>2026-01-01</Start>"), false),
            ("another child", "<Id>a</Id>".to_owned(), false),
        ] {
            assert_eq!(parse(&inside).is_some(), good, "{case}");
        }
        assert!(parse_signed_identifiers(b"<Other/>").is_err());
    }

    prop_compose! {
        fn identifier()(
            id in "[ -~é]{1,64}",
            start in proptest::option::of(0u64..=3_155_378_975_999_999_999),
            permission in proptest::option::of("[raud]{1,4}"),
            has_policy: bool,
        ) -> SignedIdentifier {
            let start = start.and_then(Timestamp::from_ticks);
            let policy = AccessPolicy { start, expiry: start, permission };
            // One that says nothing is not printed for tables.
            SignedIdentifier { id, policy: (has_policy && policy != AccessPolicy::default()).then_some(policy) }
        }
    }

    proptest! {
        #[test]
        fn printed_identifiers_are_read_as_themselves(
            mut identifiers in proptest::collection::vec(identifier(), 0..=5)
        ) {
            identifiers.dedup_by(|a, b| a.id == b.id);
            let distinct: std::collections::HashSet<_> = identifiers.iter().map(|each| each.id.clone()).collect();
            prop_assume!(distinct.len() == identifiers.len());
            let body = print_signed_identifiers(&identifiers, Service::Table);
            prop_assert_eq!(parse_signed_identifiers(&body), Ok(identifiers));
        }
    }
}
