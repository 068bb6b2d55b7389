//! `tepui storage copy`: a whole data directory becomes another one, whatever the process lives through meanwhile.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use serde_json::json;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use support::blob::{BLOCK_BLOB, inside, noise, on_disk};
use support::http::Client;
use support::table::{Applied, Change, properties};
use support::{Server, check, check_healthy, tepui, wait_until};
use tempfile::TempDir;

const BLOBS: u64 = 60;
const BLOB_BYTES: usize = 1 << 20;

/// Something of everything, and so many large blobs that copying them takes a while.
fn fill(directory: &Path) {
    let server = Server::on_disk(directory);
    let mut tables = server.client();
    tables.create_table("People");
    for number in 0..50 {
        let entity = |row| {
            let values = json!({"Name": format!("name {row}"), "Number": row, "Text": "ü".repeat(100)});
            Change::new("POST", format!("{row:05}"), properties(values))
        };
        let changes: Vec<Change> = (0..20).map(|row| entity(number * 20 + row)).collect();
        assert!(matches!(tables.batch("People", "p", &changes).unwrap(), Applied::All(_)));
    }
    let mut queues = Client::connect(server.queue_port).unwrap();
    queues.create_queue("jobs");
    for number in 0..100 {
        assert_eq!(queues.put_message("jobs", &number.to_string()).unwrap().status, 201);
    }
    let mut blobs = server.blobs();
    blobs.create_container("pics");
    for number in 0..BLOBS {
        blobs.put_blob(&format!("/pics/large{number:03}"), &noise(number, BLOB_BYTES));
    }
    let tagged = [BLOCK_BLOB, ("x-ms-tags", "color=red"), ("x-ms-meta-team", "core")];
    assert_eq!(blobs.blob("PUT", "/pics/tagged", &tagged, b"short").unwrap().status, 201);
    assert_eq!(blobs.blob("PUT", "/pics/large000?comp=snapshot", &[], b"").unwrap().status, 201);
    for (id, seed) in [("AAAA", 300), ("BBBB", 400)] {
        let path = format!("/pics/blocks?comp=block&blockid={id}");
        assert_eq!(blobs.blob("PUT", &path, &[], &noise(seed, 70_000)).unwrap().status, 201);
    }
    let list = b"<BlockList><Latest>AAAA</Latest><Latest>BBBB</Latest></BlockList>";
    assert_eq!(blobs.blob("PUT", "/pics/blocks?comp=blocklist", &[], list).unwrap().status, 201);
    let path = "/pics/staged?comp=block&blockid=AAAA";
    assert_eq!(blobs.blob("PUT", path, &[], &noise(5, 70_000)).unwrap().status, 201);
    drop(server.stop());
}

/// All that a client sees.
fn see(directory: &Path) -> Vec<String> {
    let server = Server::on_disk(directory);
    let entities = server.client().query("People", "").unwrap();
    assert_eq!(entities.len(), 1000);
    let mut seen: Vec<String> = entities.iter().map(|entity| format!("{entity:?}")).collect();
    let mut queues = Client::connect(server.queue_port).unwrap();
    seen.push(queues.count_messages("jobs").unwrap().to_string());
    let messages = queues.get_messages("jobs", 32, 1).unwrap();
    seen.push(format!("{:?}", messages.iter().map(|message| &message.text).collect::<Vec<_>>()));
    let mut blobs = server.blobs();
    let list = "/pics?restype=container&comp=list&include=snapshots,metadata,tags,uncommittedblobs";
    let list = blobs.blob("GET", list, &[("x-ms-version", "2021-12-02")], b"").unwrap().text();
    seen.push(inside(&list, "Blobs").unwrap().to_owned());
    for number in 0..BLOBS {
        let read = blobs.get_blob(&format!("/pics/large{number:03}"));
        assert!(read.status == 200 && read.body == noise(number, BLOB_BYTES), "{number}");
        seen.push(read.etag());
    }
    assert_eq!(blobs.get_blob("/pics/blocks").body, [noise(300, 70_000), noise(400, 70_000)].concat());
    let list = b"<BlockList><Latest>AAAA</Latest></BlockList>";
    assert_eq!(blobs.blob("PUT", "/pics/staged?comp=blocklist", &[], list).unwrap().status, 201);
    assert_eq!(blobs.get_blob("/pics/staged").body, noise(5, 70_000));
    drop(server.stop());
    seen
}

