//! Pipelines of commits.

use super::{begin, delete, get, pairs, pipeline, put, rows, write};
use crate::{Commit, CommitError, CommitPipeline, Engine, Guard, Snapshot, Transaction};

pub(super) async fn commits_of_a_pipeline_depend_on_each_other<E: Engine>(engine: &E) {
    put(engine, "pipeline/guard", "0").await;
    let (ours, other) = (pipeline(engine).await, pipeline(engine).await);
    let stale = begin(engine).await;
    // All of them are queued before the first is awaited.
    let mut answers = Vec::new();
    for number in 0..50 {
        let text = number.to_string();
        let writes = vec![
            write("pipeline/same", &text),
            write(&format!("pipeline/{number:02}"), &text),
            delete(&format!("pipeline/{:02}", number / 2)),
        ];
        answers.push(ours.submit(Commit::new(vec![Guard::Shared("pipeline/guard".into())], writes)));
    }
    for answer in answers {
        assert_eq!(answer.await, Ok(()));
    }
    let rival = other.submit(vec![write("pipeline/same", "rival")].into()).await;
    assert_eq!(rival, Err(CommitError::Conflict), "another pipeline is another writer");
    let now = begin(engine).await;
    assert_eq!(get(&now, "pipeline/same").await, Some("49".into()));
    let left = rows(&now, "pipeline/").await;
    assert_eq!(left.len(), 2 + 25, "each commit saw what those before it had left: {left:?}");
    let alone = stale.commit(vec![write("pipeline/same", "")].into()).await;
    assert_eq!(alone, Err(CommitError::Conflict), "what a pipeline has written has changed");
}

pub(super) async fn a_pipeline_reads_the_state_that_it_began_with<E: Engine>(engine: &E) {
    put(engine, "base/a", "1").await;
    let base = pipeline(engine).await;
    // Nobody polls it: it takes effect nevertheless, before those after it.
    let ignored = base.submit(vec![write("base/a", "2"), write("base/b", "2")].into());
    drop(ignored);
    let nothing = base.submit(Commit::default()).await;
    assert_eq!(nothing, Ok(()), "all before it are durable");
    assert_eq!(rows(&base, "base/").await, pairs(&[("base/a", "1")]));
    assert_eq!(base.get_many(&["base/b".into(), "base/a".into()]).await, Ok(vec![None, Some("1".into())]));
    assert_eq!(rows(&begin(engine).await, "base/").await.len(), 2);
    assert!(!base.is_poisoned());
}

pub(super) async fn a_poisoned_pipeline_leaves_a_prefix<E: Engine>(engine: &E) {
    let first = pipeline(engine).await;
    let next = |text: &str, guard: &'static str| {
        let writes = vec![write("poisoned/same", text), write(text, "")];
        first.submit(Commit::new(vec![Guard::Unchanged(guard.into())], writes))
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
    assert!(first.is_poisoned());
    assert_eq!(get(&begin(engine).await, "poisoned/same").await, Some("poisoned/2".into()));
    // A write of others in between conflicts, although the pipeline wrote the key before.
    let second = pipeline(engine).await;
    let write_same = |text| second.submit(vec![write("poisoned/same", text)].into());
    assert_eq!(write_same("6").await, Ok(()));
    put(engine, "poisoned/same", "theirs").await;
    assert_eq!(write_same("7").await, Err(CommitError::Conflict));
    assert_eq!(get(&begin(engine).await, "poisoned/same").await, Some("theirs".into()));
}
