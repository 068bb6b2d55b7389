//! The status of a request: one word, as analytics logs and metrics have it.

use crate::pipeline::{Caller, FinishedExchange, MAX_TIME};
use hyper::header::AUTHORIZATION;
use hyper::http::request;
use std::fmt;
use tepui_model::ErrorCode;
use tepui_wire::query::Query;

/// The status of a request: how it ended, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RequestStatus {
    pub(crate) kind: StatusKind,
    pub(crate) requester: Requester,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StatusKind {
    Success,
    ThrottlingError,
    /// The client had asked for less time than the service allows.
    ClientTimeoutError,
    ServerTimeoutError,
    ClientOtherError,
    ServerOtherError,
    AuthorizationError,
    /// The client had gone before all of the answer was sent.
    NetworkError,
}

/// How a request was authorized, or was meant to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Requester {
    Key,
    Sas,
    Anonymous,
    Bearer,
}

impl RequestStatus {
    pub(crate) fn of(exchange: &FinishedExchange) -> Self {
        Self { kind: StatusKind::of(exchange), requester: Requester::of(exchange) }
    }

    pub(crate) fn is_billable(self) -> bool {
        use StatusKind::*;
        match self.kind {
            Success | ClientTimeoutError | ClientOtherError | NetworkError => true,
            AuthorizationError => self.requester != Requester::Anonymous,
            ThrottlingError | ServerTimeoutError | ServerOtherError => false,
        }
    }

    /// Whether it counts where availability is computed.
    pub(crate) fn counts_in_availability(self) -> bool {
        match self.kind {
            StatusKind::ThrottlingError => false,
            StatusKind::AuthorizationError => self.requester != Requester::Anonymous,
            _ => true,
        }
    }

    /// The word in logs: that of [`fmt::Display`], or an error code that says more.
    pub(crate) fn log_word(self, exchange: &FinishedExchange) -> LogWord {
        let says_more = self.kind == StatusKind::ClientOtherError
            && exchange.version.is_some_and(|v| v.logs_error_codes());
        match exchange.error_code {
            Some(code) if says_more => LogWord::Code(code),
            _ => LogWord::Status(self),
        }
    }
}

/// As in logs, where tokens have a prefix of their own.
impl fmt::Display for RequestStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.requester {
            Requester::Key => "",
            Requester::Sas => "SAS",
            Requester::Anonymous => "Anonymous",
            Requester::Bearer => "OAuth",
        };
        write!(f, "{prefix}{}", self.kind.name())
    }
}

/// What a log has in the field of the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogWord {
    Status(RequestStatus),
    Code(&'static str),
}

impl fmt::Display for LogWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => status.fmt(f),
            Self::Code(code) => f.write_str(code),
        }
    }
}

impl StatusKind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Success,
        Self::ThrottlingError,
        Self::ClientTimeoutError,
        Self::ServerTimeoutError,
        Self::ClientOtherError,
        Self::ServerOtherError,
        Self::AuthorizationError,
        Self::NetworkError,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::ThrottlingError => "ThrottlingError",
            Self::ClientTimeoutError => "ClientTimeoutError",
            Self::ServerTimeoutError => "ServerTimeoutError",
            Self::ClientOtherError => "ClientOtherError",
            Self::ServerOtherError => "ServerOtherError",
            Self::AuthorizationError => "AuthorizationError",
            Self::NetworkError => "NetworkError",
        }
    }

    fn of(exchange: &FinishedExchange) -> Self {
        let Some(status) = exchange.status.filter(|_| !exchange.broke_off) else { return Self::NetworkError };
        let timed_out = exchange.error_code == Some(ErrorCode::OperationTimedOut.name());
        match status {
            503 => Self::ThrottlingError,
            500 if timed_out && asks_for_less_time(&exchange.request) => Self::ClientTimeoutError,
            500 if timed_out => Self::ServerTimeoutError,
            500.. => Self::ServerOtherError,
            _ if is_cut_off(exchange) => Self::NetworkError,
            401 | 403 => Self::AuthorizationError,
            300.. => Self::ClientOtherError,
            _ => Self::Success,
        }
    }
}

/// Whether only a part of the answer was sent.
fn is_cut_off(exchange: &FinishedExchange) -> bool {
    exchange.answer.as_ref().is_some_and(|answer| exchange.bytes_out < answer.body_bytes)
}

fn asks_for_less_time(request: &request::Parts) -> bool {
    let query = Query::parse(request.uri.query());
    let seconds = query.get_ignore_case("timeout").and_then(|text| text.parse::<u64>().ok());
    seconds.is_some_and(|seconds| seconds < MAX_TIME.as_secs())
}

impl Requester {
    fn of(exchange: &FinishedExchange) -> Self {
        match exchange.caller {
            Some(Caller::AccountKey) => Self::Key,
            Some(Caller::Sas) => Self::Sas,
            Some(Caller::Token) => Self::Bearer,
            Some(Caller::Anonymous) => Self::Anonymous,
            None => Self::claimed(&exchange.request),
        }
    }

