//! Leases of containers and blobs: their states, their transitions, and what they prevent. See the REST pages "Lease Container" and "Lease Blob".

use super::service::Context;
use std::time::Duration;
use tepui_model::blob::{LeaseAction, LeaseDuration, LeaseId, LeaseOutcome, LeaseState, LeaseView};
use tepui_model::{ErrorCode, Timestamp};

/// A lease as it is stored. With time, a leased one expires and a breaking one breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Lease {
    #[default]
    Available,
    Leased {
        id: LeaseId,
        duration: LeaseDuration,
        /// [`Timestamp::MAX`]: infinite.
        until: Timestamp,
    },
    Breaking {
        id: LeaseId,
        /// When it is broken.
        until: Timestamp,
    },
}

/// How a leased resource is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Needs no lease id; a given one must match.
    Read,
    /// Needs the lease id, if there is a lease.
    Write,
}

/// The kind of leased resource, which decides the error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leased {
    Container,
    Blob,
}

impl Lease {
    fn acquired(id: LeaseId, duration: LeaseDuration, now: Timestamp) -> Self {
        let until = match duration {
            LeaseDuration::Infinite => Timestamp::MAX,
            LeaseDuration::Fixed(length) => now.saturating_add(length),
        };
        Self::Leased { id, duration, until }
    }

    /// The state at a time, and the id of the lease.
    fn at(&self, now: Timestamp) -> (LeaseState, Option<LeaseId>) {
        match *self {
            Self::Available => (LeaseState::Available, None),
            Self::Leased { id, until, .. } if now < until => (LeaseState::Leased, Some(id)),
            Self::Leased { id, .. } => (LeaseState::Expired, Some(id)),
            Self::Breaking { id, until } if now < until => (LeaseState::Breaking, Some(id)),
            Self::Breaking { id, .. } => (LeaseState::Broken, Some(id)),
        }
    }

    pub(super) fn view(&self, now: Timestamp) -> LeaseView {
        let (state, _) = self.at(now);
        let duration = match *self {
            Self::Leased { duration, .. } if state == LeaseState::Leased => Some(duration),
            _ => None,
        };
        LeaseView { state, duration }
    }

    /// Whether changes need the id of the lease.
    pub(super) fn is_locked(&self, now: Timestamp) -> bool {
        self.at(now).0.is_locked()
    }

    /// Whether it never expires.
    pub(super) fn is_infinite(&self) -> bool {
        matches!(self, Self::Leased { duration: LeaseDuration::Infinite, .. })
    }

    /// Applies an action. `new_id` is used if the request does not propose an id.
    fn act(
        &self,
        action: LeaseAction,
        now: Timestamp,
        new_id: LeaseId,
    ) -> Result<(Self, LeaseOutcome), ErrorCode> {
        let (state, current) = self.at(now);
        match action {
            LeaseAction::Acquire { duration, proposed } => {
                let same = proposed.is_some() && proposed == current;
                match state {
                    LeaseState::Breaking if same => Err(ErrorCode::LeaseIsBreakingAndCannotBeAcquired),
                    LeaseState::Leased if !same => Err(ErrorCode::LeaseAlreadyPresent),
                    LeaseState::Breaking => Err(ErrorCode::LeaseAlreadyPresent),
                    _ => {
                        let id = proposed.unwrap_or(new_id);
                        Ok((Self::acquired(id, duration, now), LeaseOutcome::Acquired(id)))
                    }
                }
            }
            LeaseAction::Renew(id) if current != Some(id) => {
                Err(ErrorCode::LeaseIdMismatchWithLeaseOperation)
            }
            LeaseAction::Renew(id) => match *self {
                Self::Leased { duration, .. } => {
                    Ok((Self::acquired(id, duration, now), LeaseOutcome::Renewed(id)))
                }
                _ => Err(ErrorCode::LeaseIsBrokenAndCannotBeRenewed),
            },
            LeaseAction::Change { from, to } => match (state, *self) {
                // Idempotent: a repeated change succeeds.
                (LeaseState::Leased, Self::Leased { id, duration, until }) if id == from || id == to => {
                    Ok((Self::Leased { id: to, duration, until }, LeaseOutcome::Changed(to)))
                }
                (LeaseState::Leased, _) => Err(ErrorCode::LeaseIdMismatchWithLeaseOperation),
                (LeaseState::Breaking, _) if current == Some(from) => {
                    Err(ErrorCode::LeaseIsBreakingAndCannotBeChanged)
                }
                (LeaseState::Breaking, _) => Err(ErrorCode::LeaseIdMismatchWithLeaseOperation),
                _ => Err(ErrorCode::LeaseNotPresentWithLeaseOperation),
            },
            LeaseAction::Release(id) if current != Some(id) => {
                Err(ErrorCode::LeaseIdMismatchWithLeaseOperation)
            }
            LeaseAction::Release(_) => Ok((Self::Available, LeaseOutcome::Released)),
            LeaseAction::Break { period } => self.broken(period, now),
        }
    }

