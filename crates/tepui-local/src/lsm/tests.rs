//! LSM trees against a model: whatever is flushed, compacted and dropped, readers see what was written.

use super::read_view::MAX_VISITED_ROWS;
use super::*;
use crate::blocking::ReadMode;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tepui_storage::StorageErrorKind;
use tepui_storage::{Key, KeyRange, ScanLimit, Write};

const SIZES: Sizes = Sizes {
    memtable_bytes: 4 << 10,
    block_bytes: 256,
    free_bytes: 0,
    cache: TableCacheLimits { tables: 3, bytes: 1 << 20 },
};

fn open(folder: &Path, expect: DirectoryState) -> (LsmTree, u64) {
    let files: Arc<dyn FileSystem> = Arc::new(tepui_files::SystemFiles);
    let (tree, found) = LsmTree::open(&files, folder, SIZES, expect).expect("the folder can be opened");
    tree.record_wal(WalPosition { segment: 1, groups: None }).expect("the manifest can be written");
    (tree, found.flushed)
}

type Model = BTreeMap<Key, Value>;

#[derive(Debug, Clone)]
enum Step {
    Write(Vec<(u16, Option<u16>)>),
    /// Writes everything in memory to tables.
    Flush,
    Compact {
        is_idle: bool,
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
        4 => any::<bool>().prop_map(|is_idle| Step::Compact { is_idle }),
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
    tree: Arc<LsmTree>,
    seq_no: SeqNo,
    model: Model,
    kept: Vec<(Arc<ReadView>, SeqNo, Model)>,
}

impl Subject {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let (tree, seq_no) = open(folder.path(), DirectoryState::New);
        assert_eq!(seq_no, 0);
        Self { folder, tree: Arc::new(tree), seq_no, model: Model::new(), kept: vec![] }
    }

    fn follow(&mut self, step: Step) {
        match step {
            Step::Write(writes) => self.write(writes),
            Step::Flush => self.flush(),
            Step::Compact { is_idle } => {
                self.tree
                    .compact(2, if is_idle { WriteLoad::Idle } else { WriteLoad::Heavy })
                    .expect("tables can be compacted");
            }
            Step::Drop(from, to) => self.drop_range(from, to),
            Step::Keep => self.kept.push((self.tree.read_view(), self.seq_no, self.model.clone())),
            Step::Reopen => {
                self.flush();
                // A folder is opened by one tree at a time.
                self.kept.clear();
                let (tree, number) = open(self.folder.path(), DirectoryState::Existing);
                assert_eq!(number, self.seq_no);
                self.tree = Arc::new(tree);
            }
        }
    }

    fn write(&mut self, writes: Vec<(u16, Option<u16>)>) {
        let writes: BTreeMap<u16, Option<u16>> = writes.into_iter().collect();
        self.seq_no += 1;
        let mut batch = Vec::new();
        for (number, length) in writes {
            let value = length.map(|length| Value::from(vec![self.seq_no as u8; usize::from(length)]));
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
        memtable.insert(self.seq_no, batch);
        if memtable.bytes() >= SIZES.memtable_bytes {
            self.tree.seal();
        }
    }

    fn flush(&mut self) {
        self.tree.seal();
        while !self.tree.read_view().sealed.is_empty() {
            self.tree.flush().expect("a memtable can be written");
        }
    }

    fn drop_range(&mut self, from: u16, to: u16) {
        let range = KeyRange { start: key(from), end: key(to) };
        let Some(bounds) = tepui_storage::Limits::LOCAL.bounds(&range) else { return };
        self.tree.drop_range(bounds).expect("tables can be dropped");
        // What shows again is deleted, as a reclaim does.
        let page = self
            .tree
            .read_view()
            .scan(bounds, ALL, self.seq_no, ReadMode::Blocking)
            .expect("rows can be read");
        self.seq_no += 1;
        let deletes = page.rows.into_iter().map(|(key, _)| Write::Delete(key)).collect();
        self.tree.memtable().insert(self.seq_no, deletes);
        self.model.retain(|key, _| !(range.start <= *key && *key < range.end));
    }

    fn check(&self) {
        check(&self.tree.read_view(), self.seq_no, &self.model);
        for (view, seq_no, model) in &self.kept {
            check(view, *seq_no, model);
        }
    }
}

const ALL: ScanLimit = ScanLimit { max_rows: usize::MAX, max_bytes: usize::MAX };

fn check(view: &ReadView, seq_no: SeqNo, model: &Model) {
    let scan = |from: u16, to: u16, limit| {
        let range = KeyRange { start: key(from), end: key(to) };
        let bounds = tepui_storage::Limits::LOCAL.bounds(&range).expect("the range is not empty");
        view.scan(bounds, limit, seq_no, ReadMode::Blocking).expect("rows can be read")
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
        let held = view.get(&key, seq_no, ReadMode::Blocking).expect("a row can be read");
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
            subject.tree.remove_obsolete();
        }
        subject.check();
        subject.follow(Step::Reopen);
        subject.check();
    }
}

