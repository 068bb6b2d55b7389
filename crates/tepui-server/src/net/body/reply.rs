//! The body of a reply: bytes in memory, or bytes that are read while it is sent.

use super::chunks::{Chunks, ReplyEnd};
use crate::net::connection::ConnectionState;
use bytes::{Buf, Bytes};
use hyper::body::{Frame, SizeHint};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::OwnedSemaphorePermit;

/// The body of a reply.
#[derive(Default)]
pub struct ReplyBody {
    /// Bytes in memory.
    waiting: Chunks,
    unread: Option<Unread>,
    /// The share of the memory budget of replies, released when the last byte is written to the socket.
    memory: Option<Arc<OwnedSemaphorePermit>>,
    end: Option<ReplyEnd>,
}

/// The part of a reply that is still to be read.
struct Unread {
    source: Box<dyn Pieces>,
    /// `None`: nobody knows yet.
    bytes: Option<u64>,
    /// A read had to wait: the source is a disk, which can be read while the network sends.
    is_slow: bool,
}

/// A source of the bytes of a reply, read while it is sent.
pub trait Pieces: Send {
    /// Whether there is memory to read ahead.
    fn may_read_ahead(&self) -> bool;

    /// The next pieces, `None` at the end.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<Bytes>>, BrokenReply>>;
}

/// The rest of a reply cannot be read. The connection is closed, so that the client sees a truncated reply.
#[derive(Debug)]
pub struct BrokenReply(pub String);

impl ReplyBody {
    pub fn empty() -> Self {
        Self::default()
    }

    /// Several pieces, sent without copying them together.
    pub fn pieces(pieces: Vec<Bytes>) -> Self {
        let mut waiting = Chunks::default();
        waiting.extend(pieces);
        Self { waiting, ..Self::default() }
    }

    /// Pieces in memory, and `bytes` more, which `source` reads while those are sent.
    pub fn streamed(pieces: Vec<Bytes>, source: Box<dyn Pieces>, bytes: u64) -> Self {
        Self { unread: Some(Unread { source, bytes: Some(bytes), is_slow: false }), ..Self::pieces(pieces) }
    }

    /// What `source` reads while it is sent, however much that will be: the reply is chunked.
    pub(crate) fn open_ended(source: Box<dyn Pieces>) -> Self {
        Self { unread: Some(Unread { source, bytes: None, is_slow: false }), ..Self::default() }
    }

    /// Keeps its share of the memory budget of replies until it is sent.
    pub fn holding(mut self, memory: Option<OwnedSemaphorePermit>) -> Self {
        self.memory = memory.map(Arc::new).or(self.memory);
        self
    }

    /// Calls `call` with the bytes that were sent, when the last of them is on the socket or the reply is given up.
    pub fn at_end(mut self, call: impl FnOnce(u64) + Send + 'static) -> Self {
        self.end = Some(ReplyEnd { sent: 0, call: Some(Box::new(call)) });
        self
    }

    /// The bytes left to send, as far as is known.
    pub fn len(&self) -> u64 {
        self.waiting.remaining() as u64 + self.unread.as_ref().and_then(|unread| unread.bytes).unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0 && !self.is_open_ended()
    }

    /// Whether nobody knows how much is left.
    fn is_open_ended(&self) -> bool {
        self.unread.as_ref().is_some_and(|unread| unread.bytes.is_none())
    }

