//! Parts of operations that several services have.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tepui_model::Timestamp;
use tepui_model::access_policy::{AccessPolicy, SignedIdentifier};
use tepui_model::metadata::Metadata;
use tepui_model::service_properties::{CorsRule, Logging, Metrics, ServicePropertiesChange};

pub(crate) fn time() -> impl Strategy<Value = Timestamp> {
    (Timestamp::EARLIEST_STORABLE.ticks()..=Timestamp::MAX.ticks())
        .prop_map(|ticks| Timestamp::from_ticks(ticks).unwrap())
}

/// A time as headers have it.
pub(crate) fn second() -> impl Strategy<Value = Timestamp> {
    time().prop_map(|time| Timestamp::parse_http(&time.to_http()).unwrap())
}

pub(crate) fn identifiers(letters: &'static str) -> impl Strategy<Value = Vec<SignedIdentifier>> {
    let policy = (option::of(time()), option::of(time()), option::of(letters))
        .prop_map(|(start, expiry, permission)| AccessPolicy { start, expiry, permission });
    // Those that say nothing are not told apart from none.
    let policy =
        option::of(policy).prop_map(|policy| policy.filter(|policy| *policy != AccessPolicy::default()));
    vec(("[ -~é]{1,20}", policy), 0..=5).prop_map(|found| {
        let mut identifiers: Vec<SignedIdentifier> = Vec::new();
        for (id, policy) in found {
            if identifiers.iter().all(|other| other.id != id) {
                identifiers.push(SignedIdentifier { id, policy });
            }
        }
        identifiers
    })
}

prop_compose! {
    fn logging()(read: bool, write: bool, delete: bool, retention_days in option::of(1u32..=365)) -> Logging {
        Logging { version: "1.0".to_owned(), read, write, delete, retention_days }
    }
}

prop_compose! {
    fn metrics()(apis in option::of(any::<bool>()), retention_days in option::of(1u32..=365)) -> Metrics {
        Metrics { version: "1.0".to_owned(), enabled: apis.is_some(), include_apis: apis, retention_days }
    }
}

prop_compose! {
    fn rule()(origins in vec("[a-z<&]{1,9}", 1..3), headers in vec("x-[a-z]{1,9}", 0..3), max_age_seconds: u32) -> CorsRule {
        CorsRule {
            allowed_origins: origins,
            allowed_methods: vec!["GET".to_owned(), "PUT".to_owned()],
            allowed_headers: headers.clone(),
            exposed_headers: headers,
            max_age_seconds,
        }
    }
}

pub(crate) fn service_properties_change() -> impl Strategy<Value = ServicePropertiesChange> {
    (option::of(logging()), option::of(metrics()), option::of(metrics()), option::of(vec(rule(), 0..5)))
        .prop_map(|(logging, hour_metrics, minute_metrics, cors)| ServicePropertiesChange {
            logging,
            hour_metrics,
            minute_metrics,
            cors,
        })
        .prop_filter("a group at least", |change| *change != ServicePropertiesChange::default())
}

/// Names with capitals, values of any bytes that headers have.
pub(crate) fn metadata() -> impl Strategy<Value = Metadata> {
    let value = prop_oneof!["[!-~]{1,10}", "[!-~]{1,5}[ -~]{0,5}[!-~]", "[!-~\u{A1}-\u{FF}]{1,10}"];
    vec(("[A-Za-z_][A-Za-z0-9_]{0,8}", value), 0..4)
        .prop_filter_map("names are there once", |pairs| Metadata::new(pairs).ok())
}
