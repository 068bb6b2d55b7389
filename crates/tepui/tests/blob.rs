//! Blobs over HTTP, as clients see them: bytes in and out, and what is left after a failure.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;
use support::blob::{BLOCK_BLOB, TWO_ACCOUNTS, on_disk, signed, signed_by_beta};
use support::http::Client;
use support::{Server, wait_until};
use tempfile::TempDir;

const MIB: usize = 1024 * 1024;

fn noise(length: usize) -> Vec<u8> {
    support::blob::noise(length as u64 + 1, length)
}

#[test]
fn what_goes_in_comes_out() {
    let data = TempDir::new().unwrap();
    let server = Server::on_disk(data.path());
    let mut client = server.blobs();
    client.create_container("pictures");
    for length in [0, 1, 16 * 1024, 16 * 1024 + 1, 300_000, 20 * MIB] {
        let bytes = noise(length);
        let put = client.put_blob("/pictures/cat", &bytes);
        let got = client.get_blob("/pictures/cat");
        assert_eq!((got.status, got.body == bytes), (200, true), "{length}");
        assert_eq!(got.header("content-md5"), put.header("content-md5"), "{length}");
        let head = client.blob("HEAD", "/pictures/cat", &[], b"").unwrap();
        assert_eq!((head.status, head.header("content-length")), (200, Some(&*length.to_string())));
        for (first, last) in [(0, 0), (length / 2, length), (length.saturating_sub(1), length + 7)] {
            let range = format!("bytes={first}-{last}");
            let part = client.blob("GET", "/pictures/cat", &[("x-ms-range", &range)], b"").unwrap();
            match bytes.get(first..(last + 1).min(length)) {
                Some(expected) if !expected.is_empty() => {
                    assert_eq!((part.status, part.body == expected), (206, true), "{length} {range}");
                }
                _ => assert_eq!(part.status, 416, "{length} {range}"),
            }
        }
    }
}

#[test]
fn bytes_without_a_length_are_taken_too() {
    let server = Server::in_memory(&[]);
    let mut client = server.blobs();
    client.create_container("pictures");
    let bytes = noise(200_000);
    let head = format!(
        "PUT {} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-blob-type: BlockBlob\r\nTransfer-Encoding: chunked\r\n\r\n",
        signed("/pictures/cat")
    );
    client.send(head.as_bytes()).unwrap();
    for chunk in bytes.chunks(7_001) {
        client.send(format!("{:x}\r\n", chunk.len()).as_bytes()).unwrap();
        client.send(chunk).unwrap();
        client.send(b"\r\n").unwrap();
    }
    client.send(b"0\r\n\r\n").unwrap();
    assert_eq!(client.reply().unwrap().status, 201);
    assert_eq!(client.get_blob("/pictures/cat").body, bytes);
}

#[test]
fn a_wrong_checksum_leaves_nothing() {
    let data = TempDir::new().unwrap();
    let server = Server::on_disk(data.path());
    let mut client = server.blobs();
    client.create_container("pictures");
    for length in [4, 10 * MIB] {
        let bytes = noise(length);
        for (name, sum, code) in [
            ("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==", "Md5Mismatch"),
            ("x-ms-content-crc64", "AAAAAAAAAAE=", "Crc64Mismatch"),
        ] {
            let reply = client.blob("PUT", "/pictures/cat", &[BLOCK_BLOB, (name, sum)], &bytes).unwrap();
            assert_eq!((reply.status, reply.code().as_str()), (400, code), "{length}");
            assert_eq!(client.get_blob("/pictures/cat").status, 404, "{length}");
        }
    }
    wait_until("the space is given back", || on_disk(&data.path().join("extents")) < MIB as u64);
}

#[test]
fn a_client_that_breaks_off_leaves_nothing() {
    let data = TempDir::new().unwrap();
    let server = Server::on_disk(data.path());
    let mut client = server.blobs();
    client.create_container("pictures");
    let bytes = noise(8 * MIB);
    for _ in 0..4 {
        let mut stream = TcpStream::connect(("127.0.0.1", server.blob_port)).unwrap();
        let head = format!(
            "PUT {} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-blob-type: BlockBlob\r\nContent-Length: {}\r\n\r\n",
            signed("/pictures/cat"),
            bytes.len() * 2
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&bytes).unwrap();
    }
    wait_until("the space is given back", || on_disk(&data.path().join("extents")) < MIB as u64);
    assert_eq!(client.get_blob("/pictures/cat").status, 404);
}

