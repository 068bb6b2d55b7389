//! Pipelines of commits: those that last, and those that end with what was submitted together.

use super::{Run, Verdict};
use crate::{Commit, CommitError, CommitPipeline, Engine, Guard, Snapshot, StorageErrorKind, Transaction};

pub(super) async fn commits_of_a_pipeline_depend_on_each_other<E: Engine>(run: &Run<'_, E>) -> Verdict {
    let accepted = commits_that_depend_on_each_other(run).await?;
    assert_eq!(accepted, 50, "{}: one after the other", run.prefix);
    Ok(())
}

/// The pipeline may end before all are submitted, but not before the first.
pub(super) async fn commits_before_the_end_of_a_pipeline_depend_on_each_other<E: Engine>(
    run: &Run<'_, E>,
) -> Verdict {
    let accepted = commits_that_depend_on_each_other(run).await?;
    assert!(accepted > 0, "{}: none is accepted", run.prefix);
    Ok(())
}

/// Returns how many of 50 were accepted. Those after them conflict.
async fn commits_that_depend_on_each_other<E: Engine>(run: &Run<'_, E>) -> Verdict<usize> {
    run.put("guard", "0").await?;
    let (ours, other) = (run.pipeline().await?, run.pipeline().await?);
    let stale = run.begin().await?;
    // All of them are queued before the first is awaited.
    let mut answers = Vec::new();
    for number in 0..50 {
        let text = number.to_string();
        let writes = vec![
            run.write("rows/same", &text),
            run.write(&format!("rows/{number:02}"), &text),
            run.delete(&format!("rows/{:02}", number / 2)),
        ];
        answers.push(ours.submit(Commit::new(vec![Guard::Shared(run.key("guard"))], writes)));
    }
    let mut accepted = 0;
    for (number, answer) in answers.into_iter().enumerate() {
        match answer.await {
            Err(CommitError::Conflict) if ours.is_ended() && !run.may_fail => {}
            outcome => {
                run.accepted(outcome, "one after the other")?;
                assert_eq!(accepted, number, "what is accepted is a prefix");
                accepted += 1;
            }
        }
    }
    if accepted == 0 {
        return Ok(0);
    }
    let rival = other.submit(vec![run.write("rows/same", "rival")].into()).await;
    run.conflicted(rival, "another pipeline is another writer")?;
    let now = run.begin().await?;
    assert_eq!(run.get(&now, "rows/same").await?, Some((accepted - 1).to_string().into()));
    let left = run.rows(&now, "rows/").await?;
    assert_eq!(left.len(), 1 + accepted / 2, "each commit saw what those before it had left: {left:?}");
    let alone = stale.commit(vec![run.write("rows/same", "")].into()).await;
    run.conflicted(alone, "what a pipeline has written has changed")?;
    Ok(accepted)
}

pub(super) async fn a_pipeline_reads_the_state_that_it_began_with<E: Engine>(run: &Run<'_, E>) -> Verdict {
    run.put("a", "1").await?;
    let base = run.pipeline().await?;
    // Nobody polls it: it takes effect nevertheless, before those after it.
    let ignored = base.submit(vec![run.write("a", "2"), run.write("b", "2")].into());
    drop(ignored);
    run.accepted(base.submit(Commit::default()).await, "all before it are durable")?;
    assert_eq!(run.rows(&base, "").await?, run.pairs(&[("a", "1")]));
    let both = [run.key("b"), run.key("a")];
    let found = run.done(base.get_many(&both).await)?;
    assert_eq!(found, [None, Some("1".into())]);
    assert_eq!(run.rows_now("").await?.len(), 2);
    assert!(!base.is_ended());
    Ok(())
}

