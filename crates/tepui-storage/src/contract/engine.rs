//! The suite that every engine passes.
//!
//! [`check`] runs the cases that the contract of [`Engine`] spells out. [`follow`] replays any list
//! of [`Step`]s on an engine and on a plain `BTreeMap`, and panics where they differ; feed it
//! random lists. A new engine needs a [`Subject`] and a test that calls both: see `tests/engine_contract.rs`.

use crate::{
    CommitError, CommitPipeline, Engine, EngineError, Key, KeyRange, MAX_KEY_BYTES, ScanLimit, Snapshot,
    Value, Version, Write,
};
use std::collections::BTreeMap;

/// Something to test: an engine, and how to close it and open it again.
pub trait Subject {
    type Engine: Engine;

    fn engine(&self) -> &Self::Engine;

    /// Closes the engine and opens it again. An engine that cannot keep its rows stays as it is.
    fn reopen(&mut self);
}

/// A page without limits that matter.
const ALL: ScanLimit = ScanLimit { max_rows: usize::MAX, max_bytes: usize::MAX };

/// Every case of the contract, one after the other on one engine.
pub async fn check<S: Subject>(subject: &mut S) {
    let engine = subject.engine();
    a_commit_shows_in_later_snapshots_only(engine).await;
    a_commit_applies_all_or_nothing(engine).await;
    a_changed_key_conflicts(engine).await;
    a_changed_guard_conflicts(engine).await;
    keys_beside_each_other_do_not_conflict(engine).await;
    the_last_write_of_a_key_wins(engine).await;
    a_deleted_key_conflicts_and_can_return(engine).await;
    a_commit_of_nothing_checks_its_guards(engine).await;
    commits_of_a_pipeline_depend_on_each_other(engine).await;
    a_poisoned_pipeline_leaves_a_prefix(engine).await;
    the_catalogue_has_a_version(engine).await;
    scans_are_ordered_and_cut_by_rows(engine).await;
    scans_are_cut_by_bytes_but_return_a_row(engine).await;
    odd_ranges_are_empty(engine).await;
    odd_keys_are_refused(engine).await;
    a_large_value_comes_back(engine).await;
    reclaim_empties_its_range_only(engine).await;
    one_of_many_rivals_wins_each_round(engine).await;
    assert_eq!(engine.health(), Ok(()));
    what_was_committed_is_there_after_reopening(subject).await;
}

async fn a_commit_shows_in_later_snapshots_only<E: Engine>(engine: &E) {
    let before = snapshot(engine).await;
    put(engine, "visible/a", "1").await;
    let between = snapshot(engine).await;
    put(engine, "visible/a", "2").await;
    put(engine, "visible/b", "3").await;
    assert_eq!(get(&before, "visible/a").await, None);
    assert_eq!(get(&between, "visible/a").await, Some("1".into()));
    assert_eq!(get(&between, "visible/b").await, None);
    assert_eq!(rows(&between, "visible/").await, pairs(&[("visible/a", "1")]));
    let after = snapshot(engine).await;
    assert_eq!(rows(&after, "visible/").await, pairs(&[("visible/a", "2"), ("visible/b", "3")]));
    assert!(before.version() < between.version() && between.version() < after.version());
}

async fn a_commit_applies_all_or_nothing<E: Engine>(engine: &E) {
    let stale = snapshot(engine).await;
    put(engine, "atomic/b", "theirs").await;
    let writes = vec![write("atomic/a", "ours"), write("atomic/b", "ours"), write("atomic/c", "ours")];
    let refused = engine.commit(stale.version(), vec![], writes.clone()).await;
    assert_eq!(refused, Err(CommitError::Conflict));
    let now = snapshot(engine).await;
    assert_eq!(rows(&now, "atomic/").await, pairs(&[("atomic/b", "theirs")]));
    assert_eq!(engine.commit(now.version(), vec![], writes).await, Ok(()));
    assert_eq!(rows(&snapshot(engine).await, "atomic/").await.len(), 3);
}

