//! Entities that structs derive.

use crate::support::TestServer;
use tepui_client::key::KeyRange;
use tepui_client::{
    DynamicEntity, Entity, EntityEnum, ErrorKind, FanOut, Match, PlanKind, Projection, Query, Table,
    Timestamp,
};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Staff", closed, rename_all = "PascalCase")]
#[key(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    email: String,
    age: Option<i32>,
    #[json]
    tags: Vec<String>,
}

/// A part of an employee.
#[derive(Projection, Debug, Clone, PartialEq)]
#[projection(of = Employee)]
struct EmailOnly {
    id: u32,
    email: String,
}

#[derive(Projection, Debug, Clone, PartialEq)]
#[projection(of = Employee)]
struct KeysOnly {
    department: String,
    id: u32,
}

#[derive(Projection, Debug, Clone, PartialEq)]
#[projection(of = Employee, merge)]
struct AgeAndTags {
    age: Option<i32>,
    tags: Vec<String>,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Staff")]
#[key(partition = "{department}", row = "department")]
struct Department {
    department: String,
    employees: u32,
}

#[derive(EntityEnum, Debug, Clone, PartialEq)]
enum Staff {
    Employee(Employee),
    Department(Department),
    #[other]
    Other(DynamicEntity),
}

fn employee(id: u32) -> Employee {
    let tags = vec!["new".to_owned()];
    Employee { department: "Sales".to_owned(), id, email: format!("{id}@contoso.com"), age: Some(20), tags }
}

async fn filled() -> (TestServer, Table<Employee>) {
    let server = TestServer::start().await;
    let table = server.account().table_of::<Employee>().unwrap();
    table.create().await.unwrap();
    for id in 0..12 {
        table.insert(&employee(id * 10)).await.unwrap();
    }
    (server, table)
}

#[tokio::test]
async fn structs_are_written_and_read() {
    let (_server, table) = filled().await;
    let key = Employee::key("Sales", 30).unwrap();
    let mut found = table.get(&key).await.unwrap().unwrap();
    assert_eq!(*found, employee(30));
    found.age = None;
    table.replace(&found, &found).await.unwrap();
    assert_eq!(table.get(&key).await.unwrap().unwrap().age, None, "replaced, so the property is gone");
    let refused = table.insert(&employee(1_000_000)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::KeyInvalid);
}

#[tokio::test]
async fn writes_with_tokens_are_read_as_closed_entities() {
    let (_server, table) = filled().await;
    let table = table.with_write_tokens();
    table.insert(&employee(1)).await.unwrap();
    let key = Employee::key("Sales", 1).unwrap();
    assert_eq!(*table.get(&key).await.unwrap().unwrap(), employee(1));
}

#[tokio::test]
async fn ranges_of_row_keys_are_no_scans() {
    let (_server, table) = filled().await;
    // Of another kind, in the same partition.
    let department = Department { department: "Sales".to_owned(), employees: 12 };
    table.of::<Department>().insert(&department).await.unwrap();
    let ids = async |query: Query<Employee>| -> Vec<u32> {
        query.all().await.unwrap().iter().map(|employee| employee.id).collect()
    };
    let query = table.partition("Sales").id(30..=59);
    assert_eq!(query.explain().plan, PlanKind::RowRange);
    assert_eq!(ids(query).await, [30, 40, 50]);
    let one = table.partition("Sales").with_id(30);
    assert_eq!(one.explain().plan, PlanKind::Point);
    assert_eq!(ids(one).await, [30]);
    assert_eq!(ids(table.partition("Sales").all_rows()).await.len(), 12);
    assert_eq!(
        ids(table.partition("Sales").rows(Employee::rows_between_id(30, 40).unwrap())).await,
        [30, 40]
    );
    let pages = table.partition("Sales").id(0..=999).page_size(5);
    let first = pages.page().await.unwrap();
    assert_eq!((first.entities.len(), ids(pages.resume(first.next.unwrap())).await.len()), (5, 7));
    #[expect(clippy::reversed_empty_ranges, reason = "it finds nothing")]
    let none = table.partition("Sales").id(59..=30);
    assert_eq!(ids(none).await, [0; 0]);
    let scan = table.partition("Sales").scan().filter(Employee::AGE.gt(30));
    assert_eq!(scan.explain().plan, PlanKind::RowRange, "of one kind");
    assert_eq!(scan.all().await.unwrap().len(), 0);
    for (case, query) in [
        ("a partition", table.partition("a/b").all_rows()),
        ("a row", table.partition("Sales").with_id(1_000_000)),
        ("a range", table.partition("Sales").id(0..=1_000_000)),
        ("both", table.partition("a/b").id(0..=1_000_000)),
    ] {
        assert_eq!(query.explain().plan, PlanKind::Nothing, "{case}");
        assert_eq!(query.all().await.unwrap_err().kind(), ErrorKind::KeyInvalid, "{case}");
    }
}

#[tokio::test]
async fn projections_are_structs() {
    let (_server, table) = filled().await;
    let found = table.partition("Sales").id(10..=20).select::<EmailOnly>().all().await.unwrap();
    let expected = EmailOnly { id: 10, email: "10@contoso.com".to_owned() };
    assert_eq!((found.len(), &found[0].entity), (2, &expected));
    let scanned = table.scan().filter(Employee::EMAIL.eq("10@contoso.com")).select::<EmailOnly>();
    assert_eq!(scanned.all().await.unwrap()[0].entity, expected);
    let halves = KeyRange::split_at(["S"]);
    let parallel = table.scan().select::<KeysOnly>().parallel_by(halves).all().await.unwrap();
    assert_eq!(parallel.len(), 12);
    let keys = table.partition("Sales").all_rows().select::<KeysOnly>().take(1).all().await.unwrap();
    assert_eq!(keys[0].entity, KeysOnly { department: "Sales".to_owned(), id: 0 });
    let key = Employee::key("Sales", 10).unwrap();
    let one = table.get_part::<EmailOnly>(&key).await.unwrap().unwrap();
    assert_eq!(one.entity, expected);
    assert!(one.timestamp.is_some());
    assert!(table.get_part::<KeysOnly>(&Employee::key("Sales", 11).unwrap()).await.unwrap().is_none());
}

#[tokio::test]
async fn projections_are_merged() {
    let (_server, table) = filled().await;
    let key = Employee::key("Sales", 10).unwrap();
    let read = table.get_part::<AgeAndTags>(&key).await.unwrap().unwrap();
    let part = AgeAndTags { age: Some(60), tags: vec!["old".to_owned()] };
    table.merge_part(&key, &part, &read).await.unwrap();
    let expected = Employee { age: Some(60), tags: part.tags.clone(), ..employee(10) };
    assert_eq!(*table.get(&key).await.unwrap().unwrap(), expected);
    assert_eq!(table.merge_part(&key, &part, &read).await.unwrap_err().kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn one_table_holds_several_kinds() {
    let (_server, table) = filled().await;
    let staff = table.of::<Staff>();
    let department = Department { department: "Sales".to_owned(), employees: 12 };
    staff.insert(&Staff::Department(department.clone())).await.unwrap();
    let other = DynamicEntity::new("Sales", "x").with("A", 1);
    staff.insert(&Staff::Other(other.clone())).await.unwrap();
    let found = staff.partition("Sales").all().await.unwrap();
    assert_eq!(found.len(), 14);
    assert_eq!(found[0].entity, Staff::Department(department));
    assert_eq!(found[1].entity, Staff::Employee(employee(0)));
    assert_eq!(found[13].entity, Staff::Other(other));
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Staff", kind = "Note", closed)]
#[key(partition = "{site}_{user:hash16}", row = "note_{at:desc}_{user}")]
struct Note {
    site: String,
    user: String,
    at: Timestamp,
    #[split]
    text: String,
    #[split]
    photo: Option<Vec<u8>>,
    #[json]
    tags: Vec<String>,
}

fn note(user: u64, characters: usize, bytes: usize) -> Note {
    let at = Timestamp::from_ticks(Timestamp::UNIX_EPOCH.ticks() + user).unwrap();
    let text = "é😀\"\\\u{1}".repeat(characters / 6);
    let photo = Some((0..bytes).map(|index| index as u8).collect());
    Note { site: "a".to_owned(), user: format!("{user}"), at, text, photo, tags: vec!["<&>".to_owned()] }
}

#[tokio::test]
async fn large_entities_there_and_back() {
    let (_server, table) = filled().await;
    let notes = table.of::<Note>();
    for (user, characters, bytes) in
        [(1, 0, 0), (2, 32_768, 65_536), (3, 100_000, 65_537), (4, 300_000, 300_000)]
    {
        let note = note(user, characters, bytes);
        notes.upsert_replace(&note).await.unwrap();
        assert_eq!(*notes.get(&note.entity_key().unwrap()).await.unwrap().unwrap(), note);
        // A shorter one over it.
        let shorter = Note { text: "short".to_owned(), ..note.clone() };
        notes.merge(&shorter, Match::Any).await.unwrap();
        assert_eq!(*notes.get(&note.entity_key().unwrap()).await.unwrap().unwrap(), shorter);
    }
    for too_large in [note(5, 600_000, 0), note(5, 300_000, 600_000)] {
        assert_eq!(notes.insert(&too_large).await.unwrap_err().kind(), ErrorKind::TooLarge);
    }
}

#[tokio::test]
async fn buckets_are_read_back_in_order() {
    let (_server, table) = filled().await;
    let notes = table.of::<Note>();
    for user in 0..50 {
        notes.insert(&note(user, 6, 1)).await.unwrap();
    }
    let keys = Note::all_partition_keys("a").unwrap();
    let users = async |fan_out: FanOut<Note>| -> Vec<u64> {
        fan_out.all().await.unwrap().iter().map(|note| note.user.parse().unwrap()).collect()
    };
    assert_eq!(users(notes.fan_out(&keys)).await, (0..50).rev().collect::<Vec<_>>());
    assert_eq!(users(notes.fan_out(&keys).take(3)).await, [49, 48, 47]);
    let range = Note::rows_between_at(note(10, 0, 0).at, note(12, 0, 0).at).unwrap();
    assert_eq!(users(notes.fan_out(&keys).rows(range)).await, [12, 11, 10]);
}

#[tokio::test]
async fn what_is_not_known_is_written_back_untouched() {
    let (_server, table) = filled().await;
    let staff = table.of::<Staff>();
    let newer = DynamicEntity::new("Sales", "badge_1").with("EntityType", "Badge/7").with("A", 1_i64);
    staff.insert(&Staff::Other(newer.clone())).await.unwrap();
    let found = staff.get(&newer.key).await.unwrap().unwrap();
    staff.merge(&found, &found).await.unwrap();
    assert_eq!(staff.get(&newer.key).await.unwrap().unwrap().entity, Staff::Other(newer));
}
