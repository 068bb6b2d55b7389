//! Memory does not grow with the length of an extent: 64 MiB of it, 1 GiB with `TEPUI_TEST_LARGE=1`.
//!
//! The only test in its process, which is what is measured.

#![cfg(target_os = "linux")]

use bytes::Bytes;
use tepui_local::{DiskExtents, ExtentsOptions};
use tepui_storage::contract::extents::content;
use tepui_storage::{ExtentWriter, Extents};

/// Two chunks to write, a few pieces to read, and some for threads and the allocator.
const MAX_GROWTH_KIB: u64 = 24 << 10;

const PIECE: usize = 1 << 20;

#[tokio::test]
async fn a_long_extent_is_written_and_read_in_little_memory() {
    let large = std::env::var("TEPUI_TEST_LARGE").is_ok_and(|value| value == "1");
    let pieces = if large { 1024 } else { 64 };
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let extents = DiskExtents::open(ExtentsOptions::new(directory.path())).expect("the folder can be opened");
    let before = peak_kib();
    // A few contents in turn, made once: what is tested is the store.
    let contents: Vec<Bytes> = (0..3).map(|seed| content(PIECE, seed).into()).collect();
    let mut writer = extents.begin().await.expect("an extent can be begun");
    for piece in 0..pieces {
        writer.write(contents[piece % 3].clone()).await.expect("bytes can be written");
    }
    let extent = writer.finish().await.expect("an extent can be finished");
    for piece in 0..pieces {
        let start = (piece * PIECE) as u64;
        let found = extents.read(extent, start..start + PIECE as u64).await.expect("an extent can be read");
        let mut expected = contents[piece % 3].clone();
        for found in found {
            assert!(found == expected.split_to(found.len()), "piece {piece}");
        }
        assert!(expected.is_empty(), "piece {piece}");
    }
    let growth = peak_kib() - before;
    println!("{pieces} MiB written and read; memory grew by {growth} KiB");
    assert!(growth < MAX_GROWTH_KIB, "{growth} KiB");
}

/// The most memory that the process has ever held.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process knows its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak is reported");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
