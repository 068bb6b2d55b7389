//! Journals as they are after a crash, and journals that are damaged.

use super::*;
use crate::journal::sector::{PAGE, SECTOR};
use proptest::prelude::*;
use std::collections::BTreeSet;

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Opens the journal, and tells the numbers of what was in it.
    fn open(&self) -> Result<(Journal, Vec<u64>), EngineError> {
        let mut numbers = Vec::new();
        let journal = Journal::open(self.folder.path(), |batch| {
            assert_eq!(batch, Batch { number: batch.number, writes: writes(batch.number) });
            numbers.push(batch.number);
        })?;
        Ok((journal, numbers))
    }

    fn numbers(&self) -> Vec<u64> {
        self.open().unwrap().1
    }

    fn files(&self) -> Vec<PathBuf> {
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
        journal.append(number, &writes(number)).unwrap();
        journal.sync().unwrap();
    }
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
    journal.begin().unwrap();
    append(&mut journal, 6..=9);
    drop(journal);
    let (mut journal, numbers) = bench.open().unwrap();
    assert_eq!(numbers, (1..=9).collect::<Vec<_>>());
    assert_eq!(journal.segments(), 3);
    append(&mut journal, 10..=11);
    drop(journal);
    let (mut journal, numbers) = bench.open().unwrap();
    assert_eq!(numbers, (1..=11).collect::<Vec<_>>(), "opened again without a change");

    journal.release(1);
    append(&mut journal, 12..=12);
    drop(journal);
    let (mut journal, numbers) = bench.open().unwrap();
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>(), "a release counts from the next segment on");
    journal.release(2);
    journal.begin().unwrap();
    append(&mut journal, 13..=13);
    drop(journal);
    assert_eq!(bench.numbers(), (10..=13).collect::<Vec<_>>());
}

#[test]
fn files_are_used_again_and_do_not_pile_up() {
    let bench = Bench::new();
    let mut journal = bench.open().unwrap().0;
    for number in 1..=40 {
        append(&mut journal, number..=number);
        let segment = journal.segment();
        journal.begin().unwrap();
        if number % 8 == 0 {
            journal.release(segment);
        }
    }
    journal.begin().unwrap();
    assert!(bench.files().len() <= SPARE_FILES + 2, "{:?}", bench.files());
    append(&mut journal, 41..=41);
    drop(journal);
    assert_eq!(bench.numbers(), [41]);
}

#[test]
fn every_open_without_a_change_leaves_as_many_files() {
    let bench = Bench::new();
    for _ in 0..20 {
        let mut journal = bench.open().unwrap().0;
        journal.release(journal.segment() - 1);
        journal.begin().unwrap();
    }
    assert!(bench.files().len() <= SPARE_FILES + 3, "{:?}", bench.files());
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
            append(&mut journal, 90..=99);
            let segment = journal.segment();
            journal.begin().unwrap();
            journal.release(segment);
            journal.begin().unwrap();
        }
        append(&mut journal, 1..=before);
        let (path, start) = (journal.current.place.path.clone(), journal.bytes() as usize);
        let old = std::fs::read(&path).unwrap();
        append(&mut journal, 80..=80);
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
        let mut expected: Vec<u64> = (1..=before).collect();
        expected.extend((lost == 0).then_some(80));
        let mut journal = bench.open().unwrap();
        prop_assert_eq!(&journal.1, &expected);
        // It stays out, whatever is written later.
        append(&mut journal.0, 81..=82);
        drop(journal);
        expected.extend([81, 82]);
        prop_assert_eq!(bench.numbers(), expected);
    }

    /// A byte that is not what was written, anywhere in what was written.
    #[test]
    fn damage_is_found(place in any::<prop::sample::Index>(), file in any::<prop::sample::Index>(), bit in 0u8..8) {
        let bench = Bench::new();
        let mut journal = bench.open().unwrap().0;
        append(&mut journal, 1..=4);
        journal.begin().unwrap();
        append(&mut journal, 5..=9);
        drop(journal);
        let files = bench.files();
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
            journal.begin().unwrap();
        }
        append(&mut journal, 13..=14);
        bench
    };
    // A file; but without the last one, nothing says that there was more.
    let mut numbers = BTreeSet::new();
    for index in 0..4 {
        let bench = fill();
        std::fs::remove_file(&bench.files()[index]).unwrap();
        match bench.open() {
            Ok((_, found)) => assert!(numbers.insert(found.len())),
            Err(error) => assert!(matches!(error, EngineError::Corrupt(_)), "{error}"),
        }
    }
    assert_eq!(numbers, BTreeSet::from([12]), "only the last file can go unnoticed");
    // The last group of a segment that has a successor, and the head of one that has groups.
    for (index, sectors) in [(1, 1..usize::MAX), (3, 0..1)] {
        let bench = fill();
        let path = &bench.files()[index];
        let mut bytes = std::fs::read(path).unwrap();
        let written: Vec<usize> = (0..bytes.len() / PAGE)
            .filter(|page| bytes[page * PAGE..][..PAGE].iter().any(|byte| *byte != 0))
            .collect();
        let page = if sectors.start == 0 { 0 } else { *written.last().unwrap() };
        bytes[page * PAGE..][..PAGE].fill(0);
        std::fs::write(path, bytes).unwrap();
        assert!(is_corrupt(bench.open()), "file {index}");
    }
    // Foreign files.
    let bench = fill();
    std::fs::write(bench.folder.path().join("notes"), "").unwrap();
    assert!(is_corrupt(bench.open()));
}

#[test]
fn a_rewritten_journal_is_the_same() {
    let bench = Bench::new();
    rewrite_last(bench.folder.path()).unwrap();
    let mut journal = bench.open().unwrap().0;
    append(&mut journal, 1..=3);
    drop(journal);
    std::fs::write(bench.folder.path().join("0.copy"), "half a copy").unwrap();
    rewrite_last(bench.folder.path()).unwrap();
    assert_eq!(bench.numbers(), [1, 2, 3]);
}
