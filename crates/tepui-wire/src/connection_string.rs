//! Connection strings: how clients are told where an account is and how to get in.
//!
//! `Name=value` pairs with semicolons between them. See the page "Configure Azure Storage connection strings".

use crate::address::{SECONDARY_SUFFIX, Service};
use crate::auth::decode_key;
use std::fmt;
use tepui_model::account::{AccountKey, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY_BASE64};

/// Where an account is, and how to get in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionString {
    /// `None` if it is only said where the services are.
    pub account: Option<String>,
    pub credential: Credential,
    table: Option<Endpoint>,
    queue: Option<Endpoint>,
    blob: Option<Endpoint>,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    AccountKey(AccountKey),
    /// A token, without a question mark in front.
    Sas(String),
    Anonymous,
}

/// Never prints what it is.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AccountKey(_) => "AccountKey(…)",
            Self::Sas(_) => "Sas(…)",
            Self::Anonymous => "Anonymous",
        })
    }
}

/// Where a service of an account is. No slash at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub primary: String,
    pub secondary: Option<String>,
}

/// Why a text is no connection string. Does not repeat values: they may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionStringError {
    /// Something that is no `Name=value`.
    NoPair,
    Twice(String),
    /// A setting has a value that it cannot have.
    InvalidValue(&'static str),
    /// Neither an account nor an endpoint.
    NoEndpoint,
}

impl fmt::Display for ConnectionStringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPair => {
                f.write_str("a connection string consists of Name=value pairs, separated by semicolons")
            }
            Self::Twice(name) => write!(f, "{name} is there twice"),
            Self::InvalidValue(name) => write!(f, "the value of {name} is not valid"),
            Self::NoEndpoint => f.write_str("the connection string names neither an account nor an endpoint"),
        }
    }
}

impl std::error::Error for ConnectionStringError {}

/// The settings that say where a service is.
const ENDPOINTS: [(Service, &str, &str, u16); 3] = [
    (Service::Blob, "BlobEndpoint", "BlobSecondaryEndpoint", 10000),
    (Service::Queue, "QueueEndpoint", "QueueSecondaryEndpoint", 10001),
    (Service::Table, "TableEndpoint", "TableSecondaryEndpoint", 10002),
];

impl ConnectionString {
    /// ```
    /// use tepui_wire::address::Service;
    /// use tepui_wire::connection_string::ConnectionString;
    /// let text = "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net";
    /// let parsed = ConnectionString::parse(text).unwrap();
    /// assert_eq!(parsed.endpoint(Service::Table).unwrap().primary, "https://acct.table.core.windows.net");
    /// ```
    pub fn parse(text: &str) -> Result<Self, ConnectionStringError> {
        let settings = Settings::parse(text)?;
        if let Some(uses) = settings.get("UseDevelopmentStorage") {
            if !uses.eq_ignore_ascii_case("true") {
                return Err(ConnectionStringError::InvalidValue("UseDevelopmentStorage"));
            }
            return Self::development(settings.get("DevelopmentStorageProxyUri"));
        }
        let account = settings.get("AccountName").map(str::to_owned);
        let credential = match (settings.get("AccountKey"), settings.get("SharedAccessSignature")) {
            (Some(key), _) => Credential::AccountKey(
                decode_key(key).map_err(|_| ConnectionStringError::InvalidValue("AccountKey"))?,
            ),
            (None, Some(token)) => Credential::Sas(token.strip_prefix('?').unwrap_or(token).to_owned()),
            (None, None) => Credential::Anonymous,
        };
        let protocol = settings.get("DefaultEndpointsProtocol").unwrap_or("https").to_ascii_lowercase();
        if !matches!(protocol.as_str(), "http" | "https") {
            return Err(ConnectionStringError::InvalidValue("DefaultEndpointsProtocol"));
        }
        let suffix = settings.get("EndpointSuffix").unwrap_or("core.windows.net");
        let endpoint = |service: Service| {
            let (_, primary, secondary, _) = ENDPOINTS.into_iter().find(|row| row.0 == service)?;
            let of_account = |suffix_of_account: &str| {
                let account = account.as_deref()?;
                Some(format!("{protocol}://{account}{suffix_of_account}.{}.{suffix}", service.name()))
            };
            match settings.url(primary) {
                // Where the primary is said, the secondary is only where that is said, too.
                Some(primary) => Some(Endpoint { primary, secondary: settings.url(secondary) }),
                None => Some(Endpoint {
                    primary: of_account("")?,
                    secondary: settings.url(secondary).or_else(|| of_account(SECONDARY_SUFFIX)),
                }),
            }
        };
        let found = Self {
            table: endpoint(Service::Table),
            queue: endpoint(Service::Queue),
            blob: endpoint(Service::Blob),
            account,
            credential,
        };
        match (&found.table, &found.queue, &found.blob) {
            (None, None, None) => Err(ConnectionStringError::NoEndpoint),
            _ => Ok(found),
        }
    }

