//! One document over HTTP, with limits on all that it could cost. Redirects are not followed.

use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CACHE_CONTROL, HOST, USER_AGENT};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future as _, poll_fn};
use std::net::IpAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// As much of an answer's head as is read.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// The URL of a document: over TLS, unless it is on this machine.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Url(http::Uri);

impl Url {
    /// The error is for people.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let uri: http::Uri = text.parse().map_err(|_| "this is no URL of https")?;
        let authority = uri.authority().ok_or("this is no URL of https")?;
        if authority.as_str().contains('@') || text.contains('#') {
            return Err("the URL of an issuer has no user and no fragment");
        }
        let url = Self(uri);
        match url.0.scheme_str() {
            Some("https") => Ok(url),
            Some("http") if url.is_of_this_machine() => Ok(url),
            Some("http") => Err("an issuer on another machine has an https URL"),
            _ => Err("this is no URL of https"),
        }
    }

    /// By its name: nothing is looked up.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        let host = self.host();
        host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    fn host(&self) -> &str {
        self.0.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(if self.is_secure() { 443 } else { 80 })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What was fetched.
pub(crate) struct Document {
    pub(crate) bytes: Vec<u8>,
    /// How long it may be kept, if it says so.
    pub(crate) max_age: Option<Duration>,
}

/// Why there is no document, for people.
pub(crate) type FetchError = String;

/// Whom an issuer's server is believed to be by.
pub(crate) struct Trust(TlsConnector);

impl Trust {
    /// `ca_file`: certificates of authorities, instead of those that browsers trust.
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, FetchError> {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?
            .with_root_certificates(authorities(ca_file)?)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Fetches a document of at most so many bytes. It takes as long as it wants.
    pub(crate) async fn get(&self, url: &Url, max_bytes: usize) -> Result<Document, FetchError> {
        let said = |what: &str, error: &dyn fmt::Display| format!("{what} ({error}): {url}");
        let stream = TcpStream::connect((url.host(), url.port()));
        let stream = stream.await.map_err(|error| said("cannot connect", &error))?;
        if !url.is_secure() {
            return exchange(stream, url, max_bytes).await;
        }
        let name = ServerName::try_from(url.host().to_owned());
        let name = name.map_err(|error| said("no certificate can be for this host", &error))?;
        let stream = self.0.connect(name, stream).await.map_err(|error| said("TLS has failed", &error))?;
        exchange(stream, url, max_bytes).await
    }
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, FetchError> {
    let Some(file) = file else {
        return Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
    };
    let unreadable = || format!("there are no certificates in PEM: {}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|_| unreadable())? {
        roots.add(certificate.map_err(|_| unreadable())?).map_err(|_| unreadable())?;
    }
    if roots.is_empty() { Err(unreadable()) } else { Ok(roots) }
}

async fn exchange<S>(stream: S, url: &Url, max_bytes: usize) -> Result<Document, FetchError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let failed = |error: &dyn fmt::Display| format!("there is no answer ({error}): {url}");
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_HEAD_BYTES);
    let (mut sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    let path = url.0.path_and_query().map_or("/", |path| path.as_str());
    let authority = url.0.authority().map_or("", |authority| authority.as_str());
    let request = Request::get(path)
        .header(HOST, authority)
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, "tepui")
        .body(NoBody)
        .map_err(|error| failed(&error))?;
    let answer = async move {
        let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
        match response.status() {
            StatusCode::OK => {}
            status if status.is_redirection() => {
                return Err(format!("this is a redirect, which is not followed ({status}): {url}"));
            }
            status => return Err(format!("the answer is {status}: {url}")),
        }
        let max_age = max_age(response.headers());
        Ok(Document { bytes: read(response.into_body(), url, max_bytes).await?, max_age })
    };
    // The connection is driven here, so that nothing of it is left when the caller gives up.
    let mut connection = std::pin::pin!(connection);
    let mut answer = std::pin::pin!(answer);
    let mut is_open = true;
    poll_fn(|context| {
        if is_open && connection.as_mut().poll(context).is_ready() {
            is_open = false;
        }
        answer.as_mut().poll(context)
    })
    .await
}

async fn read(mut body: Incoming, url: &Url, max_bytes: usize) -> Result<Vec<u8>, FetchError> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| format!("the answer broke off ({error}): {url}"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > max_bytes {
            return Err(format!("the answer has more than {max_bytes} bytes: {url}"));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// What `Cache-Control` says: nothing of what must not be kept is kept for long.
fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let directives = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let mut ages = directives.flat_map(|value| value.split(',')).filter_map(|directive| {
        let directive = directive.trim().to_ascii_lowercase();
        match directive.strip_prefix("max-age=") {
            Some(seconds) => seconds.trim_matches('"').parse().ok().map(Duration::from_secs),
            None => matches!(directive.as_str(), "no-cache" | "no-store").then_some(Duration::ZERO),
        }
    });
    let first = ages.next()?;
    Some(ages.fold(first, Duration::min))
}

/// What a GET sends.
struct NoBody;

impl Body for NoBody {
    type Data = &'static [u8];
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<&'static [u8]>, Infallible>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn urls() {
        for (text, is_good) in [
            ("https://issuer.example", true),
            ("https://issuer.example:8443/a?b=c", true),
            ("http://127.0.0.1:1/a", true),
            ("http://[::1]:1/a", true),
            ("http://localhost/a", true),
            ("http://localhost.example/a", false),
            ("http://127.0.0.1.example/a", false),
            ("http://10.0.0.1/a", false),
            ("http://issuer.example/a", false),
            ("ftp://issuer.example/a", false),
            ("file:///etc/passwd", false),
            ("/a", false),
            ("issuer.example", false),
            ("https://user@issuer.example/", false),
            ("https://issuer.example/#a", false),
            ("", false),
        ] {
            assert_eq!(Url::parse(text).is_ok(), is_good, "{text}");
        }
    }

    #[test]
    fn ages() {
        for (value, expected) in [
            (None, None),
            (Some("public"), None),
            (Some("public, max-age=300"), Some(300)),
            (Some("Max-Age=\"5\""), Some(5)),
            (Some("max-age=300, no-cache"), Some(0)),
            (Some("no-store"), Some(0)),
            (Some("max-age=x"), None),
            (Some("s-maxage=3"), None),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(CACHE_CONTROL, HeaderValue::from_static(value));
            }
            assert_eq!(max_age(&headers), expected.map(Duration::from_secs), "{value:?}");
        }
    }
}