    /// What the credentials say that were refused, or not looked at.
    fn claimed(request: &request::Parts) -> Self {
        if let Some(value) = request.headers.get(AUTHORIZATION) {
            let is_bearer =
                value.as_bytes().get(..7).is_some_and(|text| text.eq_ignore_ascii_case(b"bearer "));
            return if is_bearer { Self::Bearer } else { Self::Key };
        }
        let signed = |query: &str| query.split('&').any(|pair| pair.starts_with("sig="));
        if request.uri.query().is_some_and(signed) { Self::Sas } else { Self::Anonymous }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_wire::version::ServiceVersion;

    /// Status and error code; the query; whether the caller is known; how much of ten bytes was sent.
    fn status(
        answer: Option<(u16, &'static str)>,
        query: &str,
        caller: Option<Caller>,
        sent: u64,
    ) -> (RequestStatus, String) {
        let mut exchange =
            FinishedExchange::example("GET", &format!("/devstoreaccount1/People?{query}"), &[]);
        exchange.status = answer.map(|(status, _)| status);
        exchange.error_code = answer.map(|(_, code)| code).filter(|code| !code.is_empty());
        exchange.caller = caller;
        exchange.bytes_out = sent;
        exchange.version = Some(ServiceVersion::NEWEST);
        let status = RequestStatus::of(&exchange);
        (status, status.log_word(&exchange).to_string())
    }

    #[test]
    fn one_word_for_each_request() {
        let (key, sas, anonymous) = (Some(Caller::AccountKey), Some(Caller::Sas), Some(Caller::Anonymous));
        for (case, answer, query, caller, sent, word, billable, available) in [
            ("done", Some((200, "")), "", key, 10, "Success", true, true),
            ("done by SAS", Some((200, "")), "", sas, 10, "SASSuccess", true, true),
            ("done for anyone", Some((200, "")), "", anonymous, 10, "AnonymousSuccess", true, true),
            ("busy", Some((503, "ServerBusy")), "", key, 10, "ThrottlingError", false, false),
            ("busy, SAS", Some((503, "ServerBusy")), "", sas, 10, "SASThrottlingError", false, false),
            ("too late", Some((500, "OperationTimedOut")), "", key, 10, "ServerTimeoutError", false, true),
            (
                "late as ever",
                Some((500, "OperationTimedOut")),
                "timeout=30",
                key,
                10,
                "ServerTimeoutError",
                false,
                true,
            ),
            (
                "hurried",
                Some((500, "OperationTimedOut")),
                "Timeout=2",
                key,
                10,
                "ClientTimeoutError",
                true,
                true,
            ),
            ("broken", Some((500, "InternalError")), "timeout=2", key, 10, "ServerOtherError", false, true),
            ("not there", Some((501, "NotImplemented")), "", key, 10, "ServerOtherError", false, true),
            ("gone at once", None, "", key, 0, "NetworkError", true, true),
            ("gone half-way", Some((200, "")), "", sas, 4, "SASNetworkError", true, true),
            ("refused", Some((403, "AuthorizationFailure")), "", key, 10, "AuthorizationError", true, true),
            (
                "refused, SAS",
                Some((403, "AuthenticationFailed")),
                "sv=1&sig=x",
                None,
                10,
                "SASAuthorizationError",
                true,
                true,
            ),
            (
                "refused, no one",
                Some((401, "NoAuthenticationInformation")),
                "",
                None,
                10,
                "AnonymousAuthorizationError",
                false,
                false,
            ),
            ("missing", Some((404, "ResourceNotFound")), "", key, 10, "ResourceNotFound", true, true),
            ("not changed", Some((304, "")), "", anonymous, 10, "AnonymousClientOtherError", true, true),
        ] {
            let (status, logged) = status(answer, query, caller, sent);
            let found = (logged.as_str(), status.is_billable(), status.counts_in_availability());
            assert_eq!(found, (word, billable, available), "{case}");
        }
    }

    #[test]
    fn error_codes_are_logged_since_2017() {
        let mut exchange = FinishedExchange::example("GET", "/devstoreaccount1/People", &[]);
        (exchange.status, exchange.error_code) = (Some(404), Some("ResourceNotFound"));
        exchange.caller = Some(Caller::Sas);
        for (version, expected) in [
            ("2016-05-31", "SASClientOtherError"),
            ("2017-04-17", "ResourceNotFound"),
            ("2019-02-02", "ResourceNotFound"),
        ] {
            exchange.version = ServiceVersion::floor(version);
            assert_eq!(RequestStatus::of(&exchange).log_word(&exchange).to_string(), expected, "{version}");
        }
    }

    #[test]
    fn refused_credentials_are_told_apart() {
        for (value, expected) in [
            ("SharedKey a:b", Requester::Key),
            ("SharedKeyLite a:b", Requester::Key),
            ("Bearer x", Requester::Bearer),
            ("bearer x", Requester::Bearer),
        ] {
            let exchange = FinishedExchange::example("GET", "/a/b", &[("authorization", value)]);
            assert_eq!(RequestStatus::of(&exchange).requester, expected, "{value}");
        }
    }
}
