//! Volumes: leases on them, and what happens to those of nodes that have stopped.

use crate::faulty::FaultyStore;
use crate::subject::{TestClock, leases, options, prefix, put, stored};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tepui_objects::{MachineClock, ObjectExtents, ObjectOptions, object_store};
use tepui_storage::contract::extents::content;
use tepui_storage::{Extent, ExtentWriter, Extents, READER_TIMEOUT, StorageErrorKind};

const LEASE: Duration = Duration::from_secs(120);

async fn node(store: &Arc<dyn ObjectStore>, options: ObjectOptions) -> ObjectExtents {
    ObjectExtents::open_on(Arc::clone(store), prefix(), options).await.unwrap()
}

async fn write(extents: &ObjectExtents, bytes: usize) -> Extent {
    let mut writer = extents.begin().await.unwrap();
    writer.write(content(bytes, 1).into()).await.unwrap();
    writer.finish().await.unwrap()
}

/// Waits for a number of leases, which are given up in the background.
async fn until_leases(store: &Arc<dyn ObjectStore>, expected: usize) {
    let found = tokio::time::timeout(Duration::from_secs(20), async {
        while leases(store, &prefix()).await != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(found.await.is_ok(), "{} leases", leases(store, &prefix()).await);
}

#[tokio::test]
async fn the_volume_of_a_dead_node_is_swept_twice() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let dead = node(&store, options()).await;
    let (kept, garbage) = (write(&dead, 100_000).await, write(&dead, 5).await);
    let volume = kept.volume;
    let time = TestClock::default();
    let living = node(&store, ObjectOptions { clock: time.clock(), ..options() }).await;
    for wait in [Duration::ZERO, LEASE] {
        time.advance(wait);
        assert_eq!(living.sweepable_volumes().await, Ok(vec![]), "clocks may differ a little");
        let refused = living.sweep(volume, vec![]).await.unwrap_err();
        assert_eq!(refused.kind(), StorageErrorKind::Failed);
    }
    time.advance(Duration::from_secs(2));
    assert_eq!(living.sweepable_volumes().await, Ok(vec![volume]));
    // A volume that lacks something stays as it is.
    let lacking = Extent { offset: 99, ..kept };
    for missing in [lacking, Extent { bytes: 99_999, ..kept }] {
        let refused = living.sweep(volume, vec![garbage, missing]).await.unwrap_err();
        assert_eq!(refused.kind(), StorageErrorKind::Corrupt);
    }
    assert_eq!(stored(&store, &prefix()).await.len(), 2);
    living.sweep(volume, vec![kept]).await.unwrap();
    assert_eq!(living.read(kept, 0..100_000).await.unwrap().concat(), content(100_000, 1));
    assert!(living.read(garbage, 0..5).await.is_err());
    assert_eq!(living.sweepable_volumes().await, Ok(vec![]));
    // A put of the dead node that was still on its way.
    let late = prefix().join("extents").join(format!("{volume:016x}")).join(format!("{:016x}", 7));
    put(&store, &late, "late").await;
    time.advance(Duration::from_secs(60 * 60 + 2));
    assert_eq!(living.sweepable_volumes().await, Ok(vec![volume]));
    living.sweep(volume, vec![kept]).await.unwrap();
    assert_eq!(stored(&store, &prefix()).await.len(), 1);
    time.advance(Duration::from_secs(24 * 60 * 60));
    assert_eq!(living.sweepable_volumes().await, Ok(vec![]));
    assert!(living.sweep(volume, vec![]).await.is_err());
}

#[tokio::test]
async fn a_volume_is_sealed_when_nothing_is_pinned_and_it_is_retired_or_closed() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let rotating = node(&store, ObjectOptions { rotate_after: Duration::ZERO, ..options() }).await;
    let (first, second) = (write(&rotating, 10).await, write(&rotating, 10).await);
    assert_ne!(first.volume, second.volume);
    until_leases(&store, 2).await;
    rotating.unpin(first);
    until_leases(&store, 1).await;
    rotating.unpin(second);
    until_leases(&store, 0).await;

    let closed = node(&store, options()).await;
    let (first, second) = (write(&closed, 10).await, write(&closed, 10).await);
    assert_eq!(first.volume, second.volume);
    closed.unpin(first);
    closed.close().await;
    assert_eq!(leases(&store, &prefix()).await, 1, "one may not be referenced yet");
    assert_eq!(closed.begin().await.map(drop).unwrap_err().kind(), StorageErrorKind::Unavailable);
    closed.unpin(second);
    closed.close().await;
    assert_eq!(leases(&store, &prefix()).await, 0);
}

