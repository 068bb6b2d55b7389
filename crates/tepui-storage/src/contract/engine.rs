//! The suite that every engine passes.
//!
//! [`check`] runs the cases that the contract of [`Engine`] spells out. [`follow`] replays any list
//! of [`Step`]s on an engine and on a plain `BTreeMap`, and panics where they differ; feed it
//! random lists. A new engine needs a [`Subject`] and a test that calls both: see `tests/engine_contract.rs`.

mod history;
mod pipelines;

pub use history::{Step, follow};

use crate::{
    Commit, CommitError, Engine, Guard, Key, KeyRange, ScanLimit, Snapshot, StorageErrorKind, Transaction,
    Value, Write,
};

/// Something to test: an engine, and how to close it and open it again.
pub trait Subject {
    type Engine: Engine;

    fn engine(&self) -> &Self::Engine;

    /// Closes the engine and opens it again. An engine that cannot keep its rows stays as it is.
    fn reopen(&mut self);

    /// Whether commits conflict or have an unknown outcome, and transactions become too old, without a reason. Then only
    /// [`follow`] is for it.
    fn fails_at_random(&self) -> bool {
        false
    }
}

/// A page without limits that matter.
const ALL: ScanLimit = ScanLimit { max_rows: usize::MAX, max_bytes: usize::MAX };

/// Every case of the contract, one after the other on one engine.
pub async fn check<S: Subject>(subject: &mut S) {
    let engine = subject.engine();
    a_commit_shows_in_later_transactions_only(engine).await;
    a_commit_applies_all_or_nothing(engine).await;
    a_changed_key_conflicts(engine).await;
    keys_beside_each_other_do_not_conflict(engine).await;
    the_last_write_of_a_key_wins(engine).await;
    a_deleted_key_conflicts_and_can_return(engine).await;
    a_commit_of_nothing_checks_its_guards(engine).await;
    pipelines::commits_of_a_pipeline_depend_on_each_other(engine).await;
    pipelines::a_pipeline_reads_the_state_that_it_began_with(engine).await;
    pipelines::a_poisoned_pipeline_leaves_a_prefix(engine).await;
    many_keys_are_read_at_once(engine).await;
    both_kinds_of_guards_are_kept(engine).await;
    scans_are_ordered_and_cut_by_rows(engine).await;
    scans_are_cut_by_bytes_but_return_a_row(engine).await;
    odd_ranges_are_empty(engine).await;
    odd_keys_are_refused(engine).await;
    a_large_value_comes_back(engine).await;
    reclaim_empties_its_range_only(engine).await;
    one_of_many_rivals_wins_each_round(engine).await;
    assert_eq!(engine.health().await, Ok(()));
    what_was_committed_is_there_after_reopening(subject).await;
}

async fn a_commit_shows_in_later_transactions_only<E: Engine>(engine: &E) {
    let before = begin(engine).await;
    put(engine, "visible/a", "1").await;
    let between = begin(engine).await;
    put(engine, "visible/a", "2").await;
    put(engine, "visible/b", "3").await;
    assert_eq!(get(&before, "visible/a").await, None);
    assert_eq!(get(&between, "visible/a").await, Some("1".into()));
    assert_eq!(get(&between, "visible/b").await, None);
    assert_eq!(rows(&between, "visible/").await, pairs(&[("visible/a", "1")]));
    let after = begin(engine).await;
    assert_eq!(rows(&after, "visible/").await, pairs(&[("visible/a", "2"), ("visible/b", "3")]));
}

async fn a_commit_applies_all_or_nothing<E: Engine>(engine: &E) {
    let stale = begin(engine).await;
    put(engine, "atomic/b", "theirs").await;
    let writes = vec![write("atomic/a", "ours"), write("atomic/b", "ours"), write("atomic/c", "ours")];
    let refused = stale.commit(writes.clone().into()).await;
    assert_eq!(refused, Err(CommitError::Conflict));
    let now = begin(engine).await;
    assert_eq!(rows(&now, "atomic/").await, pairs(&[("atomic/b", "theirs")]));
    assert_eq!(now.commit(writes.into()).await, Ok(()));
    assert_eq!(rows(&begin(engine).await, "atomic/").await.len(), 3);
}

async fn a_changed_key_conflicts<E: Engine>(engine: &E) {
    put(engine, "changed", "0").await;
    let (first, second, third) = (begin(engine).await, begin(engine).await, begin(engine).await);
    assert_eq!(first.commit(vec![write("changed", "1")].into()).await, Ok(()));
    assert_eq!(second.commit(vec![write("changed", "2")].into()).await, Err(CommitError::Conflict));
    assert_eq!(third.commit(vec![delete("changed")].into()).await, Err(CommitError::Conflict));
    assert_eq!(get(&begin(engine).await, "changed").await, Some("1".into()));
}

