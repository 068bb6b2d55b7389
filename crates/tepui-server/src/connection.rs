//! One connection: hyper on a socket, watched so that slow or silent clients are cut off.
//!
//! A request must not pay for timers. So the socket and the bodies only leave marks in [`Vitals`]
//! as they go (how many bytes, who waits for whom), and one coarse timer per connection looks at
//! the marks every few seconds. Everything here runs in the task of the connection; the atomics are
//! there because hyper and the handler own parts of it, not because of races.

use crate::accept::{Port, Shared, Stage};
use crate::body::{Sent, reserved_bytes};
use crate::body_memory::Reservation;
use crate::header_case::{HeadScanner, HeadWriter};
use crate::limits::{DEFAULT_MAX_HEADERS, Limits};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tepui_wire::metadata::HeaderCase;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A body that comes more slowly than this, after a while, gives memory back when others need it.
const SLOW_BYTES_PER_SECOND: f64 = 64.0 * 1024.0;
const LINGERING: Duration = Duration::from_millis(500);

/// The marks that a connection leaves as it goes.
pub(crate) struct Vitals {
    pub(crate) shared: Arc<Shared>,
    port: Arc<Port>,
    /// The connection has been chosen to make room for others.
    shed: AtomicBool,
    /// A body is read only to be thrown away.
    discarding: AtomicBool,
    /// The case of the metadata of heads that hyper has read and not yet passed on.
    sent_case: Mutex<VecDeque<HeaderCase>>,
    /// The same of a reply that is about to be written.
    reply_case: Mutex<Option<HeaderCase>>,
    has_reply_case: AtomicBool,
    /// A request is with the handler, or its reply is not yet in the hands of hyper.
    in_flight: AtomicBool,
    /// Requests so far.
    requests: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    /// `bytes_read` at the end of the last request: more has been read once the next one begins.
    read_at_rest: AtomicU64,
    /// The last write found the socket full.
    write_blocked: AtomicBool,
    /// The handler wants more of the body than the client has sent.
    awaiting_body: AtomicBool,
    /// The client has kept the handler waiting too long.
    body_overdue: AtomicBool,
    /// The body is read piece by piece, and may take as long as it keeps coming.
    body_streamed: AtomicBool,
    /// Not all of the body of the last request has been read.
    body_unread: AtomicBool,
    /// How much of the body has come, and when it took memory, in microseconds from `opened`.
    body_bytes: AtomicU64,
    body_since: AtomicU64,
    opened: Instant,
    /// It comes so slowly that it has moved to the memory for slow ones.
    body_slow: AtomicBool,
    /// The share of the memory for bodies that the request under way holds.
    body_memory: Mutex<Option<Reservation>>,
    holds_memory: AtomicBool,
}

