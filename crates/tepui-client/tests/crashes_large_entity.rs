//! Writers of large values that are killed: real processes, ended before and after each of their requests, with and without
//! lost answers. A link never lacks its blob, and in the end there are as many blobs as links.
//!
//! The program runs itself as the writer, with what to do in environment variables.

#![expect(clippy::unwrap_used, reason = "a test may")]

#[path = "client/support.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod support;

use std::collections::BTreeSet;
use std::env;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use support::{TestServer, key};
use tepui_client::patterns::large_entity::LargeValues;
use tepui_client::{Account, AccountBuilder, DynamicEntity, Retry};

const CONNECTION: &str = "TEPUI_TEST_WRITER_CONNECTION";
const ROW: &str = "TEPUI_TEST_WRITER_ROW";
const ABORT_AFTER: &str = "TEPUI_TEST_WRITER_ABORT_AFTER";
const FOREVER: &str = "TEPUI_TEST_WRITER_FOREVER";

const COMMIT_WITHIN: Duration = Duration::from_secs(2);
/// What a writer does: the value after each step.
const STEPS: [Option<&str>; 4] = [Some("first"), Some("second"), None, Some("third")];
/// How many requests that takes: three for each put, two for the removal, and one for each old blob.
const REQUESTS: u32 = 13;

fn values(account: &Account) -> LargeValues {
    let (table, container) = (account.table("Values").unwrap(), account.container("values").unwrap());
    LargeValues::new(&table, &container, "Value").unwrap().commit_within(COMMIT_WITHIN)
}

/// Not a test of its own: what a writer process runs.
#[tokio::test]
async fn writer() {
    let Ok(connection) = env::var(CONNECTION) else { return };
    let row = key(&env::var(ROW).unwrap());
    let abort_after = env::var(ABORT_AFTER).ok().map(|number| number.parse::<u32>().unwrap());
    let sent = AtomicU32::new(0);
    let end_at = move |number| {
        if abort_after == Some(number) {
            std::process::abort();
        }
    };
    end_at(0);
    let builder = AccountBuilder::from_connection_string(&connection).unwrap().retry(Retry::quick());
    let account = builder.observe(move |_| end_at(sent.fetch_add(1, Ordering::SeqCst) + 1)).build().unwrap();
    let values = values(&account);
    if env::var(FOREVER).is_ok() {
        for round in 0.. {
            // Others write to the same entity, so that an outcome may be unknown.
            let _ = values.put(&row, format!("{} {round}", std::process::id()), "text/plain").await;
        }
    }
    for step in STEPS {
        match step {
            Some(value) => values.put(&row, value, "text/plain").await.unwrap(),
            None => values.remove(&row).await.unwrap(),
        }
        println!("done");
    }
}

fn start(connection: &str, row: &str, abort_after: Option<u32>, is_forever: bool) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "writer", "--nocapture"]).env(CONNECTION, connection).env(ROW, row);
    if let Some(number) = abort_after {
        command.env(ABORT_AFTER, number.to_string());
    }
    if is_forever {
        command.env(FOREVER, "1");
    }
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// How many steps a writer has seen done before it ended.
async fn run(connection: String, row: String, abort_after: Option<u32>) -> usize {
    let run = move || start(&connection, &row, abort_after, false).wait_with_output().unwrap();
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    String::from_utf8(output.stdout).unwrap().lines().filter(|line| line.ends_with("done")).count()
}

async fn prepared() -> (TestServer, LargeValues) {
    let server = TestServer::start().await;
    let account = server.account();
    account.table("Values").unwrap().create().await.unwrap();
    account.container("values").unwrap().create_if_missing().await.unwrap();
    let values = values(&account);
    (server, values)
}

/// A link that lacks its blob is an error here.
async fn value(values: &LargeValues, row: &str) -> Option<String> {
    let content = values.fetch(&key(row)).await.unwrap()?;
    Some(String::from_utf8(content.bytes.to_vec()).unwrap())
}

/// After a collection, the blobs are those that are linked to.
async fn check_collected(server: &TestServer, values: &LargeValues) -> usize {
    tokio::time::sleep(2 * COMMIT_WITHIN + Duration::from_millis(1500)).await;
    let collected = values.collect_garbage(2 * COMMIT_WITHIN).await.unwrap();
    let entities = server.account().table("Values").unwrap().scan().all().await.unwrap();
    let links: BTreeSet<_> =
        entities.iter().filter_map(|entity| Some(values.blob(entity).unwrap()?.name().to_owned())).collect();
    let blobs = server.account().container("values").unwrap().list("").await.unwrap();
    assert_eq!(blobs.into_iter().map(|blob| blob.name).collect::<BTreeSet<_>>(), links);
    collected.deleted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_never_lacks_its_blob_whenever_a_writer_ends() {
    let (server, values) = prepared().await;
    let table = server.account().table("Values").unwrap();
    let mut cases: Vec<_> = (0..=REQUESTS + 1).map(|number| (None, Some(number))).collect();
    for lost in 1..=REQUESTS {
        for when in ["before", "after"] {
            cases.extend([Some(lost), Some(lost + 1), None].map(|abort| (Some((lost, when)), abort)));
        }
    }
    let mut whole_runs = 0;
    for (number, (lost, abort_after)) in cases.into_iter().enumerate() {
        let row = number.to_string();
        table.insert(&DynamicEntity::new("p", row.as_str())).await.unwrap();
        if let Some((request, when)) = lost {
            server.fault(&format!(r#"{{"nth":{request},"when":"{when}","cut":true}}"#)).await;
        }
        let done = run(server.connection_string(), row.clone(), abort_after).await;
        server.clear_faults().await;
        let found = value(&values, &row).await;
        let case = format!("lost {lost:?}, ended after {abort_after:?}, done {done}, found {found:?}");
        // What was done is there. The step that was under way may be, too.
        let after = |steps: usize| if steps == 0 { None } else { STEPS[steps - 1].map(str::to_owned) };
        assert!(found == after(done) || done < STEPS.len() && found == after(done + 1), "{case}");
        match (lost, abort_after) {
            // Whoever ends after the last request has not told yet that it was the last.
            (None, Some(number)) => assert_eq!(done < STEPS.len(), number <= REQUESTS, "{case}"),
            // Lost answers are made up for.
            (Some(_), None) => assert_eq!(done, STEPS.len(), "{case}"),
            _ => {}
        }
        whole_runs += usize::from(done == STEPS.len());
    }
    assert!(whole_runs >= 2 * REQUESTS as usize);
    assert!(check_collected(&server, &values).await > 0, "no writer left anything behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_one_entity_are_killed_at_any_time() {
    let (server, values) = prepared().await;
    server.account().table("Values").unwrap().insert(&DynamicEntity::new("p", "1")).await.unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..8 {
        let mut writers: Vec<_> =
            (0..3).map(|_| start(&server.connection_string(), "1", None, true)).collect();
        for writer in &mut writers {
            tokio::time::sleep(Duration::from_millis(random.u64(50..300))).await;
            value(&values, "1").await;
            writer.kill().unwrap();
            writer.wait().unwrap();
        }
    }
    assert!(value(&values, "1").await.is_some(), "no writer has got anywhere");
    check_collected(&server, &values).await;
}