async fn a_changed_key_conflicts<E: Engine>(engine: &E) {
    put(engine, "changed", "0").await;
    let (first, second) = (snapshot(engine).await, snapshot(engine).await);
    assert_eq!(engine.commit(first.version(), vec![], vec![write("changed", "1")]).await, Ok(()));
    let refused = engine.commit(second.version(), vec![], vec![write("changed", "2")]).await;
    assert_eq!(refused, Err(CommitError::Conflict));
    let refused = engine.commit(first.version(), vec![], vec![delete("changed")]).await;
    assert_eq!(refused, Err(CommitError::Conflict), "not even after one's own commit");
    assert_eq!(get(&snapshot(engine).await, "changed").await, Some("1".into()));
}

async fn a_changed_guard_conflicts<E: Engine>(engine: &E) {
    put(engine, "guard", "0").await;
    let at = snapshot(engine).await.version();
    assert_eq!(engine.commit(at, vec!["guard".into()], vec![write("guarded/1", "")]).await, Ok(()));
    let other = engine.commit(at, vec!["guard".into()], vec![write("guarded/2", "")]).await;
    assert_eq!(other, Ok(()), "a guard is not a write");
    put(engine, "guard", "1").await;
    let refused = engine.commit(at, vec!["guard".into()], vec![write("guarded/3", "")]).await;
    assert_eq!(refused, Err(CommitError::Conflict));
    let absent = engine.commit(snapshot(engine).await.version(), vec!["absent".into()], vec![]).await;
    assert_eq!(absent, Ok(()), "a guard may be on a key that is not there");
}

async fn keys_beside_each_other_do_not_conflict<E: Engine>(engine: &E) {
    let at = snapshot(engine).await.version();
    for name in ["beside/1", "beside/2", "beside/3"] {
        assert_eq!(engine.commit(at, vec![], vec![write(name, "")]).await, Ok(()));
    }
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
    let now = snapshot(engine).await;
    assert_eq!(rows(&now, "twice/").await, pairs(&[("twice/a", "2"), ("twice/c", "1")]));
}

async fn a_deleted_key_conflicts_and_can_return<E: Engine>(engine: &E) {
    put(engine, "gone", "1").await;
    let at = snapshot(engine).await.version();
    commit(engine, vec![delete("gone")]).await;
    assert_eq!(engine.commit(at, vec![], vec![write("gone", "2")]).await, Err(CommitError::Conflict));
    assert_eq!(get(&snapshot(engine).await, "gone").await, None);
    put(engine, "gone", "3").await;
    assert_eq!(get(&snapshot(engine).await, "gone").await, Some("3".into()));
    commit(engine, vec![delete("never there")]).await;
}

async fn a_commit_of_nothing_checks_its_guards<E: Engine>(engine: &E) {
    let at = snapshot(engine).await.version();
    assert_eq!(engine.commit(at, vec![], vec![]).await, Ok(()));
    put(engine, "only guard", "").await;
    assert_eq!(engine.commit(at, vec!["only guard".into()], vec![]).await, Err(CommitError::Conflict));
}

async fn commits_of_a_pipeline_depend_on_each_other<E: Engine>(engine: &E) {
    put(engine, "pipeline/guard", "0").await;
    let at = snapshot(engine).await.version();
    let pipeline = CommitPipeline::new();
    // All of them are queued before the first is awaited.
    let mut answers = Vec::new();
    for number in 0..50 {
        let text = number.to_string();
        let writes = vec![
            write("pipeline/same", &text),
            write(&format!("pipeline/{number:02}"), &text),
            delete(&format!("pipeline/{:02}", number / 2)),
        ];
        answers.push(engine.commit_next(&pipeline, at, vec!["pipeline/guard".into()], writes));
    }
    let other = CommitPipeline::new();
    let rival = engine.commit_next(&other, at, vec![], vec![write("pipeline/same", "rival")]);
    for answer in answers {
        assert_eq!(answer.await, Ok(()));
    }
    assert_eq!(rival.await, Err(CommitError::Conflict), "another pipeline is another writer");
    let now = snapshot(engine).await;
    assert_eq!(get(&now, "pipeline/same").await, Some("49".into()));
    let left = rows(&now, "pipeline/").await;
    assert_eq!(left.len(), 2 + 25, "each commit saw what those before it had left: {left:?}");
    let alone = engine.commit(at, vec![], vec![write("pipeline/same", "")]).await;
    assert_eq!(alone, Err(CommitError::Conflict), "what a pipeline has written has changed");
}

