//! Random steps for the contract of extents. Shared with the tests of `tepui-local`.

use proptest::prelude::*;
use tepui_storage::contract::extents::{Step, Subject, follow};

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let bytes =
        prop_oneof![0usize..5, 4000usize..4200, 65_000usize..66_000, 0usize..300_000, 0usize..1_200_000];
    prop_oneof![
        6 => (bytes.clone(), 1000usize..200_000).prop_map(|(bytes, piece)| Step::Write { bytes, piece }),
        1 => bytes.prop_map(|bytes| Step::Abandon { bytes }),
        6 => (any::<usize>(), any::<usize>(), any::<usize>())
            .prop_map(|(which, from, to)| Step::Read { which, from, to }),
        3 => (any::<usize>(), 1usize..4).prop_map(|(which, count)| Step::Free { which, count }),
        1 => Just(Step::FreeAgain),
    ]
}

pub(crate) fn run<S: Subject>(mut subject: S, steps: &[Step]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(follow(&mut subject, steps));
}
