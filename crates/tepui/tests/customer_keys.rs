//! Keys that customers bring along: what is stored with one cannot be read without it, not even on the disk.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::path::Path;
use support::Server;
use support::blob::{BLOCK_BLOB, inside, signed};
use support::http::{Client, Reply};
use tempfile::TempDir;

/// 32 letters, as Base64, and their SHA-256.
const KEY_BYTES: &[u8] = b"a key that is thirty-two bytes l";
const KEY: &str = "YSBrZXkgdGhhdCBpcyB0aGlydHktdHdvIGJ5dGVzIGw=";
const KEY_HASH: &str = "qsvmhk5IfGJYFiHbrz+I69Qblm3OBSk57RK7OuoaS10=";
const KEYS: [(&str, &str); 3] = [
    ("x-ms-encryption-key", KEY),
    ("x-ms-encryption-key-sha256", KEY_HASH),
    ("x-ms-encryption-algorithm", "AES256"),
];
const OTHER_KEYS: [(&str, &str); 3] = [
    ("x-ms-encryption-key", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    ("x-ms-encryption-key-sha256", "Zmh6rfhivXdsj8GLjp+OIAiXFIVu4jOzkCpZHQ1fKSU="),
    ("x-ms-encryption-algorithm", "AES256"),
];
/// Stands in every line of what is stored.
const MARK: &str = "TEPUI-PLAINTEXT";

/// Lines of 32 bytes, each with the mark and a number.
fn marked(from: usize, bytes: usize) -> Vec<u8> {
    let lines = (0..bytes.div_ceil(32)).map(|line| format!("{MARK} {:015}\n", from + line));
    lines.collect::<String>().into_bytes()[..bytes].to_vec()
}

fn ask(client: &mut Client, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    client.blob(method, path, &[headers, &KEYS].concat(), body).unwrap()
}

fn put(client: &mut Client, path: &str, headers: &[(&str, &str)], body: &[u8]) {
    let reply = ask(client, "PUT", path, headers, body);
    assert!(matches!(reply.status, 200..=202), "{path}: {} {}", reply.status, reply.text());
    let encrypted = reply.header("x-ms-request-server-encrypted");
    assert!(encrypted.is_none_or(|encrypted| encrypted == "true"), "{path}");
}

/// All of a blob, and some ranges of it.
fn check(client: &mut Client, path: &str, expected: &[u8]) {
    let whole = ask(client, "GET", path, &[], b"");
    assert_eq!((whole.status, whole.body == expected), (200, true), "{path}: {}", whole.body.len());
    let end = expected.len();
    for (first, after) in
        [(0, 1), (end / 2, end), (end - 1, end), (end / 3, end / 3 + 100), (16_000, 40_000), (512, 1024)]
    {
        let range = format!("bytes={first}-{}", after - 1);
        let part = ask(client, "GET", path, &[("x-ms-range", &range)], b"");
        match expected.get(first..after.min(end)) {
            Some(expected) if !expected.is_empty() => {
                assert_eq!((part.status, part.body == expected), (206, true), "{path}: {range}");
            }
            _ => assert_eq!(part.status, 416, "{path}: {range}"),
        }
    }
    for (keys, code) in [
        (&[][..], "BlobUsesCustomerSpecifiedEncryption"),
        (&OTHER_KEYS, "BlobCustomerSpecifiedEncryptionMismatch"),
    ] {
        let refused = client.blob("GET", path, keys, b"").unwrap();
        assert_eq!(
            (refused.status, refused.text().contains(code)),
            (409, true),
            "{path}: {}",
            refused.text()
        );
    }
}

/// The files below a folder in which one of the texts stands.
fn files_with(folder: &Path, texts: &[&[u8]]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, texts));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        for text in texts {
            if bytes.windows(text.len()).any(|window| window == *text) {
                found.push(format!("{}: {}", path.display(), String::from_utf8_lossy(text)));
            }
        }
    }
    found
}

