//! The order in which a request is checked and answered, whichever service it is for.
//!
//! The order is visible protocol: it decides which error wins. `FrontDoor::answer` and the
//! [`Served::answer`] of each service read as the list.

mod batch;
mod blob;
mod browsers;
mod queue;
mod reply_memory;
mod table;

pub use blob::{BackgroundCopies, Blobs, RemoteCopies};
pub use queue::Queues;
pub use table::Tables;

use self::browsers::Browsers;
use crate::accept::{Handler, Peer};
use crate::body::{Body, BodyError, ReplyBody};
use crate::config::Config;
use crate::ids::RequestIds;
use crate::proxies::TrustedProxies;
use crate::telemetry::{RequestLine, request_line, trace_headers};
use bytes::Bytes;
use hyper::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HeaderValue, TRANSFER_ENCODING, USER_AGENT};
use hyper::http::{HeaderMap, Method, Response, request};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::account::Accounts;
use tepui_model::grant::Grant;
use tepui_model::operation::{Effect, Kind};
use tepui_model::service_properties::CorsRule;
use tepui_model::table::QueryCost;
use tepui_model::{Clock, ErrorCode, ServiceError, Timestamp};
use tepui_wire::address::{self, AddressError, AddressRules, Service, Target};
use tepui_wire::auth::{self, Credentials, KeyRing, SasToken, Signed, SigningKeys};
use tepui_wire::cors;
use tepui_wire::error_body::{self, ErrorDress, Exchange};
use tepui_wire::head::{BodyUse, Head};
use tepui_wire::parameters;
use tepui_wire::query::Query;
use tepui_wire::version::{self, ServiceVersion, VersionPolicy};
use tokio::sync::OwnedSemaphorePermit;

/// The longest that an operation may take, whatever the caller asks for.
const MAX_TIME: Duration = Duration::from_secs(30);

/// A service behind the front door.
pub trait Served: Send + Sync + Sized + 'static {
    const SERVICE: Service;
    /// Whether a version that is not known is told before who asks is looked at.
    const VERSION_FIRST: bool;
    /// Which operation a request is.
    type Kind: Kind;

    /// Which scripts may use an account from elsewhere.
    fn cors(&self, account: &str) -> impl Future<Output = Result<Vec<CorsRule>, ServiceError>> + Send;

    /// The version of requests that name none, if the account has chosen one.
    fn default_version(
        &self,
        _account: &str,
    ) -> impl Future<Output = Result<Option<ServiceVersion>, ServiceError>> + Send {
        async { Ok(None) }
    }

    /// The stored access policy that a token refers to, if there is one.
    fn policy(
        &self,
        account: &str,
        token: &SasToken,
    ) -> impl Future<Output = Result<Option<SignedIdentifier>, ServiceError>> + Send;

    /// Answers a request whose caller is known.
    fn answer(
        &self,
        door: &FrontDoor<Self>,
        known: &mut Known<'_, Self::Kind>,
        admitted: &Admitted<'_>,
        body: &mut Option<Body>,
    ) -> impl Future<Output = Result<Response<ReplyBody>, ServiceError>> + Send;

    /// The form in which this caller reads errors.
    fn error_dress(&self, known: &Known<'_, Self::Kind>, version: ServiceVersion) -> ErrorDress;

    /// Adds to a refusal what this service says beside the error.
    fn dress_refusal(
        &self,
        _known: &Known<'_, Self::Kind>,
        _error: &ServiceError,
        _version: ServiceVersion,
        _response: &mut Response<Vec<u8>>,
    ) {
    }

    /// Whether requests can be served now; `Err` says why not.
    fn health(&self) -> Result<(), String>;
}

/// What is checked before a service sees a request, and added after it.
pub struct FrontDoor<S> {
    served: S,
    clock: Arc<dyn Clock>,
    ids: RequestIds,
    keys: KeyRing,
    addresses: AddressRules,
    versions: VersionPolicy,
    secondary: bool,
    browsers: Option<Browsers>,
    proxies: TrustedProxies,
}

/// What is known of a request, for its answer, its errors and the log; it grows as the checks go on.
pub struct Known<'a, K> {
    request_id: &'a str,
    head: &'a request::Parts,
    now: Timestamp,
    query: &'a Query,
    version: Option<ServiceVersion>,
    kind: Option<K>,
    /// What the answer cost, for the log.
    plan: Option<QueryCost>,
    /// What the answer holds of the memory for replies.
    memory: Option<OwnedSemaphorePermit>,
    error_code: Option<&'static str>,
}

