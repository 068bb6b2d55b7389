//! Volumes that are not as they were left, and disks without space.

use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tepui_files::{CrashOutcome, Failure, FileSystem, SimulatedFiles, SystemFiles};
use tepui_local::check::{Damage, check_extents};
use tepui_local::{DiskExtents, ExtentsOptions};
use tepui_storage::contract::extents::content;
use tepui_storage::{Extent, ExtentWriter, Extents, StorageError, StorageErrorKind};

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

fn open(path: &Path) -> DiskExtents {
    DiskExtents::open(ExtentsOptions::new(path)).expect("the folder can be opened")
}

/// What an offline check of these extents finds.
fn check(path: &Path, extents: &[Extent]) -> Vec<Damage> {
    let files: Arc<dyn FileSystem> = Arc::new(SystemFiles);
    let mut damages = Vec::new();
    let checked = check_extents(&files, path, extents.iter().copied(), &mut |damage| damages.push(damage));
    checked.expect("the folder can be read");
    damages
}

async fn write(extents: &DiskExtents, content: &[u8]) -> Result<Extent, StorageError> {
    let mut writer = extents.begin().await?;
    writer.write(Bytes::copy_from_slice(content)).await?;
    let extent = writer.finish().await?;
    extents.unpin(extent);
    Ok(extent)
}

fn files(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).expect("the folder can be read");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    files.sort();
    files
}

/// What is in the page cache is read at once, the rest on a thread for blocking work.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_is_no_longer_in_memory_is_read_from_the_disk() {
    use rustix::fs::Advice;
    let directory = directory();
    let extents = open(directory.path());
    let content = content(300_000, 1);
    let extent = write(&extents, &content).await.expect("an extent can be written");
    let file = files(directory.path()).pop().expect("there is a volume");
    let file = std::fs::File::open(file).expect("a file can be opened");
    for advice in [None, Some(Advice::DontNeed)] {
        if let Some(advice) = advice {
            rustix::fs::fadvise(&file, 0, None, advice).expect("memory can be given back");
        }
        for range in [0..10, 70_000..140_000, 0..extent.bytes] {
            let found = extents.read(extent, range.clone()).await.expect("it can be read");
            assert!(found.concat() == content[range.start as usize..range.end as usize]);
        }
    }
}

#[tokio::test]
async fn a_flipped_byte_is_never_served() {
    let directory = directory();
    let extents = open(directory.path());
    let content = content(150_000, 1);
    let extent = write(&extents, &content).await.expect("an extent can be written");
    let file = files(directory.path()).pop().expect("there is a volume");
    let written = std::fs::read(&file).expect("a file can be read");
    let near_cuts = [0, 65_536, 131_072, written.len()]
        .into_iter()
        .flat_map(|cut: usize| cut.saturating_sub(40)..written.len().min(cut + 40));
    for place in near_cuts.chain((0..written.len()).step_by(997)) {
        let mut flipped = written.clone();
        flipped[place] ^= 1 << (place % 8);
        std::fs::write(&file, &flipped).expect("a file can be written");
        let found = extents.read(extent, 0..extent.bytes).await;
        assert!(matches!(&found, Err(error) if error.kind() == StorageErrorKind::Corrupt), "byte {place}");
        let [damage] = &check(directory.path(), &[extent])[..] else { panic!("byte {place}") };
        assert_eq!(damage.offset, Some(place as u64 / 65_536 * 65_536));
        // Frames that are intact can still be read.
        for frame in 0..3 {
            let range = frame * 65_504..extent.bytes.min((frame + 1) * 65_504);
            let found = extents.read(extent, range.clone()).await;
            if place as u64 / 65_536 == frame {
                assert!(
                    matches!(&found, Err(error) if error.kind() == StorageErrorKind::Corrupt),
                    "byte {place}"
                );
            } else {
                let expected = &content[range.start as usize..range.end as usize];
                assert!(found.is_ok_and(|found| found.concat() == expected), "byte {place}");
            }
        }
    }
    std::fs::write(&file, &written).expect("a file can be written");
    assert!(extents.read(extent, 0..extent.bytes).await.is_ok_and(|found| found.concat() == content));
    assert_eq!(check(directory.path(), &[extent]), []);
}