#[test]
fn nothing_on_the_disk_is_in_the_clear() {
    let data = TempDir::new().unwrap();
    let options = ["--versioned-account", "devstoreaccount1"];
    let server = Server::on_disk_with(data.path(), &options);
    let mut client = server.blobs();
    client.create_container("vault");
    let mut expected: Vec<(String, Vec<u8>)> = Vec::new();

    // In the row of the blob, in one of its own, and in the store.
    for bytes in [40, 200, 5000, 16 * 1024, 20_000, 1_000_000] {
        let (path, body) = (format!("/vault/whole-{bytes}"), marked(bytes, bytes));
        put(&mut client, &path, &[BLOCK_BLOB, ("x-ms-meta-note", MARK)], &body);
        expected.push((path, body));
    }
    put(&mut client, "/vault/empty", &[BLOCK_BLOB], b"");

    let (one, two) = (marked(1, 70_000), marked(2, 33));
    for (id, block) in [("MQ==", &one), ("Mg==", &two)] {
        put(&mut client, &format!("/vault/blocks?comp=block&blockid={id}"), &[], block);
    }
    let uncommitted = client.blob("GET", "/vault/blocks?comp=blocklist&blocklisttype=all", &[], b"").unwrap();
    for size in ["<Size>70000</Size>", "<Size>33</Size>"] {
        assert!(uncommitted.text().contains(size), "{}", uncommitted.text());
    }
    let list = "<BlockList><Latest>Mg==</Latest><Latest>MQ==</Latest><Latest>Mg==</Latest></BlockList>";
    put(&mut client, "/vault/blocks?comp=blocklist", &[], list.as_bytes());
    expected.push(("/vault/blocks".to_owned(), [&two[..], &one, &two].concat()));

    put(&mut client, "/vault/log", &[("x-ms-blob-type", "AppendBlob")], b"");
    let mut log = Vec::new();
    for bytes in [33, 50_000, 1] {
        put(&mut client, "/vault/log?comp=appendblock", &[], &marked(bytes, bytes));
        log.extend_from_slice(&marked(bytes, bytes));
    }
    expected.push(("/vault/log".to_owned(), log));

    let disk_bytes = 128 * 1024;
    let length = disk_bytes.to_string();
    put(
        &mut client,
        "/vault/disk",
        &[("x-ms-blob-type", "PageBlob"), ("x-ms-blob-content-length", &length)],
        b"",
    );
    let mut disk = vec![0; disk_bytes];
    let write = |client: &mut Client, disk: &mut Vec<u8>, start: usize, end: usize| {
        let (range, body) = (format!("bytes={start}-{}", end - 1), marked(start, end - start));
        let headers = [("x-ms-page-write", "update"), ("x-ms-range", range.as_str())];
        put(client, "/vault/disk?comp=page", &headers, &body);
        disk[start..end].copy_from_slice(&body);
    };
    // Small pages beside each other, large ones over them, and small ones within those.
    for (start, end) in [(0, 512), (512, 1024), (1024, 90_112), (4096, 4608), (40_960, 41_472), (512, 8192)] {
        write(&mut client, &mut disk, start, end);
    }
    let snapshot = ask(&mut client, "PUT", "/vault/disk?comp=snapshot", &[], b"");
    let taken = snapshot.header("x-ms-snapshot").unwrap();
    expected.push((format!("/vault/disk?snapshot={taken}"), disk.clone()));
    write(&mut client, &mut disk, 0, 65_536);
    let clear = [("x-ms-page-write", "clear"), ("x-ms-range", "bytes=20480-20991")];
    put(&mut client, "/vault/disk?comp=page", &clear, b"");
    disk[20_480..20_992].fill(0);
    put(&mut client, "/vault/disk?comp=properties", &[("x-ms-blob-content-length", "65536")], b"");
    disk.truncate(65_536);
    expected.push(("/vault/disk".to_owned(), disk));

    // A version stays as it was.
    let path = "/vault/versioned";
    put(&mut client, path, &[BLOCK_BLOB], &marked(7, 30_000));
    let version = ask(&mut client, "HEAD", path, &[], b"").header("x-ms-version-id").unwrap().to_owned();
    put(&mut client, path, &[BLOCK_BLOB], &marked(8, 30));
    expected.push((format!("{path}?versionid={version}"), marked(7, 30_000)));
    expected.push((path.to_owned(), marked(8, 30)));
    put(&mut client, "/vault/whole-40?comp=metadata", &[("x-ms-meta-note", "TEPUI-PLAINTEXT again")], b"");

    for (path, bytes) in &expected {
        check(&mut client, path, bytes);
    }
    let metadata = ask(&mut client, "HEAD", "/vault/whole-40", &[], b"");
    assert_eq!(metadata.header("x-ms-meta-note"), Some("TEPUI-PLAINTEXT again"));
    let listed = client.blob("GET", "/vault?restype=container&comp=list&include=metadata", &[], b"").unwrap();
    assert!(!listed.text().contains(MARK) && inside(&listed.text(), "Name").is_some());

    let (status, out, log) = server.stop();
    assert!(status.success());
    let secrets = [MARK.as_bytes(), KEY_BYTES, KEY.as_bytes()];
    assert_eq!(files_with(data.path(), &secrets), Vec::<String>::new());
    assert!(!out.contains(KEY) && !log.contains(KEY) && !log.contains("a key that is"));

    let server = Server::on_disk_with(data.path(), &options);
    let mut client = server.blobs();
    for (path, bytes) in &expected {
        check(&mut client, path, bytes);
    }
    assert_eq!(ask(&mut client, "GET", "/vault/empty", &[], b"").body, b"");
}

