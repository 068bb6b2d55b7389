//! `tepui account …` and `tepui role …`.

use crate::client::Keyed;
use crate::support::{Server, tepui};
use crate::{CONFIGURED, in_memory};
use serde_json::Value;
use std::path::Path;

/// Runs a command for a server: its exit code and what it printed.
fn run(server: &Server, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = tepui(arguments, Path::new(""));
    let output = command.env("TEPUI_PORTS_FILE", server.ports_file()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The same for what succeeds, and says nothing but on standard output.
fn said(server: &Server, arguments: &[&str]) -> String {
    let (code, out, error) = run(server, arguments);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{arguments:?}");
    out.trim_end().to_owned()
}

#[test]
fn accounts() {
    let server = in_memory();
    let made = said(&server, &["account", "create", "people"]);
    assert!(made.starts_with("people  enabled\nkey1  "), "{made}");
    let key = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}  ")));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let (one, two) = (key(&made, "key1"), key(&made, "key2"));
    assert!(
        made.contains(&format!("AccountName=people;AccountKey={one};BlobEndpoint=http://127.0.0.1:")),
        "{made}"
    );
    assert_eq!(
        said(&server, &["account", "list"]),
        format!("{CONFIGURED}  enabled  (configured)\npeople  enabled")
    );
    assert!(
        said(&server, &["account", "show", "people"])
            .contains(&format!("table: http://127.0.0.1:{}/people", server.port))
    );
    let listed = said(&server, &["account", "key", "list", "people"]);
    assert!(listed.contains(&one) && listed.contains(&format!("AccountKey={two};")), "{listed}");

    let renewed = said(&server, &["account", "key", "renew", "people", "key1"]);
    let new = key(&renewed, "key1");
    assert!(new != one && renewed.contains(&format!("AccountKey={new};")), "{renewed}");
    assert_eq!(Keyed { server: &server, account: "people", key: &new }.statuses(), [200; 4]);
    let json: Value =
        serde_json::from_str(&said(&server, &["account", "key", "renew", "people", "key2", "--json"]))
            .unwrap();
    assert_eq!(json["keyName"], "key2");

    assert_eq!(said(&server, &["account", "disable", "people"]), "people  disabled");
    assert_eq!(said(&server, &["account", "enable", "people"]), "people  enabled");
    assert_eq!(
        said(&server, &["account", "shared-keys", "refuse", "people"]),
        "people  enabled  refuses shared keys"
    );
    assert_eq!(said(&server, &["account", "shared-keys", "allow", "people"]), "people  enabled");
    assert_eq!(said(&server, &["account", "revoke-delegation-keys", "people"]), "revoked: people");
    for (arguments, code, says) in [
        (&["account", "delete", "people"][..], 2, "add --yes"),
        (&["account", "delete", CONFIGURED, "--yes"], 1, "is configured"),
        (&["account", "create", "people"], 1, "already"),
        (&["account", "key", "renew", "people", "key3"], 2, "key3"),
        (&["account", "show", "nobody"], 1, "no such account"),
    ] {
        let (found, _, error) = run(&server, arguments);
        assert!(found == Some(code) && error.contains(says), "{arguments:?}: {found:?} {error}");
    }
    assert_eq!(said(&server, &["account", "delete", "people", "--yes"]), "deleted: people");
    assert_eq!(said(&server, &["account", "list"]), format!("{CONFIGURED}  enabled  (configured)"));
}

#[test]
fn roles() {
    let server = in_memory();
    let scope = format!("/{CONFIGURED}/table/Orders");
    let assign =
        ["role", "assign", "group:data-team", "storage table data reader", &scope, "--issuer", "https://i"];
    let line = said(&server, &assign);
    let expected = format!("group:data-team  Storage Table Data Reader  {scope}  of https://i");
    assert!(line.ends_with(&expected), "{line}");
    assert_eq!(said(&server, &assign), line, "the same twice is one");
    assert_eq!(said(&server, &["role", "list"]), line);
    assert_eq!(said(&server, &["role", "list", "--account", CONFIGURED]), line);
    assert_eq!(said(&server, &["role", "list", "--account", "other"]), "");
    let id = line.split(' ').next().unwrap();
    assert_eq!(said(&server, &["role", "remove", id]), format!("taken away: {id}"));
    assert_eq!(said(&server, &["role", "list"]), "");
    let (code, _, error) = run(&server, &["role", "remove", id]);
    assert!(code == Some(1) && error.contains("no such role assignment"), "{error}");
    let roles = said(&server, &["role", "roles"]);
    assert_eq!(roles.lines().count(), 13);
    assert!(roles.contains("76199698-9eea-4c19-bc75-cec21354c6b6  Storage Table Data Reader"), "{roles}");
}