#[test]
fn a_refused_upload_does_not_spoil_the_connection() {
    let server = Server::in_memory(&[]);
    let mut client = server.blobs();
    client.create_container("pictures");
    for length in [10, MIB] {
        let reply = client.blob("PUT", "/nowhere/cat", &[BLOCK_BLOB], &noise(length)).unwrap();
        assert_eq!((reply.status, reply.code().as_str()), (404, "ContainerNotFound"));
        client.put_blob("/pictures/cat", b"meow");
        let condition = [BLOCK_BLOB, ("If-None-Match", "*")];
        let reply = client.blob("PUT", "/pictures/cat", &condition, &noise(length)).unwrap();
        assert_eq!((reply.status, reply.code().as_str()), (409, "BlobAlreadyExists"));
        assert_eq!(client.get_blob("/pictures/cat").body, b"meow");
    }
}

#[test]
fn a_client_that_expects_continue_gets_the_error_before_it_sends() {
    let server = Server::in_memory(&[]);
    let mut client = server.blobs();
    client.create_container("pictures");
    let ask = |more: &str| {
        format!(
            "PUT {} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-blob-type: BlockBlob\r\nExpect: 100-continue\r\n\
             Content-Length: 5000000000\r\n{more}\r\n",
            signed("/pictures/cat")
        )
    };
    client.send(ask("If-Match: \"0x8D0000000000000\"\r\n").as_bytes()).unwrap();
    assert_eq!(client.reply().unwrap().status, 412);
    let mut client = server.blobs();
    client.send(ask("").as_bytes()).unwrap();
    assert_eq!(client.reply().unwrap().status, 100);
}

#[test]
fn blocks_become_a_blob() {
    let server = Server::in_memory(&[]);
    let mut client = server.blobs();
    client.create_container("pictures");
    let (one, two) = (noise(100_000), noise(3 * MIB));
    for (id, bytes) in [("AAAB", &two), ("AAAA", &one)] {
        let path = format!("/pictures/cat?comp=block&blockid={id}");
        assert_eq!(client.blob("PUT", &path, &[], bytes).unwrap().status, 201);
    }
    assert_eq!(client.get_blob("/pictures/cat").status, 404);
    let list = "<BlockList><Latest>AAAA</Latest><Latest>AAAB</Latest><Latest>AAAA</Latest></BlockList>";
    let put = client.blob("PUT", "/pictures/cat?comp=blocklist", &[], list.as_bytes()).unwrap();
    assert_eq!(put.status, 201, "{}", put.text());
    assert_eq!(client.get_blob("/pictures/cat").body, [&one[..], &two, &one].concat());
}

#[test]
fn blobs_are_copied_between_accounts_by_those_who_may_read_them() {
    let server = Server::in_memory(TWO_ACCOUNTS);
    let mut client = server.blobs();
    client.create_container("pictures");
    let bytes = noise(3 * MIB);
    client.put_blob("/pictures/cat", &bytes);
    let mut of_beta = |path: &str, headers: &[(&str, &str)]| {
        let target = signed_by_beta(path);
        client.unsigned("PUT", &target, &[headers, &[("Content-Length", "0")]].concat(), b"").unwrap()
    };
    assert_eq!(of_beta("/copies?restype=container", &[]).status, 201);
    let open = "http://127.0.0.1/devstoreaccount1/pictures/cat".to_owned();
    let allowed = format!("http://127.0.0.1{}", signed("/pictures/cat"));
    let forged = allowed.replace("sig=G", "sig=H");
    for (what, source, more, status, code) in [
        ("no credentials", &open, &[][..], 404, "CannotVerifyCopySource"),
        ("a wrong signature", &forged, &[], 403, "CannotVerifyCopySource"),
        ("a signature", &allowed, &[], 202, ""),
        ("while the caller waits", &allowed, &[("x-ms-requires-sync", "true")], 202, ""),
        ("Put Blob From URL", &allowed, &[BLOCK_BLOB], 201, ""),
        ("another server", &"http://example.com/x".to_owned(), &[BLOCK_BLOB], 403, "CannotVerifyCopySource"),
    ] {
        let reply = of_beta("/copies/cat", &[&[("x-ms-copy-source", &**source)], more].concat());
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{what}: {}", reply.text());
    }
    let part = [("x-ms-copy-source", &*allowed), ("x-ms-source-range", "bytes=10-99")];
    assert_eq!(of_beta("/copies/part?comp=block&blockid=AAAA", &part).status, 201);
    let by_name = format!("http://localhost:{}{}", server.blob_port, signed("/pictures/cat"));
    assert_eq!(of_beta("/copies/cat", &[("x-ms-copy-source", &by_name)]).status, 202);
    let mut copy = |path: &str| client.unsigned("GET", &signed_by_beta(path), &[], b"").unwrap();
    assert_eq!(copy("/copies/cat").body, bytes);
}

