//! Directories that are not as they were left: damaged files, another process, another format.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_files::{SimulatedFiles, SystemFiles};
use tepui_local::check::{Damage, DirectoryCheck};
use tepui_local::{DiskEngine, EngineOptions, OfflineDirectory, OfflineError};
use tepui_storage::{
    Commit, CommitError, Engine, Key, KeyRange, ScanLimit, Snapshot, StorageError, StorageErrorKind,
    Transaction, Value, Write,
};

const ROWS: u32 = 400;

fn key(number: u32) -> Key {
    format!("row {number:05}").into()
}

fn value(number: u32) -> Value {
    (0..300u32).map(|index| (index * 7 + number * 13) as u8).collect::<Vec<u8>>().into()
}

fn options(path: &Path) -> EngineOptions {
    let mut options = EngineOptions::new(path);
    options.memtable_bytes = 16 << 10;
    options.block_bytes = 1024;
    options.compaction_threads = 1;
    options
}

async fn put(engine: &DiskEngine, numbers: impl Iterator<Item = u32>) -> Result<(), CommitError> {
    let writes: Vec<Write> = numbers.map(|number| Write::Put(key(number), value(number))).collect();
    engine.begin().await?.commit(writes.into()).await
}

/// Rows in tables and in the write-ahead log.
fn fill(path: &Path) {
    block_on(async {
        let engine = DiskEngine::open(options(path)).expect("a directory can be created");
        for first in (0..ROWS).step_by(20) {
            put(&engine, first..first + 20).await.expect("rows can be written");
        }
        let give_up = Instant::now() + Duration::from_secs(10);
        while tables(path).is_empty() {
            assert!(Instant::now() < give_up, "rows become tables");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    // Log files are preallocated with zeros, which would be copied hundreds of times.
    for file in files(path) {
        let bytes = std::fs::read(&file).expect("a file can be read");
        if bytes.len() > 1 << 20 {
            std::fs::write(&file, &bytes[..used(&bytes)]).expect("a file can be written");
        }
    }
}

fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

fn tables(path: &Path) -> Vec<PathBuf> {
    files(path).into_iter().filter(|file| is_table(file)).collect()
}

fn is_table(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    file.parent().is_some_and(|folder| folder.ends_with("rows")) && name.parse::<u64>().is_ok()
}

fn files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).expect("a file of the directory"));
        std::fs::create_dir_all(target.parent().expect("a file has a folder")).expect("a folder can be made");
        std::fs::copy(&file, &target).expect("a file can be copied");
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(future)
}

/// Opens the directory and reads every row in both ways: either all is as written, or an error.
fn read_all(path: &Path) -> Result<(), StorageError> {
    block_on(async {
        let engine = DiskEngine::open(options(path))?;
        let now = engine.begin().await?;
        let range = KeyRange { start: key(0), end: "s".into() };
        let page = now.scan(&range, ScanLimit { max_rows: usize::MAX, max_bytes: usize::MAX }).await?;
        let expected = (0..ROWS).map(|number| (key(number), value(number)));
        assert!(page.rows.into_iter().eq(expected), "a scan shows what was not written, or misses what was");
        for number in 0..ROWS {
            assert_eq!(now.get(&key(number)).await?, Some(value(number)), "row {number}");
        }
        Ok(())
    })
}

/// Whether an offline check finds anything, or finds no directory that it knows.
fn is_damaged(path: &Path) -> bool {
    let mut is_damaged = false;
    // There are no extents here.
    let mut found = |damage: Damage| is_damaged |= !damage.file.ends_with("extents");
    match OfflineDirectory::open(Arc::new(SystemFiles), path) {
        Ok(directory) => {
            let check = DirectoryCheck::open(directory, &mut found).expect("it can be read");
            check.verify_tables(&mut |_| {}, &mut found).expect("it can be read");
        }
        Err(OfflineError::Damaged(_) | OfflineError::Unusable(_)) => is_damaged = true,
        Err(OfflineError::InUse(why)) => panic!("{why}"),
    }
    is_damaged
}

