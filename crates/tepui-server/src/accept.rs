//! Listeners: from a socket to a [`Handler`], and how they stop.
//!
//! Knows HTTP's frame but none of its meaning here: what a request asks for is the handler's matter.
//! Only `/health` is answered here, so that every port has it.

use crate::body::{Body, ReplyBody, Sent};
use crate::body_memory::BodyMemory;
use crate::connection::{self, Vitals};
use crate::limits::Limits;
use crate::proxies::TrustedProxies;
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::http::{Method, Request, Response, StatusCode, request};
use hyper::service::service_fn;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// What answers requests. One per service.
pub trait Handler: Send + Sync + 'static {
    /// Whether requests have metadata, whose names keep their case.
    const HAS_METADATA: bool;

    /// Answers one request. Dropped before its end if the client goes away or is cut off.
    fn handle(
        &self,
        peer: Peer,
        head: request::Parts,
        body: Body,
    ) -> impl Future<Output = Response<ReplyBody>> + Send;

    /// Whether requests can be served now; `Err` says why not. Cheap, and never blocks.
    fn health(&self) -> Result<(), String>;
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub address: SocketAddr,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

/// What all listeners and connections of a server have in common.
pub struct Shared {
    pub(crate) limits: Limits,
    proxies: TrustedProxies,
    /// One permit for each connection that may be open.
    connections: Arc<Semaphore>,
    /// [`Limits::body_memory_bytes`].
    pub(crate) body_memory: Arc<BodyMemory>,
    /// Half as much again, for bodies that come slowly: they are in the way of nobody but each other.
    pub(crate) slow_body_memory: Arc<BodyMemory>,
    stage: AtomicU8,
    /// Connections that have to go to make room for others.
    shedding: AtomicUsize,
    /// How many connections are open from each address.
    addresses: Mutex<HashMap<IpAddr, usize>>,
    /// Rung when `stage` or `shedding` has changed, or memory is wanted; `rings` counts.
    pub(crate) bell: Notify,
    rings: AtomicUsize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Serving,
    /// Requests under way are finished, idle connections are closed.
    Stopping,
    /// Connections are closed whatever they do.
    Cutting,
}

impl Shared {
    pub fn new(limits: Limits) -> Arc<Self> {
        Self::behind(TrustedProxies::default(), limits)
    }

    /// The same, with proxies before it.
    pub fn behind(proxies: TrustedProxies, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            proxies,
            connections: Arc::new(Semaphore::new(limits.max_connections)),
            body_memory: BodyMemory::new(limits.body_memory_bytes),
            slow_body_memory: BodyMemory::new(limits.body_memory_bytes / 2),
            stage: AtomicU8::new(Stage::Serving as u8),
            shedding: AtomicUsize::new(0),
            addresses: Mutex::new(HashMap::new()),
            bell: Notify::new(),
            rings: AtomicUsize::new(0),
            limits,
        })
    }

    /// Stops all listeners and connections: what is idle at once, what is under way within the grace
    /// of the limits. Returns how many connections had to be cut off.
    pub async fn stop(&self) -> usize {
        self.enter(Stage::Stopping);
        if self.all_closed(self.limits.shutdown_grace).await {
            return 0;
        }
        let left = self.open_connections();
        self.enter(Stage::Cutting);
        self.all_closed(Duration::from_secs(1)).await;
        left
    }

    /// How many connections are open now.
    pub fn open_connections(&self) -> usize {
        self.limits.max_connections - self.connections.available_permits()
    }

    async fn all_closed(&self, within: Duration) -> bool {
        let all = u32::try_from(self.limits.max_connections).unwrap_or(u32::MAX);
        tokio::time::timeout(within, self.connections.acquire_many(all)).await.is_ok()
    }

    fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
        self.ring();
    }

    pub(crate) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Serving,
            1 => Stage::Stopping,
            _ => Stage::Cutting,
        }
    }

    pub(crate) fn ring(&self) {
        self.rings.fetch_add(1, Ordering::Release);
        self.bell.notify_waiters();
    }

    /// How often the bell has been rung. `Some`, so that `None` can stand for "never looked".
    pub(crate) fn rung(&self) -> Option<usize> {
        Some(self.rings.load(Ordering::Acquire))
    }

    /// Asks some connections to go: the idle ones now, busy ones after their reply.
    fn shed(&self, shedding: &AtomicUsize) {
        shedding.store((self.limits.max_connections / 64).max(1), Ordering::Release);
        self.ring();
    }

    /// Counts a connection from an address, if it may have one more.
    fn admit(self: &Arc<Self>, address: IpAddr) -> Option<FromAddress> {
        let is_proxy = self.proxies.trusts(address);
        let most = if is_proxy { usize::MAX } else { self.limits.max_connections_from(address) };
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let open = addresses.entry(address).or_default();
        if *open >= most {
            return None;
        }
        *open += 1;
        Some(FromAddress { shared: Arc::clone(self), address })
    }

    async fn stopping(&self) {
        loop {
            let bell = self.bell.notified();
            if self.stage() != Stage::Serving {
                return;
            }
            bell.await;
        }
    }

    /// Waits until one more of these `connections` may be open. Meanwhile, others are asked to go.
    async fn room(&self, connections: &Arc<Semaphore>, shedding: &AtomicUsize) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = Arc::clone(connections).try_acquire_owned() {
                return permit;
            }
            self.shed(shedding);
            let room = Arc::clone(connections).acquire_owned();
            if let Ok(Ok(permit)) = tokio::time::timeout(Duration::from_millis(250), room).await {
                shedding.store(0, Ordering::Release);
                return permit;
            }
        }
    }
}

