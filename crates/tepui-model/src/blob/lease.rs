//! Leases: the exclusive right to change or delete something for a while.

use crate::guid;
use std::fmt;
use std::time::Duration;

/// The id of a lease, a GUID. Callers may choose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId(pub u128);

impl LeaseId {
    /// `None` if it is not a GUID. Any form and any case will do.
    pub fn parse(text: &str) -> Option<Self> {
        guid::parse_any(text).map(Self)
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&guid::print(self.0))
    }
}

/// How long a lease lasts that is not renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseDuration {
    Infinite,
    /// 15 to 60 seconds.
    Fixed(Duration),
}

impl LeaseDuration {
    /// ```
    /// use tepui_model::blob::LeaseDuration;
    /// assert_eq!(LeaseDuration::from_seconds(-1), Some(LeaseDuration::Infinite));
    /// assert_eq!(LeaseDuration::from_seconds(14), None);
    /// ```
    pub fn from_seconds(seconds: i64) -> Option<Self> {
        match seconds {
            -1 => Some(Self::Infinite),
            15..=60 => Some(Self::Fixed(Duration::from_secs(seconds.unsigned_abs()))),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Infinite => "infinite",
            Self::Fixed(_) => "fixed",
        }
    }
}

/// The longest time that a caller can give a lease that is being broken, in seconds.
pub const MAX_BREAK_SECONDS: u64 = 60;

/// What is asked of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseAction {
    Acquire {
        duration: LeaseDuration,
        /// `None`: the service chooses the id.
        proposed: Option<LeaseId>,
    },
    Renew(LeaseId),
    Change {
        from: LeaseId,
        to: LeaseId,
    },
    Release(LeaseId),
    Break {
        /// `None`: when it ends by itself, or now if it does not.
        period: Option<Duration>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LeaseState {
    #[default]
    Available,
    Leased,
    Expired,
    Breaking,
    Broken,
}

impl LeaseState {
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Available, Self::Leased, Self::Expired, Self::Breaking, Self::Broken]
            .into_iter()
            .find(|state| text.eq_ignore_ascii_case(state.name()))
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Leased => "leased",
            Self::Expired => "expired",
            Self::Breaking => "breaking",
            Self::Broken => "broken",
        }
    }

    /// Whether changes need the id of the lease.
    pub fn is_locked(self) -> bool {
        matches!(self, Self::Leased | Self::Breaking)
    }

    /// The other word for [`LeaseState::is_locked`].
    pub fn status(self) -> &'static str {
        if self.is_locked() { "locked" } else { "unlocked" }
    }
}

/// What answers say about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeaseView {
    pub state: LeaseState,
    /// Only while it is leased.
    pub duration: Option<LeaseDuration>,
}

/// What became of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseOutcome {
    Acquired(LeaseId),
    Renewed(LeaseId),
    Changed(LeaseId),
    Released,
    /// The time until it is broken.
    Broken(Duration),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (seconds, good) in
            [(-2, false), (-1, true), (0, false), (14, false), (15, true), (60, true), (61, false)]
        {
            assert_eq!(LeaseDuration::from_seconds(seconds).is_some(), good, "{seconds}");
        }
    }

    #[test]
    fn ids_are_compared_as_guids() {
        let id = LeaseId::parse("5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11").unwrap();
        assert_eq!(LeaseId::parse("{5B1F0B7E-0A0E-4A38-9F6C-2F6F6F0D5A11}"), Some(id));
        assert_eq!(id.to_string(), "5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11");
        assert_eq!(LeaseId::parse("mine"), None);
    }
}
