//! Accounts, their keys and roles, by the admin API and the commands, on servers that are killed: what was changed counts at once,
//! and after a restart.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod client;
mod commands;
mod delegation;
mod deletion;
mod keys;
mod refusals;
mod switches;

#[path = "../support/mod.rs"]
mod support;

use serde_json::Value;
use std::path::Path;
use support::Server;
use support::http::{Client, Reply};

const CONFIGURED: &str = "devstoreaccount1";

/// A server on disk with an admin port.
fn on_disk(directory: &Path) -> Server {
    Server::on_disk_with(directory, &["--admin-port", "0"])
}

fn in_memory() -> Server {
    Server::in_memory(&["--admin-port", "0"])
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

    fn raw(&mut self, method: &str, path: &str, body: &str) -> Reply {
        let headers = [("Authorization", self.authorization.as_str())];
        self.client.unsigned(method, &format!("/admin/v1{path}"), &headers, body.as_bytes()).unwrap()
    }

    /// Makes a call that succeeds; its answer.
    fn call(&mut self, method: &str, path: &str, body: Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = self.raw(method, path, &body);
        let (status, text) = (reply.status, reply.text());
        assert!((200..300).contains(&status), "{method} {path} {body}: {status} {text}");
        if reply.body.is_empty() { Value::Null } else { reply.json() }
    }

    fn get(&mut self, path: &str) -> Value {
        self.call("GET", path, Value::Null)
    }

    fn post(&mut self, path: &str) -> Value {
        self.call("POST", path, Value::Null)
    }

    /// The two keys of an account.
    fn keys(&mut self, account: &str) -> Vec<String> {
        let answer = self.get(&format!("/accounts/{account}/keys"));
        let keys = answer["keys"].as_array().unwrap().iter();
        keys.map(|key| key["value"].as_str().unwrap().to_owned()).collect()
    }

    /// Makes an account; its keys.
    fn create(&mut self, account: &str) -> Vec<String> {
        let made = self.call("PUT", &format!("/accounts/{account}"), Value::Null);
        let keys = made["keys"].as_array().unwrap().iter();
        keys.map(|key| key["value"].as_str().unwrap().to_owned()).collect()
    }

    fn names(&mut self) -> Vec<String> {
        let answer = self.get("/accounts");
        let accounts = answer["accounts"].as_array().unwrap().iter();
        accounts.map(|account| account["name"].as_str().unwrap().to_owned()).collect()
    }
}
