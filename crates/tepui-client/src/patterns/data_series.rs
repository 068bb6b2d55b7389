//! Data series pattern: a whole series of values in one entity.
//!
//! Values that are always read together, such as the messages that somebody sent in each hour of a day, are properties of
//! one entity and not entities of their own: one read instead of 24. [`Series`] names the properties (`H00` to `H23`), sets
//! single values by merging them, and adds to them without losing what others add.
//!
//! Use it for a fixed number of small values. An entity has at most 252 properties; a series that does not fit beside the
//! others of its entity does not compile. Larger ones are [`wide_entity`](super::wide_entity)s, or blobs. Do not add to one
//! entity from many clients at a time: each addition depends on the version that was read, and they will mostly meet
//! conflicts. Give each client a series of its own and sum them up when they are read.
//!
//! ```
//! use tepui_client::EntityKey;
//! use tepui_client::patterns::data_series::Series;
//!
//! # tepui_client_testing::run(async |account| {
//! let table = account.table("Messages")?;
//! table.create_if_missing().await?;
//! let hours = Series::<i32, 24>::new(&table, "H")?;
//! let day = EntityKey::new("emp7", "2026-03-10");
//! hours.set(&day, 8, 5).await?;
//! assert_eq!(hours.add(&day, 9, 2).await?, 2);
//! assert_eq!(hours.add(&day, 9, 1).await?, 3);
//! let read = hours.read(&day).await?.ok_or("nobody sent anything")?;
//! assert_eq!((read[7], read[8], read[9]), (None, Some(5), Some(3)));
//! # Ok(()) });
//! ```
//!
//! The number of other properties of the entity counts, too:
//!
//! ```compile_fail,E0080
//! # let table = tepui_client::Account::from_connection_string("UseDevelopmentStorage=true").unwrap().table("T").unwrap();
//! // 250 values and 3 other properties are one too many.
//! tepui_client::patterns::data_series::Series::<i32, 250, 3>::new(&table, "D").unwrap();
//! ```

use crate::entity::typed::PropertyValue;
use crate::table::{MAX_TRIES, wait_after_conflict};
use crate::{DynamicEntity, ETag, EntityKey, Error, ErrorKind, Table, Value, filter};
use std::fmt;
use std::marker::PhantomData;
use tepui_model::table::properties::MAX_PROPERTIES;

/// Values of a series: numbers that can be added up.
pub trait SeriesValue: PropertyValue + Copy + Default + Into<Value> + Send + Sync + 'static {
    /// `None` if it is too large.
    fn checked_sum(self, other: Self) -> Option<Self>;
}

impl SeriesValue for i32 {
    fn checked_sum(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }
}

impl SeriesValue for i64 {
    fn checked_sum(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }
}

impl SeriesValue for f64 {
    fn checked_sum(self, other: Self) -> Option<Self> {
        Some(self + other).filter(|sum| sum.is_finite())
    }
}

/// Series of `N` values, each in one entity of a table that has at most `OTHERS` more properties.
pub struct Series<T, const N: usize, const OTHERS: usize = 0> {
    table: Table,
    prefix: String,
    value: PhantomData<fn() -> T>,
}

impl<T: SeriesValue, const N: usize, const OTHERS: usize> Series<T, N, OTHERS> {
    /// One property is the mark of a write, with which lost answers are settled.
    const FITS: () = assert!(
        N > 0 && N + OTHERS < MAX_PROPERTIES,
        "an entity has at most 252 properties, one of which marks writes: the series and the others do not fit"
    );
    /// As many as the last of them needs, and at least two.
    const DIGITS: usize = if N > 100 { 3 } else { 2 };

    /// Series in a table. The properties are named with this prefix and two digits, or three for more than 100 values.
    pub fn new<E>(table: &Table<E>, prefix: &str) -> Result<Self, Error> {
        const { Self::FITS };
        filter::check_name(prefix)?;
        Ok(Self { table: table.of(), prefix: prefix.to_owned(), value: PhantomData })
    }

