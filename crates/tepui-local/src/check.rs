//! Checks a data directory that no server has open, without changing it: every checksum and what is known of files here.
//! What rows mean, and which extents they refer to, the caller knows.
//!
//! Memory: the log, as when a server starts, and the index of a table.

use crate::extents::verify::VolumesCheck;
use crate::lsm::{DirectoryState, ReadableTables, TableDamage, file_bytes};
use crate::offline::{OfflineDirectory, SIZES};
use crate::wal::Wal;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::FileSystem;
use tepui_storage::{Extent, Key, StorageError, StorageErrorKind, Value};

/// Something that is not as it was written, or missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub file: PathBuf,
    pub offset: Option<u64>,
    pub what: String,
    /// The keys that may be affected: the first, and the one after the last.
    pub keys: Option<(Key, Key)>,
}

impl From<TableDamage> for Damage {
    fn from(TableDamage { path, offset, what, keys }: TableDamage) -> Self {
        Self { file: path, offset, what, keys }
    }
}

/// What files there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileCounts {
    pub tables: u64,
    pub table_bytes: u64,
    /// Rows of tables, of which newer ones may exist, and tombstones.
    pub table_rows: u64,
    pub tombstones: u64,
    /// Batches of the log that are in no table yet.
    pub log_batches: u64,
    /// Files that no manifest lists: the next start removes them.
    pub orphaned_tables: u64,
    pub orphaned_bytes: u64,
    /// Tables that were found damaged earlier and put aside.
    pub quarantined_tables: u64,
    pub quarantined_bytes: u64,
    pub volumes: u64,
    /// Volumes that the next start sweeps.
    pub unsealed_volumes: u64,
    /// What extents take on disk that rows refer to.
    pub extent_bytes: u64,
    /// What else takes space in volumes.
    pub garbage_bytes: u64,
}

/// A check under way.
pub struct DirectoryCheck {
    directory: OfflineDirectory,
    tables: Option<ReadableTables>,
    volumes: Option<VolumesCheck>,
    counts: FileCounts,
}

type Found<'a> = &'a mut dyn FnMut(Damage);

impl DirectoryCheck {
    /// Reads the manifest and the log, and lists the volumes.
    pub fn open(directory: OfflineDirectory, found: Found<'_>) -> io::Result<Self> {
        let mut check = Self { directory, tables: None, volumes: None, counts: FileCounts::default() };
        let OfflineDirectory { files, .. } = &check.directory;
        let files = Arc::clone(files);
        let mut missing = false;
        for folder in [check.directory.rows(), check.directory.wal(), check.directory.extents()] {
            if !files.exists(&folder)? {
                missing |= folder != check.directory.extents();
                let what = "the folder is missing, and everything in it".to_owned();
                found(Damage { file: folder, offset: None, what, keys: None });
            }
        }
        if !missing {
            check.open_rows(found).map_err(failed)?;
        }
        let folder = check.directory.extents();
        if files.exists(&folder)? {
            let volumes = VolumesCheck::open(&files, &folder)?;
            report_twice(&volumes, found);
            check.volumes = Some(volumes);
        }
        Ok(check)
    }

