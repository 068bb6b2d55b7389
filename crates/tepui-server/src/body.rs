//! The bodies of requests and replies.
//!
//! A request's body is read at a pace that the client owes: whole, within a limit and within a memory
//! budget that all connections share, or piece by piece. A reply's body is bytes that are there
//! already, or that are read while it is sent.

use crate::connection::Vitals;
use crate::limits::SMALL_BODY_BYTES;
use bytes::{Buf, Bytes, BytesMut};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::OwnedSemaphorePermit;

/// The body of a request, not yet read.
pub struct Body(Source);

enum Source {
    Wire(Wire),
    Given(Bytes),
}

/// A body that comes over a connection.
struct Wire {
    incoming: Incoming,
    vitals: Arc<Vitals>,
    /// Whose share of the memory for bodies it takes.
    account: Arc<str>,
    /// How much has come.
    came: usize,
    /// How much of it is kept in memory, as far as is known.
    most: usize,
}

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// It is, or says it is, larger than the limit.
    TooLarge,
    /// The client sends it too slowly.
    TimedOut,
    /// The connection broke, or the body is not what its headers say.
    Broken,
    /// There is no memory for it now.
    Busy,
}

impl Body {
    pub(crate) fn from_wire(incoming: Incoming, vitals: Arc<Vitals>) -> Self {
        Self(Source::Wire(Wire { incoming, vitals, account: Arc::default(), came: 0, most: 0 }))
    }

    /// A body that is there already, for tests and for requests that come by other ways.
    pub fn given(bytes: Bytes) -> Self {
        Self(Source::Given(bytes))
    }

    /// Says whose share of the memory for bodies it takes.
    pub fn charge(&mut self, account: &str) {
        if let Source::Wire(wire) = &mut self.0
            && wire.incoming.size_hint().exact().is_none_or(|bytes| bytes > SMALL_BODY_BYTES as u64)
        {
            wire.account = account.into();
        }
    }

    /// The size that the headers declare; `None` if the body comes in chunks.
    pub fn declared_bytes(&self) -> Option<u64> {
        match &self.0 {
            Source::Wire(wire) => wire.incoming.size_hint().exact(),
            Source::Given(bytes) => Some(bytes.len() as u64),
        }
    }

    /// Begins to read a body that is not kept: it may be of any size, and may take any time, as long as
    /// it keeps coming. `buffer_bytes` of it are in memory at a time, wherever it goes.
    pub async fn begin_stream(&mut self, buffer_bytes: usize) -> Result<(), BodyError> {
        let Source::Wire(wire) = &mut self.0 else { return Ok(()) };
        wire.vitals.stream_body();
        let declared = wire.incoming.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        wire.most = declared.map_or(buffer_bytes, |bytes| bytes.min(buffer_bytes));
        wire.reserve(wire.most).await
    }

    /// The next bytes, `None` at the end. To be awaited within the future that answers the request.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        match &mut self.0 {
            Source::Given(bytes) if bytes.is_empty() => Ok(None),
            Source::Given(bytes) => Ok(Some(std::mem::take(bytes))),
            Source::Wire(wire) => {
                let piece = wire.next_piece().await?;
                wire.reserve(wire.came.min(wire.most)).await?;
                Ok(piece)
            }
        }
    }

    /// Reads what is left and throws it away, within reason: many clients listen for the answer only when
    /// they have sent all, and would find the connection broken.
    pub async fn discard(self) {
        if let Source::Wire(mut wire) = self.0
            && !wire.incoming.is_end_stream()
        {
            wire.discard().await;
        }
    }

    /// Reads the whole body. To be awaited within the future that answers the request. A body in one
    /// piece is not copied; memory for a large one is the request's until its handler ends.
    pub async fn read_whole(self, limit_bytes: usize) -> Result<Bytes, BodyError> {
        let mut wire = match self.0 {
            Source::Given(bytes) if bytes.len() > limit_bytes => return Err(BodyError::TooLarge),
            Source::Given(bytes) => return Ok(bytes),
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
        wire.most = declared.unwrap_or(0);
        wire.reserve(wire.most).await?;

        let Some(first) = wire.next_piece().await? else { return Ok(Bytes::new()) };
        wire.reserve(first.len()).await?;
        if declared == Some(first.len()) {
            wire.vitals.body_ended();
            return Ok(first);
        }
        let mut whole = BytesMut::new();
        let mut piece = Some(first);
        while let Some(bytes) = piece {
            if wire.came > limit_bytes {
                drop(whole);
                wire.discard().await;
                return Err(BodyError::TooLarge);
            }
            wire.reserve(wire.came).await?;
            if whole.is_empty() {
                whole.reserve(declared.unwrap_or(wire.came));
            }
            whole.extend_from_slice(&bytes);
            piece = wire.next_piece().await?;
        }
        Ok(whole.freeze())
    }
}

