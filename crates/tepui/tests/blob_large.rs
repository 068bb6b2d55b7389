//! Large blobs: what comes back is what was sent, and the server's memory does not grow with it.
//!
//! 256 MiB in blocks, 100 MB in one request; 5 GiB and 300 MB with `TEPUI_TEST_LARGE=1`, which is better run with
//! `--release`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::Server;
use support::blob::{noise, on_disk, signed};
use support::http::Client;
use support::random::Random;
use tempfile::TempDir;

const MIB: u64 = 1024 * 1024;
/// What the process may hold beyond what it held after its first requests.
const MORE_MEMORY_KIB: u64 = 100 * 1024;
const CLIENTS: usize = 8;

/// Bytes of any length that take no memory: pieces of one MiB, each from another place in the same noise.
struct Pattern {
    noise: Vec<u8>,
    seed: u64,
}

impl Pattern {
    fn new(seed: u64) -> Self {
        Self { noise: noise(seed, 2 * MIB as usize), seed }
    }

    /// The bytes from a position to the end of its piece, but not beyond `end`.
    fn at(&self, position: u64, end: u64) -> &[u8] {
        let piece = position / MIB;
        let from =
            Random::new(self.seed ^ (piece + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)).below(MIB as usize);
        let until = ((piece + 1) * MIB).min(end);
        &self.noise[from + (position % MIB) as usize..from + (until - piece * MIB) as usize]
    }

    fn send(&self, client: &mut Client, mut position: u64, end: u64) -> io::Result<()> {
        while position < end {
            let bytes = self.at(position, end);
            client.send(bytes)?;
            position += bytes.len() as u64;
        }
        Ok(())
    }

    /// Reads the bytes that follow in an answer and fails if they are not these.
    fn expect(&self, client: &mut Client, mut position: u64, end: u64) {
        while position < end {
            let came = client.some((end - position).min(MIB) as usize);
            assert!(!came.is_empty(), "the answer ends at {position} of {end}");
            let mut rest = &came[..];
            while !rest.is_empty() {
                let expected = self.at(position, position + rest.len() as u64);
                assert!(rest.starts_with(expected), "other bytes from {position} on");
                position += expected.len() as u64;
                rest = &rest[expected.len()..];
            }
        }
    }
}

fn ask(client: &mut Client, method: &str, path: &str, headers: &str) {
    let text = format!("{method} {} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n", signed(path));
    client.send(text.as_bytes()).unwrap();
}

fn is_large() -> bool {
    std::env::var_os("TEPUI_TEST_LARGE").is_some()
}

/// A server that has served a little, and the memory that it needs for that.
fn serve(data: &TempDir) -> (Server, u64) {
    let server = Server::on_disk(data.path());
    let mut client = server.blobs();
    client.create_container("large");
    client.put_blob("/large/first", &noise(1, MIB as usize));
    client.get_blob("/large/first");
    let before = server.most_resident_kib();
    (server, before)
}

fn assert_memory(server: &Server, before_kib: u64) {
    let (most, grown) = (server.most_resident_kib(), server.most_resident_kib() - before_kib);
    println!("at most {most} KiB of memory, {grown} KiB more than before");
    assert!(grown < MORE_MEMORY_KIB, "{grown} KiB more memory than before");
}

