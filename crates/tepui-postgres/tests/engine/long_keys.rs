//! Keys that are longer than an index takes, against a `BTreeMap`.

use crate::shared::{commit, engine, put};
use std::collections::BTreeMap;
use tepui_postgres_testing::{PostgresServer, is_skipped};
use tepui_storage::{Commit, Engine, Guard, Key, KeyRange, ScanLimit, Snapshot, Transaction, Value, Write};

/// Keys around the length at which they are split, some the beginning of others, and a few as long as may be.
fn random_key(random: &mut fastrand::Rng) -> Key {
    let length = match random.u8(..10) {
        0 => random.usize(1..50),
        1 => random.usize(65_000..=65_535),
        2..5 => random.usize(1990..=2000),
        _ => random.usize(2000..=2010),
    };
    let mut key = vec![7; length];
    key[0] = random.u8(..2);
    for _ in 0..random.usize(..3) {
        let at = length.saturating_sub(1 + random.usize(..12));
        key[at] = random.u8(6..9);
    }
    key.into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_keys_are_found_and_ordered_as_short_ones() {
    if is_skipped() {
        return;
    }
    let engine = engine(PostgresServer::shared()).await;
    let mut random = fastrand::Rng::with_seed(fastrand::u64(..));
    let seed = random.get_seed();
    let mut model: BTreeMap<Key, Value> = BTreeMap::new();
    for _ in 0..40 {
        let writes: Vec<Write> = (0..20)
            .map(|_| {
                let known = (!model.is_empty() && random.bool()).then(|| random.usize(..model.len()));
                let key = match known.and_then(|index| model.keys().nth(index)) {
                    Some(key) => key.clone(),
                    None => random_key(&mut random),
                };
                match random.u8(..4) {
                    0 => Write::Delete(key),
                    _ => put(key, vec![random.u8(..); random.usize(..300)]),
                }
            })
            .collect();
        for write in &writes {
            match write {
                Write::Put(key, value) => drop(model.insert(key.clone(), value.clone())),
                Write::Delete(key) => drop(model.remove(key)),
            }
        }
        let transaction = engine.begin().await.expect("it asks nothing");
        let guards = vec![Guard::Shared(random_key(&mut random)), Guard::Unchanged(random_key(&mut random))];
        transaction.commit(Commit::new(guards, writes)).await.expect("nobody else writes");

        let transaction = engine.begin().await.expect("it asks nothing");
        let (mut start, mut end) = (random_key(&mut random), random_key(&mut random));
        if start > end {
            std::mem::swap(&mut start, &mut end);
        }
        let limit = ScanLimit { max_rows: random.usize(1..40), max_bytes: random.usize(..200_000) };
        let (mut range, mut found) = (KeyRange { start: start.clone(), end: end.clone() }, Vec::new());
        loop {
            let page = transaction.scan(&range, limit).await.expect("it can be read");
            let bytes: usize = page.rows.iter().map(|(key, value)| key.len() + value.len()).sum();
            assert!(page.rows.len() <= limit.max_rows && (page.rows.len() <= 1 || bytes <= limit.max_bytes));
            found.extend(page.rows);
            let Some(next) = page.next else { break };
            range.start = next;
        }
        let expected = model.range(start..end).map(|(key, value)| (key.clone(), value.clone()));
        assert!(found.into_iter().eq(expected), "seed {seed}");
        let asked: Vec<Key> = model.keys().take(30).cloned().chain([random_key(&mut random)]).collect();
        let values = transaction.get_many(&asked).await.expect("it can be read");
        assert!(values.into_iter().eq(asked.iter().map(|key| model.get(key).cloned())), "seed {seed}");
    }
    // Part of a group of keys that share what is indexed.
    let middle = Key::from(vec![1, 7]).to_vec();
    let cut = KeyRange { start: [&middle[..], &[7; 2000]].concat().into(), end: vec![2].into() };
    engine.reclaim(cut.clone()).await.expect("it can be removed");
    model.retain(|key, _| !cut.contains(key));
    let all = KeyRange { start: Key::new(), end: vec![0xFF].into() };
    let limit = ScanLimit { max_rows: usize::MAX, max_bytes: usize::MAX };
    let left =
        engine.begin().await.expect("it asks nothing").scan(&all, limit).await.expect("it can be read");
    assert!(left.rows.into_iter().eq(model), "seed {seed}");
}

#[tokio::test]
async fn thousands_of_rows_are_read_and_reclaimed() {
    if is_skipped() {
        return;
    }
    let engine = engine(PostgresServer::shared()).await;
    let key = |number: usize| Key::from(format!("{number:06}"));
    for part in 0..4 {
        let rows = (0..1500).map(|number| put(key(part * 1500 + number), "x")).collect::<Vec<_>>();
        commit(&engine, rows).await.expect("nobody else writes");
    }
    let all = KeyRange { start: Key::new(), end: vec![0xFF].into() };
    for (max_rows, rows) in [(usize::MAX, 6000), (2500, 2500), (3000, 3000), (6000, 6000), (1, 1), (0, 1)] {
        let limit = ScanLimit { max_rows, max_bytes: usize::MAX };
        let transaction = engine.begin().await.expect("it asks nothing");
        let page = transaction.scan(&all, limit).await.expect("it can be read");
        assert_eq!((page.rows.len(), page.next), (rows, (rows < 6000).then(|| key(rows))));
    }
    engine.reclaim(KeyRange { start: key(1000), end: key(5500) }).await.expect("it can be removed");
    let limit = ScanLimit { max_rows: usize::MAX, max_bytes: usize::MAX };
    let page =
        engine.begin().await.expect("it asks nothing").scan(&all, limit).await.expect("it can be read");
    assert_eq!(page.rows.len(), 1500);
}