    /// The name of the property that holds a value.
    pub fn property(&self, index: usize) -> Result<String, Error> {
        if index >= N {
            let message = format!("the series has {N} values, and none with the number {index}");
            return Err(Error::new(ErrorKind::Refused, message));
        }
        Ok(format!("{}{index:0digits$}", self.prefix, digits = Self::DIGITS))
    }

    /// Sets a value, whatever it was before. The entity is created if it is not there; other values stay.
    pub async fn set(&self, key: &EntityKey, index: usize, value: T) -> Result<ETag, Error> {
        self.table.upsert_merge(&self.change(key, index, value)?).await
    }

    /// Adds to a value, which is 0 if it is absent, and returns the sum. Nothing that others add is lost.
    ///
    /// [`Contended`](ErrorKind::Contended): others were faster each time. [`Unknown`](ErrorKind::Unknown): the answer was lost,
    /// and somebody else has written since, so that it cannot be found out whether it was added.
    pub async fn add(&self, key: &EntityKey, index: usize, value: T) -> Result<T, Error> {
        let name = self.property(index)?;
        // With a mark, an addition whose answer was lost is recognised and not made again.
        let table = self.table.with_write_tokens();
        for attempt in 0..MAX_TRIES {
            let found = table.get(key).await?;
            let before = match found.as_ref().and_then(|found| found.get(&name)) {
                Some(value) => read_value(&name, value)?,
                None => T::default(),
            };
            let sum = before.checked_sum(value).ok_or_else(|| {
                Error::new(ErrorKind::Refused, format!("the sum is too large for its type: {name}"))
            })?;
            let change = self.change(key, index, sum)?;
            let written = match &found {
                Some(found) => table.merge(&change, found).await,
                None => table.insert(&change).await,
            };
            match written {
                Ok(_) => return Ok(sum),
                Err(error) if is_conflict(&error) => wait_after_conflict(attempt).await,
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Contended, "the series was changed by others each time"))
    }

    /// All values; `None` if there is no entity.
    pub async fn read(&self, key: &EntityKey) -> Result<Option<[Option<T>; N]>, Error> {
        self.table.get(key).await?.map(|found| self.values(&found)).transpose()
    }

    /// The values of an entity that was read.
    pub fn values(&self, entity: &DynamicEntity) -> Result<[Option<T>; N], Error> {
        let mut values = [None; N];
        for (index, slot) in values.iter_mut().enumerate() {
            let name = self.property(index)?;
            *slot = entity.get(&name).map(|value| read_value(&name, value)).transpose()?;
        }
        Ok(values)
    }

    fn change(&self, key: &EntityKey, index: usize, value: T) -> Result<DynamicEntity, Error> {
        let entity = DynamicEntity::new(key.partition_key.as_str(), key.row_key.as_str());
        Ok(entity.with(self.property(index)?, value))
    }
}

/// Somebody else has changed, inserted or deleted it since it was read.
fn is_conflict(error: &Error) -> bool {
    let is_gone = error.kind() == ErrorKind::NotFound && error.code() != Some("TableNotFound");
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::AlreadyExists) || is_gone
}

fn read_value<T: SeriesValue>(name: &str, value: &Value) -> Result<T, Error> {
    T::from_value(value.as_ref()).ok_or_else(|| {
        let found = value.edm_type().name();
        Error::decode(format!("a value of the series is of type {found}: {name}"))
    })
}

impl<T, const N: usize, const OTHERS: usize> Clone for Series<T, N, OTHERS> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), prefix: self.prefix.clone(), value: PhantomData }
    }
}

impl<T, const N: usize, const OTHERS: usize> fmt::Debug for Series<T, N, OTHERS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series")
            .field("table", &self.table)
            .field("prefix", &self.prefix)
            .field("values", &N)
            .finish()
    }
}