/// A blob without a key that is copied with one is encrypted, and does not share the bytes of its source.
#[test]
fn copies_are_encrypted() {
    let data = TempDir::new().unwrap();
    let server = Server::on_disk(data.path());
    let mut client = server.blobs();
    client.create_container("vault");
    let address = format!("http://127.0.0.1:{}", server.blob_port);
    for bytes in [100, 40_000] {
        let body = marked(0, bytes);
        client.put_blob("/vault/source", &body);
        let source = format!("{address}{}", signed("/vault/source"));
        let from = ("x-ms-copy-source", source.as_str());
        put(&mut client, "/vault/copy", &[BLOCK_BLOB, from], b"");
        put(&mut client, "/vault/block?comp=block&blockid=MQ==", &[from], b"");
        put(&mut client, "/vault/block?comp=blocklist", &[], b"<BlockList><Latest>MQ==</Latest></BlockList>");
        put(&mut client, "/vault/plain-copy", &[from], b"");
        for path in ["/vault/copy", "/vault/block", "/vault/plain-copy"] {
            check(&mut client, path, &body);
        }
        client.blob("DELETE", "/vault/source", &[], b"").unwrap();
        check(&mut client, "/vault/copy", &body);
    }
    // Pages and the zeros between them; then they can be written to.
    let page_blob = [("x-ms-blob-type", "PageBlob"), ("x-ms-blob-content-length", "65536")];
    assert_eq!(client.blob("PUT", "/vault/pages", &page_blob, b"").unwrap().status, 201);
    let at = |range| [("x-ms-page-write", "update"), ("x-ms-range", range)];
    let mut pages = vec![0; 65_536];
    pages[1024..31_232].copy_from_slice(&marked(0, 30_208));
    let body = &pages[1024..31_232];
    assert_eq!(
        client.blob("PUT", "/vault/pages?comp=page", &at("bytes=1024-31231"), body).unwrap().status,
        201
    );
    let source = format!("{address}{}", signed("/vault/pages"));
    put(&mut client, "/vault/encrypted", &[("x-ms-copy-source", &source)], b"");
    check(&mut client, "/vault/encrypted", &pages);
    put(&mut client, "/vault/encrypted?comp=page", &at("bytes=20480-20991"), &marked(9, 512));
    pages[20_480..20_992].copy_from_slice(&marked(9, 512));
    check(&mut client, "/vault/encrypted", &pages);
    // Not if there are very many: all of them would be written.
    let huge = [("x-ms-blob-type", "PageBlob"), ("x-ms-blob-content-length", "1099511627776")];
    assert_eq!(client.blob("PUT", "/vault/huge", &huge, b"").unwrap().status, 201);
    let source = format!("{address}{}", signed("/vault/huge"));
    let refused = ask(&mut client, "PUT", "/vault/no", &[("x-ms-copy-source", &source)], b"");
    assert_eq!(refused.status, 409, "{}", refused.text());
}
