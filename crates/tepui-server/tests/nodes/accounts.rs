//! Accounts and keys that one node changes: the others follow within two seconds.

use crate::support::{Node, Store, ask, config, until};
use crate::{entity, key};
use std::time::{Duration, Instant};
use tepui_client::Account;
use tepui_server::config::Config;

const TOKEN: &str = "a-token-of-all-nodes";

/// How long others may take to notice.
const NOTICED: Duration = Duration::from_secs(2);

async fn node(store: &Store) -> Node {
    let config = Config { admin_token: TOKEN.parse().ok(), ..config() };
    Node::start_with(store, config).await.expect("it starts")
}

/// A call of the admin API that succeeds; its answer.
async fn call(node: &Node, what: &str) -> serde_json::Value {
    let (method, path) = what.split_once(' ').expect("a method and a path");
    let headers = format!("Authorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n");
    let (status, body) = ask(node.admin, &format!("{method} /admin/v1{path}"), &headers).await;
    assert!((200..300).contains(&status), "{what}: {status} {body}");
    serde_json::from_str(&body).unwrap_or_default()
}

/// Waits until something is so on another node, which must not take long.
async fn noticed(what: &str, is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    until(what, is_so).await;
    assert!(began.elapsed() < NOTICED, "{what}: {:?}", began.elapsed());
}

async fn is_served(account: &Account) -> bool {
    let table = account.table("People").expect("a name");
    matches!(table.get(&key("1")).await, Ok(Some(_)))
}

fn value(answer: &serde_json::Value, number: usize) -> String {
    answer["keys"][number]["value"].as_str().expect("a key").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_node_changes_of_accounts_the_other_notices() {
    let store = Store::default();
    let (one, two) = (node(&store).await, node(&store).await);
    let made = call(&one, "PUT /accounts/people").await;
    let [first, second] = [0, 1].map(|number| value(&made, number));
    let here = one.account_with("people", &first);
    here.table("People").unwrap().create().await.unwrap();
    here.table("People").unwrap().insert(&entity("1", 1)).await.unwrap();
    let there = two.account_with("people", &first);
    noticed("the account is there", async || is_served(&there).await).await;

    let renewed = call(&one, "POST /accounts/people/keys/key1/renew").await;
    assert!(!is_served(&here).await, "it counts at once");
    noticed("the key is good no more", async || !is_served(&there).await).await;
    assert!(is_served(&two.account_with("people", &second)).await);
    let there = two.account_with("people", renewed["value"].as_str().unwrap());
    assert!(is_served(&there).await);

    // Each on another node: none is lost.
    let (a, b) = tokio::join!(
        call(&one, "POST /accounts/people/keys/key1/renew"),
        call(&two, "POST /accounts/people/keys/key2/renew")
    );
    let keys = [&a, &b].map(|answer| answer["value"].as_str().unwrap().to_owned());
    for key in &keys {
        for node in [&one, &two] {
            let account = node.account_with("people", key);
            noticed("a renewed key is good", async || is_served(&account).await).await;
        }
    }

    // Deleted on the one, gone on the other, and made again on that: empty.
    let there = two.account_with("people", &keys[0]);
    call(&one, "DELETE /accounts/people").await;
    assert!(!is_served(&there).await, "all have noticed when it is done");
    let made = call(&two, "PUT /accounts/people").await;
    let again = two.account_with("people", &value(&made, 0));
    let missing = again.table("People").unwrap().insert(&entity("1", 1)).await.unwrap_err();
    assert_eq!(missing.code(), Some("TableNotFound"), "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_goes_on_when_its_node_is_gone() {
    let store = Store::default();
    let (one, two) = (node(&store).await, node(&store).await);
    let made = call(&one, "PUT /accounts/people").await;
    one.account_with("people", &value(&made, 0)).table("People").unwrap().create().await.unwrap();
    noticed("the account is there", async || {
        call(&two, "GET /accounts").await.to_string().contains("people")
    })
    .await;
    // It is marked, and the node ends before others have noticed.
    let marking = tokio::spawn(async move {
        let _ = tokio::time::timeout(Duration::from_millis(300), call(&one, "DELETE /accounts/people")).await;
        one
    });
    let mut one = marking.await.unwrap();
    one.stop();
    one.stopped().await;
    until("the other node has deleted it", async || {
        !call(&two, "GET /accounts").await.to_string().contains("people")
    })
    .await;
    call(&two, "PUT /accounts/people").await;
}
