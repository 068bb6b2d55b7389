use super::super::lease::Lease;
use super::*;
use crate::record::StoredTier;
use ErrorCode::*;
use tepui_model::blob::{
    AccessTier, BlobState, Conditions, CustomerKey, EtagMatch, ImmutabilityMode, ImmutabilityPolicy,
    LeaseDuration, LeaseId, TagComparison, TagFilter, Tags,
};

const HELD: LeaseId = LeaseId(1);

fn now() -> Timestamp {
    Timestamp::parse_iso("2026-03-10T08:00:00Z").unwrap()
}

/// A blob that was changed an hour ago.
fn blob() -> StoredBlob {
    let changed = Timestamp::parse_iso("2026-03-10T07:00:00.5Z").unwrap();
    StoredBlob {
        stamp: changed,
        state: BlobState {
            changed,
            created: changed,
            tags: Tags::new(vec![("env".to_owned(), "prod".to_owned())]).unwrap(),
            ..BlobState::default()
        },
        ..StoredBlob::default()
    }
}

fn with_state(mut blob: StoredBlob, change: impl FnOnce(&mut BlobState)) -> StoredBlob {
    change(&mut blob.state);
    blob
}

fn leased() -> StoredBlob {
    let lease = Lease::Leased { id: HELD, duration: LeaseDuration::Infinite, until: Timestamp::MAX };
    StoredBlob { lease, ..blob() }
}

fn only(conditions: Conditions) -> Preconditions {
    Preconditions { lease: None, conditions }
}

fn check(preconditions: &Preconditions) -> PreconditionCheck<'_> {
    PreconditionCheck { preconditions, container: "pictures", now: now() }
}

fn etag(same: bool) -> Option<EtagMatch> {
    Some(EtagMatch::OneOf(vec![same.then(|| blob().changed)]))
}

/// Every condition, and the result for a read, a write and a creation of an existing blob, and for the
/// creation of one that is not.
#[test]
fn conditions() {
    let none = Conditions::default;
    let (earlier, later) = (
        Timestamp::parse_iso("2026-03-10T06:00:00Z").unwrap(),
        Timestamp::parse_iso("2026-03-10T07:30:00Z").unwrap(),
    );
    let tagged = |value: &str| {
        let (key, how, value) = ("env".to_owned(), TagComparison::Equal, value.to_owned());
        Some(TagFilter::Compare { key, how, value })
    };
    let (ok, refused) = (Ok(()), Err(412));
    for (case, conditions, read, write, create, absent) in [
        ("none", none(), ok, ok, ok, ok),
        ("match", Conditions { if_match: etag(true), ..none() }, ok, ok, ok, refused),
        ("match stale", Conditions { if_match: etag(false), ..none() }, refused, refused, refused, refused),
        ("match any", Conditions { if_match: Some(EtagMatch::Any), ..none() }, ok, ok, ok, refused),
        ("none match", Conditions { if_none_match: etag(true), ..none() }, Err(304), refused, refused, ok),
        ("none match stale", Conditions { if_none_match: etag(false), ..none() }, ok, ok, ok, ok),
        (
            "none match any",
            Conditions { if_none_match: Some(EtagMatch::Any), ..none() },
            Err(304),
            ok,
            Err(409),
            ok,
        ),
        ("modified", Conditions { modified_since: Some(earlier), ..none() }, ok, ok, ok, ok),
        (
            "not modified",
            Conditions { modified_since: Some(later), ..none() },
            Err(304),
            refused,
            refused,
            ok,
        ),
        ("unmodified", Conditions { unmodified_since: Some(later), ..none() }, ok, ok, ok, ok),
        (
            "not unmodified",
            Conditions { unmodified_since: Some(earlier), ..none() },
            refused,
            refused,
            refused,
            ok,
        ),
        ("tagged", Conditions { tags: tagged("prod"), ..none() }, ok, ok, ok, refused),
        (
            "tagged otherwise",
            Conditions { tags: tagged("test"), ..none() },
            refused,
            refused,
            refused,
            refused,
        ),
    ] {
        let preconditions = only(conditions);
        let (check, blob) = (check(&preconditions), blob());
        let status = |outcome: Result<(), ErrorCode>| outcome.map_err(|code| code.status());
        let create_over = |over| check.for_create(over, BlobType::Block, Allowed::Fully);
        assert_eq!(check.for_read(&blob, true).map_err(|error| error.status()), read, "read, {case}");
        assert_eq!(status(check.for_write(&blob)), write, "write, {case}");
        assert_eq!(status(create_over(Some(&blob))), create, "create, {case}");
        assert_eq!(status(create_over(None)), absent, "create anew, {case}");
    }
}

