//! The suite that every store passes.
//!
//! [`check`] runs the cases that the contract of [`Extents`] spells out. [`follow`] replays any list of [`Step`]s on
//! a store and on a plain list of contents, and panics where they differ; feed it random lists. A new store needs
//! a [`Subject`] and a test that calls both: see `tests/extents_contract.rs`.

use crate::{Extent, ExtentWriter, Extents, StorageError, StorageErrorKind, StoreId};
use bytes::Bytes;
use std::collections::HashSet;
use std::future::Future;
use std::ops::Range;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Something to test: a store, and how to close it and open it again.
pub trait Subject {
    type Extents: Extents;

    fn extents(&self) -> &Self::Extents;

    /// Closes the store and opens it again. A store that cannot keep its bytes stays as it is.
    fn reopen(&mut self);

    /// How much space is taken by what is stored. It may be a bit more than its length. What could not be finished and is there all
    /// the same is not counted: it is swept when its process has ended.
    fn used_bytes(&self) -> u64;
}

/// Every case of the contract, one after the other on one store.
pub async fn check<S: Subject>(subject: &mut S) {
    let extents = subject.extents();
    what_was_written_is_read(extents).await;
    any_range_can_be_read(extents).await;
    ranges_beyond_the_end_are_refused(extents).await;
    no_two_extents_are_the_same(extents).await;
    extents_of_other_stores_are_refused(extents).await;
    many_write_at_once(extents).await;
    those_who_read_are_waited_for(extents).await;
    what_was_freed_cannot_be_read(extents).await;
    only_what_is_left_over_is_swept(extents).await;
    free_gives_space_back_and_may_be_repeated(subject).await;
    a_dropped_writer_leaves_nothing(subject).await;
    what_was_written_is_there_after_reopening(subject).await;
    space_is_given_back_after_reopening(subject).await;
}

/// Around the sizes at which stores cut.
const SIZES: [usize; 14] =
    [0, 1, 511, 4063, 4064, 4065, 65_503, 65_504, 65_505, 131_008, 262_144, 524_032, 524_033, 3_000_000];

async fn what_was_written_is_read<E: Extents>(extents: &E) {
    for size in SIZES {
        for piece in [1000, 65_504, 4_000_000] {
            let content = content(size, piece);
            let extent = write(extents, &content, piece).await;
            assert_eq!(extent.bytes, size as u64);
            assert!(
                read(extents, extent, 0..size as u64).await == content,
                "{size} bytes in pieces of {piece}"
            );
        }
    }
}

async fn any_range_can_be_read<E: Extents>(extents: &E) {
    let content = content(400_000, 3);
    let extent = write(extents, &content, 50_000).await;
    for start in [0, 1, 65_503, 65_504, 65_505, 262_144, 399_999, 400_000] {
        for end in [0, 1, 2, 65_503, 65_504, 65_506, 131_008, 300_000, 399_999, 400_000] {
            let expected = content.get(start..end).unwrap_or_default();
            let found = read(extents, extent, start as u64..end as u64).await;
            assert!(found == expected, "{start} to {end}: {} bytes", found.len());
        }
    }
}

async fn ranges_beyond_the_end_are_refused<E: Extents>(extents: &E) {
    let extent = write(extents, b"four", 4).await;
    for range in [0..5, 5..5, 5..6, u64::MAX - 1..u64::MAX] {
        let refused = try_read(extents, extent, range.clone()).await;
        assert!(
            matches!(&refused, Err(error) if error.kind() == StorageErrorKind::Failed),
            "{range:?}: {refused:?}"
        );
    }
}

async fn no_two_extents_are_the_same<E: Extents>(extents: &E) {
    let mut places = HashSet::new();
    for size in [0, 0, 1, 0, 4064, 0, 65_504, 0] {
        let extent = write(extents, &content(size, 0), 9000).await;
        assert!(places.insert((extent.volume, extent.offset)), "{extent:?}");
        if size == 1 {
            free(extents, vec![extent]).await;
        }
    }
}

async fn extents_of_other_stores_are_refused<E: Extents>(extents: &E) {
    let extent = write(extents, b"content", 7).await;
    assert_eq!(extent.store, extents.store());
    let other = Extent { store: StoreId(extent.store.0 + 1), ..extent };
    let refused = try_read(extents, other, 0..7).await.map(drop);
    assert!(matches!(&refused, Err(error) if error.kind() == StorageErrorKind::Failed), "{refused:?}");
    let refused = persist(async || extents.free(vec![other]).await).await;
    assert!(matches!(&refused, Err(error) if error.kind() == StorageErrorKind::Failed), "{refused:?}");
    assert!(read(extents, extent, 0..7).await == b"content");
}

