use super::*;
use proptest::prelude::*;

/// The properties of a body with keys, as a text like `A=Int32(1) B=…`; or the error's code.
fn decoded(members: &str) -> String {
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"r"{members}}}"#);
    match decode_entity(body.as_bytes(), KeysIn::Address) {
        Ok(entity) => {
            assert_eq!(entity.partition_key.as_deref(), Some("p"));
            assert_eq!(entity.row_key.as_deref(), Some("r"));
            let shown = entity.properties.iter().map(|(name, value)| format!("{name}={}", shown(value)));
            shown.collect::<Vec<_>>().join(" ")
        }
        Err(error) => error.code.name().to_owned(),
    }
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::String(text) => format!("{:?}", text.as_str()),
        ValueRef::DateTime(moment) => moment.to_string(),
        ValueRef::Guid(guid) => guid.to_string(),
        other => format!("{other:?}"),
    }
}

fn check(cases: &[(&str, &str)]) {
    for (members, expected) in cases {
        assert_eq!(decoded(members), *expected, "{members}");
    }
}

#[test]
fn values_without_annotations() {
    check(&[
        ("", ""),
        (r#","S":"x""#, r#"S="x""#),
        (r#","S":"\u00e4\"\n""#, r#"S="ä\"\n""#),
        (r#","I":3"#, "I=Int32(3)"),
        (r#","I":-2147483648"#, "I=Int32(-2147483648)"),
        (r#","I":-0"#, "I=Int32(0)"),
        (r#","D":2147483648"#, "D=Double(2147483648.0)"),
        (r#","D":99999999999999999999999"#, "D=Double(1e23)"),
        (r#","D":3.0"#, "D=Double(3.0)"),
        (r#","D":1e3"#, "D=Double(1000.0)"),
        (r#","D":-0.0"#, "D=Double(0.0)"),
        (r#","D":0.1000000000000000055511151231257827"#, "D=Double(0.1)"),
        (r#","D":1e400"#, "InvalidInput"),
        (r#","D":-1E999"#, "InvalidInput"),
        (r#","D":1e-400"#, "D=Double(0.0)"),
        (r#","B":true,"C":false"#, "B=Boolean(true) C=Boolean(false)"),
        (r#","T":"2026-01-02T03:04:05Z""#, r#"T="2026-01-02T03:04:05Z""#),
        (r#","N":"NaN""#, r#"N="NaN""#),
        (r#","Z":null,"A":1"#, "A=Int32(1)"),
        (r#","A":[]"#, "InvalidInput"),
        (r#","A":{"x":1}"#, "InvalidInput"),
        (r#","B":2,"A":1"#, "B=Int32(2) A=Int32(1)"),
        (r#","a":2,"A":1"#, "a=Int32(2) A=Int32(1)"),
    ]);
}

#[test]
fn values_with_annotations() {
    for (value, kind, expected) in [
        (r#""x""#, "Edm.String", r#""x""#),
        ("3", "Edm.String", "InvalidInput"),
        ("3", "Edm.Int32", "Int32(3)"),
        (r#""3""#, "Edm.Int32", "Int32(3)"),
        ("3.0", "Edm.Int32", "InvalidInput"),
        ("2147483648", "Edm.Int32", "InvalidInput"),
        ("true", "Edm.Int32", "InvalidInput"),
        (r#""9007199254740993""#, "Edm.Int64", "Int64(9007199254740993)"),
        ("9007199254740993", "Edm.Int64", "Int64(9007199254740993)"),
        (r#""9223372036854775808""#, "Edm.Int64", "InvalidInput"),
        (r#""x""#, "Edm.Int64", "InvalidInput"),
        ("1.0", "Edm.Int64", "InvalidInput"),
        ("3", "Edm.Double", "Double(3.0)"),
        ("1.5", "Edm.Double", "Double(1.5)"),
        (r#""NaN""#, "Edm.Double", "Double(NaN)"),
        (r#""Infinity""#, "Edm.Double", "Double(inf)"),
        (r#""-Infinity""#, "Edm.Double", "Double(-inf)"),
        (r#""-0.0""#, "Edm.Double", "Double(0.0)"),
        (r#""1e400""#, "Edm.Double", "InvalidInput"),
        (r#""x""#, "Edm.Double", "InvalidInput"),
        ("true", "Edm.Boolean", "Boolean(true)"),
        (r#""false""#, "Edm.Boolean", "Boolean(false)"),
        ("1", "Edm.Boolean", "InvalidInput"),
        (r#""2026-01-02T03:04:05.100000Z""#, "Edm.DateTime", "2026-01-02T03:04:05.1Z"),
        (r#""2026-01-02T03:04:05+01:00""#, "Edm.DateTime", "2026-01-02T02:04:05Z"),
        (r#""soon""#, "Edm.DateTime", "InvalidInput"),
        ("5", "Edm.DateTime", "InvalidInput"),
        (r#""1600-12-31T00:00:00Z""#, "Edm.DateTime", "OutOfRangeInput"),
        (r#""8C1BAC20-4ed1-4f3b-9a0e-0123456789ab""#, "Edm.Guid", "8c1bac20-4ed1-4f3b-9a0e-0123456789ab"),
        (r#""8C1BAC20""#, "Edm.Guid", "InvalidInput"),
        (r#""AQL\/""#, "Edm.Binary", "Binary([1, 2, 255])"),
        (r#""A""#, "Edm.Binary", "InvalidInput"),
        (r#""x""#, "Edm.Decimal", "InvalidInput"),
        ("3", "Edm.Single", "InvalidInput"),
        ("3", "Edm.Int16", "InvalidInput"),
        ("3", "Edm.Byte", "InvalidInput"),
        (r#""x""#, "Edm.Time", "InvalidInput"),
        (r#""x""#, "Edm.DateTimeOffset", "InvalidInput"),
        (r#""x""#, "String", "InvalidInput"),
        (r#""x""#, "", "InvalidInput"),
    ] {
        let expected = if expected.ends_with("Input") {
            expected.to_owned()
        } else {
            format!("A={expected} B=Int32(1)")
        };
        let annotation = format!(r#""A@odata.type":"{kind}""#);
        for members in [
            format!(r#",{annotation},"A":{value},"B":1"#),
            format!(r#","A":{value},{annotation},"B":1"#),
            format!(r#","A":{value},"B":1,{annotation}"#),
            format!(r#",{annotation},"C":null,"A":{value},"B":1"#),
            format!(r#","\u0041@odata.type":"{kind}","A":{value},"B":1"#),
        ] {
            assert_eq!(decoded(&members), expected, "{members}");
        }
    }
}

#[test]
fn members_that_are_not_properties() {
    check(&[
        (r#","Timestamp":"2020-01-01T00:00:00Z","Timestamp@odata.type":"Edm.DateTime""#, ""),
        (r#","Timestamp":null"#, ""),
        (r#","Timestamp":[{"x":1}],"Timestamp@odata.type":7"#, ""),
        (r#","odata.etag":"W/\"x\"","odata.metadata":{"x":[]},"odata.type":"d1.Orders""#, ""),
        (r#","A@odata.other":"x","A":1"#, "A=Int32(1)"),
        (r#","PartitionKey@odata.type":"Edm.String","RowKey@odata.type":"Edm.String""#, ""),
        (r#","PartitionKey@odata.type":"Edm.Int32""#, ""),
        (r#","RowKey@odata.type":"Edm.Guid""#, ""),
        (r#","RowKey@odata.type":"Edm.Nothing""#, "InvalidInput"),
        (r#","A@odata.type":"Edm.Int64""#, ""),
        (r#","A@odata.type":"Edm.Int64","A":null"#, ""),
        (r#","A":null,"A@odata.type":"Edm.Binary","B@odata.type":"Edm.Int64","B":"1""#, "B=Int64(1)"),
        (r#","A@odata.type":5,"A":1"#, "InvalidInput"),
        (r#","A@odata.type":null,"A":1"#, "InvalidInput"),
        (r#","A@b":1"#, "PropertyNameInvalid"),
    ]);
}

#[test]
fn keys() {
    let keys = |body: &str| {
        decode_entity(body.as_bytes(), KeysIn::Address)
            .map(|entity| (entity.partition_key, entity.row_key))
            .map_err(|error| error.code.name())
    };
    let some = |text: &str| Some(text.to_owned());
    for (body, expected) in [
        (r#"{}"#, Ok((None, None))),
        (r#"{"RowKey":"r"}"#, Ok((None, some("r")))),
        (r#"{"PartitionKey":null,"RowKey":""}"#, Ok((None, some("")))),
        (r#"{"PartitionKey":"a/b","RowKey":"\u00e4"}"#, Ok((some("a/b"), some("ä")))),
        (
            r#"{"PartitionKey@odata.type":"Edm.Guid","PartitionKey":"x","RowKey@odata.type":"Edm.DateTime"}"#,
            Ok((some("x"), None)),
        ),
        (r#"{"PartitionKey@odata.type":"Edm.Nothing","PartitionKey":"x"}"#, Err("InvalidInput")),
        (r#"{"PartitionKey":1,"RowKey":"r"}"#, Err("InvalidInput")),
        (r#"{"PartitionKey":"p","RowKey":true}"#, Err("InvalidInput")),
        (r#"{"PartitionKey":["p"]}"#, Err("InvalidInput")),
        (r#"{"PartitionKey":"p","PartitionKey":"p"}"#, Err("DuplicatePropertiesSpecified")),
        (r#"{"RowKey":null,"RowKey":"p"}"#, Err("DuplicatePropertiesSpecified")),
    ] {
        assert_eq!(keys(body), expected, "{body}");
    }
}

#[test]
fn keys_of_an_insert_are_texts() {
    for (kind, good) in [("Edm.String", true), ("Edm.Guid", false), ("Edm.DateTime", false)] {
        let body = format!(r#"{{"PartitionKey":"p","RowKey@odata.type":"{kind}","RowKey":"r"}}"#);
        assert_eq!(decode_entity(body.as_bytes(), KeysIn::Body).is_ok(), good, "{kind}");
    }
}

#[test]
fn duplicates_and_names() {
    check(&[
        (r#","A":1,"A":2"#, "DuplicatePropertiesSpecified"),
        (r#","A":1,"\u0041":"x""#, "DuplicatePropertiesSpecified"),
        (r#","A":null,"A":2"#, "DuplicatePropertiesSpecified"),
        (r#","A":2,"B":1,"A":null"#, "DuplicatePropertiesSpecified"),
        (r#","A":null,"A":null"#, "DuplicatePropertiesSpecified"),
        (r#","a-b":1"#, "PropertyNameInvalid"),
        (r#","":1"#, "PropertyNameInvalid"),
        (r#","1a":1"#, "PropertyNameInvalid"),
        // What cannot be read comes before everything else.
        (r#","A":1,"A":2,"B":[]"#, "InvalidInput"),
        (r#","a-b":1,"C":"x","C@odata.type":"Edm.Int64""#, "InvalidInput"),
    ]);
    let error = decode_entity(b"{", KeysIn::Address).unwrap_err();
    assert_eq!(error.message(), "An error occurred while processing this request.");
}

#[test]
fn limits_in_their_order() {
    let many = |count: usize| (0..count).map(|i| format!(r#","P{i}":{i}"#)).collect::<String>();
    let long_text = |units: usize| format!(r#","L":"{}""#, "ä".repeat(units));
    let long_name = format!(r#","{}":1"#, "n".repeat(256));
    let early = r#","D":"0001-01-01T00:00:00","D@odata.type":"Edm.DateTime""#;
    assert!(decoded(&many(252)).starts_with("P0=Int32(0) P1"));
    assert!(decoded(&long_text(32 * 1024)).starts_with("L="));
    assert!(decoded(&format!(r#","{}":1"#, "ä".repeat(255))).contains("=Int32(1)"));
    for (case, members, expected) in [
        ("count", many(253), "TooManyProperties"),
        ("value", long_text(32 * 1024 + 1), "PropertyValueTooLarge"),
        ("name", long_name.clone(), "PropertyNameTooLong"),
        ("date", early.to_owned(), "OutOfRangeInput"),
        ("value before name", long_name.clone() + &long_text(40_000), "PropertyValueTooLarge"),
        ("name before count", long_name.clone() + &many(300), "PropertyNameTooLong"),
        ("date before value", long_text(40_000) + early, "OutOfRangeInput"),
        ("twice before all", long_name + early + r#","A":1,"A":1"#, "DuplicatePropertiesSpecified"),
        ("syntax after too many", many(300) + ",", "InvalidInput"),
    ] {
        assert_eq!(decoded(&members), expected, "{case}");
    }
    let error = decode_entity(format!("{{{}}}", &early[1..]).as_bytes(), KeysIn::Address).unwrap_err();
    assert_eq!(error.message(), "The 'D' parameter of value '01/01/0001 00:00:00' is out of range.");
    let nulls = (0..600).map(|i| format!(r#","N{i}":null"#)).collect::<String>();
    assert_eq!(decoded(&(nulls + r#","A":1"#)), "A=Int32(1)");
}

#[test]
fn bodies_of_four_mebibytes_are_judged_quickly() {
    let started = std::time::Instant::now();
    let numbered = |form: fn(usize) -> String| (0..300_000).map(form).collect::<String>();
    for (case, members, expected) in [
        ("properties", numbered(|i| format!(r#","P{i:x}":1"#)), "TooManyProperties"),
        ("the same one", numbered(|_| r#","P":1"#.to_owned()), "DuplicatePropertiesSpecified"),
        ("nulls", numbered(|i| format!(r#","P{i:x}":null"#)), "TooManyProperties"),
        ("annotations", numbered(|i| format!(r#","P{i:x}@odata.type":"Edm.Int64""#)), "TooManyProperties"),
        ("braces", format!(",\"A\":{}", "{\"a\":".repeat(800_000)), "InvalidInput"),
        ("brackets", format!(",\"Timestamp\":{}", "[".repeat(4_000_000)), "InvalidInput"),
    ] {
        assert_eq!(decoded(&members), expected, "{case}");
    }
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn table_names() {
    let name = |body: &str| decode_table_name(body.as_bytes()).map_err(|error| error.code.name());
    for (body, expected) in [
        (r#"{"TableName":"Orders"}"#, Ok(Some("Orders".to_owned()))),
        (r#"{"odata.metadata":"x", "TableName" : "my_table" }"#, Ok(Some("my_table".to_owned()))),
        (r#"{}"#, Ok(None)),
        (r#"{"TableName":null}"#, Ok(None)),
        (r#"{"tablename":"x"}"#, Ok(None)),
        (r#"{"TableName":3}"#, Err("InvalidInput")),
        (r#"{"TableName":"a","TableName":"b"}"#, Err("DuplicatePropertiesSpecified")),
        ("", Err("InvalidInput")),
        ("x", Err("InvalidInput")),
    ] {
        assert_eq!(name(body), expected, "{body}");
    }
}

proptest! {
    #[test]
    fn any_bytes_decode_or_not(body in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = (decode_entity(&body, KeysIn::Address), decode_table_name(&body));
    }

    #[test]
    fn damaged_entities_decode_or_not(at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
        let mut body = r#"{"PartitionKey":"p","RowKey":"r","S":"\u00e4ä","I":-3,"L@odata.type":"Edm.Int64","L":"9","D":1.5e3,"N":null,"T":"2026-01-02T03:04:05.1Z","T@odata.type":"Edm.DateTime","B":"AQI=","B@odata.type":"Edm.Binary"}"#.to_owned().into_bytes();
        let at = at.index(body.len());
        body[at] = byte;
        let _ = decode_entity(&body, KeysIn::Address);
        body.remove(at);
        let _ = decode_entity(&body, KeysIn::Address);
    }
}
