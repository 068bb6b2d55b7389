//! What a client knows of its blobs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Up to this length bytes are not in an extent, but for those of blocks.
pub(crate) const INLINE_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Account {
    Development,
    Beta,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Block,
    Append,
    Page,
}

/// The account and the name of a blob.
pub(crate) type Key = (Account, String);

/// Bytes that were sent with one request.
#[derive(PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) bytes: Vec<u8>,
    pub(crate) in_extent: bool,
}

/// A part of a blob's bytes. `None`: zeros that were never sent.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) sent: Option<Arc<Sent>>,
    pub(crate) range: Range<usize>,
}

impl Part {
    pub(crate) fn whole(sent: &Arc<Sent>) -> Self {
        Self { range: 0..sent.bytes.len(), sent: Some(Arc::clone(sent)) }
    }

    pub(crate) fn zeros(length: usize) -> Self {
        Self { sent: None, range: 0..length }
    }

    fn slice(&self, range: Range<usize>) -> Self {
        Self { sent: self.sent.clone(), range: self.range.start + range.start..self.range.start + range.end }
    }
}

/// A blob, or a snapshot of one.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) kind: Kind,
    pub(crate) parts: Vec<Part>,
    /// What is in its metadata.
    pub(crate) note: String,
    /// `None`: the reply was not received.
    pub(crate) acknowledged: Option<Acknowledged>,
    /// The ids of its blocks. `None`: not known.
    pub(crate) blocks: Option<Vec<String>>,
    /// What it shared with others at some time: of a page blob, that may stay for as long as it is there.
    pub(crate) shared: Vec<Arc<Sent>>,
}

/// What the server says of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub(crate) etag: String,
    pub(crate) last_modified: String,
}

impl State {
    pub(crate) fn new(kind: Kind, parts: Vec<Part>, note: String) -> Self {
        Self { kind, parts, note, acknowledged: None, blocks: None, shared: Vec::new() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length());
        for Part { sent, range } in &self.parts {
            match sent {
                Some(sent) => bytes.extend_from_slice(&sent.bytes[range.clone()]),
                None => bytes.resize(bytes.len() + range.len(), 0),
            }
        }
        bytes
    }

    pub(crate) fn length(&self) -> usize {
        self.parts.iter().map(|part| part.range.len()).sum()
    }

    /// Replaces a range of the bytes by a part of the same length.
    pub(crate) fn overwrite(&mut self, start: usize, new: Part) {
        let end = start + new.range.len();
        let (mut before, mut after, mut at) = (Vec::new(), Vec::new(), 0);
        for part in &self.parts {
            let until = at + part.range.len();
            if at < start {
                before.push(part.slice(0..start.min(until) - at));
            }
            if end < until {
                after.push(part.slice(end.max(at) - at..part.range.len()));
            }
            at = until;
        }
        self.parts = [before, vec![new], after].concat();
    }

    /// Another blob is made of it.
    pub(crate) fn share(&mut self) -> Self {
        if self.kind == Kind::Page {
            self.shared.extend(self.parts.iter().filter_map(|part| part.sent.clone()));
            self.shared.sort_by_key(|sent| Arc::as_ptr(sent) as usize);
            self.shared.dedup_by(|one, other| Arc::ptr_eq(one, other));
        }
        self.clone()
    }
}

/// All that there is under a name.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) base: Option<State>,
    /// By their time; [`UNACKNOWLEDGED`] if the reply was not received.
    pub(crate) snapshots: BTreeMap<String, State>,
    /// Blocks that are not committed, by their ids.
    pub(crate) blocks: BTreeMap<String, Arc<Sent>>,
}

pub(crate) const UNACKNOWLEDGED: &str = "?";

/// What is found under a name after a restart.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) base: Option<FoundState>,
    pub(crate) snapshots: BTreeMap<String, FoundState>,
    pub(crate) blocks: BTreeMap<String, usize>,
}

pub(crate) struct FoundState {
    pub(crate) kind: Kind,
    pub(crate) bytes: Vec<u8>,
    pub(crate) note: String,
    pub(crate) acknowledged: Acknowledged,
    pub(crate) blocks: Vec<(String, usize)>,
}

