//! Whole XML bodies, as they go over the wire.

mod snapshot;

use http::Response;
use snapshot::Snapshot;
use tepui_model::Timestamp;
use tepui_model::access_policy::{AccessPolicy, SignedIdentifier};
use tepui_model::service_properties::{CorsRule, Metrics, ServiceProperties};
use tepui_wire::address::Service;
use tepui_wire::version::ServiceVersion;
use tepui_wire::xml::{self, GeoReplication};

#[test]
fn access_policies() {
    let policy = |start: Option<&str>, permission: Option<&str>| AccessPolicy {
        start: start.and_then(Timestamp::parse_iso),
        expiry: Timestamp::parse_iso("2026-01-02"),
        permission: permission.map(str::to_owned),
    };
    let named = |id: &str, policy| SignedIdentifier { id: id.to_owned(), policy };
    let full = named("full", Some(policy(Some("2026-01-01T12:10:00Z"), Some("raud"))));
    let some = named("a < b & c", Some(policy(None, None)));
    let print = |identifiers: &[_]| Response::new(xml::print_signed_identifiers(identifiers, Service::Table));
    Snapshot::default()
        .add("none", &print(&[]))
        .add("all, some and no fields", &print(&[full, some, named("empty", None)]))
        .check("access_policies");
}

#[test]
fn service_properties() {
    let hour_metrics =
        Metrics { enabled: true, include_apis: Some(true), retention_days: Some(7), ..Metrics::default() };
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    let rule = CorsRule {
        allowed_origins: texts(&["http://a.b", "http://c.d"]),
        allowed_methods: texts(&["GET", "PUT"]),
        allowed_headers: texts(&["x-ms-*"]),
        exposed_headers: vec![],
        max_age_seconds: 500,
    };
    let set = ServiceProperties { hour_metrics, cors: vec![rule], ..ServiceProperties::default() };
    let old = ServiceVersion::parse("2012-02-12").expect("a known version");
    let print = |properties: &_, version| {
        Response::new(xml::print_service_properties(properties, version, Service::Table))
    };
    Snapshot::default()
        .add("defaults", &print(&ServiceProperties::default(), ServiceVersion::NEWEST))
        .add("metrics and a rule", &print(&set, ServiceVersion::NEWEST))
        .add("the same in an old version", &print(&set, old))
        .check("service_properties");
}

#[test]
fn service_stats() {
    let last_sync = Timestamp::parse_iso("2026-03-05T03:05:15Z").expect("a time");
    let print = |replication| Response::new(xml::print_service_stats(replication, Service::Table));
    Snapshot::default()
        .add("live", &print(GeoReplication::Live { last_sync }))
        .add("bootstrap", &print(GeoReplication::Bootstrap))
        .add("unavailable", &print(GeoReplication::Unavailable))
        .check("service_stats");
}