#[tokio::test]
async fn what_is_missing_is_reported_with_its_file() {
    let directory = directory();
    let extents = open(directory.path());
    let extent = write(&extents, &content(150_000, 1)).await.expect("an extent can be written");
    let other = write(&extents, b"other").await.expect("an extent can be written");
    let corrupt =
        async |extents: &DiskExtents, extent: Extent| match extents.read(extent, 0..extent.bytes).await {
            Err(error) if error.kind() == StorageErrorKind::Corrupt => error.message().to_owned(),
            other => panic!("{other:?}"),
        };
    let swapped = Extent { offset: other.offset, ..extent };
    assert!(
        corrupt(&extents, swapped).await.contains(&format!("{}.open", extent.volume)),
        "an extent of another place"
    );
    let longer = Extent { bytes: extent.bytes + 1, ..extent };
    assert!(corrupt(&extents, longer).await.contains("frame at 131072"), "an extent of another length");
    assert_eq!(check(directory.path(), &[extent, other]), []);
    for (case, extents) in [("another place", [swapped]), ("another length", [longer])] {
        assert_eq!(check(directory.path(), &extents).len(), 1, "{case}");
    }
    let overlapping = Extent { offset: extent.offset + 4096, ..other };
    assert_eq!(check(directory.path(), &[extent, overlapping]).len(), 1, "two that overlap");
    drop(extents);

    let file = directory.path().join(extent.volume.to_string());
    let whole = std::fs::read(&file).expect("a file can be read");
    std::fs::write(&file, &whole[..140_000]).expect("a file can be written");
    let path = file.display().to_string();
    assert!(corrupt(&open(directory.path()), extent).await.contains(&path), "a file that was cut");
    let found = check(directory.path(), &[extent, other]);
    assert!(found.iter().all(|damage| damage.file == file) && found.len() == 2, "{found:?}");
    std::fs::remove_file(&file).expect("a file can be removed");
    assert_eq!(check(directory.path(), &[extent]).len(), 1);
    let message = corrupt(&open(directory.path()), extent).await;
    assert!(message.contains("missing") && message.contains(&path), "a file that was removed: {message}");
}

#[tokio::test]
async fn a_sweep_that_would_lose_something_is_refused() {
    let directory = directory();
    let extent =
        write(&open(directory.path()), &content(150_000, 1)).await.expect("an extent can be written");
    let volume = extent.volume;
    let sealed = directory.path().join(volume.to_string());
    std::fs::rename(&sealed, sealed.with_extension("open")).expect("as after a crash");
    let extents = open(directory.path());
    assert_eq!(extents.unsealed_volumes(), [volume]);
    let beyond = Extent { offset: 1 << 20, ..extent };
    let inside = Extent { offset: 4096, bytes: 10, ..extent };
    for odd in [beyond, inside] {
        let refused = extents.sweep(volume, vec![extent, odd]).await;
        assert!(matches!(&refused, Err(error) if error.kind() == StorageErrorKind::Corrupt), "{refused:?}");
    }
    for odd in [Extent { volume: 2, ..extent }, Extent { offset: 7, ..extent }] {
        let refused = extents.sweep(volume, vec![odd]).await;
        assert!(matches!(&refused, Err(error) if error.kind() == StorageErrorKind::Failed), "{refused:?}");
    }
    assert!(extents.read(extent, 0..150_000).await.is_ok());
    extents.sweep(volume, vec![extent, extent]).await.expect("a volume can be swept");
    assert!(extents.read(extent, 0..150_000).await.is_ok());
    assert_eq!(files(directory.path()), [sealed], "sealed");
    assert!(extents.free(vec![Extent { offset: 7, ..extent }]).await.is_err(), "no extent begins there");
}

