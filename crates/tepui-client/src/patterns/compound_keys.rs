//! Compound keys: a row key of several parts, so that what belongs together lies together.
//!
//! An employee has a review each year. In a table of their own, reviews could not be changed together with the employee. As rows
//! `empid_000123_2012` in the partition of the employee they can, and one range read gives all of them, in the order of
//! years; one that begins at the employee gives both.
//!
//! The parts are typed, and each is written such that keys sort as the values do and no two values share a key:
//! `{id:06}_{year:04}` cannot be confused by an id with seven digits or a name that holds a `_`. See [`key`](crate::key).
//!
//! # When to use it
//!
//! - Entities are read together with, or by way of, another one.
//! - The first parts are always known when one asks: a key answers from its beginning only.
//!
//! # When not
//!
//! - The related entities are rarely read, but the main one often, and both by range: they lie between each other. Give the
//!   kinds different prefixes then (`review_000123_2012`).
//! - They outgrow what one partition can take.
//!
//! ```
//! use tepui_client::{Entity, EntityEnum};
//!
//! #[derive(Entity)]
//! #[entity(table = "Employees", kind = "Employee")]
//! #[key(partition = "{department}", row = "empid_{id:06}")]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     name: String,
//! }
//!
//! #[derive(Entity)]
//! #[entity(table = "Employees", kind = "Review")]
//! #[key(partition = "{department}", row = "empid_{id:06}_{year:04}")]
//! struct Review {
//!     department: String,
//!     id: u32,
//!     year: u16,
//!     rating: i32,
//! }
//!
//! #[derive(EntityEnum)]
//! enum Staff {
//!     Employee(Employee),
//!     Review(Review),
//! }
//!
//! # tepui_client_testing::run(async |account| {
//! let staff = account.table_of::<Staff>()?;
//! staff.create_if_missing().await?;
//! let review = |id, year| Review { department: "Sales".to_owned(), id, year, rating: 4 };
//! let mut hire = staff.transaction("Sales")?;
//! hire.insert(&Employee { department: "Sales".to_owned(), id: 123, name: "Jun".to_owned() })?;
//! for year in 2012..2016 {
//!     hire.insert(&review(123, year))?;
//!     hire.insert(&review(124, year))?;
//! }
//! hire.commit().await?;
//!
//! // Some years of one employee: a range, and nothing else is read.
//! let reviews = account.table_of::<Review>()?;
//! let recent = reviews.partition("Sales").year(123, 2014..=2015).all().await?;
//! assert_eq!(recent.iter().map(|review| review.year).collect::<Vec<_>>(), [2014, 2015]);
//!
//! // The employee and all reviews, in one request.
//! let family = staff.family(&Employee::key("Sales", 123)?).all().await?;
//! assert!(matches!(family[0].entity, Staff::Employee(_)) && family.len() == 5);
//! # Ok(()) });
//! ```

use crate::key::KeyRange;
use crate::{EntityKey, Query, Table};

impl<E> Table<E> {
    /// An entity and all whose row keys go on after its own: those that have its key as their first parts.
    ///
    /// The row key has to end with a part of fixed length, as numbers and times have: after a text, those of which it is only
    /// the beginning would come along.
    pub fn family(&self, root: &EntityKey) -> Query<E> {
        let rows = KeyRange::prefix(root.row_key.as_str());
        self.query().partition(root.partition_key.as_str()).rows(rows)
    }
}
