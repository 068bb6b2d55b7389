//! A minimal HTTP/1.1 keep-alive client on a raw socket: one request in flight per connection.
//! It is written to cost as little CPU as possible, because it shares the cores with the server.

use crate::stream::{self, Stream, Tls};
use memchr::memmem;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub struct Conn {
    addr: SocketAddr,
    tls: Option<Tls>,
    s: Option<Stream>,
    r: Vec<u8>,
    decoded: Vec<u8>,
    head_start: usize,
    head_end: usize,
    /// The request head (and a small body) to send.
    pub w: Vec<u8>,
    pub reconnects: u64,
}

#[derive(Clone, Copy)]
enum Loc {
    Raw(usize, usize),
    Decoded,
    Sunk,
}

#[derive(Clone, Copy)]
pub struct Resp {
    pub status: u16,
    pub body_len: usize,
    loc: Loc,
}

pub type Sink<'a> = &'a mut (dyn FnMut(&[u8]) + Send);

fn bad(m: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, m.to_string())
}

impl Conn {
    pub fn new(addr: SocketAddr, tls: Option<Tls>) -> Conn {
        Conn {
            addr,
            tls,
            s: None,
            r: Vec::with_capacity(64 * 1024),
            decoded: Vec::new(),
            head_start: 0,
            head_end: 0,
            w: Vec::with_capacity(8 * 1024),
            reconnects: 0,
        }
    }

    pub async fn connect(&mut self) -> io::Result<()> {
        self.s = Some(stream::connect(self.addr, self.tls.as_ref()).await?);
        Ok(())
    }

    pub fn close(&mut self) {
        self.s = None;
    }

