//! `tepui check`: nothing is found in a healthy directory, and everything that is damaged, with whose it is.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use support::blob::{BLOCK_BLOB, noise};
use support::http::Client;
use support::table::{Change, properties};
use support::{Server, check, check_healthy, tepui};
use tempfile::TempDir;
use tepui_local::{DiskEngine, EngineOptions};
use tepui_storage::{Commit, Engine, Key, KeyRange, ScanLimit, Snapshot, Transaction, Write};

/// Something of everything.
fn fill(directory: &Path) {
    let server = Server::on_disk(directory);
    let mut tables = server.client();
    tables.create_table("People");
    for number in 0..300 {
        let entity = properties(json!({"Name": format!("name {number}"), "Text": "x".repeat(200)}));
        let reply =
            tables.change("People", "p", &Change::new("POST", format!("{number:05}"), entity)).unwrap();
        assert_eq!(reply.status, 204);
    }
    let mut queues = Client::connect(server.queue_port).unwrap();
    queues.create_queue("jobs");
    for number in 0..20 {
        assert_eq!(queues.put_message("jobs", &number.to_string()).unwrap().status, 201);
    }
    let mut blobs = server.blobs();
    blobs.create_container("pics");
    let tagged = [BLOCK_BLOB, ("x-ms-tags", "color=red")];
    assert_eq!(blobs.blob("PUT", "/pics/tagged", &tagged, b"short").unwrap().status, 201);
    blobs.put_blob("/pics/small", &noise(1, 5000));
    blobs.put_blob("/pics/large", &noise(2, 300_000));
    for (id, seed) in [("AAAA", 3), ("BBBB", 4)] {
        let path = format!("/pics/blocks?comp=block&blockid={id}");
        assert_eq!(blobs.blob("PUT", &path, &[], &noise(seed, 70_000)).unwrap().status, 201);
    }
    let list = b"<BlockList><Latest>AAAA</Latest><Latest>BBBB</Latest></BlockList>";
    assert_eq!(blobs.blob("PUT", "/pics/blocks?comp=blocklist", &[], list).unwrap().status, 201);
    let path = "/pics/staged?comp=block&blockid=AAAA";
    assert_eq!(blobs.blob("PUT", path, &[], &noise(5, 70_000)).unwrap().status, 201);
    drop(server.stop());
}

/// Moves the rows from the log to tables.
fn flush(directory: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut options = EngineOptions::new(directory);
    options.memtable_bytes = 1;
    runtime.block_on(async {
        let engine = DiskEngine::open(options).unwrap();
        for _ in 0..2 {
            let nothing = Write::Delete(Key::from_static(b"\x80\0\0\0\0\0\0\0\x63"));
            let transaction = engine.begin().await.unwrap();
            transaction.commit(Commit::new(vec![], vec![nothing])).await.unwrap();
        }
        support::wait_until("a table", || std::fs::read_dir(directory.join("rows")).unwrap().count() > 1);
        engine.close();
    });
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn copy(from: &Path) -> TempDir {
    let to = TempDir::new().unwrap();
    for file in files(from) {
        let target = to.path().join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&file, &target).unwrap();
    }
    for folder in ["journal", "rows", "extents"] {
        std::fs::create_dir_all(to.path().join(folder)).unwrap();
    }
    to
}

/// What `tepui check` finds, as one text. It must find something.
fn damages(directory: &Path, what: &str) -> String {
    let before: Vec<_> =
        files(directory).into_iter().map(|file| (std::fs::read(&file).unwrap(), file)).collect();
    let (code, found) = check(directory);
    assert_eq!(code, Some(1), "{what}: {found:#}");
    assert!(found["damages"].as_u64().unwrap() > 0 && found["healthy"] == false, "{what}: {found:#}");
    let after = files(directory).into_iter().filter(|file| !file.ends_with("LOCK"));
    let before = before.into_iter().filter(|(_, file)| !file.ends_with("LOCK"));
    assert!(after.eq(before.map(|(_, file)| file)), "{what}: nothing is changed");
    found["findings"].to_string()
}

#[test]
fn a_healthy_directory_is_counted() {
    let directory = TempDir::new().unwrap();
    fill(directory.path());
    for case in ["in the log", "in tables"] {
        let found = check_healthy(directory.path());
        let live = &found["live"];
        for (name, count) in [
            ("tables", 1),
            ("entities", 300),
            ("queues", 1),
            ("messages", 20),
            ("containers", 1),
            ("blobs", 4),
            ("blob_bytes", 445_005),
            ("uncommitted_blocks", 1),
            ("extents", 4),
        ] {
            assert_eq!(live[name], count, "{case}, {name}: {found:#}");
        }
        flush(directory.path());
    }
    let output = tepui(&["check", directory.path().to_str().unwrap()], Path::new("")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("1 with 300 entities") && text.ends_with("healthy\n"), "{text}");
}

