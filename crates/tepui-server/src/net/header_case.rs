//! The case of metadata names, which hyper does not preserve: metadata keeps its case, other headers need not.
//!
//! [`HeadScanner`] scans the bytes that hyper reads, and [`HeadWriter`] restores the case in the heads that it writes. Only
//! the case of letters comes from here: should the scanner and hyper ever disagree about where a head begins, nothing
//! else is affected.

use std::io::IoSlice;
use tepui_wire::metadata::HeaderCase;

/// Finds the heads among the bytes of requests.
pub(crate) struct HeadScanner {
    place: Place,
    /// The beginning of an incomplete head.
    partial: Vec<u8>,
    max_head_bytes: usize,
    max_headers: usize,
}

/// The state of the scanner.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Head,
    /// Within a body: bytes left.
    Body(u64),
    /// Within the size of a chunk.
    ChunkSize(u64),
    /// In the rest of the line after the size.
    ChunkExtension(u64),
    /// Within a chunk: bytes left, including the line end after it.
    Chunk(u64),
    /// Within a line of the trailers: its length so far.
    Trailer(usize),
    /// Not HTTP. Hyper closes the connection.
    Lost,
}

impl HeadScanner {
    pub(crate) fn new(max_head_bytes: usize, max_headers: usize) -> Self {
        Self { place: Place::Head, partial: Vec::new(), max_head_bytes, max_headers }
    }

    /// Scans the next bytes. Calls `found` with the case of each head that ends in them.
    pub(crate) fn scan(&mut self, mut bytes: &[u8], mut found: impl FnMut(HeaderCase)) {
        while let Some(first) = bytes.first().copied() {
            match self.place {
                Place::Head => {
                    let Some((taken, case, next)) = self.head(bytes) else { return };
                    found(case);
                    self.place = next;
                    bytes = bytes.get(taken..).unwrap_or_default();
                    continue;
                }
                Place::Body(left) => {
                    let (taken, left) = take(bytes, left);
                    self.place = if left == 0 { Place::Head } else { Place::Body(left) };
                    bytes = &bytes[taken..];
                    continue;
                }
                Place::Chunk(left) => {
                    let (taken, left) = take(bytes, left);
                    self.place = if left == 0 { Place::ChunkSize(0) } else { Place::Chunk(left) };
                    bytes = &bytes[taken..];
                    continue;
                }
                Place::ChunkSize(size) | Place::ChunkExtension(size) if first == b'\n' => {
                    self.place =
                        if size == 0 { Place::Trailer(0) } else { Place::Chunk(size.saturating_add(2)) };
                }
                Place::ChunkSize(size) => {
                    self.place = match char::from(first).to_digit(16) {
                        Some(digit) => Place::ChunkSize(size.saturating_mul(16).saturating_add(digit.into())),
                        None => Place::ChunkExtension(size),
                    };
                }
                Place::Trailer(length) => {
                    self.place = match first {
                        b'\n' if length == 0 => Place::Head,
                        b'\n' => Place::Trailer(0),
                        b'\r' => Place::Trailer(length),
                        _ => Place::Trailer(length + 1),
                    };
                }
                Place::ChunkExtension(_) => {}
                Place::Lost => return,
            }
            bytes = &bytes[1..];
        }
    }

    /// Parses a head, if it ends in these bytes: how many of them belong to it, its case, and the next state.
    fn head(&mut self, bytes: &[u8]) -> Option<(usize, HeaderCase, Place)> {
        let before = self.partial.len();
        // Parsed only when it may be complete, and not for each byte of a slow client.
        let kept = before.saturating_sub(3);
        let parsed = if before == 0 {
            ends(bytes).then(|| parse(bytes, self.max_headers))
        } else {
            self.partial.extend_from_slice(bytes);
            ends(&self.partial[kept..]).then(|| parse(&self.partial, self.max_headers))
        };
        match parsed {
            Some(Ok(Some((length, case, next)))) => {
                self.partial = Vec::new();
                return Some((length.saturating_sub(before), case, next));
            }
            Some(Ok(None)) | None if before == 0 => self.partial.extend_from_slice(bytes),
            Some(Ok(None)) | None => {}
            Some(Err(_)) => self.place = Place::Lost,
        }
        if self.place == Place::Lost || self.partial.len() > self.max_head_bytes {
            self.place = Place::Lost;
            self.partial = Vec::new();
        }
        None
    }
}

fn take(bytes: &[u8], left: u64) -> (usize, u64) {
    let taken = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
    (taken, left - taken as u64)
}

/// Whether the bytes contain an empty line.
fn ends(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', bytes).any(|at| {
        let rest = &bytes[at + 1..];
        rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
    })
}

/// A head: its length, the case of its metadata, and the next state. `None` if it is incomplete.
fn parse(bytes: &[u8], max_headers: usize) -> Result<Option<(usize, HeaderCase, Place)>, httparse::Error> {
    let mut headers = vec![httparse::EMPTY_HEADER; max_headers];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = request.parse(bytes)? else { return Ok(None) };
    let mut next = Place::Head;
    for header in request.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") && next == Place::Head {
            let bytes = std::str::from_utf8(header.value).ok().and_then(|text| text.trim().parse().ok());
            next =
                bytes.map_or(Place::Lost, |bytes| if bytes == 0 { Place::Head } else { Place::Body(bytes) });
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            next = Place::ChunkSize(0);
        }
    }
    let case = HeaderCase::sent(request.headers.iter().map(|header| header.name));
    Ok(Some((length, case, next)))
}

/// Restores the case in the head of a reply while it is written. The length does not change.
#[derive(Default)]
pub(crate) struct HeadWriter {
    head: Vec<u8>,
    written: usize,
}