    async fn fill(&mut self) -> io::Result<()> {
        if self.r.capacity() - self.r.len() < 16 * 1024 {
            self.r.reserve(128 * 1024);
        }
        let n = self.s.as_mut().expect("connected before").read_buf(&mut self.r).await?;
        if n == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the server"));
        }
        Ok(())
    }

    /// Sends `w` and then `extra`, and reads one response. With a sink the body is passed on
    /// as it arrives instead of being kept.
    pub async fn exchange(
        &mut self,
        extra: Option<&[u8]>,
        is_head: bool,
        sink: Option<Sink<'_>>,
    ) -> io::Result<Resp> {
        if self.s.is_none() {
            self.connect().await?;
            self.reconnects += 1;
        }
        let r = self.exchange_inner(extra, is_head, sink).await;
        if r.is_err() {
            self.s = None;
        }
        r
    }

    async fn exchange_inner(
        &mut self,
        extra: Option<&[u8]>,
        is_head: bool,
        mut sink: Option<Sink<'_>>,
    ) -> io::Result<Resp> {
        {
            let s = self.s.as_mut().expect("connected before");
            s.write_all(&self.w).await?;
            if let Some(b) = extra {
                s.write_all(b).await?;
            }
            s.flush().await?;
        }
        self.r.clear();
        if self.r.capacity() > 8 << 20 {
            self.r.shrink_to(1 << 20);
        }
        self.decoded.clear();
        self.head_start = 0;
        let mut scan = 0usize;
        let status = loop {
            let end = loop {
                if let Some(k) = memmem::find(&self.r[scan..], b"\r\n\r\n") {
                    break scan + k + 4;
                }
                scan = self.r.len().saturating_sub(3).max(self.head_start);
                if self.r.len() - self.head_start > 64 * 1024 {
                    return Err(bad("response head over 64 KB"));
                }
                self.fill().await?;
            };
            let h = &self.r[self.head_start..];
            if h.len() < 12 || &h[..7] != b"HTTP/1." {
                return Err(bad("not HTTP/1.x"));
            }
            let mut st = 0u16;
            for &c in &h[9..12] {
                if !c.is_ascii_digit() {
                    return Err(bad("bad status line"));
                }
                st = st * 10 + (c - b'0') as u16;
            }
            if st < 200 {
                self.head_start = end;
                scan = end;
                continue;
            }
            self.head_end = end;
            break st;
        };
        let mut clen: Option<usize> = None;
        let mut chunked = false;
        let mut close = false;
        for (n, v) in self.header_iter() {
            match n.len() {
                14 if n.eq_ignore_ascii_case(b"content-length") => {
                    clen = Some(
                        std::str::from_utf8(v)
                            .ok()
                            .and_then(|s| s.parse().ok())
                            .ok_or_else(|| bad("bad content-length"))?,
                    )
                }
                17 if n.eq_ignore_ascii_case(b"transfer-encoding") => {
                    chunked = v.eq_ignore_ascii_case(b"chunked")
                }
                10 if n.eq_ignore_ascii_case(b"connection") => close = v.eq_ignore_ascii_case(b"close"),
                _ => {}
            }
        }
        let no_body = is_head || status == 204 || status == 304;
        let (body_len, loc) = if no_body {
            if self.r.len() != self.head_end {
                return Err(bad("bytes after a response without a body"));
            }
            (0, Loc::Raw(self.head_end, self.head_end))
        } else if chunked {
            let n = self.read_chunked(&mut sink).await?;
            (n, if sink.is_some() { Loc::Sunk } else { Loc::Decoded })
        } else if let Some(n) = clen {
            match sink {
                None => {
                    let want = self.head_end + n;
                    if self.r.capacity() < want {
                        let more = want - self.r.len();
                        self.r.reserve(more);
                    }
                    while self.r.len() < want {
                        self.fill().await?;
                    }
                    if self.r.len() > want {
                        return Err(bad("bytes after the body"));
                    }
                    (n, Loc::Raw(self.head_end, want))
                }
                Some(f) => {
                    let mut left = n;
                    let have = self.r.len() - self.head_end;
                    if have > left {
                        return Err(bad("bytes after the body"));
                    }
                    f(&self.r[self.head_end..]);
                    left -= have;
                    while left > 0 {
                        self.r.truncate(self.head_end);
                        if self.r.capacity() < 256 * 1024 {
                            self.r.reserve(512 * 1024);
                        }
                        self.fill().await?;
                        let got = self.r.len() - self.head_end;
                        if got > left {
                            return Err(bad("bytes after the body"));
                        }
                        f(&self.r[self.head_end..]);
                        left -= got;
                    }
                    (n, Loc::Sunk)
                }
            }
        } else if close {
            // The body ends with the connection.
            loop {
                match self.fill().await {
                    Ok(()) => {}
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => break,
                    Err(e) => return Err(e),
                }
            }
            if let Some(f) = sink {
                f(&self.r[self.head_end..]);
            }
            (self.r.len() - self.head_end, Loc::Raw(self.head_end, self.r.len()))
        } else {
            return Err(bad("no content-length and not chunked"));
        };
        if close {
            self.s = None;
        }
        Ok(Resp { status, body_len, loc })
    }

    async fn read_chunked(&mut self, sink: &mut Option<Sink<'_>>) -> io::Result<usize> {
        let mut pos = self.head_end;
        let mut total = 0usize;
        loop {
            let eol = loop {
                if let Some(k) = memmem::find(&self.r[pos..], b"\r\n") {
                    break pos + k;
                }
                self.fill().await?;
            };
            let mut size = 0usize;
            let mut digits = 0;
            for &c in &self.r[pos..eol] {
                match (c as char).to_digit(16) {
                    Some(d) => {
                        size = (size << 4) | d as usize;
                        digits += 1;
                    }
                    None => break,
                }
            }
            if digits == 0 || digits > 8 {
                return Err(bad("bad chunk size"));
            }
            pos = eol + 2;
            if size == 0 {
                loop {
                    let eol = loop {
                        if let Some(k) = memmem::find(&self.r[pos..], b"\r\n") {
                            break pos + k;
                        }
                        self.fill().await?;
                    };
                    let empty = eol == pos;
                    pos = eol + 2;
                    if empty {
                        if pos != self.r.len() {
                            return Err(bad("bytes after the last chunk"));
                        }
                        return Ok(total);
                    }
                }
            }
            let mut left = size;
            while left > 0 {
                if pos == self.r.len() {
                    self.r.truncate(self.head_end);
                    pos = self.head_end;
                    self.fill().await?;
                }
                let take = left.min(self.r.len() - pos);
                match sink {
                    Some(f) => f(&self.r[pos..pos + take]),
                    None => self.decoded.extend_from_slice(&self.r[pos..pos + take]),
                }
                pos += take;
                left -= take;
            }
            total += size;
            while self.r.len() - pos < 2 {
                self.fill().await?;
            }
            if &self.r[pos..pos + 2] != b"\r\n" {
                return Err(bad("chunk without its CRLF"));
            }
            pos += 2;
        }
    }

    pub fn body(&self, r: &Resp) -> &[u8] {
        match r.loc {
            Loc::Raw(a, b) => &self.r[a..b],
            Loc::Decoded => &self.decoded,
            Loc::Sunk => &[],
        }
    }

    /// Do the bytes of the last response contain this?
    pub fn last_contains(&self, what: &[u8]) -> bool {
        memmem::find(&self.decoded, what).is_some() || memmem::find(&self.r[self.head_end..], what).is_some()
    }

    fn header_iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let head = &self.r[self.head_start..self.head_end];
        let first = memmem::find(head, b"\r\n").map(|k| k + 2).unwrap_or(head.len());
        let mut rest = &head[first..];
        std::iter::from_fn(move || {
            let k = memchr::memchr(b'\r', rest)?;
            if k == 0 {
                return None;
            }
            let line = &rest[..k];
            rest = &rest[(k + 2).min(rest.len())..];
            let c = memchr::memchr(b':', line).unwrap_or(line.len());
            let v = if c < line.len() { &line[c + 1..] } else { &line[..0] };
            Some((&line[..c], v.trim_ascii()))
        })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.header_iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()))
            .and_then(|(_, v)| std::str::from_utf8(v).ok())
    }
}
