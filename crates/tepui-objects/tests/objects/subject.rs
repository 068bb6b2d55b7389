//! What the contract suite needs of a store of objects.

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tepui_objects::object_store::{self};
use tepui_objects::{MachineClock, ObjectExtents, ObjectOptions};
use tepui_storage::contract::extents::Subject;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

/// The prefix of the tests.
pub(crate) fn prefix() -> Path {
    Path::from("some/prefix")
}

/// No other nodes are waited for.
pub(crate) fn options() -> ObjectOptions {
    ObjectOptions {
        wait_for_other_nodes: Duration::ZERO,
        part_bytes: 5 << 20,
        ..ObjectOptions::new("not read")
    }
}

/// A clock that tests move, beside the one of the machine.
#[derive(Clone, Default)]
pub(crate) struct TestClock(Arc<AtomicU64>);

impl TestClock {
    pub(crate) fn advance(&self, time: Duration) {
        self.0.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
    }

    #[expect(clippy::disallowed_methods, reason = "other nodes of the tests have the clock of the machine")]
    pub(crate) fn clock(&self) -> MachineClock {
        let (ahead, start) = (Arc::clone(&self.0), SystemTime::now());
        MachineClock::new(move || start + Duration::from_millis(ahead.load(Ordering::SeqCst)))
    }
}

/// The names of all extents, and how many bytes they take.
pub(crate) async fn stored(store: &Arc<dyn ObjectStore>, prefix: &Path) -> Vec<(Path, u64)> {
    use futures_util::TryStreamExt as _;
    let extents = prefix.clone().join("extents");
    let listed: Vec<_> = store.list(Some(&extents)).try_collect().await.unwrap();
    listed.into_iter().map(|object| (object.location, object.size)).collect()
}

/// The names of all leases.
pub(crate) async fn leases(store: &Arc<dyn ObjectStore>, prefix: &Path) -> usize {
    use futures_util::TryStreamExt as _;
    let listed: Vec<_> = store.list(Some(&prefix.clone().join("leases"))).try_collect().await.unwrap();
    listed.len()
}

pub(crate) async fn put(store: &Arc<dyn ObjectStore>, name: &Path, content: impl Into<Vec<u8>>) {
    store.put(name, content.into().into()).await.unwrap();
}

/// Extents as objects of any store. Needs a runtime with several threads.
pub(crate) struct Objects {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) prefix: Path,
    options: ObjectOptions,
    extents: ObjectExtents,
}

impl Objects {
    pub(crate) async fn open(store: Arc<dyn ObjectStore>, prefix: Path, options: ObjectOptions) -> Self {
        let extents =
            ObjectExtents::open_on(Arc::clone(&store), prefix.clone(), options.clone()).await.unwrap();
        Self { store, prefix, options, extents }
    }
}

impl Subject for Objects {
    type Extents = ObjectExtents;

    fn extents(&self) -> &ObjectExtents {
        &self.extents
    }

    fn reopen(&mut self) {
        let Self { store, prefix, options, extents } = self;
        *extents = block_in_place(|| {
            Handle::current().block_on(async {
                extents.close().await;
                ObjectExtents::open_on(Arc::clone(store), prefix.clone(), options.clone()).await.unwrap()
            })
        });
    }

    fn used_bytes(&self) -> u64 {
        let listed = block_in_place(|| Handle::current().block_on(stored(&self.store, &self.prefix)));
        listed.into_iter().map(|(_, bytes)| bytes).sum()
    }
}