/// Lets a server copy from others on this machine.
const FROM_HERE: &[&str] = &["--remote-copy-host", "127.0.0.1"];

#[test]
fn blobs_are_copied_from_other_servers_if_that_is_allowed() {
    let source = Server::in_memory(&[]);
    let mut client = source.blobs();
    client.create_container("pictures");
    let bytes = noise(3 * MIB);
    client.put_blob("/pictures/cat", &bytes);

    let server = Server::in_memory(FROM_HERE);
    let mut client = server.blobs();
    client.create_container("copies");
    let at = |path: &str| format!("http://127.0.0.1:{}{path}", source.blob_port);
    let unsigned = at("/devstoreaccount1/pictures/cat");
    for (what, url, status) in [
        ("allowed", at(&signed("/pictures/cat")), 201),
        ("not allowed", unsigned.clone(), 404),
        ("missing", at(&signed("/pictures/dog")), 404),
        ("encrypted", unsigned.replace("http", "https"), 403),
        ("no listener", "http://127.0.0.1:1/x".to_owned(), 500),
    ] {
        let headers = [BLOCK_BLOB, ("x-ms-copy-source", &url)];
        let reply = client.blob("PUT", "/copies/cat", &headers, b"").unwrap();
        assert_eq!(reply.status, status, "{what}: {}", reply.text());
    }
    assert_eq!(client.get_blob("/copies/cat").body, bytes);
    let url = at(&signed("/pictures/cat"));
    let part = [("x-ms-copy-source", &*url), ("x-ms-source-range", "bytes=10-99")];
    assert_eq!(client.blob("PUT", "/copies/part?comp=block&blockid=AAAA", &part, b"").unwrap().status, 201);
    let list = b"<BlockList><Latest>AAAA</Latest></BlockList>";
    assert_eq!(client.blob("PUT", "/copies/part?comp=blocklist", &[], list).unwrap().status, 201);
    assert_eq!(client.get_blob("/copies/part").body, bytes[10..100]);
}

#[test]
fn a_hole_in_a_page_blob_fills_no_disk() {
    const GIB: &str = "1073741824";
    let data = TempDir::new().unwrap();
    let server = Server::on_disk(data.path());
    let mut client = server.blobs();
    client.create_container("pictures");
    let page_blob = [("x-ms-blob-type", "PageBlob"), ("x-ms-blob-content-length", GIB)];
    assert_eq!(client.blob("PUT", "/pictures/disk", &page_blob, b"").unwrap().status, 201);
    let url = format!("http://127.0.0.1:{}{}", server.blob_port, signed("/pictures/disk"));
    let block = "/pictures/cat?comp=block&blockid=AAAA";
    let reply = client.blob("PUT", block, &[("x-ms-copy-source", &url)], b"").unwrap();
    assert_eq!(reply.status, 201, "{}", reply.text());
    let list = b"<BlockList><Latest>AAAA</Latest></BlockList>";
    assert_eq!(client.blob("PUT", "/pictures/cat?comp=blocklist", &[], list).unwrap().status, 201);
    let head = client.blob("HEAD", "/pictures/cat", &[], b"").unwrap();
    assert_eq!(head.header("content-length"), Some(GIB));
    let end = [("x-ms-range", "bytes=1073741820-")];
    assert_eq!(client.blob("GET", "/pictures/cat", &end, b"").unwrap().body, [0; 4]);
    assert!(on_disk(&data.path().join("extents")) < 64 * MIB as u64);

    let page = [("x-ms-page-write", "update"), ("x-ms-range", "bytes=0-511")];
    assert_eq!(client.blob("PUT", "/pictures/disk?comp=page", &page, &[1; 512]).unwrap().status, 201);
    let reply = client.blob("PUT", block, &[("x-ms-copy-source", &url)], b"").unwrap();
    assert_eq!((reply.status, reply.code().as_str()), (413, "RequestBodyTooLarge"));
}

