//! What programs take in with the client: few crates. They are counted as cargo sees them, ours among them.

use std::collections::BTreeSet;
use std::process::Command;

const MAX_CRATES: usize = 45;

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
