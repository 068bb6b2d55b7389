//! Checkpoints: the contents of a data directory at one point in time, rows and extents, while a server goes on writing to it.
//!
//! The rows are those of a snapshot (`lsm/checkpoint.rs`). Every extent that they refer to was written before the snapshot was
//! taken, and frees are held back from before that until the checkpoint is dropped (`extents/checkpoint.rs`). So neither
//! reads nor writes wait, and nothing but space is held.

use crate::blocking;
use crate::engine::DiskEngine;
use crate::extents::DiskExtents;
use crate::extents::checkpoint::{self as volumes, FreesHeld, VolumeCheckpoint};
use crate::lsm::{LsmTree, ReadView, SeqNo, TablesCheckpoint};
use crate::offline::OfflineDirectory;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tepui_files::FileSystem;
use tepui_storage::{StorageError, StorageErrorKind};

/// The contents of a directory at one point in time. As long as it exists, none of its files is removed from the disk.
pub struct Checkpoint {
    pub(crate) files: Arc<dyn FileSystem>,
    pub(crate) tables: TablesCheckpoint,
    pub(crate) volumes: Vec<VolumeCheckpoint>,
    _hold: Hold,
}

/// What keeps a checkpoint as it is.
#[expect(dead_code, reason = "released when dropped")]
enum Hold {
    Frees(FreesHeld),
    Directory(OfflineDirectory),
}

impl Checkpoint {
    /// A checkpoint of an engine and the extents beside it, which are in use. Everything that was acknowledged before is in it.
    /// One at a time: a second one is refused.
    pub async fn take(engine: &DiskEngine, extents: &DiskExtents) -> io::Result<Self> {
        let frees = extents.gate().hold().await.ok_or_else(|| {
            io::Error::new(io::ErrorKind::AlreadyExists, "another backup is being made: try again later")
        })?;
        let (files, folder) = extents.folder();
        let (engine, files, folder) = (engine.clone(), Arc::clone(files), folder.to_owned());
        let take = move || {
            let sealed = volumes::sealed_volumes(&*files, &folder)?;
            // From here on the rows are fixed.
            let view = engine.view().map_err(failed)?;
            let volumes = volumes::volumes(&*files, &folder, &sealed)?;
            frees.limit_to(&volumes);
            let tables = tables(&view.tree, &view.read_view, view.seq_no)?;
            Ok(Self { files, tables, volumes, _hold: Hold::Frees(frees) })
        };
        let files = Arc::clone(extents.folder().0);
        let taken = blocking::spawn(&*files, take).await;
        taken.unwrap_or_else(|_| Err(io::Error::other("the program is ending")))
    }

    /// A checkpoint of a directory that no server has open.
    pub fn offline(directory: OfflineDirectory) -> io::Result<Self> {
        let files = Arc::clone(&directory.files);
        let (tree, seq_no) = directory.read_tree().map_err(failed)?;
        let tables = tables(&tree, &tree.read_view(), seq_no)?;
        let folder = directory.extents();
        let sealed = volumes::sealed_volumes(&*files, &folder)?;
        let volumes = volumes::volumes(&*files, &folder, &sealed)?;
        Ok(Self { files, tables, volumes, _hold: Hold::Directory(directory) })
    }

    /// The bytes that are copied.
    pub fn bytes(&self) -> u64 {
        let tables: u64 = self.tables.tables().map(|(_, _, bytes)| bytes).sum();
        let pieces = self.volumes.iter().flat_map(|volume| &volume.pieces);
        tables + pieces.map(|piece| piece.end - piece.start).sum::<u64>()
    }

    /// The free space of the disk that it holds space on.
    pub fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.files.free_space(path)
    }
}

fn tables(tree: &LsmTree, view: &ReadView, seq_no: SeqNo) -> io::Result<TablesCheckpoint> {
    tree.checkpoint(view, seq_no).map_err(failed)
}

fn failed(error: StorageError) -> io::Error {
    let kind = match error.kind() {
        StorageErrorKind::NoSpace => io::ErrorKind::StorageFull,
        StorageErrorKind::Corrupt => io::ErrorKind::InvalidData,
        StorageErrorKind::Unavailable
        | StorageErrorKind::Busy
        | StorageErrorKind::TooOld
        | StorageErrorKind::Failed => io::ErrorKind::Other,
    };
    io::Error::new(kind, error.to_string())
}
