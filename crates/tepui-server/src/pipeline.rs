//! The order in which a request is checked and answered, whichever service it is for.
//!
//! The order is visible protocol: it decides which error wins. `admit` and the `answer` of each service read as
//! the list.
//!
//! | | |
//! | --- | --- |
//! | `exchange.rs` | one request and what becomes of it |
//! | `table.rs`, `batch.rs`, `queue.rs`, `blob.rs` | the handlers of the services |
//! | `directory.rs`, `delegation.rs` | tokens, their owners, and what these sign in their own name |
//! | `admission.rs` | targets, and partition heat |
//! | `faults.rs` | what a test bench does to requests |
//! | `browsers.rs` | what pages in a browser must not do |
//! | `receipts.rs` | the headers that say what an answer cost |
//! | `reply_memory.rs` | the memory for answers on their way out |
//! | `sinks.rs` | the log and metrics, which hear of every request |

mod admission;
mod batch;
mod blob;
mod browsers;
mod delegation;
mod directory;
mod exchange;
mod faults;
mod queue;
mod receipts;
mod reply_memory;
mod sinks;
mod table;
#[cfg(test)]
mod token_tests;

pub use admission::Load;
pub use blob::{BackgroundCopies, Blobs, RemoteCopies};
pub use directory::{Directory, NoDirectory, Verified};
pub use exchange::{AnswerHead, Caller, FinishedExchange, OperationKind};
pub use queue::Queues;
pub(crate) use reply_memory::ReplyMemory;
pub use table::Tables;

use self::browsers::Browsers;
use self::delegation::{answer_key_request, resolve_delegated, resolve_token};
use self::exchange::{Authorized, BodyMeter, Exchange, Outcome, Received};
use self::receipts::WantedReceipt;
use self::sinks::Sinks;
use crate::accounts::AccountDirectory;
use crate::analytics::Analytics;
use crate::config::{Config, Receipts};
use crate::faults::Faults;
use crate::ids::RequestIds;
use crate::log::trace_headers;
use crate::metrics::Metrics;
use crate::net::accept::Peer;
use crate::net::body::{Body, BodyError, ReplyBody};
use crate::net::limits::Limits;
use crate::proxies::TrustedProxies;
use crate::tail::Tail;
use bytes::Bytes;
use hyper::header::{CONNECTION, CONTENT_LENGTH, DATE, EXPECT, HeaderValue, TRANSFER_ENCODING};
use hyper::http::{Method, Response, request};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::blob::BlobServiceProperties;
use tepui_model::grant::Grant;
use tepui_model::operation::{Effect, Kind};
use tepui_model::service_properties::{CorsRule, ServiceProperties};
use tepui_model::{Clock, ErrorCode, ServiceError, Throttle, Timestamp};
use tepui_service::phase::{self, Phase};
use tepui_wire::address::{self, AccountNames, AddressError, AddressRules, Service, Target};
use tepui_wire::auth::{self, Credentials, SasToken, SigningKeys, Verifier};
use tepui_wire::cors;
use tepui_wire::error_body::{self, ErrorFormat};
use tepui_wire::head::{BodyUse, Head};
use tepui_wire::parameters;
use tepui_wire::query::Query;
use tepui_wire::version::{self, ServiceVersion, VersionPolicy};

/// The longest that an operation may take, whatever the caller asks for.
pub(crate) const MAX_TIME: Duration = Duration::from_secs(30);

/// What a port of a service has, whichever service it is: keys, addresses, and what is settled for the server.
pub struct Front {
    service: Service,
    clock: Arc<dyn Clock>,
    ids: RequestIds,
    accounts: Arc<AccountDirectory>,
    directory: Arc<dyn Directory>,
    addresses: AddressRules,
    versions: VersionPolicy,
    secondary: bool,
    browsers: Option<Browsers>,
    proxies: TrustedProxies,
    sinks: Arc<Sinks>,
    receipts: Receipts,
    load: Load,
    /// Answers tell the time of a clock that can be set, and not that of the machine.
    tells_date: bool,
    faults: Option<Arc<Faults>>,
    /// Plain requests are refused.
    requires_tls: bool,
}

