//! Requests that are not HTTP, or mean one thing to this server and another to the next.

use crate::siege::{Siege, TABLE};
use crate::support::SAS;
use crate::support::http::Client;
use std::time::Duration;

/// What becomes of the connection after the answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    /// It is closed, and nothing more that was sent is taken for a request.
    Closed,
    /// It serves the next request.
    Open,
    /// One or the other, according to how much of the body had come.
    Either,
}
use Then::{Closed, Either, Open};

const ENTITY: &str = r#"{"PartitionKey":"p","RowKey":"smuggled"}"#;
/// A connection that is to be closed is closed by then.
const PATIENCE: Duration = Duration::from_secs(10);
const BODY_LIMIT: usize = 4 * 1024 * 1024;

/// The head of an insert with these headers, and what follows it.
fn insert(headers: &str, rest: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "POST /devstoreaccount1/{TABLE}?{SAS} HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\
         Content-Type: application/json\r\n{headers}\r\n"
    )
    .into_bytes();
    bytes.extend_from_slice(rest);
    bytes
}

/// A request that someone tries to hide in the body of another.
fn hidden() -> Vec<u8> {
    let length = ENTITY.len();
    insert(&format!("Content-Length: {length}\r\n"), ENTITY.as_bytes())
}

fn chunked(rest: &[u8]) -> Vec<u8> {
    insert("Transfer-Encoding: chunked\r\n", rest)
}

/// Sends each, checks the status, the connection after it, and the server after that.
fn refused(cases: Vec<(&str, Vec<u8>, &[u16], Then)>) {
    let mut siege = Siege::lay("max-head-bytes = 16384");
    for (case, bytes, statuses, then) in cases {
        let mut client = siege.server.client();
        // The server may close before it has read all of it.
        let _ = client.send(&bytes);
        let reply = client.reply().unwrap_or_else(|error| panic!("{case}: no answer: {error}"));
        assert!(statuses.contains(&reply.status), "{case}: {}: {}", reply.status, reply.text());
        match then {
            Closed => {
                let rest = client.rest_within(PATIENCE).unwrap_or_else(|| panic!("{case}: still open"));
                let text = String::from_utf8_lossy(&rest);
                assert!(!text.contains("HTTP/1.1"), "{case}: another answer: {text}");
            }
            Open | Either => {
                let next = client.unsigned("GET", "/health", &[], b"").map(|reply| reply.status).ok();
                assert!(
                    next == Some(200) || next.is_none() && then == Either,
                    "{case}: {next:?} for the next"
                );
            }
        }
        siege.survived(case);
    }
    let smuggled = siege.server.client().get(TABLE, "p", "smuggled").unwrap();
    assert_eq!(smuggled, None, "a hidden request was carried out");
    siege.lift();
}

