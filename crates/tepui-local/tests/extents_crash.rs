//! A child process writes and frees extents from several tasks and is killed in the middle, again and again.
//!
//! Extents whose finish was acknowledged must be there, and nothing else may take space once unsealed volumes are swept.

#![cfg(target_os = "linux")]

mod killed;

use bytes::Bytes;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use tepui_local::{DiskExtents, ExtentsOptions};
use tepui_storage::contract::extents::content;
use tepui_storage::{Extent, ExtentWriter, Extents, StoreId};

const WRITERS: usize = 6;

/// What the file system may need to find the pieces of a volume.
const SLACK_BYTES: u64 = 64 << 10;

fn open(path: &Path) -> DiskExtents {
    let mut options = ExtentsOptions::new(path.join("extents"));
    // Small, so that rounds die while volumes are created, synced, sealed and deleted too.
    options.volume_bytes = 3 << 20;
    options.sync_step_bytes = 1 << 20;
    DiskExtents::open(options).expect("the folder can be opened")
}

/// The child: each writer writes extents of all sizes, gives up some, and frees some.
#[test]
fn child() {
    let Some((_, path)) = killed::child() else { return };
    let extents = open(&path);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| tokio::spawn(write_for_ever(extents.clone(), writer))).collect();
        for writer in writers {
            writer.await.expect("a writer goes on until it is killed");
        }
    });
}

async fn write_for_ever(extents: DiskExtents, task: usize) {
    let mut mine = Vec::new();
    for number in 1.. {
        let seed = number * WRITERS + task;
        let size = if number % 3 == 0 { seed * 7919 % 2_000_000 } else { seed * 7919 % 100_000 };
        let mut writer = extents.begin().await.expect("an extent can be begun");
        for piece in content(size, seed).chunks(30_000) {
            writer.write(Bytes::copy_from_slice(piece)).await.expect("bytes can be written");
        }
        if number % 7 == 0 {
            continue;
        }
        let extent = writer.finish().await.expect("an extent can be finished");
        send("done", extent, seed);
        extents.unpin(extent);
        mine.push((extent, seed));
        if number % 2 == 0 {
            let (old, seed) = mine.remove(seed * 31 % mine.len());
            send("freeing", old, seed);
            extents.free(vec![old]).await.expect("an extent can be freed");
            send("freed", old, seed);
        }
    }
}

fn send(what: &str, extent: Extent, seed: usize) {
    killed::send(&format!("{what} {} {} {} {seed}", extent.volume, extent.offset, extent.bytes));
}

#[test]
fn killed_again_and_again() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be built");
    // Every extent that is kept, and the seed of its content.
    let mut kept: BTreeMap<Extent, usize> = BTreeMap::new();
    let (mut total, mut highest) = (0, 0);
    for (round, life) in killed::rounds(10, 400) {
        let acknowledged = run_and_kill(directory.path(), round, life);
        total += acknowledged.finished.len();
        for extent in acknowledged.finished.keys() {
            assert!(extent.volume > highest, "round {round}: {extent:?} is in an earlier run's volume");
        }
        highest = acknowledged.finished.keys().map(|extent| extent.volume).max().unwrap_or(highest);
        kept.extend(acknowledged.finished);
        for freed in &acknowledged.freed {
            kept.remove(freed);
        }
        let extents = open(directory.path());
        runtime.block_on(async {
            check(&extents, &kept, round).await;
            for volume in extents.unsealed_volumes() {
                let kept = kept.keys().filter(|extent| extent.volume == volume).copied().collect();
                extents.sweep(volume, kept).await.expect("a volume can be swept");
            }
            assert_eq!(extents.unsealed_volumes(), []);
            // The last one may have been freed, or nearly.
            extents.free(acknowledged.freed).await.expect("extents can be freed again");
            check(&extents, &kept, round).await;
        });
        drop(extents);
        check_space(&directory.path().join("extents"), &kept, round);
        // Most are freed in the end, by a run that has not written them.
        let old: Vec<Extent> = kept.keys().filter(|extent| extent.offset % 3 != 0).copied().collect();
        kept.retain(|extent, _| extent.offset % 3 == 0);
        runtime.block_on(open(directory.path()).free(old)).expect("extents can be freed");
        check_space(&directory.path().join("extents"), &kept, round);
    }
    println!("{total} extents finished, none lost; {} kept", kept.len());
    assert!(total > 0, "the children got somewhere");
}

#[derive(Default)]
struct Acknowledged {
    finished: BTreeMap<Extent, usize>,
    /// Freed, or about to be.
    freed: Vec<Extent>,
}

fn run_and_kill(directory: &Path, round: u64, life: Duration) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    killed::run_and_kill(directory, round, life, |line| {
        let (what, numbers) = line.split_once(' ').expect("a word and numbers");
        let numbers: Vec<u64> = numbers.split(' ').map(|number| number.parse().expect("a number")).collect();
        let extent =
            Extent { store: StoreId::LOCAL, volume: numbers[0], offset: numbers[1], bytes: numbers[2] };
        match what {
            "done" => assert_eq!(
                acknowledged.finished.insert(extent, numbers[3] as usize),
                None,
                "{extent:?} twice"
            ),
            _ => acknowledged.freed.push(extent),
        }
    });
    acknowledged
}

async fn check(extents: &DiskExtents, kept: &BTreeMap<Extent, usize>, round: u64) {
    for (extent, seed) in kept {
        let found = extents.read(*extent, 0..extent.bytes).await.expect("an extent can be read").concat();
        assert!(found == content(extent.bytes as usize, *seed), "round {round}: {extent:?}");
    }
}

/// Volumes take the space of what is kept in them, and there are none without.
fn check_space(folder: &Path, kept: &BTreeMap<Extent, usize>, round: u64) {
    let mut needed: BTreeMap<u64, u64> = BTreeMap::new();
    for extent in kept.keys() {
        let frames = extent.bytes.div_ceil(65_504).max(1);
        *needed.entry(extent.volume).or_default() += (extent.bytes + frames * 32).next_multiple_of(4096);
    }
    let mut found = BTreeMap::new();
    for file in std::fs::read_dir(folder).expect("the folder can be read") {
        let file = file.expect("the folder can be read");
        let number: u64 = file.file_name().to_string_lossy().parse().expect("every volume is sealed");
        found.insert(number, file.metadata().expect("a file has metadata").blocks() * 512);
    }
    let highest = found.keys().max().copied().expect("one file is always there");
    for (volume, used) in &found {
        let needed = needed.remove(volume);
        assert!(needed.is_some() || *volume == highest, "round {round}: volume {volume} is not needed");
        let needed = needed.unwrap_or(0);
        assert!(
            (needed..=needed + SLACK_BYTES).contains(used),
            "round {round}: volume {volume} takes {used} bytes, {needed} are needed"
        );
    }
    assert!(needed.is_empty(), "round {round}: volumes are missing: {needed:?}");
}
