//! How often a call waits for the server.

use crate::shared::{commit, engine, put};
use tepui_postgres::PostgresEngine;
use tepui_postgres_testing::{PostgresServer, is_skipped};
use tepui_storage::{
    Commit, CommitPipeline, Engine, Guard, Key, KeyRange, ScanLimit, Snapshot, Transaction, Write,
};

/// What some work costs.
async fn cost<T>(engine: &PostgresEngine, work: impl Future<Output = T>) -> (u64, T) {
    let before = engine.stats().round_trips.get();
    let done = work.await;
    (engine.stats().round_trips.get() - before, done)
}

fn key(number: usize) -> Key {
    format!("row/{number:05}").into()
}

#[tokio::test]
async fn calls_cost_as_few_round_trips_as_they_can() {
    if is_skipped() {
        return;
    }
    let engine = engine(PostgresServer::shared()).await;
    let rows: Vec<Write> = (0..1500).map(|number| put(key(number), "x".repeat(50))).collect();
    commit(&engine, rows).await.expect("nobody else writes");

    let (trips, found) = cost(&engine, engine.get_many(&[key(1), key(9999)])).await;
    assert!(trips == 1 && found.is_ok_and(|found| found[0].is_some() && found[1].is_none()));

    let (trips, _) = cost(&engine, async { drop(engine.begin().await) }).await;
    assert_eq!(trips, 0, "a transaction that reads nothing asks nothing");

    let (trips, ()) = cost(&engine, async {
        let transaction = engine.begin().await.expect("it asks nothing");
        assert!(transaction.get(&key(1)).await.is_ok_and(|found| found.is_some()));
    })
    .await;
    assert_eq!(trips, 1, "BEGIN goes together with the first read");

    let (trips, ()) = cost(&engine, async {
        let transaction = engine.begin().await.expect("it asks nothing");
        let range = KeyRange { start: key(0), end: key(1000) };
        let (keys, limit) = ([key(1), key(2)], ScanLimit { max_rows: 1000, max_bytes: 1 << 20 });
        let (first, second, third) = tokio::join!(
            transaction.get(&keys[0]),
            transaction.get_many(&keys),
            transaction.scan(&range, limit)
        );
        assert!(first.is_ok() && second.is_ok());
        assert!(third.is_ok_and(|page| page.rows.len() == 1000 && page.next.is_none()));
    })
    .await;
    assert_eq!(trips, 1, "what is read at once is one round trip, also a page of 1,000 rows");

    let (trips, outcome) = cost(&engine, async {
        let transaction = engine.begin().await?;
        let found = transaction.get_many(&[key(1), "table".into()]).await?;
        assert_eq!(found.len(), 2);
        let guards = vec![Guard::Shared("table".into()), Guard::Unchanged("blob".into())];
        let writes =
            vec![put(key(1), "new"), put(key(2000), "new"), Write::Delete(key(2)), Write::Delete(key(2001))];
        transaction.commit(Commit::new(guards, writes)).await
    })
    .await;
    assert_eq!((trips, outcome), (2, Ok(())), "a read and a commit");

    let (trips, outcome) = cost(&engine, commit(&engine, vec![put(key(1), "newer")])).await;
    assert_eq!((trips, outcome), (2, Ok(())), "a commit alone is sent when the transaction has begun");

    let (trips, ()) = cost(&engine, async {
        let pipeline = engine.begin_pipeline().await.expect("it asks nothing");
        assert!(pipeline.get(&key(1)).await.is_ok());
        let submitted: Vec<_> =
            (0..20).map(|number| pipeline.submit(vec![put(key(3000 + number), "m")].into())).collect();
        for outcome in submitted {
            assert_eq!(outcome.await, Ok(()));
        }
    })
    .await;
    assert_eq!(trips, 2, "what is submitted together is one commit");
    let stats = engine.stats();
    assert_eq!((stats.connects.get() >= 1, stats.unavailable.get()), (true, 0));
    assert_eq!(stats.commits.ok.get(), 4);
}
