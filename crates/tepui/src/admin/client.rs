//! Calls to the admin API of a running server.

use super::stream::{Stream, trust};
use crate::serve::Failure;
use crate::{FAILED, USAGE, ready};
use clap::Args;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::ClientConfig;

/// Where the server is. What is not given is taken from the ports file, and then from the defaults.
#[derive(Args)]
pub(crate) struct ServerOptions {
    /// Find port and token in this file, which the server wrote (tepui serve --ports-file)
    #[arg(long, value_name = "FILE", env = "TEPUI_PORTS_FILE", global = true)]
    ports_file: Option<PathBuf>,

    /// The address of the admin port; https://HOST speaks TLS [default: 127.0.0.1]
    #[arg(long, value_name = "HOST", env = "TEPUI_ADMIN_HOST", global = true)]
    host: Option<String>,

    /// The admin port [default: 10003]
    #[arg(long, value_name = "PORT", env = "TEPUI_ADMIN_PORT", global = true)]
    port: Option<u16>,

    /// The token of the server. Everyone on the machine can see the arguments of a process: better in the environment
    #[arg(long, value_name = "TOKEN", env = "TEPUI_ADMIN_TOKEN", hide_env_values = true, global = true)]
    token: Option<String>,

    /// Speak TLS, and trust the certificate authorities of this PEM file [default: what the ports file says; for https://HOST those of the system]
    #[arg(long, value_name = "FILE", env = "TEPUI_CA_FILE", global = true)]
    ca_file: Option<PathBuf>,
}

const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 10003;
/// Long enough for what a server does at once. Streams take as long as they want.
const PATIENCE: Duration = Duration::from_secs(120);
const MAX_LINE_BYTES: u64 = 64 << 10;

/// The admin API of one server.
pub(crate) struct AdminClient {
    host: String,
    port: u16,
    token: String,
    /// `None`: the connection is plain.
    trust: Option<Arc<ClientConfig>>,
}

impl AdminClient {
    pub(crate) fn find(options: &ServerOptions) -> Result<Self, Failure> {
        let ports = match &options.ports_file {
            Some(path) => read_ports(path)?,
            None => Value::Null,
        };
        let written = &ports["admin"];
        if options.ports_file.is_some() && written.is_null() && options.port.is_none() {
            return Err(usage(
                "the server of this ports file has no admin port (--admin-port, --test-bench)",
            ));
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let host = options.host.clone().or_else(|| text(&written["host"]));
        let port = options.port.or_else(|| written["port"].as_u64().and_then(|port| port.try_into().ok()));
        let token = options.token.clone().filter(|token| !token.is_empty());
        let Some(token) = token.or_else(|| text(&written["token"])) else {
            return Err(usage(
                "a token is needed: --token, TEPUI_ADMIN_TOKEN, or the ports file of a server that has made one",
            ));
        };
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(usage("the token has a space, or a letter that is not of ASCII"));
        }
        let host = host.unwrap_or_else(|| DEFAULT_HOST.to_owned());
        let (host, is_https) = match host.strip_prefix("https://") {
            Some(name) => (name.trim_end_matches('/').to_owned(), true),
            None => (host, false),
        };
        let of_server = &ports["tls"];
        let ca_file = options.ca_file.clone().or_else(|| text(&of_server["ca"]).map(PathBuf::from));
        let trust = match is_https || ca_file.is_some() || of_server["required"] == true {
            true => Some(trust(ca_file.as_deref()).map_err(|message| usage(&message))?),
            false => None,
        };
        Ok(Self { host, port: port.unwrap_or(DEFAULT_PORT), token, trust })
    }

