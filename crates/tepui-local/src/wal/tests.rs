//! Logs as they are after a crash, and logs that are damaged.

use super::*;
use crate::wal::sector::{PAGE, SECTOR};
use proptest::prelude::*;
use tepui_files::{DirectWrites, Failure, SimulatedFiles, SystemFiles};
use tepui_storage::StorageErrorKind;

struct Bench {
    folder: tempfile::TempDir,
    /// What the manifest would say.
    end: std::cell::Cell<WalPosition>,
    flushed: std::cell::Cell<u64>,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), end: Default::default(), flushed: Default::default() }
    }

    fn files() -> Arc<dyn FileSystem> {
        Arc::new(SystemFiles)
    }

    /// Opens the log, and returns the sequence numbers of its batches.
    fn open(&self) -> Result<(Wal, Vec<u64>), StorageError> {
        let mut numbers = Vec::new();
        let (files, expected) = (Self::files(), (DirectoryState::Existing, self.end.get()));
        let flushed = self.flushed.get();
        let mut wal = Wal::read(&files, self.folder.path(), 64 << 20, expected, flushed, |batch| {
            assert_eq!(batch, WriteBatch { seq_no: batch.seq_no, writes: writes(batch.seq_no) });
            numbers.push(batch.seq_no);
        })?;
        self.begin(&mut wal);
        Ok((wal, numbers))
    }

    fn begin(&self, wal: &mut Wal) {
        let created = wal.create_segment().unwrap();
        self.end.set(WalPosition { segment: created.segment(), groups: None });
        wal.switch_to(created);
    }

    /// A clean shutdown.
    fn close(&self, wal: Wal) {
        self.end.set(wal.end().unwrap());
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

fn append(wal: &mut Wal, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        wal.write(number, &writes(number)).unwrap();
    }
}

/// A log with a segment, which is named from here on.
fn started(mut wal: Wal) -> Wal {
    let created = wal.create_segment().unwrap();
    wal.switch_to(created);
    wal
}

fn is_corrupt<T>(result: Result<T, StorageError>) -> bool {
    matches!(&result, Err(error) if error.kind() == StorageErrorKind::Corrupt)
}

#[test]
fn what_was_written_is_read_again_until_it_is_released() {
    let bench = Bench::new();
    let (mut wal, numbers) = bench.open().unwrap();
    assert_eq!(numbers, []);
    append(&mut wal, 1..=5);
    bench.begin(&mut wal);
    append(&mut wal, 6..=9);
    drop(wal);
    let (mut wal, numbers) = bench.open().unwrap();
    assert_eq!(numbers, (1..=9).collect::<Vec<_>>());
    assert_eq!(wal.segments(), 3);
    append(&mut wal, 10..=11);
    drop(wal);
    let (wal, numbers) = bench.open().unwrap();
    assert_eq!(numbers, (1..=11).collect::<Vec<_>>(), "opened again without a change");
    bench.close(wal);
    let (mut wal, numbers) = bench.open().unwrap();
    assert_eq!(numbers, (1..=11).collect::<Vec<_>>(), "and after it was closed in good order");

    bench.flushed.set(5);
    wal.release(1);
    append(&mut wal, 12..=12);
    drop(wal);
    let (mut wal, numbers) = bench.open().unwrap();
    assert_eq!(numbers, (6..=12).collect::<Vec<_>>());
    bench.flushed.set(9);
    wal.release(2);
    bench.begin(&mut wal);
    append(&mut wal, 13..=13);
    drop(wal);
    assert_eq!(bench.numbers(), (10..=13).collect::<Vec<_>>());
    bench.flushed.set(13);
    assert_eq!(bench.numbers(), []);
}

