//! The head of a request, read once. Services, signatures and replies look at this, not at the HTTP library's parts.

use crate::address::Target;
use crate::metadata::HeaderCase;
use crate::query::Query;
use crate::version::ServiceVersion;
use http::{HeaderMap, Method};

/// Everything of a request but its body: of one that came alone, or of one inside a batch.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// As on the request line, also where another method is tunnelled through POST.
    pub method: &'a Method,
    /// How the request was addressed; for a part of a table batch, how the batch was.
    pub target: &'a Target,
    /// The path after the account, percent-encoded, without a slash in front.
    pub path: &'a str,
    pub query: &'a Query,
    pub headers: &'a HeaderMap,
    /// How the names of metadata headers were spelled, where the connection has kept that.
    pub case: Option<&'a HeaderCase>,
    pub version: ServiceVersion,
}

/// What is done with the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyUse {
    /// There should be none. What is there is not looked at.
    Nothing,
    /// Read whole and decoded. If it is `required`, the request must say how long it is.
    Whole { max_bytes: usize, required: bool },
    /// Not decoded: the operation says how many bytes there are and what their checksums should be.
    Streamed,
}