async fn many_write_at_once<E: Extents>(extents: &E) {
    let write_one = async |seed: usize| {
        let content = content(150_000 * seed + seed, seed);
        let extent = write(extents, &content, 70_000).await;
        (extent, content)
    };
    let written = tokio::join!(write_one(0), write_one(1), write_one(2), write_one(5), write_one(9));
    for (extent, content) in [written.0, written.1, written.2, written.3, written.4] {
        assert!(read(extents, extent, 0..extent.bytes).await == content, "{extent:?}");
    }
}

async fn those_who_read_are_waited_for<E: Extents>(extents: &E) {
    let (first, second) = (extents.read_guard(), extents.read_guard());
    let mut waiting = std::pin::pin!(extents.wait_for_readers());
    assert!(is_pending(waiting.as_mut()), "two are reading");
    drop(first);
    assert!(is_pending(waiting.as_mut()), "one is reading");
    // Later readers are not waited for.
    let later = extents.read_guard();
    drop(second);
    waiting.await;
    assert!(!extents.expired(&later));
}

async fn what_was_freed_cannot_be_read<E: Extents>(extents: &E) {
    let extent = write(extents, &content(100_000, 1), 100_000).await;
    let _next = write(extents, &content(100_000, 2), 100_000).await;
    free(extents, vec![extent]).await;
    for range in [0..100_000, 70_000..70_001] {
        let read = try_read(extents, extent, range).await;
        assert!(matches!(&read, Err(error) if error.kind() == StorageErrorKind::Corrupt), "{read:?}");
    }
}

async fn only_what_is_left_over_is_swept<E: Extents>(extents: &E) {
    let extent = write(extents, b"kept", 4).await;
    assert_eq!(persist(async || extents.sweepable_volumes().await).await, Ok(vec![]));
    let refused = persist(async || extents.sweep(extent.volume, vec![]).await).await;
    assert!(matches!(&refused, Err(error) if error.kind() == StorageErrorKind::Failed), "{refused:?}");
    assert_eq!(read(extents, extent, 0..4).await, b"kept");
}

async fn free_gives_space_back_and_may_be_repeated<S: Subject>(subject: &mut S) {
    let extents = subject.extents();
    let before = subject.used_bytes();
    let kept = write(extents, &content(70_000, 1), 70_000).await;
    let mut freed = Vec::new();
    for size in SIZES {
        freed.push(write(extents, &content(size, 1), 70_000).await);
    }
    let after = write(extents, &content(70_000, 2), 70_000).await;
    for _ in 0..3 {
        free(extents, freed.clone()).await;
    }
    free(extents, vec![]).await;
    let used = subject.used_bytes() - before;
    assert!(used < 300_000, "{used} bytes are in use");
    assert!(read(extents, kept, 0..70_000).await == content(70_000, 1));
    assert!(read(extents, after, 0..70_000).await == content(70_000, 2));
    free(extents, vec![after, kept]).await;
}

async fn a_dropped_writer_leaves_nothing<S: Subject>(subject: &mut S) {
    let extents = subject.extents();
    let before = subject.used_bytes();
    for size in SIZES {
        drop(begun(extents, content(size, 1)).await);

        let writer = begun(extents, content(size, 1)).await;
        // A store may be done before it is asked twice; then there is an extent.
        let finishing = Box::pin(writer.finish());
        if let Some(Ok(extent)) = poll_once(finishing) {
            free(extents, vec![extent]).await;
            extents.unpin(extent);
        }

        let mut writer = begun(extents, Vec::new()).await;
        if poll_once(Box::pin(writer.write(content(2_000_000, 1).into()))).is_none() {
            let refused = writer.finish().await;
            assert!(
                matches!(&refused, Err(error) if error.kind() == StorageErrorKind::Failed),
                "some bytes are missing: {refused:?}"
            );
        }
    }
    let give_up = Instant::now() + Duration::from_secs(10);
    while subject.used_bytes() > before {
        assert!(Instant::now() < give_up, "{} bytes more are in use", subject.used_bytes() - before);
        tokio::task::yield_now().await;
    }
}

async fn what_was_written_is_there_after_reopening<S: Subject>(subject: &mut S) {
    let mut written = Vec::new();
    for size in SIZES {
        written.push(write(subject.extents(), &content(size, 7), 70_000).await);
    }
    for _ in 0..2 {
        subject.reopen();
        let extents = subject.extents();
        let left = persist(async || extents.sweepable_volumes().await).await;
        assert_eq!(left, Ok(vec![]), "it was closed");
        for extent in &written {
            let found = read(subject.extents(), *extent, 0..extent.bytes).await;
            assert!(found == content(extent.bytes as usize, 7), "{extent:?}");
        }
        let new = write(subject.extents(), b"new", 1).await;
        assert_eq!(read(subject.extents(), new, 0..3).await, b"new");
    }
    free(subject.extents(), written).await;
}

