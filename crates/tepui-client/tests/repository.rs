//! What can be told from the sources: how many crates programs take in with the client, and that its examples run.

#![expect(clippy::unwrap_used, reason = "a test may")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const MAX_CRATES: usize = 45;

/// They are counted as cargo sees them, ours among them.
#[test]
fn the_client_brings_few_crates_along() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--locked",
            "--package=tepui-client",
            "--edges=normal,build",
            "--prefix=none",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names: BTreeSet<_> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains("tepui-client") && names.contains("rustls"), "with TLS: {names:?}");
    assert!(names.len() <= MAX_CRATES, "{} crates, more than {MAX_CRATES}: {names:?}", names.len());
}

/// `tepui-client-testing` makes it easy.
#[test]
fn every_example_of_the_documentation_runs() {
    let client = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in [client.join("src"), client.join("../tepui-derive/src")] {
        visit(&folder, &mut |path, text| {
            for (index, line) in text.lines().enumerate() {
                let comment = line.trim_start();
                let fence = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"));
                let fence = fence.and_then(|text| text.trim_start().strip_prefix("```"));
                if fence.is_some_and(|words| {
                    words.split(',').any(|word| matches!(word.trim(), "no_run" | "ignore"))
                }) {
                    found.push(format!("{}:{}", path.display(), index + 1));
                }
            }
        });
    }
    assert!(found.is_empty(), "examples that are not run: {found:?}");
}

/// The example of README.md is that of the crate, which runs, but for the connection string.
#[test]
fn the_example_of_the_readme_is_that_of_the_crate() {
    let client = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(client.join("../../README.md")).unwrap();
    let library = fs::read_to_string(client.join("src/lib.rs")).unwrap();
    let (_, example) = readme.split_once("```rust\n").unwrap();
    let (example, _) = example.split_once("```\n").unwrap();
    let documented = library.lines().map_while(|line| line.strip_prefix("//!"));
    let documented: Vec<_> = documented.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let mut rest = documented.iter().skip_while(|line| **line != "```");
    for line in example.lines().filter(|line| !line.contains("from_connection_string")) {
        assert!(rest.any(|documented| *documented == line), "not in lib.rs: {line}");
    }
}

fn visit(folder: &Path, each: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, each);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            each(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}
