//! Uploads that are not as announced, break off, or never end: nothing of them stays.

use crate::siege::{CONTAINER, Siege};
use crate::support::blob::{noise, signed};
use crate::support::http::Client;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::time::{Duration, Instant};

const MIB: usize = 1024 * 1024;
/// A timeout of half a second has taken effect by then, even on a busy machine.
const SOON: Duration = Duration::from_secs(15);
const SHORT: &str = "head-timeout-seconds = 0.5\nbody-timeout-seconds = 0.5\npace-grace-seconds = 0.5\n\
    min-bytes-per-second = 1000";

/// The requests that bring bytes along, to a blob that is not there or one that is.
const TARGETS: [(&str, &str, &str); 5] = [
    ("Put Blob", "new", "x-ms-blob-type: BlockBlob\r\n"),
    ("an overwriting Put Blob", "block", "x-ms-blob-type: BlockBlob\r\n"),
    ("Put Block", "new?comp=block&blockid=AAAA", ""),
    ("Append Block", "append?comp=appendblock", ""),
    ("Put Page", "page?comp=page", "x-ms-page-write: update\r\nx-ms-range: bytes=0-2097151\r\n"),
];

fn head(path: &str, headers: &str) -> Vec<u8> {
    let target = signed(&format!("/{CONTAINER}/{path}"));
    format!("PUT {target} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").into_bytes()
}

/// Makes the blobs that attacks are about; returns their ETags.
pub(crate) fn victims(client: &mut Client) -> Vec<String> {
    let victim = |client: &mut Client, name: &str, headers: &[(&str, &str)], body: &[u8]| {
        let reply = client.blob("PUT", &format!("/{CONTAINER}/{name}"), headers, body).unwrap();
        assert_eq!(reply.status, 201, "{name}: {}", reply.text());
        reply.etag()
    };
    vec![
        victim(client, "block", &[("x-ms-blob-type", "BlockBlob")], &noise(5, 100_000)),
        victim(client, "append", &[("x-ms-blob-type", "AppendBlob")], b""),
        victim(
            client,
            "page",
            &[("x-ms-blob-type", "PageBlob"), ("x-ms-blob-content-length", "4194304")],
            b"",
        ),
    ]
}

/// Nothing was stored: the victims are as they were, and there is nothing new.
pub(crate) fn assert_unchanged(client: &mut Client, etags: &[String], case: &str) {
    for (name, etag) in ["block", "append", "page"].iter().zip(etags) {
        let reply = client.blob("HEAD", &format!("/{CONTAINER}/{name}"), &[], b"").unwrap();
        assert_eq!((reply.status, &reply.etag()), (200, etag), "{case}: {name}");
    }
    for name in ["new", "block"] {
        let list = format!("/{CONTAINER}/{name}?comp=blocklist&blocklisttype=all");
        let reply = client.blob("GET", &list, &[], b"").unwrap();
        assert!(!reply.text().contains("<Block>"), "{case}: a block of {name}: {}", reply.text());
        assert_eq!(reply.status == 404, name == "new", "{case}: {name}");
    }
}

#[test]
fn uploads_that_are_not_as_announced() {
    let mut siege = Siege::lay_to_blobs("");
    let mut client = siege.server.blobs();
    let etags = victims(&mut client);
    let bytes = noise(7, 2 * MIB);
    for (what, path, headers) in TARGETS {
        for (how, framing, body) in [
            ("shorter than announced", format!("Content-Length: {}\r\n", 2 * MIB), &bytes[..MIB + 77]),
            ("nothing at all", format!("Content-Length: {}\r\n", 2 * MIB), &[]),
            ("chunks without end", "Transfer-Encoding: chunked\r\n".to_owned(), b"5\r\nhello\r\n"),
            ("half a chunk", "Transfer-Encoding: chunked\r\n".to_owned(), b"10000\r\nhello"),
            (
                "a chunk size that is none",
                "Transfer-Encoding: chunked\r\n".to_owned(),
                b"5\r\nhello\r\n-1\r\n",
            ),
            (
                "a chunk that is too long",
                "Transfer-Encoding: chunked\r\n".to_owned(),
                b"3\r\nhello\r\n0\r\n\r\n",
            ),
        ] {
            let case = format!("{what}: {how}");
            let mut attacker = siege.server.blobs();
            attacker.send(&head(path, &[headers, &framing].concat())).unwrap();
            let _ = attacker.send(body);
            let _ = attacker.finish();
            // A client that disconnected may get no reply.
            let text = String::from_utf8_lossy(&attacker.rest()).into_owned();
            assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{case}: {text}");
            assert_unchanged(&mut client, &etags, &case);
        }
        siege.survived(what);
    }
    // What is beyond the length is another request, and not one.
    let mut attacker = siege.server.blobs();
    let request = head("short", "x-ms-blob-type: BlockBlob\r\nContent-Length: 5\r\n");
    attacker.send(&[&request[..], b"hello, and more\r\n\r\n"].concat()).unwrap();
    assert_eq!(attacker.reply().unwrap().status, 201);
    let rest = String::from_utf8_lossy(&attacker.rest()).into_owned();
    assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 400"), "{rest}");
    assert_eq!(client.get_blob(&format!("/{CONTAINER}/short")).body, b"hello");
    siege.survived("longer than announced");
    siege.lift();
}

