//! Multipart bodies, read liberally: line ends of one or two characters, boundaries with or without quotes.

use http::StatusCode;
use std::ops::Range;

/// The boundary in a `Content-Type: multipart/mixed; boundary=…`.
pub fn boundary(content_type: &str) -> Option<String> {
    let mut parameters = content_type.split(';');
    // Pages in a browser can send `multipart/form-data` anywhere without asking.
    let kind = parameters.next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("multipart/mixed") {
        return None;
    }
    let value = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    })?;
    (!value.is_empty()).then(|| value.to_owned())
}

/// Where the parts between the delimiters lie, without the line end that belongs to the delimiter.
/// A missing last delimiter is forgiven, as some clients forget it. `None`: there is no delimiter at all.
pub(crate) fn parts(body: &[u8], within: Range<usize>, boundary: &str) -> Option<Vec<Range<usize>>> {
    let delimiter = format!("--{boundary}");
    let mut parts = Vec::new();
    let mut part_start = None;
    let mut seen = false;
    for found in memchr::memmem::find_iter(&body[within.clone()], &delimiter) {
        let line_start = within.start + found;
        // A delimiter fills a line of its own; blanks after it are padding.
        if line_start > within.start && body[line_start - 1] != b'\n' {
            continue;
        }
        let (line, line_end) = take_line(body, line_start, within.end)?;
        let rest = line.get(delimiter.len()..).unwrap_or_default().trim_ascii_end();
        if !matches!(rest, b"" | b"--") {
            continue;
        }
        seen = true;
        if let Some(start) = part_start.take() {
            parts.push(start..without_line_end(body, start, line_start));
        }
        if rest == b"--" {
            return Some(parts);
        }
        part_start = Some(line_end);
    }
    if let Some(start) = part_start
        && start < within.end
    {
        parts.push(start..without_line_end(body, start, within.end));
    }
    seen.then_some(parts)
}

/// One part: its headers, and where its content lies.
pub(crate) struct Part<'a> {
    headers: Headers<'a>,
    pub(crate) content: Range<usize>,
}

impl<'a> Part<'a> {
    pub(crate) fn read(body: &'a [u8], range: Range<usize>) -> Option<Self> {
        let (headers, content) = headers(body, range.start, range.clone())?;
        Some(Self { headers, content: content..range.end })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(find(&self.headers, name)?).ok()
    }
}

/// A request inside a part.
pub(crate) struct HttpRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) headers: Headers<'a>,
    pub(crate) body: Range<usize>,
}

impl<'a> HttpRequest<'a> {
    pub(crate) fn read(body: &'a [u8], range: Range<usize>) -> Option<Self> {
        let (line, next) = first_line(body, range.clone())?;
        let line = std::str::from_utf8(line).ok()?;
        // Some clients leave blanks in the target: it is all between the first blank and the last.
        let (method, rest) = line.trim().split_once(' ')?;
        let (target, version) = rest.rsplit_once(' ')?;
        if !version.starts_with("HTTP/") {
            return None;
        }
        let (headers, content) = headers(body, range.start, next..range.end)?;
        Some(Self { method, target: target.trim(), headers, body: content..range.end })
    }
}

/// An answer inside a part.
pub(crate) struct HttpResponse<'a> {
    pub(crate) status: StatusCode,
    headers: Headers<'a>,
    pub(crate) body: Range<usize>,
}

impl<'a> HttpResponse<'a> {
    pub(crate) fn read(body: &'a [u8], range: Range<usize>) -> Option<Self> {
        let (line, next) = first_line(body, range.clone())?;
        let line = std::str::from_utf8(line).ok()?;
        let mut words = line.trim().split(' ');
        words.next().filter(|version| version.starts_with("HTTP/"))?;
        let status = words.next()?.parse().ok()?;
        let (headers, content) = headers(body, range.start, next..range.end)?;
        Some(Self { status, headers, body: content..range.end })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(find(&self.headers, name)?).ok()
    }
}

/// The first line that is not empty, and where the next one starts.
fn first_line(body: &[u8], range: Range<usize>) -> Option<(&[u8], usize)> {
    let mut start = range.start;
    loop {
        let (line, next) = take_line(body, start, range.end)?;
        if !line.is_empty() {
            return Some((line, next));
        }
        start = next;
    }
}

/// Names and values, as they stand in the body.
pub(crate) type Headers<'a> = Vec<(&'a [u8], &'a [u8])>;

/// More headers than this in one part mean no good.
const MAX_HEADERS: usize = 100;

/// A head of a part that is longer than this means no good: no URL that comes alone is.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Reads headers up to the blank line; returns them and where the content starts. `head_start`: where the head begins that they
/// are a part of.
fn headers(body: &[u8], head_start: usize, range: Range<usize>) -> Option<(Headers<'_>, usize)> {
    let mut headers = Vec::with_capacity(8);
    let mut at = range.start;
    while let Some((line, next)) = take_line(body, at, range.end) {
        at = next;
        if line.is_empty() {
            break;
        }
        if headers.len() == MAX_HEADERS {
            return None;
        }
        let colon = memchr::memchr(b':', line)?;
        headers.push((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()));
    }
    (at - head_start <= MAX_HEAD_BYTES).then_some((headers, at))
}

fn find<'a>(headers: &Headers<'a>, name: &str) -> Option<&'a [u8]> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| *value)
}