    fn open_rows(&mut self, found: Found<'_>) -> Result<(), StorageError> {
        let files = &self.directory.files;
        let mut damaged = |damage: TableDamage| found(damage.into());
        let tables = ReadableTables::open(files, &self.directory.rows(), SIZES, &mut damaged)?;
        let Some(tables) = tables else { return Ok(()) };
        let mut batches = 0;
        let expected = (DirectoryState::Existing, tables.wal);
        let read = Wal::read(files, &self.directory.wal(), 0, expected, tables.flushed, |batch| {
            batches += 1;
            tables.memtable.insert(batch.seq_no, batch.writes);
        });
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == StorageErrorKind::Corrupt => {
                let what = format!("{error}: no server opens the directory, and commits are lost");
                found(Damage { file: self.directory.wal(), offset: None, what, keys: None });
            }
            Err(error) => return Err(error),
        }
        let counts = &mut self.counts;
        counts.log_batches = batches;
        (counts.tables, counts.table_rows, counts.tombstones) = tables.counts();
        counts.table_bytes = tables.bytes();
        counts.orphaned_tables = tables.orphans.len() as u64;
        counts.orphaned_bytes = file_bytes(&**files, &tables.orphans);
        counts.quarantined_tables = tables.quarantined.len() as u64;
        counts.quarantined_bytes = file_bytes(&**files, &tables.quarantined);
        self.tables = Some(tables);
        Ok(())
    }

    /// How many bytes there are to verify, about.
    pub fn total_bytes(&self) -> u64 {
        let volumes = self.volumes.as_ref().map_or(0, VolumesCheck::total_bytes);
        self.tables.as_ref().map_or(0, ReadableTables::bytes) + volumes
    }

    /// Verifies every block of every table.
    pub fn verify_tables(&self, progress: &mut dyn FnMut(u64), found: Found<'_>) -> io::Result<()> {
        let mut damaged = |damage: TableDamage| found(damage.into());
        self.tables.as_ref().map_or(Ok(()), |tables| tables.verify(progress, &mut damaged)).map_err(failed)
    }

    /// Every row that can be read, in key order. Returns whether there is anything to read from.
    pub fn rows(
        &mut self,
        each: &mut dyn FnMut(&mut ExtentCheck<'_>, Key, Value) -> io::Result<()>,
    ) -> io::Result<bool> {
        let Some(tables) = &self.tables else { return Ok(false) };
        let mut extents = ExtentCheck { volumes: self.volumes.as_mut() };
        let mut failure = None;
        let rows = tables.rows(&mut |key, value| {
            each(&mut extents, key, value).map_err(|error| {
                let message = error.to_string();
                failure = Some(error);
                StorageError::failed(message)
            })
        });
        match (rows, failure) {
            (_, Some(error)) => Err(error),
            (rows, None) => rows.map_err(failed).map(|()| true),
        }
    }

    /// What files there are. To be called after all extents were verified.
    pub fn finish(mut self) -> io::Result<FileCounts> {
        if let Some(volumes) = &mut self.volumes {
            volumes.finish()?;
            self.counts.volumes = volumes.volumes;
            self.counts.unsealed_volumes = volumes.unsealed;
            self.counts.extent_bytes = volumes.live_bytes;
            self.counts.garbage_bytes = volumes.garbage_bytes;
        }
        Ok(self.counts)
    }
}

/// Verifies extents while rows are read.
pub struct ExtentCheck<'a> {
    volumes: Option<&'a mut VolumesCheck>,
}

impl ExtentCheck<'_> {
    /// Verifies an extent. They must come in the order of volumes and offsets, each once.
    pub fn verify(&mut self, extent: Extent, progress: &mut dyn FnMut(u64)) -> io::Result<Option<Damage>> {
        let Some(volumes) = &mut self.volumes else { return Ok(None) };
        let damage = volumes.verify(extent, progress)?;
        Ok(damage.map(|damage| Damage {
            file: damage.path,
            offset: Some(damage.offset),
            what: damage.what,
            keys: None,
        }))
    }
}

/// Verifies extents in a folder of volumes, which come in the order of volumes and offsets.
pub fn check_extents(
    files: &Arc<dyn FileSystem>,
    folder: &Path,
    extents: impl Iterator<Item = Extent>,
    found: Found<'_>,
) -> io::Result<()> {
    let mut volumes = VolumesCheck::open(files, folder)?;
    report_twice(&volumes, found);
    let mut check = ExtentCheck { volumes: Some(&mut volumes) };
    for extent in extents {
        if let Some(damage) = check.verify(extent, &mut |_| {})? {
            found(damage);
        }
    }
    Ok(())
}

fn report_twice(volumes: &VolumesCheck, found: Found<'_>) {
    for file in &volumes.twice {
        let what = "a volume is there twice, also as sealed".to_owned();
        found(Damage { file: file.clone(), offset: None, what, keys: None });
    }
}

fn failed(error: StorageError) -> io::Error {
    io::Error::other(error.to_string())
}