fn levels(tree: &LsmTree) -> Vec<usize> {
    let mut counts = vec![0; levels::LEVELS];
    tree.read_view().levels.tables().for_each(|(level, _)| counts[level] += 1);
    counts
}

fn files(subject: &Subject) -> usize {
    table_files(&tepui_files::SystemFiles, subject.folder.path()).expect("the folder can be read").ids.len()
}

/// Writes keys once, in an order that mixes them.
fn fill(subject: &mut Subject, count: u16) {
    for number in 0..count {
        subject.write(vec![(number * 7 % count, Some(300))]);
        while !subject.tree.read_view().sealed.is_empty() {
            subject.tree.flush().expect("a memtable can be written");
            while subject.tree.compact(2, WriteLoad::Heavy).expect("tables can be compacted") {}
        }
    }
}

#[test]
fn tables_sink_and_what_is_replaced_goes() {
    let mut subject = Subject::new();
    fill(&mut subject, 399);
    let counts = levels(&subject.tree);
    assert!(counts[0] < 2 && counts[1] > 0 && counts[2] > 0, "{counts:?}");
    subject.tree.remove_obsolete();
    assert!(!subject.tree.has_obsolete(), "there are no readers");
    assert_eq!(files(&subject), counts.iter().sum::<usize>(), "only tables that count are left");
    subject.check();
}

#[test]
fn a_reader_holds_its_tables() {
    let mut subject = Subject::new();
    fill(&mut subject, 399);
    subject.follow(Step::Keep);
    fill(&mut subject, 399);
    subject.tree.remove_obsolete();
    assert!(subject.tree.has_obsolete());
    let count = files(&subject);
    subject.check();
    subject.kept.clear();
    subject.tree.remove_obsolete();
    assert!(!subject.tree.has_obsolete());
    assert!(files(&subject) < count);
    subject.check();
}

