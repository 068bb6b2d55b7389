//! Tells the program from which commit it is built. Without git, or outside of a checkout, it does not know.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    println!("cargo:rustc-env=TEPUI_COMMIT={commit}");
    // Built again when another commit is checked out. A branch that is packed has no file of its own.
    let reference = git(&["symbolic-ref", "--quiet", "HEAD"]);
    let names = ["HEAD".to_owned(), "packed-refs".to_owned()].into_iter().chain(reference);
    let paths = names.filter_map(|name| git(&["rev-parse", "--git-path", &name])).map(PathBuf::from);
    for path in paths.filter(|path| path.exists()) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}

/// What git says, if there is one and this is a checkout of this repository, not something inside of another.
fn git(arguments: &[&str]) -> Option<String> {
    if !Path::new("../../.git").exists() {
        return None;
    }
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