#[test]
fn a_flipped_byte_in_any_file_is_found_or_harmless() {
    let original = tempfile::tempdir().expect("a temporary directory can be made");
    fill(original.path());
    let count = files(original.path()).len();
    assert!(count > 5, "there are files of every kind: {:?}", files(original.path()));
    let mut guarded_logs = 0;
    for file in files(original.path()) {
        let name = file.strip_prefix(original.path()).expect("a file of the directory");
        let written = std::fs::read(&file).expect("a file can be read");
        let used = used(&written);
        // Every few bytes, ends included: small files are met often, large ones in all their parts.
        let step = (used / 12).max(1);
        let mut places: Vec<usize> = (0..used).step_by(step).collect();
        places.extend(used.checked_sub(1));
        // Groups of the log are padded with zeros.
        places.retain(|place| written[place / 512 * 512..].iter().take(512).any(|byte| *byte != 0));
        let mut found = 0;
        for place in &places {
            let directory = tempfile::tempdir().expect("a temporary directory can be made");
            copy(original.path(), directory.path());
            let mut bytes = written[..used].to_vec();
            bytes[*place] ^= 0x55;
            std::fs::write(directory.path().join(name), bytes).expect("a file can be damaged");
            let is_found_offline = is_damaged(directory.path());
            match read_all(directory.path()) {
                Ok(()) => {}
                Err(error)
                    if matches!(error.kind(), StorageErrorKind::Corrupt | StorageErrorKind::Failed) =>
                {
                    assert!(is_found_offline, "{}, byte {place}", name.display());
                    found += 1;
                }
                Err(other) => panic!("{}, byte {place}: {other}", name.display()),
            }
        }
        println!("{}: {found} of {} found", name.display(), places.len());
        // Some files of the log are spare.
        guarded_logs += usize::from(name.starts_with("journal") && found == places.len());
        if name.starts_with("rows") {
            assert_eq!(found, places.len(), "{}: all damage to tables is found", name.display());
        }
    }
    assert!(guarded_logs > 0, "damage to the log is found");
}

#[test]
fn an_interrupted_first_start_can_be_repeated() {
    for left in [&[][..], &["rows"][..], &["rows", "journal"][..]] {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        for folder in left {
            std::fs::create_dir_all(directory.path().join(folder)).expect("a folder can be made");
            std::fs::write(directory.path().join("rows/MANIFEST.new"), "half")
                .expect("a file can be written");
        }
        drop(DiskEngine::open(options(directory.path())).expect("the second start succeeds"));
    }
}

#[test]
fn what_is_missing_is_damage_and_never_taken_for_a_new_directory() {
    for missing in [
        &["rows/MANIFEST"][..],
        &["rows"],
        &["journal"],
        &["rows", "journal"],
        &["FORMAT"],
        &["FORMAT", "rows/MANIFEST"],
        &["FORMAT", "rows"],
        &["FORMAT", "journal"],
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        fill(directory.path());
        let before = files(directory.path()).len();
        for name in missing {
            let path = directory.path().join(name);
            let removed =
                if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.expect("a part can be removed");
        }
        assert!(is_damaged(directory.path()), "without {missing:?}");
        let result = read_all(directory.path());
        assert!(
            matches!(&result, Err(error) if error.kind() == StorageErrorKind::Corrupt),
            "without {missing:?}: {result:?}"
        );
        let left = files(directory.path()).len();
        assert!(left >= 1 && left < before, "nothing is made anew without {missing:?}");
    }
}

#[test]
fn a_lost_or_shortened_log_is_noticed_after_a_clean_shutdown() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    fill(directory.path());
    let logs: Vec<PathBuf> = files(directory.path())
        .into_iter()
        .filter(|file| file.parent().is_some_and(|at| at.ends_with("journal")))
        .collect();
    let mut noticed = 0;
    for log in &logs {
        let name = log.strip_prefix(directory.path()).expect("a file of the directory");
        let bytes = std::fs::read(log).expect("a file can be read");
        for keep in [None, Some(4096), Some(used(&bytes).saturating_sub(1) / 4096 * 4096)] {
            let copied = tempfile::tempdir().expect("a temporary directory can be made");
            copy(directory.path(), copied.path());
            let path = copied.path().join(name);
            match keep {
                None => std::fs::remove_file(path).expect("a file can be removed"),
                Some(length) => {
                    std::fs::write(path, &bytes[..length.min(bytes.len())]).expect("a file can be cut")
                }
            }
            let is_found_offline = is_damaged(copied.path());
            match read_all(copied.path()) {
                // It is a spare file.
                Ok(()) => assert!(!is_found_offline),
                Err(error) if error.kind() == StorageErrorKind::Corrupt && is_found_offline => noticed += 1,
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert!(noticed >= 3, "{noticed} of {}", 3 * logs.len());
}

#[test]
fn starts_without_a_write_leave_nothing_behind() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for number in 0..40 {
        let engine = DiskEngine::open(options(directory.path())).expect("a directory can be opened");
        match number % 2 {
            0 => engine.close(),
            _ => drop(engine),
        }
    }
    assert!(files(directory.path()).len() <= 8, "{:?}", files(directory.path()));
}

#[test]
#[cfg(unix)]
fn only_the_owner_can_read_the_data() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = directory.path().join("data");
    fill(&path);
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    assert_eq!([mode(&path), mode(&path.join("rows")), mode(&path.join("journal"))], [0o700; 3]);
    for file in files(&path) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn a_missing_table_is_corrupt() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    fill(directory.path());
    assert!(!is_damaged(directory.path()), "not yet");
    std::fs::remove_file(&tables(directory.path())[0]).expect("a table can be removed");
    assert!(is_damaged(directory.path()));
    let result = read_all(directory.path());
    assert!(matches!(&result, Err(error) if error.kind() == StorageErrorKind::Corrupt), "{result:?}");
}

