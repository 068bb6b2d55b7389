//! One connection: hyper on a stream, with a watchdog that disconnects slow or silent clients.
//!
//! Requests must not pay for timers. So the stream and the bodies only update counters and flags in [`ConnectionState`],
//! and one coarse timer per connection checks those every few seconds. Everything here runs in the task of the
//! connection; the atomics are needed because hyper and the handler own parts of it, not because of races.

use crate::net::accept::{ListenerState, Shared, Stage};
use crate::net::body::{TrackedReply, reserved_bytes};
use crate::net::body_memory::Reservation;
use crate::net::header_case::{HeadScanner, HeadWriter};
use crate::net::limits::DEFAULT_MAX_HEADERS;
use crate::net::slow_clients::{Verdict, Watchdog};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tepui_wire::metadata::HeaderCase;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A body below this rate, after a while, releases its memory when others need it.
const SLOW_BYTES_PER_SECOND: f64 = 64.0 * 1024.0;
const SLOW_AFTER: Duration = Duration::from_millis(500);

/// The state of a connection, for its watchdog.
pub(crate) struct ConnectionState {
    pub(crate) shared: Arc<Shared>,
    listener: Arc<ListenerState>,
    /// The connection has to close under backpressure.
    must_close: AtomicBool,
    /// A body is read only to be discarded.
    discarding: AtomicBool,
    /// The case of the metadata of heads that hyper has read and not passed on yet.
    sent_case: Mutex<VecDeque<HeaderCase>>,
    /// The case of the metadata of the reply that is written next.
    reply_case: Mutex<Option<HeaderCase>>,
    has_reply_case: AtomicBool,
    /// The handler has a request, or hyper has not taken all of its reply.
    pub(super) in_flight: AtomicBool,
    /// Requests received.
    pub(super) requests: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    /// What the socket has taken, of TLS the encrypted bytes.
    pub(super) bytes_written: AtomicU64,
    /// `bytes_read` at the end of the last request: it grows when the next one begins.
    read_when_quiescent: AtomicU64,
    /// The last write to the socket would block.
    pub(super) write_blocked: AtomicBool,
    /// The handler waits for the body.
    pub(super) awaiting_body: AtomicBool,
    /// The client is too slow with the body.
    body_overdue: AtomicBool,
    /// The body is read as a stream, and may take any time at the minimum rate.
    pub(super) body_streamed: AtomicBool,
    /// The body of the last request was not read to its end.
    body_unread: AtomicBool,
    /// Received bytes of the body, and when it reserved memory, in microseconds from `opened`.
    body_bytes: AtomicU64,
    body_since: AtomicU64,
    opened: Instant,
    /// The body was moved to the memory budget of slow bodies.
    body_slow: AtomicBool,
    /// The memory that is reserved for the body of the request.
    body_memory: Mutex<Option<Reservation>>,
    holds_memory: AtomicBool,
}

impl ConnectionState {
    pub(crate) fn new(shared: Arc<Shared>, listener: Arc<ListenerState>) -> Self {
        Self {
            shared,
            listener,
            must_close: AtomicBool::new(false),
            discarding: AtomicBool::new(false),
            sent_case: Mutex::default(),
            reply_case: Mutex::default(),
            has_reply_case: AtomicBool::new(false),
            in_flight: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            read_when_quiescent: AtomicU64::new(0),
            write_blocked: AtomicBool::new(false),
            awaiting_body: AtomicBool::new(false),
            body_overdue: AtomicBool::new(false),
            body_streamed: AtomicBool::new(false),
            body_unread: AtomicBool::new(false),
            body_bytes: AtomicU64::new(0),
            body_since: AtomicU64::new(0),
            opened: Instant::now(),
            body_slow: AtomicBool::new(false),
            body_memory: Mutex::new(None),
            holds_memory: AtomicBool::new(false),
        }
    }

