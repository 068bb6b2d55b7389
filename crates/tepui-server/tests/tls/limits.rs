//! Clients that begin a handshake and do not go on, or send nothing at all.

use crate::support::{HEALTH, PATIENCE, client, connect, exchange, start};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The beginning of a handshake: a record of 512 bytes, of which a few are there.
const HALF_A_HELLO: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0];

/// Whether the server closes a connection, and how long that takes.
async fn closed_after(stream: &mut TcpStream, since: Instant) -> Duration {
    let mut rest = Vec::new();
    // An alert may come first.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("it is closed");
    since.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_half_open_handshakes_disturb_nobody() {
    const HALF_OPEN: usize = 1000;
    allow_files(4 * HALF_OPEN as u64);
    let server = start(|config, _| config.limits.handshake_timeout = Duration::from_secs(5)).await;
    let config = Arc::new(client(&server.ca()));
    let mut kept = connect(&config, server.table(), "localhost").await.unwrap();
    let mut half_open = Vec::new();
    let since = Instant::now();
    for _ in 0..HALF_OPEN {
        let mut stream = TcpStream::connect(server.table()).await.unwrap();
        stream.write_all(HALF_A_HELLO).await.unwrap();
        half_open.push(stream);
    }
    for round in 0..20 {
        let begun = Instant::now();
        assert!(exchange(&mut kept, HEALTH).await.starts_with("HTTP/1.1 200 "), "{round}");
        let mut new = connect(&config, server.table(), "localhost").await.unwrap();
        assert!(exchange(&mut new, HEALTH).await.starts_with("HTTP/1.1 200 "), "{round}");
        let mut plain = TcpStream::connect(server.table()).await.unwrap();
        assert!(exchange(&mut plain, HEALTH).await.starts_with("HTTP/1.1 200 "), "{round}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{round}: {:?}", begun.elapsed());
    }
    assert!(since.elapsed() < Duration::from_secs(5), "they are still half open: {:?}", since.elapsed());
    for mut stream in half_open {
        let after = closed_after(&mut stream, since).await;
        assert!(after >= Duration::from_secs(4), "{after:?}");
    }
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    let metrics = server.metrics().await;
    let line = format!(r#"tepui_tls_handshakes_total{{service="table",outcome="failed"}} {HALF_OPEN}"#);
    assert!(metrics.contains(&line), "{metrics}");
    assert!(exchange(&mut kept, HEALTH).await.starts_with("HTTP/1.1 200 "));
    server.stop().await;
}

#[tokio::test]
async fn what_is_no_handshake_ends_at_once_or_in_time() {
    let server = start(|config, _| {
        config.limits.handshake_timeout = Duration::from_millis(300);
        config.limits.head_timeout = Duration::from_millis(600);
    })
    .await;
    for (case, sent, least, most) in [
        ("nothing", &[][..], 500, 5000),
        ("half a handshake", HALF_A_HELLO, 250, 5000),
        ("one byte of it", &[0x16], 250, 5000),
        ("nonsense in it", &[0x16; 64], 0, 5000),
        ("an old version", b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10", 0, 5000),
    ] {
        let mut stream = TcpStream::connect(server.table()).await.unwrap();
        let since = Instant::now();
        stream.write_all(sent).await.unwrap();
        let after = closed_after(&mut stream, since).await.as_millis();
        assert!((least..most).contains(&after), "{case}: {after} ms");
    }
    server.stop().await;
}

#[tokio::test]
async fn half_open_handshakes_count_as_connections_and_do_not_delay_the_end() {
    let server = start(|config, _| {
        config.limits.max_connections = 8;
        config.limits.handshake_timeout = Duration::from_millis(500);
        config.limits.shutdown_grace = Duration::from_secs(20);
    })
    .await;
    // A listener has three quarters of all.
    let mut half_open = Vec::new();
    for _ in 0..6 {
        let mut stream = TcpStream::connect(server.table()).await.unwrap();
        stream.write_all(HALF_A_HELLO).await.unwrap();
        half_open.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let since = Instant::now();
    let mut plain = TcpStream::connect(server.table()).await.unwrap();
    assert!(exchange(&mut plain, HEALTH).await.starts_with("HTTP/1.1 200 "));
    assert!(since.elapsed() >= Duration::from_millis(200), "it had to wait: {:?}", since.elapsed());
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    // Silent ones are closed for the sake of others, as they are without TLS.
    let mut silent = Vec::new();
    for _ in 0..12 {
        silent.push(TcpStream::connect(server.table()).await.unwrap());
    }
    let since = Instant::now();
    let mut other = TcpStream::connect(server.table()).await.unwrap();
    assert!(exchange(&mut other, HEALTH).await.starts_with("HTTP/1.1 200 "));
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    let mut last = TcpStream::connect(server.ports()[0]).await.unwrap();
    last.write_all(HALF_A_HELLO).await.unwrap();
    let since = Instant::now();
    server.stop().await;
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
}

#[cfg(unix)]
fn allow_files(most: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < most) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
    }
}

#[cfg(not(unix))]
fn allow_files(_: u64) {}