#[test]
fn what_is_no_directory_of_ours_is_not_checked() {
    let directory = TempDir::new().unwrap();
    let refused = |expected: &str| {
        let (code, said) = check(directory.path());
        assert_eq!(code, Some(2), "{said}");
        assert!(said.to_string().contains(expected), "{said}");
    };
    refused("not a data directory");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is made");
    let server = Server::on_disk(directory.path());
    refused("in use by another process");
    drop(server.stop());
    check_healthy(directory.path());
    std::fs::write(directory.path().join("FORMAT"), "3\n").unwrap();
    refused("start and stop the server once");
    std::fs::write(directory.path().join("FORMAT"), "99\n").unwrap();
    refused("format 99");
    std::fs::write(directory.path().join("FORMAT"), "4\n").unwrap();
    std::fs::write(directory.path().join("RESTORING"), "").unwrap();
    refused("restore again");
}

/// Rows that are lost or cannot be decoded, by what their keys begin with.
#[test]
fn every_kind_of_row_is_missed() {
    let directory = TempDir::new().unwrap();
    fill(directory.path());
    let mut spaces = Vec::new();
    for (space, lost) in [
        (0x20, "not in the catalogue"),
        (0x22, "not in the catalogue"),
        (0x24, "not in the catalogue"),
        (0x50, "the queue counts 0 messages, and has 20"),
        (0x90, "the queue counts 20 messages, and has 19"),
        (0x91, "a message has no text"),
        (0x92, "a message will not expire"),
        (0xA0, "belongs to no blob"),
        (0xA1, "a row that referred to it is lost"),
        (0xA2, "its content is missing"),
        (0xA3, "a row that referred to it is lost"),
        (0xA4, "a tag is not in the index"),
        (0xA5, "an extent that is not known"),
        (0xA9, "its content is missing"),
    ] {
        let case = copy(directory.path());
        change_row(case.path(), space, |key, _| Write::Delete(key)).unwrap();
        let found = damages(case.path(), &format!("without a row of {space:x}"));
        assert!(found.contains(lost), "without a row of {space:x}: {found}");
        spaces.push(space);
    }
    for space in spaces.into_iter().chain([0x10, 0x80]) {
        let case = copy(directory.path());
        let garble = |key, value: Key| Write::Put(key, [&[99], &value[1..]].concat().into());
        change_row(case.path(), space, garble).unwrap();
        let found = damages(case.path(), &format!("a row of {space:x} of another version"));
        assert!(found.contains("cannot be decoded"), "{space:x}: {found}");
    }
    let case = copy(directory.path());
    change_row(case.path(), 0x80, |key, value| Write::Put(key, value.slice(..value.len() - 1))).unwrap();
    let found = damages(case.path(), "an entity that was cut");
    assert!(found.contains("of table People of account devstoreaccount1"), "{found}");
}

/// Changes the last row of a kind.
fn change_row(directory: &Path, space: u8, change: impl Fn(Key, Key) -> Write) -> Option<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = DiskEngine::open(EngineOptions::new(directory)).unwrap();
        let transaction = engine.begin().await.unwrap();
        let range = KeyRange { start: vec![space].into(), end: vec![space + 1].into() };
        let limit = ScanLimit { max_rows: 10_000, max_bytes: usize::MAX };
        let (key, value) = transaction.scan(&range, limit).await.unwrap().rows.pop()?;
        transaction.commit(Commit::new(vec![], vec![change(key, value)])).await.unwrap();
        engine.close();
        Some(())
    })
}

#[test]
fn flipped_bytes_and_missing_files_are_found() {
    let directory = TempDir::new().unwrap();
    fill(directory.path());
    flush(directory.path());
    check_healthy(directory.path());
    let mut affected = String::new();
    for file in files(directory.path()) {
        let name = file.strip_prefix(directory.path()).unwrap();
        let written = std::fs::read(&file).unwrap();
        let is_guarded = name.starts_with("rows") || name.starts_with("extents");
        if !is_guarded || written.is_empty() {
            continue;
        }
        for place in [0, written.len() / 3, written.len() / 2, written.len() - 1] {
            let case = copy(directory.path());
            let mut flipped = written.clone();
            flipped[place] ^= 0x10;
            std::fs::write(case.path().join(name), flipped).unwrap();
            let what = format!("byte {place} of {}", name.display());
            // Extents end at sectors: what is behind the last one belongs to none.
            let found = damages(case.path(), &what);
            assert!(found.contains(&name.display().to_string()), "{what}: {found}");
            affected += &found;
        }
        let case = copy(directory.path());
        std::fs::write(case.path().join(name), &written[..written.len() / 2]).unwrap();
        damages(case.path(), &format!("half of {}", name.display()));
        let case = copy(directory.path());
        std::fs::remove_file(case.path().join(name)).unwrap();
        affected += &damages(case.path(), &format!("without {}", name.display()));
    }
    for whose in [
        "table People",
        "blob \\\"large\\\"",
        "blob \\\"blocks\\\"",
        "an uncommitted block of blob \\\"staged\\\"",
    ] {
        assert!(affected.contains(whose), "{whose}: {affected}");
    }
    for name in ["FORMAT", "rows", "journal", "extents"] {
        let case = copy(directory.path());
        let path = case.path().join(name);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap()
        } else {
            std::fs::remove_file(path).unwrap()
        }
        damages(case.path(), &format!("without {name}"));
    }
    let found: Value = check_healthy(directory.path());
    assert_eq!(found["garbage"]["orphaned_files"], 0);
}