impl Vitals {
    pub(crate) fn new(shared: Arc<Shared>, port: Arc<Port>) -> Self {
        Self {
            shared,
            port,
            shed: AtomicBool::new(false),
            discarding: AtomicBool::new(false),
            sent_case: Mutex::default(),
            reply_case: Mutex::default(),
            has_reply_case: AtomicBool::new(false),
            in_flight: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            read_at_rest: AtomicU64::new(0),
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

    /// Whether the connection is to go to make room for others.
    pub(crate) fn is_shed(&self) -> bool {
        if !self.shed.load(Relaxed) && self.port.take_shedding() {
            self.shed.store(true, Relaxed);
        }
        self.shed.load(Relaxed)
    }

    pub(crate) fn discard_body(&self, discarding: bool) {
        self.discarding.store(discarding, Relaxed);
    }

    /// Whether the rest of the body is not worth the room that the connection takes.
    pub(crate) fn gives_up_body(&self) -> bool {
        self.body_overdue() || (self.discarding.load(Relaxed) && self.is_shed())
    }

    /// A request has arrived and goes to the handler. Returns the case of its metadata.
    pub(crate) fn begin_request(&self, has_body: bool) -> HeaderCase {
        self.requests.store(self.requests.load(Relaxed) + 1, Relaxed);
        self.in_flight.store(true, Relaxed);
        self.body_overdue.store(false, Relaxed);
        self.body_streamed.store(false, Relaxed);
        self.body_bytes.store(0, Relaxed);
        self.body_slow.store(false, Relaxed);
        self.body_unread.store(has_body, Relaxed);
        lock(&self.sent_case).pop_front().unwrap_or_default()
    }

    /// The head of the next reply has metadata of this case.
    pub(crate) fn reply_in(&self, case: HeaderCase) {
        *lock(&self.reply_case) = Some(case);
        self.has_reply_case.store(true, Relaxed);
    }

    fn take_reply_case(&self) -> Option<HeaderCase> {
        if !self.has_reply_case.load(Relaxed) {
            return None;
        }
        self.has_reply_case.store(false, Relaxed);
        lock(&self.reply_case).take()
    }

    /// The handler is done with the request: it no longer holds its body.
    pub(crate) fn end_handling(&self) {
        self.awaiting_body.store(false, Relaxed);
        if self.holds_memory.load(Relaxed) {
            self.holds_memory.store(false, Relaxed);
            self.memory().take();
        }
    }

    /// Hyper has taken the last byte of the reply.
    pub(crate) fn end_request(&self) {
        self.read_at_rest.store(self.bytes_read.load(Relaxed), Relaxed);
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

    /// So much of the body has come in all.
    pub(crate) fn body_came(&self, bytes: usize) {
        self.body_bytes.store(bytes as u64, Relaxed);
    }

    pub(crate) fn body_slow(&self) -> bool {
        self.body_slow.load(Relaxed)
    }

    /// How much memory for its body the request under way holds.
    pub(crate) fn held_memory(&self) -> usize {
        match self.holds_memory.load(Relaxed) {
            true => self.memory().as_ref().map_or(0, Reservation::bytes),
            false => 0,
        }
    }

    /// Keeps more memory until the handler is done.
    pub(crate) fn hold_memory(&self, more: Reservation) {
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

    /// Whether the body comes so slowly that it should not hold memory that others need.
    fn lingers(&self) -> bool {
        if !self.awaiting_body.load(Relaxed) || !self.holds_memory.load(Relaxed) || self.body_slow() {
            return false;
        }
        let since = Duration::from_micros(self.body_since.load(Relaxed));
        let waited = self.opened.elapsed().saturating_sub(since);
        let bytes = self.body_bytes.load(Relaxed) as f64;
        waited >= LINGERING && bytes < SLOW_BYTES_PER_SECOND * waited.as_secs_f64()
    }

    /// Gives back what the body holds of the memory for all and goes on with that for slow ones, as far as the body
    /// has come. Whether there is any.
    fn slow_down(&self) -> bool {
        self.body_slow.store(true, Relaxed);
        let mut held = self.memory();
        let Some(reservation) = held.as_mut() else { return true };
        let came = usize::try_from(self.body_bytes.load(Relaxed)).unwrap_or(usize::MAX);
        let bytes = reserved_bytes(came).min(reservation.bytes());
        let moved = self.shared.slow_body_memory.try_reserve(reservation.account(), bytes);
        let has_room = moved.is_some();
        *held = moved;
        has_room
    }

    fn memory(&self) -> MutexGuard<'_, Option<Reservation>> {
        lock(&self.body_memory)
    }

    /// No request is under way and no reply is on its way out.
    fn at_rest(&self) -> bool {
        !self.in_flight.load(Relaxed) && !self.write_blocked.load(Relaxed)
    }

    /// At rest, and the next request has not begun to arrive.
    fn idle(&self) -> bool {
        self.at_rest() && self.bytes_read.load(Relaxed) == self.read_at_rest.load(Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves `stream` until it ends, is cut off or the server stops.
pub(crate) async fn run<S>(stream: TcpStream, service: S, vitals: Arc<Vitals>, has_metadata: bool)
where
    S: HttpService<Incoming, ResBody = Sent>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let shared = Arc::clone(&vitals.shared);
    let io = TokioIo::new(Watched {
        stream,
        vitals: Arc::clone(&vitals),
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

    let mut watch = Watch::new(&shared.limits);
    let mut tick = pin!(tokio::time::sleep(watch.period));
    let mut ticking = false;
    let mut bell = pin!(shared.bell.notified());
    let mut heard = None;
    let mut told_to_stop = false;
    poll_fn(|cx| {
        loop {
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if shared.rung() != heard {
                // A fresh `notified` misses no ring after its making, so the count is read after it.
                bell.set(shared.bell.notified());
                heard = shared.rung();
                if register(bell.as_mut(), cx).is_ready() {
                    heard = None;
                }
            }
            match shared.stage() {
                Stage::Serving => {
                    if vitals.idle() && vitals.is_shed() {
                        return Poll::Ready(());
                    }
                    if shared.body_memory.is_wanted() && vitals.lingers() && !vitals.slow_down() {
                        vitals.body_overdue.store(true, Relaxed);
                        continue;
                    }
                }
                Stage::Stopping => {
                    if vitals.at_rest() {
                        return Poll::Ready(());
                    }
                    if !told_to_stop {
                        told_to_stop = true;
                        connection.as_mut().graceful_shutdown();
                        continue;
                    }
                }
                Stage::Cutting => return Poll::Ready(()),
            }
            // The timer knows this task after its first poll; later a look at its state is enough.
            if tick.is_elapsed() {
                match watch.look(&vitals, Instant::now()) {
                    Verdict::Fine => {}
                    Verdict::BodyOverdue => vitals.body_overdue.store(true, Relaxed),
                    Verdict::Cut(why) => {
                        tracing::debug!(why, "connection cut off");
                        return Poll::Ready(());
                    }
                }
                tick.as_mut().reset(tokio::time::Instant::now() + watch.period);
                ticking = false;
            } else if !ticking {
                ticking = true;
                let _ = register(tick.as_mut(), cx);
            } else if heard.is_some() {
                return Poll::Pending;
            }
        }
    })
    .await;
}

/// Polls `future` so that it knows this task, even if the task has used up its share of polls.
fn register<F: Future>(future: Pin<&mut F>, cx: &mut Context) -> Poll<F::Output> {
    pin!(tokio::task::coop::unconstrained(future)).poll(cx)
}

#[derive(Debug, PartialEq)]
enum Verdict {
    Fine,
    /// The handler is told first; the connection is cut if nothing comes of it.
    BodyOverdue,
    Cut(&'static str),
}

/// What the coarse timer remembers between two looks at the marks.
struct Watch<'a> {
    limits: &'a Limits,
    period: Duration,
    requests: u64,
    written: u64,
    /// The last look at which something went on, or the opening of the connection.
    quiet_since: Instant,
    /// The first look at which the next request had begun to arrive.
    head_since: Option<Instant>,
    /// The first look at which the client had stopped reading.
    stalled_since: Option<Instant>,
    body: Option<Pace>,
    reply: Option<Pace>,
}

/// How much a client has sent, or read, while the server waited for it.
struct Pace {
    request: u64,
    from_bytes: u64,
    waited: Duration,
}

impl<'a> Watch<'a> {
    fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            period: limits.tick(),
            requests: 0,
            written: 0,
            quiet_since: Instant::now(),
            head_since: None,
            stalled_since: None,
            body: None,
            reply: None,
        }
    }

    fn look(&mut self, vitals: &Vitals, now: Instant) -> Verdict {
        let requests = vitals.requests.load(Relaxed);
        let written = vitals.bytes_written.load(Relaxed);
        let moved = requests != self.requests || written != self.written;
        let stalled = written == self.written;
        (self.requests, self.written) = (requests, written);
        if moved {
            self.quiet_since = now;
            self.head_since = None;
        }

        if vitals.write_blocked.load(Relaxed) {
            let since = *self.stalled_since.get_or_insert(now);
            if !stalled {
                self.stalled_since = Some(now);
            } else if now - since >= self.limits.write_timeout {
                return Verdict::Cut("the client reads nothing");
            }
            let (bytes, waited) = Pace::go_on(&mut self.reply, requests, written, self.period);
            if self.limits.too_slow(bytes, waited) {
                return Verdict::Cut("the client reads too slowly");
            }
        } else {
            self.stalled_since = None;
        }

        if vitals.in_flight.load(Relaxed) {
            self.quiet_since = now;
            self.head_since = None;
            if vitals.awaiting_body.load(Relaxed) {
                return self.look_at_body(vitals, requests);
            }
        } else if requests == 0 {
            if now - self.quiet_since >= self.limits.head_timeout {
                return Verdict::Cut("no request in time");
            }
        } else if !vitals.idle() {
            let since = *self.head_since.get_or_insert(now);
            if now - since >= self.limits.head_timeout && !vitals.write_blocked.load(Relaxed) {
                return Verdict::Cut("the head of a request takes too long");
            }
        } else if now - self.quiet_since >= self.limits.idle_timeout {
            return Verdict::Cut("idle");
        }
        Verdict::Fine
    }

    fn look_at_body(&mut self, vitals: &Vitals, requests: u64) -> Verdict {
        let read = vitals.bytes_read.load(Relaxed);
        let (bytes, waited) = Pace::go_on(&mut self.body, requests, read, self.period);
        let slow = self.limits.too_slow(bytes, waited);
        if waited < self.limits.body_timeout && !slow {
            Verdict::Fine
        } else if vitals.body_streamed.load(Relaxed) && !slow {
            // It has kept coming so far: what comes next is looked at on its own.
            self.body = None;
            Verdict::Fine
        } else if vitals.body_overdue() {
            Verdict::Cut("the body of a request takes too long")
        } else {
            Verdict::BodyOverdue
        }
    }
}

impl Pace {
    /// Counts one more period of waiting, from nothing if this is another request than the last time.
    fn go_on(pace: &mut Option<Self>, request: u64, bytes: u64, period: Duration) -> (u64, Duration) {
        match pace {
            Some(pace) if pace.request == request => pace.waited += period,
            _ => *pace = Some(Self { request, from_bytes: bytes, waited: Duration::ZERO }),
        }
        pace.as_ref().map_or((0, Duration::ZERO), |pace| (bytes - pace.from_bytes, pace.waited))
    }
}

/// The socket, leaving its marks.
struct Watched {
    stream: TcpStream,
    vitals: Arc<Vitals>,
    /// `None`: there is no metadata to look for.
    scanner: Option<HeadScanner>,
    writer: HeadWriter,
    shut: bool,
}

impl Watched {
    fn mark_write(&self, outcome: &Poll<io::Result<usize>>) {
        let vitals = &self.vitals;
        match outcome {
            Poll::Ready(Ok(count)) => {
                vitals.bytes_written.store(vitals.bytes_written.load(Relaxed) + *count as u64, Relaxed);
                vitals.write_blocked.store(false, Relaxed);
            }
            Poll::Ready(Err(_)) => vitals.write_blocked.store(false, Relaxed),
            Poll::Pending => vitals.write_blocked.store(true, Relaxed),
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context, buf: &mut ReadBuf) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buf);
        let count = (buf.filled().len() - before) as u64;
        if count > 0 {
            let Self { vitals, scanner, .. } = &mut *self;
            vitals.bytes_read.store(vitals.bytes_read.load(Relaxed) + count, Relaxed);
            if let Some(scanner) = scanner {
                scanner.scan(&buf.filled()[before..], |case| lock(&vitals.sent_case).push_back(case));
            }
        }
        outcome
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.as_mut().poll_write_vectored(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        bufs: &[io::IoSlice],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, vitals, writer, .. } = &mut *self;
        if let (Some(case), Some(first)) = (vitals.take_reply_case(), bufs.iter().find(|buf| !buf.is_empty()))
        {
            writer.begin(first, &case);
        }
        let outcome = if writer.rest().is_empty() {
            Pin::new(stream).poll_write_vectored(cx, bufs)
        } else {
            let outcome = Pin::new(stream).poll_write_vectored(cx, &writer.with_rest(bufs));
            if let Poll::Ready(Ok(count)) = outcome {
                writer.advance(count);
            }
            outcome
        };
        self.mark_write(&outcome);
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Closes the connection. If the last request was answered before its body had been read, the rest
    /// is read and thrown away first: closing over unread bytes resets the connection, and the client
    /// might lose the answer that tells it why.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        if !self.shut {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.shut = true;
        }
        if self.vitals.body_unread.load(Relaxed) {
            let mut space = [0; 16 * 1024];
            loop {
                let mut buf = ReadBuf::new(&mut space);
                // Whoever waits for the room that this takes is worth more.
                if self.as_mut().poll_read(cx, &mut buf)?.is_pending() {
                    ready!(if self.vitals.is_shed() { Poll::Ready(()) } else { Poll::Pending });
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
