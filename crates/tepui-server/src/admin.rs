//! The port for those who run the server: metrics, and the admin API. Never one of the data ports, where its paths would be
//! accounts.
//!
//! | | |
//! | --- | --- |
//! | `guard.rs` | TLS, hosts, origins and the token |
//! | `call.rs` | calls, answers and errors, and [`Area`]: the part of the API that a file has |
//! | `accounts.rs`, `roles.rs` | accounts and their keys; who has which roles |
//! | `clock.rs`, `faults.rs` | the clock and the faults of a test bench |
//! | `managed_identity.rs`, `token.rs` | tokens of the development issuer, as Azure's machines get theirs, and as people do |
//! | `messages.rs` | messages of queues, also hidden ones |
//! | `partitions.rs` | the hottest partitions |
//! | `requests.rs` | requests as they end, live |
//! | `snapshots.rs` `reset.rs` | going back to what was stored before, or to nothing |
//! | `seed.rs` | data to begin with |
//!
//! An area is added to the list in `run_all` (`lib.rs`), in one line. The order of checks: TLS, host and origin, token, route, test bench,
//! body; what an area refuses comes last.

pub(crate) mod accounts;
mod call;
pub(crate) mod clock;
pub(crate) mod faults;
mod guard;
pub(crate) mod managed_identity;
pub(crate) mod messages;
pub(crate) mod partitions;
pub(crate) mod requests;
pub(crate) mod reset;
pub(crate) mod roles;
pub(crate) mod seed;
pub(crate) mod snapshots;
pub(crate) mod token;

pub(crate) use call::Area;
pub(crate) use guard::Guard;

use crate::metrics::Metrics;
use crate::net::accept::{Handler, Peer};
use crate::net::body::{Body, BodyError, ReplyBody};
use call::{AdminError, Call, Route};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::{Method, Response, StatusCode, request};
use managed_identity::ManagedIdentity;
use std::sync::Arc;
use tepui_wire::percent;
use tepui_wire::query::Query;

/// Where the API begins.
const ROOT: &str = "/admin/v1";

/// The handler of the admin port.
pub(crate) struct Admin {
    guard: Guard,
    metrics: Arc<Metrics>,
    is_test_bench: bool,
    areas: Vec<Box<dyn Area>>,
    managed_identity: Option<ManagedIdentity>,
}

impl Admin {
    pub(crate) fn new(
        guard: Guard,
        metrics: Arc<Metrics>,
        is_test_bench: bool,
        areas: Vec<Box<dyn Area>>,
    ) -> Self {
        Self { guard, metrics, is_test_bench, areas, managed_identity: None }
    }

    /// Gives tokens to those who ask as programs on Azure do.
    pub(crate) fn with_managed_identity(self, managed_identity: Option<ManagedIdentity>) -> Self {
        Self { managed_identity, ..self }
    }

    async fn answer(
        &self,
        peer: Peer,
        head: &request::Parts,
        body: &mut Option<Body>,
    ) -> Result<Response<ReplyBody>, AdminError> {
        self.guard.check_tls(peer, &head.headers)?;
        self.guard.check_origin(head)?;
        let path = head.uri.path();
        if path == "/metrics" {
            return self.metrics(&head.method).await;
        }
        if let Some(identity) = self.managed_identity.as_ref().filter(|_| path == ManagedIdentity::PATH) {
            // The token of the API, in another header.
            self.guard.check_identity_header(&head.headers)?;
            return identity.answer(head);
        }
        let Some(path) = path.strip_prefix(ROOT).filter(|rest| rest.is_empty() || rest.starts_with('/'))
        else {
            return Err(AdminError::not_found("There is /metrics, /health and /admin/v1."));
        };
        self.guard.check_token(&head.headers)?;
        if matches!(path, "" | "/") {
            return match head.method {
                Method::GET => self.index(),
                _ => Err(AdminError::method_not_allowed("GET")),
            };
        }
        let (area, route, parts) = self.route(head.method.as_str(), path)?;
        if area.is_for_test_bench() && !self.is_test_bench {
            return Err(AdminError::forbidden(
                "NotATestBench",
                "Only a server that was started with --test-bench does this.",
            ));
        }
        let query = Query::parse(head.uri.query());
        let body = match body.take() {
            Some(body) => body.read_whole(area.max_body_bytes()).await.map_err(body_error)?,
            None => bytes::Bytes::new(),
        };
        area.answer(Call { route, parts, query, body }).await
    }