async fn space_is_given_back_after_reopening<S: Subject>(subject: &mut S) {
    let before = subject.used_bytes();
    let extent = write(subject.extents(), &content(1_000_000, 7), 70_000).await;
    subject.reopen();
    for _ in 0..2 {
        free(subject.extents(), vec![extent]).await;
        subject.reopen();
    }
    assert!(subject.used_bytes() <= before);
}

/// One step of a random history. Extents are chosen by number, whatever there is.
#[derive(Debug, Clone)]
pub enum Step {
    Write { bytes: usize, piece: usize },
    Abandon { bytes: usize },
    Read { which: usize, from: usize, to: usize },
    Free { which: usize, count: usize },
    FreeAgain,
    Reopen,
}

/// Replays `steps` on an empty store and on a model of it, and panics where they differ.
pub async fn follow<S: Subject>(subject: &mut S, steps: &[Step]) {
    let mut model: Vec<(Extent, Vec<u8>)> = Vec::new();
    let mut freed: Vec<Extent> = Vec::new();
    let mut places = HashSet::new();
    for (index, step) in steps.iter().enumerate() {
        let extents = subject.extents();
        match step {
            Step::Write { bytes, piece } => {
                let content = content(*bytes, index);
                let extent = write(extents, &content, *piece).await;
                assert!(places.insert((extent.volume, extent.offset)), "step {index}: {step:?}: {extent:?}");
                model.push((extent, content));
            }
            Step::Abandon { bytes } => {
                drop(begun(extents, content(*bytes, index)).await);
            }
            Step::Read { which, from, to } if !model.is_empty() => {
                let (extent, content) = &model[which % model.len()];
                let (from, to) = (from % (content.len() + 1), to % (content.len() + 1));
                let (from, to) = (from.min(to), from.max(to));
                let found = read(extents, *extent, from as u64..to as u64).await;
                assert!(found == content[from..to], "step {index}: {step:?}: {extent:?}");
            }
            Step::Free { which, count } if !model.is_empty() => {
                let first = which % model.len();
                let last = (first + count).min(model.len());
                freed = model.drain(first..last).map(|(extent, _)| extent).collect();
                free(extents, freed.clone()).await;
            }
            Step::FreeAgain => free(extents, freed.clone()).await,
            Step::Reopen => subject.reopen(),
            Step::Read { .. } | Step::Free { .. } => {}
        }
    }
    for (extent, content) in &model {
        assert!(
            read(subject.extents(), *extent, 0..extent.bytes).await == *content,
            "at the end: {extent:?}"
        );
    }
    let kept = model.into_iter().map(|(extent, _)| extent).collect();
    free(subject.extents(), kept).await;
    subject.reopen();
    assert_eq!(subject.used_bytes(), 0, "nothing is left");
}

/// Bytes that tell where they are from.
pub fn content(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index * 31 + index / 251 + seed * 17) as u8).collect()
}

async fn write<E: Extents>(extents: &E, content: &[u8], piece: usize) -> Extent {
    let extent = persist(async || {
        let mut writer = extents.begin().await?;
        for piece in content.chunks(piece) {
            writer.write(Bytes::copy_from_slice(piece)).await?;
        }
        writer.finish().await
    });
    let extent = extent.await.expect("an extent can be written");
    extents.unpin(extent);
    extent
}

/// A writer that was given some bytes.
async fn begun<E: Extents>(extents: &E, content: Vec<u8>) -> E::Writer {
    let content = Bytes::from(content);
    let writer = persist(async || {
        let mut writer = extents.begin().await?;
        writer.write(content.clone()).await?;
        Ok(writer)
    });
    writer.await.expect("an extent can be begun")
}

async fn read<E: Extents>(extents: &E, extent: Extent, range: Range<u64>) -> Vec<u8> {
    try_read(extents, extent, range).await.expect("an extent can be read").concat()
}

async fn try_read<E: Extents>(
    extents: &E,
    extent: Extent,
    range: Range<u64>,
) -> Result<Vec<Bytes>, StorageError> {
    persist(async || extents.read(extent, range.clone()).await).await
}

async fn free<E: Extents>(extents: &E, freed: Vec<Extent>) {
    persist(async || extents.free(freed.clone()).await).await.expect("extents can be freed");
}

/// Asks again while the store refuses it for now, as it may.
async fn persist<T>(mut call: impl AsyncFnMut() -> Result<T, StorageError>) -> Result<T, StorageError> {
    const MAX_REFUSALS: usize = 1000;
    for _ in 0..MAX_REFUSALS {
        match call().await {
            Err(error) if error.kind() == StorageErrorKind::Unavailable => tokio::task::yield_now().await,
            answer => return answer,
        }
    }
    panic!("refused {MAX_REFUSALS} times")
}

fn is_pending<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

/// Polls a future once and drops it.
fn poll_once<F: Future>(mut future: std::pin::Pin<Box<F>>) -> Option<F::Output> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