#[tokio::test]
async fn no_number_is_used_twice() {
    let directory = directory();
    let mut highest = 0;
    for _ in 0..5 {
        let extents = open(directory.path());
        let extent = write(&extents, b"short").await.expect("an extent can be written");
        assert!(extent.volume > highest, "{extent:?}");
        highest = extent.volume;
        drop(extents);
        let extents = open(directory.path());
        extents.free(vec![extent]).await.expect("an extent can be freed");
        assert!(files(directory.path()).len() <= 1, "only the newest is left, for its number");
    }
}

/// A reference to a lost extent must never read another one.
#[test]
fn no_number_is_used_twice_though_volumes_are_lost() {
    for is_folder_lost in [false, true] {
        let files = SimulatedFiles::new(1);
        let mut lost: Vec<Extent> = Vec::new();
        for _ in 0..5 {
            let options =
                ExtentsOptions { files: Arc::new(files.clone()), ..ExtentsOptions::new("/extents") };
            let extents = DiskExtents::open(options).expect("the folder can be opened");
            let extent = files.complete(write(&extents, b"bytes")).expect("an extent can be written");
            assert!(lost.iter().all(|lost| lost.volume != extent.volume), "{extent:?}");
            for lost in &lost {
                let read = files.complete(extents.read(*lost, 0..5));
                assert!(matches!(&read, Err(error) if error.kind() == StorageErrorKind::Corrupt), "{read:?}");
            }
            drop(extents);
            files.lose(&match is_folder_lost {
                true => PathBuf::from("/extents"),
                false => PathBuf::from(format!("/extents/{}", extent.volume)),
            });
            lost.push(extent);
        }
    }
}

#[test]
fn a_folder_that_was_there_is_not_made_anew() {
    let files = SimulatedFiles::new(1);
    let options = ExtentsOptions { files: Arc::new(files.clone()), ..ExtentsOptions::new("/data/extents") };
    let must_exist = ExtentsOptions { must_exist: true, ..options.clone() };
    let open = |options: &ExtentsOptions| DiskExtents::open(options.clone()).map(drop);
    let refused = open(&must_exist);
    assert!(
        matches!(&refused, Err(error) if error.kind() == StorageErrorKind::Corrupt && error.message().contains("/data/extents")),
        "{refused:?}"
    );
    assert!(!files.directories().contains(&PathBuf::from("/data/extents")));
    assert_eq!(open(&options), Ok(()));
    assert_eq!(open(&must_exist), Ok(()));
}

#[tokio::test]
async fn a_volume_under_two_names_is_refused() {
    let directory = directory();
    let extent = write(&open(directory.path()), b"bytes").await.expect("an extent can be written");
    let sealed = directory.path().join(extent.volume.to_string());
    std::fs::copy(&sealed, sealed.with_extension("open")).expect("a file can be copied");
    assert_eq!(check(directory.path(), &[extent]).len(), 1);
    let refused = DiskExtents::open(ExtentsOptions::new(directory.path())).map(drop);
    assert!(matches!(&refused, Err(error) if error.kind() == StorageErrorKind::Corrupt), "{refused:?}");
}

/// A failed sync may drop the writes of others, and is reported to one of them only.
#[test]
fn a_failed_free_is_reported_to_the_writer() {
    let content = Bytes::from(content(1_500_000, 1));
    // A failing sync keeps some of what it drops, by chance.
    for (failing, seed) in (0..8).flat_map(|failing| (0..8).map(move |seed| (failing, seed))) {
        let files = SimulatedFiles::new(seed);
        let options = |files: &SimulatedFiles| ExtentsOptions {
            files: Arc::new(files.clone()),
            ..ExtentsOptions::new("/extents")
        };
        let extents = DiskExtents::open(options(&files)).expect("the folder can be opened");
        let freed = files.complete(write(&extents, b"freed")).expect("an extent can be written");
        let mut writer = files.complete(extents.begin()).expect("an extent can be begun");
        files.complete(writer.write(content.clone())).expect("bytes can be written");
        while files.run_blocking() {}
        files.fail(files.calls() + failing, Failure::Input);
        let _ = files.complete(extents.free(vec![freed]));
        files.stop_failing();
        let finished = files.complete(writer.finish());
        let after_crash = files.crash(CrashOutcome::Nothing);
        if let Ok(extent) = finished {
            let extents = DiskExtents::open(options(&after_crash)).expect("the folder can be opened");
            let found = after_crash.complete(extents.read(extent, 0..extent.bytes));
            assert!(found.is_ok_and(|found| found.concat() == content), "call {failing} failed");
        }
    }
}

