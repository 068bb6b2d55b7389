//! What is known of every extent that was ever finished.

use bytes::Bytes;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::OnceLock;
use tepui_storage::Extent;

/// The longest extent: more than two of the chunks in which they are written.
const MAX_BYTES: usize = 2_400_000;

/// Some bytes that are found nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    /// Where they begin in bytes that never repeat.
    start: usize,
    pub(crate) length: usize,
}

impl Content {
    pub(crate) fn random(random: &mut fastrand::Rng) -> Self {
        let length = match random.u8(..20) {
            // The same lengths again and again: frames of one length differ only in their offsets.
            0..6 => *random.choice(&[0, 1, 500, 4064, 4065, 9000]).expect("there are some"),
            6..12 => random.usize(1..20_000),
            12..18 => random.usize(60_000..200_000),
            18 => *random.choice(&[65_504, 65_505, 131_008, 1_048_064]).expect("there are some"),
            _ => random.usize(200_000..MAX_BYTES),
        };
        Self::of_length(random, length)
    }

    pub(crate) fn of_length(random: &mut fastrand::Rng, length: usize) -> Self {
        Self { start: random.usize(..POOL_BYTES - MAX_BYTES), length }
    }

    pub(crate) fn bytes(self) -> Bytes {
        static POOL: OnceLock<Bytes> = OnceLock::new();
        let pool = POOL.get_or_init(|| {
            let mut bytes = vec![0; POOL_BYTES];
            fastrand::Rng::with_seed(1).fill(&mut bytes);
            bytes.into()
        });
        pool.slice(self.start..self.start + self.length)
    }
}

const POOL_BYTES: usize = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It must be there.
    Kept,
    /// Unreferenced. It may be there until it is freed.
    GivenUp,
    /// Unreferenced and unknown. It may be there until its volume is swept.
    Forgotten,
    /// It must not be there.
    Freed,
}

pub(crate) struct Known {
    pub(crate) extent: Extent,
    pub(crate) content: Content,
    pub(crate) fate: Fate,
}

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) extents: Vec<Known>,
    places: HashSet<(u64, u64)>,
}

impl Model {
    /// An extent was finished.
    pub(crate) fn add(&mut self, extent: Extent, content: Content, fate: Fate) -> usize {
        assert_eq!(extent.bytes, content.length as u64);
        assert!(
            self.places.insert((extent.volume, extent.offset)),
            "a place was given out twice: {extent:?}"
        );
        self.extents.push(Known { extent, content, fate });
        self.extents.len() - 1
    }

    /// Those of a fate, by their numbers.
    pub(crate) fn all(&self, fate: Fate) -> Vec<usize> {
        (0..self.extents.len()).filter(|index| self.extents[*index].fate == fate).collect()
    }

    pub(crate) fn kept_in(&self, volume: u64) -> Vec<Extent> {
        let kept = self.extents.iter().filter(|known| known.fate == Fate::Kept);
        kept.map(|known| known.extent).filter(|extent| extent.volume == volume).collect()
    }

    /// How much space is needed for what is kept.
    pub(crate) fn needed_bytes(&self) -> u64 {
        let kept = self.extents.iter().filter(|known| known.fate == Fate::Kept);
        kept.map(|known| disk_bytes(known.extent.bytes)).sum()
    }
}

/// What an extent takes on the disk: each 65,504 bytes have a header of 32, and there is one if there are no bytes.
fn disk_bytes(bytes: u64) -> u64 {
    (bytes + bytes.div_ceil(65_504).max(1) * 32).next_multiple_of(4096)
}

impl Known {
    pub(crate) fn bytes(&self, range: Range<u64>) -> Bytes {
        self.content.bytes().slice(range.start as usize..range.end as usize)
    }
}
