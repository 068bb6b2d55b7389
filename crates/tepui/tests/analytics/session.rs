//! A scripted session with all three services, and what their logs have to say about it.

use crate::client::{ACCOUNT, Auth, Request, Service, Traffic, VERSION};
use crate::logs::Logs;
use crate::reader::Record;
use crate::support::{Server, wait_until};
use std::time::{Duration, Instant};
use tepui_model::time::SystemClock;
use tepui_model::{Clock, Timestamp};

/// What was done so far, and what should be logged.
pub(crate) struct Session<'a> {
    pub(crate) server: &'a Server,
    name: &'static str,
    done: Vec<Done>,
    begun: (Timestamp, Instant),
}

struct Done {
    request: Request,
    traffic: Traffic,
    /// `None`: nothing is logged.
    expected: Option<Expected>,
}

struct Expected {
    operation: &'static str,
    status: &'static str,
    /// After the account.
    key: &'static str,
}

/// A request by the owner, with nothing but a method and a path.
pub(crate) fn request(service: Service, method: &'static str, path: &str) -> Request {
    Request { service, auth: Auth::Key, method, path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
}

impl Request {
    pub(crate) fn by(self, auth: Auth) -> Self {
        Self { auth, ..self }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn body(self, body: &str) -> Self {
        Self { body: body.as_bytes().to_vec(), ..self }
    }
}

impl<'a> Session<'a> {
    pub(crate) fn new(server: &'a Server, name: &'static str) -> Self {
        let begun = (SystemClock::new().now(), Instant::now());
        Self { server, name, done: Vec::new(), begun }
    }

    /// Sends a request that is answered with `status`, and is logged as said.
    pub(crate) fn logged(
        &mut self,
        request: Request,
        http_status: u16,
        operation: &'static str,
        status: &'static str,
        key: &'static str,
    ) -> &Traffic {
        self.send(request, http_status, Some(Expected { operation, status, key }))
    }

    /// Sends one that is not logged.
    pub(crate) fn not_logged(&mut self, request: Request, http_status: u16) -> &Traffic {
        self.send(request, http_status, None)
    }

    fn send(&mut self, request: Request, http_status: u16, expected: Option<Expected>) -> &Traffic {
        let request = request.with("x-ms-client-request-id", &self.client_id(self.done.len()));
        let traffic = request.send(port(self.server, request.service));
        assert_eq!(traffic.status, http_status, "{request:?}: {}", traffic.text());
        self.done.push(Done { request, traffic, expected });
        &self.done[self.done.len() - 1].traffic
    }

    fn client_id(&self, at: usize) -> String {
        format!("{}-{at}", self.name)
    }

    fn lines_of<'r>(&self, logs: &'r Logs, at: usize) -> Vec<&'r Record> {
        let id = self.client_id(at);
        logs.records.iter().filter(|record| record.get("client-request-id") == id).collect()
    }

    /// Waits for the lines of all requests, and compares them.
    pub(crate) fn check(&self, version: fn(Service) -> &'static str) -> Logs {
        let ended = self.begun.1.elapsed();
        let expected = |at: &usize| self.done[*at].expected.is_some();
        let mut logs = Logs::default();
        wait_until("all requests are logged", || {
            logs = Logs::read(self.server);
            (0..self.done.len()).filter(expected).all(|at| !self.lines_of(&logs, at).is_empty())
        });
        for (at, done) in self.done.iter().enumerate() {
            let lines = self.lines_of(&logs, at);
            let Some(expected) = &done.expected else {
                assert!(lines.is_empty(), "logged: {:?}", done.request);
                continue;
            };
            let names: Vec<_> = lines.iter().map(|line| line.get("operation-type")).collect();
            match expected.operation {
                "CopyBlob" => assert_eq!(names, ["CopyBlob", "CopyBlobSource", "CopyBlobDestination"]),
                operation => assert_eq!(names, [operation], "{:?}", done.request),
            }
            for (count, line) in lines.iter().enumerate() {
                assert_eq!(line.get("version-number"), version(done.request.service));
                self.compare(done, expected, line, count, ended);
            }
        }
        logs
    }

    fn compare(&self, done: &Done, expected: &Expected, line: &Record, count: usize, took: Duration) {
        let Done { request, traffic, .. } = done;
        let header = |wanted: &str| {
            let found = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map_or("", |(_, value)| value)
        };
        let (authentication, requester) = match request.auth {
            Auth::Key | Auth::WrongKey => ("authenticated", ACCOUNT),
            Auth::Sas => ("sas", ""),
            Auth::Nobody => ("anonymous", ""),
        };
        let is_source = count == 1;
        let source = redacted(header("x-ms-copy-source"));
        let key = if is_source { source } else { format!("/{ACCOUNT}{}", expected.key) };
        let (status, count) = (traffic.status.to_string(), count.to_string());
        let sizes = [traffic.sent_head, traffic.sent_body, traffic.received_head, traffic.body.len()];
        let [sent_head, sent_body, received_head, received_body] = sizes.map(|size| size.to_string());
        let conditions: Vec<String> = ["If-Match", "If-None-Match"]
            .iter()
            .filter(|name| !header(name).is_empty())
            .map(|name| format!("{name}={}", header(name)))
            .collect();
        for (field, expected) in [
            ("request-status", expected.status),
            ("http-status-code", &status),
            ("authentication-type", authentication),
            ("requester-account-name", requester),
            ("owner-account-name", ACCOUNT),
            ("service-type", service_name(request.service)),
            ("request-url", &redacted(&traffic.url)),
            ("requested-object-key", &key),
            ("request-id-header", traffic.header("x-ms-request-id")),
            ("operation-count", &count),
            ("requester-ip-address", &traffic.client.to_string()),
            ("request-header-size", &sent_head),
            ("request-packet-size", &sent_body),
            ("response-header-size", &received_head),
            ("response-packet-size", &received_body),
            ("request-content-length", &sent_body),
            ("request-md5", header("Content-MD5")),
            ("server-md5", traffic.header("content-md5")),
            ("etag-identifier", if is_source { "" } else { traffic.header("etag") }),
            ("last-modified-time", &long_date(traffic.header("last-modified"))),
            ("conditions-used", &conditions.join(";")),
            ("user-agent-header", header("User-Agent")),
            ("referrer-header", header("Referer")),
        ] {
            assert_eq!(line.get(field), expected, "{field} of {request:?}");
        }
        if request.auth != Auth::Nobody {
            assert_eq!(line.get("request-version-header"), VERSION);
        }
        let start = Timestamp::parse_iso(line.get("request-start-time")).unwrap();
        let since = start.since(self.begun.0);
        assert!(start >= self.begun.0 && since <= took, "{since:?} of {took:?}: {request:?}");
        let latency = Duration::from_millis(line.number("end-to-end-latency-in-ms"));
        // It ends for the server a little after the client has all of the answer.
        assert!(since + latency <= took + Duration::from_secs(1), "{latency:?}: {request:?}");
    }
}

