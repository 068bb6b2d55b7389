//! Random steps for the contract of engines. Shared with the tests of `tepui-local`.

use proptest::prelude::*;
use tepui_storage::contract::engine::{Step, Subject, follow};

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let key = 0u8..48;
    let write = (key.clone(), proptest::option::weighted(0.8, 0u16..300));
    prop_oneof![
        10 => (0usize..6, proptest::collection::vec(key.clone(), 0..3), proptest::collection::vec(write, 0..6))
            .prop_map(|(on, guards, writes)| Step::Commit { on, guards, writes }),
        2 => Just(Step::Keep),
        1 => (0usize..6).prop_map(Step::Release),
        4 => (0usize..6, proptest::collection::vec(key.clone(), 1..4)).prop_map(|(on, keys)| Step::Get { on, keys }),
        4 => (0usize..6, key.clone(), key, 1usize..8, 0usize..900).prop_map(
            |(on, from, to, max_rows, max_bytes)| Step::Scan { on, from, to, max_rows, max_bytes }
        ),
    ]
}

#[allow(dead_code, reason = "some suites need a runtime before their subject")]
pub(crate) fn run<S: Subject>(mut subject: S, steps: &[Step]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(follow(&mut subject, steps));
}