#[test]
fn the_first_refusal_wins() {
    let stale = Conditions { if_match: etag(false), ..Conditions::default() };
    let new_only = Conditions { if_none_match: Some(EtagMatch::Any), ..Conditions::default() };
    let with = |lease: Option<LeaseId>, conditions: &Conditions| Preconditions {
        lease,
        conditions: conditions.clone(),
    };
    let archived = StoredTier { tier: AccessTier::Archive, changed: now(), rehydrating: None };
    let policy = ImmutabilityPolicy { until: Timestamp::MAX, mode: ImmutabilityMode::Unlocked };
    let appended = OfType::Append { committed_blocks: 0, sealed: false };
    for (case, found, preconditions, allowed, expected) in [
        ("may not replace", leased(), with(None, &stale), Allowed::IfAbsent, Err(UnauthorizedBlobOverwrite)),
        (
            "type",
            with_state(leased(), |state| state.of_type = appended),
            with(None, &stale),
            Allowed::Fully,
            Err(InvalidBlobType),
        ),
        (
            "archive",
            StoredBlob { tier: Some(archived), ..leased() },
            with(None, &stale),
            Allowed::Fully,
            Err(BlobArchived),
        ),
        (
            "hold",
            with_state(leased(), |state| state.legal_hold = Some(true)),
            with(None, &stale),
            Allowed::Fully,
            Err(BlobImmutableDueToLegalHold),
        ),
        (
            "policy",
            with_state(leased(), |state| state.immutability = Some(policy)),
            with(None, &stale),
            Allowed::Fully,
            Err(BlobImmutableDueToPolicy),
        ),
        ("lease", leased(), with(None, &stale), Allowed::Fully, Err(LeaseIdMissing)),
        ("condition", leased(), with(Some(HELD), &stale), Allowed::Fully, Err(ConditionNotMet)),
        ("new only", blob(), with(None, &new_only), Allowed::Fully, Err(BlobAlreadyExists)),
        ("new only, by whoever holds it", leased(), with(Some(HELD), &new_only), Allowed::Fully, Ok(())),
    ] {
        let outcome = check(&preconditions).for_create(Some(&found), BlobType::Block, allowed);
        assert_eq!(outcome, expected, "{case}");
    }
    let preconditions = with(Some(HELD), &Conditions::default());
    let outcome = check(&preconditions).for_create(None, BlobType::Block, Allowed::Fully);
    assert_eq!(outcome, Err(LeaseNotPresentWithBlobOperation));
}

#[test]
fn keys_that_callers_bring_along() {
    let of = |byte: Option<u8>| Encryption {
        key: byte.map(|byte| CustomerKey { sha256: [byte; 32] }),
        ..Encryption::default()
    };
    for (used, given, expected) in [
        (None, None, Ok(())),
        (Some(1), Some(1), Ok(())),
        (Some(1), None, Err(BlobUsesCustomerSpecifiedEncryption)),
        (Some(1), Some(2), Err(BlobCustomerSpecifiedEncryptionMismatch)),
        (None, Some(2), Err(BlobDoesNotUseCustomerSpecifiedEncryption)),
    ] {
        let found = with_state(blob(), |state| state.encryption = of(used));
        assert_eq!(check_key(&found, &of(given)), expected, "{used:?} {given:?}");
    }
}
