use super::*;
use ErrorCode::*;

const A: LeaseId = LeaseId(0xA);
const B: LeaseId = LeaseId(0xB);
const C: LeaseId = LeaseId(0xC);
/// What the service chooses.
const X: LeaseId = LeaseId(0xE);

fn now() -> Timestamp {
    Timestamp::parse_iso("2026-03-10T08:00:00Z").unwrap()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn fixed(count: u64) -> LeaseDuration {
    LeaseDuration::Fixed(seconds(count))
}

/// Available, Leased(A) for 20 s more, Breaking(A) for 20 s more, Broken(A), Expired(A).
fn states() -> [Lease; 5] {
    let leased = Lease::acquired(A, fixed(60), now().saturating_sub(seconds(40)));
    let breaking = Lease::Breaking { id: A, until: now().saturating_add(seconds(20)) };
    let expired = Lease::acquired(A, fixed(15), now().saturating_sub(seconds(20)));
    [Lease::Available, leased, breaking, Lease::Breaking { id: A, until: now() }, expired]
}

/// What a lease is after an action: state, id, and seconds that are left.
fn summary(lease: Lease) -> (LeaseState, Option<LeaseId>, u64) {
    let (state, id) = lease.at(now());
    let left = match lease {
        Lease::Available => 0,
        Lease::Leased { until, .. } | Lease::Breaking { until, .. } => {
            until.since(now().min(until)).as_secs()
        }
    };
    (state, id, left)
}

#[test]
fn actions() {
    use LeaseState::{Available, Breaking, Broken, Leased};
    let acquire = |proposed| LeaseAction::Acquire { duration: fixed(30), proposed };
    let change = |from, to| LeaseAction::Change { from, to };
    let cut = |period: Option<u64>| LeaseAction::Break { period: period.map(seconds) };
    let (mismatch, absent) = (Err(LeaseIdMismatchWithLeaseOperation), Err(LeaseNotPresentWithLeaseOperation));
    let (present, broken) = (Err(LeaseAlreadyPresent), Err(LeaseIsBrokenAndCannotBeRenewed));
    let leased = |id, left| Ok((Leased, Some(id), left));
    let free = Ok((Available, None, 0));
    let breaking = |left| Ok((Breaking, Some(A), left));
    let over = Ok((Broken, Some(A), 0));
    // One column for each of `states`.
    for (case, action, expected) in [
        ("acquire", acquire(None), [leased(X, 30), present, present, leased(X, 30), leased(X, 30)]),
        (
            "acquire A",
            acquire(Some(A)),
            [
                leased(A, 30),
                leased(A, 30),
                Err(LeaseIsBreakingAndCannotBeAcquired),
                leased(A, 30),
                leased(A, 30),
            ],
        ),
        ("acquire B", acquire(Some(B)), [leased(B, 30), present, present, leased(B, 30), leased(B, 30)]),
        ("renew A", LeaseAction::Renew(A), [mismatch, leased(A, 60), broken, broken, leased(A, 15)]),
        ("renew B", LeaseAction::Renew(B), [mismatch; 5]),
        (
            "change A to B",
            change(A, B),
            [absent, leased(B, 20), Err(LeaseIsBreakingAndCannotBeChanged), absent, absent],
        ),
        ("change B to A", change(B, A), [absent, leased(A, 20), mismatch, absent, absent]),
        ("change B to C", change(B, C), [absent, mismatch, mismatch, absent, absent]),
        ("release A", LeaseAction::Release(A), [mismatch, free, free, free, free]),
        ("release B", LeaseAction::Release(B), [mismatch; 5]),
        ("break at once", cut(Some(0)), [absent, over, over, over, over]),
        ("break soon", cut(Some(5)), [absent, breaking(5), breaking(5), over, over]),
        ("break later", cut(Some(50)), [absent, breaking(20), breaking(20), over, over]),
        ("break", cut(None), [absent, breaking(20), breaking(20), over, over]),
    ] {
        for (before, expected) in states().into_iter().zip(expected) {
            let after = before.act(action, now(), X).map(|(lease, _)| summary(lease));
            assert_eq!(after, expected, "{case} {before:?}");
        }
    }
}

#[test]
fn infinite_leases_break_when_told_to() {
    let infinite = Lease::acquired(A, LeaseDuration::Infinite, now());
    assert!(
        !infinite.is_locked(Timestamp::MAX) && infinite.is_locked(now().saturating_add(seconds(1 << 30)))
    );
    for (period, left) in [(None, 0), (Some(0), 0), (Some(7), 7)] {
        let (after, outcome) =
            infinite.act(LeaseAction::Break { period: period.map(seconds) }, now(), X).unwrap();
        assert_eq!(outcome, LeaseOutcome::Broken(seconds(left)), "{period:?}");
        assert_eq!(summary(after).2, left, "{period:?}");
    }
}

#[test]
fn the_time_left_is_told_in_whole_seconds() {
    let lease = Lease::acquired(A, fixed(15), now());
    let later = now().saturating_add(Duration::from_millis(300));
    let (_, outcome) = lease.act(LeaseAction::Break { period: None }, later, X).unwrap();
    assert_eq!(outcome, LeaseOutcome::Broken(seconds(15)));
}

#[test]
fn uses() {
    let (absent, mismatch) = (Err(LeaseNotPresentWithBlobOperation), Err(LeaseIdMismatchWithBlobOperation));
    let (lost, missing) = (Err(LeaseLost), Err(LeaseIdMissing));
    for (how, given, expected) in [
        (Use::Write, Some(A), [absent, Ok(()), Ok(()), lost, lost]),
        (Use::Write, Some(B), [absent, mismatch, mismatch, lost, lost]),
        (Use::Write, None, [Ok(()), missing, missing, Ok(()), Ok(())]),
        (Use::Read, Some(A), [absent, Ok(()), Ok(()), lost, lost]),
        (Use::Read, Some(B), [absent, mismatch, mismatch, lost, lost]),
        (Use::Read, None, [Ok(()); 5]),
    ] {
        for (lease, expected) in states().into_iter().zip(expected) {
            assert_eq!(lease.check(given, Leased::Blob, how, now()), expected, "{how:?} {given:?} {lease:?}");
        }
    }
    let [available, leased, ..] = states();
    for (lease, expected) in
        [(available, LeaseNotPresentWithContainerOperation), (leased, LeaseIdMismatchWithContainerOperation)]
    {
        assert_eq!(lease.check(Some(B), Leased::Container, Use::Read, now()), Err(expected));
    }
}

#[test]
fn writes_forget_what_has_ended() {
    let [available, leased, breaking, broken, expired] = states();
    for lease in [available, broken, expired] {
        assert_eq!(lease.after_write(now()), Lease::Available);
    }
    for lease in [leased, breaking] {
        assert_eq!(lease.after_write(now()), lease);
    }
}