    /// Whether the connection has to close under backpressure.
    pub(crate) fn must_close(&self) -> bool {
        if !self.must_close.load(Relaxed) && self.listener.claim_excess() {
            self.must_close.store(true, Relaxed);
        }
        self.must_close.load(Relaxed)
    }

    pub(crate) fn discard_body(&self, discarding: bool) {
        self.discarding.store(discarding, Relaxed);
    }

    /// Whether the rest of the body is not to be read.
    pub(crate) fn must_abandon_body(&self) -> bool {
        self.body_overdue() || (self.discarding.load(Relaxed) && self.must_close())
    }

    /// To be called when a request is passed to the handler. Returns the case of its metadata.
    pub(crate) fn begin_request(&self, has_body: bool) -> HeaderCase {
        self.requests.store(self.requests.load(Relaxed) + 1, Relaxed);
        self.in_flight.store(true, Relaxed);
        self.body_overdue.store(false, Relaxed);
        self.body_streamed.store(false, Relaxed);
        self.body_bytes.store(0, Relaxed);
        self.body_slow.store(false, Relaxed);
        self.body_unread.store(has_body, Relaxed);
        self.sent_case.lock().pop_front().unwrap_or_default()
    }

    /// Sets the case of the metadata of the next reply.
    pub(crate) fn set_reply_case(&self, case: HeaderCase) {
        *self.reply_case.lock() = Some(case);
        self.has_reply_case.store(true, Relaxed);
    }

    fn take_reply_case(&self) -> Option<HeaderCase> {
        if !self.has_reply_case.load(Relaxed) {
            return None;
        }
        self.has_reply_case.store(false, Relaxed);
        self.reply_case.lock().take()
    }

    /// To be called when the handler is done: it no longer uses the body.
    pub(crate) fn end_handling(&self) {
        self.awaiting_body.store(false, Relaxed);
        if self.holds_memory.load(Relaxed) {
            self.holds_memory.store(false, Relaxed);
            self.memory().take();
        }
    }

    /// To be called when hyper has taken the last byte of the reply.
    pub(crate) fn end_request(&self) {
        self.read_when_quiescent.store(self.bytes_read.load(Relaxed), Relaxed);
        self.in_flight.store(false, Relaxed);
    }

    pub(crate) fn await_body(&self, waiting: bool) {
        self.awaiting_body.store(waiting, Relaxed);
    }

    pub(crate) fn body_overdue(&self) -> bool {
        self.body_overdue.load(Relaxed)
    }

    pub(crate) fn stream_body(&self) {
        self.body_streamed.store(true, Relaxed);
    }

    pub(crate) fn body_ended(&self) {
        self.body_unread.store(false, Relaxed);
    }

    /// Sets the received bytes of the body.
    pub(crate) fn body_received(&self, bytes: usize) {
        self.body_bytes.store(bytes as u64, Relaxed);
    }

    pub(crate) fn body_slow(&self) -> bool {
        self.body_slow.load(Relaxed)
    }

    /// The memory reserved for the body of the request.
    pub(crate) fn held_memory(&self) -> usize {
        match self.holds_memory.load(Relaxed) {
            true => self.memory().as_ref().map_or(0, Reservation::bytes),
            false => 0,
        }
    }

    /// Keeps a reservation until the handler is done.
    pub(crate) fn add_memory(&self, more: Reservation) {
        let mut held = self.memory();
        match held.as_mut() {
            Some(held) => held.merge(more),
            None => {
                *held = Some(more);
                self.body_since.store(self.opened.elapsed().as_micros() as u64, Relaxed);
            }
        }
        self.holds_memory.store(true, Relaxed);
    }

    /// Whether the body is so slow that it should release memory that others need.
    fn is_slow(&self) -> bool {
        if !self.awaiting_body.load(Relaxed) || !self.holds_memory.load(Relaxed) || self.body_slow() {
            return false;
        }
        let since = Duration::from_micros(self.body_since.load(Relaxed));
        let waited = self.opened.elapsed().saturating_sub(since);
        let bytes = self.body_bytes.load(Relaxed) as f64;
        waited >= SLOW_AFTER && bytes < SLOW_BYTES_PER_SECOND * waited.as_secs_f64()
    }