    async fn metrics(&self, method: &Method) -> Result<Response<ReplyBody>, AdminError> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(AdminError::method_not_allowed("GET, HEAD"));
        }
        let metrics = Arc::clone(&self.metrics);
        // The sizes of files and disks are asked for, which may wait for the disk.
        let text = tokio::task::spawn_blocking(move || metrics.render()).await;
        let text = text.map_err(|error| AdminError::internal(&error))?;
        let mut response = Response::new(ReplyBody::from(text));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(Metrics::CONTENT_TYPE));
        Ok(response)
    }

    /// What there is to call.
    fn index(&self) -> Result<Response<ReplyBody>, AdminError> {
        let offered = self.areas.iter().filter(|area| self.is_test_bench || !area.is_for_test_bench());
        let calls: Vec<String> = offered
            .flat_map(|area| area.routes())
            .map(|(method, path)| format!("{method} {ROOT}{path}"))
            .collect();
        call::ok(&serde_json::json!({"testBench": self.is_test_bench, "calls": calls}))
    }

    /// The area and the route of a call, and what stands for each `{}` of it.
    fn route(&self, method: &str, path: &str) -> Result<(&dyn Area, Route, Vec<String>), AdminError> {
        let mut methods = Vec::new();
        for area in &self.areas {
            for route in area.routes() {
                match parts_of(route.1, path) {
                    Some(parts) if route.0 == method => return Ok((area.as_ref(), *route, parts)),
                    Some(_) => methods.push(route.0),
                    None => {}
                }
            }
        }
        match methods.is_empty() {
            true => {
                Err(AdminError::not_found("There is no such call. GET /admin/v1 lists those that there are."))
            }
            false => Err(AdminError::method_not_allowed(&methods.join(", "))),
        }
    }
}

/// What stands for each `{}` of a pattern, if it matches.
fn parts_of(pattern: &str, path: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(parts),
            (Some("{}"), Some(part)) if !part.is_empty() => parts.push(percent::decode(part)?.into_owned()),
            (Some(word), Some(part)) if word == part => {}
            _ => return None,
        }
    }
}

fn body_error(error: BodyError) -> AdminError {
    match error {
        BodyError::TooLarge => AdminError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "BodyTooLarge",
            "The body is too long for this call.",
        ),
        BodyError::TimedOut => {
            AdminError::new(StatusCode::REQUEST_TIMEOUT, "BodyTooSlow", "The body came too slowly.")
        }
        BodyError::Broken => AdminError::invalid("The body broke off."),
        BodyError::Busy => AdminError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServerBusy",
            "There is no memory for the body now.",
        ),
    }
}

impl Handler for Admin {
    const HAS_METADATA: bool = false;

    async fn handle(&self, peer: Peer, head: request::Parts, body: Body) -> Response<ReplyBody> {
        let mut body = Some(body);
        let answered = self.answer(peer, &head, &mut body).await;
        if let Some(body) = body {
            body.discard().await;
        }
        let response = answered.unwrap_or_else(|error| error.response());
        if head.method != Method::GET && head.method != Method::HEAD {
            let status = response.status().as_u16();
            tracing::info!(method = head.method.as_str(), path = head.uri.path(), status, "admin");
        }
        response
    }

    async fn health(&self) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_patterns() {
        for (pattern, path, expected) in [
            ("/clock", "/clock", Some(vec![])),
            ("/clock", "/clock/", None),
            ("/clock", "/clocks", None),
            ("/faults/{}", "/faults/7", Some(vec!["7"])),
            ("/faults/{}", "/faults/", None),
            ("/faults/{}", "/faults", None),
            ("/queues/{}/{}/messages", "/queues/a/b%2Fc/messages", Some(vec!["a", "b/c"])),
            ("/queues/{}/{}/messages", "/queues/a/b/c/messages", None),
            ("/faults/{}", "/faults/%FF", None),
        ] {
            let parts = parts_of(pattern, path);
            let expected = expected.map(|parts| parts.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(parts, expected, "{pattern} {path}");
        }
    }
}
