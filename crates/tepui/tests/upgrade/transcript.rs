//! What is written to a data directory, and everything that is read back from it, as text.

use crate::support::Server;
use crate::support::blob::{BLOCK_BLOB, noise};
use crate::support::http::{Client, Reply};
use crate::support::table::{Change, properties};
use serde_json::json;
use std::fmt::Write;

const JSON: (&str, &str) = ("Accept", "application/json;odata=fullmetadata");
const MIB: usize = 1024 * 1024;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Size {
    /// All of it fits into the journal.
    Small,
    /// So much that there are tables as well.
    Large,
}

/// Puts something of every kind into tables, queues and containers whose names begin with `name`.
pub(crate) fn write(server: &Server, name: &str, size: Size) {
    write_tables(&mut server.client(), name, size);
    write_queues(&mut Client::connect(server.queue_port).unwrap(), name);
    write_blobs(&mut server.blobs(), name);
}

/// Some more, of which a server that is killed then has only the journal.
pub(crate) fn write_more(server: &Server) {
    let mut tables = server.client();
    for row in 0..20 {
        let change = Change::new("PUT", format!("more-{row}"), properties(json!({"Number": row})));
        expect(&tables.change("oldPeople", "more", &change).unwrap(), 204);
    }
    let gone = Change::new("DELETE", "0", properties(json!({}))).if_match("*");
    expect(&tables.change("oldPeople", "smith", &gone).unwrap(), 204);
    server.blobs().put_blob("/old-blobs/more", &pattern(9, 300_000));
}

fn write_tables(client: &mut Client, name: &str, size: Size) {
    let table = format!("{name}People");
    client.create_table(&table);
    client.create_table(&format!("{name}Empty"));
    let every_kind = json!({
        "Text": "Grüße, 東京 \u{1F30D}\n\"quoted\"", "Empty": "", "Int32": -7, "Double": 2.5, "Bool": true,
        "Int64": "9007199254740993", "Int64@odata.type": "Edm.Int64",
        "When": "2024-02-29T12:34:56.1234567Z", "When@odata.type": "Edm.DateTime",
        "Id": "c9da6455-213d-42c9-9a79-3e9149a57833", "Id@odata.type": "Edm.Guid",
        "Bytes": "AAEC/w==", "Bytes@odata.type": "Edm.Binary",
    });
    for row in 0..50 {
        let change = Change::new("PUT", row.to_string(), properties(every_kind.clone()));
        expect(&client.change(&table, "smith", &change).unwrap(), 204);
    }
    for row in 0..10 {
        let gone = Change::new("DELETE", (row * 5 + 1).to_string(), properties(json!({}))).if_match("*");
        expect(&client.change(&table, "smith", &gone).unwrap(), 204);
        let merged = Change::new("PATCH", (row * 5 + 2).to_string(), properties(json!({"Merged": row})));
        expect(&client.change(&table, "smith", &merged).unwrap(), 204);
    }
    let changes: Vec<Change> = (0..100)
        .map(|row| Change::new("PUT", format!("{row:03}"), properties(json!({"Batch": row}))))
        .collect();
    assert!(matches!(
        client.batch(&table, "batch", &changes).unwrap(),
        crate::support::table::Applied::All(_)
    ));
    if size == Size::Large {
        let text = "All work and no play makes Jack a dull boy. ".repeat(700);
        for row in 0..900 {
            let large = properties(json!({"Text": text, "Again": text, "Number": row}));
            let change = Change::new("PUT", format!("{row:04}"), large);
            expect(&client.change(&table, "large", &change).unwrap(), 204);
        }
    }
}

fn write_queues(client: &mut Client, name: &str) {
    let queue = format!("{name}-queue");
    let metadata = [("x-ms-meta-purpose", "tests"), ("Content-Length", "0")];
    expect(&client.request("PUT", &format!("/{queue}"), &metadata, b"").unwrap(), 201);
    for number in 0..40 {
        let body = format!("<QueueMessage><MessageText>message {number}</MessageText></QueueMessage>");
        let target = format!("/{queue}/messages?messagettl=-1");
        expect(&client.request("POST", &target, &[], body.as_bytes()).unwrap(), 201);
    }
    for message in client.get_messages(&queue, 5, 60).unwrap() {
        expect(&client.delete_message(&queue, &message).unwrap(), 204);
    }
}

