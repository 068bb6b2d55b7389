//! Listeners: from a socket to a [`Handler`], and graceful shutdown.
//!
//! Knows the framing of HTTP and nothing of the protocol, which is the handler's. Only `/health` is answered here, so that
//! every port has it.

use crate::net::body::{Body, ReplyBody, TrackedReply};
use crate::net::body_memory::BodyMemory;
use crate::net::connection::{self, ConnectionState, MeteredSocket};
use crate::net::limits::Limits;
use crate::proxies::TrustedProxies;
use crate::tls::{self, Tls};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::http::{Method, Request, Response, StatusCode, request};
use hyper::service::service_fn;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;
use tepui_storage::stats::Counter;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::server::TlsStream;

/// Answers requests. One per service.
pub trait Handler: Send + Sync + 'static {
    /// Whether requests have metadata, the case of whose names is kept.
    const HAS_METADATA: bool;

    /// Answers one request. Dropped before its end if the connection is closed.
    fn handle(
        &self,
        peer: Peer,
        head: request::Parts,
        body: Body,
    ) -> impl Future<Output = Response<ReplyBody>> + Send;

    /// Whether requests can be served now, or the reason why not. Cheap.
    fn health(&self) -> impl Future<Output = Result<(), String>> + Send;
}

/// An extension of a reply that is not to be sent: the connection is closed instead, as if it had broken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CutConnection;

impl fmt::Display for CutConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is closed without a reply")
    }
}

impl std::error::Error for CutConnection {}

/// The client of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub address: SocketAddr,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

/// The state that all listeners and connections of a server share.
pub struct Shared {
    pub(crate) limits: Limits,
    proxies: TrustedProxies,
    /// `None`: connections are plain.
    tls: Option<Arc<Tls>>,
    /// The permits of all connections.
    connections: Arc<Semaphore>,
    /// [`Limits::body_memory_bytes`].
    pub(crate) body_memory: Arc<BodyMemory>,
    /// Half as much again for slow bodies, so that they delay only each other.
    pub(crate) slow_body_memory: Arc<BodyMemory>,
    stage: AtomicU8,
    /// Still serving, but probes of health are told otherwise.
    is_draining: AtomicBool,
    /// Backpressure: how many connections have to close.
    excess: AtomicUsize,
    addresses: Mutex<HashMap<IpAddr, OfAddress>>,
    /// Signals that `stage` or `excess` has changed, or that memory is wanted.
    pub(crate) changes: watch::Sender<()>,
}

/// The connections from one address.
#[derive(Default)]
struct OfAddress {
    open: usize,
    /// Backpressure: how many of them have to close.
    excess: Arc<AtomicUsize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Serving,
    /// Requests in flight are finished, idle connections are closed.
    Stopping,
    /// All connections are closed.
    Closing,
}

impl Shared {
    pub fn new(limits: Limits) -> Arc<Self> {
        Self::of_server(TrustedProxies::default(), None, limits)
    }