    /// Makes a call, `path` being below `/admin/v1`; the answer, or null if it is empty.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        self.answer_to(method, path, &body)
    }

    /// Posts something that is not JSON.
    pub(crate) fn upload(&self, path: &str, body: &[u8]) -> Result<Value, Failure> {
        self.answer_to("POST", path, body)
    }

    fn answer_to(&self, method: &str, path: &str, body: &[u8]) -> Result<Value, Failure> {
        let mut text = String::new();
        let answer = self.send(method, path, body).and_then(|mut answer| {
            answer.read_to_string(&mut text)?;
            Ok(answer.status)
        });
        let status = answer.map_err(|error| self.unreachable(&error))?;
        let value: Value = match text.trim() {
            "" => Value::Null,
            text => serde_json::from_str(text)
                .map_err(|_| self.unreachable(&io::Error::other("the answer is not JSON")))?,
        };
        match status {
            200..=299 => Ok(value),
            _ => Err(refused(&value, status)),
        }
    }

    /// Makes a call whose answer does not end; its lines.
    pub(crate) fn lines(&self, path: &str) -> Result<impl Iterator<Item = io::Result<String>>, Failure> {
        let mut answer = self.send("GET", path, b"").map_err(|error| self.unreachable(&error))?;
        if answer.status != 200 {
            let mut text = String::new();
            let _ = answer.read_to_string(&mut text);
            return Err(refused(&serde_json::from_str(&text).unwrap_or(Value::Null), answer.status));
        }
        // Silence is nothing unusual.
        answer.stream.get_ref().socket().set_read_timeout(None).map_err(|error| self.unreachable(&error))?;
        Ok(BufReader::new(answer).lines())
    }

    fn send(&self, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        let addresses = (self.host.as_str(), self.port).to_socket_addrs()?;
        let addresses: Vec<SocketAddr> = addresses.map(ready::reachable).collect();
        let socket = TcpStream::connect(&addresses[..])?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let host = socket.peer_addr()?;
        let mut stream = match &self.trust {
            Some(trust) => Stream::encrypted(socket, &self.host, trust)?,
            None => Stream::Plain(socket),
        };
        let mut request = format!(
            "{method} /admin/v1{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.token,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        stream.write_all(&request)?;
        stream.flush()?;
        Answer::open(stream)
    }

    fn unreachable(&self, error: &io::Error) -> Failure {
        let message = format!("the admin port cannot be reached ({error}): {}:{}", self.host, self.port);
        Failure { message, code: FAILED }
    }
}

fn usage(message: &str) -> Failure {
    Failure { message: message.to_owned(), code: USAGE }
}

fn refused(answer: &Value, status: u16) -> Failure {
    let said = answer["error"]["message"].as_str();
    Failure {
        message: said.map_or_else(|| format!("the server has answered {status}"), str::to_owned),
        code: FAILED,
    }
}

fn read_ports(path: &Path) -> Result<Value, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string())).map_err(|error| {
        Failure { message: format!("cannot read the ports ({error}): {}", path.display()), code: FAILED }
    })
}

/// Text as a part of a path or of a query.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// An answer, its body with or without the chunks of HTTP.
struct Answer {
    status: u16,
    stream: BufReader<Stream>,
    body: Framing,
}

enum Framing {
    /// What is left of it.
    Length(u64),
    /// What is left of the current chunk. `None` after the last one.
    Chunks(Option<u64>),
}

impl Answer {
    fn open(stream: Stream) -> io::Result<Self> {
        let mut answer = Self { status: 0, stream: BufReader::new(stream), body: Framing::Length(0) };
        let status = answer.line()?;
        answer.status = status.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
        loop {
            let line = answer.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                answer.body = Framing::Length(value.trim().parse().map_err(|_| broken())?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                answer.body = Framing::Chunks(Some(0));
            }
        }
        Ok(answer)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        (&mut self.stream).take(MAX_LINE_BYTES).read_line(&mut line)?;
        line.strip_suffix("\r\n").map(str::to_owned).ok_or_else(broken)
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the answer broke off")
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Framing::Chunks(Some(0)) = self.body {
            let length = u64::from_str_radix(&self.line()?, 16).map_err(|_| broken())?;
            self.body = Framing::Chunks((length > 0).then_some(length));
        }
        let (Framing::Length(left) | Framing::Chunks(Some(left))) = &mut self.body else { return Ok(0) };
        let wanted = buffer.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
        let count = self.stream.read(&mut buffer[..wanted])?;
        if count == 0 && wanted > 0 {
            return Err(broken());
        }
        *left -= count as u64;
        if let Framing::Chunks(Some(0)) = self.body {
            // The end of the chunk.
            self.line()?;
        }
        Ok(count)
    }
}
