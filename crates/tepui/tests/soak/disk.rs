//! The file system, and another tenant who takes space on it.

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Larger ones are not filled, because other programs need them.
const MAX_FILLED_BYTES: u64 = mib(16 * 1024);

pub(crate) struct Disk {
    folder: PathBuf,
    /// Small enough to be filled.
    pub(crate) is_small: bool,
    /// What is free without the server.
    free_at_first: u64,
    ballast: Option<(File, u64)>,
}

pub(crate) const fn mib(number: u64) -> u64 {
    number << 20
}

impl Disk {
    /// The disk of a folder that was asked for. Any other is shared with others.
    pub(crate) fn new(folder: Option<&Path>) -> Self {
        let temporary = std::env::temp_dir();
        let path = folder.unwrap_or(&temporary);
        let stat = statvfs(path).unwrap();
        let is_small = folder.is_some() && stat.f_blocks * stat.f_frsize <= MAX_FILLED_BYTES;
        println!("soak: in {}; the disk is {}filled", path.display(), if is_small { "" } else { "not " });
        let mut disk = Self { folder: path.to_owned(), is_small, free_at_first: 0, ballast: None };
        disk.free_at_first = disk.free();
        disk
    }

    pub(crate) fn free(&self) -> u64 {
        let stat = statvfs(&self.folder).unwrap();
        stat.f_bavail * stat.f_frsize
    }

    /// The space that the server uses. `None`: unknown, because others use the disk as well.
    pub(crate) fn taken(&self) -> Option<u64> {
        let ballast = self.ballast.as_ref().map_or(0, |(_, bytes)| *bytes);
        self.is_small.then(|| self.free_at_first.saturating_sub(self.free() + ballast))
    }

    /// Allocates or frees space until this much is free.
    pub(crate) fn leave_free(&mut self, free: u64) {
        let path = self.folder.join("ballast");
        let (file, bytes) = self.ballast.get_or_insert_with(|| (File::create(path).unwrap(), 0));
        let is_free = || {
            let stat = statvfs(&self.folder).unwrap();
            stat.f_bavail * stat.f_frsize
        };
        if is_free() < free {
            *bytes = bytes.saturating_sub(free - is_free());
            file.set_len(*bytes).unwrap();
            file.sync_all().unwrap();
            return;
        }
        // The file system needs some for itself, so the last bytes come in small pieces.
        let mut step = mib(64);
        while step >= 4096 {
            let piece = step.min(is_free().saturating_sub(free));
            if piece < 4096 || fallocate(&*file, FallocateFlags::empty(), *bytes, piece).is_err() {
                step /= 2;
                continue;
            }
            *bytes += piece;
        }
        file.sync_all().unwrap();
    }

    pub(crate) fn leave_all_free(&mut self) {
        if let Some((file, _)) = self.ballast.take() {
            file.set_len(0).unwrap();
            file.sync_all().unwrap();
            std::fs::remove_file(self.folder.join("ballast")).unwrap();
        }
    }
}
