//! What the tests share: a cluster for each test program, and load.
#![allow(dead_code, reason = "not every test program needs all of it")]

pub(crate) mod cluster;
pub(crate) mod crowd;
pub(crate) mod dropped;
pub(crate) mod process;
pub(crate) mod raw;

use std::path::PathBuf;
use tepui_storage::{Key, KeyRange};
use tepui_tikv::{TikvEngine, TikvOptions};

/// Whether the tests that need PD and stores are to be left out. Says so.
pub(crate) fn is_skipped() -> bool {
    let skips = std::env::var("TEPUI_TEST_TIKV").is_ok_and(|value| value == "skip");
    if skips {
        println!("skipped, because TEPUI_TEST_TIKV=skip");
    }
    skips
}

/// A program that `conformance/tikv/build` has built.
pub(crate) fn program(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = root.join(".work/tikv").join(name);
    assert!(
        program.exists(),
        "{} is missing: run conformance/tikv/build, which needs Go and some minutes, or set TEPUI_TEST_TIKV=skip",
        program.display()
    );
    program
}

pub(crate) fn range(start: &'static [u8], end: &'static [u8]) -> KeyRange {
    KeyRange { start: Key::from_static(start), end: Key::from_static(end) }
}

/// Options for keys of their own.
pub(crate) fn options(endpoint: &str, prefix: &str) -> TikvOptions {
    TikvOptions { prefix: prefix.to_owned(), ..TikvOptions::new(vec![endpoint.to_owned()]) }
}

pub(crate) async fn open(options: TikvOptions) -> TikvEngine {
    TikvEngine::open(options).await.expect("the cluster is ready")
}
