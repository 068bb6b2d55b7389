//! Entities there and back, and what is generated for them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use serde::{Deserialize, Serialize};
use tepui_client::entity::typed::TypedEntity;
use tepui_client::entity::{Properties, PropertiesBuilder, ValueRef};
use tepui_client::key::KeyRange;
use tepui_client::{
    DynamicEntity, ETag, Entity, EntityEnum, EntityKey, ErrorKind, Guid, ReplaceEntity, StoredEntity,
    Timestamp,
};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Employees", closed, rename_all = "PascalCase")]
#[key(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
    age: Option<i32>,
    #[property("Mail")]
    email: String,
    #[property(as = "String")]
    badge: u64,
    #[json]
    tags: Vec<String>,
    #[json]
    home: Option<Address>,
    #[skip]
    is_selected: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Address {
    city: String,
}

/// Every type that a property can have.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Values")]
#[key(partition = "all", row = "{guid}")]
struct Values {
    guid: Guid,
    a: i8,
    b: i16,
    c: i32,
    d: u8,
    e: u16,
    f: u32,
    g: i64,
    h: f64,
    i: bool,
    j: String,
    k: Timestamp,
    l: Guid,
    m: Vec<u8>,
    n: Option<Vec<u8>>,
    #[rest]
    others: Properties,
}

/// Every kind of part that a key can have.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Parts")]
#[key(
    partition = "{at:seconds}_{user:hash16}_{user:ordered} {level:signed}{share:float}",
    row = "{at:desc}_{sequence:04}_{name}"
)]
struct Parts {
    user: String,
    level: i16,
    share: f64,
    at: Timestamp,
    sequence: u16,
    name: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Employees")]
#[key(partition = "{department}", row = "{path:ordered} {id:06}_{year:04}_{topic}")]
struct Review {
    department: String,
    path: String,
    id: u32,
    year: u16,
    topic: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "employees")]
#[key(partition = "{department}", row = "department")]
struct Department {
    department: String,
    employees: i32,
}

/// The kinds of one table.
#[derive(EntityEnum, Debug, Clone, PartialEq)]
enum Staff {
    Employee(Employee),
    Department(Department),
    #[other]
    Other(DynamicEntity),
}

#[derive(EntityEnum, Debug, Clone, PartialEq)]
enum Known {
    Employee(Employee),
    Department(Department),
}

fn employee() -> Employee {
    Employee {
        department: "Sales".to_owned(),
        id: 223,
        last_name: "Cao".to_owned(),
        age: Some(34),
        email: "junc@contoso.com".to_owned(),
        badge: u64::MAX,
        tags: vec!["a".to_owned()],
        home: Some(Address { city: "Redmond".to_owned() }),
        is_selected: false,
    }
}

fn values() -> Values {
    Values {
        guid: Guid([7; 16]),
        a: i8::MIN,
        b: i16::MAX,
        c: i32::MIN,
        d: u8::MAX,
        e: u16::MAX,
        f: u32::MAX,
        g: i64::MIN,
        h: -0.5,
        i: true,
        j: "é😀".to_owned(),
        k: Timestamp::UNIX_EPOCH,
        l: Guid([1; 16]),
        m: vec![0, 255],
        n: None,
        others: DynamicEntity::new("", "").with("Other", 1).to_properties().unwrap(),
    }
}

fn parts() -> Parts {
    Parts {
        user: "a/b c".to_owned(),
        level: -3,
        share: 0.25,
        at: Timestamp::parse_iso("2026-03-10T08:15:30Z").unwrap(),
        sequence: 7,
        name: "x_y".to_owned(),
    }
}

fn stored<E: Entity>(entity: &E) -> StoredEntity {
    StoredEntity {
        key: entity.entity_key().unwrap(),
        etag: ETag::new("W/\"1\""),
        timestamp: None,
        properties: entity.to_properties().unwrap(),
    }
}

#[test]
fn entities_there_and_back() {
    assert_eq!(Employee::from_stored(&stored(&employee())).unwrap(), employee());
    let absent = Employee { age: None, home: None, ..employee() };
    assert_eq!(Employee::from_stored(&stored(&absent)).unwrap(), absent);
    assert_eq!(Values::from_stored(&stored(&values())).unwrap(), values());
    assert_eq!(Parts::from_stored(&stored(&parts())).unwrap(), parts());
    let selected = Employee { is_selected: true, ..employee() };
    assert_eq!(Employee::from_stored(&stored(&selected)).unwrap(), employee(), "skipped");
}

#[test]
fn keys() {
    assert_eq!(Employee::key("Sales", 223).unwrap(), EntityKey::new("Sales", "empid_000223"));
    assert_eq!(Employee::TABLE, "Employees");
    let parts = parts().entity_key().unwrap();
    assert!(
        parts.partition_key.starts_with("30_")
            && parts.partition_key.contains("_a.1b!Wc 7ffffffffffffffdbfd"),
        "{parts:?}"
    );
    let too_large = Employee::key("Sales", 1_000_000).unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::KeyInvalid);
    assert_eq!(too_large.to_string(), "the number does not fit into 6 digits: 1000000");
    assert_eq!(Employee::key("a/b", 1).unwrap_err().kind(), ErrorKind::KeyInvalid);
}