impl Front {
    /// `address`: where the service listens.
    pub fn new(
        service: Service,
        clock: Arc<dyn Clock>,
        config: &Config,
        accounts: Arc<AccountDirectory>,
        address: SocketAddr,
        metrics: Option<Arc<Metrics>>,
        analytics: Arc<Analytics>,
    ) -> Self {
        let known = Arc::clone(&accounts);
        let addresses = AddressRules {
            product_style_urls: !config.disable_product_style_url,
            own_hosts: own_hosts(service, address),
            accounts: AccountNames::new(move |name| known.current().name_in_any_case(name)),
            ..AddressRules::new(service)
        };
        Self {
            service,
            clock,
            ids: RequestIds::random(),
            accounts,
            directory: Arc::new(NoDirectory::default()),
            addresses,
            versions: if config.skip_api_version_check { VersionPolicy::Skip } else { VersionPolicy::Check },
            secondary: config.secondary,
            browsers: Browsers::new(config, address),
            proxies: TrustedProxies(config.trusted_proxies.clone()),
            sinks: Arc::new(Sinks { service, metrics, tail: None, analytics }),
            receipts: config.receipts,
            load: Load::default(),
            tells_date: config.test_bench,
            faults: None,
            requires_tls: config.require_tls,
        }
    }

    /// The memory for answers of this port, which metrics watch.
    fn reply_memory(&self, limits: &Limits) -> Arc<ReplyMemory> {
        let replies = Arc::new(ReplyMemory::new(limits));
        if let Some(metrics) = &self.sinks.metrics {
            metrics.watch_replies(self.service, &replies);
        }
        replies
    }

    /// With those who know tokens and roles.
    pub fn with_directory(self, directory: Arc<dyn Directory>) -> Self {
        Self { directory, ..self }
    }

    /// With the faults of a test bench.
    pub(crate) fn with_faults(self, faults: Option<Arc<Faults>>) -> Self {
        Self { faults, ..self }
    }

    /// With those who watch requests.
    pub(crate) fn with_tail(mut self, tail: Option<Arc<Tail>>) -> Self {
        Arc::make_mut(&mut self.sinks).tail = tail;
        self
    }

    /// Whether an unknown version is reported before the credentials are checked.
    ///
    /// Fidelity: tables are unlike the others. scenario: queue-version-wins
    fn checks_version_first(&self) -> bool {
        self.service != Service::Table
    }
}

/// What accounts have settled for a service: it is asked for with every request.
trait AccountSettings: Sync {
    fn properties(
        &self,
        account: &str,
    ) -> impl Future<Output = Result<AccountProperties, ServiceError>> + Send;

    /// The stored access policy that a token refers to, if there is one.
    fn policy(
        &self,
        account: &str,
        token: &SasToken,
    ) -> impl Future<Output = Result<Option<SignedIdentifier>, ServiceError>> + Send;
}

/// The same without any wait, for a request that was given up.
trait CachedSettings: Sync {
    /// As they were when the account was last asked for.
    fn cached(&self, account: &str) -> Option<AccountProperties>;
}

/// What the handler of a service does with a request that was received. The rest is the same for all: [`respond`].
trait ServiceHandler: AccountSettings + CachedSettings {
    fn front(&self) -> &Front;

    /// Everything that is checked, in the order in which it is, and the answer.
    fn answer(
        &self,
        received: &Received,
        outcome: &mut Outcome,
        body: &mut Option<Body>,
    ) -> impl Future<Output = Result<Response<ReplyBody>, ServiceError>> + Send;

    /// The answer to a request that failed.
    fn error_response(&self, exchange: &mut Exchange<'_>, error: &ServiceError) -> Response<ReplyBody> {
        let Exchange { received, outcome, .. } = exchange;
        error_response(self.front(), received, outcome, error, ErrorFormat::Xml).map(ReplyBody::from)
    }
}

