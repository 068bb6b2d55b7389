//! Entities there and back, and what is generated for them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use serde::{Deserialize, Serialize};
use tepui_client::entity::typed::{IndexEntry, Projection as _, TypedEntity};
use tepui_client::entity::{Properties, PropertiesBuilder, ReadEntity, ValueRef};
use tepui_client::key::KeyRange;
use tepui_client::patterns::copies::{Copies, CopyRow};
use tepui_client::{
    DynamicEntity, ETag, Entity, EntityEnum, EntityKey, ErrorKind, Guid, Projection, PropertyEnum,
    ReplaceEntity, StoredEntity, Timestamp,
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

#[derive(PropertyEnum, Debug, Clone, Copy, PartialEq)]
enum Status {
    Hired,
    #[property("left-us")]
    Left,
}

/// Large values, and an enum in a key and in properties.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Notes", closed)]
#[key(partition = "{status}", row = "{id:06}")]
struct Note {
    status: Status,
    id: u32,
    before: Option<Status>,
    #[split]
    text: String,
    #[split]
    #[property("Photo")]
    photo: Option<Vec<u8>>,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Staff", kind = "Person")]
#[key(partition = "{department}", row = "{id:06}")]
struct PersonV1 {
    department: String,
    id: u32,
    name: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Staff", kind = "Person", version = 2)]
#[key(partition = "{department}", row = "{id:06}")]
#[upgrade(from = PersonV1)]
struct PersonV2 {
    department: String,
    id: u32,
    first: String,
    last: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Staff", kind = "Person", version = 3, closed)]
#[key(partition = "{department}", row = "{id:06}")]
#[upgrade(from = PersonV2)]
struct Person {
    department: String,
    id: u32,
    #[json]
    names: Vec<String>,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Staff", kind = "Room")]
#[key(partition = "{department}", row = "{id:06}")]
struct Room {
    department: String,
    id: u32,
    #[rest]
    others: Properties,
}

/// Kinds that keys do not tell apart.
#[derive(EntityEnum, Debug, Clone, PartialEq)]
enum PersonOrRoom {
    Person(Person),
    Room(Room),
    #[other]
    Other(DynamicEntity),
}

impl From<PersonV1> for PersonV2 {
    fn from(PersonV1 { department, id, name }: PersonV1) -> Self {
        let (first, last) = name.split_once(' ').unwrap_or(("", &name));
        Self { department, id, first: first.to_owned(), last: last.to_owned() }
    }
}

impl From<PersonV2> for Person {
    fn from(PersonV2 { department, id, first, last }: PersonV2) -> Self {
        Self { department, id, names: vec![first, last] }
    }
}

#[derive(Projection, Debug, PartialEq)]
#[projection(of = Person)]
struct Names {
    names: Vec<String>,
}

/// Indexes in the same partition, in another and in another table, of all and of some fields.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Orders", rename_all = "PascalCase", entry_derive(Debug, PartialEq))]
#[key(partition = "{customer}", row = "order_{id:06}")]
#[index(by_day, row = "day_{at:desc}_{id:06}")]
#[index(by_product, partition = "product_{product}", row = "product_{customer}_{id:06}", fields(amount))]
#[index(recent, table = "Recent", partition = "all", row = "{at:desc} {id:06}_{customer}", fields())]
struct Order {
    customer: String,
    id: u32,
    at: Timestamp,
    product: String,
    amount: i32,
    #[json]
    lines: Vec<String>,
    #[split]
    note: Option<String>,
    #[skip]
    is_open: bool,
    #[rest]
    others: Properties,
}

/// Load that is spread over buckets.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Logins")]
#[key(partition = "{site}_{user:hash16}", row = "{at:desc}_{user}")]
struct Login {
    site: String,
    user: String,
    at: Timestamp,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Logins")]
#[key(partition = "{at:seconds}", row = "{at:asc}")]
struct Event {
    at: Timestamp,
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

fn note(text: &str, photo: Option<usize>) -> Note {
    let photo = photo.map(|bytes| (0..bytes).map(|index| index as u8).collect());
    Note { status: Status::Left, id: 1, before: Some(Status::Hired), text: text.to_owned(), photo }
}

#[test]
fn enums_are_texts() {
    let stored = stored(&note("", None));
    assert_eq!(stored.key, EntityKey::new("left-us", "000001"));
    assert_eq!(stored.properties.get("before"), Some(ValueRef::string("Hired")));
    assert_eq!(Note::BEFORE.eq(Status::Left), tepui_client::filter::property("before").eq("left-us"));
    let other = StoredEntity { key: EntityKey::new("gone", "000001"), ..stored };
    assert_eq!(Note::from_stored(&other).unwrap_err().kind(), ErrorKind::Decode);
}

#[test]
fn large_values_are_split() {
    let half = 32 << 10;
    // A pair of surrogates across the end of a piece stays together.
    let pairs = format!("a{}", "😀".repeat(half));
    let texts = [String::new(), "é".repeat(half), "é".repeat(half + 1), pairs, "x".repeat(half * 7)];
    for (text, pieces) in texts.iter().zip([1, 2, 3, 4, 8]) {
        for bytes in [None, Some(0), Some(1), Some(2 * half), Some(2 * half + 1)] {
            let note = note(text, bytes);
            let stored = stored(&note);
            assert_eq!(Note::from_stored(&stored).unwrap(), note);
            let named = stored.properties.iter().filter(|(name, _)| name.starts_with("text"));
            assert_eq!(named.count(), pieces, "with its end");
            stored.properties.check_entity("left-us", "000001").unwrap();
        }
    }
    // All pieces, and one more.
    assert_eq!(note(&"x".repeat(half * 15), None).to_properties().unwrap().iter().count(), 16);
    let error = note(&"x".repeat(half * 15 + 1), None).to_properties().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

/// What is merged may be shorter than what was there.
#[test]
fn split_values_are_merged() {
    let half = 32 << 10;
    let lengths = [0, 1, half, half + 1, 5 * half, 15 * half - 1, 15 * half];
    for old in lengths {
        for new in lengths {
            let (old, new) = (note(&"o".repeat(old), None), note(&"n".repeat(new), None));
            let mut merged = stored(&old);
            merged.properties = merged.properties.merged_with(&new.to_properties().unwrap());
            assert_eq!(Note::from_stored(&merged).unwrap().text.len(), new.text.len());
            assert_eq!(Note::from_stored(&merged).unwrap(), new);
        }
    }
}

#[test]
fn older_versions_are_upgraded_and_newer_ones_are_left_alone() {
    let department = || "Sales".to_owned();
    let first = PersonV1 { department: department(), id: 7, name: "Jun Cao".to_owned() };
    let second =
        PersonV2 { department: department(), id: 7, first: "Jun".to_owned(), last: "Cao".to_owned() };
    let third = Person { department: department(), id: 7, names: vec!["Jun".to_owned(), "Cao".to_owned()] };
    assert_eq!(stored(&third).properties.get("EntityType"), Some(ValueRef::string("Person/3")));
    for older in [stored(&first), stored(&second), stored(&third)] {
        assert_eq!(Person::from_stored(&older).unwrap(), third);
        assert_eq!(PersonOrRoom::from_stored(&older).unwrap(), PersonOrRoom::Person(third.clone()));
    }
    // Before there were kinds.
    let unsaid = DynamicEntity::new("Sales", "000007").with("name", "Jun Cao");
    assert_eq!(Person::from_stored(&stored(&unsaid)).unwrap(), third);
    assert_eq!(PersonOrRoom::from_stored(&stored(&unsaid)).unwrap(), PersonOrRoom::Other(unsaid));

    let newer = DynamicEntity::new("Sales", "000007").with("EntityType", "Person/4").with("x", 1);
    let error = Person::from_stored(&stored(&newer)).unwrap_err();
    assert!(error.message().contains("newer program"), "{error}");
    let other = PersonOrRoom::from_stored(&stored(&newer)).unwrap();
    assert_eq!(other.to_properties().unwrap(), newer.to_properties().unwrap(), "written back untouched");
    assert_eq!(other, PersonOrRoom::Other(newer));

    let room = Room { department: department(), id: 7, others: Properties::default() };
    assert_eq!(PersonOrRoom::from_stored(&stored(&room)).unwrap(), PersonOrRoom::Room(room.clone()));
    assert_eq!(Person::from_stored(&stored(&room)).unwrap_err().kind(), ErrorKind::Decode);
    let back = Room::from_stored(&stored(&room)).unwrap();
    assert_eq!(back.to_properties().unwrap().iter().count(), 1, "the kind is no other property");

    assert_eq!(Names::properties(), ["names", "EntityType"]);
    assert_eq!(Names::read(&stored(&third)).unwrap().names, third.names);
    let error = Names::read(&stored(&second)).unwrap_err();
    assert!(error.message().contains("read whole"), "{error}");
}

fn order() -> Order {
    Order {
        customer: "c1".to_owned(),
        id: 5,
        at: Timestamp::UNIX_EPOCH,
        product: "p9".to_owned(),
        amount: 3,
        lines: vec!["a".to_owned()],
        note: Some("n".to_owned()),
        is_open: false,
        others: DynamicEntity::new("", "").with("Added", 1).to_properties().unwrap(),
    }
}

fn as_stored(row: &CopyRow) -> StoredEntity {
    let (key, properties) = (row.key.clone(), row.properties.clone());
    StoredEntity { key, etag: ETag::new(""), timestamp: None, properties }
}

#[test]
fn indexes_are_rows_that_follow() {
    let copies = order().copies().unwrap();
    let [day, product, recent] = copies.as_slice() else { panic!("{copies:?}") };
    let shown = |row: &CopyRow| {
        let names: Vec<_> = row.properties.iter().map(|(name, _)| name.to_owned()).collect();
        (row.table.clone(), row.key.partition_key.clone(), names.join(" "))
    };
    assert_eq!(shown(day), (None, "c1".to_owned(), "Product Amount Lines Note Note1 Added".to_owned()));
    assert_eq!(shown(product), (None, "product_p9".to_owned(), "Amount".to_owned()));
    assert_eq!(product.key.row_key, "product_c1_000005");
    assert_eq!(shown(recent), (Some("Recent".to_owned()), "all".to_owned(), String::new()));

    // Entries are read as their own types, and know whose they are.
    let day = OrderByDay::from_stored(&as_stored(day)).unwrap();
    assert_eq!(day.primary_key().unwrap(), order().entity_key().unwrap());
    assert_eq!(Order::from(day), order());
    let product = OrderByProduct::from_stored(&as_stored(product)).unwrap();
    assert_eq!((product.amount, product.primary_key().unwrap()), (3, order().entity_key().unwrap()));
    let recent = OrderRecent::from_stored(&as_stored(recent)).unwrap();
    assert_eq!(
        (recent.primary_key().unwrap(), OrderRecent::TABLE),
        (order().entity_key().unwrap(), "Recent")
    );
    assert!(Order::from_stored(&as_stored(&copies[0])).is_err(), "no entry is taken for an entity");
    assert_eq!(
        (OrderByDay::ROW_PREFIX, Order::IS_WRITTEN_WITH_OTHERS, OrderByDay::IS_WRITTEN_WITH_OTHERS),
        ("day_", true, true)
    );
}

#[test]
fn indexes_elsewhere_are_read_by_their_partition() {
    let account = tepui_client::Account::from_connection_string("UseDevelopmentStorage=true").unwrap();
    let orders = account.table("Orders2026").unwrap().of::<Order>();
    let ranges = |explanation: tepui_client::Explanation| explanation.ranges[0].to_string();
    let by_product = Order::by_product(&orders, "p9").id("c1", 1..=5);
    assert_eq!(
        ranges(by_product.explain()),
        "PartitionKey = 'product_p9', RowKey in ['product_c1_000001', 'product_c1_000006')"
    );
    assert!(format!("{by_product:?}").contains("Orders2026"), "{by_product:?}");
    let recent = Order::recent(&orders).all_rows();
    assert!(format!("{recent:?}").contains("\"Recent\""), "{recent:?}");
    let by_day = orders.partition("c1").by_day().at(Timestamp::MIN..=Timestamp::UNIX_EPOCH);
    assert!(ranges(by_day.explain()).starts_with("PartitionKey = 'c1', RowKey in ['day_"), "{by_day:?}");
}

#[test]
fn all_buckets_have_their_keys() {
    let keys = Login::all_partition_keys("a").unwrap();
    assert_eq!((keys.len(), keys[0].as_str(), keys[15].as_str()), (16, "a_00", "a_15"));
    for user in 0..100 {
        let login = Login { site: "a".to_owned(), user: format!("{user}"), at: Timestamp::UNIX_EPOCH };
        assert!(keys.contains(&login.entity_key().unwrap().partition_key));
    }
    let keys = Event::all_partition_keys().unwrap();
    assert_eq!((keys.len(), keys[0].as_str(), keys[59].as_str()), (60, "00", "59"));
    assert!(Login::all_partition_keys("a/b").is_err());
}