async fn both_kinds_of_guards_are_kept<E: Engine>(engine: &E) {
    for (kind, guard) in [("unchanged", Guard::Unchanged as fn(Key) -> Guard), ("shared", Guard::Shared)] {
        let key = Key::from(format!("guard/{kind}"));
        let guarded = |name: &str| {
            let name = format!("guarded/{kind}/{name}");
            Commit::new(vec![guard(key.clone())], vec![write(&name, "")])
        };
        commit(engine, vec![Write::Put(key.clone(), "0".into())]).await;
        let stale = begin(engine).await;
        // One after the other: two that are under way at once may conflict unless the guard is shared.
        for name in ["1", "2"] {
            let transaction = begin(engine).await;
            assert_eq!(transaction.get(&key).await, Ok(Some("0".into())));
            assert_eq!(transaction.commit(guarded(name)).await, Ok(()), "{kind}: a guard is not a write");
        }
        commit(engine, vec![Write::Put(key.clone(), "1".into())]).await;
        assert_eq!(stale.commit(guarded("3")).await, Err(CommitError::Conflict), "{kind}: changed");
        let stale = begin(engine).await;
        commit(engine, vec![Write::Delete(key.clone())]).await;
        assert_eq!(stale.commit(guarded("4")).await, Err(CommitError::Conflict), "{kind}: deleted");
        let absent = begin(engine).await;
        let stale = begin(engine).await;
        assert_eq!(absent.commit(guarded("5")).await, Ok(()), "{kind}: a guard may be on an absent key");
        commit(engine, vec![Write::Put(key.clone(), "2".into())]).await;
        assert_eq!(stale.commit(guarded("6")).await, Err(CommitError::Conflict), "{kind}: created");
        let written: Vec<Key> = rows(&begin(engine).await, &format!("guarded/{kind}/"))
            .await
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert!(written.iter().eq(["1", "2", "5"].map(|name| format!("guarded/{kind}/{name}")).iter()));
    }
    // Shared: any number of transactions at once.
    put(engine, "guard/crowd", "0").await;
    let mut crowd = Vec::new();
    for number in 0..10 {
        let transaction = begin(engine).await;
        let writes = vec![write(&format!("guarded/crowd/{number}"), "")];
        crowd.push((transaction, Commit::new(vec![Guard::Shared("guard/crowd".into())], writes)));
    }
    for (transaction, commit) in crowd {
        assert_eq!(transaction.commit(commit).await, Ok(()));
    }
}

async fn keys_beside_each_other_do_not_conflict<E: Engine>(engine: &E) {
    let mut transactions = Vec::new();
    for name in ["beside/1", "beside/2", "beside/3"] {
        transactions.push((begin(engine).await, name));
    }
    for (transaction, name) in transactions {
        assert_eq!(transaction.commit(vec![write(name, "")].into()).await, Ok(()));
    }
}

async fn many_keys_are_read_at_once<E: Engine>(engine: &E) {
    let key = |number: usize| Key::from(format!("many/{number:03}"));
    commit(engine, (0..200).step_by(2).map(|number| Write::Put(key(number), key(number))).collect()).await;
    let before = begin(engine).await;
    commit(engine, (0..200).map(|number| Write::Put(key(number), "new".into())).collect()).await;
    let after = begin(engine).await;
    // In any order, also twice.
    let asked: Vec<usize> = (0..200).rev().chain([4, 4, 5]).collect();
    let keys: Vec<Key> = asked.iter().copied().map(key).collect();
    let found = before.get_many(&keys).await.expect("rows can be read");
    let expected = asked.iter().map(|number| number.is_multiple_of(2).then(|| key(*number)));
    assert!(found.into_iter().eq(expected), "in the order of the keys");
    let found = after.get_many(&keys).await.expect("rows can be read");
    assert!(found.len() == keys.len() && found.iter().all(|value| value.as_deref() == Some(b"new")));
    assert_eq!(after.get_many(&[]).await, Ok(Vec::new()));
}

async fn the_last_write_of_a_key_wins<E: Engine>(engine: &E) {
    let writes = vec![
        write("twice/a", "1"),
        write("twice/b", "1"),
        delete("twice/a"),
        write("twice/c", "1"),
        delete("twice/b"),
        write("twice/a", "2"),
    ];
    commit(engine, writes).await;
    let now = begin(engine).await;
    assert_eq!(rows(&now, "twice/").await, pairs(&[("twice/a", "2"), ("twice/c", "1")]));
}

async fn a_deleted_key_conflicts_and_can_return<E: Engine>(engine: &E) {
    put(engine, "gone", "1").await;
    let stale = begin(engine).await;
    commit(engine, vec![delete("gone")]).await;
    assert_eq!(stale.commit(vec![write("gone", "2")].into()).await, Err(CommitError::Conflict));
    assert_eq!(get(&begin(engine).await, "gone").await, None);
    put(engine, "gone", "3").await;
    assert_eq!(get(&begin(engine).await, "gone").await, Some("3".into()));
    commit(engine, vec![delete("never there")]).await;
}