/// Answers a request, from its head to the last byte: the exchange lasts until the answer is sent.
async fn respond<S: ServiceHandler>(
    service: &S,
    peer: Peer,
    parts: request::Parts,
    body: Body,
) -> Response<ReplyBody> {
    let mut exchange = receive(service.front(), service, peer, parts);
    let wanted = WantedReceipt::of(service.front().receipts, exchange.received.headers());
    let mut body = Some(body);
    let mut phases = None;
    let mut answered = {
        // On the heap, for it is large, and whoever calls an async function copies all of its future.
        let mut answer = Box::pin(service.answer(&exchange.received, &mut exchange.outcome, &mut body));
        if wanted.timing {
            let (answered, times) = phase::timed(exchange.received.started, answer.as_mut()).await;
            phases = Some(times);
            answered
        } else {
            answer.await
        }
    };
    if let Some(fault) = exchange.outcome.fault.take() {
        // Boxed: rare, and the future of every request would be larger.
        match Box::pin(faults::after_work(fault, answered)).await {
            Some(after) => answered = after,
            None => return faults::cut_connection(),
        }
    }
    let mut response = answered.unwrap_or_else(|error| service.error_response(&mut exchange, &error));
    if let Some(cost) = exchange.outcome.cost {
        // Before the rules for other origins, which look for the headers that scripts may read.
        wanted.add(response.headers_mut(), cost, exchange.received.started.elapsed(), phases);
    }
    finish(service.front(), service, &mut exchange, &mut response, body).await;
    let answered = exchange.answered(&response);
    response.map(|body| answered.body(body))
}

/// The service properties of an account, as they were at one time.
#[derive(Debug, Clone)]
pub enum AccountProperties {
    Common(Arc<ServiceProperties>),
    Blob(Arc<BlobServiceProperties>),
}

impl AccountProperties {
    /// Those that all services have.
    pub fn shared(&self) -> &ServiceProperties {
        match self {
            Self::Common(properties) => properties,
            Self::Blob(properties) => &properties.shared,
        }
    }

    /// Whether requests are logged or counted for the account.
    pub fn wants_analytics(&self) -> bool {
        let ServiceProperties { logging, hour_metrics, minute_metrics, .. } = self.shared();
        logging.is_enabled() || hour_metrics.enabled || minute_metrics.enabled
    }

    /// Which scripts may use the account from elsewhere.
    fn cors(&self) -> &[CorsRule] {
        &self.shared().cors
    }

    /// The version of requests that name none, if the account has chosen one.
    ///
    /// Fidelity: only the Blob service has such a setting. scenario: blob-default-version
    fn default_version(&self) -> Option<ServiceVersion> {
        match self {
            Self::Common(_) => None,
            Self::Blob(properties) => properties.default_version.as_deref().and_then(ServiceVersion::floor),
        }
    }
}

/// Takes in a request.
fn receive<'a>(
    front: &'a Front,
    settings: &'a dyn CachedSettings,
    peer: Peer,
    parts: request::Parts,
) -> Exchange<'a> {
    let started = Instant::now();
    let peer = front.proxies.client(peer, &parts.headers);
    let request_id = front.ids.next();
    trace_headers(&request_id, "request headers", &parts.headers);
    let query = Query::parse(parts.uri.query());
    let target = address::parse(&parts.uri, &parts.headers, peer.tls, &front.addresses);
    let accounts = front.accounts.current();
    let account = target.as_ref().ok().and_then(|target| accounts.find(&target.account));
    let now = front.clock.now();
    let body = BodyMeter::default();
    let received = Received { request_id, parts, query, target, accounts, account, peer, now, started, body };
    Exchange::begin(received, &front.sinks, settings)
}

/// Refuses plain requests where that is wanted, and those that come by a name which could be made to lead here by others: see
/// [`Browsers`].
fn check_host(front: &Front, received: &Received) -> Result<(), ServiceError> {
    received.target()?;
    if front.requires_tls && !received.peer.tls {
        return Err(ErrorCode::AccountRequiresHttps.into());
    }
    match &front.browsers {
        Some(browsers) => browsers.check_host(&received.parts),
        None => Ok(()),
    }
}

/// The answer to a browser that asks whether a page of another origin may send a request.
async fn preflight(
    settings: &impl AccountSettings,
    received: &Received,
) -> Result<Response<ReplyBody>, ServiceError> {
    let properties = properties_of_known(settings, received, received.target()?).await?;
    let rules = properties.as_ref().map_or(&[][..], AccountProperties::cors);
    Ok(cors::preflight(rules, received.headers())?.map(ReplyBody::from))
}

