//! A client that keeps the receipts it gets, and what they must agree with: the log, and metrics.

use crate::support::blob::signed;
use crate::support::http::{Client, Reply};
use crate::support::{FREE_PORTS, Server, tepui, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// A server that logs as JSON and serves metrics.
pub(crate) fn start() -> Server {
    let options = ["serve", "--in-memory", "--log-format", "json", "--admin-port", "0"];
    Server::run(tepui(&[&options, FREE_PORTS].concat(), Path::new("")))
}

/// What a page costs, as it is counted by hand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) scanned: usize,
    pub(crate) returned: usize,
    pub(crate) units: usize,
    pub(crate) has_more: bool,
}

/// A page of a list of `left` names, of which `size` fit: the first that does not was looked at.
pub(crate) fn page_of(left: usize, size: usize) -> Counted {
    Counted { scanned: left.min(size + 1), returned: left.min(size), units: 1, has_more: left > size }
}

/// The members of a receipt, as a reader of structured fields sees them.
pub(crate) fn members(receipt: &str) -> Vec<(&str, &str)> {
    receipt.split(", ").map(|member| member.split_once('=').unwrap_or((member, "?1"))).collect()
}

/// What a receipt says that the test can foretell: all but bytes and time.
pub(crate) fn foreseen(receipt: &str) -> String {
    let known = |member: &&str| !member.starts_with("bytes=") && !member.starts_with("ms=");
    receipt.split(", ").filter(known).collect::<Vec<_>>().join(", ")
}

/// Compares a receipt with what is written down, and that with what is counted.
pub(crate) fn check(case: &str, reply: &Reply, expected: &str, counted: Counted) {
    let receipt = reply.header("tepui-receipt").unwrap_or_else(|| panic!("{case}: no receipt: {reply:?}"));
    assert_eq!(foreseen(receipt), expected, "{case}");
    let members: BTreeMap<&str, &str> = members(expected).into_iter().collect();
    let number = |key: &str| members[key].parse::<usize>().unwrap();
    let written_down = Counted {
        scanned: number("scanned"),
        returned: number("returned"),
        units: number("units"),
        has_more: members.contains_key("more"),
    };
    assert_eq!(written_down, counted, "{case}: the test has counted something else");
}

/// One client after another, and the receipts that they got.
pub(crate) struct Ledger {
    server: Server,
    client: Client,
    service: &'static str,
    /// By the id of the request.
    receipts: BTreeMap<String, String>,
}

impl Ledger {
    pub(crate) fn of(service: &'static str) -> Self {
        let server = start();
        let port = match service {
            "table" => server.port,
            "queue" => server.queue_port,
            _ => server.blob_port,
        };
        let client = Client::connect(port).unwrap();
        Self { server, client, service, receipts: BTreeMap::new() }
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let path = path.replace(' ', "%20");
        let empty = method == "PUT" && body.is_empty();
        let headers = [headers, if empty { &[("Content-Length", "0")] } else { &[] }].concat();
        let reply = match self.service {
            "blob" => self.client.unsigned(method, &signed(&path), &headers, body),
            _ => self.client.request(method, &path, &headers, body),
        };
        let reply = reply.unwrap();
        if let Some(receipt) = reply.header("tepui-receipt") {
            let id = reply.header("x-ms-request-id").unwrap();
            self.receipts.insert(id.to_owned(), receipt.to_owned());
        }
        reply
    }

    /// The same, which must succeed.
    pub(crate) fn done(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let reply = self.send(method, path, headers, body);
        assert!(reply.status < 300, "{method} {path}: {} {}", reply.status, reply.text());
        reply
    }

    /// The log has the same numbers as the receipts, no others, and metrics have their sums.
    pub(crate) fn audit(self) {
        let metrics = || {
            let mut client = Client::connect(self.server.admin_port).unwrap();
            client.unsigned("GET", "/metrics", &[], b"").unwrap().text()
        };
        let in_flight = format!("tepui_requests_in_flight{{service=\"{}\"}} 0", self.service);
        wait_until("all requests end", || metrics().lines().any(|line| line == in_flight));
        let series = format!("tepui_units_total{{service=\"{}\"}} ", self.service);
        let counted = metrics().lines().find_map(|line| line.strip_prefix(&series).map(str::to_owned));
        let units = |receipt: &String| -> u64 {
            let members: BTreeMap<&str, &str> = members(receipt).into_iter().collect();
            members["units"].parse().unwrap()
        };
        let sum: u64 = self.receipts.values().map(units).sum();
        assert_eq!(counted, Some(sum.to_string()), "metrics");

        let (_, _, log) = self.server.stop();
        let mut logged = BTreeMap::new();
        for line in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if line["cost"].is_object() {
                logged.insert(line["request_id"].as_str().unwrap().to_owned(), line["cost"].clone());
            }
        }
        let as_logged = |receipt: &String| {
            let value = |(key, value): (&str, &str)| {
                let value = match value.parse::<u64>() {
                    Ok(number) => json!(number),
                    Err(_) if value == "?1" => json!(true),
                    Err(_) => json!(value),
                };
                (key != "ms").then(|| (key.to_owned(), value))
            };
            Value::Object(members(receipt).into_iter().filter_map(value).collect())
        };
        let expected: BTreeMap<String, Value> =
            self.receipts.iter().map(|(id, receipt)| (id.clone(), as_logged(receipt))).collect();
        assert_eq!(logged, expected, "the log");
    }
}
