//! Connections to stores of objects: those of hyper with rustls, which the workspace has anyway.

use crate::options::ObjectOptions;
use http_body_util::BodyExt as _;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tepui_storage::StorageError;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Stores close what is idle; some do after 20 s.
const MAX_IDLE: Duration = Duration::from_secs(15);
/// A file with certificates of authorities that are trusted beside those that browsers trust.
const CERTIFICATES: &str = "SSL_CERT_FILE";

/// Makes clients for `object_store`.
#[derive(Debug)]
pub(crate) struct Connector {
    tls: ClientConfig,
    /// Until an answer begins.
    timeout: Duration,
}

impl Connector {
    pub(crate) fn new(options: &ObjectOptions) -> Result<Self, StorageError> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(file) = options.environment.get(CERTIFICATES) {
            let refused = |error: String| StorageError::failed(format!("{CERTIFICATES}: {error}"));
            let certificates =
                CertificateDer::pem_file_iter(file).map_err(|error| refused(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| refused(error.to_string()))?;
                roots.add(certificate).map_err(|error| refused(error.to_string()))?;
            }
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| StorageError::failed("TLS cannot be set up").with_source(error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls, timeout: options.timeout })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        let mut tcp = TcpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.enforce_http(false);
        let tls = HttpsConnectorBuilder::new().with_tls_config(self.tls.clone());
        let tls = if allow_http { tls.https_or_http() } else { tls.https_only() };
        let connector = tls.enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(MAX_IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(HttpClient::new(Service { client, timeout: self.timeout }))
    }
}

#[derive(Debug)]
struct Service {
    client: Client<HttpsConnector<TcpConnector>, HttpRequestBody>,
    timeout: Duration,
}

impl Service {
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = tokio::time::timeout(self.timeout, self.client.request(request)).await;
        let answer = answer
            .map_err(|_| HttpError::new(HttpErrorKind::Timeout, io::Error::from(io::ErrorKind::TimedOut)))?;
        let answer = answer.map_err(|error| {
            let kind = if error.is_connect() { HttpErrorKind::Connect } else { kind(&error) };
            HttpError::new(kind, error)
        })?;
        Ok(answer
            .map(|body| HttpResponseBody::new(body.map_err(|error| HttpError::new(kind(&error), error)))))
    }
}

impl HttpService for Service {
    // The form that `async_trait` gives to an asynchronous method.
    fn call<'a, 'f>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(self.answer(request))
    }
}

/// Which errors are worth another try.
fn kind(error: &(dyn StdError + 'static)) -> HttpErrorKind {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return match error.kind() {
                io::ErrorKind::TimedOut => HttpErrorKind::Timeout,
                _ => HttpErrorKind::Interrupted,
            };
        }
        cause = error.source();
    }
    // The connection was closed before the answer was there.
    HttpErrorKind::Interrupted
}