#[test]
fn properties_have_their_exact_type() {
    let properties = values().to_properties().unwrap();
    let types: Vec<_> =
        properties.iter().map(|(name, value)| format!("{name} {}", &value.edm_type().name()[4..])).collect();
    let expected = "a Int32, b Int32, c Int32, d Int32, e Int32, f Int64, g Int64, h Double, i Boolean, j String, \
                    k DateTime, l Guid, m Binary, Other Int32";
    assert_eq!(types.join(", "), expected);
    let names: Vec<_> = employee().to_properties().unwrap().iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["LastName", "Age", "Mail", "Badge", "Tags", "Home"], "without parts of keys");
}

#[test]
fn what_is_something_else_is_not_read() {
    let whole = stored(&employee());
    let with = |name: &str, value: Option<ValueRef<'_>>| {
        let mut builder = PropertiesBuilder::new();
        for (known, old) in whole.properties.iter().filter(|(known, _)| *known != name) {
            builder.push(known, old).unwrap();
        }
        if let Some(value) = value {
            builder.push(name, value).unwrap();
        }
        StoredEntity { properties: builder.finish(), ..whole.clone() }
    };
    let key =
        |partition: &str, row: &str| StoredEntity { key: EntityKey::new(partition, row), ..whole.clone() };
    for (case, stored, message) in [
        ("missing", with("LastName", None), "the property is missing: LastName"),
        (
            "another type",
            with("Age", Some(ValueRef::string("34"))),
            "the property is of type Edm.String, or too large, and not of Edm.Int32: Age",
        ),
        (
            "no number",
            with("Badge", Some(ValueRef::string("x"))),
            "the property cannot be parsed (invalid digit found in string): Badge",
        ),
        (
            "not JSON",
            with("Tags", Some(ValueRef::string("1"))),
            "the property is not the expected JSON (invalid type: integer `1`, expected a sequence at line 1 column 1): Tags",
        ),
        (
            "more than is known",
            with("Added", Some(ValueRef::Int32(1))),
            "a closed entity has a property that its type does not know: Added",
        ),
        (
            "another kind",
            key("Sales", "depid_1"),
            "the key has something else in place of \"empid_\": \"depid_1\"",
        ),
        ("longer", key("Sales", "empid_0002231"), "the key has something else in place of the end: \"1\""),
    ] {
        let error = Employee::from_stored(&stored).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Decode, message), "{case}");
    }
    let mut moved = stored(&parts());
    moved.key.partition_key = moved.key.partition_key.replacen("30_", "31_", 1);
    let error = Parts::from_stored(&moved).unwrap_err();
    assert!(error.to_string().starts_with("the key does not agree with its parts"), "{error}");
}

#[test]
fn ranges_that_keys_can_answer() {
    let range = Employee::rows_between_id(100, 199).unwrap();
    assert_eq!(range, KeyRange { start: "empid_000100".to_owned(), end: Some("empid_00019:".to_owned()) });
    let all = Review::rows_with_id("a", 12).unwrap();
    assert_eq!(all.start, "a 000012_");
    assert_eq!(Review::rows_with_path("a b").unwrap().start, "a!Wb ");
    assert_eq!(Review::rows_beginning_path("a ").unwrap().start, "a!W");
    assert_eq!(Review::rows_beginning_topic("a", 12, 2012, "x").unwrap().start, "a 000012_2012_x");
    let (early, late) = (Timestamp::UNIX_EPOCH, Timestamp::parse_iso("2026-03-10").unwrap());
    let between = Parts::rows_between_at(early, late).unwrap();
    for (at, is_within) in [(early, true), (late, true), (Timestamp::MIN, false), (Timestamp::MAX, false)] {
        let row = Parts::row_key(at, 1, "x").unwrap();
        assert_eq!(between.contains(&row), is_within, "{at}");
    }
}

#[test]
fn filters_of_columns() {
    let filter = Employee::AGE.gt(30);
    let is_met = |age| {
        let entity = stored(&Employee { age, ..employee() });
        let timestamp = Timestamp::UNIX_EPOCH;
        let entity = tepui_model::table::Entity { key: entity.key, timestamp, properties: entity.properties };
        filter.matches(&entity.view())
    };
    assert_eq!([is_met(Some(30)), is_met(Some(31)), is_met(None)], [false, true, false]);
    assert_eq!(
        (Employee::EMAIL.name(), Employee::EMAIL.eq("x")),
        ("Mail", Employee::EMAIL.eq("x".to_owned()))
    );
}

#[test]
fn only_what_knows_all_properties_replaces() {
    fn can_replace<E: ReplaceEntity>() {}
    can_replace::<Employee>();
    can_replace::<Values>();
}

#[test]
fn kinds_of_one_table() {
    let other = DynamicEntity::new("Sales", "x_1").with("A", 1);
    let department = Department { department: "Sales".to_owned(), employees: 3 };
    for kind in
        [Staff::Employee(employee()), Staff::Department(department.clone()), Staff::Other(other.clone())]
    {
        assert_eq!(Staff::from_stored(&stored(&kind)).unwrap(), kind);
    }
    assert_eq!(Known::from_stored(&stored(&department)).unwrap(), Known::Department(department));
    let error = Known::from_stored(&stored(&other)).unwrap_err();
    assert_eq!(error.to_string(), "the entity is of no known kind: \"Sales\" \"x_1\"");
    assert_eq!(Staff::TABLE, "Employees");
}