#[test]
fn files_are_used_again_and_do_not_pile_up() {
    let bench = Bench::new();
    let mut wal = bench.open().unwrap().0;
    for number in 1..=40 {
        append(&mut wal, number..=number);
        let segment = wal.segment();
        bench.begin(&mut wal);
        if number % 8 == 0 {
            wal.release(segment);
        }
    }
    bench.begin(&mut wal);
    assert!(bench.paths().len() <= SPARE_FILES + 2, "{:?}", bench.paths());
    append(&mut wal, 41..=41);
    drop(wal);
    bench.flushed.set(40);
    assert_eq!(bench.numbers(), [41]);
}

#[test]
fn every_open_without_a_change_leaves_as_many_files() {
    let bench = Bench::new();
    for number in 0..20 {
        let wal = bench.open().unwrap().0;
        if number % 2 == 0 {
            bench.close(wal);
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
        let mut wal = bench.open().unwrap().0;
        if again {
            // What the file held before shows through.
            append(&mut wal, 1..=10);
            let segment = wal.segment();
            bench.begin(&mut wal);
            wal.release(segment);
            bench.flushed.set(10);
            bench.begin(&mut wal);
            bench.begin(&mut wal);
        }
        let first = bench.flushed.get() + 1;
        let last = first + before;
        append(&mut wal, first..=last - 1);
        let (path, start) = (wal.current.as_ref().unwrap().file.path.clone(), wal.bytes() as usize);
        let old = std::fs::read(&path).unwrap();
        append(&mut wal, last..=last);
        drop(wal);
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
        let mut wal = bench.open().unwrap();
        prop_assert_eq!(&wal.1, &expected);
        // It stays out, whatever is written later.
        append(&mut wal.0, last + 1..=last + 2);
        drop(wal);
        expected.extend([last + 1, last + 2]);
        prop_assert_eq!(bench.numbers(), expected);
    }

    /// A byte that is not what was written, anywhere in what was written.
    #[test]
    fn damage_is_found(place in any::<prop::sample::Index>(), file in any::<prop::sample::Index>(), bit in 0u8..8) {
        let bench = Bench::new();
        let mut wal = bench.open().unwrap().0;
        append(&mut wal, 1..=4);
        bench.begin(&mut wal);
        append(&mut wal, 5..=9);
        // Only what was closed in good order tells damage from a write that failed half way.
        bench.close(wal);
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
        let mut wal = bench.open().unwrap().0;
        for segment in 0..3 {
            append(&mut wal, segment * 4 + 1..=segment * 4 + 4);
            bench.begin(&mut wal);
        }
        append(&mut wal, 13..=14);
        bench
    };
    for index in 0..4 {
        let bench = fill();
        std::fs::remove_file(&bench.paths()[index]).unwrap();
        assert!(is_corrupt(bench.open()), "file {index}");
    }
    // The last group of a segment that has a successor, and the header of one that has groups.
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
    bench.end.set(WalPosition { groups: Some(3), ..end });
    assert_eq!(bench.numbers(), (1..=14).collect::<Vec<_>>());
    let bench = fill();
    bench.end.set(WalPosition { groups: Some(4), ..end });
    assert!(is_corrupt(bench.open()));
    // Commits between the tables and the log.
    let bench = fill();
    bench.flushed.set(4);
    assert_eq!(bench.numbers(), (5..=14).collect::<Vec<_>>());
    let mut wal = bench.open().unwrap().0;
    append(&mut wal, 17..=17);
    drop(wal);
    assert!(is_corrupt(bench.open()));
}

#[test]
fn a_write_that_ends_within_a_sector_is_left_out() {
    for length in [1, 100, 511, 513, 1500] {
        let bench = Bench::new();
        let mut wal = bench.open().unwrap().0;
        bench.flushed.set(26);
        append(&mut wal, 27..=29);
        let (path, end) = (wal.current.as_ref().unwrap().file.path.clone(), wal.bytes() as usize);
        append(&mut wal, 30..=30);
        drop(wal);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[end + length..].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(bench.numbers(), [27, 28, 29], "{length} bytes");
        // But not if more of the group is behind it: then it was whole once.
        let bench = Bench::new();
        let mut wal = bench.open().unwrap().0;
        append(&mut wal, 70..=70);
        bench.flushed.set(69);
        drop(wal);
        let mut bytes = std::fs::read(path_of(&bench)).unwrap();
        bytes[PAGE + 100] ^= 1;
        std::fs::write(path_of(&bench), &bytes).unwrap();
        assert!(is_corrupt(bench.open()));
    }
}

/// The file of a log that has only one.
fn path_of(bench: &Bench) -> PathBuf {
    bench.paths().remove(0)
}

#[test]
fn files_of_others_are_left_alone() {
    let bench = Bench::new();
    let mut wal = bench.open().unwrap().0;
    append(&mut wal, 1..=1);
    drop(wal);
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
        let expected = (DirectoryState::New, end);
        Wal::read(&Bench::files(), bench.folder.path(), 64 << 20, expected, 0, |_| {}).map(drop)
    };
    let mut wal = bench.open().unwrap().0;
    assert_eq!(open(WalPosition::default()), Ok(()), "one that was interrupted");
    append(&mut wal, 1..=1);
    assert!(is_corrupt(open(WalPosition::default())));
    assert!(is_corrupt(open(bench.end.get())));
}