impl HeadWriter {
    /// Begins with the head at the front of the next write.
    pub(crate) fn begin(&mut self, bytes: &[u8], case: &HeaderCase) {
        let Some(end) = head_end(bytes) else { return };
        let mut head = bytes[..end].to_vec();
        for name in case.names() {
            let lines = memchr::memchr_iter(b'\n', bytes).map(|at| at + 1);
            for at in lines.take_while(|at| *at < end) {
                let Some(found) = head.get_mut(at..at + name.len() + 1) else { continue };
                if found.ends_with(b":") && found[..name.len()].eq_ignore_ascii_case(name.as_bytes()) {
                    found[..name.len()].copy_from_slice(name.as_bytes());
                }
            }
        }
        (self.head, self.written) = (head, 0);
    }

    /// The bytes that replace the front of hyper's write.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.head[self.written..]
    }

    /// Hyper's slices with their front replaced.
    pub(crate) fn with_rest<'a>(&'a self, slices: &'a [IoSlice<'a>]) -> Vec<IoSlice<'a>> {
        let mut skip = self.rest().len();
        let mut all = vec![IoSlice::new(self.rest())];
        for slice in slices {
            let skipped = skip.min(slice.len());
            skip -= skipped;
            all.push(IoSlice::new(&slice[skipped..]));
        }
        all
    }

    /// To be called with the number of bytes written.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.written += bytes.min(self.rest().len());
        if self.rest().is_empty() {
            *self = Self::default();
        }
    }
}

/// The end of the head, which may follow a `100 Continue`.
fn head_end(bytes: &[u8]) -> Option<usize> {
    let end = memchr::memmem::find(bytes, b"\r\n\r\n")? + 4;
    match bytes.starts_with(b"HTTP/1.1 1") {
        true => head_end(&bytes[end..]).map(|more| end + more),
        false => Some(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTS: &str = "PUT /a HTTP/1.1\r\nHost: x\r\nX-Ms-Meta-Owner: Ann\r\nx-ms-meta-plain: 1\r\n\
        Content-Length: 33\r\n\r\nGET / HTTP/1.1\r\nX-MS-META-NO: 1\r\nPUT /b HTTP/1.1\r\nx-ms-meta-bC: 2\r\n\
        Transfer-Encoding: chunked\r\n\r\n1A;x=y\r\nabcdefghijklmnopqrst\r\n\r\n12\r\n3\r\n1\n2\r\n0\r\n\
        X-Ms-Meta-Trailer: 1\r\n\r\nGET /c HTTP/1.1\r\nX-Other: Z\r\n\r\n\
        DELETE /d HTTP/1.1\r\nContent-Length: 0\r\nx-MS-meta-E_f: 3\r\n\r\n";

    fn scanned(pieces: &[&[u8]]) -> Vec<Vec<String>> {
        let mut scanner = HeadScanner::new(1024, 100);
        let mut found = Vec::new();
        for piece in pieces {
            scanner.scan(piece, |case| found.push(case.names().map(str::to_owned).collect()));
        }
        found
    }

    #[test]
    fn names_are_found_however_the_bytes_come() {
        let bytes = REQUESTS.as_bytes();
        let expected = [vec!["x-ms-meta-Owner"], vec!["x-ms-meta-bC"], vec![], vec!["x-ms-meta-E_f"]];
        for size in 1..=bytes.len() {
            assert_eq!(scanned(&bytes.chunks(size).collect::<Vec<_>>()), expected, "{size} at a time");
        }
    }

    #[test]
    fn what_is_no_request_is_not_looked_at_further() {
        let long = format!("GET / HTTP/1.1\r\nX-Long: {}", "x".repeat(2000));
        for first in ["\x01\x02 nonsense\r\n\r\n", "PUT / HTTP/1.1\r\nContent-Length: x\r\n\r\n", &long] {
            let found = scanned(&[first.as_bytes(), b"\r\n\r\n", REQUESTS.as_bytes()]);
            assert!(found.len() <= 1 && found.concat().is_empty(), "{first:.50}: {found:?}");
        }
    }

    #[test]
    fn heads_are_written_with_their_case() {
        let case = HeaderCase::sent(["x-ms-meta-Owner", "X-MS-META-A"].into_iter());
        let plain = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nx-ms-meta-a: x-ms-meta-a: 1\r\n\
            x-ms-meta-ab: 2\r\nx-ms-meta-owner: Ann\r\n\r\nx-ms-meta-a: in the body";
        let expected = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nx-ms-meta-A: x-ms-meta-a: 1\r\n\
            x-ms-meta-ab: 2\r\nx-ms-meta-Owner: Ann\r\n\r\nx-ms-meta-a: in the body";
        for step in 1..plain.len() {
            let mut writer = HeadWriter::default();
            writer.begin(plain.as_bytes(), &case);
            let mut written = Vec::new();
            while written.len() < plain.len() {
                let left = &plain.as_bytes()[written.len()..];
                let (first, second) = left.split_at(left.len() / 2);
                // Hyper writes a head in one slice.
                let slices = match writer.rest().len() <= first.len() {
                    true => vec![IoSlice::new(first), IoSlice::new(second)],
                    false => vec![IoSlice::new(left)],
                };
                let all: Vec<u8> =
                    writer.with_rest(&slices).iter().flat_map(|slice| slice.iter().copied()).collect();
                assert_eq!(all.len(), left.len());
                let count = step.min(all.len());
                written.extend_from_slice(&all[..count]);
                writer.advance(count);
            }
            assert_eq!(String::from_utf8(written).unwrap(), expected, "{step} at a time");
        }
    }
}
