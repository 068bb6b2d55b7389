//! A small blocking HTTP/1.1 client that sends exactly the bytes it is given and shows exactly what
//! comes back.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(40);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The status of the answer that came before, such as 100.
    pub(crate) interim: Option<u16>,
    /// The server ended the connection with this answer.
    pub(crate) closed: bool,
}

impl Response {
    /// The values of a header, joined as HTTP joins them. Names of metadata have a case, which is shown if it is
    /// another one.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let values: Vec<String> = self
            .headers
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(key, value)| match name.strip_prefix("x-ms-meta-") {
                Some(named) if !key.ends_with(named) => format!("{value} (of {key})"),
                _ => value.clone(),
            })
            .collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

/// A request as it goes on the wire.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outgoing {
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
    /// Send the body only after an interim 100.
    pub(crate) waits: bool,
    pub(crate) is_head: bool,
}

/// One connection at a time to one server, opened again when the server has ended it.
#[derive(Debug)]
pub(crate) struct Client {
    authority: String,
    connection: Option<Connection>,
}

impl Client {
    pub(crate) fn new(authority: &str) -> Self {
        Self { authority: authority.to_owned(), connection: None }
    }

    /// Sends all requests at once and reads their answers in order.
    pub(crate) fn exchange(&mut self, requests: &[Outgoing]) -> Result<Vec<Response>, String> {
        let kept = self.connection.is_some();
        match self.attempt(requests) {
            // A kept connection may have been ended by the server since.
            Err(Broken { untouched: true, .. }) if kept => {
                self.connection = None;
                self.attempt(requests).map_err(|broken| broken.message)
            }
            outcome => outcome.map_err(|broken| broken.message),
        }
    }

    fn attempt(&mut self, requests: &[Outgoing]) -> Result<Vec<Response>, Broken> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&self.authority)?,
        };
        let mut responses = Vec::new();
        if let [request] = requests
            && request.waits
        {
            responses.push(connection.send_after_continue(request)?);
        } else {
            let bytes: Vec<u8> =
                requests.iter().flat_map(|request| [&request.head[..], &request.body[..]].concat()).collect();
            // The server may refuse and stop reading: what it says still counts.
            let sent = connection.stream.write_all(&bytes);
            for request in requests {
                match connection.read_response(request.is_head, None) {
                    Ok(response) => responses.push(response),
                    Err(broken) => return Err(sent.err().map_or(broken, Broken::from)),
                }
            }
        }
        let closed = responses.last().is_some_and(|response| response.closed);
        if !connection.buffer.is_empty() {
            let extra = String::from_utf8_lossy(&connection.buffer).into_owned();
            return Err(Broken { message: format!("bytes after the answer: {extra:?}"), untouched: false });
        }
        self.connection = (!closed).then_some(connection);
        Ok(responses)
    }
}