    /// Reads the next pieces.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BrokenReply>> {
        let Some(unread) = &mut self.unread else { return Poll::Ready(Ok(())) };
        match unread.source.poll_next(cx)? {
            Poll::Pending => {
                unread.is_slow = true;
                return Poll::Pending;
            }
            Poll::Ready(None) if unread.bytes.unwrap_or(0) == 0 => self.unread = None,
            Poll::Ready(None) => return broken("it ends too early"),
            Poll::Ready(Some(pieces)) => {
                let bytes = pieces.iter().map(Bytes::len).sum::<usize>() as u64;
                self.waiting.extend(pieces);
                if let Some(declared) = &mut unread.bytes {
                    let Some(left) = declared.checked_sub(bytes) else {
                        return broken("there are more bytes than declared");
                    };
                    *declared = left;
                    if left == 0 {
                        self.unread = None;
                    }
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn broken<T>(why: &str) -> Poll<Result<T, BrokenReply>> {
    Poll::Ready(Err(BrokenReply(why.to_owned())))
}

impl<T: Into<Bytes>> From<T> for ReplyBody {
    fn from(bytes: T) -> Self {
        Self { waiting: Chunks::of(bytes.into()), ..Self::default() }
    }
}

impl hyper::body::Body for ReplyBody {
    type Data = Chunks;
    type Error = BrokenReply;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunks>, BrokenReply>>> {
        while !self.waiting.has_remaining() {
            if self.unread.is_none() {
                return Poll::Ready(None);
            }
            ready!(self.poll_next(cx)?);
        }
        let mut chunks = std::mem::take(&mut self.waiting);
        chunks.memory.clone_from(&self.memory);
        if self.unread.as_ref().is_some_and(|unread| unread.is_slow && unread.source.may_read_ahead()) {
            let _ = self.poll_next(cx)?;
        }
        match self.end.take() {
            Some(end) if self.is_empty() => chunks.end = Some(end),
            // Pieces before the last count when they are handed over: the last is written after them.
            Some(mut end) => {
                end.sent += chunks.remaining() as u64;
                self.end = Some(end);
            }
            None => {}
        }
        Poll::Ready(Some(Ok(Frame::data(chunks))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_open_ended() { SizeHint::default() } else { SizeHint::with_exact(self.len()) }
    }
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplyBody({} bytes)", self.len())
    }
}

impl fmt::Display for BrokenReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the reply broke off: {}", self.0)
    }
}

impl std::error::Error for BrokenReply {}

/// A reply that marks its end in the state of its connection.
pub(crate) struct TrackedReply {
    body: ReplyBody,
    state: Arc<ConnectionState>,
}

impl TrackedReply {
    pub(crate) fn new(body: ReplyBody, state: Arc<ConnectionState>) -> Self {
        Self { body, state }
    }
}

impl Drop for TrackedReply {
    fn drop(&mut self) {
        self.state.end_request();
    }
}

impl hyper::body::Body for TrackedReply {
    type Data = Chunks;
    type Error = BrokenReply;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunks>, BrokenReply>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Body as _;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    /// Sends a reply as a connection would, at most so many frames of it. Returns what `at_end` was called with.
    fn sent(body: ReplyBody, frames: usize) -> Option<u64> {
        let ended = Arc::new(parking_lot::Mutex::new(None));
        let at_end = Arc::clone(&ended);
        let mut body = body.at_end(move |sent| *at_end.lock() = Some(sent));
        for _ in 0..frames {
            let frame = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(Some(Ok(frame))) = frame else { break };
            let mut chunks = frame.into_data().unwrap();
            assert_eq!(*ended.lock(), None, "before it is written");
            chunks.advance(chunks.remaining());
        }
        drop(body);
        *ended.lock()
    }

    #[test]
    fn a_reply_calls_back_when_it_has_ended() {
        struct Source(Vec<&'static str>);
        impl Pieces for Source {
            fn may_read_ahead(&self) -> bool {
                false
            }
            fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Vec<Bytes>>, BrokenReply>> {
                Poll::Ready(Ok(self.0.pop().map(|piece| vec![Bytes::from_static(piece.as_bytes())])))
            }
        }
        let streamed = || {
            let source = Box::new(Source(vec!["ghi", "def"]));
            ReplyBody::streamed(vec![Bytes::from_static(b"abc")], source, 6)
        };
        for (case, body, frames, expected) in [
            ("empty", ReplyBody::empty(), 1, 0),
            ("whole", ReplyBody::from("abc"), 1, 3),
            ("not sent", ReplyBody::from("abc"), 0, 0),
            ("streamed", streamed(), 9, 9),
            ("given up", streamed(), 2, 6),
        ] {
            assert_eq!(sent(body, frames), Some(expected), "{case}");
        }
    }

    /// Ten bytes each time; `waits` says whether the first of them have to be waited for.
    struct Source {
        waits: bool,
        read: Arc<AtomicUsize>,
    }

    impl Pieces for Source {
        fn may_read_ahead(&self) -> bool {
            true
        }

        fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Vec<Bytes>>, BrokenReply>> {
            if std::mem::take(&mut self.waits) {
                return Poll::Pending;
            }
            self.read.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(Ok(Some(vec!["0123".into(), "456789".into()])))
        }
    }

    #[test]
    fn more_is_read_ahead_only_where_reading_has_to_wait() {
        for (waits, expected) in [(false, [1, 2, 3]), (true, [2, 3, 3])] {
            let read = Arc::new(AtomicUsize::new(0));
            let source = Source { waits, read: Arc::clone(&read) };
            let mut body = ReplyBody::streamed(vec![], Box::new(source), 30);
            let cx = &mut Context::from_waker(Waker::noop());
            if waits {
                assert!(Pin::new(&mut body).poll_frame(cx).is_pending());
            }
            for expected in expected {
                let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(cx) else {
                    panic!("there is more to come")
                };
                assert_eq!(frame.into_data().map(|chunks| chunks.remaining()).ok(), Some(10));
                assert_eq!(read.load(Ordering::Relaxed), expected, "{waits}");
            }
            assert!(matches!(Pin::new(&mut body).poll_frame(cx), Poll::Ready(None)));
        }
    }
}
