//! Memtables: what was written lately, in memory. One thread writes, others read at the same time.
//!
//! Each write has the number of its batch. A reader sees, of each key, the newest write that is not newer
//! than its own number.

use super::Entry;
use super::filter::{self, GrowingFilter};
use crate::{Key, Write};
use crossbeam_skiplist::map::{self, SkipMap};
use std::cmp::Ordering as Order;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a row takes in memory besides its key and value, about.
const ROW_OVERHEAD: u64 = 200;

/// How many writes of one key a cursor passes one by one. There may be any number of them.
const STEPS: usize = 4;

pub(crate) struct Memtable {
    rows: SkipMap<Place, Entry>,
    filter: GrowingFilter,
    bytes: AtomicU64,
    /// The number of the last batch.
    newest: AtomicU64,
}

/// The newest write of a key comes first.
#[derive(PartialEq, Eq)]
struct Place {
    key: Key,
    number: u64,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Order {
        self.key.cmp(&other.key).then_with(|| other.number.cmp(&self.number))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Memtable {
    /// One that counts as full at so many bytes.
    pub(super) fn new(full_bytes: u64) -> Self {
        Self {
            rows: SkipMap::new(),
            filter: GrowingFilter::for_keys((full_bytes / ROW_OVERHEAD) as usize),
            bytes: AtomicU64::new(0),
            newest: AtomicU64::new(0),
        }
    }

    pub(crate) fn insert(&self, number: u64, writes: Vec<Write>) {
        let mut bytes = 0;
        for write in writes {
            let (key, entry) = match write {
                Write::Put(key, value) => (key, Some(value)),
                Write::Delete(key) => (key, None),
            };
            bytes += (key.len() + entry.as_ref().map_or(0, Key::len)) as u64 + ROW_OVERHEAD;
            self.filter.add(filter::hash(&key));
            self.rows.insert(Place { key, number }, entry);
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.newest.fetch_max(number, Ordering::Relaxed);
    }

    /// How much memory it takes, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many rows were written.
    pub(super) fn rows(&self) -> u64 {
        self.rows.len() as u64
    }

    pub(super) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    /// `hash` is that of the key.
    pub(super) fn get(&self, key: &[u8], hash: u64, number: u64) -> Option<Entry> {
        if !self.filter.may_hold(hash) {
            return None;
        }
        let place = Place { key: Key::copy_from_slice(key), number };
        let found = self.at(&place)?;
        (found.key().key == place.key).then(|| found.value().clone())
    }

    /// The first write that is not before the place.
    fn at(&self, place: &Place) -> Option<map::Entry<'_, Place, Entry>> {
        self.rows.lower_bound(Bound::Included(place))
    }
}

/// Goes through the rows of a memtable in the order of their keys.
pub(super) struct MemtableCursor<'a> {
    memtable: &'a Memtable,
    at: Option<map::Entry<'a, Place, Entry>>,
    number: u64,
}

impl<'a> MemtableCursor<'a> {
    /// Stands at the first key that is not before `from`.
    pub(super) fn new(memtable: &'a Memtable, from: &[u8], number: u64) -> Self {
        let place = Place { key: Key::copy_from_slice(from), number: u64::MAX };
        let mut cursor = Self { memtable, at: memtable.at(&place), number };
        cursor.skip_newer();
        cursor
    }

    pub(super) fn key(&self) -> Option<&[u8]> {
        self.at.as_ref().map(|at| &at.key().key[..])
    }

    pub(super) fn value(&self) -> Option<&[u8]> {
        self.at.as_ref()?.value().as_deref()
    }

    pub(super) fn row(&self) -> Option<(Key, Entry)> {
        self.at.as_ref().map(|at| (at.key().key.clone(), at.value().clone()))
    }

    pub(super) fn advance(&mut self) {
        let Some(at) = self.at.take() else { return };
        // No batch has this number.
        let after = |key: &Key| Place { key: key.clone(), number: 0 };
        self.at = self.skip_while(at, |from, to| from.key == to.key, after);
        self.skip_newer();
    }

    /// Goes on to a write that is not newer than the reader.
    fn skip_newer(&mut self) {
        let number = self.number;
        while let Some(at) = self.at.take_if(|at| at.key().number > number) {
            let is_newer = |from: &Place, to: &Place| to.number > number && from.key == to.key;
            let visible = |key: &Key| Place { key: key.clone(), number };
            self.at = self.skip_while(at, is_newer, visible);
        }
    }

    /// The first write after `at` for which `skip` does not hold, step by step at first, for mostly there are few
    /// before it. `place` says where it is for a key.
    fn skip_while(
        &self,
        at: map::Entry<'a, Place, Entry>,
        skip: impl Fn(&Place, &Place) -> bool,
        place: impl Fn(&Key) -> Place,
    ) -> Option<map::Entry<'a, Place, Entry>> {
        let mut next = at.next()?;
        for _ in 0..STEPS {
            if !skip(at.key(), next.key()) {
                return Some(next);
            }
            next = next.next()?;
        }
        self.memtable.at(&place(&at.key().key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &'static str, value: &'static str) -> Write {
        Write::Put(key.into(), value.into())
    }

    fn rows(memtable: &Memtable, from: &str, number: u64) -> Vec<(String, Option<String>)> {
        let text = |bytes: &Key| String::from_utf8_lossy(bytes).into_owned();
        let mut cursor = MemtableCursor::new(memtable, from.as_bytes(), number);
        let mut rows = Vec::new();
        while let Some((key, entry)) = cursor.row() {
            assert_eq!(cursor.key(), Some(&key[..]));
            assert_eq!(cursor.value(), entry.as_deref());
            let found = memtable.get(&key, filter::hash(&key), number);
            assert_eq!(found, Some(entry.clone()));
            rows.push((text(&key), entry.as_ref().map(text)));
            cursor.advance();
        }
        rows
    }

    #[test]
    fn a_reader_sees_what_is_not_newer() {
        let memtable = Memtable::new(1 << 20);
        memtable.insert(1, vec![put("a", "1"), put("b", "1")]);
        memtable.insert(2, vec![put("b", "2"), put("c", "2")]);
        memtable.insert(3, vec![Write::Delete("a".into()), put("c", "3"), put("d", "3")]);
        let row = |key: &str, value: Option<&str>| (key.to_owned(), value.map(str::to_owned));
        assert_eq!(rows(&memtable, "", 0), []);
        assert_eq!(rows(&memtable, "", 1), [row("a", Some("1")), row("b", Some("1"))]);
        assert_eq!(rows(&memtable, "b", 2), [row("b", Some("2")), row("c", Some("2"))]);
        let all = [row("a", None), row("b", Some("2")), row("c", Some("3")), row("d", Some("3"))];
        assert_eq!(rows(&memtable, "", 9), all);
        assert_eq!(memtable.get(b"d", filter::hash(b"d"), 2), None);
        assert_eq!(memtable.newest(), 3);
        // A key that is written all the time.
        (10..100).for_each(|number| memtable.insert(number, vec![put("c", "many")]));
        assert_eq!(rows(&memtable, "", 9), all);
        assert_eq!(rows(&memtable, "b", 50)[1..], [row("c", Some("many")), row("d", Some("3"))]);
        assert!(memtable.bytes() > 7 * ROW_OVERHEAD);
    }
}
