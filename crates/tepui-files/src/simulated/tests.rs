use super::*;
use crate::{SystemFiles, create_directories, read_file, replace_file};

fn write(files: &dyn FileSystem, path: &Path, bytes: &[u8]) -> Box<dyn File> {
    let file = files.open(path, OpenOptions::create(Create::IfMissing)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

/// What both file systems must do alike.
fn check(files: &dyn FileSystem, root: &Path) {
    let folder = root.join("a/b");
    create_directories(files, &folder).unwrap();
    create_directories(files, &folder).unwrap();
    let path = folder.join("file");
    let missing = files.open(&path, OpenOptions::read()).err().map(|error| error.kind());
    assert_eq!(missing, Some(io::ErrorKind::NotFound));
    let file = write(files, &path, b"hello");
    file.write_all_at(b"world", 8192).unwrap();
    assert_eq!(file.length().unwrap(), 8197);
    file.sync_all().unwrap();
    let read = files.open(&path, OpenOptions::read()).unwrap();
    assert_eq!(read.read_vec(8190, 7).unwrap(), b"\0\0world");
    let mut beyond = [0; 10];
    assert_eq!(read.read_at(&mut beyond, 8195).unwrap(), 2);
    assert_eq!(read.read_at(&mut beyond, 9000).unwrap(), 0);
    assert!(read.read_exact_at(&mut beyond, 8195).is_err());
    let size = files.file_size(&path).unwrap();
    assert_eq!(size.length, file.length().unwrap());
    assert!(size.allocated > 0);
    file.set_length(3).unwrap();
    file.set_length(6).unwrap();
    assert_eq!(read_file(files, &path).unwrap(), b"hel\0\0\0");
    let again = files.open(&path, OpenOptions::create(Create::New)).err().map(|error| error.kind());
    assert_eq!(again, Some(io::ErrorKind::AlreadyExists));
    replace_file(files, &path, b"new").unwrap();
    assert_eq!(read_file(files, &path).unwrap(), b"new");
    assert_eq!(file.length().unwrap(), 6, "an open file stays what it was");
    assert_eq!(files.names(&folder).unwrap(), ["file"]);
    let lock = files.lock(&root.join("LOCK")).ok().unwrap();
    assert!(matches!(files.lock(&root.join("LOCK")), Err(LockError::Taken)));
    drop(lock);
    assert!(files.lock(&root.join("LOCK")).is_ok());
    files.remove_file(&path).unwrap();
    assert!(!files.exists(&path).unwrap());
    let (free, total) = (files.free_space(root).unwrap(), files.total_space(root).unwrap());
    assert!(free > 0 && total.is_none_or(|total| total >= free));
}

#[test]
fn the_simulation_does_what_the_system_does() {
    let directory = tempfile::tempdir().unwrap();
    check(&SystemFiles, directory.path());
    check(&SimulatedFiles::new(1), Path::new("/"));
}

#[test]
fn a_crash_keeps_what_was_synced_and_any_of_the_rest() {
    let (mut old, mut new, mut neither, mut gone) = (0, 0, 0, 0);
    for seed in 0..200 {
        let files = SimulatedFiles::new(seed);
        let (synced, unsynced) = (Path::new("/synced"), Path::new("/unsynced"));
        write(&files, synced, &[1; 4096]).sync_data().unwrap();
        files.sync_directory(Path::new("/")).unwrap();
        write(&files, synced, &[2; 4096]);
        write(&files, unsynced, b"x").sync_data().unwrap();
        let after = files.crash(CrashOutcome::Some);
        assert!(files.open(synced, OpenOptions::read()).is_err(), "nothing works after a crash");
        let bytes = read_file(&after, synced).unwrap();
        assert_eq!(bytes.len(), 4096);
        for sector in bytes.chunks(512) {
            assert!(sector == [1; 512] || sector == [2; 512], "sectors are whole");
        }
        match (bytes.contains(&1), bytes.contains(&2)) {
            (true, false) => old += 1,
            (false, true) => new += 1,
            _ => neither += 1,
        }
        gone += usize::from(!after.exists(unsynced).unwrap());
    }
    assert!(old > 20 && new > 20 && neither > 20 && gone > 50, "{old} {new} {neither} {gone}");
}

#[test]
fn a_failed_sync_loses_what_the_next_one_does_not_write() {
    let mut lost = 0;
    for seed in 0..100 {
        let files = SimulatedFiles::new(seed);
        let path = Path::new("/file");
        let file = write(&files, path, b"bytes");
        files.sync_directory(Path::new("/")).unwrap();
        files.fail(files.calls(), Failure::Input);
        assert!(file.sync_data().is_err());
        assert_eq!(read_file(&files, path).unwrap(), b"bytes", "the page cache still has it");
        file.sync_data().unwrap();
        lost += usize::from(read_file(&files.crash(CrashOutcome::Everything), path).unwrap() != b"bytes");
    }
    assert!(lost > 20, "{lost}");
}

#[test]
fn calls_fail_when_told_and_space_runs_out() {
    let files = SimulatedFiles::new(1);
    files.set_capacity(3 * PAGE_BYTES);
    let path = Path::new("/file");
    let file = write(&files, path, &[1; 8192]);
    assert_eq!((files.used_bytes(), files.free_space(path).unwrap()), (8192, 4096));
    let full = file.write_at(&[2; 8192], 8192).err().map(|error| error.kind());
    assert_eq!(full, Some(io::ErrorKind::StorageFull));
    assert!(file.punch_hole(0..4096).unwrap());
    file.write_all_at(&[2; 8192], 8192).unwrap();
    files.remove_file(path).unwrap();
    assert_eq!(files.used_bytes(), 3 * PAGE_BYTES, "an open file keeps its space");
    drop(file);
    assert_eq!(files.used_bytes(), 0);
    files.set_max_open_files(1);
    let _one = write(&files, Path::new("/one"), b"");
    assert_eq!(
        files.open(Path::new("/one"), OpenOptions::read()).err().and_then(|e| e.raw_os_error()),
        Some(24)
    );
    files.fail(files.calls() + 1, Failure::NoSpace);
    assert!(files.exists(path).is_ok());
    assert!(files.create_directory(Path::new("/a")).is_err());
    assert!(files.create_directory(Path::new("/a")).is_ok());
}

#[test]
fn direct_writes_are_refused_early_or_late() {
    for (direct, opens) in [
        (DirectWrites::Taken, true),
        (DirectWrites::RefusedAtOpen, false),
        (DirectWrites::RefusedAtWrite, true),
    ] {
        let files = SimulatedFiles::new(1);
        files.set_direct_writes(direct);
        let opened = files.open(Path::new("/file"), OpenOptions::create(Create::New).direct());
        assert_eq!(opened.is_ok(), opens);
        if let Ok(file) = opened {
            let bytes = vec![0; 1024];
            let aligned = &bytes[bytes.as_ptr().align_offset(512)..][..512];
            assert_eq!(file.write_at(aligned, 0).is_ok(), direct == DirectWrites::Taken);
            assert!(file.write_at(&aligned[..100], 0).is_err(), "only whole sectors");
        }
    }
}