    /// Behind trusted proxies, and with TLS beside plain connections.
    pub fn of_server(proxies: TrustedProxies, tls: Option<Arc<Tls>>, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            proxies,
            tls,
            connections: Arc::new(Semaphore::new(limits.max_connections)),
            body_memory: BodyMemory::new(limits.body_memory_bytes),
            slow_body_memory: BodyMemory::new(limits.body_memory_bytes / 2),
            stage: AtomicU8::new(Stage::Serving as u8),
            is_draining: AtomicBool::new(false),
            excess: AtomicUsize::new(0),
            addresses: Mutex::new(HashMap::new()),
            changes: watch::Sender::new(()),
            limits,
        })
    }

    /// Stops all listeners and connections: idle ones at once, requests in flight within the grace period. Returns how
    /// many connections were closed after it.
    pub async fn stop(&self) -> usize {
        self.enter(Stage::Stopping);
        if self.all_closed(self.limits.shutdown_grace).await {
            return 0;
        }
        let left = self.open_connections();
        self.enter(Stage::Closing);
        self.all_closed(Duration::from_secs(1)).await;
        left
    }

    /// Tells probes of health to send requests elsewhere, and goes on serving for `wait`.
    pub(crate) async fn drain(&self, wait: Duration) {
        self.is_draining.store(true, Ordering::Release);
        tokio::time::sleep(wait).await;
    }

    /// Whether new requests are served, and welcome.
    pub(crate) fn is_ready(&self) -> bool {
        self.stage() == Stage::Serving && !self.is_draining.load(Ordering::Acquire)
    }

    /// TLS, if connections may have it.
    pub(crate) fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref()
    }

    /// The number of open connections.
    pub fn open_connections(&self) -> usize {
        self.limits.max_connections - self.connections.available_permits()
    }

    async fn all_closed(&self, within: Duration) -> bool {
        let all = u32::try_from(self.limits.max_connections).unwrap_or(u32::MAX);
        tokio::time::timeout(within, self.connections.acquire_many(all)).await.is_ok()
    }

    fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
        self.signal();
    }

    pub(crate) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Serving,
            1 => Stage::Stopping,
            _ => Stage::Closing,
        }
    }

    /// Makes all connections check the shared state.
    pub(crate) fn signal(&self) {
        self.changes.send_replace(());
    }

    /// Makes some connections close: idle ones now, busy ones after their reply.
    fn apply_backpressure(&self, excess: &AtomicUsize) {
        excess.store((self.limits.max_connections / 64).max(1), Ordering::Release);
        self.signal();
    }

    /// Counts a connection from an address, if its limit allows one more. If not, some from this address close, and there may
    /// be room for the next attempt.
    fn admit(self: &Arc<Self>, address: IpAddr) -> Option<AddressSlot> {
        let is_proxy = self.proxies.trusts(address);
        let most = if is_proxy { usize::MAX } else { self.limits.max_connections_from(address) };
        let mut addresses = self.addresses.lock();
        let of_address = addresses.entry(address).or_default();
        let excess = Arc::clone(&of_address.excess);
        if of_address.open < most {
            of_address.open += 1;
            excess.store(0, Ordering::Release);
            return Some(AddressSlot { shared: Arc::clone(self), address, excess });
        }
        drop(addresses);
        // As long as some still have to close, all know that already.
        if excess.swap((most / 64).max(1), Ordering::AcqRel) == 0 {
            self.signal();
        }
        None
    }

    async fn stopping(&self) {
        let mut changes = self.changes.subscribe();
        while self.stage() == Stage::Serving && changes.changed().await.is_ok() {}
    }

    /// Waits for a permit of `connections`, with backpressure on the connections that have one.
    async fn connection_permit(
        &self,
        connections: &Arc<Semaphore>,
        excess: &AtomicUsize,
    ) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = Arc::clone(connections).try_acquire_owned() {
                return permit;
            }
            self.apply_backpressure(excess);
            let permit = Arc::clone(connections).acquire_owned();
            if let Ok(Ok(permit)) = tokio::time::timeout(Duration::from_millis(250), permit).await {
                excess.store(0, Ordering::Release);
                return permit;
            }
        }
    }
}

/// The state that the connections of one listener share.
struct Listener {
    shared: Arc<Shared>,
    /// The permits of this listener, fewer than all: some are left to the other listeners.
    connections: Arc<Semaphore>,
    /// Backpressure: how many connections of this listener have to close.
    excess: AtomicUsize,
}

impl Listener {
    fn new(shared: Arc<Shared>) -> Arc<Self> {
        let most = shared.limits.max_connections - shared.limits.max_connections / 4;
        Arc::new(Self { shared, connections: Arc::new(Semaphore::new(most)), excess: AtomicUsize::new(0) })
    }

    /// Waits for a permit of the listener and one of the server.
    async fn connection_permits(&self) -> [OwnedSemaphorePermit; 2] {
        let shared = &self.shared;
        let own = shared.connection_permit(&self.connections, &self.excess).await;
        [own, shared.connection_permit(&shared.connections, &shared.excess).await]
    }
}

/// What a connection shares with others of its listener, and with others from its address.
pub(crate) struct ListenerState {
    shared: Arc<Shared>,
    listener: Arc<Listener>,
    /// Backpressure: how many connections from the address have to close.
    address_excess: Arc<AtomicUsize>,
}

impl ListenerState {
    fn of(listener: &Arc<Listener>, slot: &AddressSlot) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(&listener.shared),
            listener: Arc::clone(listener),
            address_excess: Arc::clone(&slot.excess),
        })
    }

    /// Waits until a connection that has not sent anything has to close.
    async fn closing(&self) {
        let mut changes = self.shared.changes.subscribe();
        while self.shared.stage() == Stage::Serving && !self.claim_excess() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until the server stops.
    async fn stopping(&self) {
        self.shared.stopping().await;
    }

    /// Whether the calling connection has to close, which then counts as one of the excess.
    pub(crate) fn claim_excess(&self) -> bool {
        let take = |excess: &AtomicUsize| {
            let one = |left: usize| left.checked_sub(1);
            excess.load(Ordering::Relaxed) > 0
                && excess.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one).is_ok()
        };
        take(&self.address_excess) || take(&self.listener.excess) || take(&self.shared.excess)
    }
}