impl Slot {
    /// Says what is different, or takes over what was not known.
    pub(crate) fn compare(&self, found: &Found) -> Result<Self, String> {
        let mut known = self.clone();
        match (&mut known.base, &found.base) {
            (None, None) => {}
            (Some(state), Some(found)) => state.compare(found)?,
            (Some(_), None) => return Err("the blob is gone".to_owned()),
            (None, Some(_)) => return Err("a blob is there that should not be".to_owned()),
        }
        let acknowledged =
            found.snapshots.keys().find(|snapshot_id| !self.snapshots.contains_key(*snapshot_id));
        if let (Some(acknowledged), Some(state)) = (acknowledged, known.snapshots.remove(UNACKNOWLEDGED)) {
            known.snapshots.insert(acknowledged.clone(), state);
        }
        if !known.snapshots.keys().eq(found.snapshots.keys()) {
            let snapshot_ids: Vec<_> = found.snapshots.keys().collect();
            return Err(format!("snapshots {snapshot_ids:?}, not {:?}", known.snapshots.keys()));
        }
        for (state, found) in known.snapshots.values_mut().zip(found.snapshots.values()) {
            state.compare(found).map_err(|error| format!("snapshot: {error}"))?;
        }
        let blocks: Vec<_> = self.blocks.iter().map(|(id, sent)| (id, sent.bytes.len())).collect();
        let there: Vec<_> = found.blocks.iter().map(|(id, length)| (id, *length)).collect();
        if blocks != there {
            return Err(format!("uncommitted blocks {there:?}, not {blocks:?}"));
        }
        Ok(known)
    }
}

impl State {
    fn compare(&mut self, found: &FoundState) -> Result<(), String> {
        let same = |what: &str, same: bool| if same { Ok(()) } else { Err(format!("another {what}")) };
        same("type", self.kind == found.kind)?;
        let bytes = self.bytes();
        if bytes != found.bytes {
            let at = bytes.iter().zip(&found.bytes).position(|(one, other)| one != other);
            return Err(format!(
                "{} bytes, not {}; the first other one: {at:?}",
                found.bytes.len(),
                bytes.len()
            ));
        }
        same(&format!("note: {}, not {}", found.note, self.note), self.note == found.note)?;
        if let Some(acknowledged) = &self.acknowledged {
            same(
                &format!("ETag: {:?}, not {acknowledged:?}", found.acknowledged),
                *acknowledged == found.acknowledged,
            )?;
        }
        if let Some(ids) = &self.blocks {
            let lengths = self.parts.iter().map(|part| part.range.len());
            let blocks: Vec<_> = ids.iter().cloned().zip(lengths).collect();
            same("list of blocks", blocks == found.blocks)?;
        }
        self.acknowledged = Some(found.acknowledged.clone());
        Ok(())
    }
}

/// How much of the disk is taken by what is there.
pub(crate) struct Live {
    pub(crate) at_least_bytes: u64,
    /// With what page blobs have shared, and overwritten since.
    pub(crate) at_most_bytes: u64,
}

impl Live {
    pub(crate) fn of<'a>(slots: impl Iterator<Item = &'a Slot>) -> Self {
        let (mut referred, mut shared) = (BTreeMap::new(), BTreeMap::new());
        let note = |all: &mut BTreeMap<usize, u64>, sent: &Arc<Sent>| {
            all.insert(Arc::as_ptr(sent) as usize, sent.disk_bytes());
        };
        for slot in slots {
            for state in slot.base.iter().chain(slot.snapshots.values()) {
                let sent = state.parts.iter().filter_map(|part| part.sent.as_ref());
                sent.for_each(|sent| note(&mut referred, sent));
                state.shared.iter().for_each(|sent| note(&mut shared, sent));
            }
            slot.blocks.values().for_each(|sent| note(&mut referred, sent));
        }
        let at_least_bytes = referred.values().sum();
        shared.extend(referred);
        Self { at_least_bytes, at_most_bytes: shared.values().sum() }
    }
}

impl Sent {
    /// How much an extent takes: frames of 64 KiB, each with a head, and the last one up to a sector's end.
    fn disk_bytes(&self) -> u64 {
        const FRAME: u64 = 64 * 1024;
        const HEAD: u64 = 32;
        let (frames, rest) =
            (self.bytes.len() as u64 / (FRAME - HEAD), self.bytes.len() as u64 % (FRAME - HEAD));
        let last = if rest > 0 { (rest + HEAD).next_multiple_of(4096) } else { 0 };
        if self.in_extent { frames * FRAME + last } else { 0 }
    }
}
