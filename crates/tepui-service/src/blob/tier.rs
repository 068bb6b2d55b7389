//! Access tiers of block blobs, and rehydration from the archive.

use crate::record::{StoredBlob, StoredTier};
use std::time::Duration;
use tepui_model::blob::{AccessTier, ArchiveStatus, BlobType, RehydratePriority, TierView};
use tepui_model::{ErrorCode, Timestamp};

/// The tier at a time: a rehydration that is done takes effect.
fn effective(tier: StoredTier, now: Timestamp) -> StoredTier {
    match tier.rehydrating {
        Some((to, _, done)) if done <= now => StoredTier { tier: to, changed: done, rehydrating: None },
        _ => tier,
    }
}

/// The tier as replies show it.
pub(super) fn view<T, C>(blob: &StoredBlob<T, C>, now: Timestamp) -> Option<TierView> {
    if blob.of_type.blob_type() != BlobType::Block {
        return None;
    }
    let Some(tier) = blob.tier.map(|tier| effective(tier, now)) else { return Some(TierView::default()) };
    Some(TierView {
        tier: tier.tier,
        inferred: false,
        changed: Some(tier.changed),
        archive_status: tier.rehydrating.map(|(to, ..)| match to {
            AccessTier::Cool => ArchiveStatus::ToCool,
            AccessTier::Cold => ArchiveStatus::ToCold,
            _ => ArchiveStatus::ToHot,
        }),
        rehydrate_priority: tier.rehydrating.map(|(_, priority, _)| priority),
    })
}

pub(super) fn is_archived(blob: &StoredBlob, now: Timestamp) -> bool {
    blob.tier.is_some_and(|tier| effective(tier, now).tier == AccessTier::Archive)
}

/// The tier of a blob after Set Blob Tier, and whether it is being rehydrated.
pub(super) fn set(
    before: Option<StoredTier>,
    to: AccessTier,
    priority: Option<RehydratePriority>,
    now: Timestamp,
    rehydration: Duration,
) -> Result<(StoredTier, bool), ErrorCode> {
    let before = before.map(|tier| effective(tier, now));
    let priority = priority.unwrap_or(RehydratePriority::Standard);
    match before {
        Some(StoredTier { rehydrating: Some((going, known, done)), changed, .. }) if going == to => {
            // The priority can be raised, not lowered.
            let priority = if known == RehydratePriority::High { known } else { priority };
            let rehydrating = Some((to, priority, done));
            Ok((StoredTier { tier: AccessTier::Archive, changed, rehydrating }, true))
        }
        Some(StoredTier { rehydrating: Some(_), .. }) => Err(ErrorCode::BlobBeingRehydrated),
        Some(StoredTier { tier: AccessTier::Archive, .. }) if to != AccessTier::Archive => {
            let rehydrating = Some((to, priority, now.saturating_add(rehydration)));
            Ok((StoredTier { tier: AccessTier::Archive, changed: now, rehydrating }, true))
        }
        _ => Ok((StoredTier { tier: to, changed: now, rehydrating: None }, false)),
    }
}

/// Whether a new blob of a type may have a tier. Premium tiers, which page blobs have, are not supported.
pub(super) fn check_new(given: Option<AccessTier>, blob_type: BlobType) -> Result<(), ErrorCode> {
    match (given, blob_type) {
        (None, _) => Ok(()),
        (Some(tier), BlobType::Block) if tier.is_premium() => Err(ErrorCode::InvalidBlobTier),
        (Some(_), BlobType::Block) => Ok(()),
        (Some(_), BlobType::Append | BlobType::Page) => Err(ErrorCode::AccessTierNotSupportedForBlobType),
    }
}

/// The tier of a blob that replaces another: the given one, or else the one of the other.
pub(super) fn of_new(
    given: Option<AccessTier>,
    before: Option<StoredTier>,
    now: Timestamp,
) -> Option<StoredTier> {
    match given {
        Some(tier) => Some(StoredTier { tier, changed: now, rehydrating: None }),
        None => before.map(|tier| effective(tier, now)).filter(|tier| tier.tier != AccessTier::Archive),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AccessTier::{Archive, Cool, Hot};

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn tiers_are_set() {
        let now = Timestamp::parse_iso("2026-03-10").unwrap();
        let of = |tier| StoredTier { tier, changed: now, rehydrating: None };
        let going = StoredTier {
            rehydrating: Some((Hot, RehydratePriority::Standard, now.saturating_add(DAY))),
            ..of(Archive)
        };
        for (case, before, to, expected) in [
            ("first", None, Cool, Ok((Cool, false))),
            ("other", Some(of(Hot)), Cool, Ok((Cool, false))),
            ("into the archive", Some(of(Hot)), Archive, Ok((Archive, false))),
            ("archived again", Some(of(Archive)), Archive, Ok((Archive, false))),
            ("back", Some(of(Archive)), Hot, Ok((Archive, true))),
            ("back again", Some(going), Hot, Ok((Archive, true))),
            ("elsewhere", Some(going), Cool, Err(ErrorCode::BlobBeingRehydrated)),
            ("archived while on its way", Some(going), Archive, Err(ErrorCode::BlobBeingRehydrated)),
        ] {
            let after = set(before, to, None, now, DAY).map(|(tier, rehydrating)| (tier.tier, rehydrating));
            assert_eq!(after, expected, "{case}");
        }
        use RehydratePriority::{High, Standard};
        for (before, given, expected) in [
            (Standard, None, Standard),
            (Standard, Some(High), High),
            (High, None, High),
            (High, Some(Standard), High),
        ] {
            let before = StoredTier { rehydrating: Some((Hot, before, now.saturating_add(DAY))), ..going };
            let (after, _) = set(Some(before), Hot, given, now, DAY).unwrap();
            assert_eq!(after.rehydrating.map(|(_, priority, _)| priority), Some(expected), "{before:?}");
        }
        let later = now.saturating_add(DAY);
        assert_eq!(effective(going, later).tier, Hot);
        assert_eq!(of_new(None, Some(going), later).map(|tier| tier.tier), Some(Hot));
        assert_eq!(of_new(None, Some(of(Archive)), later), None);
    }
}