    /// Applies an action of a request. A lease lasts on every node for as long as was asked for, whatever its clock says.
    pub(super) fn act_in<S>(
        &self,
        context: &Context<'_, S>,
        action: LeaseAction,
    ) -> Result<(Self, LeaseOutcome), ErrorCode> {
        let (mut lease, outcome) = self.act(action, context.now, LeaseId((context.random_ids)()))?;
        if let Self::Leased { until, .. } = &mut lease
            && matches!(outcome, LeaseOutcome::Acquired(_) | LeaseOutcome::Renewed(_))
        {
            *until = until.saturating_add(context.options.clock_skew);
        }
        Ok((lease, outcome))
    }

    fn broken(&self, period: Option<Duration>, now: Timestamp) -> Result<(Self, LeaseOutcome), ErrorCode> {
        let (id, remaining) = match *self {
            Self::Available => return Err(ErrorCode::LeaseNotPresentWithLeaseOperation),
            Self::Leased { id, duration: LeaseDuration::Infinite, .. } => (id, period.unwrap_or_default()),
            Self::Leased { id, until, .. } | Self::Breaking { id, until } => {
                let remaining = until.since(now.min(until));
                (id, period.map_or(remaining, |period| period.min(remaining)))
            }
        };
        let whole_seconds = Duration::from_secs(remaining.as_millis().div_ceil(1000) as u64);
        let until = now.saturating_add(remaining);
        Ok((Self::Breaking { id, until }, LeaseOutcome::Broken(whole_seconds)))
    }

    /// Whether a request with this lease id, or none, may use the resource.
    pub(super) fn check(
        &self,
        given: Option<LeaseId>,
        what: Leased,
        how: Use,
        now: Timestamp,
    ) -> Result<(), ErrorCode> {
        let (state, current) = self.at(now);
        match (state, given) {
            (LeaseState::Available, Some(_)) => Err(match what {
                Leased::Container => ErrorCode::LeaseNotPresentWithContainerOperation,
                Leased::Blob => ErrorCode::LeaseNotPresentWithBlobOperation,
            }),
            (LeaseState::Expired | LeaseState::Broken, Some(_)) => Err(ErrorCode::LeaseLost),
            (LeaseState::Leased | LeaseState::Breaking, Some(id)) if current != Some(id) => Err(match what {
                Leased::Container => ErrorCode::LeaseIdMismatchWithContainerOperation,
                Leased::Blob => ErrorCode::LeaseIdMismatchWithBlobOperation,
            }),
            (LeaseState::Leased | LeaseState::Breaking, None) if how == Use::Write => {
                Err(ErrorCode::LeaseIdMissing)
            }
            _ => Ok(()),
        }
    }

    /// The lease after a write: an expired or broken one is cleared.
    pub(super) fn after_write(&self, now: Timestamp) -> Self {
        if self.is_locked(now) { *self } else { Self::Available }
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
