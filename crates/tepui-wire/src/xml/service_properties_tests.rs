use super::*;
use proptest::prelude::*;

const RETENTION: &str = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";

fn logging() -> String {
    format!(
        "<Logging><Version>1.0</Version><Read>true</Read><Write>false</Write><Delete>false</Delete>\
         {RETENTION}</Logging>"
    )
}

fn metrics(name: &str, days: &str) -> String {
    format!(
        "<{name}><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>\
         <RetentionPolicy><Enabled>true</Enabled>{days}</RetentionPolicy></{name}>"
    )
}

fn rule(methods: &str, origins: &str, headers: &str) -> String {
    format!(
        "<CorsRule><AllowedMethods>{methods}</AllowedMethods><AllowedOrigins>{origins}</AllowedOrigins>\
         <AllowedHeaders>{headers}</AllowedHeaders><ExposedHeaders></ExposedHeaders>\
         <MaxAgeInSeconds>5</MaxAgeInSeconds></CorsRule>"
    )
}

fn parse(groups: &str, version: &str) -> Option<ServicePropertiesChange> {
    let body = format!("<StorageServiceProperties>{groups}</StorageServiceProperties>");
    parse_service_properties(body.as_bytes(), ServiceVersion::parse(version).unwrap()).ok()
}

#[test]
fn groups_that_are_left_out_are_not_changed() {
    let change = parse("<Cors/>", "2019-02-02").unwrap();
    assert_eq!(change, ServicePropertiesChange { cors: Some(vec![]), ..Default::default() });
    let change = parse(&(metrics("MinuteMetrics", "<Days>7</Days>") + &logging()), "2019-02-02").unwrap();
    assert_eq!(change.logging, Some(Logging { read: true, ..Logging::default() }));
    let seven_days =
        Metrics { enabled: true, include_apis: Some(true), retention_days: Some(7), ..Metrics::default() };
    assert_eq!(change.minute_metrics, Some(seven_days));
    assert_eq!((change.hour_metrics, change.cors), (None, None));
}

#[test]
fn rules_are_read() {
    let body = format!("<Cors>{}</Cors>", rule("GET, PUT", "http://a.b", "x-ms-*,accept"));
    let expected = CorsRule {
        allowed_origins: vec!["http://a.b".to_owned()],
        allowed_methods: vec!["GET".to_owned(), "PUT".to_owned()],
        allowed_headers: vec!["x-ms-*".to_owned(), "accept".to_owned()],
        exposed_headers: vec![],
        max_age_seconds: 5,
    };
    assert_eq!(parse(&body, "2019-02-02").unwrap().cors, Some(vec![expected]));
}

#[test]
fn bodies_are_refused() {
    let cors = |rules: &str| format!("<Cors>{rules}</Cors>");
    let good = rule("GET", "*", "*");
    let many_headers = vec!["h"; 65].join(",");
    for (case, groups, accepted) in [
        ("nothing", String::new(), false),
        ("logging", logging(), true),
        ("logging twice", logging() + &logging(), false),
        ("incomplete logging", logging().replace("<Write>false</Write>", ""), false),
        ("no retention", logging().replace(RETENTION, ""), false),
        ("odd boolean", logging().replace("true", "yes"), false),
        ("odd version", logging().replace("1.0", "x"), false),
        ("1 day", metrics("HourMetrics", "<Days>1</Days>"), true),
        ("365 days", metrics("HourMetrics", "<Days>365</Days>"), true),
        ("366 days", metrics("HourMetrics", "<Days>366</Days>"), false),
        ("0 days", metrics("HourMetrics", "<Days>0</Days>"), false),
        ("no days", metrics("HourMetrics", ""), false),
        ("no IncludeAPIs", metrics("HourMetrics", "<Days>1</Days>").replace("IncludeAPIs", "Other"), false),
        ("old metrics", logging() + &metrics("Metrics", "<Days>1</Days>"), false),
        ("unknown group", logging() + "<StaticWebsite/>", false),
        ("five rules", cors(&good.repeat(5)), true),
        ("six rules", cors(&good.repeat(6)), false),
        ("unknown method", cors(&rule("GRAB", "*", "*")), false),
        ("no method", cors(&rule("", "*", "*")), false),
        ("no origin", cors(&rule("GET", "", "*")), false),
        ("no header", cors(&rule("GET", "*", "")), true),
        ("long origin", cors(&rule("GET", &"x".repeat(257), "")), false),
        ("three prefixes", cors(&rule("GET", "*", "a*,b*,c*")), false),
        ("65 headers", cors(&rule("GET", "*", &many_headers)), false),
        ("long rules", cors(&rule("GET", &"abc,".repeat(513), "")), false),
        ("no age", cors(&good.replace("<MaxAgeInSeconds>5</MaxAgeInSeconds>", "")), false),
        ("not a rule", cors("<Rule/>"), false),
    ] {
        assert_eq!(parse(&groups, "2019-02-02").is_some(), accepted, "{case}");
    }
}

#[test]
fn old_versions_have_two_groups() {
    let old = "2012-02-12";
    let both = logging() + &metrics("Metrics", "<Days>1</Days>");
    let change = parse(&both, old).unwrap();
    assert!(change.logging.is_some() && change.hour_metrics.is_some() && change.minute_metrics.is_none());
    assert_eq!(parse(&logging(), old), None);
    assert_eq!(parse(&(both + "<Cors/>"), old), None);
}

prop_compose! {
    fn some_metrics()(
        include_apis in proptest::option::of(any::<bool>()),
        retention_days in proptest::option::of(1u32..=365),
    ) -> Metrics {
        Metrics { enabled: include_apis.is_some(), include_apis, retention_days, ..Metrics::default() }
    }
}

proptest! {
    #[test]
    fn printed_settings_are_read_as_themselves(
        hour_metrics in some_metrics(),
        minute_metrics in some_metrics(),
        (read, write, delete) in any::<(bool, bool, bool)>(),
        origins in proptest::collection::vec("http://[a-z&<>]{1,9}", 1..3),
        headers in proptest::collection::vec("x-[a-z]{1,9}", 0..3),
        max_age_seconds: u32,
    ) {
        let rule = CorsRule {
            allowed_origins: origins,
            allowed_methods: vec!["GET".to_owned()],
            allowed_headers: headers.clone(),
            exposed_headers: headers,
            max_age_seconds,
        };
        let logging = Logging { read, write, delete, ..Logging::default() };
        let properties = ServiceProperties { logging, hour_metrics, minute_metrics, cors: vec![rule] };
        let body = print_service_properties(&properties, ServiceVersion::NEWEST, Service::Table);
        let change = parse_service_properties(&body, ServiceVersion::NEWEST).unwrap();
        let mut changed = ServiceProperties::default();
        change.apply(&mut changed);
        prop_assert_eq!(changed, properties);
    }
}
