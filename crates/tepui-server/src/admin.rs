//! The port for those who run the server: metrics. Never one of the data ports, where its paths would be accounts.

use crate::metrics::Metrics;
use crate::net::accept::{Handler, Peer};
use crate::net::body::{Body, ReplyBody};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::http::{Method, Response, StatusCode, request};
use std::sync::Arc;

/// The handler of the admin port.
pub(crate) struct Admin {
    metrics: Arc<Metrics>,
}

impl Admin {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics }
    }

    async fn metrics(&self) -> Response<ReplyBody> {
        let metrics = Arc::clone(&self.metrics);
        // The sizes of files and disks are asked for, which may wait for the disk.
        let Ok(text) = tokio::task::spawn_blocking(move || metrics.render()).await else {
            return refusal(StatusCode::INTERNAL_SERVER_ERROR, "Metrics cannot be read now.");
        };
        let mut response = Response::new(ReplyBody::from(text));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(Metrics::CONTENT_TYPE));
        response
    }
}

impl Handler for Admin {
    const HAS_METADATA: bool = false;

    async fn handle(&self, _: Peer, head: request::Parts, body: Body) -> Response<ReplyBody> {
        body.discard().await;
        match (&head.method, head.uri.path()) {
            (&Method::GET | &Method::HEAD, "/metrics") => self.metrics().await,
            (_, "/metrics") => {
                let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "This path is for GET.");
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                response
            }
            _ => refusal(StatusCode::NOT_FOUND, "There is /metrics and /health."),
        }
    }

    async fn health(&self) -> Result<(), String> {
        Ok(())
    }
}

fn refusal(status: StatusCode, message: &'static str) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::from(format!("{message}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