    /// Moves the reservation of the body to the memory budget of slow bodies, for the received bytes. Returns whether
    /// that has room.
    fn demote_to_slow(&self) -> bool {
        self.body_slow.store(true, Relaxed);
        let mut held = self.memory();
        let Some(reservation) = held.as_mut() else { return true };
        let received = usize::try_from(self.body_bytes.load(Relaxed)).unwrap_or(usize::MAX);
        let bytes = reserved_bytes(received).min(reservation.bytes());
        let moved = self.shared.slow_body_memory.try_reserve(reservation.account(), bytes);
        let has_room = moved.is_some();
        *held = moved;
        has_room
    }

    fn memory(&self) -> MutexGuard<'_, Option<Reservation>> {
        self.body_memory.lock()
    }

    /// No request is in flight and no reply is being written.
    fn is_quiescent(&self) -> bool {
        !self.in_flight.load(Relaxed) && !self.write_blocked.load(Relaxed)
    }

    /// Quiescent, and no byte of the next request was received.
    pub(super) fn idle(&self) -> bool {
        self.is_quiescent() && self.bytes_read.load(Relaxed) == self.read_when_quiescent.load(Relaxed)
    }
}

/// Serves `stream` until it ends, the watchdog closes it or the server stops.
pub(crate) async fn run<S, IO>(stream: IO, service: S, state: Arc<ConnectionState>, has_metadata: bool)
where
    IO: AsyncRead + AsyncWrite + Unpin,
    S: HttpService<Incoming, ResBody = TrackedReply>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let shared = Arc::clone(&state.shared);
    let io = TokioIo::new(HttpStream {
        stream,
        state: Arc::clone(&state),
        scanner: has_metadata
            .then(|| HeadScanner::new(shared.limits.max_head_bytes, shared.limits.max_headers)),
        writer: HeadWriter::default(),
        shut: false,
    });
    let mut builder = http1::Builder::new();
    builder.max_header_size(shared.limits.max_head_bytes);
    builder.max_buf_size(shared.limits.receive_bytes(shared.open_connections()));
    if shared.limits.max_headers != DEFAULT_MAX_HEADERS {
        builder.max_headers(shared.limits.max_headers);
    }
    let mut connection = pin!(builder.serve_connection(io, service));

    let mut watchdog = Watchdog::new(&shared.limits);
    let mut tick = pin!(tokio::time::sleep(watchdog.period));
    let mut ticking = false;
    // Checked in every poll, which is one atomic load. The first check registers the task for wake-ups.
    let mut changes = shared.changes.subscribe();
    changes.mark_changed();
    let mut wake_ups = changes.clone();
    let mut wake_up = pin!(async move { while wake_ups.changed().await.is_ok() {} });
    let mut is_stopping = false;
    poll_fn(|cx| {
        loop {
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if changes.has_changed().unwrap_or(false) {
                // The state is read after this, and what changes later wakes the task.
                changes.mark_unchanged();
                let _ = register(wake_up.as_mut(), cx);
            }
            match shared.stage() {
                Stage::Serving => {
                    if state.idle() && state.must_close() {
                        return Poll::Ready(());
                    }
                    if shared.body_memory.is_wanted() && state.is_slow() && !state.demote_to_slow() {
                        state.body_overdue.store(true, Relaxed);
                        continue;
                    }
                }
                Stage::Stopping => {
                    if state.is_quiescent() {
                        return Poll::Ready(());
                    }
                    if !is_stopping {
                        is_stopping = true;
                        connection.as_mut().graceful_shutdown();
                        continue;
                    }
                }
                Stage::Closing => return Poll::Ready(()),
            }
            // The first poll registers the task with the timer; after that its state is enough.
            if tick.is_elapsed() {
                match watchdog.check(&state, Instant::now()) {
                    Verdict::Fine => {}
                    Verdict::BodyOverdue => state.body_overdue.store(true, Relaxed),
                    Verdict::Close(why) => {
                        tracing::debug!(why, "connection closed");
                        return Poll::Ready(());
                    }
                }
                tick.as_mut().reset(tokio::time::Instant::now() + watchdog.period);
                ticking = false;
            } else if !ticking {
                ticking = true;
                let _ = register(tick.as_mut(), cx);
            } else {
                return Poll::Pending;
            }
        }
    })
    .await;
}

