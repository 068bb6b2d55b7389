//! Several servers on one storage, which answer as one.

mod accounts;
mod support;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use support::{Node, Store, ask, config, get, until};
use tepui_client::{DynamicEntity, ETag, EntityKey, ErrorKind, WriteIf};
use tepui_model::time::{MAX_NODES, SystemClock};
use tepui_server::config::{Config, ServiceName};
use tepui_server::{Server, StartError};
use tepui_service::NodeLease;
use tepui_storage::{Engine, Snapshot};
use tokio::task::JoinSet;

fn entity(row: &str, value: i32) -> DynamicEntity {
    DynamicEntity::new("p", row).with("Value", value)
}

fn key(row: &str) -> EntityKey {
    EntityKey::new("p", row)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_node_writes_the_other_reads() {
    let (_, nodes) = Node::two().await;
    let [one, two] = nodes.each_ref().map(|node| node.account().table("People").unwrap());
    one.create().await.unwrap();
    let first = one.insert(&entity("1", 1)).await.unwrap();
    let read = two.get(&key("1")).await.unwrap().unwrap();
    assert_eq!(read.etag, first);
    let second = two.replace(&entity("1", 2), &first).await.unwrap();
    let stale = one.replace(&entity("1", 3), &first).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::Conflict, "{stale}");
    one.replace(&entity("1", 3), &second).await.unwrap();

    two.delete_table().await.unwrap();
    let gone = one.insert(&entity("2", 1)).await.unwrap_err();
    assert_eq!(gone.code(), Some("TableNotFound"), "{gone}");
    one.create().await.unwrap();
    assert!(two.get(&key("1")).await.unwrap().is_none(), "it came back");
    two.insert(&entity("1", 1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_have_different_numbers_and_never_give_an_etag_twice() {
    let (_, nodes) = Node::two().await;
    nodes[0].account().table("People").unwrap().create().await.unwrap();
    let mut numbers = HashSet::new();
    for node in &nodes {
        let table = node.account().table("People").unwrap();
        table.upsert_replace(&entity("number", 1)).await.unwrap();
        let stamp = table.get(&key("number")).await.unwrap().unwrap().timestamp.unwrap();
        numbers.insert(stamp.ticks() % MAX_NODES);
    }
    assert_eq!(numbers.len(), 2, "{numbers:?}");

    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let table = nodes[writer % 2].account().table("People").unwrap();
        writers.spawn(async move {
            let mut etags: Vec<ETag> = Vec::new();
            for value in 0..30 {
                etags.push(table.upsert_replace(&entity("1", value)).await.unwrap());
                if value % 3 == 0 {
                    // Then nothing is stored that the next one would have to be later than.
                    let _ = table.delete(&key("1"), tepui_client::Match::Any).await;
                }
            }
            etags
        });
    }
    let etags: Vec<ETag> = writers.join_all().await.into_iter().flatten().collect();
    let different: HashSet<&str> = etags.iter().map(ETag::as_str).collect();
    assert_eq!(different.len(), 240);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_is_received_once() {
    let (_, nodes) = Node::two().await;
    nodes[0].account().queue("work").unwrap().create_if_missing().await.unwrap();
    let mut senders = JoinSet::new();
    for sender in 0..4 {
        let queue = nodes[sender % 2].account().queue("work").unwrap();
        senders.spawn(async move {
            for number in 0..50 {
                queue.put(format!("{sender}-{number}")).await.unwrap();
            }
        });
    }
    let mut receivers = JoinSet::new();
    for receiver in 0..8 {
        let queue = nodes[receiver % 2].account().queue("work").unwrap();
        receivers.spawn(async move {
            let (mut got, mut empty) = (Vec::new(), 0);
            while empty < 20 {
                let messages = queue.get(4, Duration::from_secs(60)).await.unwrap();
                empty = if messages.is_empty() { empty + 1 } else { 0 };
                for message in messages {
                    assert_eq!(message.dequeue_count, 1);
                    queue.delete(&message).await.unwrap();
                    got.push(message.text);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            got
        });
    }
    senders.join_all().await;
    let mut got: Vec<String> = receivers.join_all().await.into_iter().flatten().collect();
    // Whoever saw an empty queue too often may have left some behind.
    let queue = nodes[1].account().queue("work").unwrap();
    loop {
        let left = queue.get(32, Duration::from_secs(60)).await.unwrap();
        if left.is_empty() {
            break;
        }
        got.extend(left.into_iter().map(|message| message.text));
    }
    assert_eq!(got.len(), 200);
    assert_eq!(got.into_iter().collect::<HashSet<_>>().len(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_of_one_node_is_read_on_the_other() {
    let (_, nodes) = Node::two().await;
    let [one, two] = nodes.each_ref().map(|node| node.account().container("files").unwrap());
    one.create_if_missing().await.unwrap();
    let bytes: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
    for (name, bytes) in [("small", &bytes[..10]), ("large", &bytes)] {
        one.blob(name).unwrap().put(bytes.to_vec(), "text/plain", WriteIf::Absent).await.unwrap();
        assert!(two.blob(name).unwrap().get().await.unwrap().bytes == *bytes, "{name}");
    }
    two.blob("large").unwrap().delete(tepui_client::Match::Any).await.unwrap();
    assert_eq!(one.blob("large").unwrap().get().await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_comes_back_to_a_table_that_was_dropped() {
    let (_, nodes) = Node::two().await;
    let tables = nodes.each_ref().map(|node| node.account().table("People").unwrap());
    for round in 0..10 {
        tables[round % 2].create().await.unwrap();
        let mut writers = JoinSet::new();
        for writer in 0..4 {
            let table = tables[writer % 2].clone();
            writers.spawn(async move {
                for number in 0.. {
                    match table.insert(&entity(&format!("{writer}-{number}"), round as i32)).await {
                        Ok(_) => {}
                        Err(error) if error.code() == Some("TableNotFound") => break,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
        tables[(round + 1) % 2].delete_table().await.unwrap();
        writers.join_all().await;
        tables[round % 2].create().await.unwrap();
        for writer in 0..4 {
            assert!(tables[writer % 2].get(&key(&format!("{writer}-0"))).await.unwrap().is_none(), "{round}");
        }
        tables[round % 2].delete_table().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_ready_only_while_its_store_answers() {
    let (store, nodes) = Node::two().await;
    let metrics = async || get(nodes[0].admin, "/metrics").await.1;
    until("it is ready", async || nodes[0].health().await.0 == 200).await;
    assert!(metrics().await.contains("\ntepui_ready 1\n"));
    store.is_down.store(true, Ordering::Release);
    until("it is not ready", async || nodes[0].health().await.0 == 503).await;
    let (_, said) = nodes[1].health().await;
    until("nor is the other", async || nodes[1].health().await.0 == 503).await;
    assert!(!said.is_empty());
    let (_, said) = nodes[0].health().await;
    assert!(said.contains("somebody pulled the plug"), "{said}");
    assert!(metrics().await.contains("\ntepui_ready 0\n"));
    assert_eq!(get(nodes[0].admin, "/health").await.0, 200, "the process is alive");
    store.is_down.store(false, Ordering::Release);
    until("it is ready again", async || nodes[0].health().await.0 == 200).await;
    nodes[0].account().table("People").unwrap().create().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_is_measured() {
    let (_, nodes) = Node::two().await;
    nodes[0].account().table("People").unwrap().create().await.unwrap();
    let (status, text) = get(nodes[0].admin, "/metrics").await;
    assert_eq!(status, 200);
    for family in [
        "tepui_commits_total counter",
        "tepui_storage_round_trips_total counter",
        "tepui_storage_read_seconds histogram",
        "tepui_storage_commit_seconds histogram",
        "tepui_storage_connects_total counter",
        "tepui_storage_connections_in_use gauge",
        "tepui_storage_unavailable_total counter",
        "tepui_transaction_conflicts_total counter",
        "tepui_unknown_commits_total counter",
    ] {
        assert!(text.contains(&format!("# TYPE {family}\n")), "{family} in {text}");
    }
    let documented = include_str!("../../../../docs/insight.md");
    let words = |text: &'static str| text.split(|other: char| !other.is_ascii_alphanumeric() && other != '_');
    let of_stores = |word: &&str| word.starts_with("tepui_storage_") && *word != "tepui_storage_";
    let documented: HashSet<&str> = words(documented).filter(of_stores).collect();
    let there: HashSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .filter(of_stores)
        .collect();
    assert_eq!(documented, there);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_says_so_first_and_gives_its_number_back() {
    let store = Store::default();
    let config = Config { drain_seconds: 3, ..config() };
    let mut node = Node::start_with(&store, config).await.unwrap();
    let table = node.account().table("People").unwrap();
    table.create().await.unwrap();
    let number = {
        table.insert(&entity("1", 1)).await.unwrap();
        table.get(&key("1")).await.unwrap().unwrap().timestamp.unwrap().ticks() % MAX_NODES
    };
    let began = Instant::now();
    node.stop();
    until("it is not ready", async || {
        node.health().await
            == (503, "{\"status\":\"unavailable\",\"reason\":\"the server is stopping\"}\n".to_owned())
    })
    .await;
    table.insert(&entity("2", 1)).await.expect("it still serves");
    node.stopped().await;
    assert!(
        (Duration::from_secs(3)..Duration::from_secs(15)).contains(&began.elapsed()),
        "{:?}",
        began.elapsed()
    );
    assert!(store.is_closed.load(Ordering::Acquire));
    // A record of version 1, whose owner is nobody.
    let mut row_key = vec![0x46];
    row_key.extend_from_slice(&number.to_be_bytes());
    let row = store.rows.begin().await.unwrap().get(&row_key).await.unwrap().unwrap();
    assert_eq!(row[..17], [&[1][..], &[0; 16]].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_gone_does_not_keep_a_node_from_stopping() {
    let (store, [mut node, _]) = Node::two().await;
    node.account().table("People").unwrap().create().await.unwrap();
    store.is_down.store(true, Ordering::Release);
    let began = Instant::now();
    node.stop();
    node.stopped().await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let store = Store::default();
    let bench = Config { test_bench: true, ..config() };
    let error = Node::start_with(&store, bench).await.err().unwrap();
    assert!(error.to_string().contains("a test bench needs storage of its own"), "{error}");

    let shared = Config {
        storage: "postgres://me:hunter2@db/tepui".parse().ok(),
        blobs: "s3://bucket".parse().ok(),
        ..config()
    };
    let error = Server::start(shared).await.err().unwrap();
    assert!(matches!(error, StartError::Config(_)) && !error.to_string().contains("hunter2"), "{error}");

    let server = Server::start_on(config(), store.shared()).await.unwrap();
    let error = server.checkpoint().await.err().unwrap();
    assert!(error.to_string().contains("`tepui storage copy`"), "{error}");

    let engine = Arc::new(store.rows.clone());
    for owner in 2..=u128::from(MAX_NODES) {
        NodeLease::take(Arc::clone(&engine), Arc::new(SystemClock::new()), owner).await.unwrap();
    }
    let error = Node::start_with(&store, config()).await.err().unwrap();
    assert!(error.to_string().contains("64 nodes use this storage"), "{error}");
}

/// Runs scenarios on a node. Whether all passed.
async fn scenarios(node: &Node, path: &str) -> Result<bool, String> {
    let endpoints = [
        ("--endpoint", node.endpoint(ServiceName::Table)),
        ("--queue-endpoint", node.endpoint(ServiceName::Queue)),
        ("--blob-endpoint", node.endpoint(ServiceName::Blob)),
    ];
    let mut all: Vec<String> =
        endpoints.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
    all.extend(["--brief".to_owned(), "--shared-store".to_owned(), path.to_owned()]);
    tokio::task::spawn_blocking(move || tepui_scenarios::run(all.into_iter())).await.expect("no panic")
}

#[tokio::test(flavor = "multi_thread")]
async fn all_scenarios_pass_on_a_node() {
    let (_, nodes) = Node::two().await;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/scenarios");
    assert_eq!(scenarios(&nodes[0], path).await, Ok(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn service_properties_of_one_node_are_those_of_the_other_within_seconds() {
    const RULES: &str = "## rules: pages of one site may ask
PUT /?restype=service&comp=properties
<StorageServiceProperties><Cors><CorsRule><AllowedMethods>GET</AllowedMethods><AllowedOrigins>http://a.b</AllowedOrigins>\
<AllowedHeaders>*</AllowedHeaders><ExposedHeaders>*</ExposedHeaders><MaxAgeInSeconds>5</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>
=> 202
";
    let (_, nodes) = Node::two().await;
    let headers = "Origin: http://a.b\r\nAccess-Control-Request-Method: GET\r\n";
    let preflight =
        async || ask(nodes[1].address(ServiceName::Table), "OPTIONS /devstoreaccount1/T", headers).await.0;
    assert_eq!(preflight().await, 403, "it knows now that there are no rules");
    let dir = tempfile::tempdir().unwrap();
    // Scenarios know their service by their folder.
    let file = dir.path().join("table").join("rules.http");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, RULES).unwrap();
    assert_eq!(scenarios(&nodes[0], file.to_str().unwrap()).await, Ok(true));
    let changed = Instant::now();
    until("the other node knows the rules", async || preflight().await == 200).await;
    assert!(changed.elapsed() < Duration::from_secs(6), "{:?}", changed.elapsed());
}
