//! A client that counts the bytes it sends and receives, and signs requests on its own.

use crate::support::SAS;
use crate::support::blob::BLOB_SAS;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
pub(crate) const VERSION: &str = "2021-12-02";

/// How a request says who sends it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Auth {
    Key,
    /// With a signature that is not right.
    WrongKey,
    Sas,
    Nobody,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Service {
    Blob,
    Queue,
    Table,
}

/// A request, as it is written down in the script.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) service: Service,
    pub(crate) auth: Auth,
    pub(crate) method: &'static str,
    /// After the account, with the query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

/// What a request and its answer were on the wire.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) client: SocketAddr,
    /// As it was sent, with its signature.
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) sent_head: usize,
    pub(crate) sent_body: usize,
    pub(crate) received_head: usize,
    pub(crate) body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl Traffic {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Request {
    /// The whole request, and its URL.
    pub(crate) fn encode(&self, host: &str) -> (Vec<u8>, Vec<u8>, String) {
        let target = match (self.auth, self.service, self.path.contains('?')) {
            (Auth::Sas, Service::Blob, has_query) => format!("{}{}{BLOB_SAS}", self.path, join(has_query)),
            (Auth::Sas, _, has_query) => format!("{}{}{SAS}", self.path, join(has_query)),
            _ => self.path.clone(),
        };
        let mut headers = self.headers.clone();
        if self.auth != Auth::Nobody {
            headers.push(("x-ms-version", VERSION.to_owned()));
        }
        if matches!(self.auth, Auth::Key | Auth::WrongKey) {
            headers.push(("x-ms-date", http_date()));
            let signature = match self.auth {
                Auth::Key => self.signature(&headers),
                _ => BASE64_STANDARD.encode([7; 32]),
            };
            headers.push(("Authorization", format!("SharedKeyLite {ACCOUNT}:{signature}")));
        }
        if !self.body.is_empty() || matches!(self.method, "PUT" | "POST") {
            headers.push(("Content-Length", self.body.len().to_string()));
        }
        let mut head =
            format!("{} /{ACCOUNT}{target} HTTP/1.1\r\nHost: {host}\r\n", self.method).into_bytes();
        for (name, value) in headers {
            head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        (head, self.body.clone(), format!("http://{host}/{ACCOUNT}{target}"))
    }

    fn signature(&self, headers: &[(&str, String)]) -> String {
        let value = |wanted: &str| {
            let found = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map_or("", |(_, value)| value.as_str())
        };
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let comp = query.split('&').find(|pair| pair.starts_with("comp="));
        let resource =
            format!("/{ACCOUNT}/{ACCOUNT}{path}{}{}", comp.map_or("", |_| "?"), comp.unwrap_or_default());
        let text = match self.service {
            Service::Table => format!("{}\n{resource}", value("x-ms-date")),
            Service::Blob | Service::Queue => {
                let mut signed: Vec<_> =
                    headers.iter().filter(|(name, _)| name.starts_with("x-ms-")).collect();
                signed.sort();
                let signed: String = signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
                let (md5, content_type) = (value("content-md5"), value("content-type"));
                format!("{}\n{md5}\n{content_type}\n\n{signed}{resource}", self.method)
            }
        };
        let mut mac = Hmac::<Sha256>::new_from_slice(&BASE64_STANDARD.decode(KEY).unwrap()).unwrap();
        mac.update(text.as_bytes());
        BASE64_STANDARD.encode(mac.finalize().into_bytes())
    }

    /// Sends it on a connection of its own, and reads the answer.
    pub(crate) fn send(&self, port: u16) -> Traffic {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let (head, body, url) = self.encode(&format!("127.0.0.1:{port}"));
        stream.write_all(&[head.as_slice(), &body].concat()).unwrap();
        let mut received = Vec::new();
        let end = loop {
            let mut piece = [0; 4096];
            let size = stream.read(&mut piece).unwrap();
            assert!(size > 0, "no answer to {self:?}");
            received.extend_from_slice(&piece[..size]);
            if let Some(at) = received.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let text = String::from_utf8(received[..end].to_vec()).unwrap();
        let headers: Vec<_> = text
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut traffic = Traffic {
            client: stream.local_addr().unwrap(),
            url,
            status: text[9..12].parse().unwrap(),
            sent_head: head.len(),
            sent_body: body.len(),
            received_head: end,
            body: received.split_off(end),
            headers,
        };
        let bodiless = self.method == "HEAD" || matches!(traffic.status, 204 | 304);
        let length = if bodiless { 0 } else { traffic.header("content-length").parse().unwrap() };
        let begun = traffic.body.len();
        traffic.body.resize(length, 0);
        stream.read_exact(&mut traffic.body[begun..]).unwrap();
        traffic
    }
}

fn join(has_query: bool) -> char {
    if has_query { '&' } else { '?' }
}

fn http_date() -> String {
    use tepui_model::Clock;
    tepui_model::time::SystemClock::new().now().to_http()
}
