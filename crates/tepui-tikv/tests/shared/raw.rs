//! Transactions of TiKV beside the engine: those of a process that stops in the middle.

use tikv_client::transaction::HeartbeatOption;
use tikv_client::{CheckLevel, Transaction, TransactionClient, TransactionOptions};

pub(crate) async fn client(endpoint: &str) -> TransactionClient {
    TransactionClient::new(vec![endpoint.to_owned()]).await.expect("the cluster is ready")
}

/// One that takes its locks first, and that nobody keeps alive.
pub(crate) async fn pessimistic(client: &TransactionClient) -> Transaction {
    let options = TransactionOptions::new_pessimistic().heartbeat_option(HeartbeatOption::NoHeartbeat);
    client.begin_with_options(options.drop_check(CheckLevel::None)).await.expect("it begins")
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
