//! The body of a request: read whole, within a limit and within a memory budget that all connections share, or as a stream.
//! The connection's watchdog enforces a minimum rate.

use crate::net::connection::ConnectionState;
use crate::net::limits::SMALL_BODY_BYTES;
use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Frame, Incoming};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

/// The body of a request, not yet read.
pub struct Body(Source);

enum Source {
    Wire(Wire),
    InMemory(Bytes),
}

/// A body that comes over a connection.
struct Wire {
    incoming: Incoming,
    state: Arc<ConnectionState>,
    /// The account whose share of the memory budget it takes.
    account: Arc<str>,
    /// Bytes received.
    received: usize,
    /// The most bytes of it in memory, as far as is known.
    max_kept: usize,
}

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// It is, or is declared to be, larger than the limit.
    TooLarge,
    /// The client sends it too slowly.
    TimedOut,
    /// The connection broke, or the body does not match its headers.
    Broken,
    /// The memory budget is used up.
    Busy,
}

impl Body {
    pub(crate) fn from_wire(incoming: Incoming, state: Arc<ConnectionState>) -> Self {
        Self(Source::Wire(Wire { incoming, state, account: Arc::default(), received: 0, max_kept: 0 }))
    }

    /// A body in memory, for tests.
    pub fn given(bytes: Bytes) -> Self {
        Self(Source::InMemory(bytes))
    }

    /// Sets the account whose share of the memory budget it takes.
    pub fn charge(&mut self, account: &str) {
        if let Source::Wire(wire) = &mut self.0
            && wire.incoming.size_hint().exact().is_none_or(|bytes| bytes > SMALL_BODY_BYTES as u64)
        {
            wire.account = account.into();
        }
    }

    /// The declared size; `None` with chunked encoding.
    pub fn declared_bytes(&self) -> Option<u64> {
        match &self.0 {
            Source::Wire(wire) => wire.incoming.size_hint().exact(),
            Source::InMemory(bytes) => Some(bytes.len() as u64),
        }
    }

    /// Begins to read a body as a stream: it may have any size and take any time, as long as it keeps the minimum
    /// rate. At most `buffer_bytes` of it are in memory at a time.
    pub async fn begin_stream(&mut self, buffer_bytes: usize) -> Result<(), BodyError> {
        let Source::Wire(wire) = &mut self.0 else { return Ok(()) };
        wire.state.stream_body();
        let declared = wire.incoming.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        wire.max_kept = declared.map_or(buffer_bytes, |bytes| bytes.min(buffer_bytes));
        wire.reserve(wire.max_kept).await
    }

    /// The next bytes, `None` at the end. To be awaited within the future that answers the request.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        match &mut self.0 {
            Source::InMemory(bytes) if bytes.is_empty() => Ok(None),
            Source::InMemory(bytes) => Ok(Some(std::mem::take(bytes))),
            Source::Wire(wire) => {
                let piece = wire.next_piece().await?;
                wire.reserve(wire.received.min(wire.max_kept)).await?;
                Ok(piece)
            }
        }
    }

    /// Reads and discards the rest, up to a limit: many clients read the reply only when they have sent everything, and
    /// would see a broken connection.
    pub async fn discard(self) {
        if let Source::Wire(mut wire) = self.0
            && !wire.incoming.is_end_stream()
        {
            wire.discard().await;
        }
    }

    /// Reads the whole body. To be awaited within the future that answers the request. A body in one piece is not copied;
    /// the memory of a large one is reserved until the handler ends.
    pub async fn read_whole(self, limit_bytes: usize) -> Result<Bytes, BodyError> {
        let mut wire = match self.0 {
            Source::InMemory(bytes) if bytes.len() > limit_bytes => return Err(BodyError::TooLarge),
            Source::InMemory(bytes) => return Ok(bytes),
            Source::Wire(wire) if wire.incoming.is_end_stream() => return Ok(Bytes::new()),
            Source::Wire(wire) => wire,
        };
        let declared = match wire.incoming.size_hint().exact() {
            Some(declared) if declared > limit_bytes as u64 => {
                wire.discard().await;
                return Err(BodyError::TooLarge);
            }
            declared => declared.map(|declared| declared as usize),
        };
        wire.max_kept = declared.unwrap_or(0);
        wire.reserve(wire.max_kept).await?;

        let Some(first) = wire.next_piece().await? else { return Ok(Bytes::new()) };
        wire.reserve(first.len()).await?;
        if declared == Some(first.len()) {
            wire.state.body_ended();
            return Ok(first);
        }
        let mut whole = BytesMut::new();
        let mut piece = Some(first);
        while let Some(bytes) = piece {
            if wire.received > limit_bytes {
                drop(whole);
                wire.discard().await;
                return Err(BodyError::TooLarge);
            }
            wire.reserve(wire.received).await?;
            if whole.is_empty() {
                whole.reserve(declared.unwrap_or(wire.received));
            }
            whole.extend_from_slice(&bytes);
            piece = wire.next_piece().await?;
        }
        Ok(whole.freeze())
    }
}