#[test]
fn lengths_that_contradict_each_other() {
    let with = |headers: &str| insert(headers, &[&b"0\r\n\r\n"[..], &hidden()].concat());
    refused(vec![
        ("two lengths", with("Content-Length: 5\r\nContent-Length: 6\r\n"), &[400], Closed),
        ("a list of lengths", with("Content-Length: 5, 5\r\n"), &[400], Closed),
        ("a negative length", with("Content-Length: -5\r\n"), &[400], Closed),
        ("a length with a sign", with("Content-Length: +5\r\n"), &[400], Closed),
        ("a hexadecimal length", with("Content-Length: 0x5\r\n"), &[400], Closed),
        ("an empty length", with("Content-Length: \r\n"), &[400], Closed),
        ("a length beyond 64 bits", with("Content-Length: 99999999999999999999\r\n"), &[400, 413], Closed),
        ("the greatest length", with("Content-Length: 18446744073709551615\r\n"), &[400, 413, 431], Closed),
        ("chunks and a length", with("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), &[400], Closed),
        ("a length and chunks", with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), &[400], Closed),
        (
            "chunks, then not",
            with("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
            &[400],
            Closed,
        ),
        ("chunks inside something", with("Transfer-Encoding: chunked, gzip\r\n"), &[400], Closed),
        ("an unknown encoding", with("Transfer-Encoding: xchunked\r\n"), &[400], Closed),
        ("a blank before the colon", with("Transfer-Encoding : chunked\r\n"), &[400], Closed),
        ("a folded header", with("Transfer-Encoding:\r\n chunked\r\n"), &[400], Closed),
        ("a header without a name", with(": chunked\r\n"), &[400], Closed),
    ]);
}

#[test]
fn bodies_that_are_not_as_announced() {
    let megabyte = [&b"100000\r\n"[..], &vec![b' '; 1024 * 1024], b"\r\n"].concat();
    let large = [megabyte.repeat(4), b"1\r\n \r\n0\r\n\r\n".to_vec()].concat();
    let declared = format!("Content-Length: {}\r\n", BODY_LIMIT + 1);
    let duplicate = ENTITY.replace("smuggled", "visitor0");
    let exact = |body: &str| insert(&format!("Content-Length: {}\r\n", body.len()), body.as_bytes());
    let trailers: String = (0..5000).map(|n| format!("X-{n}: x\r\n")).collect();
    refused(vec![
        ("too large, declared", insert(&declared, &vec![b' '; BODY_LIMIT + 1]), &[413], Either),
        ("too large, in chunks", chunked(&large), &[413], Either),
        ("a chunk without a size", chunked(b"\r\nabc\r\n0\r\n\r\n"), &[400], Closed),
        ("a chunk size that is no number", chunked(b"zz\r\nabc\r\n0\r\n\r\n"), &[400], Closed),
        ("a negative chunk size", chunked(b"-3\r\nabc\r\n0\r\n\r\n"), &[400], Closed),
        ("a chunk size beyond 64 bits", chunked(b"fffffffffffffffff\r\nabc"), &[400], Closed),
        ("a chunk longer than its size", chunked(b"3\r\nabcdef\r\n0\r\n\r\n"), &[400], Closed),
        (
            "a chunk extension without end",
            chunked(&[b"3;", &b"x".repeat(100_000)[..], b"\r\nabc\r\n0\r\n\r\n"].concat()),
            &[400],
            Closed,
        ),
        (
            "trailers without end",
            chunked(&[b"2\r\n{}\r\n0\r\n", trailers.as_bytes(), b"\r\n"].concat()),
            &[400],
            Closed,
        ),
        ("no body, none announced", insert("", b""), &[400, 411], Open),
        ("an empty body", insert("Content-Length: 0\r\n", b""), &[400], Open),
        ("not an entity, in chunks", chunked(b"2\r\n[]\r\n0\r\n\r\n"), &[400], Open),
        ("an entity that is there", exact(&duplicate), &[409], Open),
        (
            "that again, byte by byte",
            chunked(&[pieces_of(&duplicate), b"0\r\n\r\n".to_vec()].concat()),
            &[409],
            Open,
        ),
    ]);
}

fn pieces_of(text: &str) -> Vec<u8> {
    text.bytes().flat_map(|byte| [b"1\r\n", &[byte][..], b"\r\n"].concat()).collect()
}

#[test]
fn lengths_that_are_not_those_of_the_body() {
    let mut siege = Siege::lay("");
    let length = |length: usize| insert(&format!("Content-Length: {length}\r\n"), ENTITY.as_bytes());

    // The client ends before its body does. It may have gone: that it gets no answer is right too.
    let mut client = siege.server.client();
    client.send(&length(ENTITY.len() + 1)).unwrap();
    client.finish().unwrap();
    let text = String::from_utf8_lossy(&client.rest()).into_owned();
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 400"), "{text}");
    siege.survived("longer than the body");

    // What is beyond the length is another request, and not one.
    let mut client = siege.server.client();
    client.send(&length(ENTITY.len() - 1)).unwrap();
    assert_eq!(client.reply().unwrap().code(), "InvalidInput");
    let text = String::from_utf8_lossy(&client.rest_after(b"\r\n\r\n", PATIENCE)).into_owned();
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 400"), "{text}");
    siege.survived("shorter than the body");

    assert_eq!(siege.server.client().get(TABLE, "p", "smuggled").unwrap(), None);
    siege.lift();
}

#[test]
fn what_is_not_http() {
    let long = "x".repeat(100_000);
    let headers: String = (0..200).map(|n| format!("X-{n}: x\r\n")).collect();
    let line = |text: &str| text.as_bytes().to_vec();
    let update = format!(
        "PUT /devstoreaccount1/{TABLE}(PartitionKey='p',RowKey='visitor0')?{SAS} HTTP/1.1\r\nHost: x\r\n\
         Content-Type: application/json\r\nAccept: application/json\r\n"
    );
    let tls = [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], &[0x5a; 512]].concat();
    refused(vec![
        ("HTTP/0.9", line("GET /\r\n"), &[400], Closed),
        ("a version there is not", line("GET / HTTP/9.9\r\nHost: x\r\n\r\n"), &[400], Closed),
        ("no method", line(" / HTTP/1.1\r\nHost: x\r\n\r\n"), &[400], Closed),
        ("only a carriage return", line("GET / HTTP/1.1\rHost: x\r\n\r\n"), &[400], Closed),
        ("a TLS client", tls, &[400], Closed),
        ("bytes", (0..=255).rev().cycle().take(4096).collect(), &[400], Closed),
        ("NUL in the target", line("GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n"), &[400], Closed),
        ("NUL in a header", line("GET / HTTP/1.1\r\nHost: x\r\nX-A: a\0b\r\n\r\n"), &[400], Closed),
        ("a target that is not UTF-8", b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), &[400], Closed),
        (
            "an ETag that is not UTF-8",
            [update.as_bytes(), b"If-Match: \xff\xfe\r\nContent-Length: 2\r\n\r\n{}"].concat(),
            &[400],
            Open,
        ),
        ("a long target", line(&format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n")), &[414, 431], Closed),
        ("a long header", line(&format!("GET / HTTP/1.1\r\nHost: x\r\nX: {long}\r\n\r\n")), &[431], Closed),
        ("many headers", line(&format!("GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n")), &[431], Closed),
        ("empty lines without end", "\r\n".repeat(50_000).into_bytes(), &[400, 431], Closed),
        (
            "a proxy's tunnel",
            line("CONNECT other.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"),
            &[400, 405],
            Open,
        ),
        ("nowhere", line("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"), &[400], Open),
        ("a way out", line("GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n"), &[400, 404], Open),
    ]);
}

#[test]
fn unusual_but_right() {
    let mut siege = Siege::lay("");
    let path = format!("/devstoreaccount1/{TABLE}()?$top=1&{SAS}");
    let accept = "Accept: application/json\r\n";
    for (case, request, status) in [
        (
            "an absolute target",
            format!("GET http://other.example{path} HTTP/1.1\r\nHost: x\r\n{accept}\r\n"),
            200,
        ),
        ("another account", "GET http://x/other/T() HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 404),
        ("an unknown method", format!("BREW {path} HTTP/1.1\r\nHost: x\r\n{accept}\r\n"), 405),
        ("a long method", format!("{} {path} HTTP/1.1\r\nHost: x\r\n\r\n", "A".repeat(5000)), 405),
        ("no host", "GET /health HTTP/1.1\r\n\r\n".to_owned(), 200),
        (
            "an upgrade",
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n{accept}\r\n"),
            200,
        ),
        ("lines that end in a line feed", "GET /health HTTP/1.1\nHost: x\n\n".to_owned(), 200),
        ("a line before it", "\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 200),
    ] {
        let mut client = siege.server.client();
        client.send(request.as_bytes()).unwrap();
        let reply = client.reply().unwrap();
        assert_eq!(reply.status, status, "{case}: {}", reply.text());
        siege.survived(case);
    }
    pipelined(&mut siege.server.client());
    siege.survived("requests without waiting for answers");
    for _ in 0..3 {
        asks_first(&mut siege.server.client());
    }
    siege.survived("asking first");
    siege.lift();
}

/// Many requests in one piece are answered one by one, in order.
fn pipelined(client: &mut Client) {
    const REQUESTS: usize = 100;
    let path = format!("/devstoreaccount1/{TABLE}(PartitionKey='p',RowKey='line')?{SAS}");
    let mut all = Vec::new();
    for number in 0..REQUESTS {
        let body = format!(r#"{{"Value":{number}}}"#);
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        all.extend_from_slice(head.as_bytes());
        all.extend_from_slice(body.as_bytes());
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n");
        all.extend_from_slice(head.as_bytes());
    }
    client.send(&all).unwrap();
    for number in 0..REQUESTS {
        assert_eq!(client.reply().unwrap().status, 204);
        assert_eq!(client.reply().unwrap().json()["Value"], number);
    }
}

/// A client that waits for "go on" gets it, or the reason why not.
fn asks_first(client: &mut Client) {
    let ask = |length: usize| insert(&format!("Expect: 100-continue\r\nContent-Length: {length}\r\n"), b"");
    client.send(&ask(2)).unwrap();
    assert_eq!(client.reply().unwrap().status, 100);
    client.send(b"{}").unwrap();
    let reply = client.reply().unwrap();
    assert_eq!((reply.status, reply.code().as_str()), (400, "PropertiesNeedValue"));
    client.send(&ask(BODY_LIMIT + 1)).unwrap();
    let reply = client.reply().unwrap();
    assert_eq!((reply.status, reply.code().as_str()), (413, "RequestBodyTooLarge"));
}