/// The line at `start` without its end, and where the next one starts; `None` at the end.
fn take_line(body: &[u8], start: usize, end: usize) -> Option<(&[u8], usize)> {
    if start >= end {
        return None;
    }
    let next = memchr::memchr(b'\n', &body[start..end]).map_or(end, |at| start + at + 1);
    Some((trim_line_end(&body[start..next]), next))
}

fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The end of a part that a delimiter line at `delimiter` follows.
fn without_line_end(body: &[u8], start: usize, delimiter: usize) -> usize {
    start + trim_line_end(&body[start..delimiter]).len()
}

/// The path and query of a request's target, without the slash in front, whatever host it names.
pub(crate) fn path_of(target: &str) -> &str {
    let after_scheme = target.split_once("://").filter(|(scheme, _)| !scheme.contains(['/', '?', '\'']));
    let path = match after_scheme {
        Some((_, rest)) => rest.find('/').map_or("", |slash| &rest[slash..]),
        None => target,
    };
    path.strip_prefix('/').unwrap_or(path)
}

/// Appends the first line of an answer in a part.
pub(crate) fn status_line(out: &mut Vec<u8>, status: StatusCode) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends a header of a part.
pub(crate) fn line(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn boundaries() {
        for (content_type, expected) in [
            ("multipart/mixed; boundary=batch_1", Some("batch_1")),
            ("multipart/mixed;boundary=\"a b\"", Some("a b")),
            ("Multipart/Mixed;charset=\"utf-8\";BOUNDARY=changeset_2", Some("changeset_2")),
            ("multipart/mixed", None),
            ("multipart/mixed; boundary=", None),
            ("application/http", None),
        ] {
            assert_eq!(boundary(content_type).as_deref(), expected, "{content_type}");
        }
    }

    fn texts(body: &str, boundary: &str) -> Option<Vec<String>> {
        let ranges = parts(body.as_bytes(), 0..body.len(), boundary)?;
        Some(ranges.into_iter().map(|range| body[range].to_owned()).collect())
    }

    #[test]
    fn delimiters() {
        let some = |parts: &[&str]| Some(parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>());
        for (body, expected) in [
            ("--b\r\none\r\n--b\r\ntwo\r\n--b--\r\n", some(&["one", "two"])),
            ("--b\none\n--b\ntwo\n--b--", some(&["one", "two"])),
            ("preamble\r\n--b  \r\none\r\n\r\n--b--", some(&["one\r\n"])),
            ("--b\r\none", some(&["one"])),
            ("--b--", some(&[])),
            ("--bb\r\none\r\n--bb--", None),
            ("", None),
        ] {
            assert_eq!(texts(body, "b"), expected, "{body:?}");
        }
    }

    #[test]
    fn requests_in_parts() {
        let body = "\r\nPUT http://h/d1/T(PartitionKey='a b',RowKey='%') HTTP/1.1\r\nIf-Match: *\r\n\r\n{}";
        let request = HttpRequest::read(body.as_bytes(), 0..body.len()).unwrap();
        assert_eq!((request.method, request.target), ("PUT", "http://h/d1/T(PartitionKey='a b',RowKey='%')"));
        assert_eq!(find(&request.headers, "if-match"), Some(&b"*"[..]));
        assert_eq!(&body[request.body], "{}");
    }

    #[test]
    fn long_heads_are_refused() {
        let read = |part: &str| HttpRequest::read(part.as_bytes(), 0..part.len()).is_some();
        // With what is around it.
        let head = |target: usize, value: usize| {
            let (target, value) = ("a".repeat(target), "b".repeat(value));
            format!("GET /{target} HTTP/1.1\r\nx: {value}\r\n\r\n")
        };
        let around = head(0, 0).len();
        for (case, part, expected) in [
            ("the longest target", head(MAX_HEAD_BYTES - around, 0), true),
            ("a longer one", head(MAX_HEAD_BYTES - around + 1, 0), false),
            ("the longest header", head(0, MAX_HEAD_BYTES - around), true),
            ("a longer one", head(0, MAX_HEAD_BYTES - around + 1), false),
            ("long together", head(MAX_HEAD_BYTES / 2, MAX_HEAD_BYTES / 2), false),
            ("a long body", head(9, 9) + &"c".repeat(MAX_HEAD_BYTES), true),
            ("no end", format!("GET / HTTP/1.1\r\nx: {}", "b".repeat(MAX_HEAD_BYTES)), false),
            ("nothing before it", "\r\n".repeat(MAX_HEAD_BYTES) + &head(0, 0), false),
        ] {
            assert_eq!(read(&part), expected, "{case}");
        }
        let mime = |bytes: usize| format!("Content-ID: {}\r\n\r\nGET", "1".repeat(bytes));
        for (bytes, expected) in [(1000, true), (MAX_HEAD_BYTES, false)] {
            let part = mime(bytes);
            assert_eq!(Part::read(part.as_bytes(), 0..part.len()).is_some(), expected, "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_do_no_harm(body in prop::collection::vec(prop::sample::select(b"-b\r\n: aPUT HTTP/1.1{}".to_vec()), 0..200)) {
            for range in parts(&body, 0..body.len(), "b").unwrap_or_default() {
                if let Some(part) = Part::read(&body, range) {
                    let _ = HttpRequest::read(&body, part.content);
                }
            }
        }
    }
}
