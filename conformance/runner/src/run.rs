//! Walking through a scenario against a server.

use crate::check::{self, Mismatch, Rigour};
use crate::http::{Client, Outgoing, Response};
use crate::request::{self, Endpoint};
use crate::scenario::{Body, Item, Scenario, Service, Step};
use crate::template::Scope;
use crate::xml;
use std::time::Duration;

/// A step that did not go as expected.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) line: usize,
    /// The request line, and the row of the loop it ran in.
    pub(crate) step: String,
    pub(crate) mismatches: Vec<Mismatch>,
    pub(crate) exchange: String,
}

/// Runs a scenario on a connection and with tables or queues of its own. An empty list means that it passed.
pub(crate) fn run(scenario: &Scenario, endpoint: &Endpoint, rigour: Rigour) -> Vec<Failure> {
    let mut scope = Scope::of(endpoint);
    scope.set("base", endpoint.base());
    scope.set("hostbase", endpoint.host_base());
    scope.set("account", endpoint.account.clone());
    scope.set("authority", endpoint.authority.clone());
    scope.set("lease15", if endpoint.shared_store { "16" } else { "15" }.to_owned());
    let client = Client::new(&endpoint.authority);
    let (failures, pipeline, row) = (Vec::new(), Vec::new(), String::new());
    let mut runner = Runner { endpoint, rigour, client, scope, failures, pipeline, row };
    runner.items(&scenario.items);
    runner.clean_up();
    runner.failures
}

struct Runner<'a> {
    endpoint: &'a Endpoint,
    rigour: Rigour,
    client: Client,
    scope: Scope,
    failures: Vec<Failure>,
    /// Steps to be sent together with the next one.
    pipeline: Vec<Step>,
    /// The values of the loops around.
    row: String,
}