#[test]
fn a_second_process_learns_which_directory_is_in_use() {
    if let Ok(path) = std::env::var("TEPUI_SECOND") {
        let error = DiskEngine::open(options(Path::new(&path))).err();
        let error = error.expect("the directory is in use");
        assert_eq!(error.kind(), StorageErrorKind::Unavailable);
        let why = error.message();
        assert!(why.contains(&path) && why.contains("another process"), "{why}");
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let engine = DiskEngine::open(options(directory.path())).expect("a directory can be created");
    assert!(DiskEngine::open(options(directory.path())).is_err(), "nor twice in one process");
    let status = Command::new(std::env::current_exe().expect("a test knows its path"))
        .args(["--exact", "a_second_process_learns_which_directory_is_in_use"])
        .env("TEPUI_SECOND", directory.path())
        .status();
    assert!(status.is_ok_and(|status| status.success()), "the second process is refused");
    engine.close();
    DiskEngine::open(options(directory.path())).expect("a closed directory can be opened");
}

#[test]
fn another_format_is_refused() {
    for (text, expected) in [
        ("2\n", "the data directory has format 2, this version reads formats 3 to 4"),
        ("0\n", "the data directory has format 0"),
        ("one\n", "not a format number"),
        ("", "not a format number"),
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        drop(DiskEngine::open(options(directory.path())).expect("a directory can be created"));
        std::fs::write(directory.path().join("FORMAT"), text).expect("the file can be written");
        let error = DiskEngine::open(options(directory.path())).err().map(|error| error.to_string());
        assert!(error.as_ref().is_some_and(|error| error.contains(expected)), "{text:?}: {error:?}");
    }
}

#[test]
fn writes_stop_before_the_disk_is_full() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let files = SimulatedFiles::new(1);
    let mut options = options(directory.path());
    options.files = Arc::new(files.clone());
    options.free_space_reserve_bytes = 64 << 20;
    block_on(async {
        let engine = DiskEngine::open(options).expect("a directory can be created");
        put(&engine, 0..1).await.expect("there is space");
        files.set_capacity(files.used_bytes() + (64 << 20) - 4096);
        let give_up = Instant::now() + Duration::from_secs(10);
        let refused = loop {
            // Free space is not asked for with every commit.
            match put(&engine, 1..2).await {
                Ok(()) => assert!(Instant::now() < give_up, "writes are refused in the end"),
                Err(error) => break error,
            }
        };
        let CommitError::Storage(error) = refused else { panic!("{refused:?}") };
        assert_eq!(error.kind(), StorageErrorKind::NoSpace);
        let why = error.message();
        assert!(why.contains("nearly full"), "{why}");
        assert!(engine.health().await.is_err());
        let now = engine.begin().await.expect("a transaction can begin");
        assert_eq!(now.get(&key(0)).await, Ok(Some(value(0))), "reads go on");
        let delete = Commit::from(vec![Write::Delete(key(0))]).with_frees_space(true);
        now.commit(delete).await.expect("there is space for what frees some");
        files.set_capacity(1 << 40);
        while engine.health().await.is_err() {
            assert!(Instant::now() < give_up, "writes are taken again in the end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        put(&engine, 2..3).await.expect("there is space again");
    });
}

#[test]
fn closing_finishes_what_waits() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    block_on(async {
        let engine = DiskEngine::open(options(directory.path())).expect("a directory can be created");
        let mut waiting: Vec<_> = (0..50)
            .map(|number| {
                let engine = engine.clone();
                Box::pin(async move {
                    let writes = vec![Write::Put(key(number), value(number))];
                    engine.begin().await?.commit(writes.into()).await
                })
            })
            .collect();
        // Queued by their first poll. Half of them are then forgotten by their callers.
        for commit in &mut waiting {
            let polled =
                std::future::poll_fn(|context| std::task::Poll::Ready(commit.as_mut().poll(context))).await;
            assert!(polled.is_pending() || polled == std::task::Poll::Ready(Ok(())));
        }
        waiting.truncate(25);
        engine.close();
        let after = put(&engine, 60..61).await;
        assert!(
            matches!(&after, Err(CommitError::Storage(error)) if error.kind() == StorageErrorKind::Unavailable),
            "{after:?}"
        );
        drop(waiting);
        let engine = DiskEngine::open(options(directory.path())).expect("a closed directory can be opened");
        let now = engine.begin().await.expect("a transaction can begin");
        for number in 0..50 {
            assert_eq!(now.get(&key(number)).await, Ok(Some(value(number))), "row {number}");
        }
    });
}
