//! The suite that every engine passes.
//!
//! [`check`] runs the cases that the contract of [`Engine`] spells out. [`follow`] replays any list
//! of [`Step`]s on an engine and on a plain `BTreeMap`, and panics where they differ; feed it
//! random lists. A new engine needs a [`Subject`] and a test that calls both: see `tests/engine_contract.rs`.

mod history;
mod pipelines;
mod run;

pub use history::{Step, follow};

use crate::{
    Commit, CommitError, Engine, Guard, Key, KeyRange, ScanLimit, Snapshot, Transaction, Value, Write,
};
use run::{Run, Verdict, conclude};

/// Something to test: an engine, and how to close it and open it again.
pub trait Subject {
    type Engine: Engine;

    fn engine(&self) -> &Self::Engine;

    /// Closes the engine and opens it again. An engine that cannot keep its rows stays as it is.
    fn reopen(&mut self);

    /// Whether commits conflict or have an unknown outcome, calls are refused for now, scans end early and transactions become
    /// too old, all without a reason. Cases that end so are then repeated until one of them does not.
    fn fails_at_random(&self) -> bool {
        false
    }

    /// What the engine makes use of that the contract allows.
    fn liberties(&self) -> Liberties {
        Liberties::default()
    }
}

/// What the contract allows, and only some engines do. The others are held to more.
#[derive(Debug, Clone, Copy, Default)]
pub struct Liberties {
    /// A transaction shows the state of its first read, and not that of its beginning.
    pub begins_with_the_first_read: bool,
    /// A pipeline ends when what was submitted together is committed.
    pub ends_pipelines: bool,
    /// A key that was changed and changed back counts as unchanged.
    pub forgets_what_was_changed_back: bool,
}

/// A page without limits that matter.
const ALL: ScanLimit = ScanLimit { max_rows: usize::MAX, max_bytes: usize::MAX };

/// Every case of the contract, one after the other on one engine.
pub async fn check<S: Subject>(subject: &mut S) {
    let engine = subject.engine();
    let (may_fail, ends_pipelines) = (subject.fails_at_random(), subject.liberties().ends_pipelines);
    macro_rules! conclude_all {
        ($($case:path),* $(,)?) => {
            $(conclude(engine, may_fail, stringify!($case), $case).await;)*
        };
    }
    conclude_all![
        a_commit_shows_in_later_transactions_only,
        a_commit_applies_all_or_nothing,
        a_changed_key_conflicts,
        keys_beside_each_other_do_not_conflict,
        the_last_write_of_a_key_wins,
        a_deleted_key_conflicts_and_can_return,
        a_commit_of_nothing_checks_its_guards,
        many_keys_are_read_at_once,
        both_kinds_of_guards_are_kept,
        scans_are_ordered_and_cut_by_rows,
        scans_are_cut_by_bytes_but_return_a_row,
        odd_ranges_are_empty,
        odd_keys_are_refused,
        a_large_value_comes_back,
        reclaim_empties_its_range_only,
        one_of_many_rivals_wins_each_round,
        a_healthy_engine_says_so,
    ];
    if ends_pipelines {
        conclude_all![
            pipelines::commits_before_the_end_of_a_pipeline_depend_on_each_other,
            pipelines::a_pipeline_reads_the_state_that_it_began_with_until_it_ends,
            pipelines::an_ended_pipeline_leaves_a_prefix,
        ];
    } else {
        conclude_all![
            pipelines::commits_of_a_pipeline_depend_on_each_other,
            pipelines::a_pipeline_reads_the_state_that_it_began_with,
            pipelines::a_poisoned_pipeline_leaves_a_prefix,
        ];
    }
    what_was_committed_is_there_after_reopening(subject).await;
}

