use super::*;
use crate::table::json::{KeysIn, decode_entity};
use proptest::prelude::*;
use tepui_model::etag;
use tepui_model::table::{Entity, EntityKey, Guid, PropertiesBuilder};

const LINKS: TableLinks<'_> =
    TableLinks { base: "http://127.0.0.1:10002/d1", account: "d1", table: "Orders" };

fn entity(partition_key: &str, row_key: &str, properties: &[(&str, ValueRef<'_>)]) -> Entity {
    let mut builder = PropertiesBuilder::new();
    for (name, value) in properties {
        builder.push(name, *value).unwrap();
    }
    Entity {
        key: EntityKey::new(partition_key, row_key),
        timestamp: Timestamp::parse_iso("2026-03-10T08:15:30.5Z").unwrap(),
        properties: builder.finish(),
    }
}

/// The entity of the examples.
fn order() -> Entity {
    let big = ValueRef::Int64(9_007_199_254_740_993);
    entity("p1", "r1", &[("Qty", ValueRef::Int32(3)), ("Price", ValueRef::Double(2.0)), ("Big", big)])
}

fn one(level: MetadataLevel, select: &str, entity: &Entity) -> String {
    let select = Select::parse(select).unwrap();
    String::from_utf8(entity_body(level, &LINKS, &select, &entity.view())).unwrap()
}

fn set(level: MetadataLevel, select: &str, entities: &[Entity]) -> String {
    let mut writer = EntityWriter::set(level, &LINKS, Select::parse(select).unwrap());
    for entity in entities {
        writer.accept(&entity.view());
    }
    String::from_utf8(writer.finish().into_whole()).unwrap()
}

/// Others read a number without a fraction as an Int32.
#[test]
fn requests_say_that_whole_numbers_are_doubles() {
    let numbers =
        [("Whole", ValueRef::Double(3.0)), ("Half", ValueRef::Double(0.5)), ("Int", ValueRef::Int32(3))];
    let Entity { key, properties, .. } = entity("p", "r", &numbers);
    assert_eq!(
        String::from_utf8(entity_request(&key, &properties)).unwrap(),
        r#"{"PartitionKey":"p","RowKey":"r","Whole@odata.type":"Edm.Double","Whole":3.0,"Half":0.5,"Int":3}"#
    );
}

#[test]
fn one_entity_at_each_level() {
    assert_eq!(
        one(MetadataLevel::None, "", &order()),
        r#"{"PartitionKey":"p1","RowKey":"r1","Timestamp":"2026-03-10T08:15:30.5Z","Qty":3,"Price":2.0,"Big":"9007199254740993"}"#
    );
    assert_eq!(
        one(MetadataLevel::Minimal, "", &order()),
        concat!(
            r#"{"odata.metadata":"http://127.0.0.1:10002/d1/$metadata#Orders/@Element","#,
            r#""odata.etag":"W/\"datetime'2026-03-10T08%3A15%3A30.5Z'\"","#,
            r#""PartitionKey":"p1","RowKey":"r1","Timestamp":"2026-03-10T08:15:30.5Z","Qty":3,"Price":2.0,"#,
            r#""Big@odata.type":"Edm.Int64","Big":"9007199254740993"}"#
        )
    );
    assert_eq!(
        one(MetadataLevel::Full, "", &order()),
        concat!(
            r#"{"odata.metadata":"http://127.0.0.1:10002/d1/$metadata#Orders/@Element","#,
            r#""odata.type":"d1.Orders","#,
            r#""odata.id":"http://127.0.0.1:10002/d1/Orders(PartitionKey='p1',RowKey='r1')","#,
            r#""odata.etag":"W/\"datetime'2026-03-10T08%3A15%3A30.5Z'\"","#,
            r#""odata.editLink":"Orders(PartitionKey='p1',RowKey='r1')","#,
            r#""PartitionKey":"p1","RowKey":"r1","#,
            r#""Timestamp@odata.type":"Edm.DateTime","Timestamp":"2026-03-10T08:15:30.5Z","Qty":3,"Price":2.0,"#,
            r#""Big@odata.type":"Edm.Int64","Big":"9007199254740993"}"#
        )
    );
}

#[test]
fn sets() {
    let (a, b) = (entity("o'k", "ä\"", &[]), entity("", "", &[]));
    assert_eq!(set(MetadataLevel::None, "", &[]), r#"{"value":[]}"#);
    assert_eq!(
        set(MetadataLevel::Minimal, "", &[]),
        r#"{"odata.metadata":"http://127.0.0.1:10002/d1/$metadata#Orders","value":[]}"#
    );
    assert_eq!(
        set(MetadataLevel::None, "", &[a.clone(), b.clone()]),
        concat!(
            r#"{"value":[{"PartitionKey":"o'k","RowKey":"\u00e4\"","Timestamp":"2026-03-10T08:15:30.5Z"},"#,
            r#"{"PartitionKey":"","RowKey":"","Timestamp":"2026-03-10T08:15:30.5Z"}]}"#
        )
    );
    let full = set(MetadataLevel::Full, "", &[a, b]);
    assert!(full.contains(r#"{"odata.type":"d1.Orders","odata.id":"http://127.0.0.1:10002/d1/Orders(PartitionKey='o''k',RowKey='%C3%A4%22')","odata.etag":"#));
    assert!(full.contains(r#""odata.editLink":"Orders(PartitionKey='',RowKey='')","PartitionKey":"","#));
}

#[test]
fn selected_properties() {
    let etag = r#""odata.etag":"W/\"datetime'2026-03-10T08%3A15%3A30.5Z'\"""#;
    let metadata = r#""odata.metadata":"http://127.0.0.1:10002/d1/$metadata#Orders/@Element&$select="#;
    for (level, select, expected) in [
        (
            MetadataLevel::Minimal,
            "Qty,Nope",
            format!(r#"{{{metadata}Qty,Nope",{etag},"Qty":3,"Nope":null}}"#),
        ),
        (
            MetadataLevel::Minimal,
            "Timestamp",
            format!(r#"{{{metadata}Timestamp",{etag},"Timestamp":"2026-03-10T08:15:30.5Z"}}"#),
        ),
        (
            MetadataLevel::Minimal,
            "age, sex",
            format!(r#"{{{metadata}age,%20sex",{etag},"age":null,"sex":null}}"#),
        ),
        (
            MetadataLevel::Minimal,
            "odata.etag,etag",
            format!(r#"{{{metadata}odata.etag,etag",{etag},"etag":null}}"#),
        ),
        (MetadataLevel::None, "odata.etag", r#"{"odata.etag":null}"#.to_owned()),
        (
            MetadataLevel::None,
            "Big, RowKey ,PartitionKey,Big",
            r#"{"PartitionKey":"p1","RowKey":"r1","Big":"9007199254740993"}"#.to_owned(),
        ),
        (MetadataLevel::None, "qty", r#"{"qty":null}"#.to_owned()),
        (MetadataLevel::None, "\"x\"", r#"{"\"x\"":null}"#.to_owned()),
        (MetadataLevel::None, "*", one(MetadataLevel::None, "", &order())),
    ] {
        assert_eq!(one(level, select, &order()), expected, "{select}");
    }
    assert_eq!(
        set(MetadataLevel::Minimal, "age, sex", &[]),
        r#"{"odata.metadata":"http://127.0.0.1:10002/d1/$metadata#Orders&$select=age,%20sex","value":[]}"#
    );
}

#[test]
fn values_of_each_type() {
    let when = Timestamp::parse_iso("2026-01-02T03:04:05.1Z").unwrap();
    let guid = Guid::parse("8C1BAC20-4ed1-4f3b-9a0e-0123456789ab").unwrap();
    for (value, kind, expected) in [
        (ValueRef::string("x"), None, r#""x""#),
        (ValueRef::string("<a href=\"/\">"), None, r#""<a href=\"/\">""#),
        (ValueRef::string("ä😀\u{1}"), None, r#""\u00e4\ud83d\ude00\u0001""#),
        (ValueRef::Int32(-7), None, "-7"),
        (ValueRef::Int64(-7), Some("Edm.Int64"), r#""-7""#),
        (ValueRef::Double(3.0), None, "3.0"),
        (ValueRef::Double(1e20), None, "1E+20"),
        (ValueRef::Double(f64::NAN), Some("Edm.Double"), r#""NaN""#),
        (ValueRef::Double(f64::INFINITY), Some("Edm.Double"), r#""Infinity""#),
        (ValueRef::Double(f64::NEG_INFINITY), Some("Edm.Double"), r#""-Infinity""#),
        (ValueRef::Boolean(true), None, "true"),
        (ValueRef::Boolean(false), None, "false"),
        (ValueRef::DateTime(when), Some("Edm.DateTime"), r#""2026-01-02T03:04:05.1Z""#),
        (ValueRef::Guid(guid), Some("Edm.Guid"), r#""8c1bac20-4ed1-4f3b-9a0e-0123456789ab""#),
        (ValueRef::Binary(&[1, 2]), Some("Edm.Binary"), r#""AQI=""#),
        (ValueRef::Binary(&[]), Some("Edm.Binary"), r#""""#),
    ] {
        let entity = entity("p", "r", &[("Ä", value)]);
        assert!(one(MetadataLevel::None, "", &entity).ends_with(&format!(r#"30.5Z","\u00c4":{expected}}}"#)));
        let annotated = match kind {
            Some(kind) => format!(r#"30.5Z","\u00c4@odata.type":"{kind}","\u00c4":{expected}}}"#),
            None => format!(r#"30.5Z","\u00c4":{expected}}}"#),
        };
        assert!(one(MetadataLevel::Minimal, "", &entity).ends_with(&annotated), "{value:?}");
        assert!(one(MetadataLevel::Full, "", &entity).ends_with(&annotated), "{value:?}");
    }
}

#[test]
fn tables() {
    let names = ["Orders".to_owned(), "People".to_owned()];
    for (level, expected) in [
        (MetadataLevel::None, r#"{"value":[{"TableName":"Orders"},{"TableName":"People"}]}"#),
        (
            MetadataLevel::Minimal,
            r#"{"odata.metadata":"http://h/$metadata#Tables","value":[{"TableName":"Orders"},{"TableName":"People"}]}"#,
        ),
        (
            MetadataLevel::Full,
            concat!(
                r#"{"odata.metadata":"http://h/$metadata#Tables","value":["#,
                r#"{"odata.type":"d1.Tables","odata.id":"http://h/Tables('Orders')","odata.editLink":"Tables('Orders')","TableName":"Orders"},"#,
                r#"{"odata.type":"d1.Tables","odata.id":"http://h/Tables('People')","odata.editLink":"Tables('People')","TableName":"People"}]}"#
            ),
        ),
    ] {
        assert_eq!(String::from_utf8(tables_body(level, "http://h", "d1", &names)).unwrap(), expected);
    }
    assert_eq!(tables_body(MetadataLevel::None, "http://h", "d1", &[]), br#"{"value":[]}"#);
    for (level, expected) in [
        (MetadataLevel::None, r#"{"TableName":"T"}"#),
        (
            MetadataLevel::Minimal,
            r#"{"odata.metadata":"http://h/$metadata#Tables/@Element","TableName":"T"}"#,
        ),
        (
            MetadataLevel::Full,
            r#"{"odata.metadata":"http://h/$metadata#Tables/@Element","odata.type":"d1.Tables","odata.id":"http://h/Tables('T')","odata.editLink":"Tables('T')","TableName":"T"}"#,
        ),
    ] {
        assert_eq!(String::from_utf8(table_body(level, "http://h", "d1", "T")).unwrap(), expected);
    }
}

#[derive(Debug, Clone)]
enum Owned {
    String(String),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Boolean(bool),
    DateTime(Timestamp),
    Guid([u8; 16]),
    Binary(Vec<u8>),
}

impl Owned {
    fn view(&self) -> ValueRef<'_> {
        match self {
            Self::String(text) => ValueRef::string(text),
            Self::Int32(number) => ValueRef::Int32(*number),
            Self::Int64(number) => ValueRef::Int64(*number),
            Self::Double(number) => ValueRef::Double(*number),
            Self::Boolean(answer) => ValueRef::Boolean(*answer),
            Self::DateTime(moment) => ValueRef::DateTime(*moment),
            Self::Guid(bytes) => ValueRef::Guid(Guid(*bytes)),
            Self::Binary(bytes) => ValueRef::Binary(bytes),
        }
    }
}

fn value() -> impl Strategy<Value = Owned> {
    let ticks = Timestamp::EARLIEST_STORABLE.ticks()..=Timestamp::MAX.ticks();
    prop_oneof![
        any::<String>().prop_map(Owned::String),
        "[a-z ]{0,40}".prop_map(Owned::String),
        any::<i32>().prop_map(Owned::Int32),
        any::<i64>().prop_map(Owned::Int64),
        // NaN has many forms, of which one is kept; JSON has no negative zero.
        any::<f64>().prop_map(|number| Owned::Double(if number.is_nan() { f64::NAN } else { number + 0.0 })),
        (-1000..1000).prop_map(|number| Owned::Double(f64::from(number) / 8.0)),
        any::<bool>().prop_map(Owned::Boolean),
        ticks.prop_map(|ticks| Owned::DateTime(Timestamp::from_ticks(ticks).unwrap())),
        any::<[u8; 16]>().prop_map(Owned::Guid),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(Owned::Binary),
    ]
}

proptest! {
    #[test]
    fn written_entities_decode_to_themselves(
        partition_key in any::<String>(),
        row_key in any::<String>(),
        values in proptest::collection::hash_map("[A-Za-z_ä][A-Za-z0-9ô]{0,8}", value(), 0..8),
    ) {
        let reserved = ["PartitionKey", "RowKey", "Timestamp"];
        let values: Vec<_> = values.iter().filter(|(name, _)| !reserved.contains(&name.as_str())).collect();
        let views: Vec<_> = values.iter().map(|(name, value)| (name.as_str(), value.view())).collect();
        let entity = entity(&partition_key, &row_key, &views);
        for level in [MetadataLevel::Minimal, MetadataLevel::Full] {
            let body = one(level, "", &entity);
            let decoded = decode_entity(body.as_bytes(), KeysIn::Address).unwrap();
            prop_assert_eq!(decoded.partition_key.as_deref(), Some(partition_key.as_str()));
            prop_assert_eq!(decoded.row_key.as_deref(), Some(row_key.as_str()));
            prop_assert_eq!(&decoded.properties, &entity.properties, "{}", body);
        }
        // Every level is JSON and pure ASCII, alone and in a set.
        for level in [MetadataLevel::None, MetadataLevel::Minimal, MetadataLevel::Full] {
            for body in [one(level, "", &entity), set(level, "", &[entity.clone(), entity.clone()])] {
                prop_assert!(body.is_ascii());
                let value: serde_json::Value = serde_json::from_str(&body).unwrap();
                let first = value.get("value").map_or(&value, |set| &set[0]);
                let etag = (level != MetadataLevel::None).then(|| etag::to_text(entity.timestamp));
                prop_assert_eq!(first.get("odata.etag").and_then(|text| text.as_str()), etag.as_deref());
            }
        }
    }
}