/// What the connections of one listener have in common.
pub(crate) struct Port {
    shared: Arc<Shared>,
    /// One permit for each connection that may be open here: some are left to the other listeners.
    connections: Arc<Semaphore>,
    /// Connections of this listener that have to go.
    shedding: AtomicUsize,
}

impl Port {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        let most = shared.limits.max_connections - shared.limits.max_connections / 4;
        Arc::new(Self { shared, connections: Arc::new(Semaphore::new(most)), shedding: AtomicUsize::new(0) })
    }

    /// Waits until one more connection may be open.
    async fn room(&self) -> [OwnedSemaphorePermit; 2] {
        let shared = &self.shared;
        let here = shared.room(&self.connections, &self.shedding).await;
        [here, shared.room(&shared.connections, &shared.shedding).await]
    }

    /// Whether the caller's connection is to go to make room.
    pub(crate) fn take_shedding(&self) -> bool {
        let take = |shedding: &AtomicUsize| {
            let one = |left: usize| left.checked_sub(1);
            shedding.load(Ordering::Relaxed) > 0
                && shedding.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one).is_ok()
        };
        take(&self.shedding) || take(&self.shared.shedding)
    }
}

/// A connection that counts for its address.
struct FromAddress {
    shared: Arc<Shared>,
    address: IpAddr,
}

impl Drop for FromAddress {
    fn drop(&mut self) {
        let mut addresses = self.shared.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = addresses.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                addresses.remove(&self.address);
            }
        }
    }
}

/// Accepts connections and gives their requests to `handler`, until `shared` is stopped.
pub async fn serve<H: Handler>(listener: TcpListener, handler: Arc<H>, shared: Arc<Shared>) {
    let port = Port::new(Arc::clone(&shared));
    let accept_all = async {
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    survive(&error, &shared).await;
                    continue;
                }
            };
            let Some(counted) = shared.admit(address.ip()) else {
                tracing::debug!(%address, "too many connections from one address");
                // Those that are idle make room for the next attempt.
                shared.shed(&port.shedding);
                continue;
            };
            // One connection waits here; those behind it wait in the backlog.
            let permits = port.room().await;
            let peer = Peer { address, tls: false };
            let (handler, port) = (Arc::clone(&handler), Arc::clone(&port));
            tokio::spawn(async move {
                answer(stream, peer, handler, port).await;
                drop((permits, counted));
            });
        }
    };
    tokio::select! {
        () = shared.stopping() => {}
        () = accept_all => {}
    }
}

/// After a failed accept. Most failures are the client's (it left again); being out of file
/// descriptors is ours, lasts, and would make the loop spin.
async fn survive(error: &io::Error, shared: &Shared) {
    let gone = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    );
    if !gone {
        tracing::warn!(%error, "cannot accept a connection");
        shared.shed(&shared.shedding);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn answer<H: Handler>(stream: TcpStream, peer: Peer, handler: Arc<H>, port: Arc<Port>) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let vitals = Arc::new(Vitals::new(Arc::clone(&port.shared), port));
    let marks = Arc::clone(&vitals);
    let service = service_fn(move |request: Request<Incoming>| {
        let (handler, vitals) = (Arc::clone(&handler), Arc::clone(&marks));
        async move {
            let (mut head, incoming) = request.into_parts();
            let case = vitals.begin_request(!incoming.is_end_stream());
            if !case.is_empty() {
                head.extensions.insert(case);
            }
            let mut reply = if asks_for_health(&head) {
                health(handler.as_ref())
            } else {
                handler.handle(peer, head, Body::from_wire(incoming, Arc::clone(&vitals))).await
            };
            vitals.end_handling();
            if let Some(case) = reply.extensions_mut().remove() {
                vitals.reply_in(case);
            }
            if vitals.is_shed() {
                reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(reply.map(|body| Sent::new(body, vitals)))
        }
    });
    connection::run(stream, service, vitals, H::HAS_METADATA).await;
}

/// A probe has no credentials. A request that has is one for the table of that name, if an account is
/// addressed by its host.
fn asks_for_health(head: &request::Parts) -> bool {
    head.uri.path() == "/health"
        && head.uri.query().is_none()
        && (head.method == Method::GET || head.method == Method::HEAD)
        && !head.headers.contains_key(AUTHORIZATION)
}

fn health<H: Handler>(handler: &H) -> Response<ReplyBody> {
    let (status, body) = match handler.health() {
        Ok(()) => (
            StatusCode::OK,
            concat!(r#"{"status":"ok","version":""#, env!("CARGO_PKG_VERSION"), "\"}\n").into(),
        ),
        Err(reason) => {
            let mut text = String::from(r#"{"status":"unavailable","reason":"#);
            crate::telemetry::push_json_string(&mut text, &reason);
            text.push_str("}\n");
            (StatusCode::SERVICE_UNAVAILABLE, text)
        }
    };
    let mut reply = Response::new(ReplyBody::from(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}