async fn a_commit_shows_in_later_transactions_only<E: Engine>(run: &Run<'_, E>) -> Verdict {
    let before = run.begin().await?;
    run.put("a", "1").await?;
    let between = run.begin().await?;
    run.put("a", "2").await?;
    run.put("b", "3").await?;
    assert_eq!(run.get(&before, "a").await?, None);
    assert_eq!(run.get(&between, "a").await?, Some("1".into()));
    assert_eq!(run.get(&between, "b").await?, None);
    assert_eq!(run.rows(&between, "").await?, run.pairs(&[("a", "1")]));
    assert_eq!(run.rows_now("").await?, run.pairs(&[("a", "2"), ("b", "3")]));
    Ok(())
}

async fn a_commit_applies_all_or_nothing<E: Engine>(run: &Run<'_, E>) -> Verdict {
    let stale = run.begin().await?;
    run.put("b", "theirs").await?;
    let writes = || vec![run.write("a", "ours"), run.write("b", "ours"), run.write("c", "ours")];
    run.conflicted(stale.commit(writes().into()).await, "one of the keys has changed")?;
    let now = run.begin().await?;
    assert_eq!(run.rows(&now, "").await?, run.pairs(&[("b", "theirs")]));
    run.accepted(now.commit(writes().into()).await, "none has changed")?;
    assert_eq!(run.rows_now("").await?.len(), 3);
    Ok(())
}

async fn a_changed_key_conflicts<E: Engine>(run: &Run<'_, E>) -> Verdict {
    run.put("key", "0").await?;
    let (first, second, third) = (run.begin().await?, run.begin().await?, run.begin().await?);
    run.accepted(first.commit(vec![run.write("key", "1")].into()).await, "the first")?;
    run.conflicted(second.commit(vec![run.write("key", "2")].into()).await, "the second")?;
    run.conflicted(third.commit(vec![run.delete("key")].into()).await, "a deletion")?;
    assert_eq!(run.get_now("key").await?, Some("1".into()));
    Ok(())
}

async fn both_kinds_of_guards_are_kept<E: Engine>(run: &Run<'_, E>) -> Verdict {
    for (kind, guard) in [("unchanged", Guard::Unchanged as fn(Key) -> Guard), ("shared", Guard::Shared)] {
        let key = run.key(&format!("guard/{kind}"));
        let guarded = |name: &str| {
            let name = format!("guarded/{kind}/{name}");
            Commit::new(vec![guard(key.clone())], vec![run.write(&name, "")])
        };
        run.commit(vec![Write::Put(key.clone(), "0".into())]).await?;
        let stale = run.begin().await?;
        // One after the other: two that are under way at once may conflict unless the guard is shared.
        for name in ["1", "2"] {
            let transaction = run.begin().await?;
            assert_eq!(run.done(transaction.get(&key).await)?, Some("0".into()));
            run.accepted(transaction.commit(guarded(name)).await, "a guard is not a write")?;
        }
        run.commit(vec![Write::Put(key.clone(), "1".into())]).await?;
        run.conflicted(stale.commit(guarded("3")).await, "changed")?;
        let stale = run.begin().await?;
        run.commit(vec![Write::Delete(key.clone())]).await?;
        run.conflicted(stale.commit(guarded("4")).await, "deleted")?;
        let absent = run.begin().await?;
        let stale = run.begin().await?;
        run.accepted(absent.commit(guarded("5")).await, "a guard may be on an absent key")?;
        run.commit(vec![Write::Put(key.clone(), "2".into())]).await?;
        run.conflicted(stale.commit(guarded("6")).await, "created")?;
        let written = run.rows_now(&format!("guarded/{kind}/")).await?;
        let expected = ["1", "2", "5"].map(|name| run.key(&format!("guarded/{kind}/{name}")));
        assert!(written.iter().map(|(key, _)| key).eq(expected.iter()), "{kind}: {written:?}");
    }
    // Shared: any number of transactions at once.
    run.put("guard/crowd", "0").await?;
    let mut crowd = Vec::new();
    for number in 0..10 {
        let transaction = run.begin().await?;
        let writes = vec![run.write(&format!("guarded/crowd/{number}"), "")];
        crowd.push((transaction, Commit::new(vec![Guard::Shared(run.key("guard/crowd"))], writes)));
    }
    for (transaction, commit) in crowd {
        run.accepted(transaction.commit(commit).await, "one of many")?;
    }
    Ok(())
}

