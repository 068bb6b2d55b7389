//! Checkpoints of an engine and its extents, as backups, and what is restored from them.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::{CrashOutcome, Failure, FileSystem, SimulatedFiles, SystemFiles};
use tepui_local::backup::{DirectorySink, RestoreSink, TarSink, Transfer, read_directory, read_tar};
use tepui_local::check::DirectoryCheck;
use tepui_local::{
    Checkpoint, DiskEngine, DiskExtents, EngineOptions, ExtentsOptions, OfflineDirectory, Stepper,
};
use tepui_storage::{
    Commit, Engine, Extent, ExtentWriter, Extents, KeyRange, ScanLimit, Snapshot, Transaction, Write,
};

/// Where the server keeps its data, where backups go, and where they are restored to.
const DATA: &str = "/data";
const BACKUP: &str = "/backup";
const RESTORED: &str = "/restored";

fn engine_options(files: &Arc<dyn FileSystem>, path: &str) -> EngineOptions {
    let mut options = EngineOptions::new(path);
    options.files = Arc::clone(files);
    options.memtable_bytes = 8 << 10;
    options.block_bytes = 512;
    options.wal_bytes = 64 << 10;
    options.free_space_reserve_bytes = 0;
    options
}

fn extents_options(files: &Arc<dyn FileSystem>, path: &str) -> ExtentsOptions {
    let mut options = ExtentsOptions::new(Path::new(path).join("extents"));
    options.files = Arc::clone(files);
    options.volume_bytes = 64 << 10;
    options.free_space_reserve_bytes = 0;
    options
}

/// An engine and extents on simulated files. Rows named `extent N` refer to extents; the others are numbers.
struct Store {
    files: SimulatedFiles,
    engine: DiskEngine,
    stepper: Stepper,
    extents: DiskExtents,
    rows: BTreeMap<String, Vec<u8>>,
    contents: BTreeMap<String, (Extent, Vec<u8>)>,
    /// Whether frees are refused.
    is_backed_up: bool,
}

fn encode(extent: Extent) -> Vec<u8> {
    [extent.volume, extent.offset, extent.bytes].map(u64::to_be_bytes).concat()
}

impl Store {
    fn open(files: &SimulatedFiles, path: &str) -> Self {
        let shared: Arc<dyn FileSystem> = Arc::new(files.clone());
        let extents = DiskExtents::open(extents_options(&shared, path)).expect("the folder can be opened");
        let (engine, stepper) =
            DiskEngine::open_stepped(engine_options(&shared, path)).expect("the directory can be opened");
        Self {
            files: files.clone(),
            engine,
            stepper,
            extents,
            rows: BTreeMap::new(),
            contents: BTreeMap::new(),
            is_backed_up: false,
        }
    }

