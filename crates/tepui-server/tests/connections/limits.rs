//! Clients that are slow, silent, greedy or wrong: each is cut off, and the others are served.

use crate::support::{Client, LARGE_REPLY, start};
use std::time::{Duration, Instant};
use tepui_server::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// For what is to be cut off, and for what is not: that must hold on a busy machine too.
const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_millis(1000);

#[tokio::test]
async fn a_new_connection_that_says_nothing_is_closed() {
    let server = start(Limits { head_timeout: SHORT, ..Limits::default() }).await;
    let begun = Instant::now();
    assert_eq!(server.connect().await.rest().await, "");
    assert!(begun.elapsed() >= SHORT);
}

#[tokio::test]
async fn a_head_that_drips_is_cut_off() {
    let server = start(Limits { head_timeout: SHORT, ..Limits::default() }).await;
    for (case, first) in [("the first request", false), ("a later request", true)] {
        let mut client = server.connect().await;
        if first {
            client.get("/").await;
        }
        let begun = Instant::now();
        let (mut read, mut write) = client.stream.split();
        let drip = async {
            write.write_all(b"GET / HTTP/1.1\r\n").await.ok();
            loop {
                write.write_all(b"X-Drop: 1\r\n").await.ok();
                tokio::time::sleep(SHORT / 10).await;
            }
        };
        let mut nothing = Vec::new();
        tokio::select! {
            () = drip => {}
            outcome = timeout(Duration::from_secs(20), read.read_to_end(&mut nothing)) => {
                outcome.unwrap().ok();
            }
        }
        assert!(begun.elapsed() >= SHORT, "{case}");
        assert!(nothing.is_empty(), "{case}");
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_a_used_one_is_not() {
    let server = start(Limits { idle_timeout: LONG, ..Limits::default() }).await;
    let mut client = server.connect().await;
    for _ in 0..8 {
        client.get("/").await;
        tokio::time::sleep(LONG / 5).await;
    }
    let begun = Instant::now();
    client.get("/").await;
    assert_eq!(client.rest().await, "");
    assert!(begun.elapsed() >= LONG);
}

#[tokio::test]
async fn a_request_under_way_is_not_idle() {
    let limits =
        Limits { idle_timeout: SHORT, head_timeout: SHORT, body_timeout: SHORT, ..Limits::default() };
    let server = start(limits).await;
    let mut client = server.connect().await;
    client.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n").await;
    tokio::time::sleep(SHORT * 4).await;
    server.handler.release.add_permits(1);
    assert!(client.reply().await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_body_that_stops_is_answered_and_cut_off() {
    let server = start(Limits { body_timeout: SHORT, ..Limits::default() }).await;
    let mut client = server.connect().await;
    client.send("PUT /length HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc").await;
    assert!(client.reply().await.starts_with("HTTP/1.1 408"));
    client.stream.shutdown().await.ok();
    client.rest().await;
}

#[tokio::test]
async fn a_streamed_body_may_take_as_long_as_it_keeps_coming() {
    let limits = Limits { body_timeout: SHORT, pace_grace: SHORT / 2, ..Limits::default() };
    let server = start(limits).await;
    for (path, status) in [("/stream", 200), ("/length", 408)] {
        let mut client = server.connect().await;
        client.send(format!("PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 40000\r\n\r\n")).await;
        for _ in 0..40 {
            // A client that was disconnected is seen below.
            client.stream.write_all(&[b'x'; 1000]).await.ok();
            tokio::time::sleep(SHORT / 8).await;
        }
        assert!(client.reply().await.starts_with(&format!("HTTP/1.1 {status}")), "{path}");
    }
    let mut client = server.connect().await;
    client.send("PUT /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 40000\r\n\r\nabc").await;
    assert!(client.reply().await.starts_with("HTTP/1.1 408"));
}

#[tokio::test]
async fn a_body_that_drips_is_cut_off_by_its_pace() {
    let limits = Limits { pace_grace: SHORT, min_bytes_per_second: 1000, ..Limits::default() };
    let server = start(limits).await;
    let mut client = server.connect().await;
    client.send("PUT /length HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n").await;
    let (mut read, mut write) = client.stream.split();
    let drip = async {
        loop {
            write.write_all(b"x").await.ok();
            tokio::time::sleep(SHORT / 10).await;
        }
    };
    let mut reply = [0; 12];
    tokio::select! {
        () = drip => {}
        outcome = timeout(Duration::from_secs(20), read.read_exact(&mut reply)) => {
            outcome.unwrap().unwrap();
        }
    }
    assert_eq!(&reply, b"HTTP/1.1 408");
}

#[tokio::test]
async fn a_slow_body_within_its_pace_is_served() {
    let limits = Limits { pace_grace: SHORT, min_bytes_per_second: 10, ..Limits::default() };
    let server = start(limits).await;
    let mut client = server.connect().await;
    client.send("PUT /length HTTP/1.1\r\nHost: x\r\nContent-Length: 60\r\n\r\n").await;
    for _ in 0..6 {
        client.send("0123456789").await;
        tokio::time::sleep(SHORT / 2).await;
    }
    assert!(client.reply().await.ends_with("60"));
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off() {
    let server = start(Limits { write_timeout: SHORT, ..Limits::default() }).await;
    let mut client = server.connect().await;
    client.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
    client.stream.readable().await.unwrap();
    let begun = Instant::now();
    while server.shared.open_connections() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "still there");
        tokio::time::sleep(SHORT / 20).await;
    }
    assert!(client.rest().await.len() < LARGE_REPLY);
}

/// Reads a large reply at some 6 MiB a second until `until`. Returns how much it has read by then, or until the connection ended.
async fn read_slowly(stream: &mut TcpStream, until: impl Fn() -> bool) -> usize {
    let (mut space, mut total) = (vec![0; 64 * 1024], 0);
    while !until() {
        match stream.read(&mut space).await {
            Ok(0) | Err(_) => break,
            Ok(count) => total += count,
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    total
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_is_cut_off() {
    let limits = Limits { pace_grace: SHORT, min_bytes_per_second: 1 << 30, ..Limits::default() };
    let server = start(limits).await;
    let mut client = server.connect().await;
    client.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
    client.stream.readable().await.unwrap();
    let begun = Instant::now();
    read_slowly(&mut client.stream, || {
        assert!(begun.elapsed() < Duration::from_secs(20), "still there");
        server.shared.open_connections() == 0
    })
    .await;
    assert!(begun.elapsed() >= SHORT);
}

/// The system takes more bytes once a third of its buffer was read, which is megabytes here. So a client that reads all the time
/// seems to read nothing for longer than the rate is left unchecked.
#[tokio::test]
async fn a_client_that_reads_faster_than_it_must_is_not_cut_off() {
    let limits = Limits { pace_grace: SHORT / 10, min_bytes_per_second: 1 << 20, ..Limits::default() };
    let server = start(limits).await;
    let mut client = server.connect().await;
    client.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let begun = Instant::now();
    let mut total = read_slowly(&mut client.stream, || begun.elapsed() > 3 * LONG).await;
    assert!(total < LARGE_REPLY / 2, "{total} bytes are not slow");
    let mut space = vec![0; 1 << 20];
    while total < LARGE_REPLY {
        let count = client.stream.read(&mut space).await.unwrap();
        assert!(count > 0, "it breaks off after {total}");
        total += count;
    }
}

#[tokio::test]
async fn a_large_reply_is_read_slowly_without_harm() {
    let limits = Limits { write_timeout: LONG, head_timeout: LONG, idle_timeout: LONG, ..Limits::default() };
    let server = start(limits).await;
    let mut client = server.connect().await;
    client.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let begun = Instant::now();
    let mut space = vec![0; 1 << 20];
    let mut total = 0;
    while total < LARGE_REPLY {
        total += client.stream.read(&mut space).await.unwrap();
        if begun.elapsed() < LONG * 2 {
            tokio::time::sleep(SHORT / 20).await;
        }
    }
}

#[tokio::test]
async fn the_memory_of_a_reply_is_held_until_the_client_has_read_it() {
    let server = start(Limits::default()).await;
    let mut client = server.connect().await;
    client.send("GET /held HTTP/1.1\r\nHost: x\r\n\r\n").await;
    client.stream.readable().await.unwrap();
    assert_eq!(server.handler.memory.available_permits(), 0, "given back before it was read");
    client.reply().await;
    timeout(Duration::from_secs(20), server.handler.memory.acquire()).await.unwrap().unwrap().forget();
}

#[tokio::test]
async fn heads_that_are_too_large_or_nonsense_are_refused() {
    let server = start(Limits { max_head_bytes: 8192, max_headers: 20, ..Limits::default() }).await;
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", "x".repeat(9000));
    let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "X-More: 1\r\n".repeat(30));
    let endless = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Long: {}", "x".repeat(9000));
    for (case, text, status) in [
        ("too long", long.as_str(), "HTTP/1.1 431"),
        ("too long, and not at its end", &endless, "HTTP/1.1 431"),
        ("too many", &many, "HTTP/1.1 431"),
        ("nonsense", "\x01\x02\x03 nonsense\r\n\r\n", "HTTP/1.1 400"),
        ("no length that is a number", "PUT / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 400"),
    ] {
        let mut client = server.connect().await;
        client.send(text).await;
        let reply = client.rest().await;
        assert!(reply.starts_with(status), "{case}: {reply}");
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_idle_ones_to_go() {
    let server = start(Limits { max_connections: 2, ..Limits::default() }).await;
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    first.get("/").await;
    second.get("/").await;
    let mut third = server.connect().await;
    assert!(third.get("/").await.starts_with("HTTP/1.1 200"));
    let closed = tokio::select! {
        rest = first.rest() => rest,
        rest = second.rest() => rest,
    };
    assert_eq!(closed, "");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_busy_ones_to_finish() {
    let server = start(Limits { max_connections: 1, ..Limits::default() }).await;
    let mut first = server.connect().await;
    first.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n").await;
    server.handler.holding.acquire().await.unwrap().forget();
    let mut second = server.connect().await;
    second.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(timeout(SHORT, second.stream.readable()).await.is_err(), "served beyond the limit");
    server.handler.release.add_permits(1);
    let reply = first.rest().await;
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("connection: close"), "{reply}");
    assert!(second.reply().await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn large_bodies_share_a_budget_of_memory() {
    let limits = Limits {
        body_memory_bytes: 5 * 1024 * 1024,
        body_memory_timeout: Duration::from_millis(50),
        ..Limits::default()
    };
    let server = start(limits).await;
    let mut holder = server.connect().await;
    let large = vec![b'x'; 4 * 1024 * 1024];
    holder.send(format!("PUT /hold HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", large.len())).await;
    holder.send(&large).await;
    server.handler.holding.acquire().await.unwrap().forget();

    let second = format!("PUT /length HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", large.len());
    let mut refused = server.connect().await;
    refused.send(&second).await;
    assert!(refused.reply().await.starts_with("HTTP/1.1 503"));
    let mut small = server.connect().await;
    small.send("PUT /length HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello").await;
    assert!(small.reply().await.ends_with('5'));

    server.handler.release.add_permits(1);
    holder.reply().await;
    let mut again = server.connect().await;
    again.send(&second).await;
    again.send(&large).await;
    assert!(again.reply().await.ends_with("4194304"));
}

const MIB: usize = 1024 * 1024;

fn upload(account: &str, bytes: usize) -> String {
    format!("PUT /stream?{account} HTTP/1.1\r\nHost: x\r\nContent-Length: {bytes}\r\n\r\n")
}

#[tokio::test]
async fn slow_uploads_hold_no_memory_that_others_need() {
    let limits = Limits {
        body_memory_bytes: 8 * MIB,
        body_memory_timeout: Duration::from_secs(5),
        head_timeout: SHORT,
        min_bytes_per_second: 1,
        ..Limits::default()
    };
    for (case, first) in [("nothing much", 1000), ("a good beginning", 100_000)] {
        let server = start(limits.clone()).await;
        let mut slow = Vec::new();
        for _ in 0..10 {
            let mut client = server.connect().await;
            client.send(upload("one", 2 * MIB)).await;
            client.send(vec![b'x'; first]).await;
            slow.push(client);
        }
        for account in ["one", "two"] {
            let mut quick = server.connect().await;
            quick.send(upload(account, 4 * MIB)).await;
            quick.send(vec![b'x'; 4 * MIB]).await;
            let reply = quick.reply().await;
            assert!(reply.ends_with(&(4 * MIB).to_string()), "{case}, {account}: {reply}");
        }
        // They are served in the end, too.
        for client in &mut slow {
            client.send(vec![b'x'; 2 * MIB - first]).await;
            let reply = client.reply().await;
            assert!(reply.ends_with(&(2 * MIB).to_string()), "{case}: {reply}");
        }
    }
}

#[tokio::test]
async fn an_account_leaves_memory_to_the_others() {
    let limits = Limits {
        body_memory_bytes: 8 * MIB,
        body_memory_timeout: Duration::from_millis(50),
        ..Limits::default()
    };
    let server = start(limits).await;
    let mut greedy = Vec::new();
    for _ in 0..10 {
        let mut client = server.connect().await;
        client.send(upload("one", 2 * MIB)).await;
        client.stream.write_all(&vec![b'x'; MIB]).await.ok();
        greedy.push(client);
    }
    let mut other = server.connect().await;
    other.send(upload("two", 2 * MIB)).await;
    other.send(vec![b'x'; 2 * MIB]).await;
    assert!(other.reply().await.ends_with(&(2 * MIB).to_string()));
}

#[tokio::test]
async fn who_waits_for_room_comes_before_the_body_of_a_refused_request() {
    for (case, request) in [
        ("a length", "PUT /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc"),
        ("chunks", "PUT /refuse HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
        ("too long to be read", "PUT /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\nabc"),
    ] {
        let server = start(Limits { max_connections: 4, ..Limits::default() }).await;
        let mut refused = Vec::new();
        for _ in 0..4 {
            let mut client = server.connect().await;
            client.send(request).await;
            refused.push(client);
        }
        let mut other = server.connect().await;
        let begun = Instant::now();
        assert!(other.get("/").await.starts_with("HTTP/1.1 200"), "{case}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{case}: after {:?}", begun.elapsed());
        drop(other);
        // They hear their answer nevertheless.
        let mut answered = 0;
        for mut client in refused {
            client.stream.shutdown().await.ok();
            answered += usize::from(client.rest().await.starts_with("HTTP/1.1 403"));
        }
        assert!(answered >= 3, "{case}: {answered}");
    }
}

#[tokio::test]
async fn an_address_has_a_limit_of_its_own() {
    let server = start(Limits { max_connections_per_address: Some(2), ..Limits::default() }).await;
    let (mut first, mut second) = (server.connect().await, server.connect().await);
    for client in [&mut first, &mut second] {
        client.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n").await;
        server.handler.holding.acquire().await.unwrap().forget();
    }
    let begun = Instant::now();
    assert_eq!(server.connect().await.rest().await, "");
    assert!(begun.elapsed() < Duration::from_secs(5), "after {:?}", begun.elapsed());
    server.handler.release.add_permits(2);
    first.reply().await;
    second.reply().await;
    drop((first, second));
    while server.shared.open_connections() > 0 {
        tokio::time::sleep(SHORT / 20).await;
    }
    assert!(server.connect().await.get("/").await.starts_with("HTTP/1.1 200"));
}

/// Other systems have one address of their own only.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_address_beyond_its_limit_costs_others_no_connections() {
    let server = start(Limits { max_connections_per_address: Some(2), ..Limits::default() }).await;
    let mut other = Client::connect_from("127.0.0.2", server.address).await;
    other.get("/").await;
    let mut busy = server.connect().await;
    busy.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n").await;
    server.handler.holding.acquire().await.unwrap().forget();
    let mut idle = server.connect().await;
    idle.get("/").await;

    assert_eq!(server.connect().await.rest().await, "", "one too many");
    assert_eq!(idle.rest().await, "", "closed, to make room");
    let mut next = loop {
        let mut client = server.connect().await;
        client.stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.ok();
        // It closes just now, so that the first attempt may come too early.
        match timeout(Duration::from_secs(20), client.stream.peek(&mut [0])).await.unwrap() {
            Ok(1) => break client,
            _ => tokio::time::sleep(SHORT / 20).await,
        }
    };
    assert!(next.reply().await.starts_with("HTTP/1.1 200"));
    server.handler.release.add_permits(1);
    busy.reply().await;
    // What was idle all the time, of another address, is still there.
    assert!(other.get("/").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_port_leaves_connections_to_the_others() {
    let server = start(Limits { max_connections: 4, ..Limits::default() }).await;
    let other_port = server.second_port().await;
    let mut busy = Vec::new();
    for _ in 0..4 {
        let mut client = server.connect().await;
        client.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n").await;
        busy.push(client);
    }
    for _ in 0..3 {
        server.handler.holding.acquire().await.unwrap().forget();
    }
    assert!(Client::connect(other_port).await.get("/").await.starts_with("HTTP/1.1 200"));
}