/// A request whose caller is known.
pub struct Admitted<'a> {
    target: &'a Target,
    grant: Grant,
    version: ServiceVersion,
    peer: Peer,
    /// How long the answer may take.
    time: Duration,
}

/// What credentials are looked at with: a request, or what stands in one for another.
struct Presented<'a> {
    method: &'a Method,
    headers: &'a HeaderMap,
    query: &'a Query,
    target: &'a Target,
    version: ServiceVersion,
    peer: Peer,
    now: Timestamp,
}

impl<S: Served> FrontDoor<S> {
    /// `address`: where it listens.
    pub fn new(
        served: S,
        clock: Arc<dyn Clock>,
        ids: RequestIds,
        config: &Config,
        address: SocketAddr,
    ) -> Self {
        let accounts = config.effective_accounts();
        let addresses = AddressRules {
            product_style_urls: !config.disable_product_style_url,
            own_hosts: own_hosts(S::SERVICE, address),
            accounts: accounts.iter().map(|account| account.name.clone()).collect(),
            ..AddressRules::new(S::SERVICE)
        };
        Self {
            served,
            clock,
            ids,
            keys: KeyRing::new(&Accounts::new(accounts)),
            addresses,
            versions: if config.skip_api_version_check { VersionPolicy::Skip } else { VersionPolicy::Check },
            secondary: config.secondary,
            browsers: Browsers::new(config, address),
            proxies: config.trusted_proxies.clone(),
        }
    }

    /// Everything that is checked, in the order in which it is.
    async fn answer(
        &self,
        known: &mut Known<'_, S::Kind>,
        target: &Target,
        peer: Peer,
        body: &mut Option<Body>,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        let head = known.head;
        if let Some(browsers) = &self.browsers {
            browsers.check_host(head)?;
        }
        if head.method == Method::OPTIONS {
            let rules = self.cors(target).await?;
            return Ok(cors::preflight(&rules, &head.headers)?.map(ReplyBody::from));
        }
        if let Some(browsers) = &self.browsers
            && let Some(origin) = browsers.foreign_page(S::SERVICE, head)
        {
            Browsers::check_rules(&self.cors(target).await?, origin, &head.method)?;
        }
        let grant = self.authenticate(known, target, peer).await?;
        let version = known.version.ok_or(ErrorCode::InvalidHeaderValue)?;
        let time = time_limit(known.query)?;
        let admitted = Admitted { target, grant, version, peer, time };
        if let Some(body) = body {
            body.charge(&target.account);
        }
        self.served.answer(self, known, &admitted, body).await
    }

    /// Which scripts may use an account from elsewhere. One that does not exist is not even asked for: anybody can
    /// name any number of them.
    async fn cors(&self, target: &Target) -> Result<Vec<CorsRule>, ServiceError> {
        match self.keys.get(&target.account) {
            Some(_) => self.served.cors(&target.account).await,
            None => Ok(Vec::new()),
        }
    }

    /// Who asks, and what they may do.
    async fn authenticate(
        &self,
        known: &mut Known<'_, S::Kind>,
        target: &Target,
        peer: Peer,
    ) -> Result<Grant, ServiceError> {
        let head = known.head;
        self.keys_of(target)?;
        let sas_version = auth::sas_version(known.query);
        let unsaid = sas_version.is_none() && !head.headers.contains_key(error_body::VERSION);
        let chosen = if unsaid { self.served.default_version(&target.account).await? } else { None };
        let version = match chosen {
            Some(version) => Ok(version),
            None => version::negotiate(&head.headers, known.query, sas_version, self.versions),
        };
        if S::VERSION_FIRST {
            known.version = Some(version.clone()?);
        }
        let presented = Presented {
            method: &head.method,
            headers: &head.headers,
            query: known.query,
            target,
            version: *version.as_ref().unwrap_or(&ServiceVersion::NEWEST),
            peer,
            now: known.now,
        };
        let signed = self.signed(&presented)?;
        let credentials = auth::authenticate(&signed)?;
        if matches!(credentials, Credentials::Sas(_)) {
            known.version = version.as_ref().ok().copied();
        }
        let grant = self.resolve(credentials, &signed).await?;
        let version = version?;
        known.version = Some(version);
        tracing::debug!(
            request_id = known.request_id,
            version = %version,
            grant = ?grant,
            base = target.base,
            secondary = target.secondary,
            "authenticated"
        );
        Ok(grant)
    }

