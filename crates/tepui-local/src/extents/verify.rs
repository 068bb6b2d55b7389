//! Verifies extents, for offline checks, and counts what belongs to none.

use super::frame::{self, FRAME_BYTES};
use super::volume::{self, VolumeFile, open_volume};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::{File, FileSystem, OpenOptions};
use tepui_storage::Extent;

/// How many frames are read with one call.
const FRAMES_AT_ONCE: u64 = 16;

/// Verifies extents in the order of their places.
pub(crate) struct VolumesCheck {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    /// Those that no extent was verified in yet.
    left: BTreeMap<u64, VolumeFile>,
    pub(crate) volumes: u64,
    pub(crate) unsealed: u64,
    /// Volumes that have two files.
    pub(crate) twice: Vec<PathBuf>,
    current: Option<CurrentVolume>,
    /// What extents take on disk.
    pub(crate) live_bytes: u64,
    /// What takes space and belongs to no extent.
    pub(crate) garbage_bytes: u64,
}

struct CurrentVolume {
    number: u64,
    path: PathBuf,
    file: Box<dyn File>,
    length: u64,
    /// The end of the last extent.
    end: u64,
}

/// Where an extent is not what was written.
pub(crate) struct ExtentDamage {
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    pub(crate) what: String,
}

impl VolumesCheck {
    pub(crate) fn open(files: &Arc<dyn FileSystem>, folder: &Path) -> io::Result<Self> {
        let found = volume::find(&**files, folder)?;
        let mut left = BTreeMap::new();
        let mut twice = BTreeSet::new();
        for file in &found {
            if left.insert(file.number(), *file).is_some() {
                twice.insert(VolumeFile::Unsealed(file.number()).path(folder));
            }
        }
        let is_unsealed = |file: &&VolumeFile| matches!(file, VolumeFile::Unsealed(_));
        Ok(Self {
            files: Arc::clone(files),
            folder: folder.to_owned(),
            volumes: left.len() as u64,
            unsealed: found.iter().filter(is_unsealed).count() as u64,
            left,
            twice: twice.into_iter().collect(),
            current: None,
            live_bytes: 0,
            garbage_bytes: 0,
        })
    }

    /// The bytes that extents and garbage take, about.
    pub(crate) fn total_bytes(&self) -> u64 {
        let length = |number: &u64| {
            open_volume(&*self.files, &self.folder, *number, OpenOptions::read())
                .and_then(|file| file.length())
        };
        self.left.keys().filter_map(|number| length(number).ok()).sum()
    }

    /// Verifies an extent. They come in the order of volumes and offsets.
    pub(crate) fn verify(
        &mut self,
        extent: Extent,
        progress: &mut dyn FnMut(u64),
    ) -> io::Result<Option<ExtentDamage>> {
        if self.current.as_ref().is_none_or(|current| current.number != extent.volume) {
            self.finish_volume()?;
            match self.begin_volume(extent.volume)? {
                Some(current) => self.current = Some(current),
                None => {
                    let path = VolumeFile::Sealed(extent.volume).path(&self.folder);
                    let what = "the volume is missing".to_owned();
                    return Ok(Some(ExtentDamage { path, offset: extent.offset, what }));
                }
            }
        }
        let Some(current) = &mut self.current else { return Ok(None) };
        let place = frame::disk_range(extent);
        let damage = |offset, what: &str| {
            Ok(Some(ExtentDamage { path: current.path.clone(), offset, what: what.to_owned() }))
        };
        if extent.offset < current.end {
            return damage(extent.offset, "two extents overlap");
        }
        self.garbage_bytes += data_in(&*current.file, current.end..extent.offset.min(current.length))?;
        current.end = place.end;
        self.live_bytes += place.end - place.start;
        if place.end > current.length {
            return damage(extent.offset, "the volume ends within an extent");
        }
        let mut offset = place.start;
        while offset < place.end {
            let end = place.end.min(offset + FRAMES_AT_ONCE * FRAME_BYTES as u64);
            let bytes = current.file.read_vec(offset, (end - offset) as usize)?;
            let first = (offset - place.start) / FRAME_BYTES as u64;
            for (index, frame) in (first..).zip(bytes.chunks(FRAME_BYTES)) {
                if !frame::is_frame_of(extent, index, frame) {
                    return damage(
                        place.start + index * FRAME_BYTES as u64,
                        "a frame is not what was written",
                    );
                }
            }
            progress(end - offset);
            offset = end;
        }
        Ok(None)
    }

    fn begin_volume(&mut self, number: u64) -> io::Result<Option<CurrentVolume>> {
        let Some(file) = self.left.remove(&number) else { return Ok(None) };
        let handle = open_volume(&*self.files, &self.folder, number, OpenOptions::read())?;
        let (path, length) = (file.path(&self.folder), handle.length()?);
        Ok(Some(CurrentVolume { number, path, file: handle, length, end: 0 }))
    }

    fn finish_volume(&mut self) -> io::Result<()> {
        if let Some(current) = self.current.take() {
            self.garbage_bytes += data_in(&*current.file, current.end..current.length)?;
        }
        Ok(())
    }

    /// After the last extent: counts what is in the other volumes.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.finish_volume()?;
        while let Some((number, _)) = self.left.first_key_value() {
            let number = *number;
            self.current = self.begin_volume(number)?;
            self.finish_volume()?;
        }
        Ok(())
    }
}

/// How much of a range is no hole.
fn data_in(file: &dyn File, range: Range<u64>) -> io::Result<u64> {
    let (mut bytes, mut from) = (0, range.start);
    while from < range.end
        && let Some(data) = file.next_data(from)?
    {
        bytes += data.end.min(range.end).saturating_sub(data.start);
        from = data.end.max(from + 1);
    }
    Ok(bytes)
}