/// What Azure has as settings of an account, and not of the protocol.
#[test]
fn options_of_the_command_keep_what_was_replaced_and_deleted() {
    let server = Server::in_memory(&[
        "--versioned-account",
        "devstoreaccount1",
        "--container-retention-days",
        "7",
        "--rehydration-seconds",
        "0",
    ]);
    let mut client = server.blobs();
    client.create_container("pictures");
    let [first, second] = ["first", "second"].map(|content| {
        client.put_blob("/pictures/cat", content.as_bytes()).header("x-ms-version-id").unwrap().to_owned()
    });
    let version = |id: &str| format!("/pictures/cat?versionid={}", id.replace(':', "%3A"));
    let old = client.get_blob(&version(&first));
    assert_eq!((old.status, &*old.body, old.header("x-ms-version-id")), (200, &b"first"[..], Some(&*first)));
    assert_eq!(old.header("x-ms-is-current-version"), None);
    assert_eq!(client.get_blob(&version(&second)).header("x-ms-is-current-version"), Some("true"));
    let list = client.get_blob("/pictures?restype=container&comp=list&include=versions").text();
    for id in [&first, &second] {
        assert!(list.contains(&format!("<VersionId>{id}</VersionId>")), "{list}");
    }
    assert_eq!(client.blob("DELETE", "/pictures/cat", &[], b"").unwrap().status, 202);
    assert_eq!(client.get_blob("/pictures/cat").status, 404);
    assert_eq!(client.get_blob(&version(&second)).body, b"second");

    client.put_blob("/pictures/dog", b"dog");
    let mut set_tier = |tier| {
        client.blob("PUT", "/pictures/dog?comp=tier", &[("x-ms-access-tier", tier)], b"").unwrap().status
    };
    assert_eq!((set_tier("Archive"), set_tier("Hot")), (200, 202));
    wait_until("it is back", || client.get_blob("/pictures/dog").body == b"dog");

    let delete = client.blob("DELETE", "/pictures?restype=container", &[], b"").unwrap();
    assert_eq!((delete.status, client.get_blob("/pictures/dog").status), (202, 404));
    let list = client.get_blob("/?comp=list&include=deleted").text();
    let (_, rest) = list.split_once("<Version>").unwrap();
    let (deleted, _) = rest.split_once('<').unwrap();
    let names = [("x-ms-deleted-container-name", "pictures"), ("x-ms-deleted-container-version", deleted)];
    let restored = client.blob("PUT", "/pictures?restype=container&comp=undelete", &names, b"").unwrap();
    assert_eq!((restored.status, client.get_blob("/pictures/dog").status), (201, 200), "{}", restored.text());
}

#[test]
fn a_batch_deletes_what_it_may() {
    let server = Server::in_memory(&[]);
    let mut client = server.blobs();
    client.create_container("pictures");
    client.create_container("others");
    for path in ["/pictures/cat", "/pictures/dog", "/others/cow"] {
        client.put_blob(path, b"x");
    }
    let unsigned = "/devstoreaccount1/pictures/dog".to_owned();
    let targets = [signed("/pictures/cat"), unsigned, signed("/pictures/none"), signed("/others/cow")];
    let statuses = batch_of_deletions(&mut client, "/pictures?restype=container&comp=batch", &targets);
    assert_eq!(statuses, ["202", "404", "404", "400"]);
    for (path, status) in [("/pictures/cat", 404), ("/pictures/dog", 200), ("/others/cow", 200)] {
        assert_eq!(client.get_blob(path).status, status, "{path}");
    }
}

/// A server that sends the first half of a body, and the rest on a signal. It accepts one connection.
struct SlowSource {
    url: String,
    go_on: mpsc::Sender<Rest>,
}

enum Rest {
    Send,
    BreakOff,
}

impl SlowSource {
    fn start(body: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/cat.png?token=secret", listener.local_addr().unwrap());
        let (go_on, signal) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(read_request(&mut stream).starts_with(b"GET /cat.png?token=secret HTTP/1.1"));
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nContent-Type: image/png\r\nCache-Control: no-store\r\n\
                 x-ms-meta-color: red\r\nETag: \"1\"\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            let (first, second) = body.split_at(body.len() / 2);
            stream.write_all(first).unwrap();
            if let Ok(Rest::Send) = signal.recv() {
                let _ = stream.write_all(second);
            }
        });
        Self { url, go_on }
    }
}