fn write_blobs(client: &mut Client, name: &str) {
    let container = format!("{name}-blobs");
    let metadata = [("x-ms-meta-purpose", "tests"), ("x-ms-blob-public-access", "blob")];
    expect(&client.blob("PUT", &format!("/{container}?restype=container"), &metadata, b"").unwrap(), 201);
    for (blob, length) in
        [("empty", 0), ("small", 100), ("page", 5000), ("medium", 200_000), ("large", 2 * MIB)]
    {
        let headers =
            [BLOCK_BLOB, ("x-ms-meta-length", "asked"), ("Content-Type", "text/plain"), ("x-ms-tags", "a=b")];
        expect(
            &client.blob("PUT", &format!("/{container}/{blob}"), &headers, &pattern(1, length)).unwrap(),
            201,
        );
    }
    let blocks = ["AAAA", "AAAB", "AAAC"];
    for (number, id) in blocks.iter().enumerate() {
        let target = format!("/{container}/blocks?comp=block&blockid={id}");
        expect(&client.blob("PUT", &target, &[], &pattern(number as u64, 100_000)).unwrap(), 201);
    }
    let list = blocks.map(|id| format!("<Latest>{id}</Latest>")).concat();
    let list = format!("<BlockList>{list}</BlockList>");
    expect(
        &client.blob("PUT", &format!("/{container}/blocks?comp=blocklist"), &[], list.as_bytes()).unwrap(),
        201,
    );
    expect(
        &client.blob("PUT", &format!("/{container}/blocks?comp=block&blockid=AAAD"), &[], b"later").unwrap(),
        201,
    );
    let append = [("x-ms-blob-type", "AppendBlob")];
    expect(&client.blob("PUT", &format!("/{container}/append"), &append, b"").unwrap(), 201);
    for number in 0..3 {
        let target = format!("/{container}/append?comp=appendblock");
        expect(&client.blob("PUT", &target, &[], &pattern(number, 70_000)).unwrap(), 201);
    }
    let pages = [("x-ms-blob-type", "PageBlob"), ("x-ms-blob-content-length", "1048576")];
    expect(&client.blob("PUT", &format!("/{container}/pages"), &pages, b"").unwrap(), 201);
    for (range, length) in
        [("bytes=0-511", 512), ("bytes=524288-786431", 262_144), ("bytes=600064-600575", 512)]
    {
        let headers = [("x-ms-range", range), ("x-ms-page-write", "update")];
        expect(
            &client
                .blob("PUT", &format!("/{container}/pages?comp=page"), &headers, &pattern(5, length))
                .unwrap(),
            201,
        );
    }
    expect(&client.blob("PUT", &format!("/{container}/medium?comp=snapshot"), &[], b"").unwrap(), 201);
    client.put_blob(&format!("/{container}/medium"), &pattern(2, 150_000));
    let lease = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "-1")];
    let id = [("x-ms-proposed-lease-id", "c9da6455-213d-42c9-9a79-3e9149a57833")];
    expect(
        &client
            .blob("PUT", &format!("/{container}/large?comp=lease"), &[lease[0], lease[1], id[0]], b"")
            .unwrap(),
        201,
    );
    expect(&client.blob("DELETE", &format!("/{container}/empty"), &[], b"").unwrap(), 202);
}

/// Bytes that repeat themselves, so that the archive stays small, but at no multiple of a block.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    noise(seed, 997).into_iter().cycle().take(length).collect()
}

fn expect(reply: &Reply, status: u16) {
    assert_eq!(reply.status, status, "{}", reply.text());
}

