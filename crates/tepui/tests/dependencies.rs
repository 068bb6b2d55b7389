//! What a build for one machine brings along: stores over a network add nothing to it.

use std::collections::BTreeSet;
use std::process::Command;

/// All packages that are compiled into the command without any of its features, on Linux.
const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dependencies.txt");

#[test]
fn a_build_without_features_has_no_other_dependencies() {
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([
            "tree",
            "--package",
            "tepui",
            "--no-default-features",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .args(["--format", "{p}", "--target", "x86_64-unknown-linux-gnu", "--locked", "--offline"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let found: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    if std::env::var_os("TEPUI_TEST_UPDATE").is_some() {
        let lines: String = found.iter().map(|name| format!("{name}\n")).collect();
        std::fs::write(LIST, lines).unwrap();
    }
    let listed = std::fs::read_to_string(LIST).unwrap();
    let listed: BTreeSet<&str> = listed.lines().collect();
    let (new, gone) = (found.difference(&listed), listed.difference(&found));
    let (new, gone): (Vec<_>, Vec<_>) = (new.collect(), gone.collect());
    assert!(
        new.is_empty() && gone.is_empty(),
        "new: {new:?}, gone: {gone:?}; TEPUI_TEST_UPDATE=1 writes tests/dependencies.txt anew, if that is meant"
    );
}
