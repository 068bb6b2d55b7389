//! HTTP/1.1 over one connection, with nothing between the test and the bytes.

use super::SAS;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// A test that waits longer than this for an answer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that is kept for the next request.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::with_capacity(64 * 1024, stream) })
    }

    /// Sends a request of the development account, with its signature, and reads the answer.
    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Reply> {
        let join = if path.contains('?') { '&' } else { '?' };
        self.unsigned(method, &format!("/devstoreaccount1{path}{join}{SAS}"), headers, body)
    }

    /// Sends a request for exactly this target and reads the answer.
    pub(crate) fn unsigned(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Reply> {
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || method == "POST" {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text += "\r\n";
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(body);
        self.send(&bytes)?;
        match method {
            "HEAD" => self.head(),
            _ => self.reply(),
        }
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Reads one answer; one that only says "go on" is an answer too.
    pub(crate) fn reply(&mut self) -> io::Result<Reply> {
        let mut reply = self.head()?;
        if let Some(length) = reply.header("content-length") {
            let length = length.parse().map_err(|_| wrong("length", length))?;
            reply.body.resize(length, 0);
            self.stream.read_exact(&mut reply.body)?;
        } else if reply.header("transfer-encoding").is_some() {
            return Err(wrong("framing", "no answer of this server is chunked"));
        }
        Ok(reply)
    }

    /// Reads an answer up to its body.
    pub(crate) fn head(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        let status =
            status.and_then(|status| status.parse().ok()).ok_or_else(|| wrong("status line", &line))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| wrong("header", &line))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Reply { status, headers, body: Vec::new() })
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.stream.get_mut().shutdown(Shutdown::Write)
    }

    /// All that comes until the server closes the connection, in whatever way.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.rest_within(PATIENCE).unwrap_or_else(|| panic!("still open after {PATIENCE:?}"))
    }

    /// The same, if it is closed before nothing has come for so long.
    pub(crate) fn rest_within(&mut self, patience: Duration) -> Option<Vec<u8>> {
        self.stream.get_mut().set_read_timeout(Some(patience)).unwrap();
        let mut all = Vec::new();
        let mut piece = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return Some(all),
                Ok(size) => all.extend_from_slice(&piece[..size]),
                Err(error) if is_timeout(&error) => return None,
                Err(_) => return Some(all),
            }
        }
    }

    /// Sends something, which may be too late, and takes all that still comes.
    pub(crate) fn rest_after(&mut self, bytes: &[u8], patience: Duration) -> Vec<u8> {
        let _ = self.send(bytes);
        self.rest_within(patience).unwrap_or_else(|| panic!("still open after {patience:?}"))
    }

    /// Waits for the first bytes of an answer; at most so many.
    pub(crate) fn some(&mut self, most: usize) -> Vec<u8> {
        let mut piece = vec![0; most];
        let size = self.stream.read(&mut piece).unwrap();
        piece.truncate(size);
        piece
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        String::from_utf8(line).map_err(|_| wrong("line", "not UTF-8"))
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The ETag of what was written or read.
    pub(crate) fn etag(&self) -> String {
        self.header("etag").unwrap_or_else(|| panic!("no ETag: {self:?}")).to_owned()
    }

    /// The code of an error, wherever the answer has it: in JSON, or in XML.
    pub(crate) fn code(&self) -> String {
        let text = self.text();
        if let Ok(json) = serde_json::from_slice::<serde_json::Value>(&self.body) {
            return json["odata.error"]["code"].as_str().unwrap_or_default().to_owned();
        }
        let code = text.split("code>").nth(1).or_else(|| text.split("<Code>").nth(1));
        code.and_then(|rest| rest.split('<').next()).unwrap_or_default().to_owned()
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn wrong(what: &str, text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("an answer with a wrong {what}: {text}"))
}