async fn a_commit_of_nothing_checks_its_guards<E: Engine>(engine: &E) {
    let (first, second) = (begin(engine).await, begin(engine).await);
    assert_eq!(first.commit(Commit::default()).await, Ok(()));
    put(engine, "only guard", "").await;
    let guard = Guard::Unchanged("only guard".into());
    assert_eq!(second.commit(Commit::new(vec![guard], vec![])).await, Err(CommitError::Conflict));
}

async fn scans_are_ordered_and_cut_by_rows<E: Engine>(engine: &E) {
    let names: Vec<String> = (0..25).map(|number| format!("ordered/{number:02}")).collect();
    let writes: Vec<Write> = names.iter().rev().map(|name| write(name, "x")).collect();
    commit(engine, writes).await;
    let now = begin(engine).await;
    for max_rows in [1, 2, 7, 24, 25, 26, 1000] {
        let mut range = prefix("ordered/");
        let mut seen = Vec::new();
        loop {
            let limit = ScanLimit { max_rows, max_bytes: usize::MAX };
            let page = now.scan(&range, limit).await.expect("a page can be read");
            assert!(page.rows.len() <= max_rows, "{max_rows} rows at most");
            seen.extend(page.rows.into_iter().map(|(key, _)| key));
            let Some(next) = page.next else { break };
            assert!(seen.last().is_none_or(|last| *last < next), "the next page starts behind this one");
            range.start = next;
        }
        assert!(seen.iter().eq(names.iter().map(String::as_bytes)), "pages of {max_rows}");
    }
}

async fn scans_are_cut_by_bytes_but_return_a_row<E: Engine>(engine: &E) {
    commit(engine, (0..10).map(|number| write(&format!("bytes/{number}"), &"x".repeat(1000))).collect())
        .await;
    let now = begin(engine).await;
    for (max_bytes, expected) in
        [(0, 1), (999, 1), (1007, 1), (2013, 1), (2014, 2), (5500, 5), (usize::MAX, 10)]
    {
        let limit = ScanLimit { max_rows: usize::MAX, max_bytes };
        let page = now.scan(&prefix("bytes/"), limit).await.expect("a page can be read");
        assert_eq!(page.rows.len(), expected, "{max_bytes} bytes");
        assert_eq!(page.next.is_some(), expected < 10, "{max_bytes} bytes");
    }
}

async fn odd_ranges_are_empty<E: Engine>(engine: &E) {
    put(engine, "odd/b", "").await;
    let now = begin(engine).await;
    let long = vec![b'n'; engine.limits().max_key_bytes + 10];
    for (start, end, rows) in [
        ("odd/b".as_bytes(), "odd/b".as_bytes(), 0),
        (b"odd/c", b"odd/a", 0),
        (b"", b"", 0),
        (b"odd/b", b"odd/b\0", 1),
        (b"odd/b\0", b"odd/c", 0),
        (&long, b"odd/a", 0),
        (&long, b"odd/c", 1),
    ] {
        let range = KeyRange { start: Key::copy_from_slice(start), end: Key::copy_from_slice(end) };
        let page = now.scan(&range, ALL).await.expect("a page can be read");
        assert_eq!((page.rows.len(), page.next), (rows, None), "{:?}", &start[..start.len().min(9)]);
    }
}

async fn odd_keys_are_refused<E: Engine>(engine: &E) {
    let max_key_bytes = engine.limits().max_key_bytes;
    let longest = Key::from(vec![b'k'; max_key_bytes]);
    commit(engine, vec![Write::Put(longest.clone(), "v".into())]).await;
    let now = begin(engine).await;
    assert_eq!(now.get(&longest).await, Ok(Some("v".into())));
    commit(engine, vec![Write::Delete(longest)]).await;
    for odd in [Key::new(), Key::from(vec![b'k'; max_key_bytes + 1])] {
        assert_eq!(now.get(&odd).await, Ok(None));
        assert_eq!(now.get_many(std::slice::from_ref(&odd)).await, Ok(vec![None]));
        for commit in [
            Commit::from(vec![Write::Put(odd.clone(), "v".into())]),
            Commit::from(vec![Write::Delete(odd.clone())]),
            Commit::new(vec![Guard::Unchanged(odd.clone())], vec![]),
            Commit::new(vec![Guard::Shared(odd)], vec![]),
        ] {
            let refused = begin(engine).await.commit(commit).await;
            assert!(
                matches!(&refused, Err(CommitError::Storage(error)) if error.kind() == StorageErrorKind::Failed),
                "{refused:?}"
            );
        }
    }
}

