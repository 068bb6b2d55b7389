//! Transactions of TiKV beside the engine: those of a process that stops in the middle.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tikv_client::transaction::{HeartbeatOption, Mutation};
use tikv_client::{CheckLevel, Transaction, TransactionClient, TransactionOptions};

pub(crate) async fn client(endpoint: &str) -> TransactionClient {
    TransactionClient::new(vec![endpoint.to_owned()]).await.expect("the cluster is ready")
}

/// One that takes its locks first, and that nobody keeps alive.
pub(crate) async fn pessimistic(client: &TransactionClient) -> Transaction {
    let options = TransactionOptions::new_pessimistic().heartbeat_option(HeartbeatOption::NoHeartbeat);
    client.begin_with_options(options.drop_check(CheckLevel::None)).await.expect("it begins")
}

/// A transaction that deletes these keys, and stops when the deletions are there and not yet committed.
pub(crate) async fn killed_while_committing(client: &TransactionClient, keys: &[Vec<u8>]) -> Transaction {
    let mut transaction = pessimistic(client).await;
    transaction.lock_keys(keys.to_vec()).await.expect("they are free");
    let deletions = keys.iter().map(|key| Mutation::Delete(key.clone().into()));
    transaction.batch_mutate(deletions).await.expect("they are locked");
    {
        // What it sends is sent by tasks of their own. It does not go on if it is not polled.
        let mut commit = pin!(transaction.commit());
        for _ in 0..100 {
            std::future::poll_fn(|context| {
                assert!(commit.as_mut().poll(context).is_pending(), "it is committed");
                Poll::Ready(())
            })
            .await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = client.current_timestamp().await.expect("there is a time");
            let mut snapshot = client.snapshot(now, TransactionOptions::new_optimistic());
            let key = keys.last().expect("there is one").clone();
            // What is written and not committed holds up reads. Locks from before a write do not.
            if tokio::time::timeout(Duration::from_millis(100), snapshot.get(key)).await.is_err() {
                break;
            }
        }
    }
    transaction
}

/// The key of a row of the engine.
pub(crate) fn row(prefix: &str, key: &[u8]) -> Vec<u8> {
    [space(prefix, 0x03), key.to_vec()].concat()
}

/// The key of a copy of a row.
pub(crate) fn copy(prefix: &str, key: &[u8], number: u8) -> Vec<u8> {
    [space(prefix, 0x02), key.to_vec(), vec![number]].concat()
}

fn space(prefix: &str, space: u8) -> Vec<u8> {
    let length = u8::try_from(prefix.len()).expect("it is short");
    [&[b'm', length], prefix.as_bytes(), &[space]].concat()
}
