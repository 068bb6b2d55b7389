use super::*;
use crate::table::json::{self, receive_entity};
use proptest::prelude::*;
use tepui_model::table::{Guid, ValueRef};

fn receive_entities(body: &[u8]) -> Option<Vec<RemoteEntity>> {
    let mut entities = Vec::new();
    json::receive_entities(body, |entity| entities.push(entity))?;
    Some(entities)
}

/// What the decoder of requests makes of an entity.
fn by_members(body: &str) -> Option<RemoteEntity> {
    let mut reader = Reader::open(body.as_bytes()).ok()?;
    let entity = read_any(&mut reader).ok()?;
    reader.end().ok()?;
    Some(entity)
}

#[test]
fn entities_alike_and_not() {
    let page = r#"{"odata.metadata":"m","value":[
        {"odata.etag":"e1","PartitionKey":"p","RowKey":"1","Timestamp":"2026-01-02T03:04:05Z","A":1,"B@odata.type":"Edm.Int64","B":"5","C":2.0},
        {"odata.etag":"e2","PartitionKey":"p","RowKey":"2","Timestamp":"2026-01-02T03:04:06Z","A":2,"B@odata.type":"Edm.Guid","B":"8c1bac20-4ed1-4f3b-9a0e-0123456789ab","C":3},
        {"odata.etag":"e3","PartitionKey":"p","RowKey":"3","A":"x","B":null, "C" : true},
        {"PartitionKey":"p","RowKey":"4","B":"6","A":4,"B@odata.type":"Edm.Int64","C@odata.type":"Edm.Double","C":3},
        {"PartitionKey":"p","RowKey":"5","B":"6","B@odata.type":"Edm.Int64"},
        {}
    ]}"#;
    let received = receive_entities(page.as_bytes()).unwrap();
    let properties: Vec<Vec<_>> = received.iter().map(|entity| entity.properties.iter().collect()).collect();
    let guid = Guid::parse("8c1bac20-4ed1-4f3b-9a0e-0123456789ab").unwrap();
    let expected = [
        vec![("A", ValueRef::Int32(1)), ("B", ValueRef::Int64(5)), ("C", ValueRef::Double(2.0))],
        vec![("A", ValueRef::Int32(2)), ("B", ValueRef::Guid(guid)), ("C", ValueRef::Int32(3))],
        vec![("A", ValueRef::string("x")), ("C", ValueRef::Boolean(true))],
        vec![("B", ValueRef::Int64(6)), ("A", ValueRef::Int32(4)), ("C", ValueRef::Double(3.0))],
        vec![("B", ValueRef::Int64(6))],
        vec![],
    ];
    assert_eq!(properties, expected);
    let rows: Vec<_> = received.iter().map(|entity| entity.row_key.as_deref()).collect();
    assert_eq!(rows, [Some("1"), Some("2"), Some("3"), Some("4"), Some("5"), None]);
    assert_eq!(received[1].etag.as_deref(), Some("e2"));
    assert_eq!(received[3].etag, None);
}