    /// Of the development account, on this machine or behind `proxy`.
    fn development(proxy: Option<&str>) -> Result<Self, ConnectionStringError> {
        let host = proxy.unwrap_or("http://127.0.0.1").trim_end_matches('/');
        let (Some((_, after)), Ok(key)) = (host.split_once("://"), decode_key(DEVELOPMENT_KEY_BASE64)) else {
            return Err(ConnectionStringError::InvalidValue("DevelopmentStorageProxyUri"));
        };
        if after.is_empty() || after.contains('/') {
            return Err(ConnectionStringError::InvalidValue("DevelopmentStorageProxyUri"));
        }
        let endpoint = |service: Service| {
            let (.., port) = ENDPOINTS.into_iter().find(|row| row.0 == service)?;
            let primary = format!("{host}:{port}/{DEVELOPMENT_ACCOUNT}");
            let secondary = Some(format!("{primary}{SECONDARY_SUFFIX}"));
            Some(Endpoint { primary, secondary })
        };
        Ok(Self {
            account: Some(DEVELOPMENT_ACCOUNT.to_owned()),
            credential: Credential::AccountKey(key),
            table: endpoint(Service::Table),
            queue: endpoint(Service::Queue),
            blob: endpoint(Service::Blob),
        })
    }

    /// Where a service is, if that is said.
    pub fn endpoint(&self, service: Service) -> Option<&Endpoint> {
        match service {
            Service::Table => self.table.as_ref(),
            Service::Queue => self.queue.as_ref(),
            Service::Blob => self.blob.as_ref(),
        }
    }
}

