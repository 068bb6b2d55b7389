//! What is let in and what is refused, with a clock of the test.

use super::*;

const LONG: Duration = Duration::from_secs(30);

fn at(start: Instant, milliseconds: u64) -> Instant {
    start + Duration::from_millis(milliseconds)
}

fn partition(key: &str) -> Scope<'_> {
    Scope::Partition { table: "Orders", key }
}

/// A request whose whole cost is known before.
fn request(
    targets: &Targets,
    account: &str,
    scope: Scope<'_>,
    units: u64,
    now: Instant,
) -> Result<(), Throttled> {
    let mut admission = targets.admit(account, 0, now)?;
    let admitted = targets.admit_to(&mut admission, scope, units, LONG, now);
    targets.settle(&admission, Spent { units, ..Spent::default() }, now);
    admitted
}

/// The units that `scopes` of an account get in a second, asked for in turns by requests of `units`.
fn units_per_second(targets: &Targets, scopes: &[Scope<'_>], units: u64, start: Instant) -> f64 {
    let (mut taken, from) = (0, 2_000);
    for millisecond in 0..5_000u64 {
        let now = at(start, millisecond);
        for scope in scopes {
            while request(targets, "people", *scope, units, now).is_ok() {
                taken += if millisecond >= from { units } else { 0 };
            }
        }
    }
    taken as f64 / 3.0
}

#[test]
fn loads_settle_at_the_targets() {
    let keys: Vec<String> = (0..15).map(|number| number.to_string()).collect();
    let partitions: Vec<_> = keys.iter().map(|key| partition(key)).collect();
    let queues: Vec<_> = keys.iter().map(|key| Scope::Queue(key)).collect();
    let blobs: Vec<_> = keys.iter().map(|key| Scope::Blob { container: "files", blob: key }).collect();
    for (case, scopes, units, expected) in [
        ("a partition", &partitions[..1], 1, 2_000.0),
        ("batches of 100", &partitions[..1], 100, 2_000.0),
        ("three partitions", &partitions[..3], 1, 6_000.0),
        ("many partitions", &partitions, 1, 20_000.0),
        ("many partitions in batches", &partitions, 100, 20_000.0),
        ("a queue", &queues[..1], 1, 2_000.0),
        ("many queues", &queues, 4, 20_000.0),
        ("a blob", &blobs[..1], 1, 500.0),
    ] {
        let targets = Targets::new(&SEED_2016);
        let found = units_per_second(&targets, scopes, units, Instant::now());
        assert!((found / expected - 1.0).abs() < 0.01, "{case}: {found}, not {expected}");
    }
}

#[test]
fn a_refusal_says_whose_limit_it_was() {
    let start = Instant::now();
    let targets = Targets::new(&SEED_2016);
    assert_eq!(request(&targets, "people", partition("a"), 3_000, start), Ok(()));
    assert_eq!(request(&targets, "people", partition("a"), 1, start), Err(Throttled::Partition));
    assert_eq!(
        request(&targets, "people", Scope::Partition { table: "ORDERS", key: "a" }, 1, start),
        Err(Throttled::Partition)
    );
    assert_eq!(request(&targets, "people", partition("b"), 1, start), Ok(()));
    assert_eq!(request(&targets, "people", Scope::Table("Orders"), 30_000, start), Ok(()));
    assert_eq!(request(&targets, "people", partition("b"), 1, start), Err(Throttled::AccountUnits));
    assert_eq!(request(&targets, "other", partition("a"), 1, start), Ok(()), "another account");
    for (throttled, code, message) in [
        (Throttled::AccountUnits, "ServerBusy", "Operations per second is over the account limit."),
        (Throttled::AccountIngress, "ServerBusy", "Ingress is over the account limit."),
        (Throttled::AccountEgress, "ServerBusy", "Egress is over the account limit."),
        (Throttled::Partition, "ServerBusy", "The server is busy."),
        (
            Throttled::PartitionTimeout,
            "OperationTimedOut",
            "Operation could not be completed within the specified time.",
        ),
    ] {
        let error = ServiceError::from(throttled);
        assert_eq!((error.code.name(), error.message()), (code, message));
    }
}

#[test]
fn what_would_last_longer_than_the_request_may_times_out() {
    let start = Instant::now();
    let targets = Targets::new(&SEED_2016);
    assert_eq!(request(&targets, "people", partition("a"), 2_000 + 5_000, start), Ok(()));
    for (seconds, expected) in [(2, Throttled::PartitionTimeout), (3, Throttled::Partition)] {
        let mut admission = targets.admit("people", 0, start).unwrap();
        let time = Duration::from_secs(seconds);
        assert_eq!(targets.admit_to(&mut admission, partition("a"), 1, time, start), Err(expected));
    }
}

#[test]
fn a_query_pays_when_it_is_over() {
    let start = Instant::now();
    let targets = Targets::new(&SEED_2016);
    let query = |now| {
        let mut admission = targets.admit("people", 0, now)?;
        targets.admit_to(&mut admission, partition("a"), 1, LONG, now)?;
        targets.settle(&admission, Spent { units: 1_000, ..Spent::default() }, now);
        Ok(())
    };
    let answers: Vec<_> = (0..4).map(|_| query(start)).collect();
    assert_eq!(answers, [Ok(()), Ok(()), Ok(()), Err(Throttled::Partition)]);
    assert_eq!(query(at(start, 499)), Err(Throttled::Partition));
    assert_eq!(query(at(start, 501)), Ok(()));
}

#[test]
fn a_refused_request_costs_its_account_nothing() {
    let start = Instant::now();
    let targets = Targets::new(&SEED_2016);
    assert_eq!(request(&targets, "people", partition("a"), 10_000, start), Ok(()));
    for _ in 0..30_000 {
        assert_eq!(request(&targets, "people", partition("a"), 100, start), Err(Throttled::Partition));
    }
    assert_eq!(request(&targets, "people", partition("b"), 1, start), Ok(()));
}

#[test]
fn bytes_have_targets_too() {
    let figures = Figures {
        ingress_bytes: Some(1000.0),
        egress_bytes: Some(1000.0),
        blob_bytes: Some(500.0),
        warm_up_seconds: 0.0,
        ..SEED_2016
    };
    let start = Instant::now();
    let exchange = |targets: &Targets, blob, spent: Spent| {
        let mut admission = targets.admit("people", spent.bytes_in, start)?;
        targets.admit_to(&mut admission, Scope::Blob { container: "files", blob }, 1, LONG, start)?;
        targets.settle(&admission, spent, start);
        Ok(())
    };
    let bytes = |bytes_in, bytes_out| Spent { units: 1, bytes_in, bytes_out };
    for (case, first, second, expected) in [
        ("in", bytes(1001, 0), "other", Err(Throttled::AccountIngress)),
        ("out", bytes(0, 1001), "other", Err(Throttled::AccountEgress)),
        ("of one blob", bytes(300, 201), "one", Err(Throttled::Partition)),
        ("of another blob", bytes(300, 201), "other", Ok(())),
        ("of one blob, not too many", bytes(300, 200), "one", Ok(())),
    ] {
        let targets = Targets::new(&figures);
        assert_eq!(exchange(&targets, "one", first), Ok(()), "{case}");
        assert_eq!(exchange(&targets, second, bytes(0, 0)), expected, "{case}");
    }
    // A body that ends early is paid for as far as it came.
    let targets = Targets::new(&figures);
    let admission = targets.admit("people", 5000, start).unwrap();
    targets.settle(&admission, bytes(100, 0), start);
    assert!(targets.admit("people", 0, start).is_ok());
}

#[test]
fn a_new_table_is_throttled_as_a_whole_until_it_is_warm() {
    let start = Instant::now();
    let targets = Targets::new(&SEED_2016);
    let admission = targets.admit("people", 0, start).unwrap();
    targets.table_created(&admission, "Orders", start);
    let keys: Vec<String> = (0..15).map(|number| number.to_string()).collect();
    let second = |second: u64| {
        let mut taken = 0;
        for millisecond in 0..1000 {
            let now = at(start, 1000 * second + millisecond);
            for key in &keys {
                while request(&targets, "people", partition(key), 10, now).is_ok() {
                    taken += 10;
                }
            }
        }
        taken
    };
    let taken: Vec<i64> = (0..13).map(second).collect();
    // One more second of burst in the first, and the account's own in that in which it is warm.
    for (second, expected) in [(0, 4_900), (1, 4_700), (5, 11_900), (9, 19_100), (12, 20_000)] {
        assert!((taken[second] - expected).abs() < 200, "second {second}: {taken:?}");
    }
}