/// The properties of the account that is addressed. Those of an unknown account are not looked up: a
/// client can name any number of them.
async fn properties_of_known(
    settings: &impl AccountSettings,
    received: &Received,
    target: &Target,
) -> Result<Option<AccountProperties>, ServiceError> {
    match received.account {
        Some(_) => settings.properties(&target.account).await.map(Some),
        None => Ok(None),
    }
}

/// Everything that is checked before it matters what is asked for, in the order in which it is.
async fn admit<'a>(
    front: &'a Front,
    settings: &impl AccountSettings,
    received: &'a Received,
    outcome: &mut Outcome,
    body: &mut Option<Body>,
) -> Result<Authorized<'a>, ServiceError> {
    let target = received.target()?;
    if let Some(browsers) = &front.browsers
        && let Some(origin) = browsers.foreign_page(front.service, &received.parts)
    {
        let properties = properties_of_known(settings, received, target).await?;
        let rules = properties.as_ref().map_or(&[][..], AccountProperties::cors);
        Browsers::check_rules(rules, origin, &received.parts.method)?;
    }
    let (head, grant) = authenticate(front, settings, received, target, outcome).await?;
    let time = time_limit(&received.query)?;
    if let Some(body) = body {
        body.charge(&target.account);
    }
    phase::enter(Phase::Plan);
    let Received { request_id, peer, now, body, .. } = received;
    let accounts = &front.accounts;
    Ok(Authorized { head, grant, peer: *peer, request_id, now: *now, time, body, received, accounts })
}

/// Who asks, and what they may do.
async fn authenticate<'a>(
    front: &Front,
    settings: &impl AccountSettings,
    received: &'a Received,
    target: &'a Target,
    outcome: &mut Outcome,
) -> Result<(Head<'a>, Grant), ServiceError> {
    let Received { parts, query, .. } = received;
    // Fidelity: there is no such account, so there is nothing to ask it. scenario: unknown-account
    let account = received.account().ok_or_else(|| unknown_account(target))?;
    let sas_version = auth::sas_version(query);
    let names_none = sas_version.is_none() && !parts.headers.contains_key(error_body::VERSION);
    let chosen = match front.service {
        Service::Blob if names_none => settings.properties(&target.account).await?.default_version(),
        _ => None,
    };
    let version = match chosen {
        Some(version) => Ok(version),
        None => version::negotiate(&parts.headers, query, sas_version, front.versions),
    };
    if front.checks_version_first() {
        outcome.version = Some(version.clone()?);
    }
    let head = Head {
        service: front.service,
        method: &parts.method,
        target,
        path: &target.path,
        query,
        headers: &parts.headers,
        case: parts.extensions.get(),
        version: *version.as_ref().unwrap_or(&ServiceVersion::NEWEST),
    };
    let verifier = verifier(front, account.signing_keys(), received.peer, received.now);
    let credentials = verifier.authenticate(&head)?;
    if matches!(credentials, Credentials::Sas(_)) {
        outcome.version = version.as_ref().ok().copied();
    }
    let grant = resolve(front, settings, credentials, &head, &verifier).await?;
    outcome.version = Some(version?);
    outcome.caller = Some(Caller::from(&grant));
    if let Grant::Token(owner) = &grant {
        outcome.principal = Some(Arc::clone(&owner.principal));
    }
    tracing::debug!(
        request_id = received.request_id,
        version = %head.version,
        grant = ?grant,
        base = target.base,
        secondary = target.secondary,
        "authenticated"
    );
    Ok((head, grant))
}

/// What the credentials of something are good for that is not a request of its own: a part of a batch, the source of
/// a copy.
async fn authenticate_within(
    front: &Front,
    settings: &impl AccountSettings,
    request: &Authorized<'_>,
    head: &Head<'_>,
) -> Result<Grant, ServiceError> {
    let accounts = front.accounts.current();
    let account = accounts.account(&head.target.account).ok_or_else(|| unknown_account(head.target))?;
    let verifier = verifier(front, account.signing_keys(), request.peer, request.now);
    resolve(front, settings, verifier.authenticate(head)?, head, &verifier).await
}

fn verifier<'a>(front: &Front, keys: &'a SigningKeys, peer: Peer, now: Timestamp) -> Verifier<'a> {
    let now_of_clients = front.clock.of_machine(now);
    Verifier { keys, now, now_of_clients, peer_ip: peer.address.ip(), secure: peer.tls }
}