/// The head of a request that has no body.
fn read_request(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece).unwrap() {
            0 => break,
            length => head.extend_from_slice(&piece[..length]),
        }
    }
    head
}

fn copy_header(client: &mut Client, name: &str) -> String {
    let head = client.blob("HEAD", "/copies/cat", &[], b"").unwrap();
    head.header(name).unwrap_or_default().to_owned()
}

fn start_copy(client: &mut Client, source: &SlowSource) -> String {
    let reply = client.blob("PUT", "/copies/cat", &[("x-ms-copy-source", &source.url)], b"").unwrap();
    assert_eq!((reply.status, reply.header("x-ms-copy-status")), (202, Some("pending")), "{}", reply.text());
    reply.header("x-ms-copy-id").unwrap().to_owned()
}

fn wait_for_half(client: &mut Client) {
    wait_until("half of it is there", || {
        copy_header(client, "x-ms-copy-progress") == format!("{MIB}/{}", 2 * MIB)
    });
}

#[test]
fn a_copy_from_another_server_goes_on_after_the_answer() {
    let server = Server::in_memory(FROM_HERE);
    let mut client = server.blobs();
    client.create_container("copies");
    client.put_blob("/copies/cat", b"before");
    let bytes = noise(2 * MIB);
    let source = SlowSource::start(bytes.clone());
    start_copy(&mut client, &source);
    wait_for_half(&mut client);
    assert_eq!(client.get_blob("/copies/cat").body, b"");
    let put = client.blob("PUT", "/copies/cat", &[BLOCK_BLOB], b"x").unwrap();
    assert_eq!((put.status, put.code().as_str()), (409, "PendingCopyOperation"));
    source.go_on.send(Rest::Send).unwrap();
    wait_until("it is done", || copy_header(&mut client, "x-ms-copy-status") == "success");
    let got = client.get_blob("/copies/cat");
    assert!(got.body == bytes);
    for (name, value) in [
        ("content-type", "image/png"),
        ("cache-control", "no-store"),
        ("x-ms-meta-color", "red"),
        ("x-ms-copy-progress", "2097152/2097152"),
    ] {
        assert_eq!(got.header(name), Some(value), "{name}");
    }
    assert!(!got.header("x-ms-copy-source").unwrap().contains("secret"));
}

#[test]
fn a_copy_from_another_server_is_aborted_or_fails() {
    let server = Server::in_memory(FROM_HERE);
    let mut client = server.blobs();
    client.create_container("copies");
    let source = SlowSource::start(noise(2 * MIB));
    let id = start_copy(&mut client, &source);
    let abort = format!("/copies/cat?comp=copy&copyid={id}");
    let reply = client.blob("PUT", &abort, &[("x-ms-copy-action", "abort")], b"").unwrap();
    assert_eq!(reply.status, 204, "{}", reply.text());
    assert_eq!(copy_header(&mut client, "x-ms-copy-status"), "aborted");
    assert_eq!(copy_header(&mut client, "content-length"), "0");

    let source = SlowSource::start(noise(2 * MIB));
    start_copy(&mut client, &source);
    source.go_on.send(Rest::BreakOff).unwrap();
    wait_until("it has failed", || copy_header(&mut client, "x-ms-copy-status") == "failed");
    assert!(copy_header(&mut client, "x-ms-copy-status-description").contains("Copy failed"));
    client.put_blob("/copies/cat", b"free again");
}

#[test]
fn a_copy_from_another_server_does_not_outlive_this_one() {
    let data = TempDir::new().unwrap();
    let server = Server::on_disk_with(data.path(), FROM_HERE);
    let mut client = server.blobs();
    client.create_container("copies");
    let source = SlowSource::start(noise(2 * MIB));
    start_copy(&mut client, &source);
    // So that something is in the store already, and the server waits for more.
    wait_for_half(&mut client);
    drop(client);
    server.stop();
    let server = Server::on_disk(data.path());
    let mut client = server.blobs();
    wait_until("it has failed", || copy_header(&mut client, "x-ms-copy-status") == "failed");
    client.put_blob("/copies/cat", b"free again");
}