/// The most of a body that is read only to be thrown away.
const MAX_DISCARDED_BYTES: u64 = 64 * 1024 * 1024;

impl Wire {
    /// Throws away what is left, unless others wait for the connection to go.
    async fn discard(&mut self) {
        if (self.came as u64).saturating_add(self.incoming.size_hint().lower()) > MAX_DISCARDED_BYTES {
            return;
        }
        self.vitals.discard_body(true);
        while let Ok(Some(_)) = self.next_piece().await {
            if self.came as u64 > MAX_DISCARDED_BYTES {
                break;
            }
        }
        self.vitals.discard_body(false);
    }

    /// The next bytes of the body, `None` at its end. Trailers are skipped.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, BodyError> {
        let Self { incoming, vitals, came, .. } = self;
        poll_fn(|cx| {
            loop {
                let frame = match Pin::new(&mut *incoming).poll_frame(cx) {
                    Poll::Pending if vitals.gives_up_body() => return Poll::Ready(Err(BodyError::TimedOut)),
                    Poll::Pending => {
                        vitals.await_body(true);
                        return Poll::Pending;
                    }
                    Poll::Ready(frame) => frame,
                };
                vitals.await_body(false);
                match frame.map(|frame| frame.map(Frame::into_data)) {
                    None => {
                        vitals.body_ended();
                        return Poll::Ready(Ok(None));
                    }
                    Some(Err(_)) => return Poll::Ready(Err(BodyError::Broken)),
                    Some(Ok(Ok(bytes))) => {
                        *came = came.saturating_add(bytes.len());
                        vitals.body_came(*came);
                        return Poll::Ready(Ok(Some(bytes)));
                    }
                    Some(Ok(Err(_trailers))) => {}
                }
            }
        })
        .await
    }

    /// Takes from the memory for bodies what this one needs, of which `kept` bytes are kept.
    async fn reserve(&self, kept: usize) -> Result<(), BodyError> {
        if kept <= SMALL_BODY_BYTES {
            return Ok(());
        }
        let (vitals, shared) = (&self.vitals, &self.vitals.shared);
        let memory = if vitals.body_slow() { &shared.slow_body_memory } else { &shared.body_memory };
        let more = reserved_bytes(kept).saturating_sub(vitals.held_memory());
        if more > 0 {
            let patience = shared.limits.body_memory_timeout;
            let reservation = memory.reserve(&self.account, more, patience, || shared.ring()).await;
            vitals.hold_memory(reservation.ok_or(BodyError::Busy)?);
        }
        Ok(())
    }
}

/// What a body takes of the memory for bodies of which so much is kept. In steps, so that those of unknown size do not
/// queue for memory at every piece.
pub(crate) fn reserved_bytes(kept: usize) -> usize {
    kept.saturating_sub(SMALL_BODY_BYTES).next_multiple_of(SMALL_BODY_BYTES)
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the body is too large",
            Self::TimedOut => "the body came too slowly",
            Self::Broken => "the body broke off",
            Self::Busy => "there is no memory for the body now",
        })
    }
}

impl std::error::Error for BodyError {}

/// The body of a reply.
#[derive(Default)]
pub struct ReplyBody {
    /// What is there already.
    waiting: Run,
    unread: Option<Unread>,
    /// Travels with the bytes, and is given back when the last of them is on the socket.
    memory: Option<Arc<OwnedSemaphorePermit>>,
    end: Option<ReplyEnd>,
}

/// Calls back when the last byte of a reply is on the socket, or the reply is given up, with the bytes that were sent.
struct ReplyEnd {
    sent: u64,
    call: Option<Box<dyn FnOnce(u64) + Send>>,
}

impl Drop for ReplyEnd {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            call(self.sent);
        }
    }
}

impl fmt::Debug for ReplyEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplyEnd({} bytes sent)", self.sent)
    }
}

