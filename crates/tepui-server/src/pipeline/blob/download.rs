//! Bytes that follow an answer: read from the store while they are sent.

use crate::net::body::{BrokenReply, Pieces, ReplyBody};
use crate::net::limits::SMALL_BODY_BYTES;
use crate::pipeline::exchange::Authorized;
use crate::pipeline::reply_memory::ReplyMemory;
use bytes::Bytes;
use hyper::header::CONTENT_LENGTH;
use hyper::http::{HeaderMap, Response};
use std::future::Future;
use std::pin::Pin;
use std::pin::pin;
use std::task::{Context, Poll};
use tepui_digest::structured::{Encoder, encoded_bytes};
use tepui_model::{ErrorCode, ServiceError};
use tepui_service::blob::{Download, READ_BYTES};
use tepui_storage::{Engine, Extents};
use tepui_wire::blob::structured;

/// Room for two large pieces that hyper has queued and another that is read meanwhile. Who comes too late is sent
/// small pieces, one by one.
const ROOM_BYTES: usize = 3 * READ_BYTES as usize;

/// The answer to Get Blob. What is read at once is sent at once, with the headers.
pub(super) async fn respond<E: Engine, X: Extents>(
    authorized: &Authorized<'_>,
    memory: &ReplyMemory,
    mut response: Response<Vec<u8>>,
    mut content: Download<E, X>,
) -> Result<Response<ReplyBody>, ServiceError> {
    let plain_bytes = declared(response.headers());
    let mut encoder = None;
    if structured::is_asked(authorized.head.headers)? {
        structured::mark_download(response.headers_mut(), plain_bytes, encoded_bytes(plain_bytes));
        encoder = Some(Encoder::new(plain_bytes));
    }
    let bytes = declared(response.headers());
    let account = authorized.account();
    let is_large = bytes > SMALL_BODY_BYTES as u64;
    let room = if is_large { memory.try_reserve(account, ROOM_BYTES) } else { None };
    let first = match (&encoder, plain_bytes) {
        (None, 0) => return Ok(response.map(ReplyBody::from)),
        (None, _) => {
            let read = content.next_up_to(piece_bytes(room.is_some()));
            authorized.in_time(pin!(read)).await?.unwrap_or_default()
        }
        (Some(_), _) => Vec::new(),
    };
    let read = first.iter().map(Bytes::len).sum::<usize>() as u64;
    if read == bytes {
        return Ok(response.map(|_| ReplyBody::pieces(first).holding(room)));
    }
    let request_id = authorized.request_id.to_owned();
    let reader = Reader { state: State::Waiting(content), encoder, has_room: room.is_some(), request_id };
    let rest = bytes.saturating_sub(read);
    Ok(response.map(|_| ReplyBody::streamed(first, Box::new(reader), rest).holding(room)))
}

fn piece_bytes(has_room: bool) -> u64 {
    if has_room { READ_BYTES } else { SMALL_BODY_BYTES as u64 }
}

fn declared(headers: &HeaderMap) -> u64 {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    length.and_then(|text| text.parse().ok()).unwrap_or(0)
}

type Outcome = Result<Option<Vec<Bytes>>, ServiceError>;
type Reading<E, X> = dyn Future<Output = (Download<E, X>, Outcome)> + Send;

/// Reads the rest of a blob.
struct Reader<E, X: Extents> {
    state: State<E, X>,
    /// If the caller wants checksums in between.
    encoder: Option<Encoder>,
    /// For large pieces.
    has_room: bool,
    request_id: String,
}

enum State<E, X: Extents> {
    Waiting(Download<E, X>),
    Reading(Pin<Box<Reading<E, X>>>),
    Over,
}

impl<E: Engine, X: Extents> Pieces for Reader<E, X> {
    fn may_read_ahead(&self) -> bool {
        self.has_room
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<Bytes>>, BrokenReply>> {
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Poll::Ready(Ok(None)),
                State::Waiting(mut content) => {
                    let bytes = piece_bytes(self.has_room);
                    self.state = State::Reading(Box::pin(async move {
                        let outcome = content.next_up_to(bytes).await;
                        (content, outcome)
                    }));
                }
                State::Reading(mut reading) => match reading.as_mut().poll(cx) {
                    Poll::Pending => {
                        self.state = State::Reading(reading);
                        return Poll::Pending;
                    }
                    Poll::Ready((content, outcome)) => return Poll::Ready(self.take(content, outcome)),
                },
            }
        }
    }
}

impl<E: Engine, X: Extents> Reader<E, X> {
    fn take(&mut self, content: Download<E, X>, outcome: Outcome) -> Result<Option<Vec<Bytes>>, BrokenReply> {
        let pieces = outcome.map_err(|error| {
            let request_id = &self.request_id;
            match error.code {
                ErrorCode::OperationTimedOut => tracing::info!(request_id, %error, "the answer is cut off"),
                _ => tracing::error!(request_id, %error, "a blob cannot be read: the answer is cut off"),
            }
            BrokenReply(error.to_string())
        })?;
        let Some(pieces) = pieces else {
            let mut end = Vec::new();
            let encoder = self.encoder.take();
            return Ok(encoder.map(|encoder| {
                encoder.finish(&mut end);
                vec![end.into()]
            }));
        };
        self.state = State::Waiting(content);
        let Some(encoder) = &mut self.encoder else { return Ok(Some(pieces)) };
        let mut out = Vec::with_capacity(pieces.iter().map(Bytes::len).sum::<usize>() + 64);
        pieces.iter().for_each(|piece| encoder.push(piece, &mut out));
        Ok(Some(vec![out.into()]))
    }
}