impl Runner<'_> {
    /// Stops at the first failure; false if there was one.
    fn items(&mut self, items: &[Item]) -> bool {
        items.iter().all(|item| self.item(item))
    }

    fn item(&mut self, item: &Item) -> bool {
        match item {
            Item::Name { name } => {
                self.scope.declare(name);
                true
            }
            Item::Table { line, name } => {
                self.scope.declare(name);
                let body = format!("{{\"TableName\":\"{name}\"}}");
                self.step(&set_up(*line, "/Tables", &body))
            }
            Item::Queue { line, name } => {
                self.scope.declare(name);
                self.step(&Step {
                    verb: "PUT".to_owned(),
                    status: "201".to_owned(),
                    ..set_up(*line, &format!("/{name}"), "")
                })
            }
            Item::Container { line, name } => {
                self.scope.declare(name);
                self.step(&Step {
                    verb: "PUT".to_owned(),
                    status: "201".to_owned(),
                    ..set_up(*line, &format!("/{name}?restype=container"), "")
                })
            }
            Item::Blob { line, path, text } => self.step(&Step {
                verb: "PUT".to_owned(),
                status: "201".to_owned(),
                headers: vec![("x-ms-blob-type".to_owned(), "BlockBlob".to_owned())],
                ..set_up(*line, &format!("/{path}"), text)
            }),
            Item::Put { line, queue, text } => {
                let body =
                    format!("<QueueMessage><MessageText>{}</MessageText></QueueMessage>", xml::escaped(text));
                let target = format!("/{queue}/messages");
                self.step(&Step { status: "201".to_owned(), ..set_up(*line, &target, &body) })
            }
            Item::Insert { line, table, body } => self.step(&set_up(*line, &format!("/{table}"), body)),
            Item::Let { line, name, value } => match self.scope.text(value) {
                Ok(value) => {
                    self.scope.set(name, value);
                    true
                }
                Err(error) => self.fail(*line, value.clone(), error),
            },
            Item::Wait { milliseconds } => {
                let longer = if self.endpoint.shared_store { 1000 } else { 0 };
                std::thread::sleep(Duration::from_millis(milliseconds + longer));
                true
            }
            Item::Step(step) => self.step(step),
            Item::Loop { line, rows, items } => self.rounds(*line, rows, items),
        }
    }

    /// A failed row does not stop the others: a matrix is worth seeing whole.
    fn rounds(&mut self, line: usize, rows: &[crate::scenario::Row], items: &[Item]) -> bool {
        let around = self.row.clone();
        let before = self.failures.len();
        for row in rows {
            self.row = around.clone();
            for (name, value) in row {
                match self.scope.text(value) {
                    Ok(value) => {
                        self.row += &format!(" [{name}: {}]", shortened(&value, 200));
                        self.scope.set(name, value);
                    }
                    Err(error) => return self.fail(line, value.clone(), error),
                }
            }
            if !self.items(items) && self.failures.len() >= before + 12 {
                break;
            }
        }
        self.row = around;
        self.failures.len() == before
    }

    fn step(&mut self, step: &Step) -> bool {
        self.pipeline.push(step.clone());
        if step.send.contains("pipelined") {
            return true;
        }
        let steps = std::mem::take(&mut self.pipeline);
        let mut requests = Vec::new();
        for step in &steps {
            match request::build(self.endpoint, &self.scope, step) {
                Ok(request) => requests.push(request),
                Err(error) => return self.fail(step.line, step.verb.clone(), error),
            }
        }
        let responses = match self.client.exchange(&requests) {
            Ok(responses) => responses,
            Err(error) => {
                let exchange = sent(&requests[0]);
                self.fail(step.line, format!("{} {}", step.verb, step.target), error);
                if let Some(failure) = self.failures.last_mut() {
                    failure.exchange = exchange;
                }
                return false;
            }
        };
        let mut fine = true;
        for ((step, request), response) in steps.iter().zip(&requests).zip(&responses) {
            let mismatches =
                check::check(self.endpoint.service, step, response, &mut self.scope, self.rigour);
            if !mismatches.is_empty() {
                fine = false;
                self.failures.push(Failure {
                    line: step.line,
                    step: format!("{} {}{}", step.verb, shortened(&step.target, 200), self.row),
                    mismatches,
                    exchange: format!("{}{}", sent(request), came(response)),
                });
            }
        }
        fine
    }

    fn fail(&mut self, line: usize, step: String, problem: String) -> bool {
        let mismatch = Mismatch { line, expected: "an answer".to_owned(), actual: problem };
        let step = format!("{step}{}", self.row);
        self.failures.push(Failure { line, step, mismatches: vec![mismatch], exchange: String::new() });
        false
    }

    /// Deletes what the scenario may have left; whether it was there does not matter.
    fn clean_up(&mut self) {
        let names: Vec<String> = self.scope.declared().map(str::to_owned).collect();
        for name in names {
            let step = Step {
                verb: "DELETE".to_owned(),
                target: match self.endpoint.service {
                    Service::Table => format!("/Tables('{name}')"),
                    Service::Queue => format!("/{name}"),
                    Service::Blob => format!("/{name}?restype=container"),
                },
                auth: "sharedkey".to_owned(),
                ..Step::default()
            };
            if let Ok(request) = request::build(self.endpoint, &self.scope, &step) {
                let _ = self.client.exchange(&[request]);
            }
        }
    }
}

/// A request that must succeed before the scenario makes sense.
fn set_up(line: usize, target: &str, body: &str) -> Step {
    Step {
        line,
        verb: "POST".to_owned(),
        target: target.to_owned(),
        headers: vec![("Prefer".to_owned(), "return-no-content".to_owned())],
        auth: "sharedkey".to_owned(),
        body: if body.is_empty() { Body::None } else { Body::Text(body.to_owned()) },
        status: "204".to_owned(),
        ..Step::default()
    }
}

fn sent(request: &Outgoing) -> String {
    let bytes = [&request.head[..], &request.body[..]].concat();
    marked('>', &shortened(&String::from_utf8_lossy(&bytes), 2500))
}

fn came(response: &Response) -> String {
    let mut text = format!("HTTP/1.1 {} {}\n", response.status, response.reason);
    for (name, value) in &response.headers {
        text += &format!("{name}: {value}\n");
    }
    text += &format!("\n{}", shortened(&String::from_utf8_lossy(&response.body), 2500));
    marked('<', &text)
}

fn marked(mark: char, text: &str) -> String {
    text.lines().map(|line| format!("      {mark} {line}\n")).collect()
}

pub(crate) fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}
