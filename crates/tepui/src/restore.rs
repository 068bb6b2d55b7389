//! `tepui restore`: makes a data directory of a backup.

use crate::FAILED;
use crate::progress::Progress;
use crate::serve::Failure;
use clap::Args;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::SystemFiles;
use tepui_local::backup::{RestoreSink, Transfer, read_directory, read_tar};

/// Makes a data directory of a backup.
///
/// Every file of the backup is verified while it is written. A restore that is interrupted leaves a directory that no server
/// opens.
#[derive(Args)]
pub(crate) struct RestoreOptions {
    /// The backup: a directory, a tar archive, or - for an archive on standard input
    #[arg(value_name = "FROM")]
    from: PathBuf,

    /// The data directory, which must be empty or missing
    #[arg(value_name = "DIR")]
    to: PathBuf,
}

pub(crate) fn restore(options: &RestoreOptions) -> Result<(), Failure> {
    let mut progress = Progress::new("restoring", 0);
    let restored = run(options, &mut progress);
    let bytes = progress.done();
    drop(progress);
    restored.map_err(|error| {
        let message = format!("nothing is restored: {error}: {}", options.from.display());
        Failure { message, code: FAILED }
    })?;
    println!("restored {} MiB: {}", bytes >> 20, options.to.display());
    Ok(())
}

fn run(options: &RestoreOptions, progress: &mut Progress) -> io::Result<()> {
    let RestoreOptions { from, to } = options;
    let is_directory = from.is_dir();
    // First, so that a wrong name leaves nothing behind.
    let archive: Option<Box<dyn io::Read>> = match from {
        _ if is_directory => None,
        from if from == Path::new("-") => Some(Box::new(io::stdin().lock())),
        from => Some(Box::new(io::BufReader::with_capacity(256 << 10, File::open(from)?))),
    };
    let was_there = to.exists();
    let mut sink = RestoreSink::create(Arc::new(SystemFiles), to)?;
    let mut add = |bytes| {
        progress.add(bytes);
        Ok(())
    };
    let transfer = Transfer::new(&mut sink, &mut add);
    let restored = match archive {
        Some(archive) => read_tar(archive, transfer),
        None => read_directory(&SystemFiles, from, transfer),
    };
    if restored.is_err() {
        drop(sink);
        clear(to, was_there);
    }
    restored
}

/// Removes what a failed restore has written: the directory was empty before.
fn clear(directory: &Path, was_there: bool) {
    if !was_there {
        let _ = std::fs::remove_dir_all(directory);
        return;
    }
    // The file that keeps servers away goes last.
    for name in ["rows", "journal", "extents"] {
        let _ = std::fs::remove_dir_all(directory.join(name));
    }
    for name in ["FORMAT", "FORMAT.new", "RESTORING.new", "RESTORING", "LOCK"] {
        let _ = std::fs::remove_file(directory.join(name));
    }
}