/// What credentials allow. Those whose owners a directory must be asked for are rare: these futures are boxed.
async fn resolve(
    front: &Front,
    settings: &impl AccountSettings,
    credentials: Credentials,
    head: &Head<'_>,
    verifier: &Verifier<'_>,
) -> Result<Grant, ServiceError> {
    match credentials {
        Credentials::AccountKey => Ok(Grant::AccountKey),
        Credentials::Anonymous => Ok(Grant::Anonymous),
        Credentials::Sas(token) => {
            let policy = settings.policy(&head.target.account, &token).await?;
            let required = token.required_user().map(|user| (user.clone(), token.bearer().cloned()));
            let grant = token.resolve(policy.as_ref(), verifier)?;
            match grant.delegator() {
                Some(_) => Box::pin(resolve_delegated(&*front.directory, grant, required, head)).await,
                None => Ok(grant),
            }
        }
        Credentials::Token(token) => Box::pin(resolve_token(&*front.directory, &token, head)).await,
    }
}

/// The secondary endpoint is for reading.
fn check_secondary(front: &Front, target: &Target, kind: impl Kind) -> Result<(), ServiceError> {
    if !target.secondary {
        return if kind.is_stats() {
            Err(parameters::invalid_value("comp", "stats", "only the secondary endpoint has them"))
        } else {
            Ok(())
        };
    }
    if !front.secondary {
        return Err(ServiceError::new(ErrorCode::InsufficientAccountPermissions).with_message(
            "The account being accessed does not have sufficient permissions to execute this operation.",
        ));
    }
    match kind.effect() {
        Effect::Read => Ok(()),
        Effect::Write => Err(ErrorCode::InsufficientAccountPermissions.into()),
    }
}

/// The answer to a request that failed.
fn error_response(
    front: &Front,
    received: &Received,
    outcome: &mut Outcome,
    error: &ServiceError,
    format: ErrorFormat,
) -> Response<Vec<u8>> {
    let Received { request_id, parts, now, .. } = received;
    if let Err(AddressError::InvalidUrl { close }) = received.target {
        return error_body::invalid_url_page(close);
    }
    outcome.error_code = Some(error.code.name());
    outcome.throttle = error.throttle();
    outcome.auth_failure = error.auth_failure();
    tracing::debug!(request_id, %error, "refused");
    if error.code == ErrorCode::InternalError {
        tracing::error!(request_id, %error, "internal error");
    }
    let is_front_door = error.throttle == Some(Throttle::Account);
    let format = if received.is_preflight() || is_front_door { ErrorFormat::Xml } else { format };
    let challenge = front.directory.challenge();
    let mut response = error_body::encode(error, format, front.service, request_id, *now, challenge);
    if is_front_door {
        admission::mark_front_door(&mut response, error);
    }
    if parts.method == Method::HEAD {
        error_body::remove_body(&mut response);
    }
    response
}

/// Adds what every answer has, and sees to what is left of the body.
async fn finish(
    front: &Front,
    settings: &impl AccountSettings,
    exchange: &mut Exchange<'_>,
    response: &mut Response<ReplyBody>,
    body: Option<Body>,
) {
    let Exchange { received, outcome, .. } = exchange;
    let received = &*received;
    let Received { request_id, parts, target, .. } = received;
    // The answer to a URL that no service has seen is complete.
    if !matches!(target, Err(AddressError::InvalidUrl { .. })) {
        let headers = response.headers_mut();
        error_body::finish(headers, front.service, outcome.version, request_id, &parts.headers);
        if front.tells_date
            && let Ok(date) = HeaderValue::try_from(received.now.to_http())
        {
            headers.insert(DATE, date);
        }
    }
    if let Ok(target) = target
        && let Ok(Some(properties)) = properties_of_known(settings, received, target).await
    {
        if !received.is_preflight() {
            cors::apply(properties.cors(), &parts.method, &parts.headers, response.headers_mut());
        }
        outcome.properties = Some(properties);
    }
    front.settle(received, outcome, response.body().len());
    if let Some(unread) = body {
        if parts.headers.contains_key(EXPECT) {
            // The client waits for "100 Continue", and may or may not send the body without it.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        } else {
            // A client that is still sending would not hear the answer.
            received.body.waiting(unread.discard()).await;
        }
    }
    trace_headers(request_id, "answer headers", response.headers());
}