async fn a_large_value_comes_back<E: Engine>(engine: &E) {
    let value = Value::from((0..2_000_000u32).map(|number| (number % 251) as u8).collect::<Vec<u8>>());
    commit(engine, vec![Write::Put("large".into(), value.clone()), Write::Put("empty".into(), Value::new())])
        .await;
    let now = begin(engine).await;
    assert_eq!(now.get(b"large").await, Ok(Some(value)));
    assert_eq!(now.get(b"empty").await, Ok(Some(Value::new())));
}

async fn reclaim_empties_its_range_only<E: Engine>(engine: &E) {
    for group in 0..3 {
        let writes = (0..1000).map(|number| write(&format!("reclaim/{group}/{number:04}"), "x")).collect();
        commit(engine, writes).await;
    }
    for _ in 0..2 {
        engine.reclaim(prefix("reclaim/1/")).await.expect("a range can be reclaimed, also twice");
        let now = begin(engine).await;
        let counts =
            ["reclaim/0/", "reclaim/1/", "reclaim/2/"].map(async |group| rows(&now, group).await.len());
        let [first, second, third] = counts;
        assert_eq!((first.await, second.await, third.await), (1000, 0, 1000));
    }
    engine.reclaim(prefix("reclaim/none/")).await.expect("an empty range can be reclaimed");
}

async fn one_of_many_rivals_wins_each_round<E: Engine>(engine: &E) {
    put(engine, "counter", "0").await;
    let rival = async || {
        for _ in 0..20 {
            loop {
                let now = begin(engine).await;
                let held = get(&now, "counter").await.expect("the counter is there");
                let held: u32 =
                    std::str::from_utf8(&held).ok().and_then(|text| text.parse().ok()).expect("a number");
                let raised = vec![write("counter", &(held + 1).to_string())];
                match now.commit(raised.into()).await {
                    Ok(()) => break,
                    Err(CommitError::Conflict) => {}
                    Err(error) => panic!("a commit fails: {error}"),
                }
            }
        }
    };
    tokio::join!(rival(), rival(), rival(), rival(), rival());
    assert_eq!(get(&begin(engine).await, "counter").await, Some("100".into()), "no update is lost");
}

async fn what_was_committed_is_there_after_reopening<S: Subject>(subject: &mut S) {
    put(subject.engine(), "kept", "1").await;
    let whole = KeyRange { start: Key::new(), end: vec![0xFF; 8].into() };
    let before = begin(subject.engine()).await.scan(&whole, ALL).await.expect("rows can be read").rows;
    subject.reopen();
    let after = begin(subject.engine()).await.scan(&whole, ALL).await.expect("rows can be read").rows;
    assert!(before == after && !after.is_empty());
    put(subject.engine(), "kept", "2").await;
    assert_eq!(get(&begin(subject.engine()).await, "kept").await, Some("2".into()));
}

async fn begin<E: Engine>(engine: &E) -> E::Transaction {
    engine.begin().await.expect("a transaction can begin")
}

async fn pipeline<E: Engine>(engine: &E) -> E::Pipeline {
    engine.begin_pipeline().await.expect("a pipeline can begin")
}

async fn get<S: Snapshot>(snapshot: &S, key: &str) -> Option<Value> {
    snapshot.get(key.as_bytes()).await.expect("a row can be read")
}

async fn rows<S: Snapshot>(snapshot: &S, start: &str) -> Vec<(Key, Value)> {
    snapshot.scan(&prefix(start), ALL).await.expect("rows can be read").rows
}

/// Commits in new transactions until it succeeds.
async fn commit<E: Engine>(engine: &E, writes: Vec<Write>) {
    loop {
        match begin(engine).await.commit(writes.clone().into()).await {
            Ok(()) => return,
            Err(CommitError::Conflict) => {}
            Err(error) => panic!("a commit fails: {error}"),
        }
    }
}

async fn put<E: Engine>(engine: &E, key: &str, value: &str) {
    commit(engine, vec![write(key, value)]).await;
}

fn write(key: &str, value: &str) -> Write {
    Write::Put(Key::copy_from_slice(key.as_bytes()), Value::copy_from_slice(value.as_bytes()))
}

fn delete(key: &str) -> Write {
    Write::Delete(Key::copy_from_slice(key.as_bytes()))
}

fn pairs(rows: &[(&str, &str)]) -> Vec<(Key, Value)> {
    rows.iter()
        .map(|(key, value)| (Key::copy_from_slice(key.as_bytes()), Value::copy_from_slice(value.as_bytes())))
        .collect()
}

fn prefix(start: &str) -> KeyRange {
    let mut end = start.as_bytes().to_vec();
    end.push(0xFF);
    KeyRange { start: Key::copy_from_slice(start.as_bytes()), end: end.into() }
}
