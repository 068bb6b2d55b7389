//! Replies to entity group transactions as a client reads them.

use super::boundary;
use crate::multipart::{self, HttpResponse};
use crate::remote::{RemoteError, ReplyError, check, refusal, text};
use http::Response;
use http::header::CONTENT_TYPE;
use tepui_model::table::ChangeSet;

/// The ETags of the entities that a transaction has written, in the order of its changes; `None` for those that it has
/// deleted. A transaction that was refused is one error, with the index of the change as far as the service says it.
pub fn read_reply(
    set: &ChangeSet,
    response: &Response<impl AsRef<[u8]>>,
) -> Result<Vec<Option<String>>, ReplyError> {
    check(response)?;
    let etags = parts(response)?;
    if etags.len() != set.changes().len() {
        return Err(ReplyError::Unreadable("a transaction with another number of answers than changes"));
    }
    Ok(etags)
}

fn parts(response: &Response<impl AsRef<[u8]>>) -> Result<Vec<Option<String>>, ReplyError> {
    let unreadable = || ReplyError::Unreadable("the parts of a transaction");
    let body = response.body().as_ref();
    let outer = text(response, CONTENT_TYPE).and_then(boundary).ok_or_else(unreadable)?;
    let mut etags = Vec::new();
    let mut read = |part: multipart::Part<'_>| {
        let answer = HttpResponse::read(body, part.content).ok_or_else(unreadable)?;
        if !answer.status.is_success() {
            let mut error = RemoteError::of_body(answer.status, &body[answer.body.clone()]).take_change();
            if error.code.is_empty() {
                error.code = answer.header("x-ms-error-code").unwrap_or_default().to_owned();
            }
            return Err(refusal(error));
        }
        etags.push(answer.header("etag").map(str::to_owned));
        Ok(())
    };
    for range in multipart::parts(body, 0..body.len(), &outer).ok_or_else(unreadable)? {
        let part = multipart::Part::read(body, range).ok_or_else(unreadable)?;
        match part.header("content-type").and_then(boundary) {
            Some(inner) => {
                for range in multipart::parts(body, part.content, &inner).ok_or_else(unreadable)? {
                    read(multipart::Part::read(body, range).ok_or_else(unreadable)?)?;
                }
            }
            // An answer that is no set: some services refuse a whole batch like this.
            None => read(part)?,
        }
    }
    Ok(etags)
}
