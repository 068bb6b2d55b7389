//! Where a service is, and the parts of a request to it.

use crate::address::{SECONDARY_SUFFIX, Service, Target};
use crate::error_body::VERSION;
use crate::metadata::{self, HeaderCase};
use crate::percent;
use crate::version::ServiceVersion;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, Scheme};
use http::{Method, Request, Uri};
use std::fmt;
use tepui_model::metadata::Metadata;

/// A service of an account, as requests are addressed to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteService {
    service: Service,
    scheme: Scheme,
    authority: Authority,
    /// In front of every path: the account, in path style. No slash at the end.
    prefix: String,
    account: String,
    secondary: bool,
    version: ServiceVersion,
}

/// The URL of a service is none, or does not say which account it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidUrl;

impl fmt::Display for InvalidUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the URL of a service has a scheme, a host, an account in one of host and path, and nothing else",
        )
    }
}

impl std::error::Error for InvalidUrl {}

impl RemoteService {
    /// A service by its URL, as connection strings have it. `account` is needed where the URL does not tell.
    ///
    /// ```
    /// use tepui_wire::address::Service;
    /// use tepui_wire::remote::RemoteService;
    /// let local = RemoteService::new(Service::Table, "http://127.0.0.1:10002/devstoreaccount1", None).unwrap();
    /// assert_eq!(local.account(), "devstoreaccount1");
    /// let azure = RemoteService::new(Service::Table, "https://contoso.table.core.windows.net/", None).unwrap();
    /// assert_eq!(azure.account(), "contoso");
    /// ```
    pub fn new(service: Service, url: &str, account: Option<&str>) -> Result<Self, InvalidUrl> {
        let uri: Uri = url.parse().map_err(|_| InvalidUrl)?;
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else { return Err(InvalidUrl) };
        if !(scheme == Scheme::HTTP || scheme == Scheme::HTTPS) || authority.as_str().contains('@') {
            return Err(InvalidUrl);
        }
        let path = parts.path_and_query.ok_or(InvalidUrl)?;
        if path.query().is_some() {
            return Err(InvalidUrl);
        }
        let prefix = path.path().trim_end_matches('/').to_owned();
        let addressed = match prefix.rsplit('/').next().unwrap_or_default() {
            "" => authority.host().split_once('.').map(|(label, _)| label).unwrap_or_default(),
            segment => segment,
        };
        let (named, secondary) = match addressed.strip_suffix(SECONDARY_SUFFIX) {
            Some(named) => (named, true),
            None => (addressed, false),
        };
        let account = account.unwrap_or(named).to_owned();
        if account.is_empty() {
            return Err(InvalidUrl);
        }
        let version = default_version(service);
        Ok(Self { service, scheme, authority, prefix, account, secondary, version })
    }

    /// The same service, asked in another version of the protocol.
    pub fn with_version(self, version: ServiceVersion) -> Self {
        Self { version, ..self }
    }

    pub fn service(&self) -> Service {
        self.service
    }

    pub fn account(&self) -> &str {
        &self.account
    }

    pub fn version(&self) -> ServiceVersion {
        self.version
    }

    /// Whether requests go over TLS.
    pub fn is_secure(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// How the server sees a request with this path, as far as signatures need it: they have no host.
    pub(super) fn target(&self, raw_path: &str) -> Target {
        let path = raw_path.strip_prefix(&self.prefix).unwrap_or(raw_path);
        Target {
            account: self.account.clone(),
            secondary: self.secondary,
            base: String::new(),
            raw_path: raw_path.to_owned(),
            path: path.strip_prefix('/').unwrap_or(path).to_owned(),
            host_style: self.prefix.is_empty(),
        }
    }

    /// The URL of a path with its query.
    pub(super) fn uri(&self, path_and_query: String) -> Result<Uri, InvalidRequest> {
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(path_and_query)
            .build()
            .map_err(|_| InvalidRequest("the URL is too long or not one"))
    }
}

/// What all servers speak that a client may meet, and that has all operations.
fn default_version(service: Service) -> ServiceVersion {
    match service {
        Service::Table => ServiceVersion::OF_TABLE_CLIENTS,
        Service::Queue | Service::Blob => ServiceVersion::OF_CLIENTS,
    }
}

/// A request that is ready to be authorized and sent.
pub type OutgoingRequest = Request<RequestBody>;

/// The body of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestBody {
    Empty,
    Whole(Bytes),
    /// The caller sends it, in chunks if its length is not known.
    Streamed {
        bytes: Option<u64>,
    },
}