#[test]
fn tombstones_go_with_what_they_delete() {
    let mut subject = Subject::new();
    fill(&mut subject, 399);
    for number in 0..399 {
        subject.write(vec![(number, None)]);
    }
    subject.flush();
    while subject.tree.compact(1, WriteLoad::Light).expect("tables can be compacted") {}
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
        while !subject.tree.read_view().sealed.is_empty() {
            subject.tree.flush().expect("a memtable can be written");
            while subject.tree.compact(2, WriteLoad::Heavy).expect("tables can be compacted") {}
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
    subject.tree.remove_obsolete();
    let count = files(&subject);
    std::fs::write(subject.folder.path().join("900"), "half a table").expect("a file can be written");
    std::fs::write(subject.folder.path().join("MANIFEST.new"), "half").expect("a file can be written");
    std::fs::write(subject.folder.path().join("stranger"), "").expect("a file can be written");
    subject.follow(Step::Reopen);
    assert_eq!(files(&subject), count);
    subject.check();
    assert!(subject.folder.path().join("stranger").exists(), "files of others are left alone");
}

#[test]
fn the_first_table_of_all_may_be_left_of_a_crash() {
    let mut subject = Subject::new();
    std::fs::write(subject.folder.path().join("1"), "half a table").expect("a file can be written");
    let (tree, number) = open(subject.folder.path(), DirectoryState::Existing);
    assert_eq!((number, files(&subject)), (0, 0));
    subject.tree = Arc::new(tree);
    fill(&mut subject, 100);
    subject.follow(Step::Reopen);
    subject.check();
}

#[test]
fn tables_are_compacted_by_several_threads_while_others_are_written_and_read() {
    let mut subject = Subject::new();
    let tree = Arc::clone(&subject.tree);
    let over = AtomicBool::new(false);
    let compact = || {
        while !over.load(Ordering::Relaxed) {
            tree.compact(2, WriteLoad::Idle).expect("tables can be compacted");
            tree.remove_obsolete();
        }
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(compact), scope.spawn(compact), scope.spawn(compact)];
        // Each round overwrites, and deletes every fifth key.
        for round in 0..6 {
            for number in 0..400 {
                let key = number * (7 + 2 * round) % 400;
                let length = (key % 5 != round % 5).then_some(200 + round);
                subject.write(vec![(key, length)]);
                if !subject.tree.read_view().sealed.is_empty() {
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
    while subject.tree.compact(2, WriteLoad::Idle).expect("tables can be compacted") {}
    drop(tree);
    subject.follow(Step::Reopen);
    subject.check();
}

#[test]
fn a_tree_that_was_stopped_leaves_the_manifest_to_the_next_one() {
    let mut subject = Subject::new();
    fill(&mut subject, 399);
    subject.flush();
    let before = Arc::clone(&subject.tree);
    before.stop();
    let read = || Manifest::read(&tepui_files::SystemFiles, subject.folder.path());
    let manifest = read();
    assert!(!before.compact(1, WriteLoad::Light).expect("it ends early"));
    let all = (Bound::Unbounded, Bound::Unbounded);
    assert!(matches!(before.drop_range(all), Err(error) if error.kind() == StorageErrorKind::Unavailable));
    assert_eq!(read(), manifest);
    subject.follow(Step::Reopen);
    subject.check();
}

#[test]
fn few_tables_are_open_at_once() {
    let mut subject = Subject::new();
    fill(&mut subject, 399);
    subject.flush();
    let tables = levels(&subject.tree).iter().sum::<usize>();
    assert!(tables > 2 * SIZES.cache.tables, "{tables} tables");
    subject.check();
    subject.tree.remove_obsolete();
    let open = subject.tree.cache.open_tables();
    assert!((1..=SIZES.cache.tables).contains(&open), "{open} of {tables} are open");
    // What is not open is not read without waiting.
    let cached = (0..399).filter(|number| {
        let read = subject.tree.read_view().get(&key(*number), subject.seq_no, ReadMode::Cached);
        match read {
            Ok(_) => true,
            Err(ReadError::WouldBlock) => false,
            Err(ReadError::Storage(error)) => panic!("{error}"),
        }
    });
    assert!(cached.count() < 399);
}

#[test]
fn a_scan_looks_at_so_many_rows_and_no_more() {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let (tree, _) = open(folder.path(), DirectoryState::New);
    let key = |number: usize| Key::from(format!("{number:06}"));
    let count = 3 * MAX_VISITED_ROWS;
    tree.memtable().insert(1, (0..=count).map(|number| Write::Put(key(number), "v".into())).collect());
    tree.memtable().insert(2, (0..count).map(|number| Write::Delete(key(number))).collect());
    let range = KeyRange { start: key(0), end: Key::from_static(b"9") };
    let mut from = range.start.clone();
    let mut pages = 0;
    let found = loop {
        let rest = KeyRange { start: from, end: range.end.clone() };
        let bounds = tepui_storage::Limits::LOCAL.bounds(&rest).expect("there is something left");
        let limit = ScanLimit { max_rows: 10, ..ALL };
        let page = tree.read_view().scan(bounds, limit, 2, ReadMode::Cached).expect("rows can be read");
        pages += 1;
        match page.next {
            Some(next) => from = next,
            None => break page.rows,
        }
        assert!(page.rows.is_empty() && pages < 10);
    };
    assert_eq!((found.len(), pages), (1, 4));
}

/// The k-th write of the manifest fails, before and after its name is changed.
#[test]
fn a_manifest_that_is_not_written_loses_nothing() {
    use tepui_files::{CrashOutcome, Failure, SimulatedFiles};
    let row = |number: usize| (Key::from(format!("key {number}")), Value::from(vec![b'v'; 100]));
    for call in 0..60 {
        for outcome in [CrashOutcome::Nothing, CrashOutcome::Everything] {
            let files = SimulatedFiles::new(call);
            files.create_directory(Path::new("/rows")).expect("a directory can be made");
            files.sync_directory(Path::new("/")).expect("a directory can be synced");
            let shared: Arc<dyn FileSystem> = Arc::new(files.clone());
            let open = |files: &Arc<dyn FileSystem>, expect| {
                let (tree, found) =
                    LsmTree::open(files, Path::new("/rows"), SIZES, expect).expect("it can be opened");
                tree.record_wal(WalPosition { segment: 1, groups: None }).expect("nothing fails");
                (tree, found.flushed)
            };
            let tree = open(&shared, DirectoryState::New).0;
            files.fail(files.calls() + call, Failure::Input);
            let mut flushed = 0;
            for number in 1..=4 {
                let (key, value) = row(number);
                tree.memtable().insert(number as u64, vec![Write::Put(key, value)]);
                tree.seal();
                // A flush that fails is tried again, and others go on meanwhile.
                for _ in 0..2 {
                    let _ = tree.compact(2, WriteLoad::Idle);
                    if tree.flush().is_ok() {
                        flushed = number;
                        break;
                    }
                }
                tree.remove_obsolete();
            }
            let after: Arc<dyn FileSystem> = Arc::new(files.crash(outcome));
            let (tree, number) = open(&after, DirectoryState::Existing);
            assert_eq!(number, 4);
            for number in 1..=flushed {
                let (key, value) = row(number);
                let found = tree.read_view().get(&key, 9, ReadMode::Blocking).expect("a row can be read");
                assert_eq!(found, Some(value), "call {call}, {outcome:?}, row {number}");
            }
        }
    }
}

/// A level is chosen by how much too large it is, level 0 like the others.
#[test]
fn the_level_that_is_too_large_by_the_most_is_compacted_first() {
    let files: Arc<dyn FileSystem> = Arc::new(tepui_files::SystemFiles);
    let cache = Arc::new(TableCache::new(SIZES.cache));
    let mut id = 0;
    let mut table = |first: usize, last: usize| {
        id += 1;
        let key = |number: usize| Key::from(format!("{number:05}"));
        let bytes = SIZES.memtable_bytes;
        let meta = sorted_table::TableMeta {
            id,
            bytes,
            rows: 10,
            tombstones: 0,
            first: key(first),
            last: key(last),
        };
        Arc::new(SortedTable::new(&files, &cache, PathBuf::new(), meta))
    };
    // Level 1 may have four tables, level 2 forty.
    for (first, second, expected) in
        [(8, 4, Some(1)), (8, 12, Some(2)), (7, 4, None), (7, 5, Some(2)), (16, 6, Some(1))]
    {
        let mut tables: Vec<(usize, Arc<SortedTable>)> = (0..first).map(|_| (0, table(0, 9999))).collect();
        tables.extend((0..second).map(|at| (1, table(at * 100, at * 100 + 50))));
        tables.extend((0..20).map(|at| (2, table(at * 100, at * 100 + 60))));
        let levels = Levels::new(tables.into_iter(), vec![]).expect("they do not overlap");
        let pick = |space| {
            levels
                .pick_compaction(SIZES, &Avoided::default(), 8, space)
                .map(|compaction| compaction.target_level)
        };
        assert_eq!(pick(u64::MAX), expected, "{first} tables in level 0, {second} in level 1");
        assert_eq!(pick(0), None, "nothing is compacted without space for it");
    }
}

/// A block that the disk cannot read stalls the compaction of its table, and no other one.
#[test]
fn a_table_that_cannot_be_read_is_left_out() {
    use tepui_files::SimulatedFiles;
    let files = SimulatedFiles::new(1);
    files.create_directory(Path::new("/rows")).expect("a directory can be made");
    let shared: Arc<dyn FileSystem> = Arc::new(files.clone());
    let opened = LsmTree::open(&shared, Path::new("/rows"), SIZES, DirectoryState::New);
    let tree = opened.expect("it can be opened").0;
    tree.record_wal(WalPosition { segment: 1, groups: None }).expect("the manifest can be written");
    let mut seq_no = 0;
    let mut flush = |first: u16| {
        for number in first..first + 10 {
            seq_no += 1;
            tree.memtable().insert(seq_no, vec![Write::Put(key(number), vec![7; 350].into())]);
        }
        tree.seal();
        tree.flush().expect("a memtable can be written");
    };
    // Level 1 becomes too large: ten ranges that overlap level 2, one of which cannot be read.
    for _ in 0..2 {
        for first in (0..400).step_by(40) {
            flush(first);
        }
        while tree.compact(1, WriteLoad::Heavy).expect("tables can be compacted") {}
    }
    let level_1 = tree.read_view().levels.level(1).to_vec();
    let first = level_1.first().expect("level 1 has tables");
    let unreadable = PathBuf::from(format!("/rows/{}", first.meta.id));
    let is_left = || files.list().iter().any(|(path, _)| *path == unreadable);
    assert!(is_left(), "tables are named by their ids");
    let is_far = |row: &u16| key(*row + 20) < first.meta.first || key(*row) > first.meta.last;
    files.set_unreadable(Some(&unreadable));
    // A table of level 0 that has to be merged with it, and others that need not.
    let number = std::str::from_utf8(&first.meta.first[4..]).expect("a key is text");
    flush(number.parse().expect("a key has a number"));
    let mut compacted = 0;
    for round in 0..4 {
        for first_row in (0..400).step_by(40).filter(is_far) {
            flush(first_row + round);
            compacted += usize::from(tree.compact(1, WriteLoad::Heavy).unwrap_or(false));
        }
    }
    while tree.compact(1, WriteLoad::Heavy).unwrap_or(false) {}
    let tables = levels(&tree);
    assert!(compacted > 20 && tables[0] == 1, "others are compacted: {tables:?}, {compacted} times");
    assert!(is_left());
    // When it can be read again, it is compacted like the others.
    files.set_unreadable(None);
    while tree.compact(1, WriteLoad::Idle).expect("tables can be compacted") {}
    assert_eq!(levels(&tree)[0], 0);
    drop(level_1);
    tree.remove_obsolete();
    assert!(!is_left());
}

#[test]
fn when_idle_the_disk_holds_little_more_than_what_is_there() {
    let mut subject = Subject::new();
    // Much, most of it deleted, and what is left written again: too little for a compaction to be due.
    fill(&mut subject, 400);
    for number in 40..400 {
        subject.write(vec![(number, None)]);
    }
    subject.flush();
    while subject.tree.compact(4, WriteLoad::Light).expect("tables can be compacted") {}
    for number in 0..40 {
        subject.write(vec![(number, Some(299))]);
    }
    subject.flush();
    while subject.tree.compact(9, WriteLoad::Light).expect("tables can be compacted") {}
    let size = |subject: &Subject| -> u64 {
        subject.tree.read_view().levels.tables().map(|(_, table)| table.meta.bytes).sum()
    };
    let before = size(&subject);
    while subject.tree.compact(4, WriteLoad::Idle).expect("tables can be compacted") {}
    subject.check();
    let live: usize = subject.model.iter().map(|(key, value)| key.len() + value.len()).sum();
    let after = size(&subject);
    assert!(after < before && after < 2 * live as u64, "{after} of {before} bytes for {live}");
}