/// Most who see it have left the account out of the address.
fn unknown_account(target: &Target) -> ServiceError {
    const SHOWN_CHARS: usize = 63;
    let name: String = target.account.chars().take(SHOWN_CHARS).collect();
    let whence = match target.host_style {
        true => "It was taken from the host.",
        false => "It was taken from the path, which begins with the account: http://HOST:PORT/ACCOUNT/...",
    };
    ServiceError::new(ErrorCode::ResourceNotFound).with_message(format!(
        "{} This server has no account '{name}'. {whence}",
        ErrorCode::ResourceNotFound.message()
    ))
}

/// The names by which a server is surely reached that listens at an address.
fn own_hosts(service: Service, address: SocketAddr) -> Vec<String> {
    let (ip, port) = (address.ip(), address.port());
    let mut hosts = vec![address.to_string()];
    if ip.is_loopback() || ip.is_unspecified() {
        let local = ["127.0.0.1", "[::1]", "localhost"].map(|host| format!("{host}:{port}"));
        hosts.extend(local);
        hosts.push(format!("{}.localhost:{port}", service.name()));
    }
    hosts
}

/// How long the request may take.
fn time_limit(query: &Query) -> Result<Duration, ServiceError> {
    match parameters::integer(query, "timeout")? {
        None => Ok(MAX_TIME),
        Some(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds.unsigned_abs()).min(MAX_TIME)),
        Some(seconds) => {
            Err(parameters::invalid_value("timeout", &seconds.to_string(), "a time in seconds is expected"))
        }
    }
}

/// Reads the body, if it is one that is read whole.
async fn read_body(
    body_use: BodyUse,
    authorized: &Authorized<'_>,
    body: &mut Option<Body>,
) -> Result<Bytes, ServiceError> {
    let headers = authorized.head.headers;
    let BodyUse::Whole { max_bytes, required } = body_use else { return Ok(Bytes::new()) };
    if required && !headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRANSFER_ENCODING) {
        return Err(ErrorCode::MissingContentLengthHeader.into());
    }
    let waits = headers.contains_key(EXPECT);
    if waits && body.as_ref().and_then(Body::declared_bytes).is_some_and(|bytes| bytes > max_bytes as u64) {
        // The client has not begun to send, and now it will not.
        *body = None;
        return Err(ErrorCode::RequestBodyTooLarge.into());
    }
    let Some(body) = body.take() else { return Ok(Bytes::new()) };
    phase::enter(Phase::Body);
    let bytes = authorized
        .body
        .waiting(body.read_whole(max_bytes))
        .await
        .map_err(|error| authorized.body.failed(error))?;
    authorized.body.count(bytes.len());
    authorized.check_account()?;
    phase::enter(Phase::Plan);
    Ok(bytes)
}

fn body_error(error: BodyError) -> ServiceError {
    match error {
        BodyError::TooLarge => ErrorCode::RequestBodyTooLarge.into(),
        BodyError::TimedOut => ErrorCode::OperationTimedOut.into(),
        BodyError::Broken => ErrorCode::InvalidInput.into(),
        BodyError::Busy => {
            ServiceError::new(ErrorCode::ServerBusy).with_cause(error).with_throttle(Throttle::Memory)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_storage::{MemoryEngine, MemoryExtents};

    fn future_bytes<S: ServiceHandler, F: Future>(
        _: fn(&'static S, Peer, request::Parts, Body) -> F,
    ) -> usize {
        size_of::<F>()
    }

    /// The callers of `respond`, hyper's among them, copy its future with every request.
    #[test]
    fn the_future_of_a_request_is_small() {
        let sizes = [
            future_bytes(respond::<Tables<MemoryEngine>>),
            future_bytes(respond::<Queues<MemoryEngine>>),
            future_bytes(respond::<Blobs<MemoryEngine, MemoryExtents>>),
        ];
        assert!(sizes.iter().all(|bytes| *bytes <= 2_560), "{sizes:?}");
    }
}
