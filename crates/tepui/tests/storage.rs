//! What the command says about storage over a network, without any.

use std::process::{Command, Output};

const URL: &str = "postgres://me:hunter2@127.0.0.1:1/tepui";

fn tepui(arguments: &[&str], storage: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tepui"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TEPUI_")) {
        command.env_remove(name);
    }
    if let Some(storage) = storage {
        command.env("TEPUI_STORAGE", storage);
    }
    command.args(arguments).output().expect("the command runs")
}

/// The exit code and all that was said, in which no password is.
fn said(arguments: &[&str], storage: Option<&str>) -> (Option<i32>, String) {
    let output = tepui(arguments, storage);
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("hunter2"), "{arguments:?}: {text}");
    (output.status.code(), text)
}

#[test]
fn what_cannot_be_done_is_refused_with_what_to_do() {
    for (arguments, storage, code, says) in [
        (&["storage", "init"][..], None, 2, "which storage?"),
        (&["storage", "init", "--storage", "local:/x"], None, 0, "nothing to do"),
        (&["storage", "init"], Some("tikv://pd:1"), 0, "TiKV has no tables"),
        (&["storage", "init", "--storage", "mysql://x"], None, 2, "storage is local:DIR, memory"),
        (&["storage"], None, 2, "init"),
        (&["serve", "--storage", URL], None, 2, "--blobs must say where the bytes of blobs are"),
        (&["serve", "--storage", URL, "--blobs", "local:/x"], None, 2, "every node must reach"),
        (&["serve", "--storage", "local:/x", "--blobs", "s3://b"], None, 2, "everything is kept in /x"),
        (&["serve", "--in-memory"], Some(URL), 2, "--in-memory contradicts --storage postgres://me:XXXXX@"),
        (
            &["serve", "--blobs", "s3://b", "--test-bench"],
            Some(URL),
            2,
            "a test bench needs storage of its own",
        ),
        (&["backup", "--to", "x"], Some(URL), 2, "`tepui storage copy`"),
        (&["check", URL], None, 2, "only a data directory is checked"),
        (&["serve", "--help"], Some(URL), 0, "--storage <STORAGE>"),
        (&["storage", "init", "--help"], Some(URL), 0, "--storage <STORAGE>"),
        (&["health"], Some(URL), 2, "--blobs must say"),
    ] {
        let (found, text) = said(arguments, storage);
        assert_eq!(found, Some(code), "{arguments:?}: {text}");
        assert!(text.contains(says), "{arguments:?}: {text}");
    }
}

#[cfg(not(any(feature = "postgres", feature = "tikv")))]
#[test]
fn a_build_without_a_store_says_so() {
    let no_support = "this build has no support for postgres:// (cargo feature `postgres`)";
    for arguments in [&["storage", "init"][..], &["serve", "--services", "table", "--table-port", "0"]] {
        let (code, text) = said(arguments, Some(URL));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(no_support), "{text}");
    }
}

#[cfg(feature = "postgres")]
#[test]
fn a_database_that_does_not_answer_is_waited_for_and_named() {
    for arguments in [
        &["storage", "init", "--storage-start-seconds", "1"][..],
        &["serve", "--services", "table", "--table-port", "0", "--storage-start-seconds", "1"],
    ] {
        let (code, text) = said(arguments, Some(URL));
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("cannot open the storage: postgres://me:XXXXX@127.0.0.1:1/tepui"), "{text}");
        assert!(text.contains("--storage-start-seconds"), "{text}");
    }
}
