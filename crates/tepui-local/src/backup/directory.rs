//! A backup as a directory.

use super::{AfterEnd, BackupSink, CHECKSUMS, FileReader, Transfer, copy_to, damaged};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::{Create, FileSystem, OpenOptions, create_directories, read_file, replace_file};

/// Writes a backup to a directory. Durable when it is finished.
pub struct DirectorySink {
    files: Arc<dyn FileSystem>,
    path: PathBuf,
    folders: BTreeSet<PathBuf>,
}

impl DirectorySink {
    /// The directory must be empty or missing.
    pub fn create(files: Arc<dyn FileSystem>, path: &Path) -> io::Result<Self> {
        check_empty(&*files, path)?;
        create_directories(&*files, path)?;
        Ok(Self { files, path: path.to_owned(), folders: BTreeSet::from([path.to_owned()]) })
    }
}

/// Fails unless the directory is empty or missing.
pub(super) fn check_empty(files: &dyn FileSystem, path: &Path) -> io::Result<()> {
    if files.exists(path)? {
        // The root of a file system has this one from the start.
        let is_empty = files.names(path)?.iter().all(|name| name == "lost+found");
        if !is_empty {
            let why = format!("the directory is not empty: {}", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
    }
    Ok(())
}

impl BackupSink for DirectorySink {
    fn file(&mut self, name: &str, _: u64, content: &mut dyn Read) -> io::Result<()> {
        let path = self.path.join(checked_name(name)?);
        let mut new = Vec::new();
        let mut folder = path.parent();
        while let Some(missing) = folder.filter(|folder| !self.folders.contains(*folder)) {
            new.push(missing.to_owned());
            folder = missing.parent();
        }
        for folder in new.into_iter().rev() {
            self.files.create_directory(&folder)?;
            self.folders.insert(folder);
        }
        let file = self.files.open(&path, OpenOptions::create(Create::New))?;
        copy_to(&*file, 0, content, |file, offset, bytes| file.write_all_at(bytes, offset))?;
        file.sync_all()
    }

    fn finish(&mut self, checksums: &str) -> io::Result<()> {
        for folder in &self.folders {
            self.files.sync_directory(folder)?;
        }
        Ok(replace_file(&*self.files, &self.path.join(CHECKSUMS), checksums.as_bytes())?)
    }
}

/// Moves a backup out of a directory.
pub fn read_directory(files: &dyn FileSystem, path: &Path, mut transfer: Transfer<'_>) -> io::Result<()> {
    let checksums = read_file(files, &path.join(CHECKSUMS)).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => damaged(&format!(
            "it is not complete, or is none: there is no file {CHECKSUMS}: {}",
            path.display()
        )),
        _ => error,
    })?;
    let checksums = String::from_utf8(checksums).map_err(|_| damaged("its checksums cannot be read"))?;
    for line in checksums.lines() {
        let name = line.split_once("  ").map(|(_, name)| name);
        let name = checked_name(name.ok_or_else(|| damaged("its checksums cannot be read"))?)?;
        let file = files.open(&path.join(name), OpenOptions::read()).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => damaged(&format!("a file is missing: {name}")),
            _ => error,
        })?;
        let mut reader = FileReader { file: &*file, position: 0, after_end: AfterEnd::Nothing };
        transfer.file(name, file.length()?, &mut reader)?;
    }
    transfer.finish(Some(&checksums))
}

/// A name that leads nowhere else.
fn checked_name(name: &str) -> io::Result<&str> {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
            && part != ".."
    };
    match name.split('/').all(is_part) {
        true => Ok(name),
        false => Err(damaged(&format!("not a file of a backup: {name}"))),
    }
}
