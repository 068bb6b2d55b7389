//! The first file of a backup: its version, the format of the data directory, its size, and the volumes with their lengths.
//!
//! ```text
//! tepui-backup 1
//! format 4
//! bytes 123456
//! volume 4294967297.open 1048576
//! ```

use super::damaged;
use crate::checkpoint::Checkpoint;
use crate::directory::{FORMAT, OLDEST_FORMAT};
use crate::extents::volume::VolumeFile;
use std::fmt;
use std::io;

const VERSION: u32 = 1;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct BackupInfo {
    pub(super) format: u32,
    pub(super) bytes: u64,
    pub(super) volumes: Vec<(VolumeFile, u64)>,
}

impl BackupInfo {
    pub(super) fn of(checkpoint: &Checkpoint) -> Self {
        let volumes = checkpoint.volumes.iter().map(|volume| (volume.file, volume.length)).collect();
        Self { format: FORMAT, bytes: checkpoint.bytes(), volumes }
    }

    pub(super) fn parse(text: &str) -> io::Result<Self> {
        let mut lines = text.lines();
        let mut field = |name: &str| {
            lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok())
        };
        let version = field("tepui-backup").ok_or_else(|| damaged("this is not a backup of Tepui"))?;
        if version != u64::from(VERSION) {
            let why = format!("the backup has version {version}, this program restores version {VERSION}");
            return Err(io::Error::other(why));
        }
        let unreadable = || damaged("its first file cannot be read");
        let (format, bytes) = field("format").zip(field("bytes")).ok_or_else(unreadable)?;
        let format = u32::try_from(format).ok().filter(|format| (OLDEST_FORMAT..=FORMAT).contains(format));
        let format = format.ok_or_else(|| {
            io::Error::other(
                "the backup is of a data directory of another format: use the version that made it",
            )
        })?;
        let volume = |line: &str| {
            let (name, length) = line.strip_prefix("volume ")?.split_once(' ')?;
            Some((VolumeFile::parse(name)?, length.parse().ok()?))
        };
        let volumes = lines.map(|line| volume(line).ok_or_else(unreadable)).collect::<io::Result<_>>()?;
        Ok(Self { format, bytes, volumes })
    }
}

impl fmt::Display for BackupInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "tepui-backup {VERSION}\nformat {}\nbytes {}", self.format, self.bytes)?;
        for (volume, length) in &self.volumes {
            writeln!(f, "volume {} {length}", volume.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let volumes = vec![(VolumeFile::Sealed(17), 4096), (VolumeFile::Unsealed(u64::MAX), 0)];
        let info = BackupInfo { format: FORMAT, bytes: 7, volumes };
        let text = info.to_string();
        assert_eq!(BackupInfo::parse(&text).expect("it was just written"), info);
        for (from, to) in [
            ("tepui-backup 1", "tepui-backup 2"),
            ("tepui-backup", "else"),
            ("format 4", "format 9"),
            ("bytes 7", "bytes"),
            ("volume 17 ", "volume ../17 "),
            ("volume 17 4096", "volume 17"),
        ] {
            assert!(text.contains(from), "{from}");
            assert!(BackupInfo::parse(&text.replace(from, to)).is_err(), "{to}");
        }
    }
}