async fn keys_beside_each_other_do_not_conflict<E: Engine>(run: &Run<'_, E>) -> Verdict {
    let mut transactions = Vec::new();
    for name in ["1", "2", "3"] {
        transactions.push((run.begin().await?, name));
    }
    for (transaction, name) in transactions {
        run.accepted(transaction.commit(vec![run.write(name, "")].into()).await, name)?;
    }
    Ok(())
}

async fn many_keys_are_read_at_once<E: Engine>(run: &Run<'_, E>) -> Verdict {
    let key = |number: usize| run.key(&format!("{number:03}"));
    run.commit((0..200).step_by(2).map(|number| Write::Put(key(number), key(number))).collect()).await?;
    let before = run.begin().await?;
    run.commit((0..200).map(|number| Write::Put(key(number), "new".into())).collect()).await?;
    let after = run.begin().await?;
    // In any order, also twice.
    let asked: Vec<usize> = (0..200).rev().chain([4, 4, 5]).collect();
    let keys: Vec<Key> = asked.iter().copied().map(key).collect();
    let found = run.done(before.get_many(&keys).await)?;
    let expected = asked.iter().map(|number| number.is_multiple_of(2).then(|| key(*number)));
    assert!(found.into_iter().eq(expected), "in the order of the keys");
    let found = run.done(after.get_many(&keys).await)?;
    assert!(found.len() == keys.len() && found.iter().all(|value| value.as_deref() == Some(b"new")));
    assert_eq!(run.done(after.get_many(&[]).await)?, []);
    Ok(())
}

async fn the_last_write_of_a_key_wins<E: Engine>(run: &Run<'_, E>) -> Verdict {
    let writes = vec![
        run.write("a", "1"),
        run.write("b", "1"),
        run.delete("a"),
        run.write("c", "1"),
        run.delete("b"),
        run.write("a", "2"),
    ];
    run.commit(writes).await?;
    assert_eq!(run.rows_now("").await?, run.pairs(&[("a", "2"), ("c", "1")]));
    Ok(())
}

async fn a_deleted_key_conflicts_and_can_return<E: Engine>(run: &Run<'_, E>) -> Verdict {
    run.put("key", "1").await?;
    let stale = run.begin().await?;
    run.commit(vec![run.delete("key")]).await?;
    run.conflicted(stale.commit(vec![run.write("key", "2")].into()).await, "deleted")?;
    assert_eq!(run.get_now("key").await?, None);
    run.put("key", "3").await?;
    assert_eq!(run.get_now("key").await?, Some("3".into()));
    run.commit(vec![run.delete("never there")]).await
}

async fn a_commit_of_nothing_checks_its_guards<E: Engine>(run: &Run<'_, E>) -> Verdict {
    let (first, second) = (run.begin().await?, run.begin().await?);
    run.accepted(first.commit(Commit::default()).await, "nothing at all")?;
    run.put("guard", "").await?;
    let guard = Guard::Unchanged(run.key("guard"));
    run.conflicted(second.commit(Commit::new(vec![guard], vec![])).await, "only a guard")
}