/// What is written by a process that is then killed may be nowhere but in memory.
#[test]
fn the_last_batch_is_written_again() {
    let bench = Bench::new();
    let mut wal = bench.open().unwrap().0;
    append(&mut wal, 1..=3);
    let (path, before) = (wal.current.as_ref().unwrap().file.path.clone(), wal.bytes() as usize);
    append(&mut wal, 4..=4);
    drop(wal);
    assert_eq!(bench.numbers(), [1, 2, 3, 4]);
    // The power goes, and with it what was not synced.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[before..].fill(0);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(bench.numbers(), [1, 2, 3, 4]);
    let mut wal = bench.open().unwrap().0;
    append(&mut wal, 5..=5);
    drop(wal);
    assert_eq!(bench.numbers(), [1, 2, 3, 4, 5]);
}

#[test]
fn what_failed_is_left_out_for_good() {
    let files = SimulatedFiles::new(1);
    let folder = Path::new("/journal");
    files.create_directory(folder).unwrap();
    let shared: Arc<dyn FileSystem> = Arc::new(files.clone());
    let open = |end: WalPosition| {
        let mut numbers = Vec::new();
        let expected = (DirectoryState::Existing, end);
        let read = Wal::read(&shared, folder, 1 << 20, expected, 0, |batch| numbers.push(batch.seq_no));
        (started(read.unwrap()), numbers)
    };
    let mut wal = open(WalPosition::default()).0;
    let end = WalPosition { segment: wal.segment(), groups: None };
    append(&mut wal, 1..=2);
    // All of it is written, and the sync says that it is not.
    files.fail(files.calls() + 1, Failure::Input);
    assert!(wal.write(3, &writes(3)).is_err());
    assert_eq!(open(end).1, [1, 2, 3], "before the failure is dealt with, it may be there");
    let created = wal.create_segment().unwrap();
    let end = WalPosition { segment: created.segment(), groups: None };
    wal.switch_to(created);
    append(&mut wal, 3..=3);
    assert_eq!(open(end).1, [1, 2, 3], "the other one with this number");
}

#[test]
fn direct_writes_that_are_refused_late_are_done_otherwise() {
    let files = SimulatedFiles::new(1);
    files.set_direct_writes(DirectWrites::RefusedAtWrite);
    let folder = Path::new("/journal");
    files.create_directory(folder).unwrap();
    let shared: Arc<dyn FileSystem> = Arc::new(files);
    let mut end = WalPosition::default();
    for number in 1..5 {
        let mut numbers = Vec::new();
        let expected = (DirectoryState::Existing, end);
        let read = Wal::read(&shared, folder, 1 << 20, expected, 0, |batch| numbers.push(batch.seq_no));
        let mut wal = started(read.unwrap());
        assert_eq!(numbers, (1..number).collect::<Vec<_>>());
        append(&mut wal, number..=number);
        end = WalPosition { segment: wal.segment(), groups: None };
    }
}
