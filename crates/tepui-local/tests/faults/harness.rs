//! Runs a test in a child process that has the shim. Shared by the tests of the engine and of extents.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

/// Runs the test called `name` in a child that has the shim, and does nothing in the parent.
pub(crate) fn in_child<F: Future>(name: &str, scenario: impl FnOnce(Faults) -> F) {
    if let Ok(control) = std::env::var("TEPUI_FAULT") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime can be built").block_on(scenario(Faults { control: control.into() }));
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let control = directory.path().join("fault");
    std::fs::write(&control, "-").expect("the control file can be written");
    let output = Command::new(std::env::current_exe().expect("a test knows its path"))
        .args(["--exact", name, "--nocapture"])
        .env("LD_PRELOAD", shim())
        .env("TEPUI_FAULT", &control)
        .output()
        .expect("the child can be started");
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn shim() -> &'static Path {
    static SHIM: OnceLock<(PathBuf, TempDir)> = OnceLock::new();
    let (path, _) = SHIM.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let path = directory.path().join("libshim.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.rs");
        let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let status = Command::new(compiler)
            .args(["--edition", "2024", "--crate-type", "cdylib", "-C", "panic=abort", "-o"])
            .arg(&path)
            .arg(source)
            .status();
        assert!(status.is_ok_and(|status| status.success()), "the shim can be compiled");
        (path, directory)
    });
    path
}

pub(crate) struct Faults {
    control: PathBuf,
}

impl Faults {
    pub(crate) fn set(&self, fault: &str) {
        // In one step: the shim must never read half of it.
        let new = self.control.with_extension("new");
        std::fs::write(&new, fault).expect("the control file can be written");
        std::fs::rename(new, &self.control).expect("the control file can be replaced");
    }

    pub(crate) fn clear(&self) {
        self.set("-");
    }
}