    /// What the credentials of something are good for that is not a request of its own.
    async fn grant(&self, presented: &Presented<'_>) -> Result<Grant, ServiceError> {
        let signed = self.signed(presented)?;
        self.resolve(auth::authenticate(&signed)?, &signed).await
    }

    // Fidelity: there is no such account, so there is nothing to ask it. scenario: unknown-account
    fn keys_of(&self, target: &Target) -> Result<&SigningKeys, ServiceError> {
        self.keys.get(&target.account).ok_or_else(|| unknown_account(target))
    }

    fn signed<'a>(&'a self, presented: &Presented<'a>) -> Result<Signed<'a>, ServiceError> {
        Ok(Signed {
            service: S::SERVICE,
            method: presented.method,
            headers: presented.headers,
            query: presented.query,
            target: presented.target,
            keys: self.keys_of(presented.target)?,
            now: presented.now,
            version: presented.version,
            peer_ip: presented.peer.address.ip(),
            secure: presented.peer.tls,
        })
    }

    async fn resolve(&self, credentials: Credentials, signed: &Signed<'_>) -> Result<Grant, ServiceError> {
        match credentials {
            Credentials::AccountKey => Ok(Grant::AccountKey),
            Credentials::Anonymous => Ok(Grant::Anonymous),
            Credentials::Sas(token) => {
                let policy = self.served.policy(&signed.target.account, &token).await?;
                token.resolve(policy.as_ref(), signed)
            }
        }
    }

    /// The secondary endpoint is for reading.
    fn check_secondary(&self, target: &Target, kind: S::Kind) -> Result<(), ServiceError> {
        if !target.secondary {
            return if kind.is_stats() {
                Err(parameters::invalid_value("comp", "stats", "only the secondary endpoint has them"))
            } else {
                Ok(())
            };
        }
        if !self.secondary {
            return Err(ServiceError::new(ErrorCode::InsufficientAccountPermissions).with_message(
                "The account being accessed does not have sufficient permissions to execute this operation.",
            ));
        }
        match kind.effect() {
            Effect::Read => Ok(()),
            Effect::Write => Err(ErrorCode::InsufficientAccountPermissions.into()),
        }
    }

    fn refuse(&self, known: &mut Known<'_, S::Kind>, error: &ServiceError) -> Response<ReplyBody> {
        known.error_code = Some(error.code.name());
        tracing::debug!(request_id = known.request_id, %error, "refused");
        if error.code == ErrorCode::InternalError {
            tracing::error!(request_id = known.request_id, %error, "internal error");
        }
        let version = known.version.unwrap_or(ServiceVersion::NEWEST);
        let dress = match known.head.method {
            Method::OPTIONS => ErrorDress::Xml,
            _ => self.served.error_dress(known, version),
        };
        let mut response = error_body::encode(error, dress, S::SERVICE, known.request_id, known.now);
        self.served.dress_refusal(known, error, version, &mut response);
        if known.head.method == Method::HEAD {
            error_body::remove_body(&mut response);
        }
        response.map(ReplyBody::from)
    }

    /// Adds what every answer has.
    async fn finish(
        &self,
        known: &Known<'_, S::Kind>,
        target: Option<&Target>,
        response: &mut Response<ReplyBody>,
    ) {
        let exchange = Exchange {
            service: S::SERVICE,
            request_id: known.request_id,
            version: known.version,
            request_headers: &known.head.headers,
        };
        error_body::finish(response.headers_mut(), &exchange);
        if let Some(target) = target
            && known.head.method != Method::OPTIONS
            && let Ok(rules) = self.cors(target).await
            && !rules.is_empty()
        {
            cors::apply(&rules, &known.head.method, &known.head.headers, response.headers_mut());
        }
    }
}

impl<S: Served> Handler for FrontDoor<S> {
    const HAS_METADATA: bool = !matches!(S::SERVICE, Service::Table);