    fn commit(&mut self, writes: Vec<Write>) {
        let transaction = self.files.complete(self.engine.begin()).expect("a transaction");
        let mut commit = Box::pin(transaction.commit(Commit::new(vec![], writes)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let done = runtime.block_on(async {
            tokio::select! {
                biased;
                done = &mut commit => done,
                () = async {
                    tokio::task::yield_now().await;
                    self.stepper.commit();
                    std::future::pending::<()>().await;
                } => unreachable!(),
            }
        });
        done.expect("a commit succeeds");
    }

    fn put(&mut self, name: &str, value: Vec<u8>) {
        self.commit(vec![Write::Put(name.to_owned().into(), value.clone().into())]);
        self.rows.insert(name.to_owned(), value);
    }

    fn put_extent(&mut self, number: usize, length: usize) {
        let content: Vec<u8> = (0..length).map(|index| (index * 31 + number * 7) as u8).collect();
        let extent = self.files.complete(write(&self.extents, &content)).expect("an extent is written");
        let name = format!("extent {number:04}");
        self.put(&name, encode(extent));
        self.extents.unpin(extent);
        self.contents.insert(name, (extent, content));
    }

    fn delete_extent(&mut self, number: usize) {
        let name = format!("extent {number:04}");
        let (extent, _) = self.contents.remove(&name).expect("it was written");
        self.rows.remove(&name);
        self.commit(vec![Write::Delete(name.into())]);
        self.files.complete(self.extents.free(vec![extent])).expect("an extent is freed");
    }

    /// Anything that a server does.
    fn step(&mut self, random: &mut fastrand::Rng) {
        let number = random.usize(..200);
        match random.u8(..8) {
            0 | 1 => self.put(&format!("row {:04}", number % 40), vec![number as u8; random.usize(..600)]),
            2 => {
                let name = format!("row {:04}", number % 40);
                self.rows.remove(&name);
                self.commit(vec![Write::Delete(name.into())]);
            }
            3 if !self.contents.contains_key(&format!("extent {number:04}")) => {
                self.put_extent(number, [10, 5000, 70_000][number % 3]);
            }
            4 => {
                let Some(name) = self.contents.keys().next().cloned() else { return };
                let number = name.trim_start_matches("extent ").parse().expect("a number");
                match self.is_backed_up {
                    // It waits for its turn, as a garbage collector does.
                    true => {
                        self.contents.remove(&name);
                        self.rows.remove(&name);
                        self.commit(vec![Write::Delete(name.into())]);
                    }
                    false => self.delete_extent(number),
                }
            }
            5 => drop(self.stepper.flush()),
            6 => {
                while self.stepper.compact(random.bool()) {}
                self.stepper.remove_obsolete();
            }
            _ => drop(self.files.run_blocking()),
        }
    }

    /// Rows in tables, in memtables and in both, deleted ones, extents, holes, sealed and open volumes.
    fn fill(&mut self) {
        for number in 0..60u32 {
            self.put(&format!("row {:04}", number % 40), vec![number as u8; 300]);
            if number % 7 == 0 {
                let name = format!("row {:04}", number % 40 / 2);
                self.rows.remove(&name);
                self.commit(vec![Write::Delete(name.into())]);
            }
            if number % 10 == 0 {
                while self.stepper.flush() {}
                self.stepper.compact(false);
            }
        }
        for number in 0..12 {
            self.put_extent(number, [10, 5000, 70_000][number % 3]);
        }
        for number in [1, 2, 5] {
            self.delete_extent(number);
        }
        while self.files.run_blocking() {}
    }

    fn check(&self, rows: &BTreeMap<String, Vec<u8>>, contents: &BTreeMap<String, (Extent, Vec<u8>)>) {
        let snapshot = self.files.complete(self.engine.begin()).expect("a transaction");
        let mut found = BTreeMap::new();
        let mut range = KeyRange { start: Bytes::new(), end: "z".into() };
        loop {
            let limit = ScanLimit { max_rows: 1000, max_bytes: 1 << 20 };
            let page = self.files.complete(snapshot.scan(&range, limit)).expect("rows can be read");
            for (key, value) in page.rows {
                found.insert(String::from_utf8(key.to_vec()).expect("a text"), value.to_vec());
            }
            match page.next {
                Some(next) => range.start = next,
                None => break,
            }
        }
        assert!(found == *rows, "{} rows instead of {}", found.len(), rows.len());
        for (name, (extent, content)) in contents {
            let read = self.files.complete(self.extents.read(*extent, 0..extent.bytes));
            assert!(read.is_ok_and(|read| read.concat() == *content), "{name}");
        }
    }
}

async fn write(extents: &DiskExtents, content: &[u8]) -> Result<Extent, tepui_storage::StorageError> {
    let mut writer = extents.begin().await?;
    writer.write(Bytes::copy_from_slice(content)).await?;
    writer.finish().await
}

fn transfer(
    sink: &mut dyn tepui_local::backup::BackupSink,
    run: impl FnOnce(Transfer<'_>) -> io::Result<()>,
) -> io::Result<()> {
    run(Transfer::new(sink, &mut |_| Ok(())))
}

fn shared(files: &SimulatedFiles) -> Arc<dyn FileSystem> {
    Arc::new(files.clone())
}

fn back_up(store: &Store) -> io::Result<()> {
    let checkpoint = store.files.complete(Checkpoint::take(&store.engine, &store.extents))?;
    write_directory(&store.files, &checkpoint)
}

fn write_directory(files: &SimulatedFiles, checkpoint: &Checkpoint) -> io::Result<()> {
    let mut sink = DirectorySink::create(shared(files), Path::new(BACKUP))?;
    transfer(&mut sink, |transfer| checkpoint.write_to(transfer))
}

fn restore(files: &SimulatedFiles) -> io::Result<()> {
    let mut sink = RestoreSink::create(shared(files), Path::new(RESTORED))?;
    transfer(&mut sink, |transfer| read_directory(files, Path::new(BACKUP), transfer))
}

#[test]
fn a_backup_has_what_was_there_and_nothing_of_what_came_later() {
    let files = SimulatedFiles::new(1);
    let mut store = Store::open(&files, DATA);
    store.fill();
    let (rows, contents) = (store.rows.clone(), store.contents.clone());
    let checkpoint = files.complete(Checkpoint::take(&store.engine, &store.extents)).expect("a checkpoint");
    assert!(checkpoint.bytes() > 100_000);
    let second = files.complete(Checkpoint::take(&store.engine, &store.extents));
    assert!(second.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists), "one at a time");

    // Everything changes while it is held.
    let kept = store.contents["extent 0000"].0;
    let refused = files.complete(store.extents.free(vec![kept]));
    assert!(
        matches!(refused, Err(ref error) if error.kind() == tepui_storage::StorageErrorKind::Unavailable),
        "{refused:?}"
    );
    let discarded = files.complete(write(&store.extents, b"of an upload that fails")).expect("an extent");
    files.complete(store.extents.free(vec![discarded])).expect("what came later can be freed");
    for number in 0..80u32 {
        store.put(&format!("row {number:04}"), vec![9; 300]);
        store.commit(vec![Write::Delete(format!("extent {:04}", number % 12).into())]);
        while store.stepper.flush() {}
        while store.stepper.compact(true) {}
        store.stepper.remove_obsolete();
    }
    store.put_extent(99, 200_000);
    write_directory(&files, &checkpoint).expect("a backup can be made");
    drop(checkpoint);
    files.complete(store.extents.free(vec![kept])).expect("frees go on");
    assert!(!files.list().iter().any(|(path, _)| path.ends_with("CHECKPOINT")), "{:?}", files.list());

    restore(&files).expect("the backup can be restored");
    let restored = Store::open(&files, RESTORED);
    restored.check(&rows, &contents);
    // What was written after the rows were fixed is only where it is swept.
    let named: Vec<PathBuf> = files.list().into_iter().map(|(path, _)| path).collect();
    let volume =
        |extent: Extent, open: &str| PathBuf::from(format!("{RESTORED}/extents/{}{open}", extent.volume));
    assert!(named.contains(&volume(discarded, ".open")) || !named.contains(&volume(discarded, "")));
}

/// Everything goes on while a backup is written: between any two of its reads.
#[test]
fn a_backup_is_of_one_point_in_time_whatever_happens_meanwhile() {
    for seed in 0..12 {
        let files = SimulatedFiles::new(seed);
        let mut store = Store::open(&files, DATA);
        let mut random = fastrand::Rng::with_seed(seed);
        store.fill();
        (0..random.usize(..60)).for_each(|_| store.step(&mut random));
        // An upload under way, of which a part is on disk.
        let mut upload = files.complete(store.extents.begin()).expect("an extent can be begun");
        files.complete(upload.write(vec![1; 3 << 20].into())).expect("bytes can be written");
        while files.run_blocking() {}
        let (rows, contents) = (store.rows.clone(), store.contents.clone());
        let checkpoint =
            files.complete(Checkpoint::take(&store.engine, &store.extents)).expect("a checkpoint");
        store.is_backed_up = true;
        let mut sink = DirectorySink::create(shared(&files), Path::new(BACKUP)).expect("a directory");
        let mut progress = |_| {
            store.step(&mut random);
            Ok(())
        };
        checkpoint.write_to(Transfer::new(&mut sink, &mut progress)).expect("a backup can be made");
        drop(checkpoint);
        store.is_backed_up = false;
        let uploaded = files.complete(upload.finish()).expect("an extent can be finished");
        store.extents.unpin(uploaded);
        (0..20).for_each(|_| store.step(&mut random));
        store.check(&store.rows, &store.contents);
        restore(&files).expect("the backup can be restored");
        let restored = Store::open(&files, RESTORED);
        restored.check(&rows, &contents);
        // The first start frees what came later.
        for volume in restored.extents.unsealed_volumes() {
            let kept = contents.values().map(|(extent, _)| *extent).filter(|extent| extent.volume == volume);
            files.complete(restored.extents.sweep(volume, kept.collect())).expect("a volume is swept");
        }
        restored.check(&rows, &contents);
        drop(restored);
        while files.run_blocking() {}
        assert_eq!(garbage_bytes(&files.kill(), &contents), 0, "seed {seed}");
    }
}

/// How much of the restored volumes belongs to no extent.
fn garbage_bytes(files: &SimulatedFiles, contents: &BTreeMap<String, (Extent, Vec<u8>)>) -> u64 {
    let directory =
        OfflineDirectory::open(shared(files), Path::new(RESTORED)).expect("no server has it open");
    let mut found = |damage| panic!("{damage:?}");
    let mut check = DirectoryCheck::open(directory, &mut found).expect("it can be read");
    let mut extents: Vec<Extent> = contents.values().map(|(extent, _)| *extent).collect();
    extents.sort_unstable();
    let mut left = extents.into_iter();
    let verified = check.rows(&mut |volumes, _, _| {
        for extent in left.by_ref() {
            assert_eq!(volumes.verify(extent, &mut |_| {})?, None);
        }
        Ok(())
    });
    verified.expect("it can be read");
    check.finish().expect("it can be read").garbage_bytes
}

#[test]
fn a_directory_without_a_server_is_backed_up_and_not_changed() {
    for is_clean in [true, false] {
        let files = SimulatedFiles::new(2);
        let mut store = Store::open(&files, DATA);
        store.fill();
        store.put("row in the log", vec![1, 2, 3]);
        let (rows, contents) = (store.rows.clone(), store.contents.clone());
        let locked = OfflineDirectory::open(shared(&files), Path::new(DATA));
        assert!(matches!(locked, Err(tepui_local::OfflineError::InUse(_))));
        let files = if is_clean {
            store.extents.close();
            store.engine.close();
            store.stepper.commit();
            drop(store);
            files
        } else {
            files.crash(CrashOutcome::Nothing)
        };
        let before = files.list();
        let directory =
            OfflineDirectory::open(shared(&files), Path::new(DATA)).expect("no server has it open");
        let checkpoint = Checkpoint::offline(directory).expect("a checkpoint");
        write_directory(&files, &checkpoint).expect("a backup can be made");
        drop(checkpoint);
        let after: Vec<_> = files.list().into_iter().filter(|(path, _)| path.starts_with(DATA)).collect();
        assert_eq!(after, before);
        restore(&files).expect("the backup can be restored");
        Store::open(&files, RESTORED).check(&rows, &contents);
    }
}

/// Whatever call fails: the server goes on, and a backup that is complete is right.
#[test]
fn a_failing_call_leaves_the_server_as_it_was_and_no_backup_that_seems_complete() {
    let (mut failed, mut done) = (0, 0);
    let files = SimulatedFiles::new(0);
    let mut filled = Store::open(&files, DATA);
    filled.fill();
    let image = files.kill();
    for failure in [Failure::Input, Failure::NoSpace, Failure::TooManyFiles, Failure::ShortWrite] {
        for nth in 0.. {
            let files = image.copy();
            let mut store = Store::open(&files, DATA);
            store.rows = filled.rows.clone();
            store.contents = filled.contents.clone();
            store.put_extent(40, 9000);
            while files.run_blocking() {}
            let (rows, contents) = (store.rows.clone(), store.contents.clone());
            let first = files.calls();
            files.fail(first + nth, failure);
            let outcome = back_up(&store);
            let is_last = files.calls() <= first + nth;
            files.stop_failing();

            store.put("row afterwards", vec![7; 10]);
            store.put_extent(50, 5000);
            store.delete_extent(0);
            store.check(&store.rows, &store.contents);
            let left = |name: &str| files.list().iter().any(|(path, _)| path.ends_with(name));
            match outcome {
                Ok(()) => {
                    done += 1;
                    restore(&files).expect("a complete backup can be restored");
                    Store::open(&files, RESTORED).check(&rows, &contents);
                }
                Err(_) => {
                    failed += 1;
                    // It may have been renamed before the folder could not be synced: then it is complete.
                    if !left("CHECKSUMS") {
                        assert!(restore(&files).is_err(), "call {nth}");
                    }
                    files.complete(Checkpoint::take(&store.engine, &store.extents)).expect("the next one");
                }
            }
            if is_last {
                break;
            }
        }
    }
    assert!(failed > 50 && done > 4, "{failed} failed, {done} succeeded");
}

#[test]
fn an_interrupted_restore_is_never_taken_for_a_data_directory() {
    let files = SimulatedFiles::new(3);
    let mut store = Store::open(&files, DATA);
    store.fill();
    back_up(&store).expect("a backup can be made");
    let (rows, contents) = (store.rows.clone(), store.contents.clone());
    drop(store);
    let mut complete = 0;
    for outcome in [CrashOutcome::Nothing, CrashOutcome::Some, CrashOutcome::Everything] {
        for nth in 0.. {
            let copy = files.copy();
            let first = copy.calls();
            copy.crash_at(first + nth);
            let restored = restore(&copy);
            let is_last = !copy.has_crashed();
            assert_eq!(restored.is_ok(), is_last);
            let after = copy.crash(outcome);
            let found: Vec<PathBuf> = after.list().into_iter().map(|(path, _)| path).collect();
            let is_there = |name: &str| found.contains(&Path::new(RESTORED).join(name));
            let is_refused = DiskEngine::open_stepped(engine_options(&shared(&after), RESTORED)).is_err();
            assert_eq!(is_refused, is_there("RESTORING"), "call {nth}, {outcome:?}: {found:?}");
            if is_there("FORMAT") && !is_refused {
                complete += 1;
                Store::open(&after, RESTORED).check(&rows, &contents);
            } else if !is_refused {
                // Nothing was there that a server could take for a part of the backup.
                let is_part = |path: &PathBuf| path.starts_with(RESTORED) && !path.ends_with("RESTORING.new");
                assert!(!found.iter().any(is_part), "call {nth}, {outcome:?}: {found:?}");
            }
            if is_last {
                break;
            }
        }
    }
    assert!(complete >= 3, "{complete}");
}

#[test]
fn damaged_backups_are_refused() {
    let files = SimulatedFiles::new(4);
    let mut store = Store::open(&files, DATA);
    store.fill();
    back_up(&store).expect("a backup can be made");
    let checkpoint = files.complete(Checkpoint::take(&store.engine, &store.extents)).expect("a checkpoint");
    let mut archive = TarSink::new(Vec::new());
    transfer(&mut archive, |transfer| checkpoint.write_to(transfer)).expect("an archive can be made");
    let archive = archive.into_inner().expect("it was finished");

    let parts: Vec<(PathBuf, u64)> =
        files.list().into_iter().filter(|(path, _)| path.starts_with(BACKUP)).collect();
    assert!(parts.len() > 8, "{parts:?}");
    for (path, length) in &parts {
        for offset in [0, length / 2, length - 1] {
            let copy = files.copy();
            copy.flip_bit(path, offset, 3);
            assert!(restore(&copy).is_err(), "{} {offset}", path.display());
        }
        let copy = files.copy();
        copy.lose(path);
        assert!(restore(&copy).is_err(), "without {}", path.display());
    }
    let from_archive = |bytes: &[u8]| {
        let files = SimulatedFiles::new(5);
        let mut sink = RestoreSink::create(shared(&files), Path::new(RESTORED))?;
        transfer(&mut sink, |transfer| read_tar(bytes, transfer)).map(|()| files)
    };
    let restored = from_archive(&archive).expect("the archive can be restored");
    Store::open(&restored, RESTORED).check(&store.rows, &store.contents);
    let mut refused = 0;
    for offset in (0..archive.len()).step_by(archive.len() / 60) {
        let mut flipped = archive.clone();
        flipped[offset] ^= 4;
        for damaged in [&archive[..offset], &flipped] {
            match from_archive(damaged) {
                // In what is not content: padding, or times.
                Ok(files) => Store::open(&files, RESTORED).check(&store.rows, &store.contents),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 100, "{refused}");
    assert!(from_archive(b"").is_err() && from_archive(&[7; 2000]).is_err());
}

#[test]
fn only_an_empty_directory_is_written_to() {
    let files = SimulatedFiles::new(6);
    let mut store = Store::open(&files, DATA);
    store.fill();
    back_up(&store).expect("a backup can be made");
    assert!(back_up(&store).is_err_and(|error| error.to_string().contains("not empty")), "not again");
    restore(&files).expect("it can be restored");
    assert!(restore(&files).is_err_and(|error| error.to_string().contains("not empty")), "not again");
}

#[test]
fn a_full_disk_is_refused_before_it_is_full() {
    let files = SimulatedFiles::new(7);
    let mut store = Store::open(&files, DATA);
    store.fill();
    files.set_capacity(files.used_bytes());
    let refused = files.complete(Checkpoint::take(&store.engine, &store.extents)).map(drop);
    assert!(refused.is_err_and(|error| error.kind() == io::ErrorKind::StorageFull));
    files.set_capacity(1 << 40);
    back_up(&store).expect("a backup can be made");
    files.set_capacity(files.used_bytes() + 4096);
    let refused = restore(&files);
    assert!(refused.is_err_and(|error| error.kind() == io::ErrorKind::StorageFull));
}

#[test]
fn holes_stay_holes() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let files: Arc<dyn FileSystem> = Arc::new(SystemFiles);
    let path = |name: &str| directory.path().join(name);
    runtime.block_on(async {
        let extents = DiskExtents::open(ExtentsOptions::new(path("data/extents"))).expect("a folder");
        let engine = DiskEngine::open(EngineOptions::new(path("data"))).expect("a directory");
        let mut written = Vec::new();
        for number in 0..12u8 {
            let extent = write(&extents, &vec![number + 1; 4 << 20]).await.expect("an extent");
            extents.unpin(extent);
            written.push(extent);
        }
        extents.free(written[1..11].to_vec()).await.expect("extents can be freed");
        let checkpoint = Checkpoint::take(&engine, &extents).await.expect("a checkpoint");
        assert!(checkpoint.bytes() < 12 << 20, "{}", checkpoint.bytes());
        let mut sink = RestoreSink::create(files, &path("restored")).expect("a directory");
        transfer(&mut sink, |transfer| checkpoint.write_to(transfer)).expect("at once");
        drop((checkpoint, sink));
        let restored = DiskExtents::open(ExtentsOptions::new(path("restored/extents"))).expect("a folder");
        for (number, extent) in [(1, written[0]), (12, written[11])] {
            let read = restored.read(extent, 0..extent.bytes).await.expect("it can be read");
            assert!(read.concat().iter().all(|byte| *byte == number));
        }
        assert!(restored.read(written[5], 0..10).await.is_err());
    });
}
