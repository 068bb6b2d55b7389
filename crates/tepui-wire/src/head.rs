//! The head of a request, read once. Services, signatures and replies look at this, not at the HTTP library's parts.

use crate::address::{Service, Target};
use crate::metadata::HeaderCase;
use crate::query::Query;
use crate::version::ServiceVersion;
use http::{HeaderMap, Method};

/// Everything of a request but its body: of one that came alone, or of one inside a batch.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    pub service: Service,
    /// As on the request line, also where another method is tunnelled through POST.
    pub method: &'a Method,
    /// How the request was addressed; for a part of a table batch, how the batch was.
    pub target: &'a Target,
    /// The path after the account, percent-encoded, without a slash in front.
    pub path: &'a str,
    pub query: &'a Query,
    pub headers: &'a HeaderMap,
    /// How the names of metadata headers were spelled, where the connection has kept that.
    pub case: Option<&'a HeaderCase>,
    pub version: ServiceVersion,
}

/// What is done with the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyUse {
    /// There should be none. What is there is not looked at.
    Nothing,
    /// Read whole and decoded. If it is `required`, the request must say how long it is.
    Whole { max_bytes: usize, required: bool },
    /// Not decoded: the operation says how many bytes there are and what their checksums should be.
    Streamed,
}

/// Heads for tests, written as text.
#[cfg(test)]
pub(crate) mod sent {
    use super::*;
    use http::{HeaderName, HeaderValue};

    /// What a head borrows from.
    pub(crate) struct Sent {
        method: Method,
        pub(crate) target: Target,
        query: Query,
        pub(crate) headers: HeaderMap,
    }

    impl Sent {
        /// `METHOD /path?query`, the path after the account `a`, then a line `name: value` for each header.
        pub(crate) fn parse(text: &str) -> Self {
            let mut lines = text.lines().map(str::trim);
            let (method, target) = lines.next().unwrap().split_once(' ').unwrap();
            let (path, query) =
                target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
            let mut headers = HeaderMap::new();
            for line in lines {
                let (name, value) = line.split_once(':').unwrap();
                let value = HeaderValue::from_bytes(value.trim().as_bytes()).unwrap();
                headers.append(HeaderName::try_from(name).unwrap(), value);
            }
            let target = Target {
                account: "a".to_owned(),
                secondary: false,
                base: "http://127.0.0.1:10000/a".to_owned(),
                raw_path: format!("/a{path}"),
                path: path[1..].to_owned(),
                host_style: false,
            };
            Self { method: method.parse().unwrap(), target, query: Query::parse(query), headers }
        }

        pub(crate) fn head(&self, service: Service, version: &str) -> Head<'_> {
            let Self { method, target, query, headers } = self;
            let version = ServiceVersion::parse(version).unwrap();
            Head { service, method, target, path: &target.path, query, headers, case: None, version }
        }
    }
}
