//! Accounts: where they are, how to get in, and how they are used.

use crate::core::{Core, Endpoint, PartitionLimits};
use crate::credential::{BearerSource, Credential};
use crate::observe::SentRequest;
use crate::retry::Retry;
use crate::transport::{Pool, Trust};
use crate::{Error, ErrorKind};
use http::Uri;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::time::SystemClock;
use tepui_wire::address::Service;
use tepui_wire::auth::{Signer, decode_key};
use tepui_wire::connection_string::{self, ConnectionString};
use tepui_wire::remote::RemoteService;
use tokio::sync::Semaphore;

/// A storage account. Cheap to clone; all clones share their connections and limits.
///
/// ```
/// use tepui_client::{Account, Retry};
/// # fn main() -> Result<(), tepui_client::Error> {
/// let local = Account::from_connection_string("UseDevelopmentStorage=true")?;
/// let azure = Account::at("https://contoso.table.core.windows.net")
///     .shared_key("contoso", "c2VjcmV0")
///     .retry(Retry::guide())
///     .parallel(64)
///     .build()?;
/// let people = azure.table("People")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Account(pub(crate) Arc<Core>);

/// What an account is before it is used.
///
/// ```
/// use std::time::Duration;
/// use tepui_client::{AccountBuilder, ErrorKind};
/// # fn main() -> Result<(), tepui_client::Error> {
/// let account = AccountBuilder::from_connection_string("UseDevelopmentStorage=true")?
///     .within(Duration::from_secs(20))
///     .build()?;
/// // A key does not go over the network in the clear unless that is said.
/// let careless = AccountBuilder::default().tables_at("http://example.com/acct").shared_key("acct", "c2VjcmV0");
/// assert_eq!(careless.build().err().map(|error| error.kind()), Some(ErrorKind::Configuration));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct AccountBuilder {
    urls: [Option<String>; 3],
    account: Option<String>,
    secret: Secret,
    allows_plain_http: bool,
    retry: Retry,
    within: Duration,
    parallel: usize,
    scans: Scans,
    observer: Option<Arc<crate::observe::Observer>>,
    /// In PEM.
    #[cfg(feature = "tls")]
    trusted: Vec<Vec<u8>>,
}

enum Secret {
    /// In Base64, as it was given.
    Key(String),
    Ready(Credential),
}

/// Whether queries may read ranges of partitions, or whole tables. What counts is what would be read, not how it was
/// asked for: a scan whose filter fixes the partition key is a read of that partition.
///
/// ```
/// use tepui_client::{AccountBuilder, Scans};
/// # fn main() -> Result<(), tepui_client::Error> {
/// let strict = AccountBuilder::from_connection_string("UseDevelopmentStorage=true")?.scans(Scans::Refuse).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scans {
    #[default]
    Allow,
    /// They are a [`Refused`](crate::ErrorKind::Refused) before they are sent. Scans of single partitions are not: what
    /// they cost has a bound, and `.scan()` says that they happen.
    Refuse,
}

const SERVICES: [Service; 3] = [Service::Table, Service::Queue, Service::Blob];

impl Account {
    /// An account as connection strings describe it: keys, SAS, endpoints, `UseDevelopmentStorage=true`.
    pub fn from_connection_string(text: &str) -> Result<Self, Error> {
        AccountBuilder::from_connection_string(text)?.build()
    }

    /// An account whose tables are at this URL.
    pub fn at(tables: impl Into<String>) -> AccountBuilder {
        AccountBuilder::default().tables_at(tables)
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoints = [&self.0.table, &self.0.queue, &self.0.blob];
        let name = endpoints.into_iter().flatten().next().map(|endpoint| endpoint.remote.account());
        f.debug_struct("Account").field("name", &name).field("credential", &self.0.credential).finish()
    }
}

impl Default for AccountBuilder {
    fn default() -> Self {
        Self {
            urls: [None, None, None],
            account: None,
            secret: Secret::Ready(Credential::Anonymous),
            allows_plain_http: false,
            retry: Retry::default(),
            within: Duration::from_secs(120),
            parallel: 64,
            scans: Scans::default(),
            observer: None,
            #[cfg(feature = "tls")]
            trusted: Vec::new(),
        }
    }
}