/// An operation that no request can express. Says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidRequest(pub &'static str);

impl fmt::Display for InvalidRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the operation cannot be sent: {}", self.0)
    }
}

impl std::error::Error for InvalidRequest {}

/// A request that is being written.
pub(crate) struct Outgoing<'a> {
    to: &'a RemoteService,
    method: Method,
    /// The path, percent-encoded, and the query.
    path: String,
    has_query: bool,
    headers: HeaderMap,
    case: HeaderCase,
    invalid: Option<InvalidRequest>,
}

impl<'a> Outgoing<'a> {
    /// `path`: after the account, percent-encoded, without a slash in front.
    pub(crate) fn new(to: &'a RemoteService, method: Method, path: &str) -> Self {
        let path = [&to.prefix, "/", path].concat();
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(VERSION, HeaderValue::from_static(to.version.text()));
        Self { to, method, path, has_query: false, headers, case: HeaderCase::default(), invalid: None }
    }

    /// Adds a parameter to the query. Its name stands as it is.
    pub(crate) fn parameter(&mut self, name: &str, value: &str) {
        self.path.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.path.push_str(name);
        self.path.push('=');
        percent::push_encoded(value, &mut self.path);
    }

    /// Adds a parameter if it says anything.
    pub(crate) fn parameter_if(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.parameter(name, value);
        }
    }

    /// Adds a header. A value that no header can hold makes the request invalid: nothing is left out silently.
    pub(crate) fn header(&mut self, name: &'static str, value: impl AsRef<[u8]>) {
        match HeaderValue::from_bytes(value.as_ref()) {
            Ok(value) => {
                self.headers.append(HeaderName::from_static(name), value);
            }
            Err(_) => self.refuse("a header has a value that no header can hold"),
        }
    }

    /// Adds a header whose value is always the same, and good.
    pub(crate) fn constant_header(&mut self, name: &'static str, value: &'static str) {
        self.headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }

    /// Adds a header if there is something to say.
    pub(crate) fn header_if(&mut self, name: &'static str, value: Option<impl AsRef<[u8]>>) {
        if let Some(value) = value {
            self.header(name, value);
        }
    }

    pub(crate) fn metadata(&mut self, pairs: &Metadata) {
        match metadata::encode(pairs, &mut self.headers) {
            Ok(()) => self.case = HeaderCase::of(pairs),
            Err(_) => self.refuse("metadata that no header can hold"),
        }
    }

    pub(crate) fn refuse(&mut self, why: &'static str) {
        self.invalid.get_or_insert(InvalidRequest(why));
    }

    /// The request without a body.
    pub(crate) fn empty(self) -> Result<OutgoingRequest, InvalidRequest> {
        self.finish(RequestBody::Empty)
    }

    /// The request with a body that is at hand.
    pub(crate) fn whole(
        mut self,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Result<OutgoingRequest, InvalidRequest> {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.finish(RequestBody::Whole(body.into()))
    }

    pub(crate) fn finish(mut self, body: RequestBody) -> Result<OutgoingRequest, InvalidRequest> {
        if let Some(invalid) = self.invalid {
            return Err(invalid);
        }
        let length = match &body {
            RequestBody::Empty if self.method == Method::PUT || self.method == Method::POST => Some(0),
            RequestBody::Empty => None,
            RequestBody::Whole(bytes) => Some(bytes.len() as u64),
            RequestBody::Streamed { bytes } => *bytes,
        };
        if let Some(length) = length {
            self.headers.insert(CONTENT_LENGTH, length.into());
        }
        let mut request = Request::new(body);
        *request.uri_mut() = self.to.uri(self.path)?;
        *request.method_mut() = self.method;
        *request.headers_mut() = self.headers;
        if !self.case.is_empty() {
            request.extensions_mut().insert(self.case);
        }
        Ok(request)
    }
}