#[test]
fn refused_behind_one_that_was_read() {
    let good = r#"{"PartitionKey":"p","A@odata.type":"Edm.Int64","A":"5","B":1}"#;
    for bad in [
        r#"{"PartitionKey":"p","A@odata.type":"Edm.Int64","A":"x","B":1}"#,
        r#"{"PartitionKey":"p","A@odata.type":"Edm.Int64","A":"5","B":1,"A":1}"#,
        r#"{"PartitionKey":"p","A@odata.type":"Edm.Int64","A":"5","B":1,"A":null}"#,
        r#"{"PartitionKey":"p","A@odata.type":"Edm.Int64","A":"5","B":[]}"#,
        r#"{"PartitionKey":"p","A@odata.type":"Edm.Int65","A":"5","B":1}"#,
        r#"{"PartitionKey":1,"A@odata.type":"Edm.Int64","A":"5","B":1}"#,
        r#"{"PartitionKey":"p","a b":1}"#,
        r#"{"PartitionKey":"p","A@odata.type":"Edm.Int64","A":"5","B":1,}"#,
        r#"{,"A@odata.type":"Edm.Int64","A":"5","B":1}"#,
        r#"{"PartitionKey":"p""A":1}"#,
    ] {
        let page = |second: &str| format!(r#"{{"value":[{good},{second}]}}"#);
        assert_eq!(receive_entities(page(good).as_bytes()).map(|found| found.len()), Some(2));
        assert_eq!(receive_entities(page(bad).as_bytes()), None, "{bad}");
        assert_eq!(by_members(bad), None, "{bad}");
    }
}

fn member() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "A",
        "B",
        "C",
        "D",
        "\\u0041",
        "Zoë",
        "x y",
        "PartitionKey",
        "RowKey",
        "Timestamp",
        "odata.etag",
        "odata.id",
    ]);
    let kind = prop::sample::select(vec![
        "Edm.String",
        "Edm.Int32",
        "Edm.Int64",
        "Edm.Double",
        "Edm.Boolean",
        "Edm.DateTime",
        "Edm.Guid",
        "Edm.Binary",
        "Edm.Odd",
    ]);
    let value = prop::sample::select(vec![
        "null",
        "true",
        "1",
        "-0",
        "2147483648",
        "2.0",
        "1e3",
        "1e999",
        "\"\"",
        "\"5\"",
        "\"AQL/\"",
        "\"NaN\"",
        "\"true\"",
        "\"a\\nb\"",
        "\"2026-01-02T03:04:05Z\"",
        "\"1500-01-02T03:04:05Z\"",
        "\"8c1bac20-4ed1-4f3b-9a0e-0123456789ab\"",
        "[1]",
    ]);
    let right = prop_oneof![
        Just(r#""A@odata.type":"Edm.Int64","A":"7""#.to_owned()),
        Just(r#""B":"text""#.to_owned()),
        Just(r#""C":2.5"#.to_owned()),
        Just(r#""PartitionKey":"p""#.to_owned()),
        Just(r#""odata.etag":"W/\"1\"""#.to_owned()),
    ];
    (name, kind, value, right, 0..12).prop_map(|(name, kind, value, right, form)| match form {
        0 => format!(r#""{name}@odata.type":"{kind}","{name}":{value}"#),
        1 => format!(r#""{name}":{value},"{name}@odata.type":"{kind}""#),
        2 => format!(r#""{name}@odata.type":"{kind}""#),
        3 => format!(r#" "{name}" : {value} "#),
        4 => format!(r#""{name}@odata.other":{value}"#),
        5 => format!(r#""{name}":{value}"#),
        _ => right,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Both ways of reading agree, whatever entities came before.
    #[test]
    fn agrees_with_members(
        mut entities in prop::collection::vec(prop::collection::vec(member(), 0..6), 1..4),
        again in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        for index in again {
            entities.push(index.get(&entities).clone());
        }
        let objects: Vec<String> = entities.iter().map(|members| format!("{{{}}}", members.join(","))).collect();
        for object in &objects {
            prop_assert_eq!(receive_entity(object.as_bytes()), by_members(object), "{}", object);
        }
        let readable: Vec<&str> =
            objects.iter().map(String::as_str).filter(|object| by_members(object).is_some()).collect();
        let one_by_one: Vec<_> = readable.iter().filter_map(|object| by_members(object)).collect();
        let page = format!(r#"{{"value":[{}]}}"#, readable.join(","));
        prop_assert_eq!(receive_entities(page.as_bytes()), Some(one_by_one), "{}", page);
        let all = format!(r#"{{"value":[{}]}}"#, objects.join(","));
        prop_assert_eq!(receive_entities(all.as_bytes()).is_some(), readable.len() == objects.len(), "{}", all);
    }
}