#[test]
fn sources_that_only_this_server_reaches_have_to_be_listed() {
    let source = Server::in_memory(&[]);
    let mut client = source.blobs();
    client.create_container("pictures");
    client.put_blob("/pictures/cat", b"meow");
    let port = source.blob_port;
    let at = |host: &str| format!("http://{host}:{port}{}", signed("/pictures/cat"));
    let with_port = format!("127.0.0.1:{port}");
    let (v4, name, v6) = (at("127.0.0.1"), at("localhost"), at("[::ffff:127.0.0.1]"));
    let metadata = "http://169.254.169.254/latest".to_owned();
    for (options, url, status) in [
        (&["--allow-remote-copy"][..], &v4, 403),
        (&["--allow-remote-copy"], &name, 403),
        (&["--allow-remote-copy"], &v6, 403),
        (&["--allow-remote-copy"], &metadata, 403),
        (&["--remote-copy-host", "localhost"], &v4, 403),
        (&["--remote-copy-host", "127.0.0.1:1"], &v4, 403),
        (&["--remote-copy-host", &with_port], &v4, 201),
        (&["--remote-copy-host", "127.0.0.0/8"], &v4, 201),
        (&["--remote-copy-host", "127.0.0.0/8"], &v6, 201),
        (&["--remote-copy-host", "other,127.0.0.1"], &v4, 201),
    ] {
        let server = Server::in_memory(options);
        let mut client = server.blobs();
        client.create_container("copies");
        let waiting = client.blob("PUT", "/copies/a", &[BLOCK_BLOB, ("x-ms-copy-source", url)], b"").unwrap();
        assert_eq!(waiting.status, status, "{options:?} {url} {}", waiting.text());
        let going_on = client.blob("PUT", "/copies/b", &[("x-ms-copy-source", url)], b"").unwrap();
        let status = if status == 201 { 202 } else { status };
        assert_eq!(going_on.status, status, "{options:?} {url} {}", going_on.text());
    }
}

/// A server that sends a byte of a long body from time to time to every client, until it is dropped.
fn dripping_source() -> (String, mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/drip", listener.local_addr().unwrap());
    let (keep, ended) = mpsc::channel();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let mut streams = Vec::new();
        while ended.recv_timeout(Duration::from_millis(50)) == Err(mpsc::RecvTimeoutError::Timeout) {
            while let Ok((mut stream, _)) = listener.accept() {
                // An answer that comes before the request would be taken for a broken connection.
                read_request(&mut stream);
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n").unwrap();
                streams.push(stream);
            }
            streams.retain_mut(|stream| stream.write_all(b"x").is_ok());
        }
    });
    (url, keep)
}

/// A server that copies from others on this machine, and waits this long before it checks their rate.
fn patient_server(grace_seconds: u32, options: &[&str]) -> (Server, TempDir) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("tepui.toml");
    std::fs::write(&file, format!("[limits]\npace-grace-seconds = {grace_seconds}\n")).unwrap();
    let config = ["--config", file.to_str().unwrap()];
    (Server::in_memory(&[FROM_HERE, &config, options].concat()), folder)
}

#[test]
fn a_source_that_drips_loses_its_turn() {
    let (server, _folder) = patient_server(1, &[]);
    let mut client = server.blobs();
    client.create_container("copies");
    let (url, _source) = dripping_source();
    let reply = client.blob("PUT", "/copies/cat", &[("x-ms-copy-source", &url)], b"").unwrap();
    assert_eq!(reply.status, 202, "{}", reply.text());
    wait_until("it has failed", || copy_header(&mut client, "x-ms-copy-status") == "failed");
    let waiting = client.blob("PUT", "/copies/cat", &[BLOCK_BLOB, ("x-ms-copy-source", &url)], b"").unwrap();
    assert_eq!((waiting.status, waiting.code().as_str()), (500, "CannotVerifyCopySource"));
}

