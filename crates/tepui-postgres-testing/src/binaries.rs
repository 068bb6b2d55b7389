//! Where the programs of PostgreSQL are.

use crate::is_program;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Names the directory of the programs.
pub const BINARIES_VARIABLE: &str = "TEPUI_TEST_POSTGRES_BIN";
/// If it is `skip`, tests that need PostgreSQL do nothing.
pub const SKIP_VARIABLE: &str = "TEPUI_TEST_POSTGRES";

const PROGRAMS: [&str; 3] = ["initdb", "postgres", "psql"];

/// Whether tests that need PostgreSQL are to do nothing, because somebody said so.
pub fn is_skipped() -> bool {
    std::env::var_os(SKIP_VARIABLE).is_some_and(|value| value == "skip")
}

/// The directory of the programs: the one that is named, or that of the newest PostgreSQL that is installed.
pub fn binaries() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(find).clone()
}

fn find() -> PathBuf {
    if let Some(named) = std::env::var_os(BINARIES_VARIABLE) {
        let named = PathBuf::from(named);
        assert!(is_complete(&named), "{BINARIES_VARIABLE}: no PostgreSQL in {}", named.display());
        return named;
    }
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut versions: Vec<(u32, PathBuf)> = installed
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin")))
        })
        .filter(|(_, path)| is_complete(path))
        .collect();
    versions.sort();
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let found =
        versions.pop().map(|(_, path)| path).or_else(|| on_path.into_iter().find(|path| is_complete(path)));
    found.unwrap_or_else(|| {
        panic!(
            "this test needs PostgreSQL: install the package postgresql, or set {BINARIES_VARIABLE} to what \
             conformance/postgres/install prints, or {SKIP_VARIABLE}=skip to go without"
        )
    })
}

fn is_complete(directory: &Path) -> bool {
    PROGRAMS.iter().all(|name| is_program(&directory.join(name)))
}
