//! Runs the target named by `TEPUI_FUZZ_TARGET` with libFuzzer. The script `guided` builds and starts it.

#![no_main]

use std::sync::LazyLock;
use tepui_fuzz::targets::{ALL, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("TEPUI_FUZZ_TARGET").unwrap_or_default();
    ALL.iter().find(|target| target.name == name).expect("TEPUI_FUZZ_TARGET names a target")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));