/// Counts a connection for its address while it exists.
struct AddressSlot {
    shared: Arc<Shared>,
    address: IpAddr,
    /// [`OfAddress::excess`].
    excess: Arc<AtomicUsize>,
}

impl Drop for AddressSlot {
    fn drop(&mut self) {
        let mut addresses = self.shared.addresses.lock();
        if let Some(of_address) = addresses.get_mut(&self.address) {
            of_address.open -= 1;
            if of_address.open == 0 {
                addresses.remove(&self.address);
            }
        }
    }
}

/// What a listener counts.
#[derive(Debug, Default)]
pub(crate) struct ListenerCounts {
    pub(crate) accepted: Counter,
    closed: Counter,
    /// Connections from addresses that have too many.
    pub(crate) refused: Counter,
    /// TLS connections that came about, and that did not.
    pub(crate) handshakes: Counter,
    pub(crate) failed_handshakes: Counter,
}

impl ListenerCounts {
    /// How many connections are open.
    pub(crate) fn open(&self) -> u64 {
        let closed = self.closed.get();
        self.accepted.get().saturating_sub(closed)
    }
}

/// Counts a connection of a listener while it exists.
struct CountedConnection(Arc<ListenerCounts>);

impl CountedConnection {
    fn new(counts: &Arc<ListenerCounts>) -> Self {
        counts.accepted.add(1);
        Self(Arc::clone(counts))
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.closed.add(1);
    }
}

/// Accepts connections and passes their requests to `handler`, until `shared` is stopped.
pub async fn serve<H: Handler>(listener: TcpListener, handler: Arc<H>, shared: Arc<Shared>) {
    serve_counted(listener, handler, shared, Arc::default()).await;
}

/// The same, and counts them.
pub(crate) async fn serve_counted<H: Handler>(
    listener: TcpListener,
    handler: Arc<H>,
    shared: Arc<Shared>,
    counts: Arc<ListenerCounts>,
) {
    let own = Listener::new(Arc::clone(&shared));
    let accept_all = async {
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    after_accept_error(&error, &shared).await;
                    continue;
                }
            };
            let Some(slot) = shared.admit(address.ip()) else {
                tracing::debug!(%address, "too many connections from one address");
                counts.refused.add(1);
                continue;
            };
            // One connection waits here; those after it wait in the backlog.
            let permits = own.connection_permits().await;
            let listener_state = ListenerState::of(&own, &slot);
            let counted = (slot, CountedConnection::new(&counts));
            let handler = Arc::clone(&handler);
            // From here on nothing that this client does, or does not, keeps others waiting.
            tokio::spawn(async move {
                if stream.set_nodelay(true).is_ok() {
                    serve_stream(stream, address, handler, listener_state, &counted.1.0).await;
                }
                drop((permits, counted));
            });
        }
    };
    tokio::select! {
        () = shared.stopping() => {}
        () = accept_all => {}
    }
}

