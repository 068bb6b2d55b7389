//! What clients of all services have in common: where requests go, how they are authorized, and how refusals are read.
//!
//! Each service has its operations as requests in `request/write.rs` and replies to them in `reply/read.rs`, next to the
//! server's direction. Nothing here opens a connection: requests and responses are values of the `http` crate, and the
//! bodies of uploads and downloads stay with the caller.
//!
//! | | |
//! | --- | --- |
//! | `service.rs` | where a service is; the parts of a request |
//! | `authorize.rs` | Shared Key, Shared Key Lite, SAS and bearer tokens |
//! | `error.rs` | refusals, in JSON, in XML and in headers alone |

mod authorize;
mod error;
mod service;

pub use authorize::Authorization;
pub use error::{RemoteError, ReplyError};
pub use service::{InvalidRequest, InvalidUrl, OutgoingRequest, RemoteService, RequestBody};

pub(crate) use error::{check, refusal};
pub(crate) use service::Outgoing;

use crate::metadata::{self, HeaderCase};
use http::Response;
use tepui_model::metadata::Metadata;

/// The text of a header of a response.
pub(crate) fn text<B>(response: &Response<B>, name: impl http::header::AsHeaderName) -> Option<&str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// The metadata in the headers of a response, with the case of names as far as the connection has kept it.
pub(crate) fn metadata<B>(response: &Response<B>) -> Result<Metadata, ReplyError> {
    let case = response.extensions().get::<HeaderCase>();
    metadata::decode(response.headers(), case).map_err(|_| ReplyError::Unreadable("metadata"))
}
