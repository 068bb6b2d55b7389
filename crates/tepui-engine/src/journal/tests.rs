//! Journals as they are after a crash, and journals that are damaged.

use super::*;
use crate::journal::sector::{PAGE, SECTOR};
use proptest::prelude::*;
use tepui_files::{DirectWrites, Failure, SimulatedFiles, SystemFiles};

struct Bench {
    folder: tempfile::TempDir,
    /// What the manifest would say.
    end: std::cell::Cell<JournalEnd>,
    flushed: std::cell::Cell<u64>,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), end: Default::default(), flushed: Default::default() }
    }

    fn files() -> Arc<dyn FileSystem> {
        Arc::new(SystemFiles)
    }

    /// Opens the journal, and tells the numbers of what was in it.
    fn open(&self) -> Result<(Journal, Vec<u64>), EngineError> {
        let mut numbers = Vec::new();
        let (files, expected) = (Self::files(), (Expect::Everything, self.end.get()));
        let flushed = self.flushed.get();
        let mut journal = Journal::read(&files, self.folder.path(), 64 << 20, expected, flushed, |batch| {
            assert_eq!(batch, Batch { number: batch.number, writes: writes(batch.number) });
            numbers.push(batch.number);
        })?;
        self.begin(&mut journal);
        Ok((journal, numbers))
    }

    fn begin(&self, journal: &mut Journal) {
        let begun = journal.begin().unwrap();
        self.end.set(JournalEnd { segment: begun.segment(), groups: None });
        journal.go_on(begun);
    }

    /// Ends in good order.
    fn close(&self, journal: Journal) {
        self.end.set(journal.end().unwrap());
    }

    fn numbers(&self) -> Vec<u64> {
        self.open().unwrap().1
    }

    fn paths(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> =
            std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

/// Different in size for every number: from less than a sector to several pages.
fn writes(number: u64) -> Vec<Write> {
    let text = format!("{number} ").repeat((number as usize * 37) % 3000);
    vec![Write::Put("key".into(), text.into()), Write::Delete(format!("gone {number}").into())]
}

fn append(journal: &mut Journal, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        journal.write(number, &writes(number)).unwrap();
    }
}

/// A journal that was begun, and is named from here on.
fn begun(mut journal: Journal) -> Journal {
    let begun = journal.begin().unwrap();
    journal.go_on(begun);
    journal
}

fn is_corrupt<T>(result: Result<T, EngineError>) -> bool {
    matches!(result, Err(EngineError::Corrupt(_)))
}

#[test]
fn what_was_written_is_read_again_until_it_is_released() {
    let bench = Bench::new();
    let (mut journal, numbers) = bench.open().unwrap();
    assert_eq!(numbers, []);
    append(&mut journal, 1..=5);
    bench.begin(&mut journal);
    append(&mut journal, 6..=9);
    drop(journal);
    let (mut journal, numbers) = bench.open().unwrap();
    assert_eq!(numbers, (1..=9).collect::<Vec<_>>());
    assert_eq!(journal.segments(), 3);
    append(&mut journal, 10..=11);
    drop(journal);
    let (journal, numbers) = bench.open().unwrap();
    assert_eq!(numbers, (1..=11).collect::<Vec<_>>(), "opened again without a change");
    bench.close(journal);
    let (mut journal, numbers) = bench.open().unwrap();
    assert_eq!(numbers, (1..=11).collect::<Vec<_>>(), "and after it was closed in good order");

    bench.flushed.set(5);
    journal.release(1);
    append(&mut journal, 12..=12);
    drop(journal);
    let (mut journal, numbers) = bench.open().unwrap();
    assert_eq!(numbers, (6..=12).collect::<Vec<_>>());
    bench.flushed.set(9);
    journal.release(2);
    bench.begin(&mut journal);
    append(&mut journal, 13..=13);
    drop(journal);
    assert_eq!(bench.numbers(), (10..=13).collect::<Vec<_>>());
    bench.flushed.set(13);
    assert_eq!(bench.numbers(), []);
}

#[test]
fn files_are_used_again_and_do_not_pile_up() {
    let bench = Bench::new();
    let mut journal = bench.open().unwrap().0;
    for number in 1..=40 {
        append(&mut journal, number..=number);
        let segment = journal.segment();
        bench.begin(&mut journal);
        if number % 8 == 0 {
            journal.release(segment);
        }
    }
    bench.begin(&mut journal);
    assert!(bench.paths().len() <= SPARE_FILES + 2, "{:?}", bench.paths());
    append(&mut journal, 41..=41);
    drop(journal);
    bench.flushed.set(40);
    assert_eq!(bench.numbers(), [41]);
}

