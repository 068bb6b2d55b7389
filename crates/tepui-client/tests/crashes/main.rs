//! Authors and workers as processes of their own, which are killed before and after each request that they send, or are not told
//! what became of it. Afterwards a worker ends what they have left, and then everything has to be as the primaries say.

#![expect(clippy::unwrap_used, reason = "a test may")]

mod copies;
mod followers;
mod poison;
mod proxy;
mod scenario;
mod site;

use scenario::{Scenario as _, play, run_all};

/// Each scenario as a test, and as a role of this program, which plays its author or its worker.
macro_rules! scenarios {
    ($($test:ident: $scenario:ty;)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            run_all::<$scenario>().await;
        })*

        /// What this program does when it is an author or a worker. As a test of its own it has nothing to do.
        #[test]
        fn role() {
            let Some((role, account)) = site::role() else { return };
            let (name, part) = role.split_once('/').unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                match name {
                    $(<$scenario>::NAME => play::<$scenario>(part, &account).await,)*
                    other => panic!("no such scenario: {other}"),
                }
            });
        }
    };
}

scenarios! {
    index_entries_are_what_the_entities_say: copies::IndexEntries;
    entities_that_move_are_in_one_place: copies::Moves;
    poison_is_there_once: poison::Poison;
    lists_are_what_the_entities_say: followers::Lists;
    copied_properties_are_those_of_the_entities: followers::CopiedProperties;
    views_are_what_the_entities_say: followers::Views;
    counts_are_the_number_of_members: followers::Counts;
}
