//! Memtables: recent writes, in memory. One thread writes, others read at the same time.
//!
//! Each write has the sequence number of its batch. A reader sees, of each key, the newest write up to its own sequence
//! number (MVCC).

use super::bloom_filter::{self, ConcurrentBloomFilter};
use super::{SeqNo, StoredValue};
use crossbeam_skiplist::map::{self, SkipMap};
use std::cmp::Ordering as Order;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use tepui_storage::{Key, Write};

/// Approximate memory of a row besides its key and value.
const ROW_OVERHEAD: u64 = 200;

/// How many versions of one key a cursor skips one by one before it seeks. There may be many.
const STEPS: usize = 4;

pub(crate) struct Memtable {
    rows: SkipMap<InternalKey, StoredValue>,
    filter: ConcurrentBloomFilter,
    bytes: AtomicU64,
    /// The sequence number of the last batch.
    newest: AtomicU64,
}

/// Orders by key, then the newest write first.
#[derive(PartialEq, Eq)]
struct InternalKey {
    key: Key,
    seq_no: SeqNo,
}

impl Ord for InternalKey {
    fn cmp(&self, other: &Self) -> Order {
        self.key.cmp(&other.key).then_with(|| other.seq_no.cmp(&self.seq_no))
    }
}

impl PartialOrd for InternalKey {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Memtable {
    /// The filter is sized for a memtable that is sealed at so many bytes.
    pub(super) fn new(full_bytes: u64) -> Self {
        Self {
            rows: SkipMap::new(),
            filter: ConcurrentBloomFilter::for_keys((full_bytes / ROW_OVERHEAD) as usize),
            bytes: AtomicU64::new(0),
            newest: AtomicU64::new(0),
        }
    }

    pub(crate) fn insert(&self, seq_no: SeqNo, writes: Vec<Write>) {
        let mut bytes = 0;
        for write in writes {
            let (key, entry) = match write {
                Write::Put(key, value) => (key, Some(value)),
                Write::Delete(key) => (key, None),
            };
            bytes += (key.len() + entry.as_ref().map_or(0, Key::len)) as u64 + ROW_OVERHEAD;
            self.filter.add(bloom_filter::hash(&key));
            self.rows.insert(InternalKey { key, seq_no }, entry);
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.newest.fetch_max(seq_no, Ordering::Relaxed);
    }

    /// How much memory it takes, approximately.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many rows were written.
    pub(super) fn rows(&self) -> u64 {
        self.rows.len() as u64
    }

    pub(super) fn newest(&self) -> SeqNo {
        self.newest.load(Ordering::Relaxed)
    }

    /// `hash` is that of the key.
    pub(super) fn get(&self, key: &[u8], hash: u64, seq_no: SeqNo) -> Option<StoredValue> {
        if !self.filter.may_contain(hash) {
            return None;
        }
        let target = InternalKey { key: Key::copy_from_slice(key), seq_no };
        let found = self.seek(&target)?;
        (found.key().key == target.key).then(|| found.value().clone())
    }

    /// The first write at or after `target`.
    fn seek(&self, target: &InternalKey) -> Option<map::Entry<'_, InternalKey, StoredValue>> {
        self.rows.lower_bound(Bound::Included(target))
    }
}

/// Iterates over the visible rows of a memtable in key order.
pub(super) struct MemtableCursor<'a> {
    memtable: &'a Memtable,
    at: Option<map::Entry<'a, InternalKey, StoredValue>>,
    seq_no: SeqNo,
}

impl<'a> MemtableCursor<'a> {
    /// Starts at the first key that is not before `from`.
    pub(super) fn new(memtable: &'a Memtable, from: &[u8], seq_no: SeqNo) -> Self {
        let target = InternalKey { key: Key::copy_from_slice(from), seq_no: SeqNo::MAX };
        let mut cursor = Self { memtable, at: memtable.seek(&target), seq_no };
        cursor.skip_newer();
        cursor
    }

    pub(super) fn key(&self) -> Option<&[u8]> {
        self.at.as_ref().map(|at| &at.key().key[..])
    }

    pub(super) fn value(&self) -> Option<&[u8]> {
        self.at.as_ref()?.value().as_deref()
    }

    pub(super) fn row(&self) -> Option<(Key, StoredValue)> {
        self.at.as_ref().map(|at| (at.key().key.clone(), at.value().clone()))
    }

    pub(super) fn advance(&mut self) {
        let Some(at) = self.at.take() else { return };
        // No batch has 0, so this sorts after every write of the key.
        let after = |key: &Key| InternalKey { key: key.clone(), seq_no: 0 };
        self.at = self.skip_while(at, |from, to| from.key == to.key, after);
        self.skip_newer();
    }

    /// Skips writes that are newer than the reader.
    fn skip_newer(&mut self) {
        let seq_no = self.seq_no;
        while let Some(at) = self.at.take_if(|at| at.key().seq_no > seq_no) {
            let is_newer = |from: &InternalKey, to: &InternalKey| to.seq_no > seq_no && from.key == to.key;
            let visible = |key: &Key| InternalKey { key: key.clone(), seq_no };
            self.at = self.skip_while(at, is_newer, visible);
        }
    }

    /// The first write after `at` for which `skip` does not hold. Goes step by step at first, because mostly there are few
    /// to skip; then seeks `target`.
    fn skip_while(
        &self,
        at: map::Entry<'a, InternalKey, StoredValue>,
        skip: impl Fn(&InternalKey, &InternalKey) -> bool,
        target: impl Fn(&Key) -> InternalKey,
    ) -> Option<map::Entry<'a, InternalKey, StoredValue>> {
        let mut next = at.next()?;
        for _ in 0..STEPS {
            if !skip(at.key(), next.key()) {
                return Some(next);
            }
            next = next.next()?;
        }
        self.memtable.seek(&target(&at.key().key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &'static str, value: &'static str) -> Write {
        Write::Put(key.into(), value.into())
    }

    fn rows(memtable: &Memtable, from: &str, seq_no: SeqNo) -> Vec<(String, Option<String>)> {
        let text = |bytes: &Key| String::from_utf8_lossy(bytes).into_owned();
        let mut cursor = MemtableCursor::new(memtable, from.as_bytes(), seq_no);
        let mut rows = Vec::new();
        while let Some((key, entry)) = cursor.row() {
            assert_eq!(cursor.key(), Some(&key[..]));
            assert_eq!(cursor.value(), entry.as_deref());
            let found = memtable.get(&key, bloom_filter::hash(&key), seq_no);
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
        assert_eq!(memtable.get(b"d", bloom_filter::hash(b"d"), 2), None);
        assert_eq!(memtable.newest(), 3);
        // A key that is written all the time.
        (10..100).for_each(|seq_no| memtable.insert(seq_no, vec![put("c", "many")]));
        assert_eq!(rows(&memtable, "", 9), all);
        assert_eq!(rows(&memtable, "b", 50)[1..], [row("c", Some("many")), row("d", Some("3"))]);
        assert!(memtable.bytes() > 7 * ROW_OVERHEAD);
    }
}
