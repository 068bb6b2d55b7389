//! Restores a data directory from a backup.
//!
//! The directory has a file RESTORING from the start, and FORMAT only at the end: whenever it is interrupted, no server takes
//! it for a data directory. Both change after everything was verified and is durable.

use super::info::BackupInfo;
use super::{BackupSink, EXTENTS, INFO, ROWS, copy_to, damaged, directory};
use crate::directory::RESTORING;
use crate::extents::volume::VolumeFile;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::{Create, File, FileSystem, Lock, LockError, OpenOptions, create_directories, replace_file};

/// No first file of a backup is longer: there is a line for each volume.
const MAX_INFO_BYTES: u64 = 64 << 20;

/// Zeros are not written in parts of this size, which become holes.
const SECTOR_BYTES: usize = 4096;

/// Writes a backup to a data directory.
pub struct RestoreSink {
    files: Arc<dyn FileSystem>,
    path: PathBuf,
    info: Option<BackupInfo>,
    /// The volume that was written to last.
    volume: Option<(VolumeFile, Box<dyn File>)>,
    /// Volumes that were created.
    created: BTreeSet<u64>,
    _lock: Box<dyn Lock>,
}

impl RestoreSink {
    /// The directory must be empty or missing.
    pub fn create(files: Arc<dyn FileSystem>, path: &Path) -> io::Result<Self> {
        directory::check_empty(&*files, path)?;
        create_directories(&*files, path)?;
        let lock = files.lock(&path.join("LOCK")).map_err(|error| match error {
            LockError::Taken => io::Error::other(format!("in use by another process: {}", path.display())),
            LockError::Failed(error) => error,
        })?;
        replace_file(&*files, &path.join(RESTORING), b"")?;
        for folder in [ROWS, "journal", EXTENTS] {
            files.create_directory(&path.join(folder))?;
        }
        Ok(Self {
            files,
            path: path.to_owned(),
            info: None,
            volume: None,
            created: BTreeSet::new(),
            _lock: lock,
        })
    }

    fn info(&self) -> io::Result<&BackupInfo> {
        self.info.as_ref().ok_or_else(|| damaged("this is not a backup of Tepui"))
    }

    fn take_info(&mut self, length: u64, content: &mut dyn Read) -> io::Result<()> {
        if self.info.is_some() || length > MAX_INFO_BYTES {
            return Err(damaged("its first file cannot be read"));
        }
        let mut text = String::new();
        content.read_to_string(&mut text)?;
        let info = BackupInfo::parse(&text)?;
        let free = self.files.free_space(&self.path)?;
        if free < info.bytes {
            let why = format!(
                "{} bytes are to be restored, {free} are free on the disk: {}",
                info.bytes,
                self.path.display()
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, why));
        }
        self.info = Some(info);
        Ok(())
    }

    fn take_piece(&mut self, volume: VolumeFile, offset: u64, content: &mut dyn Read) -> io::Result<()> {
        if !matches!(&self.volume, Some((current, _)) if *current == volume) {
            self.begin_volume(volume)?;
        }
        let Some((_, file)) = &self.volume else { return Ok(()) };
        copy_to(&**file, offset, content, write_data)
    }

    fn begin_volume(&mut self, volume: VolumeFile) -> io::Result<()> {
        self.end_volume()?;
        let length =
            self.info()?.volumes.iter().find(|(listed, _)| *listed == volume).map(|(_, length)| *length);
        let length =
            length.ok_or_else(|| damaged(&format!("it does not list the volume {}", volume.name())))?;
        let path = volume.path(&self.path.join(EXTENTS));
        let file = self.files.open(&path, OpenOptions::create(Create::New))?;
        file.set_length(length)?;
        self.created.insert(volume.number());
        self.volume = Some((volume, file));
        Ok(())
    }

    fn end_volume(&mut self) -> io::Result<()> {
        self.volume.take().map_or(Ok(()), |(_, file)| file.sync_all())
    }
}

impl BackupSink for RestoreSink {
    fn file(&mut self, name: &str, length: u64, content: &mut dyn Read) -> io::Result<()> {
        if name == INFO {
            return self.take_info(length, content);
        }
        self.info()?;
        let foreign = || damaged(&format!("not a file of a backup: {name}"));
        match name.split('/').collect::<Vec<_>>()[..] {
            [ROWS, table] if table == "MANIFEST" || table.parse::<u64>().is_ok() => {
                let path = self.path.join(ROWS).join(table);
                let file = self.files.open(&path, OpenOptions::create(Create::New))?;
                copy_to(&*file, 0, content, |file, offset, bytes| file.write_all_at(bytes, offset))?;
                file.sync_all()
            }
            [EXTENTS, volume, offset] => {
                let volume = VolumeFile::parse(volume).ok_or_else(foreign)?;
                let offset = offset.parse().map_err(|_| foreign())?;
                self.take_piece(volume, offset, content)
            }
            _ => Err(foreign()),
        }
    }

    fn finish(&mut self, _: &str) -> io::Result<()> {
        self.end_volume()?;
        // Those that are empty, too: their numbers are not to be used again.
        let (format, volumes) = self.info().map(|info| (info.format, info.volumes.clone()))?;
        for (volume, _) in volumes {
            if !self.created.contains(&volume.number()) {
                self.begin_volume(volume)?;
            }
        }
        self.end_volume()?;
        for folder in [ROWS, "journal", EXTENTS] {
            self.files.sync_directory(&self.path.join(folder))?;
        }
        self.files.sync_directory(&self.path)?;
        replace_file(&*self.files, &self.path.join("FORMAT"), format!("{format}\n").as_bytes())?;
        self.files.remove_file(&self.path.join(RESTORING))?;
        self.files.sync_directory(&self.path)
    }
}

/// Writes all but sectors of zeros.
fn write_data(file: &dyn File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let is_zero = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
    let mut at = 0;
    for run in
        bytes.chunks(SECTOR_BYTES).collect::<Vec<_>>().chunk_by(|one, next| is_zero(one) == is_zero(next))
    {
        let length: usize = run.iter().map(|sector| sector.len()).sum();
        if !is_zero(run[0]) {
            file.write_all_at(&bytes[at..at + length], offset + at as u64)?;
        }
        at += length;
    }
    Ok(())
}