impl AccountBuilder {
    /// What a connection string says, to be changed before it is used.
    pub fn from_connection_string(text: &str) -> Result<Self, Error> {
        let parsed = ConnectionString::parse(text).map_err(|error| configuration(error.to_string()))?;
        let url = |service| parsed.endpoint(service).map(|endpoint| endpoint.primary.clone());
        let urls = SERVICES.map(url);
        let secret = match &parsed.credential {
            connection_string::Credential::AccountKey(key) => {
                let account =
                    parsed.account.as_deref().ok_or_else(|| configuration("a key needs an AccountName"))?;
                let signer = Signer::new(account, key.clone());
                Credential::SharedKey(signer.map_err(|_| configuration("the AccountKey is not valid"))?)
            }
            connection_string::Credential::Sas(token) => Credential::Sas(token.clone()),
            connection_string::Credential::Anonymous => Credential::Anonymous,
        };
        Ok(Self { urls, account: parsed.account, secret: Secret::Ready(secret), ..Self::default() })
    }

    pub fn tables_at(mut self, url: impl Into<String>) -> Self {
        self.urls[0] = Some(url.into());
        self
    }

    pub fn queues_at(mut self, url: impl Into<String>) -> Self {
        self.urls[1] = Some(url.into());
        self
    }

    pub fn blobs_at(mut self, url: impl Into<String>) -> Self {
        self.urls[2] = Some(url.into());
        self
    }

    /// Requests are signed with a key of the account, given in Base64.
    pub fn shared_key(mut self, account: impl Into<String>, key: impl Into<String>) -> Self {
        self.account = Some(account.into());
        self.secret = Secret::Key(key.into());
        self
    }

    /// Requests carry a shared access signature, as it stands in a URL.
    pub fn sas(mut self, token: impl Into<String>) -> Self {
        self.secret = Secret::Ready(Credential::Sas(token.into()));
        self
    }

    /// Requests carry tokens of a directory.
    pub fn bearer(mut self, source: impl BearerSource) -> Self {
        self.secret = Secret::Ready(Credential::Bearer(Arc::new(source)));
        self
    }

    /// Lets secrets go over a network in the clear. To this machine they may without.
    pub fn allow_plain_http(mut self) -> Self {
        self.allows_plain_http = true;
        self
    }

