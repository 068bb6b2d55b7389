//! The contract, on objects in memory and in a directory.

#[path = "../../../tepui-storage/tests/steps/extents.rs"]
#[allow(dead_code, reason = "its way to run them has one thread")]
mod steps;

use crate::subject::{Objects, options, prefix};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use proptest::prelude::*;
use std::sync::Arc;
use tepui_objects::{ObjectOptions, object_store};
use tepui_storage::contract::extents::{check, follow};

#[tokio::test(flavor = "multi_thread")]
async fn objects_in_memory_keep_the_contract() {
    check(&mut Objects::open(Arc::new(InMemory::new()), prefix(), options()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_in_many_parts_keep_the_contract() {
    // Less than a piece, a piece as it is stored, and more.
    for part_bytes in [1_000, 10_000, 65_512, 100_000] {
        let options = ObjectOptions { part_bytes, ..options() };
        check(&mut Objects::open(Arc::new(InMemory::new()), Path::default(), options).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_keep_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalFileSystem::new_with_prefix(dir.path()).unwrap();
    check(&mut Objects::open(Arc::new(store), prefix(), options()).await).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn objects_agree_with_the_model(
        steps in proptest::collection::vec(steps::step(), 1..60),
        part_bytes in prop_oneof![1_000usize..200_000, Just(5 << 20)],
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let options = ObjectOptions { part_bytes, ..options() };
            let mut subject = Objects::open(Arc::new(InMemory::new()), prefix(), options).await;
            follow(&mut subject, &steps).await;
        });
    }
}