pub(crate) fn port(server: &Server, service: Service) -> u16 {
    match service {
        Service::Blob => server.blob_port,
        Service::Queue => server.queue_port,
        Service::Table => server.port,
    }
}

pub(crate) fn service_name(service: Service) -> &'static str {
    match service {
        Service::Blob => "blob",
        Service::Queue => "queue",
        Service::Table => "table",
    }
}

/// The signature is the last parameter of all tokens here.
fn redacted(url: &str) -> String {
    match url.split_once("sig=") {
        Some((before, _)) => format!("{before}sig=XXXXX"),
        None => url.to_owned(),
    }
}

/// `Tue, 10 Mar 2026 08:15:30 GMT` as `Tuesday, 10-Mar-26 08:15:30 GMT`.
fn long_date(date: &str) -> String {
    let parts: Vec<&str> = date.split([',', ' ']).filter(|part| !part.is_empty()).collect();
    let [weekday, day, month, year, time, zone] = parts[..] else { return String::new() };
    let weekday = match weekday {
        "Tue" => "Tuesday".to_owned(),
        "Wed" => "Wednesday".to_owned(),
        "Thu" => "Thursday".to_owned(),
        "Sat" => "Saturday".to_owned(),
        other => format!("{other}day"),
    };
    format!("{weekday}, {day}-{month}-{} {time} {zone}", &year[2..])
}