async fn a_poisoned_pipeline_leaves_a_prefix<E: Engine>(engine: &E) {
    let at = snapshot(engine).await.version();
    let pipeline = CommitPipeline::new();
    let next = |text: &str, guard: &'static str| {
        engine.commit_next(
            &pipeline,
            at,
            vec![guard.into()],
            vec![write("poisoned/same", text), write(text, "")],
        )
    };
    assert_eq!(next("poisoned/1", "poisoned/guard").await, Ok(()));
    put(engine, "poisoned/guard", "changed").await;
    let answers = [
        next("poisoned/2", "poisoned/other"),
        next("poisoned/3", "poisoned/guard"),
        next("poisoned/4", "poisoned/other"),
        next("poisoned/5", "poisoned/same"),
    ];
    let [second, third, fourth, fifth] = answers;
    assert_eq!(second.await, Ok(()));
    assert_eq!(third.await, Err(CommitError::Conflict));
    assert_eq!(fourth.await, Err(CommitError::Conflict), "it depends on one that failed");
    assert_eq!(fifth.await, Err(CommitError::Conflict));
    let now = snapshot(engine).await;
    assert_eq!(get(&now, "poisoned/same").await, Some("poisoned/2".into()));
    // A write of others in between conflicts, although the pipeline wrote the key before.
    let pipeline = CommitPipeline::new();
    let write_same =
        |text| engine.commit_next(&pipeline, now.version(), vec![], vec![write("poisoned/same", text)]);
    assert_eq!(write_same("6").await, Ok(()));
    put(engine, "poisoned/same", "theirs").await;
    assert_eq!(write_same("7").await, Err(CommitError::Conflict));
    assert_eq!(get(&snapshot(engine).await, "poisoned/same").await, Some("theirs".into()));
}

async fn the_catalogue_has_a_version<E: Engine>(engine: &E) {
    let before = snapshot(engine).await;
    put(engine, "usual", "1").await;
    let same = snapshot(engine).await;
    assert_eq!(same.catalogue_version(), before.catalogue_version());
    for change in [write("\u{20}seldom", "1"), delete("\u{20}seldom")] {
        let before = snapshot(engine).await;
        commit(engine, vec![write("usual", "2"), change]).await;
        let after = snapshot(engine).await;
        assert!(after.catalogue_version() > before.catalogue_version());
        assert!(after.catalogue_version() <= after.version());
    }
}

async fn scans_are_ordered_and_cut_by_rows<E: Engine>(engine: &E) {
    let names: Vec<String> = (0..25).map(|number| format!("ordered/{number:02}")).collect();
    let writes: Vec<Write> = names.iter().rev().map(|name| write(name, "x")).collect();
    commit(engine, writes).await;
    let now = snapshot(engine).await;
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
    let now = snapshot(engine).await;
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
    let now = snapshot(engine).await;
    let long = vec![b'n'; MAX_KEY_BYTES + 10];
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
    let longest = Key::from(vec![b'k'; MAX_KEY_BYTES]);
    commit(engine, vec![Write::Put(longest.clone(), "v".into())]).await;
    let now = snapshot(engine).await;
    assert_eq!(now.get(&longest).await, Ok(Some("v".into())));
    commit(engine, vec![Write::Delete(longest)]).await;
    for odd in [Key::new(), Key::from(vec![b'k'; MAX_KEY_BYTES + 1])] {
        assert_eq!(now.get(&odd).await, Ok(None));
        let put = vec![Write::Put(odd.clone(), "v".into())];
        for (guards, writes) in
            [(vec![], put), (vec![], vec![Write::Delete(odd.clone())]), (vec![odd], vec![])]
        {
            let refused = engine.commit(now.version(), guards, writes).await;
            assert!(matches!(refused, Err(CommitError::Engine(EngineError::Failed(_)))), "{refused:?}");
        }
    }
}