/// The most bytes of a body that are read to be discarded.
const MAX_DISCARDED_BYTES: u64 = 64 * 1024 * 1024;

impl Wire {
    /// Discards the rest, unless the connection must close under backpressure.
    async fn discard(&mut self) {
        if (self.received as u64).saturating_add(self.incoming.size_hint().lower()) > MAX_DISCARDED_BYTES {
            return;
        }
        self.state.discard_body(true);
        while let Ok(Some(_)) = self.next_piece().await {
            if self.received as u64 > MAX_DISCARDED_BYTES {
                break;
            }
        }
        self.state.discard_body(false);
    }

    /// The next bytes of the body, `None` at its end. Trailers are skipped.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, BodyError> {
        let Self { incoming, state, received, .. } = self;
        poll_fn(|cx| {
            loop {
                let frame = match Pin::new(&mut *incoming).poll_frame(cx) {
                    Poll::Pending if state.must_abandon_body() => {
                        return Poll::Ready(Err(BodyError::TimedOut));
                    }
                    Poll::Pending => {
                        state.await_body(true);
                        return Poll::Pending;
                    }
                    Poll::Ready(frame) => frame,
                };
                state.await_body(false);
                match frame.map(|frame| frame.map(Frame::into_data)) {
                    None => {
                        state.body_ended();
                        return Poll::Ready(Ok(None));
                    }
                    Some(Err(_)) => return Poll::Ready(Err(BodyError::Broken)),
                    Some(Ok(Ok(bytes))) => {
                        *received = received.saturating_add(bytes.len());
                        state.body_received(*received);
                        return Poll::Ready(Ok(Some(bytes)));
                    }
                    Some(Ok(Err(_trailers))) => {}
                }
            }
        })
        .await
    }

    /// Reserves memory for a body of which `kept` bytes are kept.
    async fn reserve(&self, kept: usize) -> Result<(), BodyError> {
        if kept <= SMALL_BODY_BYTES {
            return Ok(());
        }
        let (state, shared) = (&self.state, &self.state.shared);
        let memory = if state.body_slow() { &shared.slow_body_memory } else { &shared.body_memory };
        let more = reserved_bytes(kept).saturating_sub(state.held_memory());
        if more > 0 {
            let timeout = shared.limits.body_memory_timeout;
            let reservation = memory.reserve(&self.account, more, timeout, || shared.signal()).await;
            state.add_memory(reservation.ok_or(BodyError::Busy)?);
        }
        Ok(())
    }
}

/// The reservation for a body of which `kept` bytes are kept. In steps, so that bodies of unknown size do not wait for
/// memory at every piece.
pub(crate) fn reserved_bytes(kept: usize) -> usize {
    kept.saturating_sub(SMALL_BODY_BYTES).next_multiple_of(SMALL_BODY_BYTES)
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the body is too large",
            Self::TimedOut => "the body received too slowly",
            Self::Broken => "the body broke off",
            Self::Busy => "there is no memory for the body now",
        })
    }
}

impl std::error::Error for BodyError {}