/// Everything that [`write`] has put there with the name `old`, as the server answers.
pub(crate) fn read(server: &Server) -> String {
    let mut text = String::new();
    let mut tables = server.client();
    for partition in ["smith", "batch", "large", "more"] {
        // Pages of what is left, for large entities are many.
        let filter = format!("PartitionKey%20eq%20'{partition}'");
        let mut next = String::new();
        loop {
            let target = format!("/oldPeople()?$filter={filter}{next}");
            let reply = tables.request("GET", &target, &[JSON], b"").unwrap();
            let part = |name: &str| reply.header(name).map(str::to_owned);
            let (partition_key, row_key) =
                (part("x-ms-continuation-nextpartitionkey"), part("x-ms-continuation-nextrowkey"));
            note(&mut text, &format!("entities of {partition}{next}"), &reply, &[]);
            match partition_key.zip(row_key) {
                Some((partition, row)) => next = format!("&NextPartitionKey={partition}&NextRowKey={row}"),
                None => break,
            }
        }
    }
    for (what, target) in [
        ("tables", "/Tables?$filter=TableName%20ge%20'old'%20and%20TableName%20lt%20'ole'"),
        ("nothing", "/oldEmpty()"),
        ("one entity", "/oldPeople(PartitionKey='smith',RowKey='7')"),
        ("one that is gone", "/oldPeople(PartitionKey='smith',RowKey='6')"),
    ] {
        let reply = tables.request("GET", target, &[JSON], b"").unwrap();
        note(&mut text, what, &reply, &["etag"]);
    }
    let mut queues = Client::connect(server.queue_port).unwrap();
    let reply = queues.request("GET", "/old-queue?comp=metadata", &[], b"").unwrap();
    note(&mut text, "a queue", &reply, &["x-ms-approximate-messages-count", "x-ms-meta-purpose"]);
    let reply =
        queues.request("GET", "/old-queue/messages?peekonly=true&numofmessages=32", &[], b"").unwrap();
    note(&mut text, "messages", &reply, &[]);
    let mut blobs = server.blobs();
    let container = blobs.blob("GET", "/old-blobs?restype=container", &[], b"").unwrap();
    note(
        &mut text,
        "a container",
        &container,
        &["etag", "last-modified", "x-ms-meta-purpose", "x-ms-blob-public-access"],
    );
    let list = blobs.blob(
        "GET",
        "/old-blobs?restype=container&comp=list&include=snapshots,uncommittedblobs",
        &[],
        b"",
    );
    let list = list.unwrap().text();
    let names: Vec<(String, Option<String>)> = list
        .split("<Blob>")
        .skip(1)
        .map(|blob| (between(blob, "Name").unwrap(), between(blob, "Snapshot")))
        .collect();
    let _ = writeln!(text, "== blobs\n{names:?}");
    const PROPERTIES: &[&str] = &[
        "etag",
        "last-modified",
        "content-length",
        "content-type",
        "content-md5",
        "x-ms-meta-length",
        "x-ms-blob-type",
        "x-ms-lease-state",
        "x-ms-creation-time",
        "x-ms-tag-count",
        "x-ms-blob-committed-block-count",
        "x-ms-blob-sequence-number",
        "x-ms-access-tier",
    ];
    for (name, snapshot) in names {
        let at = snapshot.map_or(String::new(), |snapshot| format!("?snapshot={snapshot}"));
        let reply = blobs.get_blob(&format!("/old-blobs/{name}{at}"));
        note(&mut text, &format!("blob {name}{at}"), &reply, PROPERTIES);
    }
    for (what, target) in [
        ("blocks", "/old-blobs/blocks?comp=blocklist&blocklisttype=all"),
        ("page ranges", "/old-blobs/pages?comp=pagelist"),
        ("tags", "/old-blobs/small?comp=tags"),
    ] {
        note(&mut text, what, &blobs.blob("GET", target, &[], b"").unwrap(), &[]);
    }
    text
}

fn between(text: &str, name: &str) -> Option<String> {
    crate::support::blob::inside(text, name).map(str::to_owned)
}

/// An answer as text: its status, these headers, and its body; of a long one, how long it is and a hash.
fn note(text: &mut String, what: &str, reply: &Reply, headers: &[&str]) {
    let _ = writeln!(text, "== {what}\n{}", reply.status);
    for name in headers {
        let _ = writeln!(text, "{name}: {:?}", reply.header(name));
    }
    if reply.status >= 400 {
        let _ = writeln!(text, "{}", reply.code());
    } else if reply.body.len() > 20_000 || std::str::from_utf8(&reply.body).is_err() {
        let _ = writeln!(text, "{} bytes, hash {:016x}", reply.body.len(), fnv(&reply.body));
    } else {
        // XML begins with a byte order mark.
        let _ = writeln!(text, "{}", reply.text().trim_start_matches('\u{feff}'));
    }
}

/// A hash that will be the same for ever (FNV-1a).
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
