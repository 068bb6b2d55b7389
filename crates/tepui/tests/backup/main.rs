//! Backups of the real server under load, what is restored from them, and receivers that misbehave.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may")]

#[path = "../support/mod.rs"]
mod support;

mod load;

use load::Load;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};
use support::{Server, check_healthy, tepui, wait_until};
use tempfile::TempDir;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path is a text")
}

fn run(arguments: &[&str]) -> Output {
    tepui(arguments, Path::new("")).output().unwrap()
}

fn succeed(arguments: &[&str]) -> String {
    let output = run(arguments);
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// To a directory, to an archive, and to standard output, in turns.
fn back_up(data: &Path, to: &Path, round: usize) {
    match round % 3 {
        0 => drop(succeed(&["backup", "--data-dir", text(data), "--to", text(to)])),
        1 => drop(succeed(&["backup", "--data-dir", text(data), "--to", text(&to.with_extension("tar"))])),
        _ => {
            let mut command = tepui(&["backup", "--data-dir", text(data)], Path::new(""));
            command.stdout(File::create(to.with_extension("tar")).unwrap()).stderr(Stdio::piped());
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

fn restore(from: &Path, to: &Path, round: usize) {
    match round % 3 {
        0 => drop(succeed(&["restore", text(from), text(to)])),
        1 => drop(succeed(&["restore", text(&from.with_extension("tar")), text(to)])),
        _ => {
            let mut command = tepui(&["restore", "-", text(to)], Path::new(""));
            command.stdin(File::open(from.with_extension("tar")).unwrap());
            assert!(command.status().unwrap().success());
        }
    }
}

#[test]
fn a_backup_under_load_restores_to_a_prefix_of_what_was_acknowledged() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let server = Server::on_disk(&data);
    let load = Load::start(&server);
    for round in 0..support::crash_rounds(4) {
        std::thread::sleep(Duration::from_millis(400));
        let before = load.acknowledged();
        let to = directory.path().join(format!("backup-{round}"));
        back_up(&data, &to, round);
        let after = load.attempted();
        load.pause(true);
        let restored = directory.path().join(format!("restored-{round}"));
        restore(&to, &restored, round);
        check_healthy(&restored);
        let copy = Server::on_disk(&restored);
        load.check(&copy, &before, &after);
        let (status, _, log) = copy.stop();
        assert!(status.success() && !log.contains("ERROR"), "{log}");
        check_healthy(&restored);
        load.pause(false);
    }
    let slowest = load.stop();
    println!("the slowest request took {slowest:?}");
    let (status, _, log) = server.stop();
    assert!(status.success() && !log.contains("ERROR"), "{log}");
}

#[test]
fn a_stopped_or_killed_server_is_backed_up_from_its_directory() {
    for is_killed in [false, true] {
        let directory = TempDir::new().unwrap();
        let data = directory.path().join("data");
        let server = Server::on_disk(&data);
        let load = Load::start(&server);
        std::thread::sleep(Duration::from_millis(300));
        load.stop_clients();
        let (before, after) = (load.acknowledged(), load.attempted());
        match is_killed {
            true => server.kill(),
            false => drop(server.stop()),
        }
        let to = directory.path().join("backup");
        back_up(&data, &to, 0);
        let restored = directory.path().join("restored");
        restore(&to, &restored, 0);
        load.check(&Server::on_disk(&restored), &before, &after);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    let data = path("data");
    let server = Server::on_disk(&data);
    server.blobs().create_container("pics");
    server.blobs().put_blob("/pics/one", &support::blob::noise(1, 300_000));
    back_up(&data, &path("backup"), 1);
    let archive = path("backup.tar");

    let said = refused(&["backup", "--data-dir", text(&data), "--to", text(&archive)]);
    assert!(said.contains("there already"), "{said}");
    let said = refused(&["backup", "--data-dir", text(&data), "--to", text(&data)]);
    assert!(said.contains("not empty"), "{said}");
    let said = refused(&["backup", "--data-dir", text(&path("nothing")), "--to", text(&path("other"))]);
    assert!(said.contains("not a data directory") && !path("other").exists(), "{said}");
    let said = refused(&["restore", text(&archive), text(&data)]);
    assert!(said.contains("not empty"), "{said}");
    let said = refused(&["restore", text(&path("nothing")), text(&path("other"))]);
    assert!(said.contains("nothing is restored") && !path("other").exists(), "{said}");

    let whole = std::fs::read(&archive).unwrap();
    let damaged = path("damaged.tar");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for bytes in [&whole[..whole.len() / 2], &whole[..0], &flipped, b"something else"] {
        std::fs::write(&damaged, bytes).unwrap();
        let said = refused(&["restore", text(&damaged), text(&path("other"))]);
        assert!(said.contains("damaged") && !path("other").exists(), "{said}");
    }
    // A directory that was there stays, empty.
    std::fs::create_dir(path("empty")).unwrap();
    refused(&["restore", text(&damaged), text(&path("empty"))]);
    assert_eq!(std::fs::read_dir(path("empty")).unwrap().count(), 0);

    // No server takes a backup, or half a restore, for its data.
    back_up(&data, &path("backup"), 0);
    let said =
        refused(&["serve", "--data-dir", text(&path("backup")), "--table-port", "0", "--services", "table"]);
    assert!(said.contains("FORMAT is missing"), "{said}");
    std::fs::write(path("empty").join("RESTORING"), "").unwrap();
    let said =
        refused(&["serve", "--data-dir", text(&path("empty")), "--table-port", "0", "--services", "table"]);
    assert!(said.contains("restore again"), "{said}");
}

fn ask(data: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(data.join("control.sock")).unwrap();
    stream.write_all(b"GET /backup HTTP/1.1\r\n\r\n").unwrap();
    let mut begun = [0; 15];
    stream.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200 OK");
    stream
}

#[test]
fn receivers_that_vanish_or_stop_reading_do_no_harm() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let mut server = Server::on_disk(&data);
    let mut blobs = server.blobs();
    blobs.create_container("pics");
    for number in 0..6 {
        blobs.put_blob(&format!("/pics/{number}"), &support::blob::noise(number, 3 << 20));
    }
    let used = || support::blob::on_disk(&data.join("extents"));
    let full = used();
    assert!(full > 17 << 20, "{full}");

    // One that reads nothing more: frees wait for it, requests do not, and a second backup is refused.
    let stuck = ask(&data);
    for number in 0..5 {
        assert_eq!(blobs.blob("DELETE", &format!("/pics/{number}"), &[], b"").unwrap().status, 202);
    }
    let said = refused(&["backup", "--data-dir", text(&data), "--to", text(&directory.path().join("b"))]);
    assert!(said.contains("another backup is being made"), "{said}");
    // An upload that fails is answered at once.
    let wrong = [support::blob::BLOCK_BLOB, ("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==")];
    let begun = Instant::now();
    assert_eq!(blobs.blob("PUT", "/pics/bad", &wrong, &vec![1; 2 << 20]).unwrap().status, 400);
    assert!(begun.elapsed() < Duration::from_secs(5));
    std::thread::sleep(Duration::from_secs(6));
    assert!(used() >= full, "what is being copied is not freed");
    // Then it is gone.
    drop(stuck);
    wait_until("the space of what was deleted is freed", || used() < 6 << 20);
    wait_until("nothing is left of the backup", || !data.join("rows/CHECKPOINT").exists());
    back_up(&data, &directory.path().join("b"), 0);

    // A server stops although a receiver does not read.
    let stuck = ask(&data);
    let begun = Instant::now();
    assert!(server.is_running());
    let (status, _, log) = server.stop();
    assert!(status.success() && begun.elapsed() < Duration::from_secs(10), "{log}");
    assert!(log.contains("a backup was given up"), "{log}");
    drop(stuck);
    assert!(!data.join("control.sock").exists() && !data.join("rows/CHECKPOINT").exists());
}

#[test]
fn only_the_owner_reaches_the_control_socket_also_under_a_long_path() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("long".repeat(40)).join("data");
    let server = Server::on_disk(&data);
    let mode = data.join("control.sock").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    back_up(&data, &directory.path().join("backup"), 0);
    for entry in ["BACKUP", "CHECKSUMS", "rows/MANIFEST"] {
        let mode = directory.path().join("backup").join(entry).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{entry}");
    }
    // What a killed server leaves is no obstacle.
    server.kill();
    assert!(data.join("control.sock").exists());
    let _server = Server::on_disk(&data);
    back_up(&data, &directory.path().join("second"), 1);
}