#[test]
fn every_open_without_a_change_leaves_as_many_files() {
    let bench = Bench::new();
    for number in 0..20 {
        let journal = bench.open().unwrap().0;
        if number % 2 == 0 {
            bench.close(journal);
        }
    }
    assert!(bench.paths().len() <= SPARE_FILES + 1, "{:?}", bench.paths());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A group that was being written when the power went: any of its sectors are there.
    #[test]
    fn an_unfinished_group_is_left_out(before in 0u64..5, again in any::<bool>(), there in any::<u64>()) {
        let bench = Bench::new();
        let mut journal = bench.open().unwrap().0;
        if again {
            // What the file held before shows through.
            append(&mut journal, 1..=10);
            let segment = journal.segment();
            bench.begin(&mut journal);
            journal.release(segment);
            bench.flushed.set(10);
            bench.begin(&mut journal);
            bench.begin(&mut journal);
        }
        let first = bench.flushed.get() + 1;
        let last = first + before;
        append(&mut journal, first..=last - 1);
        let (path, start) = (journal.current.as_ref().unwrap().place.path.clone(), journal.bytes() as usize);
        let old = std::fs::read(&path).unwrap();
        append(&mut journal, last..=last);
        drop(journal);
        let mut new = std::fs::read(&path).unwrap();
        let sectors = (new.len().min(old.len()) - start) / SECTOR;
        let mut lost = 0;
        for sector in 0..sectors {
            let at = start + sector * SECTOR;
            if there >> (sector % 64) & 1 == 0 && new[at..at + SECTOR] != old[at..at + SECTOR] {
                new[at..at + SECTOR].copy_from_slice(&old[at..at + SECTOR]);
                lost += 1;
            }
        }
        std::fs::write(&path, new).unwrap();
        let last = if lost == 0 { last } else { last - 1 };
        let mut expected: Vec<u64> = (first..=last).collect();
        let mut journal = bench.open().unwrap();
        prop_assert_eq!(&journal.1, &expected);
        // It stays out, whatever is written later.
        append(&mut journal.0, last + 1..=last + 2);
        drop(journal);
        expected.extend([last + 1, last + 2]);
        prop_assert_eq!(bench.numbers(), expected);
    }

    /// A byte that is not what was written, anywhere in what was written.
    #[test]
    fn damage_is_found(place in any::<prop::sample::Index>(), file in any::<prop::sample::Index>(), bit in 0u8..8) {
        let bench = Bench::new();
        let mut journal = bench.open().unwrap().0;
        append(&mut journal, 1..=4);
        bench.begin(&mut journal);
        append(&mut journal, 5..=9);
        // Only what was closed in good order tells damage from a write that failed half way.
        bench.close(journal);
        let files = bench.paths();
        let path = &files[file.index(files.len())];
        let mut bytes = std::fs::read(path).unwrap();
        let written: Vec<usize> = (0..bytes.len() / SECTOR)
            .filter(|sector| bytes[sector * SECTOR..][..SECTOR].iter().any(|byte| *byte != 0))
            .collect();
        let place = written[place.index(written.len() * SECTOR) / SECTOR] * SECTOR + place.index(SECTOR);
        bytes[place] ^= 1u8 << bit;
        std::fs::write(path, bytes).unwrap();
        prop_assert!(is_corrupt(bench.open()));
    }
}

#[test]
fn what_is_missing_is_noticed() {
    let fill = || {
        let bench = Bench::new();
        let mut journal = bench.open().unwrap().0;
        for segment in 0..3 {
            append(&mut journal, segment * 4 + 1..=segment * 4 + 4);
            bench.begin(&mut journal);
        }
        append(&mut journal, 13..=14);
        bench
    };
    for index in 0..4 {
        let bench = fill();
        std::fs::remove_file(&bench.paths()[index]).unwrap();
        assert!(is_corrupt(bench.open()), "file {index}");
    }
    // The last group of a segment that has a successor, and the head of one that has groups.
    for (index, sectors) in [(1, 1..usize::MAX), (3, 0..1)] {
        let bench = fill();
        let path = &bench.paths()[index];
        let mut bytes = std::fs::read(path).unwrap();
        let written: Vec<usize> = (0..bytes.len() / PAGE)
            .filter(|page| bytes[page * PAGE..][..PAGE].iter().any(|byte| *byte != 0))
            .collect();
        let page = if sectors.start == 0 { 0 } else { *written.last().unwrap() };
        bytes[page * PAGE..][..PAGE].fill(0);
        std::fs::write(path, bytes).unwrap();
        assert!(is_corrupt(bench.open()), "file {index}");
    }
    // The end of the last segment, if it was closed in good order.
    let bench = fill();
    let end = bench.end.get();
    bench.end.set(JournalEnd { groups: Some(3), ..end });
    assert_eq!(bench.numbers(), (1..=14).collect::<Vec<_>>());
    let bench = fill();
    bench.end.set(JournalEnd { groups: Some(4), ..end });
    assert!(is_corrupt(bench.open()));
    // Commits between the tables and the journal.
    let bench = fill();
    bench.flushed.set(4);
    assert_eq!(bench.numbers(), (5..=14).collect::<Vec<_>>());
    let mut journal = bench.open().unwrap().0;
    append(&mut journal, 17..=17);
    drop(journal);
    assert!(is_corrupt(bench.open()));
}