async fn scans_are_ordered_and_cut_by_rows<E: Engine>(run: &Run<'_, E>) -> Verdict {
    let names: Vec<Key> = (0..25).map(|number| run.key(&format!("{number:02}"))).collect();
    run.commit(names.iter().rev().map(|name| Write::Put(name.clone(), "x".into())).collect()).await?;
    let now = run.begin().await?;
    for max_rows in [1, 2, 7, 24, 25, 26, 1000] {
        let mut range = run.range("");
        let mut seen = Vec::new();
        loop {
            let limit = ScanLimit { max_rows, max_bytes: usize::MAX };
            let page = run.done(now.scan(&range, limit).await)?;
            assert!(page.rows.len() <= max_rows, "{max_rows} rows at most");
            seen.extend(page.rows.into_iter().map(|(key, _)| key));
            let Some(next) = page.next else { break };
            assert!(seen.last().is_none_or(|last| *last < next), "the next page starts behind this one");
            range.start = next;
        }
        assert_eq!(seen, names, "pages of {max_rows}");
    }
    Ok(())
}

async fn scans_are_cut_by_bytes_but_return_a_row<E: Engine>(run: &Run<'_, E>) -> Verdict {
    run.commit((0..10).map(|number| run.write(&number.to_string(), &"x".repeat(1000))).collect()).await?;
    let now = run.begin().await?;
    let row_bytes = run.key("0").len() + 1000;
    for (max_bytes, expected) in [
        (0, 1),
        (row_bytes - 1, 1),
        (row_bytes, 1),
        (2 * row_bytes - 1, 1),
        (2 * row_bytes, 2),
        (5 * row_bytes + row_bytes / 2, 5),
        (usize::MAX, 10),
    ] {
        let limit = ScanLimit { max_rows: usize::MAX, max_bytes };
        let next = run.page(&now, &run.range(""), limit, expected).await?;
        assert_eq!(next.is_some(), expected < 10, "{max_bytes} bytes");
    }
    Ok(())
}

async fn odd_ranges_are_empty<E: Engine>(run: &Run<'_, E>) -> Verdict {
    run.put("b", "").await?;
    let now = run.begin().await?;
    let long = Key::from(vec![b'A'; run.engine.limits().max_key_bytes + 10]);
    for (start, end, rows) in [
        (run.key("b"), run.key("b"), 0),
        (run.key("c"), run.key("a"), 0),
        (Key::new(), Key::new(), 0),
        (run.key("b"), run.key("b\0"), 1),
        (run.key("b\0"), run.key("c"), 0),
        (run.key("a"), [&run.key("a")[..], &long].concat().into(), 0),
        ([&run.key("a")[..], &long].concat().into(), run.key("c"), 1),
        ([&run.key("b")[..], &long].concat().into(), run.key("c"), 0),
    ] {
        let range = KeyRange { start, end };
        assert_eq!(run.page(&now, &range, ALL, rows).await?, None);
    }
    Ok(())
}

async fn odd_keys_are_refused<E: Engine>(run: &Run<'_, E>) -> Verdict {
    let max_key_bytes = run.engine.limits().max_key_bytes;
    let key_of = |bytes: usize| {
        let mut key = run.key("").to_vec();
        key.resize(bytes, b'k');
        Key::from(key)
    };
    let longest = key_of(max_key_bytes);
    run.commit(vec![Write::Put(longest.clone(), "v".into())]).await?;
    let now = run.begin().await?;
    assert_eq!(run.done(now.get(&longest).await)?, Some("v".into()));
    run.commit(vec![Write::Delete(longest)]).await?;
    for odd in [Key::new(), key_of(max_key_bytes + 1)] {
        assert_eq!(run.done(now.get(&odd).await)?, None);
        assert_eq!(run.done(now.get_many(std::slice::from_ref(&odd)).await)?, [None]);
        for (why, commit) in [
            ("put", Commit::from(vec![Write::Put(odd.clone(), "v".into())])),
            ("deleted", Commit::from(vec![Write::Delete(odd.clone())])),
            ("guarded", Commit::new(vec![Guard::Unchanged(odd.clone())], vec![])),
            ("guarded by many", Commit::new(vec![Guard::Shared(odd)], vec![])),
        ] {
            run.refused(run.begin().await?.commit(commit).await, why)?;
        }
    }
    Ok(())
}

