//! A store of objects that refuses calls, carries them out and then says that it failed, and takes its time.

use crate::subject::{TestClock, options, prefix, stored};
use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tepui_objects::{ObjectExtents, ObjectOptions, object_store};
use tepui_storage::contract::extents::content;
use tepui_storage::{Extent, ExtentWriter, Extents, StorageError, StorageErrorKind};

/// Objects in memory. A clone is the same store.
#[derive(Debug, Clone)]
pub(crate) struct FaultyStore {
    inner: Arc<InMemory>,
    faults: Arc<Faults>,
}

#[derive(Debug)]
struct Faults {
    random: Mutex<fastrand::Rng>,
    /// Of a hundred calls, so many fail.
    rate: AtomicU32,
    is_cut_off: AtomicBool,
    /// Whether what is put is there, its answer is lost, and the attempt after it is refused.
    refuses_retries: AtomicBool,
    /// How many milliseconds it takes until what is put is there.
    put_delay: AtomicU64,
}

/// What becomes of a call.
#[derive(PartialEq, Eq)]
enum Fate {
    Good,
    Refused,
    /// Carried out, but the answer is lost.
    Lost,
}

impl Faults {
    async fn fate(&self) -> Fate {
        if self.is_cut_off.load(Ordering::SeqCst) {
            return Fate::Refused;
        }
        let (fails, lost, pause) = {
            let mut random = self.random.lock().unwrap();
            (random.u32(..100) < self.rate.load(Ordering::SeqCst), random.bool(), random.u32(..8))
        };
        for _ in 0..pause {
            tokio::task::yield_now().await;
        }
        match (fails, lost) {
            (false, _) => Fate::Good,
            (true, false) => Fate::Refused,
            (true, true) => Fate::Lost,
        }
    }

    /// Carries something out that makes an object.
    async fn put<T>(&self, call: impl Future<Output = Result<T>>, refusal: fn() -> Error) -> Result<T> {
        let delay = Duration::from_millis(self.put_delay.load(Ordering::SeqCst));
        let done = self.call(async {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            call.await
        });
        match self.refuses_retries.load(Ordering::SeqCst) {
            true => done.await.and_then(|_| Err(refusal())),
            false => done.await,
        }
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        match self.fate().await {
            Fate::Good => call.await,
            Fate::Refused => Err(failed()),
            Fate::Lost => {
                call.await?;
                Err(failed())
            }
        }
    }
}

fn failed() -> Error {
    Error::Generic { store: "faulty", source: "Server returned non-2xx status code: 503 at random".into() }
}

fn forbidden() -> Error {
    Error::PermissionDenied { path: String::new(), source: "the signature is too old by now".into() }
}

fn no_such_upload() -> Error {
    Error::NotFound { path: String::new(), source: "no such upload: it was completed".into() }
}

impl FaultyStore {
    /// Nothing goes wrong yet.
    pub(crate) fn new(seed: u64) -> Self {
        let faults = Faults {
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            rate: AtomicU32::new(0),
            is_cut_off: AtomicBool::new(false),
            refuses_retries: AtomicBool::new(false),
            put_delay: AtomicU64::new(0),
        };
        Self { inner: Arc::new(InMemory::new()), faults: Arc::new(faults) }
    }

    /// Of a hundred calls, so many fail.
    fn set_rate(&self, rate: u32) {
        self.faults.rate.store(rate, Ordering::SeqCst);
    }

    /// Refuses everything for now.
    pub(crate) fn cut_off(&self, is_cut_off: bool) {
        self.faults.is_cut_off.store(is_cut_off, Ordering::SeqCst);
    }

    /// Carries puts out, loses their answers, and refuses the attempts after them.
    fn refuse_retries(&self, refuses: bool) {
        self.faults.refuses_retries.store(refuses, Ordering::SeqCst);
    }

    /// Lets puts take that long.
    pub(crate) fn delay_puts(&self, delay: Duration) {
        self.faults.put_delay.store(delay.as_millis() as u64, Ordering::SeqCst);
    }

