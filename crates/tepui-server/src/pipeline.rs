//! The order in which a request is checked and answered.

use crate::accept::{Handler, Peer};
use crate::body::{Body, ReplyBody};
use hyper::http::{Response, StatusCode, request};

/// Answers the requests of the Table service.
pub struct TableHandler;

impl Handler for TableHandler {
    async fn handle(&self, _peer: Peer, _head: request::Parts, _body: Body) -> Response<ReplyBody> {
        let mut reply = Response::new(ReplyBody::empty());
        *reply.status_mut() = StatusCode::NOT_IMPLEMENTED;
        reply
    }

    fn health(&self) -> Result<(), String> {
        Ok(())
    }
}
