//! The order in which a request is checked and answered.

use crate::accept::{Handler, Peer};
use crate::body::{Body, ReplyBody};
use crate::config::Config;
use hyper::http::{Response, StatusCode, request};
use std::sync::Arc;
use tepui_engine::Engine;

/// Answers the requests of the Table service.
pub struct TableHandler<E> {
    engine: Arc<E>,
}

impl<E: Engine> TableHandler<E> {
    pub fn new(engine: Arc<E>, _config: &Config) -> Self {
        Self { engine }
    }
}

impl<E: Engine> Handler for TableHandler<E> {
    async fn handle(&self, _peer: Peer, _head: request::Parts, _body: Body) -> Response<ReplyBody> {
        let mut reply = Response::new(ReplyBody::empty());
        *reply.status_mut() = StatusCode::NOT_IMPLEMENTED;
        reply
    }

    fn health(&self) -> Result<(), String> {
        self.engine.health().map_err(|error| error.to_string())
    }
}