#[test]
fn one_account_does_not_keep_others_from_copying() {
    let (server, _folder) = patient_server(3600, TWO_ACCOUNTS);
    let mut client = server.blobs();
    let container = client.unsigned("PUT", &signed_by_beta("/drips?restype=container"), &[], b"").unwrap();
    assert_eq!(container.status, 201, "{}", container.text());
    let (url, _source) = dripping_source();
    for number in 0..20 {
        let target = signed_by_beta(&format!("/drips/{number}"));
        let reply = client.unsigned("PUT", &target, &[("x-ms-copy-source", &url)], b"").unwrap();
        assert_eq!(reply.status, 202, "{}", reply.text());
    }
    client.create_container("copies");
    let source = SlowSource::start(noise(2 * MIB));
    start_copy(&mut client, &source);
    source.go_on.send(Rest::Send).unwrap();
    wait_until("it is done", || copy_header(&mut client, "x-ms-copy-status") == "success");
}

#[test]
fn a_failed_copy_has_the_error_of_its_source() {
    let server = Server::in_memory(&[]);
    let mut client = server.blobs();
    client.create_container("pictures");
    let missing = format!("http://127.0.0.1{}", signed("/pictures/none"));
    for (version, status, code) in
        [("2025-11-05", Some("404"), Some("BlobNotFound")), ("2025-07-05", None, None)]
    {
        let headers = [BLOCK_BLOB, ("x-ms-copy-source", &missing), ("x-ms-version", version)];
        let reply = client.blob("PUT", "/pictures/cat", &headers, b"").unwrap();
        assert_eq!((reply.status, reply.code().as_str()), (404, "CannotVerifyCopySource"));
        assert_eq!(reply.header("x-ms-copy-source-status-code"), status, "{version}");
        assert_eq!(reply.header("x-ms-copy-source-error-code"), code, "{version}");
        assert_eq!(reply.text().contains("<CopySourceErrorMessage>"), status.is_some(), "{version}");
    }
}