    /// The same objects, for somebody whose calls do not fail.
    pub(crate) fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::<InMemory>::clone(&self.inner)
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, name: &Path, content: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.faults.put(self.inner.put_opts(name, content, options), forbidden).await
    }

    async fn put_multipart_opts(
        &self,
        name: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.faults.call(self.inner.put_multipart_opts(name, options)).await?;
        Ok(Box::new(FaultyUpload { inner, faults: Arc::clone(&self.faults) }))
    }

    async fn get_opts(&self, name: &Path, options: GetOptions) -> Result<GetResult> {
        self.faults.call(self.inner.get_opts(name, options)).await
    }

    fn delete_stream(&self, names: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, faults) = (Arc::clone(&self.inner), Arc::clone(&self.faults));
        names
            .then(move |name| {
                let (inner, faults) = (Arc::clone(&inner), Arc::clone(&faults));
                async move {
                    let name = name?;
                    let one = futures_util::stream::iter([Ok(name.clone())]).boxed();
                    faults.call(async { inner.delete_stream(one).next().await.unwrap() }).await
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let faults = Arc::clone(&self.faults);
        let (is_first, listed) = (AtomicBool::new(true), self.inner.list(prefix));
        listed
            .then(move |found| {
                let (faults, is_first) = (Arc::clone(&faults), is_first.swap(false, Ordering::SeqCst));
                async move { if !is_first || faults.fate().await == Fate::Good { found } else { Err(failed()) } }
            })
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct FaultyUpload {
    inner: Box<dyn MultipartUpload>,
    faults: Arc<Faults>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, content: PutPayload) -> UploadPart {
        let (part, faults) = (self.inner.put_part(content), Arc::clone(&self.faults));
        Box::pin(async move { faults.call(part).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.faults.put(self.inner.complete(), no_such_upload).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.faults.call(self.inner.abort()).await
    }
}

async fn try_write(extents: &ObjectExtents, content: Vec<u8>) -> std::result::Result<Extent, StorageError> {
    let mut writer = extents.begin().await?;
    for part in content.chunks(30_000) {
        writer.write(part.to_vec().into()).await?;
    }
    writer.finish().await
}

/// Asks again while the store is unavailable.
async fn persist<T>(
    mut call: impl AsyncFnMut() -> std::result::Result<T, StorageError>,
) -> std::result::Result<T, StorageError> {
    for _ in 0..2000 {
        match call().await {
            Err(error) if error.kind() == StorageErrorKind::Unavailable => tokio::task::yield_now().await,
            done => return done,
        }
    }
    panic!("unavailable for too long")
}

/// Some writers on two nodes, some of which lose interest, on a store that fails a fifth of all calls. Then one node dies and
/// the other one goes on.
async fn history(seed: u64) {
    let faulty = FaultyStore::new(seed);
    let store: Arc<dyn ObjectStore> = Arc::new(faulty.clone());
    let time = TestClock::default();
    let options = ObjectOptions {
        clock: time.clock(),
        part_bytes: 100_000,
        rotate_after: Duration::from_millis(20),
        timeout: Duration::from_secs(5),
        ..options()
    };
    let open = async || ObjectExtents::open_on(Arc::clone(&store), prefix(), options.clone()).await;
    faulty.set_rate(20);
    let nodes = [persist(&open).await.unwrap(), persist(&open).await.unwrap()];
    let mut random = fastrand::Rng::with_seed(seed + 1000);
    let mut acknowledged: Vec<(Extent, Vec<u8>)> = Vec::new();
    let mut places = HashSet::new();
    for round in 0..60 {
        let node = &nodes[round % 2];
        let content = content(random.usize(..400_000), round);
        match random.u32(..10) {
            // Whoever waits loses interest at any time.
            0 | 1 => {
                let patience = Duration::from_micros(random.u64(..2000));
                let written = tokio::time::timeout(patience, try_write(node, content.clone())).await;
                if let Ok(Ok(extent)) = written {
                    assert!(places.insert((extent.volume, extent.offset)), "{extent:?}");
                    acknowledged.push((extent, content));
                }
            }
            2 if !acknowledged.is_empty() => {
                let (extent, _) = acknowledged.swap_remove(random.usize(..acknowledged.len()));
                persist(async || node.free(vec![extent]).await).await.unwrap();
                node.unpin(extent);
            }
            _ => {
                if let Ok(extent) = try_write(node, content.clone()).await {
                    assert!(places.insert((extent.volume, extent.offset)), "{extent:?}");
                    // A reference to it was made.
                    node.unpin(extent);
                    acknowledged.push((extent, content));
                }
            }
        }
        if let Some((extent, content)) = acknowledged.get(random.usize(..acknowledged.len().max(1))) {
            let (from, to) = (random.usize(..=content.len()), random.usize(..=content.len()));
            let (from, to) = (from.min(to), from.max(to));
            let read = persist(async || nodes[1].read(*extent, from as u64..to as u64).await).await.unwrap();
            assert!(read.concat() == content[from..to], "{seed}: {extent:?}");
        }
    }
    let [dead, living] = nodes;
    drop(dead);
    let give_up = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        // Puts of the dead node may end late; what nobody knows of is found when its lease has expired, in the volumes of the
        // living node, too.
        tokio::time::sleep(Duration::from_millis(30)).await;
        time.advance(Duration::from_secs(2 * 60 * 60));
        for volume in persist(async || living.sweepable_volumes().await).await.unwrap() {
            let kept =
                acknowledged.iter().map(|(extent, _)| *extent).filter(|extent| extent.volume == volume);
            let kept: Vec<Extent> = kept.collect();
            let swept = persist(async || living.sweep(volume, kept.clone()).await).await;
            // Repeated after its answer was lost.
            assert!(swept.is_ok() || living.sweep(volume, kept).await.is_err(), "{swept:?}");
        }
        let found = stored(&faulty.objects(), &prefix()).await.len();
        if found == acknowledged.len() {
            break;
        }
        assert!(
            std::time::Instant::now() < give_up,
            "{seed}: {found} objects, {} extents",
            acknowledged.len()
        );
    }
    faulty.set_rate(0);
    for (extent, content) in &acknowledged {
        assert!(
            living.read(*extent, 0..extent.bytes).await.unwrap().concat() == *content,
            "{seed}: {extent:?}"
        );
    }
}

#[tokio::test]
async fn what_is_acknowledged_is_there_and_what_is_not_is_swept() {
    for seed in 0..12 {
        history(seed).await;
    }
}

#[tokio::test]
async fn an_aborted_upload_leaves_no_parts() {
    let faulty = FaultyStore::new(1);
    let store: Arc<dyn ObjectStore> = Arc::new(faulty.clone());
    let options = ObjectOptions { part_bytes: 10_000, ..options() };
    let extents = ObjectExtents::open_on(Arc::clone(&store), prefix(), options).await.unwrap();
    let mut writer = extents.begin().await.unwrap();
    writer.write(content(200_000, 1).into()).await.unwrap();
    faulty.cut_off(true);
    let refused = writer.write(content(200_000, 1).into()).await.unwrap_err();
    assert_eq!(refused.kind(), StorageErrorKind::Unavailable);
    let refused = writer.finish().await.unwrap_err();
    assert_eq!(refused.kind(), StorageErrorKind::Failed);
    faulty.cut_off(false);
    assert_eq!(stored(&store, &prefix()).await, []);
    extents.close().await;
    assert_eq!(crate::subject::leases(&store, &prefix()).await, 0, "nothing was left behind");
}

/// The store has put an object, its answer was lost, and the attempt after that was refused: the signature had expired, or there
/// was no such upload any more. That says nothing of the first attempt.
#[tokio::test]
async fn what_a_refused_retry_has_left_behind_is_deleted() {
    for length in [10, 200_000] {
        let faulty = FaultyStore::new(1);
        let store: Arc<dyn ObjectStore> = Arc::new(faulty.clone());
        let options = ObjectOptions { part_bytes: 10_000, ..options() };
        let extents = ObjectExtents::open_on(Arc::clone(&store), prefix(), options).await.unwrap();
        let mut writer = extents.begin().await.unwrap();
        writer.write(content(length, 1).into()).await.unwrap();
        faulty.refuse_retries(true);
        let refused = writer.finish().await.unwrap_err();
        assert_eq!(refused.kind(), StorageErrorKind::Failed);
        faulty.refuse_retries(false);
        // In the background.
        let deleted = tokio::time::timeout(Duration::from_secs(5), async {
            while !stored(&store, &prefix()).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(deleted.await.is_ok(), "{length}: nobody knows of the object");
        extents.close().await;
        let left = crate::subject::leases(&store, &prefix()).await;
        assert_eq!(left, 1, "{length}: it may come to be later, so the volume is left to be swept");
    }
}