async fn a_large_value_comes_back<E: Engine>(run: &Run<'_, E>) -> Verdict {
    let value = Value::from((0..2_000_000u32).map(|number| (number % 251) as u8).collect::<Vec<u8>>());
    let (large, empty) = (run.key("large"), run.key("empty"));
    run.commit(vec![Write::Put(large, value.clone()), Write::Put(empty, Value::new())]).await?;
    assert!(run.get_now("large").await? == Some(value));
    assert_eq!(run.get_now("empty").await?, Some(Value::new()));
    Ok(())
}

async fn reclaim_empties_its_range_only<E: Engine>(run: &Run<'_, E>) -> Verdict {
    for group in 0..3 {
        run.commit((0..1000).map(|number| run.write(&format!("{group}/{number:04}"), "x")).collect()).await?;
    }
    for _ in 0..2 {
        // Also twice.
        run.done(run.engine.reclaim(run.range("1/")).await)?;
        let now = run.begin().await?;
        for (group, left) in [("0/", 1000), ("1/", 0), ("2/", 1000)] {
            assert_eq!(run.rows(&now, group).await?.len(), left, "{group}");
        }
    }
    run.done(run.engine.reclaim(run.range("none/")).await)
}

async fn one_of_many_rivals_wins_each_round<E: Engine>(run: &Run<'_, E>) -> Verdict {
    run.put("counter", "0").await?;
    let rival = async || {
        for _ in 0..20 {
            loop {
                let now = run.begin().await?;
                let held = run.get(&now, "counter").await?.expect("the counter is there");
                let held: u32 =
                    std::str::from_utf8(&held).ok().and_then(|text| text.parse().ok()).expect("a number");
                let raised = vec![run.write("counter", &(held + 1).to_string())];
                match now.commit(raised.into()).await {
                    Err(CommitError::Conflict) => {}
                    outcome => break run.accepted(outcome, "it is not a conflict")?,
                }
            }
        }
        Ok(())
    };
    let (first, second, third, fourth, fifth) = tokio::join!(rival(), rival(), rival(), rival(), rival());
    [first, second, third, fourth, fifth].into_iter().collect::<Verdict>()?;
    assert_eq!(run.get_now("counter").await?, Some("100".into()), "no update is lost");
    Ok(())
}

async fn a_healthy_engine_says_so<E: Engine>(run: &Run<'_, E>) -> Verdict {
    run.done(run.engine.health().await)
}

async fn what_was_committed_is_there_after_reopening<S: Subject>(subject: &mut S) {
    let may_fail = subject.fails_at_random();
    loop {
        let run = Run { engine: subject.engine(), prefix: "kept/".to_owned(), may_fail };
        let Ok(before) = rows_to_keep(&run).await else { continue };
        subject.reopen();
        let run = Run { engine: subject.engine(), prefix: "kept/".to_owned(), may_fail };
        if are_kept(&run, before).await.is_ok() {
            return;
        }
    }
}

/// Everything, unless something may happen late.
fn kept_range<E: Engine>(run: &Run<'_, E>) -> KeyRange {
    match run.may_fail {
        true => run.range(""),
        false => KeyRange { start: Key::new(), end: vec![0xFF; 8].into() },
    }
}

async fn rows_to_keep<E: Engine>(run: &Run<'_, E>) -> Verdict<Vec<(Key, Value)>> {
    run.put("key", "1").await?;
    run.rows_of(&run.begin().await?, kept_range(run)).await
}

async fn are_kept<E: Engine>(run: &Run<'_, E>, before: Vec<(Key, Value)>) -> Verdict {
    let after = run.rows_of(&run.begin().await?, kept_range(run)).await?;
    assert!(before == after && !after.is_empty());
    run.put("key", "2").await?;
    assert_eq!(run.get_now("key").await?, Some("2".into()));
    Ok(())
}