    /// Trusts certificate authorities of one's own, beside those that browsers trust: for services that are not public. They
    /// are given in PEM, one or several.
    ///
    /// ```
    /// use tepui_client::{Account, ErrorKind};
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/certificates/authority.pem");
    /// let authority = std::fs::read(path)?;
    /// let storage = Account::at("https://storage.internal:10002/acct").shared_key("acct", "c2VjcmV0");
    /// assert!(storage.trust(authority).build().is_ok());
    /// let mistaken = Account::at("https://storage.internal:10002/acct").trust("not PEM").build();
    /// assert_eq!(mistaken.unwrap_err().kind(), ErrorKind::Configuration);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    pub fn trust(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.trusted.push(pem.into());
        self
    }

    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// How long a call may take, all attempts together. Two minutes unless said otherwise.
    pub fn within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    /// How many requests may be under way at a time, and how many connections are kept. 64 unless said otherwise.
    pub fn parallel(mut self, requests: usize) -> Self {
        self.parallel = requests.clamp(1, 10_000);
        self
    }

    pub fn scans(mut self, scans: Scans) -> Self {
        self.scans = scans;
        self
    }

    /// Calls a function after each request, for logs, metrics and costs. It must not block.
    pub fn observe(mut self, observer: impl Fn(&SentRequest<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Nothing is sent yet.
    pub fn build(self) -> Result<Account, Error> {
        if self.urls.iter().all(Option::is_none) {
            return Err(configuration("the account has no endpoints"));
        }
        let credential = match &self.secret {
            Secret::Ready(credential) => credential.clone(),
            Secret::Key(key) => {
                let key = decode_key(key).map_err(|_| configuration("the key is not valid"))?;
                let account = self.account.as_deref().unwrap_or_default();
                let signer = Signer::new(account, key).map_err(|_| configuration("the key is not valid"))?;
                Credential::SharedKey(signer)
            }
        };
        let trust = self.trust_of_endpoints()?;
        let mut endpoints = SERVICES.into_iter().zip(&self.urls).map(|(service, url)| match url {
            Some(url) => self.endpoint(service, url, &credential, trust.as_ref()).map(Some),
            None => Ok(None),
        });
        let mut next = || endpoints.next().transpose().map(Option::flatten);
        let (table, queue, blob) = (next()?, next()?, next()?);
        Ok(Account(Arc::new(Core {
            table,
            queue,
            blob,
            credential,
            retry: self.retry.clone(),
            within: self.within,
            max_parallel: self.parallel,
            parallel: Semaphore::new(self.parallel),
            partitions: PartitionLimits::new(self.parallel),
            scans: self.scans,
            observer: self.observer.clone(),
            clock: SystemClock::new(),
        })))
    }

    /// Made once: the list of authorities is long. `None` if no endpoint needs it.
    fn trust_of_endpoints(&self) -> Result<Option<Trust>, Error> {
        #[cfg(feature = "tls")]
        if self.urls.iter().flatten().any(|url| url.to_ascii_lowercase().starts_with("https:")) {
            return Trust::new(&self.trusted).map(Some).map_err(configuration);
        }
        Ok(None)
    }

    fn endpoint(
        &self,
        service: Service,
        url: &str,
        credential: &Credential,
        trust: Option<&Trust>,
    ) -> Result<Endpoint, Error> {
        let remote = RemoteService::new(service, url, self.account.as_deref())
            .map_err(|error| configuration(error.to_string()))?;
        let parsed: Uri = url.parse().map_err(|_| configuration("an endpoint is no URL"))?;
        let is_exposed = !remote.is_secure() && !matches!(credential, Credential::Anonymous);
        if is_exposed && !self.allows_plain_http && !parsed.host().is_some_and(is_loopback) {
            let message =
                "a key or token would go over the network in the clear: use https, or allow_plain_http()";
            return Err(configuration(message));
        }
        let pool = Pool::new(&parsed, self.parallel, trust).ok_or_else(|| {
            configuration("the endpoint cannot be reached by https: is the feature `tls` on?")
        })?;
        Ok(Endpoint { remote, pool })
    }
}

/// Never prints the secret.
impl fmt::Debug for AccountBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountBuilder").field("urls", &self.urls).finish_non_exhaustive()
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or_else(|_| host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
}

fn configuration(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Configuration, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_go_in_the_clear() {
        for (url, is_fine) in [
            ("https://acct.table.core.windows.net", cfg!(feature = "tls")),
            ("HTTPS://acct.table.core.windows.net", cfg!(feature = "tls")),
            ("http://127.0.0.1:10002/acct", true),
            ("http://[::1]:10002/acct", true),
            ("http://localhost:10002/acct", true),
            ("http://acct.table.core.windows.net", false),
            ("http://10.0.0.1:10002/acct", false),
            ("http://127.0.0.1.example.com/acct", false),
            ("ftp://127.0.0.1/acct", false),
        ] {
            let key = || Account::at(url).shared_key("acct", "c2VjcmV0");
            assert_eq!(key().build().is_ok(), is_fine, "{url}");
            assert_eq!(Account::at(url).sas("sig=x").build().is_ok(), is_fine, "{url}");
            let allowed = url.starts_with("http://") || is_fine;
            assert_eq!(key().allow_plain_http().build().is_ok(), allowed, "{url}");
        }
    }

    #[test]
    fn nothing_prints_a_secret() {
        let builder = || Account::at("http://127.0.0.1/acct").shared_key("acct", "c2VjcmV0");
        let printed = format!("{:?} {:?}", builder(), builder().build().unwrap());
        assert!(!printed.contains("c2VjcmV0") && !printed.contains("secret"), "{printed}");
        let sas = Account::at("http://127.0.0.1/acct").sas("sig=c2VjcmV0").build().unwrap();
        assert!(!format!("{sas:?}").contains("c2VjcmV0"));
    }
}