#[test]
fn a_blob_of_many_blocks_comes_back_as_it_was_sent() {
    const BLOCK: u64 = 8 * MIB;
    // Neither begins nor ends where blocks do.
    const RANGE: u64 = 21 * MIB + 12_345;
    let size = if is_large() { 5 * 1024 * MIB } else { 256 * MIB };
    let data = TempDir::new().unwrap();
    let (server, before) = serve(&data);
    let pattern = &Pattern::new(Random::seeded("large blob").next());
    let id = |block: u64| format!("{block:08}");

    let (begun, next) = (Instant::now(), &AtomicU64::new(0));
    let block = |client: &mut Client, block: u64| {
        let (from, to) = (block * BLOCK, ((block + 1) * BLOCK).min(size));
        let path = format!("/large/blob?comp=block&blockid={}", id(block));
        ask(client, "PUT", &path, &format!("Content-Length: {}\r\n", to - from));
        pattern.send(client, from, to).unwrap();
        assert_eq!(client.reply().unwrap().status, 201);
    };
    in_parallel(&server, next, size.div_ceil(BLOCK), block);
    let ids: String =
        (0..size.div_ceil(BLOCK)).map(|block| format!("<Latest>{}</Latest>", id(block))).collect();
    let list = format!("<BlockList>{ids}</BlockList>");
    let put = server.blobs().blob("PUT", "/large/blob?comp=blocklist", &[], list.as_bytes()).unwrap();
    assert_eq!(put.status, 201, "{}", put.text());
    let uploaded_in = begun.elapsed();
    assert_memory(&server, before);

    let (begun, next) = (Instant::now(), &AtomicU64::new(0));
    let range = |client: &mut Client, range: u64| {
        let (from, to) = (range * RANGE, ((range + 1) * RANGE).min(size));
        ask(client, "GET", "/large/blob", &format!("x-ms-range: bytes={from}-{}\r\n", to - 1));
        let head = client.head().unwrap();
        assert_eq!((head.status, head.header("content-length")), (206, Some(&*(to - from).to_string())));
        pattern.expect(client, from, to);
    };
    in_parallel(&server, next, size.div_ceil(RANGE), range);
    let read_in = begun.elapsed();
    let taken = on_disk(&data.path().join("extents"));
    println!("{size} bytes: uploaded in {uploaded_in:?}, read in {read_in:?}; {taken} bytes on disk");
    assert!(taken < size + size / 100 + 4 * MIB, "{taken} bytes on disk for {size}");
    assert_memory(&server, before);
}

/// Does a number of things on several connections.
fn in_parallel(server: &Server, next: &AtomicU64, count: u64, work: impl Fn(&mut Client, u64) + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = server.blobs();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    work(&mut client, number);
                }
            });
        }
    });
}

#[test]
fn one_large_body_among_slow_clients() {
    const SLOW: usize = 8;
    let size = if is_large() { 300_000_000 } else { 100_000_000 };
    let data = TempDir::new().unwrap();
    let (server, before) = serve(&data);
    let pattern = &Pattern::new(Random::seeded("large body").next());
    let upload = |path: &str| {
        let mut client = server.blobs();
        let headers = format!("x-ms-blob-type: BlockBlob\r\nContent-Length: {size}\r\n");
        ask(&mut client, "PUT", path, &headers);
        client
    };
    let begun = Instant::now();
    let mut client = upload("/large/blob");
    pattern.send(&mut client, 0, size).unwrap();
    assert_eq!(client.reply().unwrap().status, 201);
    println!("{size} bytes in one request: {:?}", begun.elapsed());

    // Some write a little now and then, others read a little; fast clients are not delayed by them.
    let (over, turns) = (&AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..SLOW {
            let (turns, upload, server) = (&turns, &upload, &server);
            scope.spawn(move || {
                let mut writer = upload(&format!("/large/slow{number}"));
                let mut reader = server.blobs();
                ask(&mut reader, "GET", "/large/blob", "");
                assert_eq!(reader.head().unwrap().status, 200);
                let mut position = 0;
                while over.load(Ordering::Relaxed) == 0 && position < size {
                    pattern.send(&mut writer, position, position + 300_000).unwrap();
                    pattern.expect(&mut reader, position, position + 300_000);
                    position += 300_000;
                    turns.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
        }
        let begun = Instant::now();
        let mut client = server.blobs();
        ask(&mut client, "GET", "/large/blob", "");
        assert_eq!(client.head().unwrap().status, 200);
        pattern.expect(&mut client, 0, size);
        println!("read in {:?} among {} slow clients", begun.elapsed(), 2 * SLOW);
        support::wait_until("all are slow for a while", || turns.load(Ordering::Relaxed) > 10 * SLOW);
        over.store(1, Ordering::Relaxed);
    });
    let mut client = server.blobs();
    assert_eq!(client.get_blob("/large/slow0").status, 404);
    assert_memory(&server, before);
}
