//! `tepui backup`: writes a backup of a running server, or of a data directory that no server has open.

use crate::progress::Progress;
use crate::serve::Failure;
use crate::{FAILED, USAGE, control_client};
use clap::Args;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::{FileSystem, SystemFiles};
use tepui_local::backup::{BackupSink, DirectorySink, TarSink, Transfer, read_tar};
use tepui_local::{Checkpoint, OfflineDirectory, OfflineError};
use tepui_server::Config;
use tepui_server::config::{ServiceName, StorageSetting, StorageUrl};

/// Writes a backup of a running server, or of a stopped one.
///
/// The backup is consistent: tables, queues and blobs as they were at one point in time, with everything that was acknowledged before.
/// The server goes on meanwhile. Without --to, a tar archive is written to standard output.
#[derive(Args)]
pub(crate) struct BackupOptions {
    #[command(flatten)]
    data: DataOptions,

    /// Write to this directory, which must be empty or missing; to a file if the name ends in .tar; - is standard output
    #[arg(long, value_name = "PATH", default_value = "-")]
    to: PathBuf,
}

/// Which data directory is meant.
#[derive(Args)]
pub(crate) struct DataOptions {
    /// The data directory of the server [default: as for `tepui serve`]
    #[arg(long, short = 'l', alias = "location", value_name = "DIR", env = "TEPUI_DATA_DIR")]
    data_dir: Option<PathBuf>,

    /// The storage of the server, as for `tepui serve`: only local data can be backed up
    #[arg(long, value_name = "STORAGE", env = "TEPUI_STORAGE", hide_env_values = true)]
    storage: Option<StorageUrl>,

    /// The configuration file of the server, which may name its data directory
    #[arg(long, value_name = "FILE", env = "TEPUI_CONFIG")]
    config: Option<PathBuf>,
}

impl DataOptions {
    fn directory(&self) -> Result<PathBuf, Failure> {
        let usage = |error: tepui_server::ConfigError| Failure { message: error.to_string(), code: USAGE };
        let mut config = match &self.config {
            Some(path) => Config::from_file(path).map_err(usage)?,
            None => Config::default(),
        };
        if let Some(directory) = &self.data_dir {
            config.data_dir = Some(directory.clone());
        }
        if let Some(storage) = &self.storage {
            config.storage = Some(storage.clone());
        }
        // Whether there are blobs, and where, makes no difference.
        config.services = vec![ServiceName::Table];
        let refuse = |message: &str| Failure { message: message.to_owned(), code: USAGE };
        match config.storage().map_err(usage)? {
            StorageSetting::Local(directory) => Ok(directory),
            StorageSetting::Memory => Err(refuse("what is in memory only cannot be backed up")),
            StorageSetting::Shared { .. } => Err(refuse(
                "a backup is of local data: storage over a network has backups of its own, and `tepui storage copy` copies it to a directory",
            )),
        }
    }
}

/// Where the backup comes from.
enum Source {
    Server(control_client::BackupStream),
    Directory(Box<Checkpoint>),
}

impl Source {
    fn bytes(&self) -> u64 {
        match self {
            Self::Server(stream) => stream.total_bytes(),
            Self::Directory(checkpoint) => checkpoint.bytes(),
        }
    }

    fn write_to(self, transfer: Transfer<'_>) -> io::Result<()> {
        match self {
            Self::Server(stream) => read_tar(stream, transfer),
            Self::Directory(checkpoint) => checkpoint.write_to(transfer),
        }
    }
}

pub(crate) fn backup(options: &BackupOptions) -> Result<(), Failure> {
    let data_dir = options.data.directory()?;
    let to_stdout = options.to == Path::new("-");
    if to_stdout && io::stdout().is_terminal() {
        let message =
            "an archive is not for terminals: choose a place with --to, or redirect standard output";
        return Err(Failure { message: message.to_owned(), code: USAGE });
    }
    let source = open(&data_dir)?;
    let bytes = source.bytes();
    let is_archive = options.to.extension().is_some_and(|extension| extension == "tar");
    let written = if to_stdout {
        write_archive(source, io::stdout().lock()).map(drop)
    } else if is_archive {
        write_file(source, &options.to)
    } else {
        write_directory(source, &options.to)
    };
    written.map_err(|error| failed(format!("the backup is not complete: {error}")))?;
    if !to_stdout {
        println!("backed up {} MiB: {}", bytes >> 20, options.to.display());
    }
    Ok(())
}

fn open(data_dir: &Path) -> Result<Source, Failure> {
    match control_client::backup(data_dir) {
        Ok(stream) => return Ok(Source::Server(stream)),
        Err(control_client::Error::NoServer) => {}
        Err(control_client::Error::Failed(why)) => {
            return Err(failed(format!("the server makes no backup: {why}")));
        }
    }
    let directory = OfflineDirectory::open(Arc::new(SystemFiles), data_dir).map_err(|error| match error {
        OfflineError::InUse(why) => failed(format!("{why} (it has no control socket: stop it first)")),
        error => failed(error.to_string()),
    })?;
    let checkpoint = Checkpoint::offline(directory).map_err(|error| failed(error.to_string()))?;
    Ok(Source::Directory(Box::new(checkpoint)))
}

fn transfer(source: Source, sink: &mut dyn BackupSink) -> io::Result<()> {
    let mut progress = Progress::new("backing up", source.bytes());
    source.write_to(Transfer::new(sink, &mut |bytes| {
        progress.add(bytes);
        Ok(())
    }))
}

fn write_archive<W: Write>(source: Source, to: W) -> io::Result<W> {
    let mut sink = TarSink::new(BufWriter::with_capacity(256 << 10, to));
    transfer(source, &mut sink)?;
    sink.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)
}

/// Under another name until it is complete.
fn write_file(source: Source, path: &Path) -> io::Result<()> {
    if path.exists() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("it is there already: {}", path.display()),
        ));
    }
    check_space(path, source.bytes())?;
    let partial = path.with_extension("tar.partial");
    let write = || {
        write_archive(source, private_file(&partial)?)?.sync_all()?;
        std::fs::rename(&partial, path)?;
        SystemFiles.sync_directory(parent(path))
    };
    let written = write();
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written
}

/// Only its owner may read it: it has everything that is stored.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn write_directory(source: Source, path: &Path) -> io::Result<()> {
    check_space(path, source.bytes())?;
    let mut sink = DirectorySink::create(Arc::new(SystemFiles), path)?;
    let written = transfer(source, &mut sink);
    if written.is_err() {
        // It was empty before.
        let _ = std::fs::remove_dir_all(path);
    }
    written
}

/// Fails if the disk of `path` has no space for so many bytes.
fn check_space(path: &Path, bytes: u64) -> io::Result<()> {
    let mut existing = path;
    while !existing.exists() {
        existing = parent(existing);
    }
    let free = SystemFiles.free_space(existing)?;
    if free < bytes {
        let why =
            format!("{bytes} bytes are to be written, {free} are free on the disk: {}", existing.display());
        return Err(io::Error::new(io::ErrorKind::StorageFull, why));
    }
    Ok(())
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn failed(message: String) -> Failure {
    Failure { message, code: FAILED }
}