#[test]
fn a_write_that_ends_within_a_sector_is_left_out() {
    for length in [1, 100, 511, 513, 1500] {
        let bench = Bench::new();
        let mut journal = bench.open().unwrap().0;
        bench.flushed.set(26);
        append(&mut journal, 27..=29);
        let (path, end) = (journal.current.as_ref().unwrap().place.path.clone(), journal.bytes() as usize);
        append(&mut journal, 30..=30);
        drop(journal);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[end + length..].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(bench.numbers(), [27, 28, 29], "{length} bytes");
        // But not if more of the group is behind it: then it was whole once.
        let bench = Bench::new();
        let mut journal = bench.open().unwrap().0;
        append(&mut journal, 70..=70);
        bench.flushed.set(69);
        drop(journal);
        let mut bytes = std::fs::read(path_of(&bench)).unwrap();
        bytes[PAGE + 100] ^= 1;
        std::fs::write(path_of(&bench), &bytes).unwrap();
        assert!(is_corrupt(bench.open()));
    }
}

/// The file of a journal that has only one.
fn path_of(bench: &Bench) -> PathBuf {
    bench.paths().remove(0)
}

#[test]
fn files_of_others_are_left_alone() {
    let bench = Bench::new();
    let mut journal = bench.open().unwrap().0;
    append(&mut journal, 1..=1);
    drop(journal);
    for name in ["notes", "0.backup", "0.copy"] {
        std::fs::write(bench.folder.path().join(name), "somebody's").unwrap();
        assert_eq!(bench.numbers(), [1]);
        assert_eq!(std::fs::read(bench.folder.path().join(name)).unwrap(), b"somebody's");
    }
}

#[test]
fn a_new_directory_has_no_batches() {
    let bench = Bench::new();
    let open = |end| {
        let expected = (Expect::Nothing, end);
        Journal::read(&Bench::files(), bench.folder.path(), 64 << 20, expected, 0, |_| {}).map(drop)
    };
    let mut journal = bench.open().unwrap().0;
    assert_eq!(open(JournalEnd::default()), Ok(()), "one that was interrupted");
    append(&mut journal, 1..=1);
    assert!(is_corrupt(open(JournalEnd::default())));
    assert!(is_corrupt(open(bench.end.get())));
}

/// What is written by a process that is then killed may be nowhere but in memory.
#[test]
fn the_last_batch_is_written_again() {
    let bench = Bench::new();
    let mut journal = bench.open().unwrap().0;
    append(&mut journal, 1..=3);
    let (path, before) = (journal.current.as_ref().unwrap().place.path.clone(), journal.bytes() as usize);
    append(&mut journal, 4..=4);
    drop(journal);
    assert_eq!(bench.numbers(), [1, 2, 3, 4]);
    // The power goes, and with it what was not synced.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[before..].fill(0);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(bench.numbers(), [1, 2, 3, 4]);
    let mut journal = bench.open().unwrap().0;
    append(&mut journal, 5..=5);
    drop(journal);
    assert_eq!(bench.numbers(), [1, 2, 3, 4, 5]);
}

#[test]
fn what_failed_is_left_out_for_good() {
    let files = SimulatedFiles::new(1);
    let folder = Path::new("/journal");
    files.create_directory(folder).unwrap();
    let shared: Arc<dyn FileSystem> = Arc::new(files.clone());
    let open = |end: JournalEnd| {
        let mut numbers = Vec::new();
        let expected = (Expect::Everything, end);
        let read = Journal::read(&shared, folder, 1 << 20, expected, 0, |batch| numbers.push(batch.number));
        (begun(read.unwrap()), numbers)
    };
    let mut journal = open(JournalEnd::default()).0;
    let end = JournalEnd { segment: journal.segment(), groups: None };
    append(&mut journal, 1..=2);
    // All of it is written, and the sync says that it is not.
    files.fail(files.calls() + 1, Failure::Input);
    assert!(journal.write(3, &writes(3)).is_err());
    assert_eq!(open(end).1, [1, 2, 3], "before the failure is dealt with, it may be there");
    let begun = journal.begin().unwrap();
    let end = JournalEnd { segment: begun.segment(), groups: None };
    journal.go_on(begun);
    append(&mut journal, 3..=3);
    assert_eq!(open(end).1, [1, 2, 3], "the other one with this number");
}

#[test]
fn direct_writes_that_are_refused_late_are_done_otherwise() {
    let files = SimulatedFiles::new(1);
    files.set_direct_writes(DirectWrites::RefusedAtWrite);
    let folder = Path::new("/journal");
    files.create_directory(folder).unwrap();
    let shared: Arc<dyn FileSystem> = Arc::new(files);
    let mut end = JournalEnd::default();
    for number in 1..5 {
        let mut numbers = Vec::new();
        let expected = (Expect::Everything, end);
        let read = Journal::read(&shared, folder, 1 << 20, expected, 0, |batch| numbers.push(batch.number));
        let mut journal = begun(read.unwrap());
        assert_eq!(numbers, (1..number).collect::<Vec<_>>());
        append(&mut journal, number..=number);
        end = JournalEnd { segment: journal.segment(), groups: None };
    }
}
