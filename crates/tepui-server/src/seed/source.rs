//! The files of a seed: of a directory, in the order of their names, or of a tar archive, as they come.

use super::SeedError;
use bytes::Bytes;
use flate2::read::GzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Component, Path, PathBuf};
use tar::{Archive, EntryType};

/// How a gzip stream begins.
const GZIP: [u8; 2] = [0x1F, 0x8B];
/// Deeper directories are taken for a mistake.
const MAX_DEPTH: usize = 64;

/// Where a seed is.
#[derive(Debug, Clone)]
pub(crate) enum SeedSource {
    /// A directory, or a tar archive.
    Path(PathBuf),
    /// A tar archive.
    Archive(Bytes),
}

/// A file or a folder of a seed.
pub(super) enum Entry<'a> {
    File(&'a mut dyn Read),
    Folder,
}

/// What is done with each file and folder, by the parts of its path.
pub(super) type Visit<'a> = dyn FnMut(&[String], Entry<'_>) -> Result<(), SeedError> + 'a;

impl SeedSource {
    pub(super) fn visit(&self, visit: &mut Visit<'_>) -> Result<(), SeedError> {
        match self {
            Self::Path(path) if path.is_dir() => visit_directory(path, &mut Vec::new(), visit),
            Self::Path(path) => {
                let file = File::open(path).map_err(|error| {
                    SeedError::new("", None, format!("cannot open the seed ({error}): {}", path.display()))
                })?;
                visit_archive(BufReader::new(file), visit)
            }
            Self::Archive(bytes) => visit_archive(Cursor::new(bytes.clone()), visit),
        }
    }
}

fn visit_directory(
    directory: &Path,
    parts: &mut Vec<String>,
    visit: &mut Visit<'_>,
) -> Result<(), SeedError> {
    let failed = |parts: &[String], error: io::Error| {
        SeedError::new(&parts.join("/"), None, format!("cannot be read: {error}"))
    };
    if parts.len() > MAX_DEPTH {
        return Err(SeedError::new(&parts.join("/"), None, "the directories are nested too deeply"));
    }
    let entries = std::fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.map_err(|error| failed(parts, error))?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            let name = entry.file_name();
            return Err(SeedError::new(&parts.join("/"), None, format!("a name is not UTF-8: {name:?}")));
        };
        parts.push(name);
        let kind = entry.file_type().map_err(|error| failed(parts, error))?;
        if kind.is_dir() {
            visit(parts, Entry::Folder)?;
            visit_directory(&entry.path(), parts, visit)?;
        } else {
            // A link to a file is as good as the file. One to a directory could lead back.
            let is_file = entry.path().metadata().map_err(|error| failed(parts, error))?.is_file();
            if !is_file {
                return Err(SeedError::new(&parts.join("/"), None, "this is neither a file nor a directory"));
            }
            let mut file = File::open(entry.path()).map_err(|error| failed(parts, error))?;
            visit(parts, Entry::File(&mut file))?;
        }
        parts.pop();
    }
    Ok(())
}

fn visit_archive<R: Read>(mut archive: R, visit: &mut Visit<'_>) -> Result<(), SeedError> {
    let mut begins = Vec::new();
    archive.by_ref().take(GZIP.len() as u64).read_to_end(&mut begins).map_err(broken)?;
    let is_compressed = begins == GZIP;
    let whole = Cursor::new(begins).chain(archive);
    match is_compressed {
        true => visit_tar(GzDecoder::new(whole), visit),
        false => visit_tar(whole, visit),
    }
}

fn visit_tar<R: Read>(archive: R, visit: &mut Visit<'_>) -> Result<(), SeedError> {
    let mut archive = Archive::new(archive);
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let parts = parts_of(&path)?;
        if parts.is_empty() {
            continue;
        }
        match kind {
            EntryType::Regular | EntryType::Continuous => visit(&parts, Entry::File(&mut entry))?,
            EntryType::Directory => visit(&parts, Entry::Folder)?,
            _ => return Err(SeedError::new(&path, None, "an archive may hold files and directories only")),
        }
    }
    Ok(())
}

/// The parts of a path in an archive, which must stay inside it.
fn parts_of(path: &str) -> Result<Vec<String>, SeedError> {
    let mut parts = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir => {}
            _ => return Err(SeedError::new(path, None, "a path in an archive may not lead out of it")),
        }
    }
    Ok(parts)
}

fn broken(error: io::Error) -> SeedError {
    SeedError::new(
        "",
        None,
        format!("the seed is neither a directory nor a tar archive that can be read: {error}"),
    )
}