struct Broken {
    message: String,
    /// Nothing of an answer had come.
    untouched: bool,
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        Self { message: format!("connection failed: {error}"), untouched: true }
    }
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(authority: &str) -> Result<Self, Broken> {
        let address = authority.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| std::io::Error::other(format!("no address: {authority}")))?;
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    fn send_after_continue(&mut self, request: &Outgoing) -> Result<Response, Broken> {
        self.stream.write_all(&request.head)?;
        let first = self.read_head()?;
        if first.status != 100 {
            return self.read_body(first, request.is_head);
        }
        self.stream.write_all(&request.body)?;
        self.read_response(request.is_head, Some(100))
    }

    fn read_response(&mut self, is_head: bool, interim: Option<u16>) -> Result<Response, Broken> {
        let mut response = self.read_head()?;
        response.interim = interim;
        while (100..200).contains(&response.status) {
            let interim = Some(response.status);
            response = self.read_head()?;
            response.interim = interim;
        }
        self.read_body(response, is_head)
    }

    fn read_head(&mut self) -> Result<Response, Broken> {
        let end = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            if !self.fill()? {
                let untouched = self.buffer.is_empty();
                let message = if untouched { "closed without an answer" } else { "closed within the head" };
                return Err(Broken { message: message.to_owned(), untouched });
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        self.buffer.drain(..end + 4);
        parse_head(&head).ok_or(Broken { message: format!("not an HTTP answer: {head:?}"), untouched: false })
    }

    fn read_body(&mut self, mut response: Response, is_head: bool) -> Result<Response, Broken> {
        let cut = |message: &str| Broken { message: message.to_owned(), untouched: false };
        let chunked = response.header("Transfer-Encoding").is_some_and(|value| value.contains("chunked"));
        let length = response.header("Content-Length").and_then(|value| value.trim().parse::<usize>().ok());
        if is_head || response.status == 204 || response.status == 304 {
            // These have no body, whatever their headers say.
        } else if chunked {
            loop {
                let size = self.line()?;
                let size = usize::from_str_radix(size.split(';').next().unwrap_or("").trim(), 16);
                let size = size.map_err(|_| cut("not a chunk size"))?;
                response.body.extend(self.take(size)?);
                if !self.take(2)?.eq(b"\r\n") {
                    return Err(cut("a chunk does not end with a line end"));
                }
                if size == 0 {
                    break;
                }
            }
        } else if let Some(length) = length {
            response.body = self.take(length)?;
        } else {
            while self.fill()? {}
            response.body = std::mem::take(&mut self.buffer);
            response.closed = true;
        }
        response.closed |=
            response.header("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        Ok(response)
    }

    fn line(&mut self) -> Result<String, Broken> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).take(end).collect();
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            if !self.fill()? {
                return Err(Broken { message: "closed within a chunked body".to_owned(), untouched: false });
            }
        }
    }

    fn take(&mut self, count: usize) -> Result<Vec<u8>, Broken> {
        while self.buffer.len() < count {
            if !self.fill()? {
                return Err(Broken { message: "closed within the body".to_owned(), untouched: false });
            }
        }
        Ok(self.buffer.drain(..count).collect())
    }

    /// Reads some more; false when the server has closed.
    fn fill(&mut self) -> Result<bool, Broken> {
        let mut piece = [0; 65536];
        match self.stream.read(&mut piece) {
            Ok(count) => {
                self.buffer.extend_from_slice(&piece[..count]);
                Ok(count > 0)
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn parse_head(head: &str) -> Option<Response> {
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.splitn(3, ' ');
    if !first.next()?.starts_with("HTTP/1.") {
        return None;
    }
    let status = first.next()?.parse().ok()?;
    let reason = first.next().unwrap_or("").to_owned();
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Some(Response { status, reason, headers, ..Response::default() })
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn answer(bytes: &'static [u8], is_head: bool) -> Result<Response, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 100];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(bytes).unwrap();
        });
        let request = Outgoing { head: b"GET / HTTP/1.1\r\n\r\n".to_vec(), is_head, ..Outgoing::default() };
        let outcome = Client::new(&authority).exchange(&[request]);
        server.join().unwrap();
        outcome.map(|mut responses| responses.remove(0))
    }

    #[test]
    fn reads_every_kind_of_body() {
        let chunked =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n";
        assert_eq!(answer(chunked, false).unwrap().body, b"abcde");
        let counted = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\nX: y\r\n\r\nabc";
        let response = answer(counted, false).unwrap();
        assert_eq!((response.status, response.reason.as_str()), (404, "Not Found"));
        assert_eq!(response.header("x").as_deref(), Some("y"));
        let open = answer(b"HTTP/1.1 200 OK\r\n\r\nrest", false).unwrap();
        assert_eq!((open.body.as_slice(), open.closed), (&b"rest"[..], true));
        let interim = answer(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", false).unwrap();
        assert_eq!((interim.status, interim.interim), (204, Some(100)));
        assert!(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true).unwrap().body.is_empty());
    }

    #[test]
    fn says_what_went_wrong() {
        assert!(answer(b"", false).unwrap_err().contains("closed without an answer"));
        assert!(
            answer(b"HTTP/1.1 204 No Content\r\n\r\nbody", false).unwrap_err().contains("after the answer")
        );
        assert!(answer(b"SSH-2.0\r\n\r\n", false).unwrap_err().contains("not an HTTP answer"));
    }
}
