//! Many writers at once, each of whose commits has a guard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tepui_storage::{Commit, CommitError, Engine, Guard, Key, Snapshot, Transaction, Value, Write};
use tepui_tikv::TikvEngine;

pub(crate) const WRITERS: usize = 16;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowd {
    pub(crate) took: Duration,
    pub(crate) conflicts: u64,
}

/// Lets 16 writers make so many commits each. `guard` is the guard of a writer.
pub(crate) async fn crowd(
    engine: &Arc<TikvEngine>,
    name: &str,
    commits: usize,
    guard: impl Fn(usize) -> Guard + Clone + Send + 'static,
) -> Crowd {
    let conflicts = Arc::new(AtomicU64::new(0));
    for writer in 0..WRITERS {
        put(engine, guard(writer).key().clone(), "table").await;
    }
    let began = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (engine, conflicts, guard) = (Arc::clone(engine), Arc::clone(&conflicts), guard(writer));
            let name = name.to_owned();
            tokio::spawn(async move {
                for number in 0..commits {
                    let key = Key::from(format!("rows/{name}/{writer}/{number}"));
                    loop {
                        let transaction = engine.begin().await.expect("it begins");
                        let keys = [guard.key().clone(), key.clone()];
                        let found = transaction.get_many(&keys).await.expect("it reads");
                        assert_eq!(found, [Some(Value::from_static(b"table")), None]);
                        let writes = vec![Write::Put(key.clone(), Value::from_static(b"entity"))];
                        match transaction.commit(Commit::new(vec![guard.clone()], writes)).await {
                            Ok(()) => break,
                            Err(CommitError::Conflict) => conflicts.fetch_add(1, Ordering::Relaxed),
                            Err(error) => panic!("{error}"),
                        };
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("it does not panic");
    }
    Crowd { took: began.elapsed(), conflicts: conflicts.load(Ordering::Relaxed) }
}

pub(crate) async fn put(engine: &TikvEngine, key: Key, value: &'static str) {
    loop {
        let transaction = engine.begin().await.expect("it begins");
        match transaction.commit(vec![Write::Put(key.clone(), value.into())].into()).await {
            Ok(()) => return,
            Err(CommitError::Conflict) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// 16 writers with one guard are as fast as with 16 guards, at least 0.8 of it. In turns, because the machine has other
/// work; and several times, because that may come in between.
pub(crate) async fn one_guard_is_as_good_as_many(engine: &Arc<TikvEngine>, name: &str, commits: usize) {
    let one = |_| Guard::Shared(Key::from_static(b"guards/one"));
    let many = |writer| Guard::Shared(Key::from(format!("guards/{writer:02}")));
    crowd(engine, &format!("{name}/warm"), 2, many).await;
    let mut ratios = Vec::new();
    for attempt in 0..5 {
        let (mut with_one, mut with_many) = (Duration::ZERO, Duration::ZERO);
        let mut conflicts = 0;
        for turn in 0..3 {
            let of_one = crowd(engine, &format!("{name}/one/{attempt}/{turn}"), commits, one).await;
            let of_many = crowd(engine, &format!("{name}/many/{attempt}/{turn}"), commits, many).await;
            with_one += of_one.took;
            with_many += of_many.took;
            conflicts += of_one.conflicts;
        }
        let ratio = with_many.as_secs_f64() / with_one.as_secs_f64();
        println!(
            "{name}: one guard {with_one:?}, 16 guards {with_many:?}, ratio {ratio:.2}, conflicts {conflicts}"
        );
        if ratio >= 0.8 {
            return;
        }
        ratios.push(ratio);
    }
    panic!("{name}: one guard is slower than many: {ratios:?}");
}