/// After a failed accept. Most errors are a client that disconnected. Running out of file descriptors is different: it
/// lasts, and would make the loop spin.
async fn after_accept_error(error: &io::Error, shared: &Shared) {
    let disconnected = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    );
    if !disconnected {
        tracing::warn!(%error, "cannot accept a connection");
        shared.apply_backpressure(&shared.excess);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Serves a connection, with TLS if the client begins so.
async fn serve_stream<H: Handler>(
    stream: TcpStream,
    address: SocketAddr,
    handler: Arc<H>,
    listener_state: Arc<ListenerState>,
    counts: &ListenerCounts,
) {
    let tls = match listener_state.shared.tls.clone() {
        None => None,
        Some(tls) => match first_byte(&stream, &listener_state).await {
            Some(tls::FIRST_BYTE) => Some(tls),
            Some(_) => None,
            None => return,
        },
    };
    let state =
        Arc::new(ConnectionState::new(Arc::clone(&listener_state.shared), Arc::clone(&listener_state)));
    let socket = MeteredSocket { socket: stream, state: Arc::clone(&state) };
    match tls {
        None => serve_connection(socket, Peer { address, tls: false }, handler, state).await,
        // On the heap: plain connections would be as large.
        Some(tls) => {
            Box::pin(async {
                let stream = handshake(socket, &tls, &listener_state, counts).await;
                // Its config is in the connection.
                drop(tls);
                if let Some(stream) = stream {
                    serve_connection(stream, Peer { address, tls: true }, handler, state).await;
                }
            })
            .await;
        }
    }
}

/// The first byte that the client sends, which stays to be read. `None`: there is none in time, or the connection has to close.
async fn first_byte(stream: &TcpStream, listener_state: &ListenerState) -> Option<u8> {
    let mut byte = [0];
    tokio::select! {
        // Mostly it is there already.
        biased;
        peeked = stream.peek(&mut byte) => matches!(peeked, Ok(1)).then_some(byte[0]),
        () = listener_state.closing() => None,
        () = tokio::time::sleep(listener_state.shared.limits.head_timeout) => {
            tracing::debug!(why = "no request in time", "connection closed");
            None
        }
    }
}

/// The handshake, if it succeeds in time. Like the head of a request it is not broken off under backpressure.
async fn handshake(
    socket: MeteredSocket<TcpStream>,
    tls: &Tls,
    listener_state: &ListenerState,
    counts: &ListenerCounts,
) -> Option<TlsStream<MeteredSocket<TcpStream>>> {
    let accepted = tokio::select! {
        biased;
        accepted = tls.accept(socket) => accepted,
        () = listener_state.stopping() => Err(io::ErrorKind::ConnectionAborted.into()),
        () = tokio::time::sleep(listener_state.shared.limits.handshake_timeout) => {
            Err(io::ErrorKind::TimedOut.into())
        }
    };
    match accepted {
        Ok(stream) => {
            counts.handshakes.add(1);
            Some(stream)
        }
        Err(error) => {
            counts.failed_handshakes.add(1);
            tracing::debug!(%error, "no TLS handshake");
            None
        }
    }
}

async fn serve_connection<H: Handler, IO: AsyncRead + AsyncWrite + Unpin>(
    stream: IO,
    peer: Peer,
    handler: Arc<H>,
    state: Arc<ConnectionState>,
) {
    let shared_state = Arc::clone(&state);
    let service = service_fn(move |request: Request<Incoming>| {
        let (handler, state) = (Arc::clone(&handler), Arc::clone(&shared_state));
        async move {
            let (mut head, incoming) = request.into_parts();
            let case = state.begin_request(!incoming.is_end_stream());
            if !case.is_empty() {
                head.extensions.insert(case);
            }
            let mut reply = if asks_for_health(&head) {
                health(handler.as_ref(), &state.shared).await
            } else {
                handler.handle(peer, head, Body::from_wire(incoming, Arc::clone(&state))).await
            };
            state.end_handling();
            if let Some(cut) = reply.extensions_mut().remove::<CutConnection>() {
                return Err(cut);
            }
            if let Some(case) = reply.extensions_mut().remove() {
                state.set_reply_case(case);
            }
            if state.must_close() {
                reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(reply.map(|body| TrackedReply::new(body, state)))
        }
    });
    connection::run(stream, service, state, H::HAS_METADATA).await;
}

/// A probe has no credentials. A request with credentials is for the table of that name, if the account is in the host.
fn asks_for_health(head: &request::Parts) -> bool {
    head.uri.path() == "/health"
        && head.uri.query().is_none()
        && (head.method == Method::GET || head.method == Method::HEAD)
        && !head.headers.contains_key(AUTHORIZATION)
}

async fn health<H: Handler>(handler: &H, shared: &Shared) -> Response<ReplyBody> {
    let checked = match shared.is_ready() {
        true => handler.health().await,
        false => Err("the server is stopping".to_owned()),
    };
    let (status, body) = match checked {
        Ok(()) => (
            StatusCode::OK,
            concat!(r#"{"status":"ok","version":""#, env!("CARGO_PKG_VERSION"), "\"}\n").into(),
        ),
        Err(reason) => {
            let mut text = String::from(r#"{"status":"unavailable","reason":"#);
            crate::log::push_json_string(&mut text, &reason);
            text.push_str("}\n");
            (StatusCode::SERVICE_UNAVAILABLE, text)
        }
    };
    let mut reply = Response::new(ReplyBody::from(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}