/// The pairs of a text. Names in any case, each once.
struct Settings<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Settings<'a> {
    fn parse(text: &'a str) -> Result<Self, ConnectionStringError> {
        let mut settings = Self(Vec::new());
        for pair in text.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
            // The first sign counts: keys end with others.
            let (name, value) = pair.split_once('=').ok_or(ConnectionStringError::NoPair)?;
            let (name, value) = (name.trim(), value.trim());
            if name.is_empty() {
                return Err(ConnectionStringError::NoPair);
            }
            if settings.0.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                return Err(ConnectionStringError::Twice(name.to_owned()));
            }
            settings.0.push((name, value));
        }
        Ok(settings)
    }

    /// A setting that is empty is none.
    fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value).filter(|value| !value.is_empty())
    }

    fn url(&self, name: &str) -> Option<String> {
        self.get(name).map(|url| url.trim_end_matches('/').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ConnectionStringError::*;
    use proptest::prelude::*;

    fn endpoint(text: &str, service: Service) -> Option<(String, Option<String>)> {
        let parsed = ConnectionString::parse(text).unwrap();
        parsed.endpoint(service).cloned().map(|endpoint| (endpoint.primary, endpoint.secondary))
    }

    #[test]
    fn where_a_service_is() {
        let account = "DefaultEndpointsProtocol=http;AccountName=acct;AccountKey=c2VjcmV0";
        let both = |primary: &str, secondary: &str| Some((primary.to_owned(), Some(secondary.to_owned())));
        let one = |primary: &str| Some((primary.to_owned(), None));
        for (text, service, expected) in [
            (
                "AccountName=acct;AccountKey=c2VjcmV0",
                Service::Blob,
                both("https://acct.blob.core.windows.net", "https://acct-secondary.blob.core.windows.net"),
            ),
            (
                &format!("{account};EndpointSuffix=core.chinacloudapi.cn;"),
                Service::Queue,
                both(
                    "http://acct.queue.core.chinacloudapi.cn",
                    "http://acct-secondary.queue.core.chinacloudapi.cn",
                ),
            ),
            (
                &format!("{account};TableEndpoint=http://127.0.0.1:10002/acct/;"),
                Service::Table,
                one("http://127.0.0.1:10002/acct"),
            ),
            (
                &format!(
                    "{account};BlobEndpoint=http://h/acct;BlobSecondaryEndpoint=http://h/acct-secondary"
                ),
                Service::Blob,
                both("http://h/acct", "http://h/acct-secondary"),
            ),
            (
                " usedevelopmentstorage = TRUE ; ",
                Service::Table,
                both(
                    "http://127.0.0.1:10002/devstoreaccount1",
                    "http://127.0.0.1:10002/devstoreaccount1-secondary",
                ),
            ),
            (
                "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite/",
                Service::Blob,
                both(
                    "http://azurite:10000/devstoreaccount1",
                    "http://azurite:10000/devstoreaccount1-secondary",
                ),
            ),
            (
                "BlobEndpoint=https://h.example/;SharedAccessSignature=sv=2019-02-02&sig=x",
                Service::Blob,
                one("https://h.example"),
            ),
            ("BlobEndpoint=https://h.example/;SharedAccessSignature=sig=x", Service::Queue, None),
        ] {
            assert_eq!(endpoint(text, service), expected, "{text}");
        }
    }

    #[test]
    fn how_to_get_in() {
        let sas = || Credential::Sas("sv=2019-02-02&sig=a%3D".to_owned());
        for (text, account, credential) in [
            ("UseDevelopmentStorage=true", Some(DEVELOPMENT_ACCOUNT), None),
            ("AccountName=a;AccountKey=c2VjcmV0MTI=", Some("a"), None),
            ("AccountName=a;AccountKey=c2VjcmV0;SharedAccessSignature=sig=x", Some("a"), None),
            ("AccountName=a;SharedAccessSignature=?sv=2019-02-02&sig=a%3D", Some("a"), Some(sas())),
            ("TableEndpoint=http://h/a;SharedAccessSignature=sv=2019-02-02&sig=a%3D", None, Some(sas())),
            ("TableEndpoint=http://h/a", None, Some(Credential::Anonymous)),
        ] {
            let parsed = ConnectionString::parse(text).unwrap();
            assert_eq!(parsed.account.as_deref(), account, "{text}");
            match credential {
                Some(credential) => assert_eq!(parsed.credential, credential, "{text}"),
                None => assert!(matches!(parsed.credential, Credential::AccountKey(_)), "{text}"),
            }
            assert!(!format!("{parsed:?}").contains("sig="), "{text}");
        }
    }

    #[test]
    fn refused() {
        for (text, expected) in [
            ("", NoEndpoint),
            ("AccountKey=c2VjcmV0", NoEndpoint),
            ("AccountName=a;secret", NoPair),
            ("AccountName=a;=x", NoPair),
            ("AccountName=a;accountname=b", Twice("accountname".to_owned())),
            ("AccountName=a;AccountKey=***", InvalidValue("AccountKey")),
            ("AccountName=a;DefaultEndpointsProtocol=ftp", InvalidValue("DefaultEndpointsProtocol")),
            ("UseDevelopmentStorage=false", InvalidValue("UseDevelopmentStorage")),
            (
                "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=azurite",
                InvalidValue("DevelopmentStorageProxyUri"),
            ),
        ] {
            assert_eq!(ConnectionString::parse(text), Err(expected), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_not(text in "((AccountName|AccountKey|BlobEndpoint|[A-Za-z]{0,4})=?[a-z:/=]{0,8};?){0,6}") {
            let _ = ConnectionString::parse(&text);
        }
    }
}