    async fn handle(&self, peer: Peer, head: request::Parts, body: Body) -> Response<ReplyBody> {
        let started = Instant::now();
        let peer = self.proxies.client(peer, &head.headers);
        let request_id = self.ids.next();
        let query = Query::parse(head.uri.query());
        let mut body = Some(body);
        let mut known = Known {
            request_id: &request_id,
            head: &head,
            now: self.clock.now(),
            query: &query,
            version: None,
            kind: None,
            plan: None,
            memory: None,
            error_code: None,
        };
        trace_headers(&request_id, "request headers", &head.headers);
        let target = address::parse(&head.uri, &head.headers, peer.tls, &self.addresses);
        let mut response = match &target {
            Err(AddressError::InvalidUrl { close }) => {
                error_body::invalid_url_page(*close).map(ReplyBody::from)
            }
            Err(AddressError::Service(error)) => {
                let mut response = self.refuse(&mut known, error);
                self.finish(&known, None, &mut response).await;
                response
            }
            Ok(target) => {
                let answered = self.answer(&mut known, target, peer, &mut body).await;
                let mut response = answered.unwrap_or_else(|error| self.refuse(&mut known, &error));
                self.finish(&known, Some(target), &mut response).await;
                response
            }
        };
        if let Some(unread) = body {
            if head.headers.contains_key(EXPECT) {
                // The client waits to be asked for it, and nobody knows whether it sends it nevertheless.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            } else {
                // A client that is still sending would not hear the answer.
                unread.discard().await;
            }
        }
        trace_headers(&request_id, "answer headers", response.headers());
        let user_agent = head.headers.get(USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()));
        request_line(&RequestLine {
            request_id: &request_id,
            client: peer.address,
            user_agent: user_agent.as_deref().unwrap_or_default(),
            method: head.method.as_str(),
            account: target.as_ref().map_or("", |target| &target.account),
            operation: known.kind.map_or("", Kind::name),
            path: head.uri.path(),
            status: response.status().as_u16(),
            error_code: known.error_code,
            bytes: response.body().len(),
            microseconds: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
            plan: known.plan,
        });
        let memory = known.memory.take();
        response.map(|body| body.holding(memory))
    }

    fn health(&self) -> Result<(), String> {
        self.served.health()
    }
}

impl Admitted<'_> {
    /// What services read of the request.
    fn head<'a, K>(&'a self, known: &Known<'a, K>) -> Head<'a> {
        let request::Parts { method, headers, extensions, .. } = known.head;
        Head {
            method,
            target: self.target,
            path: &self.target.path,
            query: known.query,
            headers,
            case: extensions.get(),
            version: self.version,
        }
    }

    /// Ends an answer that takes too long. It is pinned, for it is large, and every hand that it passes through
    /// would copy it.
    async fn in_time<T>(
        &self,
        answer: Pin<&mut impl Future<Output = Result<T, ServiceError>>>,
    ) -> Result<T, ServiceError> {
        match tokio::time::timeout(self.time, answer).await {
            Ok(answered) => answered,
            Err(_) => Err(ErrorCode::OperationTimedOut.into()),
        }
    }
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
    head: &request::Parts,
    body: &mut Option<Body>,
) -> Result<Bytes, ServiceError> {
    let BodyUse::Whole { max_bytes, required } = body_use else { return Ok(Bytes::new()) };
    if required && !head.headers.contains_key(CONTENT_LENGTH) && !head.headers.contains_key(TRANSFER_ENCODING)
    {
        return Err(ErrorCode::MissingContentLengthHeader.into());
    }
    let waits = head.headers.contains_key(EXPECT);
    if waits && body.as_ref().and_then(Body::declared_bytes).is_some_and(|bytes| bytes > max_bytes as u64) {
        // The client has not begun to send, and now it will not.
        *body = None;
        return Err(ErrorCode::RequestBodyTooLarge.into());
    }
    let Some(body) = body.take() else { return Ok(Bytes::new()) };
    body.read_whole(max_bytes).await.map_err(body_error)
}

fn body_error(error: BodyError) -> ServiceError {
    match error {
        BodyError::TooLarge => ErrorCode::RequestBodyTooLarge.into(),
        BodyError::TimedOut => ErrorCode::OperationTimedOut.into(),
        BodyError::Broken => ErrorCode::InvalidInput.into(),
        BodyError::Busy => ServiceError::new(ErrorCode::ServerBusy).with_cause(error),
    }
}
