//! The admin API and its commands, from outside: every call, what each refuses, and what follows for the services.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod clock;
mod commands;
mod faults;
mod guard;
mod messages;
mod refusals;
mod storage;
mod tail;
mod tokens;

#[path = "../support/mod.rs"]
mod support;

use serde_json::Value;
use support::Server;
use support::http::{Client, Reply};

/// A test bench with an admin port.
fn test_bench() -> Server {
    Server::in_memory(&["--test-bench", "--admin-port", "0"])
}

/// The admin API of a server.
struct Admin {
    client: Client,
    authorization: String,
}

impl Admin {
    fn of(server: &Server) -> Self {
        let client = Client::connect(server.admin_port).unwrap();
        Self { client, authorization: format!("Bearer {}", server.admin_token) }
    }

    /// Makes a call, with a body that need not be JSON.
    fn raw(&mut self, method: &str, path: &str, body: &str) -> Reply {
        let headers = [("Authorization", self.authorization.as_str())];
        self.client.unsigned(method, &format!("/admin/v1{path}"), &headers, body.as_bytes()).unwrap()
    }

    /// Makes a call that succeeds; its answer.
    fn call(&mut self, method: &str, path: &str, body: Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = self.raw(method, path, &body);
        assert!(
            (200..300).contains(&reply.status),
            "{method} {path} {body}: {} {}",
            reply.status,
            reply.text()
        );
        if reply.body.is_empty() { Value::Null } else { reply.json() }
    }

    fn get(&mut self, path: &str) -> Value {
        self.call("GET", path, Value::Null)
    }

    fn post(&mut self, path: &str, body: Value) -> Value {
        self.call("POST", path, body)
    }

    fn advance(&mut self, seconds: u64) {
        self.post("/clock/advance", serde_json::json!({"seconds": seconds}));
    }

    fn set_clock(&mut self, now: &str) {
        self.call("PUT", "/clock", serde_json::json!({"now": now}));
    }
}