pub(super) async fn a_poisoned_pipeline_leaves_a_prefix<E: Engine>(run: &Run<'_, E>) -> Verdict {
    let first = run.pipeline().await?;
    let next = |text: &str, guard: &str| {
        let writes = vec![run.write("same", text), run.write(text, "")];
        first.submit(Commit::new(vec![Guard::Unchanged(run.key(guard))], writes))
    };
    run.accepted(next("1", "guard").await, "the first")?;
    run.put("guard", "changed").await?;
    let answers = [next("2", "other"), next("3", "guard"), next("4", "other"), next("5", "same")];
    let [second, third, fourth, fifth] = answers;
    run.accepted(second.await, "its guard is as it was")?;
    run.conflicted(third.await, "its guard has changed")?;
    run.conflicted(fourth.await, "it depends on one that failed")?;
    run.conflicted(fifth.await, "so does the last")?;
    assert!(first.is_ended());
    assert_eq!(run.get_now("same").await?, Some("2".into()));
    // A write of others in between conflicts, although the pipeline wrote the key before.
    let second = run.pipeline().await?;
    let write_same = |text| second.submit(vec![run.write("same", text)].into());
    run.accepted(write_same("6").await, "nobody else")?;
    run.put("same", "theirs").await?;
    run.conflicted(write_same("7").await, "somebody else")?;
    assert_eq!(run.get_now("same").await?, Some("theirs".into()));
    Ok(())
}

pub(super) async fn a_pipeline_reads_the_state_that_it_began_with_until_it_ends<E: Engine>(
    run: &Run<'_, E>,
) -> Verdict {
    run.put("a", "1").await?;
    let base = run.pipeline().await?;
    run.put("a", "theirs").await?;
    assert_eq!(run.rows(&base, "").await?, run.pairs(&[("a", "1")]));
    assert!(!base.is_ended());
    // Nobody polls it: it takes effect nevertheless, before those after it.
    let ignored = base.submit(vec![run.write("b", "2")].into());
    drop(ignored);
    let nothing = base.submit(Commit::default()).await;
    run.accepted(nothing, "all before it are durable")?;
    assert_eq!(run.rows_now("").await?, run.pairs(&[("a", "theirs"), ("b", "2")]));
    assert!(base.is_ended());
    let late = [run.key("a")];
    let found = base.get_many(&late).await.map_err(|error| error.kind());
    assert_eq!(found, Err(StorageErrorKind::TooOld));
    let nothing = base.submit(Commit::default()).await;
    run.accepted(nothing, "all before it are durable still")
}

pub(super) async fn an_ended_pipeline_leaves_a_prefix<E: Engine>(run: &Run<'_, E>) -> Verdict {
    let first = run.pipeline().await?;
    let next = |text: &str, guard: &str| {
        let writes = vec![run.write("same", text), run.write(text, "")];
        Commit::new(vec![Guard::Unchanged(run.key(guard))], writes)
    };
    run.accepted(first.submit(next("1", "guard")).await, "the first")?;
    run.conflicted(first.submit(next("2", "other")).await, "it has ended")?;
    assert!(first.is_ended());
    assert_eq!(run.get_now("same").await?, Some("1".into()));
    // What is submitted together with one that conflicts may conflict as well.
    let second = run.pipeline().await?;
    run.put("guard", "changed").await?;
    let answers = [("3", "other"), ("4", "guard"), ("5", "other")]
        .map(|(text, guard)| second.submit(next(text, guard)));
    let [third, fourth, fifth] = answers;
    let is_there = match third.await {
        Err(CommitError::Conflict) => false,
        outcome => run.accepted(outcome, "its guard is as it was").map(|()| true)?,
    };
    run.conflicted(fourth.await, "its guard has changed")?;
    run.conflicted(fifth.await, "it depends on one that failed")?;
    assert!(second.is_ended());
    let same = if is_there { "3" } else { "1" };
    assert_eq!(run.get_now("same").await?, Some(same.into()));
    // A write of others conflicts.
    let third = run.pipeline().await?;
    run.put("same", "theirs").await?;
    run.conflicted(third.submit(next("6", "other")).await, "somebody else")?;
    assert_eq!(run.get_now("same").await?, Some("theirs".into()));
    Ok(())
}
