//! Several kinds of entities in one table, and several versions of each.
//!
//! A table has no schema. Employees and their department can be in one partition, and then be read in one request and changed
//! in one transaction. Nothing says what a row is, unless it does itself: by how its keys begin (`empid_…`, `department`),
//! or by a property. An enum with `#[derive(EntityEnum)]` reads each row as what it is. That two kinds could be confused is
//! an error when it is compiled.
//!
//! `kind = "Employee"` adds the property `EntityType`, and `version = 2` the version to it: `Employee/2`. When fields change,
//! the struct gets the next version, and the old struct stays for what is stored: `#[upgrade(from = EmployeeV1)]` with a
//! `From` turns an entity into the new one when it is read. It is stored as the new version when it is next written. Each
//! version has its path: one that lacks it does not compile.
//!
//! While programs are upgraded, old ones meet entities of new ones. They do not know what is in them: they read them as
//! `#[other]`, whole, and can write them back without loss; a struct alone refuses to read them.
//!
//! # When to use it
//!
//! - Kinds are read or changed together, and share a partition for it.
//! - Fields change over the years, and rewriting all at once is not possible.
//!
//! # When not
//!
//! - Kinds have nothing in common but the table: tables cost nothing.
//! - A field is only added: make it an `Option`, which old entities lack.
//!
//! ```
//! use tepui_client::{DynamicEntity, Entity, EntityEnum, EntityKey, Match};
//!
//! #[derive(Entity)]
//! #[entity(table = "Staff", kind = "Employee", closed)]
//! #[key(partition = "{department}", row = "empid_{id:06}")]
//! struct EmployeeV1 {
//!     department: String,
//!     id: u32,
//!     name: String,
//! }
//!
//! #[derive(Entity)]
//! #[entity(table = "Staff", kind = "Employee", version = 2, closed)]
//! #[key(partition = "{department}", row = "empid_{id:06}")]
//! #[upgrade(from = EmployeeV1)]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     first_name: String,
//!     last_name: String,
//! }
//!
//! impl From<EmployeeV1> for Employee {
//!     fn from(old: EmployeeV1) -> Self {
//!         let (first, last) = old.name.split_once(' ').unwrap_or(("", &old.name));
//!         let (first_name, last_name) = (first.to_owned(), last.to_owned());
//!         Self { department: old.department, id: old.id, first_name, last_name }
//!     }
//! }
//!
//! #[derive(Entity)]
//! #[entity(table = "Staff", kind = "Department")]
//! #[key(partition = "{department}", row = "department")]
//! struct Department {
//!     department: String,
//!     employees: i32,
//! }
//!
//! #[derive(EntityEnum)]
//! enum Staff {
//!     Employee(Employee),
//!     Department(Department),
//!     #[other]
//!     Other(DynamicEntity),
//! }
//!
//! # tepui_client_testing::run(async |account| {
//! let staff = account.table_of::<Staff>()?;
//! staff.create_if_missing().await?;
//! let old = EmployeeV1 { department: "Sales".to_owned(), id: 1, name: "Jun Cao".to_owned() };
//! staff.of::<EmployeeV1>().insert(&old).await?;
//! staff.insert(&Staff::Department(Department { department: "Sales".to_owned(), employees: 1 })).await?;
//! // By a program that is yet to come.
//! let newer = DynamicEntity::new("Sales", "empid_000002").with("EntityType", "Employee/3").with("Names", "[]");
//! staff.insert(&Staff::Other(newer)).await?;
//!
//! let mut found = staff.partition("Sales").all().await?.into_iter().map(|found| found.into_inner());
//! assert!(matches!(found.next(), Some(Staff::Department(_))));
//! assert!(matches!(found.next(), Some(Staff::Employee(employee)) if employee.last_name == "Cao"));
//! assert!(matches!(found.next(), Some(Staff::Other(_))));
//!
//! // To upgrade what is stored, write it back.
//! let employees = staff.of::<Employee>();
//! let employee = employees.get(&EntityKey::new("Sales", "empid_000001")).await?.ok_or("it is there")?;
//! employees.replace(&employee, &employee).await?;
//! # Ok(()) });
//! ```

pub use crate::entity::typed::ENTITY_TYPE;
