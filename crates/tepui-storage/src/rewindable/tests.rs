use super::*;
use crate::{MemoryEngine, Write};
use proptest::prelude::*;
use std::collections::BTreeMap;

const WAIT: Duration = Duration::from_secs(10);

type Model = BTreeMap<u8, u8>;

fn engine() -> RewindableEngine<MemoryEngine> {
    RewindableEngine::on(Arc::new(MemoryEngine::new()))
}

fn put(key: u8, value: u8) -> Write {
    Write::Put(Key::copy_from_slice(&[key]), Value::copy_from_slice(&[value]))
}

async fn commit<E: Engine>(engine: &E, writes: Vec<Write>) {
    engine.begin().await.unwrap().commit(writes.into()).await.unwrap();
}

async fn rows<E: Engine>(engine: &E) -> Model {
    let range = KeyRange { start: Key::new(), end: Key::from_static(&[0xFF]) };
    let limit = ScanLimit { max_rows: usize::MAX, max_bytes: usize::MAX };
    let page = engine.begin().await.unwrap().scan(&range, limit).await.unwrap();
    page.rows.into_iter().map(|(key, value)| (key[0], value[0])).collect()
}

async fn take<E: Engine>(engine: &RewindableEngine<E>, name: &str) -> Result<(), SnapshotError> {
    engine.exclusive(WAIT).await.unwrap().take_snapshot(name).await
}

async fn rewind<E: Engine>(engine: &RewindableEngine<E>, name: &str) -> Option<usize> {
    let exactly = |_: &Key, _: Option<&Value>, target: Option<&Value>| {
        Ok::<_, CommitError>(Rewound { value: target.cloned(), also: None })
    };
    engine.exclusive(WAIT).await.unwrap().rewind(name, exactly).await.unwrap()
}

