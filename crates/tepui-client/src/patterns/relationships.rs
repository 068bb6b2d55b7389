//! Relationships: one to many, one to one, and joins in the client.
//!
//! A table has no joins and no foreign keys. What is related is found by its keys, which there are three ways to know:
//!
//! | | how | consistent |
//! |---|---|---|
//! | same partition | the department `{department}`/`department`, its employees `{department}`/`empid_{id:06}`: the key follows from the other one's | yes: one transaction changes both |
//! | a [`Link`] | both keys of the other entity, stored as a property | no: the other may be gone, so following it may find nothing |
//! | in the client | a small table that seldom changes, held in memory: [`Cached`] | as old as it may be |
//!
//! One to one is the same: an entity with the same key and another prefix, or a link in each. It is worth it for large
//! properties that are seldom read, or for parts that others may not see.
//!
//! # When to use which
//!
//! - The same partition, if the many are few enough for it, and are read or changed together with the one.
//! - A link, if the one has more of them than a partition can take, or if they belong to several.
//! - In the client, if the table is small: departments, currencies, kinds of products.
//!
//! # When not
//!
//! - An entity goes to another department: it cannot be moved in a transaction, because its partition changes. That takes
//!   the pattern of eventually consistent transactions. A link stays valid if its target never moves: link to keys that do not
//!   hold what changes.
//! - The name of the department is shown with each employee: keep a copy in the employee (denormalization).
//!
//! ```
//! use std::time::Duration;
//! use tepui_client::Entity;
//! use tepui_client::patterns::relationships::{Cached, Link};
//!
//! #[derive(Entity)]
//! #[entity(table = "Offices")]
//! #[key(partition = "{country}", row = "{city}")]
//! struct Office {
//!     country: String,
//!     city: String,
//!     phone: String,
//! }
//!
//! #[derive(Entity)]
//! #[entity(table = "Employees")]
//! #[key(partition = "{department}", row = "empid_{id:06}")]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     office: Link<Office>,
//! }
//!
//! # tepui_client_testing::run(async |account| {
//! let (offices, people) = (account.table_of::<Office>()?, account.table_of::<Employee>()?);
//! offices.create_if_missing().await?;
//! people.create_if_missing().await?;
//! let bern = Office { country: "ch".to_owned(), city: "Bern".to_owned(), phone: "031".to_owned() };
//! offices.insert(&bern).await?;
//! people.insert(&Employee { department: "Sales".to_owned(), id: 223, office: Link::to(&bern)? }).await?;
//!
//! let employee = people.get(&Employee::key("Sales", 223)?).await?.ok_or("it is there")?;
//! let office = offices.follow(&employee.office).await?.ok_or("it may be gone")?;
//! assert_eq!(office.phone, "031");
//!
//! // All offices are few: a join without a request for each employee.
//! let known = Cached::new(offices.scan(), Duration::from_secs(600));
//! for employee in people.partition("Sales").all_rows().all().await? {
//!     let office = known.get(employee.office.key()).await?.ok_or("it may be gone")?;
//!     assert_eq!(office.city, "Bern");
//! }
//! # Ok(()) });
//! ```

mod cached;
mod link;

pub use cached::Cached;
pub use link::Link;