/// Sends a batch that deletes, and has the status of each answer in it.
fn batch_of_deletions(client: &mut Client, path: &str, targets: &[String]) -> Vec<String> {
    let mut body = String::new();
    for (index, target) in targets.iter().enumerate() {
        body += &format!(
            "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: {index}\r\n\r\n\
             DELETE {target} HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
        );
    }
    body += "--b--\r\n";
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    let reply = client.blob("POST", path, &headers, body.as_bytes()).unwrap();
    assert_eq!(reply.status, 202, "{}", reply.text());
    let text = reply.text();
    text.split("HTTP/1.1 ").skip(1).map(|part| part.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn a_batch_of_an_account_may_call_it_a_container() {
    let server = Server::in_memory(&[]);
    let mut client = server.blobs();
    for path in ["?comp=batch", "?comp=batch&restype=container"] {
        client.blob("PUT", "/pictures?restype=container", &[], b"").unwrap();
        client.blob("PUT", "/others?restype=container", &[], b"").unwrap();
        client.put_blob("/pictures/cat", b"x");
        client.put_blob("/others/cow", b"x");
        let targets = [signed("/pictures/cat"), signed("/others/cow"), signed("/others/cow")];
        assert_eq!(batch_of_deletions(&mut client, path, &targets), ["202", "202", "404"], "{path}");
    }
    let reply = client.blob("PUT", "?restype=container", &[], b"").unwrap();
    assert_eq!(reply.status, 400, "{}", reply.text());
}

#[test]
fn checksums_come_and_go_between_the_bytes() {
    let server = Server::in_memory(&[]);
    let mut client = server.blobs();
    client.create_container("pictures");
    const FORM: (&str, &str) = ("x-ms-structured-body", "XSM/1.0; properties=crc64");
    for length in [0, 10, 5 * MIB] {
        let bytes = noise(length);
        client.put_blob("/pictures/plain", &bytes);
        let wrapped = client.blob("GET", "/pictures/plain", &[FORM], b"").unwrap();
        let plain = wrapped.header("x-ms-structured-content-length").unwrap();
        assert_eq!((wrapped.status, plain), (200, &*length.to_string()));
        assert!(wrapped.header("x-ms-structured-body").is_some() && wrapped.body.len() > length);
        let headers = [BLOCK_BLOB, FORM, ("x-ms-structured-content-length", plain)];
        let put = client.blob("PUT", "/pictures/unwrapped", &headers, &wrapped.body).unwrap();
        assert_eq!(put.status, 201, "{}", put.text());
        assert_eq!(client.get_blob("/pictures/unwrapped").body, bytes);
        let mut spoiled = wrapped.body.clone();
        *spoiled.last_mut().unwrap() ^= 1;
        let put = client.blob("PUT", "/pictures/spoiled", &headers, &spoiled).unwrap();
        assert_eq!((put.status, put.code().as_str()), (400, "Crc64Mismatch"));
    }
}

#[test]
fn damaged_bytes_are_never_sent() {
    let data = TempDir::new().unwrap();
    let bytes = noise(8 * MIB);
    let server = Server::on_disk(data.path());
    server.blobs().create_container("pictures");
    server.blobs().put_blob("/pictures/cat", &bytes);
    assert_eq!(server.stop().0.code(), Some(0));
    let volumes = std::fs::read_dir(data.path().join("extents")).unwrap();
    for volume in volumes.map(|file| file.unwrap().path()) {
        let mut content = std::fs::read(&volume).unwrap();
        if let Some(byte) = content.get_mut(6 * MIB) {
            *byte ^= 1;
            std::fs::write(&volume, content).unwrap();
        }
    }
    let server = Server::on_disk(data.path());
    let mut client = server.blobs();
    client
        .send(format!("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", signed("/pictures/cat")).as_bytes())
        .unwrap();
    assert_eq!(client.head().unwrap().status, 200);
    let came = client.rest();
    assert!(came.len() < bytes.len() && bytes.starts_with(&came), "{} bytes", came.len());
}

#[test]
fn memory_does_not_grow_with_blobs() {
    const PIECES: usize = 160;
    let data = TempDir::new().unwrap();
    let server = Server::on_disk(data.path());
    let mut client = server.blobs();
    client.create_container("pictures");
    let piece = noise(MIB);
    client.put_blob("/pictures/first", &piece);
    client.get_blob("/pictures/first");
    let before = server.most_resident_kib();
    let head = format!(
        "PUT {} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-blob-type: BlockBlob\r\nContent-Length: {}\r\n\r\n",
        signed("/pictures/cat"),
        PIECES * MIB
    );
    client.send(head.as_bytes()).unwrap();
    for _ in 0..PIECES {
        client.send(&piece).unwrap();
    }
    assert_eq!(client.reply().unwrap().status, 201);
    let mut stream = TcpStream::connect(("127.0.0.1", server.blob_port)).unwrap();
    let get =
        format!("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", signed("/pictures/cat"));
    stream.write_all(get.as_bytes()).unwrap();
    let (mut came, mut space) = (0, vec![0; MIB]);
    loop {
        match stream.read(&mut space).unwrap() {
            0 => break,
            count => came += count,
        }
    }
    assert!(came > PIECES * MIB, "{came}");
    let grown = server.most_resident_kib() - before;
    println!("grown by {grown} KiB");
    assert!(grown < 48 * 1024, "grown by {grown} KiB");
}

#[test]
fn memory_does_not_grow_with_lists() {
    const BLOBS: usize = 5000;
    let data = TempDir::new().unwrap();
    let server = Server::on_disk(data.path());
    let mut client = server.blobs();
    client.create_container("pictures");
    let content = noise(16 * 1024);
    // Concurrently, as each waits for the disk.
    std::thread::scope(|scope| {
        for lane in 0..8 {
            let (mut client, content) = (server.blobs(), &content);
            scope.spawn(move || {
                for number in (lane..BLOBS).step_by(8) {
                    client.put_blob(&format!("/pictures/{number:05}"), content);
                }
            });
        }
    });
    let list = |client: &mut Client| {
        let (mut found, mut pages, mut marker) = (0, 0, String::new());
        loop {
            let path = format!("/pictures?restype=container&comp=list&marker={marker}");
            let text = client.blob("GET", &path, &[], b"").unwrap().text();
            found += text.matches("<Blob>").count();
            pages += 1;
            let Some((_, next)) = text.split_once("<NextMarker>") else { return (found, pages) };
            marker = next.split('<').next().unwrap().replace('+', "%2B").replace('=', "%3D");
        }
    };
    let before = server.most_resident_kib();
    let (found, pages) = list(&mut client);
    let first = server.most_resident_kib();
    list(&mut client);
    let (grown, again) = (first - before, server.most_resident_kib() - first);
    println!("{pages} pages, grown by {grown} KiB, and the second time by {again} KiB");
    assert_eq!(found, BLOBS);
    // 80 MiB of content are not read for them.
    assert!(pages == 1 && grown < 32 * 1024 && again < 16 * 1024, "{pages} pages: {grown} KiB, {again} KiB");
}