async fn a_large_value_comes_back<E: Engine>(engine: &E) {
    let value = Value::from((0..2_000_000u32).map(|number| (number % 251) as u8).collect::<Vec<u8>>());
    commit(engine, vec![Write::Put("large".into(), value.clone()), Write::Put("empty".into(), Value::new())])
        .await;
    let now = snapshot(engine).await;
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
        let now = snapshot(engine).await;
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
                let now = snapshot(engine).await;
                let held = get(&now, "counter").await.expect("the counter is there");
                let held: u32 =
                    std::str::from_utf8(&held).ok().and_then(|text| text.parse().ok()).expect("a number");
                let raised = vec![write("counter", &(held + 1).to_string())];
                match engine.commit(now.version(), vec![], raised).await {
                    Ok(()) => break,
                    Err(CommitError::Conflict) => {}
                    Err(error) => panic!("a commit fails: {error}"),
                }
            }
        }
    };
    tokio::join!(rival(), rival(), rival(), rival(), rival());
    assert_eq!(get(&snapshot(engine).await, "counter").await, Some("100".into()), "no update is lost");
}

async fn what_was_committed_is_there_after_reopening<S: Subject>(subject: &mut S) {
    put(subject.engine(), "kept", "1").await;
    let whole = KeyRange { start: Key::new(), end: vec![0xFF; 8].into() };
    let before = snapshot(subject.engine()).await.scan(&whole, ALL).await.expect("rows can be read").rows;
    subject.reopen();
    let after = snapshot(subject.engine()).await.scan(&whole, ALL).await.expect("rows can be read").rows;
    assert!(before == after && !after.is_empty());
    put(subject.engine(), "kept", "2").await;
    assert_eq!(get(&snapshot(subject.engine()).await, "kept").await, Some("2".into()));
}

/// One step of a random history. Keys and snapshots are chosen by number, whatever there is.
#[derive(Debug, Clone)]
pub enum Step {
    /// A commit on a kept snapshot, or on a fresh one if there is no such.
    Commit {
        on: usize,
        guards: Vec<u8>,
        writes: Vec<(u8, Option<u16>)>,
    },
    Keep,
    Release(usize),
    Get {
        on: usize,
        key: u8,
    },
    Scan {
        on: usize,
        from: u8,
        to: u8,
        max_rows: usize,
        max_bytes: usize,
    },
    Reopen,
}

struct KeptSnapshot<S> {
    snapshot: S,
    rows: BTreeMap<Key, Value>,
    commits: usize,
}

