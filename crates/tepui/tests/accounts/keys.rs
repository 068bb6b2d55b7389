//! Renewing keys.

use crate::client::Keyed;
use crate::support::{Server, check_healthy};
use crate::{Admin, CONFIGURED, on_disk};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use tepui_model::account::DEVELOPMENT_KEY_BASE64;

const REFUSED: [u16; 4] = [403; 4];
const GOOD: [u16; 4] = [200; 4];

fn statuses(server: &Server, account: &str, key: &str) -> [u16; 4] {
    Keyed { server, account, key }.statuses()
}

#[test]
fn a_renewed_key_counts_at_once_and_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let server = on_disk(directory.path());
    let mut admin = Admin::of(&server);
    let made = admin.create("people");
    for key in &made {
        assert_eq!(statuses(&server, "people", key), GOOD);
    }
    let renewed = admin.post("/accounts/people/keys/key1/renew")["value"].as_str().unwrap().to_owned();
    assert_eq!(statuses(&server, "people", &made[0]), REFUSED);
    assert_eq!(statuses(&server, "people", &made[1]), GOOD);
    assert_eq!(statuses(&server, "people", &renewed), GOOD);
    assert_eq!(admin.keys("people"), [renewed.clone(), made[1].clone()]);

    // The same for an account of the configuration, which has one key.
    let own =
        admin.post(&format!("/accounts/{CONFIGURED}/keys/key1/renew"))["value"].as_str().unwrap().to_owned();
    let second =
        admin.post(&format!("/accounts/{CONFIGURED}/keys/key2/renew"))["value"].as_str().unwrap().to_owned();
    let check = |server: &Server| {
        for (account, key, expected) in [
            ("people", &made[0], REFUSED),
            ("people", &made[1], GOOD),
            ("people", &renewed, GOOD),
            (CONFIGURED, &DEVELOPMENT_KEY_BASE64.to_owned(), REFUSED),
            (CONFIGURED, &own, GOOD),
            (CONFIGURED, &second, GOOD),
        ] {
            assert_eq!(statuses(server, account, key), expected, "{account}");
        }
    };
    check(&server);
    let log = server.log();
    assert!(log.contains("key renewed"), "{log}");
    for key in made.iter().chain([&renewed, &own, &second]) {
        assert!(!log.contains(key.as_str()), "the log has a key");
    }
    server.kill();

    let server = on_disk(directory.path());
    check(&server);
    assert!(!server.out().contains(DEVELOPMENT_KEY_BASE64), "it was replaced: {}", server.out());
    let (_, _, log) = server.stop();
    assert!(!log.contains("configuration was changed"), "{log}");
    check_healthy(directory.path());

    // The operator has configured another key: that counts.
    let configured = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=";
    let account = format!("{CONFIGURED}:{configured}");
    let server = Server::on_disk_with(directory.path(), &["--admin-port", "0", "--account", &account]);
    assert_eq!(statuses(&server, CONFIGURED, configured), GOOD);
    assert_eq!(statuses(&server, CONFIGURED, &own), REFUSED);
    assert_eq!(statuses(&server, CONFIGURED, &second), GOOD, "nothing is configured in its place");
    let (_, _, log) = server.stop();
    assert!(
        log.contains("configuration was changed") && log.contains("key1") && !log.contains(configured),
        "{log}"
    );
}

#[test]
fn of_concurrent_renewals_one_key_stays() {
    let directory = tempfile::tempdir().unwrap();
    let server = on_disk(directory.path());
    let made = Admin::of(&server).create("people");
    let renewed: Vec<String> = std::thread::scope(|scope| {
        let renew = || {
            let answer = Admin::of(&server).post("/accounts/people/keys/key1/renew");
            answer["value"].as_str().unwrap().to_owned()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(renew)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let good: Vec<&String> = renewed.iter().filter(|key| statuses(&server, "people", key) == GOOD).collect();
    assert_eq!(good.len(), 1);
    assert_eq!(Admin::of(&server).keys("people"), [good[0].clone(), made[1].clone()]);
    assert_eq!(statuses(&server, "people", &made[0]), REFUSED);
}

#[test]
fn what_is_stored_is_for_its_owner_alone() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data");
    let server = on_disk(&directory);
    let keys = Admin::of(&server).create("people");
    Keyed { server: &server, account: "people", key: &keys[0] }.fill(1);
    let backup = parent.path().join("backup.tar");
    let copy = parent.path().join("copy");
    for to in [&backup, &copy] {
        let arguments = ["backup", "--data-dir", directory.to_str().unwrap(), "--to", to.to_str().unwrap()];
        let output = crate::support::tepui(&arguments, parent.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let mut pending = vec![directory.clone(), backup, copy];
    let mut files = 0;
    while let Some(path) = pending.pop() {
        let mode = path.metadata().unwrap().permissions().mode();
        if mode & 0o170_000 != 0o140_000 {
            assert_eq!(mode & 0o077, 0, "{}", path.display());
        }
        files += 1;
        if path.is_dir() {
            pending.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert!(files > 8, "{files}");
    server.stop();

    // What an operator has chosen stays, and is warned of.
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (_, _, log) = on_disk(&directory).stop();
    assert!(log.contains("chmod 700"), "{log}");
    assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn keys_are_only_where_they_are_asked_for() {
    let server = crate::in_memory();
    let mut admin = Admin::of(&server);
    let keys = admin.create("people");
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1]);
    for path in ["/accounts", "/accounts/people", "/role-assignments"] {
        let text = admin.get(path).to_string();
        assert!(keys.iter().all(|key| !text.contains(key.as_str())), "{path}: {text}");
    }
    let shown = admin.get("/accounts/people");
    assert_eq!(shown["keys"][0]["keyName"], "key1");
    assert_eq!(shown["source"], "api");
    assert_eq!(shown["delegationKeysRevoked"], Value::Null);
    let revoked = admin.post("/accounts/people/delegation-keys/revoke");
    assert_eq!(admin.get("/accounts/people")["delegationKeysRevoked"], revoked["delegationKeysRevoked"]);
    assert_eq!(admin.keys("people"), keys, "they are not touched");
}
