//! Many clients at once: no update is lost, no batch is seen in part, no page skips or repeats.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use support::Server;
use support::http::Client;
use support::random::Random;
use support::table::{Applied, Change, Properties, entity_path, properties, time_of};
use tempfile::TempDir;

const TABLE: &str = "Shared";
const CLIENTS: usize = 32;

/// Runs `check` on a server in memory and on one with a disk: they differ in how they commit.
fn on_each_server(check: impl Fn(&Server)) {
    let data = TempDir::new().unwrap();
    for server in [Server::in_memory(&[]), Server::on_disk(data.path())] {
        server.client().create_table(TABLE);
        check(&server);
    }
}

/// Starts all clients at the same time; returns their results.
fn all_at_once<T: Send>(server: &Server, work: impl Fn(usize, Client) -> T + Sync) -> Vec<T> {
    let (barrier, work) = (&Barrier::new(CLIENTS), &work);
    std::thread::scope(|scope| {
        let start = |number| {
            let client = server.client();
            scope.spawn(move || {
                barrier.wait();
                work(number, client)
            })
        };
        let threads: Vec<_> = (0..CLIENTS).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn a_counter_with_conditional_updates_loses_nothing() {
    const INCREMENTS: usize = 8;
    on_each_server(|server| {
        let mut client = server.client();
        let zero = Change::new("POST", "counter", properties(json!({"Value": 0})));
        assert_eq!(client.change(TABLE, "p", &zero).unwrap().status, 204);
        let refused: usize = all_at_once(server, |_, mut client| {
            let mut refused = 0;
            for _ in 0..INCREMENTS {
                while !increment(&mut client) {
                    refused += 1;
                }
            }
            refused
        })
        .into_iter()
        .sum();
        let counter = client.get(TABLE, "p", "counter").unwrap().unwrap();
        println!("{} increments, {refused} refused and tried again", CLIENTS * INCREMENTS);
        assert_eq!(counter["Value"], CLIENTS * INCREMENTS);
        assert!(refused > 0, "no conflict happened");
    });
}

/// Reads the counter and writes it back, one higher; false if someone else was faster.
fn increment(client: &mut Client) -> bool {
    let counter = client.get(TABLE, "p", "counter").unwrap().unwrap();
    let value = counter["Value"].as_u64().unwrap() + 1;
    let change = Change::new("PUT", "counter", properties(json!({"Value": value})));
    let change = change.if_match(counter["odata.etag"].as_str().unwrap());
    let reply = client.change(TABLE, "p", &change).unwrap();
    assert!([204, 412].contains(&reply.status), "{}: {}", reply.status, reply.text());
    reply.status == 204
}

#[test]
fn a_hot_entity_takes_every_merge_and_its_etags_rise() {
    const MERGES: usize = 15;
    on_each_server(|server| {
        let etags = all_at_once(server, |number, mut client| {
            let merge = |count: usize| {
                let mine = Properties::from_iter([(format!("Client{number}"), json!(count))]);
                let reply = client.change(TABLE, "p", &Change::new("MERGE", "hot", mine)).unwrap();
                assert_eq!(reply.status, 204, "{}", reply.text());
                time_of(&reply.etag())
            };
            let etags: Vec<String> = (1..=MERGES).map(merge).collect();
            assert!(etags.is_sorted_by(|earlier, later| earlier < later), "{etags:?}");
            etags
        });
        let distinct: BTreeSet<&String> = etags.iter().flatten().collect();
        assert_eq!(distinct.len(), CLIENTS * MERGES);
        let hot = server.client().get(TABLE, "p", "hot").unwrap().unwrap();
        let last = time_of(hot["odata.etag"].as_str().unwrap());
        assert_eq!(Some(&&last), distinct.last());
        for number in 0..CLIENTS {
            assert_eq!(hot[&format!("Client{number}")], MERGES, "a merge was lost");
        }
    });
}

#[test]
fn of_many_that_do_what_only_one_can_one_succeeds() {
    on_each_server(|server| {
        for round in 0..5 {
            let row = format!("r{round}");
            let insert = Change::new("POST", row.as_str(), Properties::new());
            let etag = {
                let statuses =
                    all_at_once(server, |_, mut client| client.change(TABLE, "p", &insert).unwrap().status);
                assert_one(&statuses, 409);
                server.client().get(TABLE, "p", &row).unwrap().unwrap()["odata.etag"].clone()
            };
            let delete = Change::new("DELETE", row.as_str(), Properties::new());
            let delete = delete.if_match(etag.as_str().unwrap());
            let statuses =
                all_at_once(server, |_, mut client| client.change(TABLE, "p", &delete).unwrap().status);
            assert_one(&statuses, 404);
        }
    });
}

/// One 204, and the others were refused in this way.
fn assert_one(statuses: &[u16], refused: u16) {
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!((count(204), count(refused)), (1, CLIENTS - 1), "{statuses:?}");
}

/// Pairs, the two of each far apart in the table, with entities that never change between them.
const PAIRS: usize = 6;
const STILL: usize = 400;

#[test]
fn queries_see_whole_batches_in_order_while_others_write() {
    on_each_server(|server| {
        let mut client = server.client();
        for from in (0..STILL).step_by(100) {
            let still = |n| Change::new("POST", format!("m{n:04}"), Properties::new());
            let changes: Vec<Change> = (from..from + 100).map(still).collect();
            assert!(matches!(client.batch(TABLE, "p", &changes).unwrap(), Applied::All(_)));
        }
        for pair in 0..PAIRS {
            write_pair(&mut client, pair, 0);
        }
        let (done, batches) = (&AtomicBool::new(false), &AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for pair in 0..PAIRS {
                let mut client = server.client();
                scope.spawn(move || {
                    let mut value = 0;
                    while !done.load(Ordering::Relaxed) {
                        value += 1;
                        write_pair(&mut client, pair, value);
                        batches.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for seed in 0..2 {
                let mut client = server.client();
                scope.spawn(move || come_and_go(&mut client, seed, done));
            }
            let readers: Vec<_> = (0..4)
                .map(|number| {
                    let mut client = server.client();
                    scope.spawn(move || match number {
                        0 | 1 => (0..12).for_each(|_| check_one_page(&mut client)),
                        _ => (0..2).for_each(|_| check_all_pages(&mut client)),
                    })
                })
                .collect();
            let outcomes: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
            done.store(true, Ordering::Relaxed);
            outcomes.into_iter().for_each(|outcome| outcome.unwrap());
        });
        let batches = batches.load(Ordering::Relaxed);
        println!("24 whole queries and 4 paged ones during {batches} batches");
        assert!(batches >= PAIRS, "no concurrent writes");
    });
}

/// Sets both of a pair to the same value, in one batch.
fn write_pair(client: &mut Client, pair: usize, value: usize) {
    let half = |side: char| {
        let row = format!("{side}{pair}");
        Change::new("PUT", row, properties(json!({"Value": value})))
    };
    let applied = client.batch(TABLE, "p", &[half('a'), half('z')]).unwrap();
    assert!(matches!(applied, Applied::All(_)), "{applied:?}");
}

/// Inserts and deletes entities that no reader counts on.
fn come_and_go(client: &mut Client, seed: u64, done: &AtomicBool) {
    let mut random = Random::new(seed + 1);
    let mut there: BTreeMap<String, bool> = BTreeMap::new();
    while !done.load(Ordering::Relaxed) {
        let row = format!("m{:04}-{seed}", random.below(STILL));
        let is_there = there.entry(row.clone()).or_default();
        let change = match is_there {
            true => Change::new("DELETE", row, Properties::new()).if_match("*"),
            false => Change::new("POST", row, Properties::new()),
        };
        assert_eq!(client.change(TABLE, "p", &change).unwrap().status, 204);
        *is_there = !*is_there;
    }
}

/// One reply is one snapshot: both of a pair have the same value.
fn check_one_page(client: &mut Client) {
    let filter = "$filter=PartitionKey%20eq%20'p'%20and%20(RowKey%20lt%20'b'%20or%20RowKey%20ge%20'z'%20or%20RowKey%20eq%20'm0001')";
    for options in ["", filter] {
        let (entities, next) = client.page(TABLE, options, "").unwrap();
        assert_eq!(next, None, "it was to fit on one page");
        assert_order(&entities);
        let value = |row: String| {
            let entity = entities.iter().find(|entity| entity["RowKey"] == row);
            entity.unwrap_or_else(|| panic!("no {row}"))["Value"].clone()
        };
        for pair in 0..PAIRS {
            assert_eq!(value(format!("a{pair}")), value(format!("z{pair}")), "half a batch of pair {pair}");
        }
    }
}

/// All pages together have everything that was there all the time, once.
fn check_all_pages(client: &mut Client) {
    let entities = client.query(TABLE, "$top=7").unwrap();
    assert_order(&entities);
    let still = entities.iter().filter(|entity| entity["RowKey"].as_str().unwrap().len() == 5);
    assert_eq!(still.count(), STILL);
    let pairs = entities.iter().filter(|entity| entity.contains_key("Value"));
    assert_eq!(pairs.count(), 2 * PAIRS);
}

fn assert_order(entities: &[Properties]) {
    let rows: Vec<&str> = entities.iter().map(|entity| entity["RowKey"].as_str().unwrap()).collect();
    assert!(rows.is_sorted_by(|earlier, later| earlier < later), "out of order: {rows:?}");
}

#[test]
fn reads_see_every_write_that_was_acknowledged_before() {
    on_each_server(|server| {
        all_at_once(server, |number, mut client| {
            let mut other = server.client();
            for value in 1..=8 {
                let row = format!("own{number}");
                let change = Change::new("PUT", row.as_str(), properties(json!({"Value": value})));
                let etag = client.change(TABLE, "p", &change).unwrap().etag();
                let read = other.get(TABLE, "p", &row).unwrap().unwrap();
                assert_eq!((&read["Value"], &read["odata.etag"]), (&json!(value), &json!(etag)));
            }
            let path = entity_path(TABLE, "p", &format!("own{number}"));
            let gone = client.request("DELETE", &path, &[("If-Match", "*")], b"").unwrap();
            assert_eq!(gone.status, 204);
            assert!(other.get(TABLE, "p", &format!("own{number}")).unwrap().is_none());
        });
    });
}
