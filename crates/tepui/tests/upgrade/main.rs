//! Data directories that earlier versions wrote are opened, upgraded and read back whole.
//!
//! `fixtures/` has, for each format of the data directory, one that was stopped in good order and one whose server was
//! killed: the directory as an archive, and as text what its server answered to the requests of [`transcript`]. Fixtures
//! are never changed. A new format gets new ones, written with a server of the version before:
//!
//! ```text
//! TEPUI_FIXTURE_SERVER=PATH TEPUI_FIXTURE_DIR=crates/tepui/tests/upgrade/fixtures/disk-vN \
//!     cargo test -p tepui --test upgrade -- --ignored write_fixtures
//! ```
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may")]

#[path = "../support/mod.rs"]
mod support;
mod transcript;

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{FREE_PORTS, Server};
use transcript::Size;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrade/fixtures")
}

/// The fixtures of all formats, each without the ends of the names of its files.
fn all_fixtures() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for format in std::fs::read_dir(fixtures()).unwrap() {
        for file in std::fs::read_dir(format.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "txt") {
                found.push(path.with_extension(""));
            }
        }
    }
    found.sort();
    found
}

fn unpack(fixture: &Path, directory: &Path) {
    let archive = File::open(fixture.with_extension("tar.gz")).unwrap();
    tar::Archive::new(GzDecoder::new(archive)).unpack(directory).unwrap();
}

#[test]
fn earlier_data_directories_are_read_back_whole() {
    let fixtures = all_fixtures();
    assert!(fixtures.len() >= 4, "{fixtures:?}");
    for fixture in fixtures {
        let directory = tempfile::tempdir().unwrap();
        unpack(&fixture, directory.path());
        let written = std::fs::read_to_string(fixture.with_extension("txt")).unwrap();
        for start in ["upgrades it", "finds it upgraded", "was killed before"] {
            let mut server = Server::on_disk(directory.path());
            let read = transcript::read(&server);
            let differs = written.lines().zip(read.lines()).find(|(written, read)| written != read);
            assert_eq!(differs, None, "{}: the server that {start}", fixture.display());
            assert_eq!(written, read, "{}: the server that {start}", fixture.display());
            let format = std::fs::read_to_string(directory.path().join("FORMAT")).unwrap();
            assert_eq!(format, "4\n", "{}", fixture.display());
            match start {
                "finds it upgraded" => server.kill_now(),
                _ => assert!(server.stop().0.success()),
            }
            support::check_healthy(directory.path());
        }
        let server = Server::on_disk(directory.path());
        transcript::write(&server, "new", Size::Small);
        assert_eq!(transcript::read(&server), written, "{}: beside what is new", fixture.display());
    }
}

#[test]
fn formats_that_are_not_known_are_refused() {
    for format in ["2", "5", "x"] {
        let directory = tempfile::tempdir().unwrap();
        unpack(&fixtures().join("disk-v3/stopped"), directory.path());
        std::fs::write(directory.path().join("FORMAT"), format).unwrap();
        let at = ["--data-dir", directory.path().to_str().unwrap()];
        let mut command = support::tepui(&[&["serve"], FREE_PORTS, &at].concat(), directory.path());
        let output = command.output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && log.contains("format"), "{format}: {log}");
    }
}

#[test]
#[ignore = "writes new fixtures"]
fn write_fixtures() {
    let server = std::env::var_os("TEPUI_FIXTURE_SERVER").expect("the server of an earlier version");
    let folder = PathBuf::from(std::env::var_os("TEPUI_FIXTURE_DIR").expect("where fixtures go"));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, size) in [("stopped", Size::Small), ("killed", Size::Large)] {
        let directory = tempfile::tempdir().unwrap();
        let start = || {
            let mut command = Command::new(&server);
            command.env_clear().args(["serve", "--silent"]).args(FREE_PORTS).stdin(Stdio::null());
            command.arg("--data-dir").arg(directory.path());
            Server::run(command)
        };
        let running = start();
        transcript::write(&running, "old", size);
        // What is read must not rest on anything in memory.
        assert!(running.stop().0.success());
        let running = start();
        let written = transcript::read(&running);
        match name {
            "killed" => {
                transcript::write_more(&running);
                let written = transcript::read(&running);
                running.kill();
                std::fs::write(folder.join("killed.txt"), written).unwrap();
            }
            _ => {
                assert!(running.stop().0.success());
                std::fs::write(folder.join("stopped.txt"), written).unwrap();
            }
        }
        let archive = File::create(folder.join(name).with_extension("tar.gz")).unwrap();
        let mut archive = tar::Builder::new(GzEncoder::new(archive, Compression::best()));
        archive.append_dir_all(".", directory.path()).unwrap();
        archive.into_inner().unwrap().finish().unwrap();
    }
}
