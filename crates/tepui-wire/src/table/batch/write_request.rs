//! Entity group transactions as requests of a client: the mirror of [`decode`](super::decode).

use super::Boundaries;
use crate::multipart::line;
use crate::remote::{InvalidRequest, Outgoing, OutgoingRequest, RemoteService, RequestBody};
use crate::table::request::write::{Options, write_change};
use http::Method;
use tepui_model::table::ChangeSet;

/// The request for a transaction. `table`: its name as the caller spells it, for not every service knows that case does not
/// matter; a change set has it in lower case. `etags`: what each change depends on as the service spelled it, in their order; where
/// there is none, the change itself says.
pub fn write_request(
    to: &RemoteService,
    table: &str,
    set: &ChangeSet,
    etags: &[Option<&str>],
    options: &Options<'_>,
    ids: &Boundaries,
) -> Result<OutgoingRequest, InvalidRequest> {
    if set.changes().is_empty() {
        return Err(InvalidRequest("a transaction without a change"));
    }
    let mut body = Vec::with_capacity(256 + 640 * set.changes().len());
    ids.open(&mut body);
    for (index, change) in set.changes().iter().enumerate() {
        let etag = etags.get(index).copied().flatten();
        let part = write_change(to, table, change, &Options { etag, ..*options })?;
        ids.open_part(&mut body);
        push_part(&mut body, &part);
    }
    ids.close(&mut body);
    let mut out = Outgoing::new(to, Method::POST, "$batch");
    out.header("content-type", format!("multipart/mixed; boundary={}", ids.batch));
    out.header("accept", "application/json;odata=minimalmetadata");
    out.header("dataserviceversion", "3.0;");
    out.header("maxdataserviceversion", "3.0;");
    out.finish(RequestBody::Whole(body.into()))
}

/// The headers of a part, as they are usually spelled: not every reader of batches knows that case does not matter.
const HEADERS: [(&str, &str); 6] = [
    ("content-type", "Content-Type"),
    ("accept", "Accept"),
    ("dataserviceversion", "DataServiceVersion"),
    ("prefer", "Prefer"),
    ("if-match", "If-Match"),
    ("content-length", "Content-Length"),
];

fn push_part(out: &mut Vec<u8>, part: &OutgoingRequest) {
    out.extend_from_slice(format!("{} {} HTTP/1.1\r\n", part.method(), part.uri()).as_bytes());
    for (name, shown) in HEADERS {
        if let Some(value) = part.headers().get(name).and_then(|value| value.to_str().ok()) {
            line(out, shown, value);
        }
    }
    out.extend_from_slice(b"\r\n");
    if let RequestBody::Whole(body) = part.body() {
        out.extend_from_slice(body);
    }
    out.extend_from_slice(b"\r\n");
}
