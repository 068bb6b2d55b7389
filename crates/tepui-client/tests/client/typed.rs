//! Entities that structs derive.

use crate::support::TestServer;
use tepui_client::entity::typed::TypedEntity as _;
use tepui_client::{DynamicEntity, Entity, EntityEnum, ErrorKind, PlanKind, Table};

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
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Staff", rename_all = "PascalCase")]
#[key(partition = "{department}", row = "empid_{id:06}")]
struct EmailOnly {
    department: String,
    id: u32,
    email: String,
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
    let rows = Employee::rows_between_id(30, 59).unwrap();
    let query = table.query().partition("Sales").filter(rows.filter("RowKey"));
    assert_eq!(query.explain().plan, PlanKind::RowRange);
    let ids: Vec<_> = query.all().await.unwrap().iter().map(|employee| employee.id).collect();
    assert_eq!(ids, [30, 40, 50]);
    let scan = table.query().partition("Sales").filter(Employee::AGE.gt(30));
    assert_eq!(scan.explain().plan, PlanKind::Partition);
    assert_eq!(scan.all().await.unwrap().len(), 0);
}

#[tokio::test]
async fn projections_are_structs() {
    let (_server, table) = filled().await;
    let emails = table.of::<EmailOnly>();
    let found =
        emails.query().partition("Sales").select(EmailOnly::PROPERTIES.to_vec()).take(1).all().await.unwrap();
    let expected = EmailOnly { department: "Sales".to_owned(), id: 0, email: "0@contoso.com".to_owned() };
    assert_eq!(found[0].entity, expected);
}

#[tokio::test]
async fn one_table_holds_several_kinds() {
    let (_server, table) = filled().await;
    let staff = table.of::<Staff>();
    let department = Department { department: "Sales".to_owned(), employees: 12 };
    staff.insert(&Staff::Department(department.clone())).await.unwrap();
    let other = DynamicEntity::new("Sales", "x").with("A", 1);
    staff.insert(&Staff::Other(other.clone())).await.unwrap();
    let found = staff.query().partition("Sales").all().await.unwrap();
    assert_eq!(found.len(), 14);
    assert_eq!(found[0].entity, Staff::Department(department));
    assert_eq!(found[1].entity, Staff::Employee(employee(0)));
    assert_eq!(found[13].entity, Staff::Other(other));
}