/// The part of a reply that is still to be read.
struct Unread {
    source: Box<dyn Pieces>,
    bytes: u64,
    /// It had to be waited for: it comes from a disk, which can work while the network does.
    is_slow: bool,
}

/// Where the bytes of a reply come from that are read while it is sent.
pub trait Pieces: Send {
    /// Whether there is memory to read some while others are sent.
    fn may_read_ahead(&self) -> bool;

    /// The next of them; `None`: that was all.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<Bytes>>, BrokenReply>>;
}

/// The rest of a reply cannot be had. The connection ends, so that nobody takes a part for the whole.
#[derive(Debug)]
pub struct BrokenReply(pub String);

impl ReplyBody {
    pub fn empty() -> Self {
        Self::default()
    }

    /// Several pieces in a row, sent without putting them together.
    pub fn pieces(pieces: Vec<Bytes>) -> Self {
        let mut waiting = Run::default();
        waiting.extend(pieces);
        Self { waiting, ..Self::default() }
    }

    /// Pieces that are there, and `bytes` more, which `source` reads while those are sent.
    pub fn streamed(pieces: Vec<Bytes>, source: Box<dyn Pieces>, bytes: u64) -> Self {
        Self { unread: Some(Unread { source, bytes, is_slow: false }), ..Self::pieces(pieces) }
    }

    /// Holds on to its share of the memory for replies until it is sent.
    pub fn holding(mut self, memory: Option<OwnedSemaphorePermit>) -> Self {
        self.memory = memory.map(Arc::new).or(self.memory);
        self
    }

    /// Calls `call` with the bytes that were sent, when the last of them is on the socket or the reply is given up.
    pub fn at_end(mut self, call: impl FnOnce(u64) + Send + 'static) -> Self {
        self.end = Some(ReplyEnd { sent: 0, call: Some(Box::new(call)) });
        self
    }

