//! Trees against a model: whatever is flushed, merged and dropped, readers see what was written.

use super::*;
use crate::{Key, KeyRange, Write};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SIZES: Sizes = Sizes { memtable_bytes: 4 << 10, block_bytes: 256 };

type Model = BTreeMap<Key, Value>;

#[derive(Debug, Clone)]
enum Step {
    Write(Vec<(u16, Option<u16>)>),
    /// Writes everything in memory to tables.
    Flush,
    Merge {
        leisure: bool,
    },
    Drop(u16, u16),
    Keep,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0u16..400;
    let write = (key.clone(), prop::option::weighted(0.7, 0u16..400));
    prop_oneof![
        8 => prop::collection::vec(write, 1..30).prop_map(Step::Write),
        3 => Just(Step::Flush),
        4 => any::<bool>().prop_map(|leisure| Step::Merge { leisure }),
        1 => (key.clone(), 0u16..200).prop_map(|(from, count)| Step::Drop(from, from + count)),
        1 => Just(Step::Keep),
        1 => Just(Step::Reopen),
    ]
}

fn key(number: u16) -> Key {
    format!("key {number:03}").into()
}

/// A tree, what it should hold, and what readers have kept.
struct Subject {
    folder: tempfile::TempDir,
    tree: Arc<Tree>,
    number: u64,
    model: Model,
    kept: Vec<(Arc<Sources>, u64, Model)>,
}

impl Subject {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let (tree, number) = Tree::open(folder.path(), SIZES).expect("an empty folder can be opened");
        assert_eq!(number, 0);
        Self { folder, tree: Arc::new(tree), number, model: Model::new(), kept: vec![] }
    }

    fn follow(&mut self, step: Step) {
        match step {
            Step::Write(writes) => self.write(writes),
            Step::Flush => self.flush(),
            Step::Merge { leisure } => {
                self.tree.merge(2, leisure).expect("tables can be merged");
            }
            Step::Drop(from, to) => self.drop_range(from, to),
            Step::Keep => self.kept.push((self.tree.sources(), self.number, self.model.clone())),
            Step::Reopen => {
                self.flush();
                let (tree, number) = Tree::open(self.folder.path(), SIZES).expect("it can be opened again");
                assert_eq!(number, self.number);
                self.tree = Arc::new(tree);
            }
        }
    }

    fn write(&mut self, writes: Vec<(u16, Option<u16>)>) {
        let writes: BTreeMap<u16, Option<u16>> = writes.into_iter().collect();
        self.number += 1;
        let mut batch = Vec::new();
        for (number, length) in writes {
            let value = length.map(|length| Value::from(vec![self.number as u8; usize::from(length)]));
            match value {
                Some(value) => {
                    self.model.insert(key(number), value.clone());
                    batch.push(Write::Put(key(number), value));
                }
                None => {
                    self.model.remove(&key(number));
                    batch.push(Write::Delete(key(number)));
                }
            }
        }
        let memtable = self.tree.memtable();
        memtable.insert(self.number, batch);
        if memtable.bytes() >= SIZES.memtable_bytes {
            self.tree.seal();
        }
    }

    fn flush(&mut self) {
        self.tree.seal();
        while !self.tree.sources().sealed.is_empty() {
            self.tree.flush().expect("a memtable can be written");
        }
    }

    fn drop_range(&mut self, from: u16, to: u16) {
        let range = KeyRange { start: key(from), end: key(to) };
        let Some(bounds) = crate::limits::bounds(&range) else { return };
        self.tree.drop_range(bounds).expect("tables can be dropped");
        // What shows again is deleted, as a reclaim does.
        let page = self.tree.sources().scan(bounds, ALL, self.number).expect("rows can be read");
        self.number += 1;
        let deletes = page.rows.into_iter().map(|(key, _)| Write::Delete(key)).collect();
        self.tree.memtable().insert(self.number, deletes);
        self.model.retain(|key, _| !(range.start <= *key && *key < range.end));
    }

    fn check(&self) {
        check(&self.tree.sources(), self.number, &self.model);
        for (sources, number, model) in &self.kept {
            check(sources, *number, model);
        }
    }
}

