//! Connections that are many, silent, slow, or gone.

use crate::siege::{Siege, TABLE};
use crate::support::SAS;
use crate::support::blob::signed;
use crate::support::http::Client;
use crate::support::table::{Applied, Change, properties};
use crate::support::wait_until;
use serde_json::json;
use std::time::{Duration, Instant};

const MANY: usize = 300;
/// A timeout of half a second has taken effect by then, even on a busy machine.
const SOON: Duration = Duration::from_secs(15);
const SHORT: &str = "head-timeout-seconds = 0.5\nbody-timeout-seconds = 0.5\nwrite-timeout-seconds = 0.5\n\
    pace-grace-seconds = 0.5\nmin-bytes-per-second = 1000";

fn crowd(siege: &Siege, count: usize) -> Vec<Client> {
    (0..count).map(|_| siege.server.client()).collect()
}

fn insert_head(length: usize) -> String {
    format!(
        "POST /devstoreaccount1/{TABLE}?{SAS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Accept: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
}

#[test]
fn silent_and_slow_clients_are_cut_off() {
    for (case, first, drip) in [
        ("nothing at all", "", ""),
        ("half a line", "GET /dev", ""),
        ("a head that drips", "GET / HTTP/1.1\r\n", "X-Drop: 1\r\n"),
        ("a body that never comes", &insert_head(1000), ""),
        ("a body that drips", &insert_head(50_000), " "),
    ] {
        let mut siege = Siege::lay(SHORT);
        let mut clients = crowd(&siege, MANY);
        for client in &mut clients {
            client.send(first.as_bytes()).unwrap();
        }
        siege.survived(case);
        let begun = Instant::now();
        let mut taken = if drip.is_empty() { 0 } else { MANY };
        while taken > 0 {
            assert!(begun.elapsed() < SOON, "{case}: {taken} connections still take it");
            std::thread::sleep(Duration::from_millis(20));
            taken = clients.iter_mut().map(|client| usize::from(client.send(drip.as_bytes()).is_ok())).sum();
        }
        for client in &mut clients {
            let text = String::from_utf8_lossy(&client.rest()).into_owned();
            let timed_out = text.starts_with("HTTP/1.1 500") && text.contains("OperationTimedOut");
            assert!(text.is_empty() || timed_out, "{case}: {text}");
        }
        assert!(begun.elapsed() < SOON, "{case}: still there after {:?}", begun.elapsed());
        siege.survived(case);
        siege.lift();
    }
}

#[test]
fn more_silent_connections_than_there_is_room_for() {
    // The neighbour is asked to come again now and then, as everyone is who was waiting meanwhile.
    let mut siege = Siege::lay_crowded("max-connections = 40");
    for _ in 0..10 {
        let silent = crowd(&siege, MANY);
        siege.survived("silent connections take every place");
        drop(silent);
        siege.survived("and leave");
    }
    siege.lift();
}

#[test]
fn clients_that_do_not_read_or_leave_before_the_end() {
    let mut siege = Siege::lay(SHORT);
    fill(&mut siege.server.client());
    let query = format!(
        "GET /devstoreaccount1/{TABLE}()?{SAS} HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n"
    );
    for round in 0..100 {
        let mut client = siege.server.client();
        client.send(query.as_bytes()).unwrap();
        if round % 2 == 0 {
            client.some(1000);
        }
    }
    siege.survived("gone before the end of the answer");

    // Far more than fits into the buffers between the two.
    let mut deaf = crowd(&siege, 8);
    for client in &mut deaf {
        client.send(query.repeat(50).as_bytes()).unwrap();
    }
    siege.survived("asking without reading");
    std::thread::sleep(Duration::from_secs(2));
    siege.assert_memory("while no client reads");
    for client in &mut deaf {
        let all = client.rest();
        let answers = all.windows(9).filter(|window| window == b"HTTP/1.1 ").count();
        assert!(answers < 50, "a client that does not read was waited for");
    }
    siege.survived("cut off for not reading");
    siege.lift();
}

/// About 1 MB of entities: a query holds its whole answer until it is read.
fn fill(client: &mut Client) {
    for from in (0..1000).step_by(100) {
        let text = "tepui ".repeat(150);
        let change = |n| Change::new("PUT", format!("large{n}"), properties(json!({"Text": text})));
        let changes: Vec<Change> = (from..from + 100).map(change).collect();
        assert!(matches!(client.batch(TABLE, "q", &changes).unwrap(), Applied::All(_)));
    }
}

#[test]
fn bodies_beyond_the_memory_for_them() {
    let mut siege = Siege::lay(
        "body-memory-bytes = 8388608\nbody-memory-timeout-seconds = 0.2\nbody-timeout-seconds = 3",
    );
    let megabyte = vec![b' '; 1024 * 1024];
    let mut clients = crowd(&siege, 60);
    for client in &mut clients {
        client.send(insert_head(4 * 1024 * 1024).as_bytes()).unwrap();
    }
    std::thread::scope(|scope| {
        for client in &mut clients {
            // Waits while the server does not read; that is what is wanted.
            scope.spawn(|| client.send(&megabyte));
        }
        siege.survived("while many send large bodies");
        siege.assert_memory("while many send large bodies");
    });
    // There is room for two; they do not go on and are cut off in the end.
    let statuses: Vec<u16> = clients.iter_mut().map(|client| client.reply().unwrap().status).collect();
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!(count(503) + count(500), 60, "{statuses:?}");
    assert!((1..=2).contains(&count(500)), "{statuses:?}");
    drop(clients);
    siege.survived("and leave");
    siege.lift();
}

#[test]
fn messages_that_no_client_reads() {
    let mut siege = Siege::lay("reply-memory-bytes = 16777216\nbody-memory-timeout-seconds = 0.2");
    let mut owner = Client::connect(siege.server.queue_port).unwrap();
    owner.create_queue("large");
    for _ in 0..32 {
        assert_eq!(owner.put_message("large", &"&amp;".repeat(65_536)).unwrap().status, 201);
    }
    let before = siege.server.resident_kib();
    let ask = format!(
        "GET /devstoreaccount1/large/messages?peekonly=true&numofmessages=32&{SAS} HTTP/1.1\r\nHost: x\r\n\r\n"
    );
    let mut deaf: Vec<Client> = (0..40).map(|_| Client::connect(siege.server.queue_port).unwrap()).collect();
    for client in &mut deaf {
        client.send(ask.as_bytes()).unwrap();
    }
    // There is memory for one; the others get 503.
    let statuses: Vec<u16> = deaf.iter_mut().map(|client| client.head().unwrap().status).collect();
    let held = siege.server.resident_kib().saturating_sub(before);
    assert!(held < 64 * 1024, "{held} KiB are held");
    assert!(statuses.contains(&200) && statuses.contains(&503), "{statuses:?}");
    siege.survived("while no client reads messages");
    drop(deaf);
    wait_until("memory is free again", || {
        owner.request("GET", "/large/messages?peekonly=true&numofmessages=32", &[], b"").unwrap().status
            == 200
    });
    siege.survived("and leave");
}

/// Readers that ask and read nothing, all at once: how they were answered, and how much memory they hold.
fn unread(siege: &Siege, port: u16, count: usize, target: &str) -> (Vec<u16>, u64) {
    let before = siege.server.resident_kib();
    let mut deaf: Vec<Client> = (0..count).map(|_| Client::connect(port).unwrap()).collect();
    for client in &mut deaf {
        // More than once: far more than fits into the buffers between the two.
        let ask = format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        client.send(ask.repeat(4).as_bytes()).unwrap();
    }
    let statuses = deaf.iter_mut().map(|client| client.head().unwrap().status).collect();
    (statuses, siege.server.resident_kib().saturating_sub(before))
}

#[test]
fn unread_replies_stay_within_their_memory_budget() {
    // What a connection needs for itself, and what is needed while answers are made.
    const EACH_KIB: u64 = 160;
    const MAKING_KIB: u64 = 32 * 1024;
    let mut siege = Siege::lay("reply-memory-bytes = 33554432\nbody-memory-timeout-seconds = 1");
    let port = siege.server.blob_port;
    let mut owner = siege.server.blobs();
    let open = [("x-ms-blob-public-access", "container")];
    assert_eq!(owner.blob("PUT", "/open?restype=container", &open, b"").unwrap().status, 201);
    let (id, long) = ("QUFB".repeat(21), "n".repeat(900));
    for number in 0..1000 {
        owner.put_blob(&format!("/open/{long}{number}"), b"");
    }
    assert_eq!(
        owner.blob("PUT", &format!("/open/blocks?comp=block&blockid={id}"), &[], b"x").unwrap().status,
        201
    );
    let blocks = format!("<Latest>{id}</Latest>").repeat(50_000);
    let list = format!("<BlockList>{blocks}</BlockList>");
    assert_eq!(owner.blob("PUT", "/open/blocks?comp=blocklist", &[], list.as_bytes()).unwrap().status, 201);
    owner.put_blob("/open/large", &vec![b'x'; 3 * 1024 * 1024]);
    for (case, target, count) in [
        ("a list", "/devstoreaccount1/open?restype=container&comp=list", 150),
        ("blocks", &signed("/open/blocks?comp=blocklist&blocklisttype=committed"), 40),
        ("a blob", "/devstoreaccount1/open/large", 300),
    ] {
        let (statuses, held) = unread(&siege, port, count, target);
        let most = 32 * 1024 + MAKING_KIB + count as u64 * EACH_KIB;
        assert!(held < most, "{case}: {held} KiB are held, not {most}");
        let answered = |status: &u16| matches!(status, 200 | 503);
        assert!(statuses.contains(&200) && statuses.iter().all(answered), "{case}: {statuses:?}");
        println!("{case}: {held} KiB for {count} readers");
        siege.survived(case);
        wait_until("memory is free again", || {
            owner.unsigned("GET", target, &[], b"").is_ok_and(|reply| reply.status == 200)
        });
    }
}

#[test]
fn accounts_that_do_not_exist() {
    let mut siege = Siege::lay("");
    for port in [siege.server.port, siege.server.queue_port, siege.server.blob_port] {
        let mut client = Client::connect(port).unwrap();
        for number in 0..1000 {
            let name = format!("{number}{}", "a".repeat(50_000));
            for method in ["GET", "OPTIONS"] {
                client
                    .send(format!("{method} /{name}/x HTTP/1.1\r\nHost: x\r\nOrigin: y\r\n\r\n").as_bytes())
                    .unwrap();
                let status = client.reply().unwrap().status;
                assert!(matches!(status, 400..500), "{method} {port} {status}");
            }
        }
    }
    siege.survived("asking for many accounts");
    siege.lift();
}

#[test]
fn ten_thousand_quick_visits() {
    let mut siege = Siege::lay("");
    let port = siege.server.port;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for visit in 0..2500 {
                    let mut client = Client::connect(port).unwrap();
                    match (thread + visit) % 4 {
                        0 => {}
                        1 => client.send(b"GET / HT").unwrap(),
                        2 => client.send(insert_head(100).as_bytes()).unwrap(),
                        _ => client.send(b"GET /health HTTP/1.1\r\n\r\n").unwrap(),
                    }
                }
            });
        }
    });
    siege.survived("10 000 visits");
    siege.lift();
}