    /// The bytes that are still to be sent.
    pub fn len(&self) -> u64 {
        self.waiting.remaining() as u64 + self.unread.as_ref().map_or(0, |unread| unread.bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads what comes next.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BrokenReply>> {
        let Some(unread) = &mut self.unread else { return Poll::Ready(Ok(())) };
        match unread.source.poll_next(cx)? {
            Poll::Pending => {
                unread.is_slow = true;
                return Poll::Pending;
            }
            Poll::Ready(None) if unread.bytes == 0 => self.unread = None,
            Poll::Ready(None) => return broken("it ends too early"),
            Poll::Ready(Some(pieces)) => {
                let bytes = pieces.iter().map(Bytes::len).sum::<usize>() as u64;
                let Some(left) = unread.bytes.checked_sub(bytes) else {
                    return broken("there is more than was said");
                };
                unread.bytes = left;
                self.waiting.extend(pieces);
                if left == 0 {
                    self.unread = None;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Pieces that are sent in one go.
#[derive(Debug, Default)]
pub struct Run {
    /// Empty only if there is nothing left.
    first: Bytes,
    rest: VecDeque<Bytes>,
    /// What the reply holds of the memory for replies: hyper queues the pieces until the client reads them, and may
    /// have dropped the body long before that.
    _memory: Option<Arc<OwnedSemaphorePermit>>,
    /// Travels with the last pieces.
    end: Option<ReplyEnd>,
}

impl Run {
    fn extend(&mut self, pieces: Vec<Bytes>) {
        self.rest.extend(pieces);
        self.skip_empty();
    }

    fn skip_empty(&mut self) {
        while self.first.is_empty()
            && let Some(next) = self.rest.pop_front()
        {
            self.first = next;
        }
    }
}

impl Buf for Run {
    fn remaining(&self) -> usize {
        self.first.len() + self.rest.iter().map(Bytes::len).sum::<usize>()
    }

    fn chunk(&self) -> &[u8] {
        &self.first
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let pieces = std::iter::once(&self.first).chain(&self.rest).filter(|piece| !piece.is_empty());
        slices.iter_mut().zip(pieces).map(|(slice, piece)| *slice = IoSlice::new(piece)).count()
    }

    fn advance(&mut self, mut bytes: usize) {
        if let Some(end) = &mut self.end {
            end.sent += bytes as u64;
        }
        while bytes > self.first.len() && !self.rest.is_empty() {
            bytes -= self.first.len();
            self.first = self.rest.pop_front().unwrap_or_default();
        }
        self.first.advance(bytes);
        self.skip_empty();
    }
}

fn broken<T>(why: &str) -> Poll<Result<T, BrokenReply>> {
    Poll::Ready(Err(BrokenReply(why.to_owned())))
}

impl<T: Into<Bytes>> From<T> for ReplyBody {
    fn from(bytes: T) -> Self {
        Self { waiting: Run { first: bytes.into(), ..Run::default() }, ..Self::default() }
    }
}

impl hyper::body::Body for ReplyBody {
    type Data = Run;
    type Error = BrokenReply;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Run>, BrokenReply>>> {
        while !self.waiting.has_remaining() {
            if self.unread.is_none() {
                return Poll::Ready(None);
            }
            ready!(self.poll_next(cx)?);
        }
        let mut run = std::mem::take(&mut self.waiting);
        run._memory.clone_from(&self.memory);
        if self.unread.as_ref().is_some_and(|unread| unread.is_slow && unread.source.may_read_ahead()) {
            let _ = self.poll_next(cx)?;
        }
        match self.end.take() {
            Some(end) if self.is_empty() => run.end = Some(end),
            // Pieces before the last count when they are handed over: the last is written after them.
            Some(mut end) => {
                end.sent += run.remaining() as u64;
                self.end = Some(end);
            }
            None => {}
        }
        Poll::Ready(Some(Ok(Frame::data(run))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len())
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

/// A reply's body that marks its end in the connection's vitals.
pub(crate) struct Sent {
    body: ReplyBody,
    vitals: Arc<Vitals>,
}

impl Sent {
    pub(crate) fn new(body: ReplyBody, vitals: Arc<Vitals>) -> Self {
        Self { body, vitals }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.vitals.end_request();
    }
}

impl hyper::body::Body for Sent {
    type Data = Run;
    type Error = BrokenReply;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Run>, BrokenReply>>> {
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    /// Sends a reply as a connection would, at most so many pieces of it, and tells what it is told at the end.
    fn sent(body: ReplyBody, frames: usize) -> Option<u64> {
        let told = Arc::new(std::sync::Mutex::new(None));
        let tells = Arc::clone(&told);
        let mut body = body.at_end(move |sent| *tells.lock().unwrap() = Some(sent));
        for _ in 0..frames {
            let frame = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(Some(Ok(frame))) = frame else { break };
            let mut run = frame.into_data().unwrap();
            assert_eq!(*told.lock().unwrap(), None, "before it is written");
            run.advance(run.remaining());
        }
        drop(body);
        *told.lock().unwrap()
    }

    #[test]
    fn a_reply_tells_when_it_has_ended() {
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

    fn run(pieces: [&'static str; 5]) -> Run {
        let mut run = Run::default();
        run.extend(pieces.map(Bytes::from).to_vec());
        run
    }

    #[test]
    fn a_run_is_its_pieces_however_it_is_taken() {
        for pieces in [["one ", "", "two ", "three", ""], ["", "", "one two three", "", ""], [""; 5]] {
            let whole = pieces.concat();
            for step in 1..=whole.len().max(1) {
                let (mut run, mut taken) = (run(pieces), String::new());
                while run.has_remaining() {
                    assert_eq!(run.remaining() + taken.len(), whole.len());
                    assert!(!run.chunk().is_empty());
                    let mut slices = [IoSlice::new(&[]); 8];
                    let count = run.chunks_vectored(&mut slices);
                    let seen: Vec<u8> =
                        slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
                    assert_eq!(seen, whole.as_bytes()[taken.len()..], "{pieces:?} by {step}");
                    let bytes = step.min(seen.len());
                    taken += std::str::from_utf8(&seen[..bytes]).unwrap();
                    run.advance(bytes);
                }
                assert_eq!((taken.as_str(), run.chunk().len()), (whole.as_str(), 0));
            }
        }
        let (run, mut slices) = (run(["one ", "", "two ", "three", ""]), [IoSlice::new(&[]); 1]);
        assert_eq!(run.chunks_vectored(&mut slices), 1);
        assert_eq!(&*slices[0], b"one ");
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
                assert_eq!(frame.into_data().map(|run| run.remaining()).ok(), Some(10));
                assert_eq!(read.load(Ordering::Relaxed), expected, "{waits}");
            }
            assert!(matches!(Pin::new(&mut body).poll_frame(cx), Poll::Ready(None)));
        }
    }
}