/// Replays `steps` on an empty engine and on a model of it, and panics where they differ.
pub async fn follow<S: Subject>(subject: &mut S, steps: &[Step]) {
    let mut model: BTreeMap<Key, Value> = BTreeMap::new();
    let mut changed: BTreeMap<Key, usize> = BTreeMap::new();
    let mut commits = 0;
    let mut kept: Vec<KeptSnapshot<<S::Engine as Engine>::Snapshot>> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let fresh = KeptSnapshot { snapshot: snapshot(subject.engine()).await, rows: model.clone(), commits };
        match step {
            Step::Keep => kept.push(fresh),
            Step::Release(which) if !kept.is_empty() => drop(kept.swap_remove(which % kept.len())),
            Step::Release(_) => {}
            Step::Reopen => {
                drop(fresh);
                kept.clear();
                subject.reopen();
            }
            Step::Get { on, key } => {
                let kept = kept.get(*on).unwrap_or(&fresh);
                let found = kept.snapshot.get(&model_key(*key)).await;
                assert_eq!(
                    found.as_ref(),
                    Ok(&kept.rows.get(&model_key(*key)).cloned()),
                    "step {index}: {step:?}"
                );
            }
            Step::Scan { on, from, to, max_rows, max_bytes } => {
                let kept = kept.get(*on).unwrap_or(&fresh);
                let range = KeyRange { start: model_key(*from), end: model_key(*to) };
                let limit = ScanLimit { max_rows: *max_rows, max_bytes: *max_bytes };
                let found = pages(&kept.snapshot, range.clone(), limit).await;
                let expected: Vec<(Key, Value)> = kept
                    .rows
                    .iter()
                    .filter(|(key, _)| range.start <= **key && **key < range.end)
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                assert_eq!(found, expected, "step {index}: {step:?}");
            }
            Step::Commit { on, guards, writes } => {
                let is_fresh = kept.get(*on).is_none();
                let base = kept.get(*on).unwrap_or(&fresh);
                let guards: Vec<Key> = guards.iter().map(|key| model_key(*key)).collect();
                let writes: Vec<Write> =
                    writes.iter().map(|(key, value)| model_write(*key, *value)).collect();
                let outdated = guards
                    .iter()
                    .chain(writes.iter().map(Write::key))
                    .any(|key| changed.get(key).is_some_and(|commit| *commit > base.commits));
                let result = subject.engine().commit(base.snapshot.version(), guards, writes.clone()).await;
                match result {
                    Err(CommitError::Conflict) if outdated || !is_fresh => {}
                    Ok(()) if !outdated => {
                        commits += 1;
                        for write in writes {
                            changed.insert(write.key().clone(), commits);
                            match write {
                                Write::Put(key, value) => drop(model.insert(key, value)),
                                Write::Delete(key) => drop(model.remove(&key)),
                            }
                        }
                    }
                    other => panic!("step {index}: {step:?}: outdated: {outdated}, but {other:?}"),
                }
            }
        }
    }
    let last = snapshot(subject.engine()).await;
    let whole = KeyRange { start: Key::new(), end: vec![0xFF; 8].into() };
    assert!(pages(&last, whole.clone(), ALL).await.into_iter().eq(model), "at the end");
    for kept in kept {
        assert!(pages(&kept.snapshot, whole.clone(), ALL).await.into_iter().eq(kept.rows), "a kept snapshot");
    }
}

/// Keys of several lengths, some the beginning of others.
fn model_key(number: u8) -> Key {
    let mut key = vec![number >> 4; usize::from(number & 3) + 1];
    key.push(number);
    key.into()
}

fn model_write(key: u8, value: Option<u16>) -> Write {
    match value {
        Some(length) => Write::Put(model_key(key), vec![key; usize::from(length)].into()),
        None => Write::Delete(model_key(key)),
    }
}

async fn pages<S: Snapshot>(snapshot: &S, mut range: KeyRange, limit: ScanLimit) -> Vec<(Key, Value)> {
    let mut found = Vec::new();
    loop {
        let page = snapshot.scan(&range, limit).await.expect("a page can be read");
        let bytes: usize = page.rows.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(page.rows.len() <= limit.max_rows.max(1), "too many rows");
        assert!(page.rows.len() <= 1 || bytes <= limit.max_bytes, "too many bytes");
        assert!(!page.rows.is_empty() || page.next.is_none(), "no progress");
        found.extend(page.rows);
        match page.next {
            Some(next) => range.start = next,
            None => return found,
        }
    }
}

async fn snapshot<E: Engine>(engine: &E) -> E::Snapshot {
    engine.snapshot().await.expect("a snapshot can be taken")
}

async fn get<S: Snapshot>(snapshot: &S, key: &str) -> Option<Value> {
    snapshot.get(key.as_bytes()).await.expect("a row can be read")
}

async fn rows<S: Snapshot>(snapshot: &S, start: &str) -> Vec<(Key, Value)> {
    snapshot.scan(&prefix(start), ALL).await.expect("rows can be read").rows
}

/// Commits on fresh snapshots until it succeeds.
async fn commit<E: Engine>(engine: &E, writes: Vec<Write>) -> Version {
    loop {
        let at = snapshot(engine).await.version();
        match engine.commit(at, vec![], writes.clone()).await {
            Ok(()) => return at,
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
