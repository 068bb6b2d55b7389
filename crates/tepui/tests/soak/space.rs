//! How much of the disk is taken, and how much that may be.

use crate::disk::{Disk, mib};
use crate::support::blob::on_disk;
use std::path::Path;
use std::time::{Duration, Instant};

/// Collection looks for work every 5 s, and rests as long as it works; a busy machine makes it slower.
const PATIENCE: Duration = Duration::from_secs(180);
/// What the folder of extents may take beyond what is in it: the maps that the file system keeps of volumes with many
/// holes, and for each volume a block at its end.
const EXTENTS_ALLOWANCE: u64 = mib(1);
/// Tables are merged when nothing was written for ten seconds, until little is left of rows that were overwritten or
/// deleted: what a table takes beyond its rows (index, filter, ends of blocks), and the rows that the services keep for
/// themselves (what the clients know is "about").
const ROWS_ALLOWANCE: u64 = mib(2);
/// Files of the journal, which are used again: it may hold 256 MiB, and two more files of 64 MiB wait to be used.
const JOURNAL_ALLOWANCE: u64 = mib(256 + 2 * 64);
/// Volumes that are open for writing: one for each upload at a time.
const OPEN_VOLUMES: usize = 40;

/// What is there, as the clients know it.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// In extents, at least.
    pub(crate) at_least_extent_bytes: u64,
    /// With what page blobs have shared, and overwritten since.
    pub(crate) extent_bytes: u64,
    pub(crate) extents: usize,
    /// In rows, about.
    pub(crate) row_bytes: u64,
}

#[derive(Debug)]
#[allow(dead_code, reason = "for its text")]
struct Taken {
    extents: u64,
    volumes: usize,
    rows: u64,
    journal: u64,
    /// Of the whole disk, as the file system says.
    all: Option<u64>,
}

impl Taken {
    fn of(data: &Path, disk: &Disk) -> Self {
        Self {
            extents: on_disk(&data.join("extents")),
            volumes: std::fs::read_dir(data.join("extents")).map_or(0, Iterator::count),
            rows: on_disk(&data.join("rows")),
            journal: on_disk(&data.join("journal")),
            all: disk.taken(),
        }
    }

    /// What is too much.
    fn excess(&self, live: &Live) -> Option<&'static str> {
        let with_a_tenth = |bytes: u64| bytes + bytes / 10;
        let most_extents = with_a_tenth(live.extent_bytes) + EXTENTS_ALLOWANCE;
        let most_rows = with_a_tenth(live.row_bytes) + ROWS_ALLOWANCE;
        let most = most_extents + most_rows + JOURNAL_ALLOWANCE;
        let bounds = [
            ("extents", self.extents > most_extents),
            ("volumes", self.volumes > live.extents + OPEN_VOLUMES),
            ("rows", self.rows > most_rows),
            ("journal", self.journal > JOURNAL_ALLOWANCE),
            ("the disk", self.all.is_some_and(|all| all > most)),
        ];
        bounds.into_iter().find(|(_, is_too_much)| *is_too_much).map(|(what, _)| what)
    }
}

pub(crate) fn wait_until_collected(data: &Path, live: &Live, disk: &Disk) {
    let begun = Instant::now();
    loop {
        let taken = Taken::of(data, disk);
        match taken.excess(live) {
            None => {
                println!("soak: after {:?} of collection: {live:?}, {taken:?}", begun.elapsed());
                let least = live.at_least_extent_bytes - live.at_least_extent_bytes / 10;
                assert!(taken.extents >= least, "less is there than should be: {live:?}, {taken:?}");
                return;
            }
            Some(what) => {
                let too_long = begun.elapsed() > PATIENCE;
                assert!(
                    !too_long,
                    "more space is taken than 10 % above what is live: {what}: {live:?}, {taken:?}"
                );
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