#[test]
fn a_full_disk_is_refused_before_it_is_full() {
    let files = SimulatedFiles::new(1);
    let options = ExtentsOptions { files: Arc::new(files.clone()), ..ExtentsOptions::new("/extents") };
    let reserve = options.free_space_reserve_bytes;
    let extents = DiskExtents::open(options).expect("the folder can be opened");
    files.complete(async {
        let before = write(&extents, &content(100_000, 1)).await.expect("an extent can be written");
        let mut writer = extents.begin().await.expect("an extent can be begun");
        writer.write(content(1_000_000, 1).into()).await.expect("bytes can be written");

        files.set_capacity(files.used_bytes() + reserve);
        let refused = writer.write(content(1_000_000, 1).into()).await;
        let refused = match refused {
            Ok(()) => writer.finish().await.map(drop),
            refused => refused,
        };
        let is_refused = |refused: &StorageError| {
            refused.kind() == StorageErrorKind::NoSpace && refused.message().contains("delete something")
        };
        assert!(refused.as_ref().is_err_and(is_refused), "{refused:?}");
        let refused = write(&extents, b"").await;
        assert!(refused.as_ref().is_err_and(is_refused), "{refused:?}");
        assert!(extents.read(before, 0..100_000).await.is_ok(), "reads go on");

        files.set_capacity(1 << 40);
        write(&extents, &content(100_000, 1)).await.expect("an extent can be written");
    });
    while files.run_blocking() {}
    extents.close();
    files.complete(async {
        let refused = write(&extents, b"").await;
        assert!(
            matches!(&refused, Err(error) if error.kind() == StorageErrorKind::Unavailable),
            "closed: {refused:?}"
        );
    });
}

/// Without a reserve, as if another process had taken it.
#[test]
fn a_disk_without_space_takes_nothing_and_gives_back() {
    let files = SimulatedFiles::new(1);
    let mut options = ExtentsOptions { files: Arc::new(files.clone()), ..ExtentsOptions::new("/extents") };
    options.free_space_reserve_bytes = 0;
    let extents = DiskExtents::open(options).expect("the folder can be opened");
    let (small, large) = (content(5000, 1), content(3_500_000, 2));
    files.complete(async {
        let kept = write(&extents, &small).await.expect("an extent can be written");
        let freed = write(&extents, &large).await.expect("an extent can be written");
        files.set_capacity(files.used_bytes());
        for content in [&small, &large, &small] {
            let refused = write(&extents, content).await;
            assert!(
                matches!(&refused, Err(error) if error.kind() == StorageErrorKind::NoSpace),
                "{refused:?}"
            );
        }
        let read = extents.read(kept, 0..5000).await.expect("reads go on");
        assert!(read.concat() == small);
        let before = files.used_bytes();
        extents.free(vec![freed]).await.expect("an extent can be freed");
        assert!(files.used_bytes() + 3_500_000 <= before, "there is space again");
        for content in [&small, &large[..3_000_000].to_vec()] {
            let extent = write(&extents, content).await.expect("an extent can be written");
            let read = extents.read(extent, 0..extent.bytes).await.expect("an extent can be read");
            assert!(read.concat() == *content);
        }
    });
    while files.run_blocking() {}
    assert!(files.list().len() <= 3, "what could not be made is not left lying around: {:?}", files.list());
}