const ALL: ScanLimit = ScanLimit { max_rows: usize::MAX, max_bytes: usize::MAX };

fn check(sources: &Sources, number: u64, model: &Model) {
    let scan = |from: u16, to: u16, limit| {
        let range = KeyRange { start: key(from), end: key(to) };
        let bounds = crate::limits::bounds(&range).expect("the range is not empty");
        sources.scan(bounds, limit, number).expect("rows can be read")
    };
    let all = scan(0, 999, ALL);
    assert!(all.rows.iter().map(|(key, value)| (key, value)).eq(model), "a scan shows something else");
    let limit = ScanLimit { max_rows: 7, ..ALL };
    for from in (0..400).step_by(57) {
        let page = scan(from, from + 90, limit);
        let mut expected = model.range(key(from)..key(from + 90));
        let rows: Vec<_> = expected.by_ref().take(7).collect();
        assert_eq!(page.rows.iter().map(|(key, value)| (key, value)).collect::<Vec<_>>(), rows);
        assert_eq!(page.next.as_ref(), expected.next().map(|(key, _)| key));
    }
    for number_of_key in 0..400 {
        let key = key(number_of_key);
        let held = sources.get(&key, number).expect("a row can be read");
        assert_eq!(held.as_ref(), model.get(&key), "{key:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn readers_see_what_was_written(steps in prop::collection::vec(step(), 1..80)) {
        let mut subject = Subject::new();
        for step in steps {
            subject.follow(step);
            subject.tree.tidy();
        }
        subject.check();
        subject.follow(Step::Reopen);
        subject.check();
    }
}

fn levels(tree: &Tree) -> Vec<usize> {
    let mut counts = vec![0; levels::LEVELS];
    tree.sources().levels.tables().for_each(|(level, _)| counts[level] += 1);
    counts
}

fn files(subject: &Subject) -> usize {
    table_files(subject.folder.path()).expect("the folder can be read").len()
}

/// Writes keys once, in an order that mixes them.
fn fill(subject: &mut Subject, count: u16) {
    for number in 0..count {
        subject.write(vec![(number * 7 % count, Some(300))]);
        while !subject.tree.sources().sealed.is_empty() {
            subject.tree.flush().expect("a memtable can be written");
            while subject.tree.merge(2, false).expect("tables can be merged") {}
        }
    }
}

#[test]
fn tables_sink_and_what_is_replaced_goes() {
    let mut subject = Subject::new();
    fill(&mut subject, 399);
    let counts = levels(&subject.tree);
    assert!(counts[0] < 2 && counts[1] > 0 && counts[2] > 0, "{counts:?}");
    subject.tree.tidy();
    assert!(!subject.tree.is_untidy(), "nobody reads");
    assert_eq!(files(&subject), counts.iter().sum::<usize>(), "only tables that count are left");
    subject.check();
}

#[test]
fn a_reader_holds_its_tables() {
    let mut subject = Subject::new();
    fill(&mut subject, 399);
    subject.follow(Step::Keep);
    fill(&mut subject, 399);
    subject.tree.tidy();
    assert!(subject.tree.is_untidy());
    let count = files(&subject);
    subject.check();
    subject.kept.clear();
    subject.tree.tidy();
    assert!(!subject.tree.is_untidy());
    assert!(files(&subject) < count);
    subject.check();
}

#[test]
fn deletions_go_with_what_they_delete() {
    let mut subject = Subject::new();
    fill(&mut subject, 399);
    for number in 0..399 {
        subject.write(vec![(number, None)]);
    }
    subject.flush();
    while subject.tree.merge(1, true).expect("tables can be merged") {}
    subject.check();
    assert_eq!(levels(&subject.tree), [0; levels::LEVELS], "nothing is left");
    // Nothing older is there, so nothing has to be said.
    subject.write(vec![(1, None)]);
    subject.flush();
    assert_eq!(levels(&subject.tree), [0; levels::LEVELS]);
}

#[test]
fn keys_that_only_rise_are_written_once() {
    let mut subject = Subject::new();
    for number in 0..399 {
        subject.write(vec![(number, Some(300))]);
        while !subject.tree.sources().sealed.is_empty() {
            subject.tree.flush().expect("a memtable can be written");
            while subject.tree.merge(2, false).expect("tables can be merged") {}
        }
    }
    let flushed = subject.tree.next_id.load(Ordering::Relaxed) - 1;
    assert_eq!(levels(&subject.tree).iter().sum::<usize>() as u64, flushed, "no table was written again");
    subject.check();
}

#[test]
fn what_is_left_of_a_crash_is_removed() {
    let mut subject = Subject::new();
    fill(&mut subject, 200);
    subject.flush();
    subject.tree.tidy();
    let count = files(&subject);
    std::fs::write(subject.folder.path().join("900"), "half a table").expect("a file can be written");
    std::fs::write(subject.folder.path().join("TABLES.new"), "half a list").expect("a file can be written");
    subject.follow(Step::Reopen);
    assert_eq!(files(&subject), count);
    subject.check();
    std::fs::write(subject.folder.path().join("stranger"), "").expect("a file can be written");
    assert!(matches!(Tree::open(subject.folder.path(), SIZES), Err(EngineError::Corrupt(_))));
}

#[test]
fn the_first_table_of_all_may_be_left_of_a_crash() {
    let mut subject = Subject::new();
    std::fs::write(subject.folder.path().join("1"), "half a table").expect("a file can be written");
    let (tree, number) = Tree::open(subject.folder.path(), SIZES).expect("it can be opened again");
    assert_eq!((number, files(&subject)), (0, 0));
    subject.tree = Arc::new(tree);
    fill(&mut subject, 100);
    subject.follow(Step::Reopen);
    subject.check();
}

#[test]
fn tables_are_merged_by_several_threads_while_others_are_written_and_read() {
    let mut subject = Subject::new();
    let tree = Arc::clone(&subject.tree);
    let over = AtomicBool::new(false);
    let merge = || {
        while !over.load(Ordering::Relaxed) {
            tree.merge(2, true).expect("tables can be merged");
            tree.tidy();
        }
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(merge), scope.spawn(merge), scope.spawn(merge)];
        // Each round overwrites, and deletes every fifth key.
        for round in 0..6 {
            for number in 0..400 {
                let key = number * (7 + 2 * round) % 400;
                let length = (key % 5 != round % 5).then_some(200 + round);
                subject.write(vec![(key, length)]);
                if !subject.tree.sources().sealed.is_empty() {
                    subject.tree.flush().expect("a memtable can be written");
                }
            }
            subject.follow(Step::Keep);
            subject.check();
        }
        over.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().expect("a thread ends well"));
    });
    subject.check();
    subject.kept.clear();
    while subject.tree.merge(2, true).expect("tables can be merged") {}
    drop(tree);
    subject.follow(Step::Reopen);
    subject.check();
}

#[test]
fn a_tree_that_was_stopped_leaves_the_list_to_the_next_one() {
    let mut subject = Subject::new();
    fill(&mut subject, 399);
    subject.flush();
    let before = Arc::clone(&subject.tree);
    before.stop();
    let list = List::read(subject.folder.path());
    assert!(!before.merge(1, true).expect("it ends early"));
    let all = (Bound::Unbounded, Bound::Unbounded);
    assert!(matches!(before.drop_range(all), Err(EngineError::Unavailable(_))));
    assert_eq!(List::read(subject.folder.path()), list);
    subject.follow(Step::Reopen);
    subject.check();
}