/// The clocks of the machine and of the timers are one, which runs ahead when all wait.
fn paused_clock() -> MachineClock {
    let (start, began) = (
        (SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_790_000_000)),
        tokio::time::Instant::now(),
    );
    MachineClock::new(move || start + began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_as_long_as_the_node_lives() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let with_clock = || ObjectOptions { clock: paused_clock(), ..options() };
    let (busy, other) = (node(&store, with_clock()).await, node(&store, with_clock()).await);
    let extent = write(&busy, 10).await;
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(other.sweepable_volumes().await, Ok(vec![]));
    }
    busy.unpin(extent);
    until_leases(&store, 0).await;
    drop(busy);
    tokio::time::sleep(LEASE * 2).await;
    assert_eq!(other.sweepable_volumes().await, Ok(vec![]), "it is old, so it was sealed");

    let ended = node(&store, with_clock()).await;
    let extent = write(&ended, 10).await;
    drop(ended);
    tokio::time::sleep(LEASE * 2).await;
    assert_eq!(other.sweepable_volumes().await, Ok(vec![extent.volume]));
}

#[tokio::test(start_paused = true)]
async fn who_cannot_renew_a_lease_finishes_nothing_in_its_volume() {
    let faulty = FaultyStore::new(1);
    let store: Arc<dyn ObjectStore> = Arc::new(faulty.clone());
    let extents = node(&store, ObjectOptions { clock: paused_clock(), ..options() }).await;
    let before = write(&extents, 10).await;
    let mut writer = extents.begin().await.unwrap();
    writer.write("some".into()).await.unwrap();
    faulty.cut_off(true);
    assert_eq!(extents.begin().await.map(drop), Ok(()), "the lease lasts for some time");
    tokio::time::sleep(LEASE * 2).await;
    assert_eq!(extents.begin().await.map(drop).unwrap_err().kind(), StorageErrorKind::Unavailable);
    faulty.cut_off(false);
    let refused = writer.finish().await.unwrap_err();
    assert_eq!(refused.kind(), StorageErrorKind::Unavailable);
    let after = write(&extents, 10).await;
    assert_ne!(before.volume, after.volume);
    // The node itself sweeps the volume that it has lost.
    assert_eq!(extents.sweepable_volumes().await, Ok(vec![before.volume]));
    extents.sweep(before.volume, vec![before]).await.unwrap();
    assert_eq!(stored(&store, &prefix()).await.len(), 2);
}

/// The renewal is sent while the lease lasts, and is carried out after another node has swept the volume.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_takes_too_long_does_not_win_a_volume_back() {
    let faulty = FaultyStore::new(1);
    let store: Arc<dyn ObjectStore> = Arc::new(faulty.clone());
    let with_clock = || ObjectOptions { clock: paused_clock(), ..options() };
    let late = node(&store, with_clock()).await;
    let other = node(&faulty.objects(), with_clock()).await;
    let before = write(&late, 10).await;
    faulty.cut_off(true);
    tokio::time::sleep(LEASE - Duration::from_secs(16)).await;
    faulty.cut_off(false);
    faulty.delay_puts(Duration::from_secs(28));
    tokio::time::sleep(Duration::from_secs(18)).await;
    assert_eq!(other.sweepable_volumes().await, Ok(vec![before.volume]));
    other.sweep(before.volume, vec![before]).await.unwrap();
    assert_eq!(leases(&store, &prefix()).await, 0);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(leases(&store, &prefix()).await, 1, "the renewal has come");
    faulty.delay_puts(Duration::ZERO);
    let after = write(&late, 10).await;
    assert_ne!(before.volume, after.volume, "nobody can refer to what is written there");
    // It is swept like any other that nobody renews.
    tokio::time::sleep(LEASE + Duration::from_secs(30)).await;
    assert_eq!(other.sweepable_volumes().await, Ok(vec![before.volume]));
}

#[tokio::test(start_paused = true)]
async fn frees_wait_for_the_readers_of_other_nodes() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let sharing = node(&store, ObjectOptions { clock: paused_clock(), ..ObjectOptions::new("") }).await;
    let (began, guard) = (tokio::time::Instant::now(), sharing.read_guard());
    assert!(!sharing.expired(&guard));
    // Its own reader is done soon; nobody knows about the others.
    drop(guard);
    let guard = sharing.read_guard();
    tokio::time::sleep(READER_TIMEOUT - Duration::from_secs(1)).await;
    assert!(!sharing.expired(&guard));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(sharing.expired(&guard), "another node may have waited long enough");
    drop(guard);
    let waited = tokio::time::Instant::now();
    sharing.wait_for_readers().await;
    assert!(waited.elapsed() >= READER_TIMEOUT + Duration::from_secs(1), "{:?}", waited.elapsed());
    assert!(began.elapsed() < 4 * READER_TIMEOUT);
}