fn storage(command: &str, from: &Path, to: &Path) -> Command {
    let mut storage = tepui(&["storage", command], from);
    storage.arg(format!("local:{}", from.display())).arg(format!("local:{}", to.display()));
    storage.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    storage
}

fn run(command: &str, from: &Path, to: &Path) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = storage(command, from, to).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap())
}

/// Is killed with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Copies until so many bytes of blobs are in the target.
fn kill_at(from: &Path, to: &Path, bytes: u64) {
    let mut copy = Killed(storage("copy", from, to).spawn().unwrap());
    wait_until("bytes of blobs", || {
        assert!(copy.0.try_wait().unwrap().is_none(), "it ended before it was killed");
        to.join("extents").is_dir() && on_disk(&to.join("extents")) >= bytes
    });
    copy.0.kill().unwrap();
    let status = copy.0.wait().unwrap();
    assert_eq!(status.code(), None, "it was killed: {status}");
}

/// What a server says that does not start.
fn refusal_to_serve(directory: &Path) -> String {
    let ports = ["--table-port", "0", "--queue-port", "0", "--blob-port", "0"];
    let mut command = tepui(&["serve", "--data-dir", directory.to_str().unwrap()], directory);
    let mut server =
        Killed(command.args(ports).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    wait_until("the refusal", || server.0.try_wait().unwrap().is_some());
    assert!(!server.0.wait().unwrap().success());
    std::io::read_to_string(server.0.stderr.take().unwrap()).unwrap()
}

#[test]
fn a_directory_is_copied_though_the_process_is_killed_twice() {
    let folder = TempDir::new().unwrap();
    let [from, to, back] = ["from", "to", "back"].map(|name| folder.path().join(name));
    fill(&from);
    let half = BLOBS * BLOB_BYTES as u64 / 2;
    for bytes in [half / 2, half + half / 2] {
        kill_at(&from, &to, bytes);
        let why = refusal_to_serve(&to);
        assert!(why.contains("not finished"), "{why}");
        let (code, found) = check(&to);
        assert!(code == Some(1) && found.to_string().contains("not finished"), "{found:#}");
        for (command, from, to) in [("verify", &from, &to), ("copy", &to, &back)] {
            let (code, told) = run(command, from, to);
            assert!(code == Some(1) && told.contains("not finished"), "{told}");
        }
    }
    let (code, told) = run("copy", &from, &to);
    assert!(code == Some(0) && told.contains("continued and verified"), "{told}");
    for counted in
        ["tables      1 with 1000 entities", "queues      1 with 100 messages", "containers  1 with 62 blobs"]
    {
        assert!(told.contains(counted), "{told}");
    }
    let (code, told) = run("verify", &from, &to);
    assert!(code == Some(0) && told.lines().any(|line| line.ends_with("equal")), "{told}");
    let (code, told) = run("copy", &from, &to);
    assert!(code == Some(1) && told.contains("not empty"), "{told}");
    check_healthy(&to);
    // Extents that a killed process had written are swept by the first server.
    let (code, told) = run("copy", &to, &back);
    assert!(code == Some(0) && told.contains("copied and verified"), "{told}");
    let seen = see(&from);
    assert_eq!(see(&to), seen);
    assert_eq!(see(&back), seen);
    for directory in [&to, &back] {
        check_healthy(directory);
    }
    let (code, told) = run("verify", &from, &to);
    assert!(code == Some(1) && told.contains("differ"), "servers have changed both: {told}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = TempDir::new().unwrap();
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    let (code, told) = run("copy", &from, &to);
    assert!(code == Some(1) && told.contains("not a data directory"), "{told}");
    assert!(!from.exists() && !to.exists(), "nothing is made");
    let server = Server::on_disk(&from);
    let (code, told) = run("copy", &from, &to);
    assert!(code == Some(1) && told.contains("in use by another process"), "{told}");
    drop(server.stop());
    let (code, told) = run("copy", &from, &from);
    assert!(code == Some(1) && told.contains("in use by another process"), "{told}");
    let (code, told) = run("verify", &from, &to);
    assert!(code == Some(1) && told.contains("not a data directory"), "{told}");
    let refused = tepui(&["storage", "copy", "somewhere", "local:x"], &from).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let (code, told) = run("copy", &from, &to);
    assert!(code == Some(0) && told.contains("0 rows"), "{told}");
}