/// Polls `future` to register this task, even if the task has used up its cooperative budget.
fn register<F: Future>(future: Pin<&mut F>, cx: &mut Context) -> Poll<F::Output> {
    pin!(tokio::task::coop::unconstrained(future)).poll(cx)
}

/// The socket of a connection. Counts what is written to it in the state of the connection: below TLS, which takes bytes that the
/// client may not read for a long time.
pub(crate) struct MeteredSocket<IO> {
    pub(super) socket: IO,
    pub(super) state: Arc<ConnectionState>,
}

impl<IO> MeteredSocket<IO> {
    fn record_write(&self, outcome: &Poll<io::Result<usize>>) {
        let state = &self.state;
        match outcome {
            Poll::Ready(Ok(count)) => {
                state.bytes_written.store(state.bytes_written.load(Relaxed) + *count as u64, Relaxed);
                state.write_blocked.store(false, Relaxed);
            }
            Poll::Ready(Err(_)) => state.write_blocked.store(false, Relaxed),
            Poll::Pending => state.write_blocked.store(true, Relaxed),
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for MeteredSocket<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context, buf: &mut ReadBuf) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for MeteredSocket<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.record_write(&outcome);
        outcome
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        bufs: &[io::IoSlice],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.record_write(&outcome);
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// The stream that hyper reads and writes. Keeps the case of the names of metadata, which hyper does not know.
struct HttpStream<IO> {
    stream: IO,
    state: Arc<ConnectionState>,
    /// `None`: requests have no metadata.
    scanner: Option<HeadScanner>,
    writer: HeadWriter,
    shut: bool,
}

impl<IO: AsyncRead + Unpin> AsyncRead for HttpStream<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context, buf: &mut ReadBuf) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buf);
        let count = (buf.filled().len() - before) as u64;
        if count > 0 {
            let Self { state, scanner, .. } = &mut *self;
            state.bytes_read.store(state.bytes_read.load(Relaxed) + count, Relaxed);
            if let Some(scanner) = scanner {
                scanner.scan(&buf.filled()[before..], |case| state.sent_case.lock().push_back(case));
            }
        }
        outcome
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for HttpStream<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.as_mut().poll_write_vectored(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        bufs: &[io::IoSlice],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, state, writer, .. } = &mut *self;
        if let (Some(case), Some(first)) = (state.take_reply_case(), bufs.iter().find(|buf| !buf.is_empty()))
        {
            writer.begin(first, &case);
        }
        if writer.rest().is_empty() {
            return Pin::new(stream).poll_write_vectored(cx, bufs);
        }
        let outcome = Pin::new(stream).poll_write_vectored(cx, &writer.with_rest(bufs));
        if let Poll::Ready(Ok(count)) = outcome {
            writer.advance(count);
        }
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Closes the connection. If the last reply was sent before the body of its request was read, the rest is read and
    /// discarded first: closing with unread bytes resets the connection, and the client might lose the reply.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        if !self.shut {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.shut = true;
        }
        if self.state.body_unread.load(Relaxed) {
            let mut space = [0; 16 * 1024];
            loop {
                let mut buf = ReadBuf::new(&mut space);
                // Under backpressure the connection closes at once.
                if self.as_mut().poll_read(cx, &mut buf)?.is_pending() {
                    ready!(if self.state.must_close() { Poll::Ready(()) } else { Poll::Pending });
                    break;
                }
                if buf.filled().is_empty() {
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}