#[test]
fn uploads_that_break_off() {
    let mut siege = Siege::lay_to_blobs("");
    let mut client = siege.server.blobs();
    let etags = victims(&mut client);
    let bytes = noise(8, 4 * MIB);
    for round in 0..20 {
        let attackers: Vec<Client> = TARGETS
            .iter()
            .map(|(_, path, headers)| {
                let mut attacker = siege.server.blobs();
                let length = format!("Content-Length: {}\r\n", 2 * MIB);
                attacker.send(&head(path, &[*headers, &length].concat())).unwrap();
                let _ = attacker.send(&bytes[..round * MIB / 10]);
                attacker
            })
            .collect();
        drop(attackers);
    }
    siege.survived("gone in the middle");
    assert_unchanged(&mut client, &etags, "gone in the middle");
    siege.lift();
}

#[test]
fn uploads_that_never_end() {
    let mut siege = Siege::lay_to_blobs(SHORT);
    let mut client = siege.server.blobs();
    let etags = victims(&mut client);
    for (case, framing, drip) in [
        ("nothing more", "Content-Length: 2097152\r\n", &b""[..]),
        ("drips", "Content-Length: 2097152\r\n", b"x"),
        ("chunks that drip", "Transfer-Encoding: chunked\r\n", b"1\r\nx\r\n"),
    ] {
        let mut attackers = Vec::new();
        for (_, path, headers) in TARGETS.iter().cycle().take(100) {
            let mut attacker = siege.server.blobs();
            attacker.send(&head(path, &[*headers, framing].concat())).unwrap();
            attackers.push(attacker);
        }
        let begun = Instant::now();
        let mut taken = if drip.is_empty() { 0 } else { attackers.len() };
        while taken > 0 {
            assert!(begun.elapsed() < SOON, "{case}: {taken} connections still take it");
            std::thread::sleep(Duration::from_millis(20));
            taken = attackers.iter_mut().map(|attacker| usize::from(attacker.send(drip).is_ok())).sum();
        }
        for attacker in &mut attackers {
            let text = String::from_utf8_lossy(&attacker.rest()).into_owned();
            let timed_out = text.starts_with("HTTP/1.1 500") && text.contains("OperationTimedOut");
            assert!(text.is_empty() || timed_out || text.starts_with("HTTP/1.1 4"), "{case}: {text}");
        }
        siege.survived(case);
        assert_unchanged(&mut client, &etags, case);
    }
    siege.lift();
}

#[test]
fn thousands_of_half_open_uploads() {
    const MANY: usize = 2000;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit }).unwrap();
    let mut siege = Siege::lay_to_blobs("body-memory-timeout-seconds = 0.2");
    let mut client = siege.server.blobs();
    let etags = victims(&mut client);
    let bytes = noise(9, 100_000);
    let mut attackers = Vec::new();
    for (_, path, headers) in TARGETS.iter().cycle().take(MANY) {
        let mut attacker = siege.server.blobs();
        attacker.send(&head(path, &[*headers, "Content-Length: 2097152\r\n"].concat())).unwrap();
        let _ = attacker.send(&bytes);
        attackers.push(attacker);
        if attackers.len().is_multiple_of(500) {
            siege.survived("half-open uploads");
        }
    }
    // There is memory for some of them; the others get 503.
    println!("{} KiB more memory for {MANY} half-open uploads", siege.memory_grew_kib());
    drop(attackers);
    siege.survived("all of them gone");
    assert_unchanged(&mut client, &etags, "half-open uploads");
    siege.lift();
}

#[test]
fn uploads_that_are_slow_leave_memory_to_others() {
    let mut siege = Siege::lay_to_blobs("body-memory-bytes = 67108864\nbody-memory-timeout-seconds = 10");
    let mut client = siege.server.blobs();
    let etags = victims(&mut client);
    let mut slow = Vec::new();
    for (_, path, headers) in TARGETS.iter().cycle().take(300) {
        let mut attacker = siege.server.blobs();
        attacker.send(&head(path, &[*headers, "Content-Length: 2097152\r\n"].concat())).unwrap();
        attacker.send(b"a little").unwrap();
        slow.push(attacker);
    }
    for round in 0..5 {
        let large = format!("/{CONTAINER}/large{round}");
        assert_eq!(client.put_blob(&large, &noise(round, 3 * MIB)).status, 201);
        assert_eq!(client.blob("DELETE", &large, &[], b"").unwrap().status, 202);
        for attacker in &mut slow {
            attacker.send(b"and a little more").unwrap();
        }
        siege.survived("slow uploads");
    }
    drop(slow);
    assert_unchanged(&mut client, &etags, "slow uploads");
    siege.lift();
}
