//! A directory of an earlier format is upgraded whole, wherever the upgrade is interrupted.

use flate2::read::GzDecoder;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use tepui_files::{CrashOutcome, Create, FileSystem, OpenOptions, SimulatedFiles, create_directories};
use tepui_local::{DiskEngine, EngineOptions};
use tepui_storage::{Engine, Key, KeyRange, ScanLimit, Snapshot, StorageError, Value};

const FIXTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../tepui/tests/upgrade/fixtures/disk-v3/stopped.tar.gz");

#[test]
fn an_upgrade_that_is_interrupted_begins_anew() {
    let before = unpacked();
    let whole = before.copy();
    let expected = rows(&whole, &open(&whole).expect("an earlier format is upgraded"));
    assert!(expected.len() > 200, "{} rows", expected.len());
    let calls = whole.calls() - before.calls();
    assert!(calls > 30, "{calls} calls");
    for call in 0..calls {
        for outcome in [CrashOutcome::Nothing, CrashOutcome::Some, CrashOutcome::Everything] {
            let files = before.copy();
            files.crash_at(files.calls() + call);
            drop(open(&files));
            let after = files.crash(outcome);
            let opened = open(&after).unwrap_or_else(|error| panic!("call {call}, {outcome:?}: {error}"));
            assert_eq!(rows(&after, &opened), expected, "call {call}, {outcome:?}");
        }
    }
}

fn open(files: &SimulatedFiles) -> Result<DiskEngine, StorageError> {
    let mut options = EngineOptions::new("/data");
    options.files = Arc::new(files.clone());
    // So that there are several tables.
    options.memtable_bytes = 64 << 10;
    DiskEngine::open_stepped(options).map(|(engine, _)| engine)
}

fn rows(files: &SimulatedFiles, engine: &DiskEngine) -> Vec<(Key, Value)> {
    let snapshot = files.complete(engine.begin()).expect("a transaction can begin");
    let mut range = KeyRange { start: Key::new(), end: vec![0xFF; 8].into() };
    let mut rows = Vec::new();
    loop {
        let limit = ScanLimit { max_rows: 1000, max_bytes: 1 << 20 };
        let page = files.complete(snapshot.scan(&range, limit)).expect("rows can be read");
        rows.extend(page.rows);
        match page.next {
            Some(next) => range.start = next,
            None => return rows,
        }
    }
}

/// The directory of the fixture, on disk.
fn unpacked() -> SimulatedFiles {
    let files = SimulatedFiles::new(1);
    let archive = std::fs::File::open(FIXTURE).expect("the fixture is there");
    let mut archive = tar::Archive::new(GzDecoder::new(archive));
    for entry in archive.entries().expect("it is an archive") {
        let mut entry = entry.expect("it is whole");
        let path = Path::new("/data").join(entry.path().expect("it has a name"));
        if entry.header().entry_type().is_dir() {
            create_directories(&files, &path).expect("a directory can be made");
            continue;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("it is whole");
        // Files of the log end with zeros, which take long to read so often.
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if path.starts_with("/data/journal") {
            bytes.truncate(end.next_multiple_of(4096));
        }
        let file = files.open(&path, OpenOptions::create(Create::Truncate)).expect("a file can be made");
        file.write_all_at(&bytes, 0).expect("it can be written");
        file.sync_all().expect("it can be synced");
        files.sync_directory(path.parent().expect("it has a folder")).expect("it can be synced");
    }
    files
}