#[derive(Debug, Clone)]
enum Step {
    Write(Vec<(u8, Option<u8>)>),
    Submit(Vec<Vec<(u8, u8)>>),
    Take(u8),
    Rewind(u8),
    Delete(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let writes = prop::collection::vec((0..12u8, prop::option::of(any::<u8>())), 1..5);
    let commits = prop::collection::vec(prop::collection::vec((0..12u8, any::<u8>()), 1..3), 1..4);
    prop_oneof![
        4 => writes.prop_map(Step::Write),
        2 => commits.prop_map(Step::Submit),
        2 => (0..4u8).prop_map(Step::Take),
        3 => (0..4u8).prop_map(Step::Rewind),
        1 => (0..4u8).prop_map(Step::Delete),
    ]
}

async fn follow(steps: Vec<Step>) {
    let engine = engine();
    let (mut model, mut snapshots) = (Model::new(), BTreeMap::<u8, Model>::new());
    for step in steps {
        match step {
            Step::Write(changes) => {
                let write = |(key, value): &(u8, Option<u8>)| match value {
                    Some(value) => put(*key, *value),
                    None => Write::Delete(Key::copy_from_slice(&[*key])),
                };
                commit(&engine, changes.iter().map(write).collect()).await;
                for (key, value) in changes {
                    match value {
                        Some(value) => drop(model.insert(key, value)),
                        None => drop(model.remove(&key)),
                    }
                }
            }
            Step::Submit(commits) => {
                let pipeline = engine.begin_pipeline().await.unwrap();
                for writes in commits {
                    let puts: Vec<Write> = writes.iter().map(|(key, value)| put(*key, *value)).collect();
                    // Not awaited: it happens anyway, and before the next snapshot.
                    drop(pipeline.submit(puts.into()));
                    model.extend(writes);
                }
            }
            Step::Take(name) => {
                let taken = take(&engine, &name.to_string()).await;
                assert_eq!(taken.is_ok(), !snapshots.contains_key(&name));
                snapshots.entry(name).or_insert_with(|| model.clone());
            }
            Step::Rewind(name) => {
                let rewound = rewind(&engine, &name.to_string()).await;
                assert_eq!(rewound.is_some(), snapshots.contains_key(&name));
                model = snapshots.get(&name).unwrap_or(&model).clone();
            }
            Step::Delete(name) => {
                assert_eq!(engine.delete_snapshot(&name.to_string()), snapshots.remove(&name).is_some());
            }
        }
        assert_eq!(rows(&engine).await, model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn snapshots_are_restored_in_any_order(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(follow(steps));
    }
}

#[tokio::test]
async fn what_a_rewind_costs_is_what_was_written_since() {
    let engine = engine();
    for key in 0..200 {
        commit(&engine, vec![put(key, 0)]).await;
    }
    take(&engine, "base").await.unwrap();
    for round in 1..50 {
        commit(&engine, vec![put(round, round), put(round, 77), put(3, round)]).await;
        let keys = if round == 3 { 1 } else { 2 };
        let info = SnapshotInfo { name: "base".to_owned(), written_keys: keys };
        assert_eq!(engine.snapshots(), [info], "earlier rounds are forgotten");
        assert_eq!(rewind(&engine, "base").await, Some(keys));
    }
    assert_eq!(rewind(&engine, "base").await, Some(0));
    assert!(rows(&engine).await.values().all(|value| *value == 0));
}

#[tokio::test]
async fn what_began_before_a_rewind_commits_nothing_after_it() {
    let engine = engine();
    take(&engine, "base").await.unwrap();
    let transaction = engine.begin().await.unwrap();
    let pipeline = engine.begin_pipeline().await.unwrap();
    commit(&engine, vec![put(1, 1)]).await;
    assert!(!pipeline.is_ended());
    rewind(&engine, "base").await;
    assert_eq!(transaction.commit(vec![put(2, 2)].into()).await, Err(CommitError::Conflict));
    assert!(pipeline.is_ended());
    assert_eq!(pipeline.submit(vec![put(3, 3)].into()).await, Err(CommitError::Conflict));
    assert_eq!(rows(&engine).await, Model::new());
}

#[tokio::test]
async fn a_pipeline_that_was_refused_once_stays_so() {
    let engine = engine();
    let pipeline = engine.begin_pipeline().await.unwrap();
    let alone = engine.exclusive(WAIT).await.unwrap();
    assert_eq!(pipeline.submit(vec![put(1, 1)].into()).await, Err(CommitError::Conflict));
    drop(alone);
    assert_eq!(pipeline.submit(vec![put(2, 2)].into()).await, Err(CommitError::Conflict));
    assert!(pipeline.is_ended());
    assert_eq!(rows(&engine).await, Model::new());
}

#[tokio::test]
async fn a_rewind_decides_about_each_key() {
    let engine = engine();
    commit(&engine, vec![put(1, 1), put(2, 2), put(3, 3)]).await;
    take(&engine, "base").await.unwrap();
    commit(&engine, vec![put(1, 10), put(2, 20), put(3, 30), put(4, 40)]).await;
    let decide = |key: &Key, now: Option<&Value>, target: Option<&Value>| {
        Ok::<_, CommitError>(match key[0] {
            1 => Rewound { value: now.cloned(), also: None },
            2 => Rewound { value: Some(Value::from_static(&[99])), also: None },
            4 => Rewound { value: None, also: Some(put(5, 5)) },
            _ => Rewound { value: target.cloned(), also: None },
        })
    };
    let alone = engine.exclusive(WAIT).await.unwrap();
    assert_eq!(alone.rewind("base", decide).await, Ok(Some(4)));
    drop(alone);
    assert_eq!(rows(&engine).await, Model::from([(1, 10), (2, 99), (3, 3), (5, 5)]));
    assert_eq!(rewind(&engine, "base").await, Some(3), "what was not restored is still known to differ");
    assert_eq!(rows(&engine).await, Model::from([(1, 1), (2, 2), (3, 3)]));
}

#[tokio::test]
async fn nothing_is_reclaimed_while_there_are_snapshots() {
    let engine = engine();
    commit(&engine, vec![put(1, 1)]).await;
    take(&engine, "base").await.unwrap();
    let range = KeyRange { start: Key::new(), end: Key::from_static(&[9]) };
    assert!(engine.reclaim(range.clone()).await.is_err());
    assert_eq!(rows(&engine).await.len(), 1);
    assert!(engine.delete_snapshot("base"));
    assert_eq!(engine.reclaim(range).await, Ok(()));
    assert!(rows(&engine).await.is_empty());
}

#[tokio::test]
async fn the_number_of_snapshots_is_limited() {
    let engine = engine();
    for number in 0..MAX_SNAPSHOTS {
        take(&engine, &number.to_string()).await.unwrap();
    }
    assert!(matches!(take(&engine, "one more").await, Err(SnapshotError::TooMany)));
    assert!(matches!(take(&engine, "0").await, Err(SnapshotError::Exists)));
}

#[tokio::test(start_paused = true)]
async fn exclusive_access_is_waited_for_so_long() {
    let engine = engine();
    let alone = engine.exclusive(WAIT).await.unwrap();
    let refused = engine.exclusive(WAIT).await.err().map(|error| error.kind());
    assert_eq!(refused, Some(crate::StorageErrorKind::Unavailable));
    drop(alone);
    assert!(engine.exclusive(WAIT).await.is_ok());
    let off = RewindableEngine::off(Arc::new(MemoryEngine::new()));
    assert!(off.exclusive(WAIT).await.is_err());
}
