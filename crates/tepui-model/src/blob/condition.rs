//! What must hold for an operation on a container or a blob to go ahead.
//!
//! Reads and writes do not fail alike. See the REST page "Specifying conditional headers for Blob service
//! operations".

use super::etag;
use super::lease::LeaseId;
use super::tag_filter::TagFilter;
use super::tags::Tags;
use crate::{ErrorCode, Timestamp};

/// The value of `If-Match` or `If-None-Match`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtagMatch {
    /// `*`: whatever is there.
    Any,
    /// One of these times of the last change. `None`: an ETag that no resource has.
    OneOf(Vec<Option<Timestamp>>),
}

impl EtagMatch {
    /// ```
    /// use tepui_model::blob::EtagMatch;
    /// assert_eq!(EtagMatch::parse("*"), EtagMatch::Any);
    /// assert_eq!(EtagMatch::parse("\"a\", \"b\""), EtagMatch::OneOf(vec![None, None]));
    /// ```
    pub fn parse(text: &str) -> Self {
        match text.trim() {
            "*" => Self::Any,
            list => Self::OneOf(list.split(',').map(|text| etag::parse(text.trim())).collect()),
        }
    }

    pub fn accepts(&self, changed: Timestamp) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(times) => times.contains(&Some(changed)),
        }
    }

    pub fn is_list(&self) -> bool {
        matches!(self, Self::OneOf(times) if times.len() > 1)
    }
}

/// Conditions on the state of a container or a blob. All that are there count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    pub if_match: Option<EtagMatch>,
    pub if_none_match: Option<EtagMatch>,
    pub modified_since: Option<Timestamp>,
    pub unmodified_since: Option<Timestamp>,
    pub tags: Option<TagFilter>,
}

/// What conditions are about.
#[derive(Debug, Clone, Copy)]
pub struct Validators<'a> {
    pub changed: Timestamp,
    pub container: &'a str,
    pub tags: &'a Tags,
}

/// How a condition of a read does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmet {
    /// The caller has it already: 304.
    NotModified,
    /// 412.
    Failed,
}

impl Conditions {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a read goes ahead.
    pub fn check_read(&self, found: &Validators<'_>) -> Result<(), Unmet> {
        let matches = self.if_match.as_ref().is_none_or(|etags| etags.accepts(found.changed));
        if !matches || !self.unmodified(found) || !self.tagged(found) {
            return Err(Unmet::Failed);
        }
        // Either will do if both are there.
        let changed = match (&self.if_none_match, self.modified_since) {
            (None, None) => true,
            (Some(etags), None) => !etags.accepts(found.changed),
            (None, Some(_)) => self.modified(found),
            (Some(etags), Some(_)) => !etags.accepts(found.changed) || self.modified(found),
        };
        if changed { Ok(()) } else { Err(Unmet::NotModified) }
    }

    /// Whether a write of something that is there goes ahead. Where ETags are given, times do not count.
    pub fn check_write(&self, found: &Validators<'_>) -> Result<(), ErrorCode> {
        let met = match (&self.if_match, &self.if_none_match) {
            (Some(etags), _) => etags.accepts(found.changed),
            // That it is there is what such a write needs: only creations may fail by it, and ask for themselves.
            (None, Some(EtagMatch::Any)) => true,
            (None, Some(etags)) => !etags.accepts(found.changed),
            (None, None) => self.modified(found) && self.unmodified(found),
        };
        if met && self.tagged(found) { Ok(()) } else { Err(ErrorCode::ConditionNotMet) }
    }

    /// Whether something that is not there may be created.
    pub fn check_absent(&self) -> Result<(), ErrorCode> {
        if self.if_match.is_some() || self.tags.is_some() {
            return Err(ErrorCode::ConditionNotMet);
        }
        Ok(())
    }

    /// Whether whatever is there must not be replaced: `If-None-Match: *`.
    pub fn only_creates(&self) -> bool {
        self.if_none_match == Some(EtagMatch::Any)
    }

    fn modified(&self, found: &Validators<'_>) -> bool {
        self.modified_since.is_none_or(|since| whole_seconds(found.changed) > whole_seconds(since))
    }

    fn unmodified(&self, found: &Validators<'_>) -> bool {
        self.unmodified_since.is_none_or(|since| whole_seconds(found.changed) <= whole_seconds(since))
    }

    fn tagged(&self, found: &Validators<'_>) -> bool {
        self.tags.as_ref().is_none_or(|filter| filter.matches(found.container, found.tags))
    }
}

/// Dates in headers have no more.
fn whole_seconds(time: Timestamp) -> u64 {
    time.ticks() / 10_000_000
}

/// What must hold of a blob or a container, and the lease that the caller says it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preconditions {
    pub lease: Option<LeaseId>,
    pub conditions: Conditions,
}

/// What must hold of the length of an append blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppendConditions {
    /// The length before.
    pub position: Option<u64>,
    /// The most that the blob may have after.
    pub max_bytes: Option<u64>,
}

impl AppendConditions {
    pub fn check(&self, before: u64, added: u64) -> Result<(), ErrorCode> {
        if self.position.is_some_and(|position| position != before) {
            return Err(ErrorCode::AppendPositionConditionNotMet);
        }
        if self.max_bytes.is_some_and(|most| before.saturating_add(added) > most) {
            return Err(ErrorCode::MaxBlobSizeConditionNotMet);
        }
        Ok(())
    }
}

/// What must hold of the sequence number of a page blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SequenceConditions {
    pub at_most: Option<u64>,
    pub less_than: Option<u64>,
    pub equal: Option<u64>,
}

impl SequenceConditions {
    pub fn check(&self, number: u64) -> Result<(), ErrorCode> {
        let met = self.at_most.is_none_or(|most| number <= most)
            && self.less_than.is_none_or(|bound| number < bound)
            && self.equal.is_none_or(|equal| number == equal);
        if met { Ok(()) } else { Err(ErrorCode::SequenceNumberConditionNotMet) }
    }
}

#[cfg(test)]
#[path = "condition_tests.rs"]
mod tests;
