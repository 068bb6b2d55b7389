//! Pipelines of commits.

use super::{Run, Verdict};
use crate::{Commit, CommitPipeline, Engine, Guard, Snapshot, Transaction};

pub(super) async fn commits_of_a_pipeline_depend_on_each_other<E: Engine>(run: &Run<'_, E>) -> Verdict {
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
    for answer in answers {
        run.accepted(answer.await, "one after the other")?;
    }
    let rival = other.submit(vec![run.write("rows/same", "rival")].into()).await;
    run.conflicted(rival, "another pipeline is another writer")?;
    let now = run.begin().await?;
    assert_eq!(run.get(&now, "rows/same").await?, Some("49".into()));
    let left = run.rows(&now, "rows/").await?;
    assert_eq!(left.len(), 1 + 25, "each commit saw what those before it had left: {left:?}");
    let alone = stale.commit(vec![run.write("rows/same", "")].into()).await;
    run.conflicted(alone, "what a pipeline has written has changed")
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
    assert!(!base.is_poisoned());
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
    assert!(first.is_poisoned());
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
