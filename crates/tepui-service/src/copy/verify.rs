//! Compares two storages: every row, and the bytes of every extent that rows refer to. Extents have other names in the target,
//! so each one that a row of the source names must be in the place of one in the same row of the target.

use super::extents::{PARALLEL, digest};
use super::patience::patiently;
use super::progress::CopyProgress;
use super::read::{PAGE, RowPages};
use super::rename::{extents_in, with_extents};
use super::survey::Inspection;
use super::{CopyError, Storage};
use crate::check::RowCounts;
use crate::keyspace;
use crate::record::{CopiedExtent, StoredExtent};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use tepui_storage::{Engine, Extent, Extents, Key, StorageError, Value};
use tokio::task::JoinSet;

/// Against what the bytes of the target's extents are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KnownBytes {
    /// The digests that were taken while they were copied.
    ByDigest,
    /// Those in the source, which are read again.
    InSource,
}

/// No more differences are told.
const MAX_TOLD: usize = 10;
/// Extents that are looked up at a time.
const LOOKED_UP: usize = 256;
/// Extents with several references that are remembered, so that their bytes are compared once. More are compared again.
const MAX_REMEMBERED: usize = 1 << 20;

#[derive(Default)]
struct Differences {
    told: Vec<String>,
    more: u64,
}

impl Differences {
    fn add(&mut self, what: String) {
        match self.told.len() < MAX_TOLD {
            true => self.told.push(what),
            false => self.more += 1,
        }
    }

    fn into_result(mut self) -> Result<(), CopyError> {
        if self.more > 0 {
            self.told.push(format!("and {} more", self.more));
        }
        if self.told.is_empty() { Ok(()) } else { Err(CopyError::Different(self.told)) }
    }
}

/// The rows of one side, one after the other.
struct Side {
    pages: RowPages,
    rows: std::vec::IntoIter<(Key, Value)>,
    inspection: Inspection,
}

impl Side {
    fn new<E: Engine>(engine: &Arc<E>) -> Self {
        let pages = RowPages::new(engine, &keyspace::portable_rows(), &Key::new(), PAGE);
        Self { pages, rows: Vec::new().into_iter(), inspection: Inspection::default() }
    }

    /// The next row that is not the reference count of an extent: these are compared with their extents.
    async fn next(&mut self) -> Result<Option<(Key, Value)>, StorageError> {
        loop {
            for (key, value) in self.rows.by_ref() {
                self.inspection.row(&key, &value);
                if !keyspace::is_extent_count(&key) {
                    return Ok(Some((key, value)));
                }
            }
            match self.pages.next().await? {
                Some(page) => self.rows = page.into_iter(),
                None => return Ok(None),
            }
        }
    }
}

/// Returns what both sides have.
pub(super) async fn compare<E1: Engine, X1: Extents, E2: Engine, X2: Extents>(
    source: &Storage<E1, X1>,
    target: &Storage<E2, X2>,
    known: KnownBytes,
    progress: &Arc<CopyProgress>,
) -> Result<RowCounts, CopyError> {
    let (mut left, mut right) = (Side::new(&source.engine), Side::new(&target.engine));
    let mut differences = Differences::default();
    let mut extents = ExtentPairs::new(source, target, known, progress);
    let (mut ours, mut theirs) = (left.next().await?, right.next().await?);
    loop {
        let order = match (&ours, &theirs) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((ours, _)), Some((theirs, _))) => ours.cmp(theirs),
        };
        if order == Ordering::Equal
            && let (Some(ours), Some((_, theirs))) = (&ours, &theirs)
        {
            match paired(&ours.0, &ours.1, theirs)? {
                Some(pairs) => extents.add(pairs, &mut differences).await?,
                None => {
                    let row = left.inspection.check.describe_row(&ours.0);
                    differences.add(format!("a row is not the same: {row}"));
                }
            }
            progress.add_rows(1);
            progress.add_bytes((ours.0.len() + ours.1.len()) as u64);
        }
        if order == Ordering::Less
            && let Some((key, _)) = &ours
        {
            let row = left.inspection.check.describe_row(key);
            differences.add(format!("a row is only in the source: {row}"));
        }
        if order == Ordering::Greater
            && let Some((key, _)) = &theirs
        {
            let row = right.inspection.check.describe_row(key);
            differences.add(format!("a row is only in the target: {row}"));
        }
        if order != Ordering::Greater {
            ours = left.next().await?;
        }
        if order != Ordering::Less {
            theirs = right.next().await?;
        }
    }
    extents.finish(&mut differences).await?;
    let (counts, damages) = left.inspection.finish(&source.engine, "source").await?;
    damages.into_iter().for_each(|damage| differences.add(damage));
    let (copied, damages) = right.inspection.finish(&target.engine, "target").await?;
    damages.into_iter().for_each(|damage| differences.add(damage));
    if counts != copied {
        differences.add(format!("the source has {counts:?}, and the target {copied:?}"));
    }
    differences.into_result()?;
    Ok(counts)
}

/// The extents that two values of one key name in the same places. `None`: the values differ in something else.
fn paired(key: &Key, ours: &Value, theirs: &Value) -> Result<Option<Vec<(Extent, Extent)>>, CopyError> {
    let before = extents_in(key, ours)?;
    if before.is_empty() {
        return Ok((ours == theirs).then(Vec::new));
    }
    // What cannot be decoded is not the same.
    let Ok(after) = extents_in(key, theirs) else { return Ok(None) };
    if before.len() != after.len() {
        return Ok(None);
    }
    let renamed = with_extents(key, ours, &mut after.iter().copied())?;
    let pairs = before.into_iter().zip(after).collect();
    Ok((renamed.as_ref() == Some(theirs)).then_some(pairs))
}

/// Extents of the source, and those that are in their place.
struct ExtentPairs<'a, E1, X1, E2, X2> {
    source: &'a Storage<E1, X1>,
    target: &'a Storage<E2, X2>,
    known: KnownBytes,
    progress: &'a Arc<CopyProgress>,
    /// To be looked up.
    pairs: Vec<(Extent, Extent)>,
    /// Those with several references that were met.
    shared: HashMap<Extent, Extent>,
    running: JoinSet<Result<Option<String>, StorageError>>,
}

impl<'a, E1: Engine, X1: Extents, E2: Engine, X2: Extents> ExtentPairs<'a, E1, X1, E2, X2> {
    fn new(
        source: &'a Storage<E1, X1>,
        target: &'a Storage<E2, X2>,
        known: KnownBytes,
        progress: &'a Arc<CopyProgress>,
    ) -> Self {
        let (pairs, shared, running) = (Vec::new(), HashMap::new(), JoinSet::new());
        Self { source, target, known, progress, pairs, shared, running }
    }

    async fn add(
        &mut self,
        pairs: Vec<(Extent, Extent)>,
        differences: &mut Differences,
    ) -> Result<(), CopyError> {
        self.pairs.extend(pairs);
        if self.pairs.len() >= LOOKED_UP { self.look_up(differences).await } else { Ok(()) }
    }

    async fn finish(&mut self, differences: &mut Differences) -> Result<(), CopyError> {
        self.look_up(differences).await?;
        while !self.running.is_empty() {
            self.join(differences).await?;
        }
        Ok(())
    }

    /// Compares the reference counts, and begins to compare bytes.
    async fn look_up(&mut self, differences: &mut Differences) -> Result<(), CopyError> {
        let pairs = std::mem::take(&mut self.pairs);
        let keys: Vec<Key> = pairs.iter().map(|(ours, _)| keyspace::extent(*ours)).collect();
        let counts = patiently(|| self.source.engine.get_many(&keys)).await?;
        let mut keys: Vec<Key> = pairs.iter().map(|(_, theirs)| keyspace::extent(*theirs)).collect();
        if self.known == KnownBytes::ByDigest {
            keys.extend(pairs.iter().map(|(ours, _)| keyspace::copied_extent(*ours)));
        }
        let mut found = patiently(|| self.target.engine.get_many(&keys)).await?;
        let copies = found.split_off(pairs.len());
        let mut copies = copies.into_iter();
        for (((ours, theirs), count), copied_count) in pairs.into_iter().zip(counts).zip(found) {
            let copy = copies.next().flatten();
            if count.is_none() || count != copied_count || ours.bytes != theirs.bytes {
                differences.add(format!("an extent is not counted as in the source: {ours:?}, {theirs:?}"));
                continue;
            }
            let references =
                count.map_or(Ok(1), |count| StoredExtent::decode(&count).map(|count| count.references))?;
            if references > 1 {
                match self.shared.get(&ours) {
                    Some(before) if *before == theirs => continue,
                    Some(before) => {
                        differences.add(format!("an extent became two: {ours:?}, {before:?}, {theirs:?}"));
                        continue;
                    }
                    None if self.shared.len() < MAX_REMEMBERED => drop(self.shared.insert(ours, theirs)),
                    None => {}
                }
            }
            let sha256 = match (self.known, copy) {
                (KnownBytes::InSource, _) => None,
                (KnownBytes::ByDigest, Some(row)) => {
                    let copy = CopiedExtent::decode(&row)?;
                    if copy.extent != theirs {
                        differences
                            .add(format!("an extent was copied to another place: {copy:?}, {theirs:?}"));
                        continue;
                    }
                    Some(copy.sha256)
                }
                (KnownBytes::ByDigest, None) => {
                    differences.add(format!("an extent was not copied: {ours:?}"));
                    continue;
                }
            };
            while self.running.len() >= PARALLEL {
                self.join(differences).await?;
            }
            self.begin(ours, theirs, sha256);
        }
        Ok(())
    }

    /// Begins to compare the bytes of two extents.
    fn begin(&mut self, ours: Extent, theirs: Extent, sha256: Option<[u8; 32]>) {
        let (source, target) = (Arc::clone(&self.source.extents), Arc::clone(&self.target.extents));
        let progress = Arc::clone(self.progress);
        // The bytes of an extent are counted once.
        let uncounted = CopyProgress::default();
        self.running.spawn(async move {
            let expected = match sha256 {
                Some(sha256) => sha256,
                None => patiently(|| digest(&*source, ours, &uncounted)).await?,
            };
            let found = patiently(|| digest(&*target, theirs, &progress)).await?;
            progress.add_extent();
            Ok((expected != found)
                .then(|| format!("the bytes of an extent are not the same: {ours:?}, {theirs:?}")))
        });
    }

    async fn join(&mut self, differences: &mut Differences) -> Result<(), CopyError> {
        if let Some(done) = self.running.join_next().await {
            let difference = done.map_err(|panic| StorageError::failed(panic.to_string()))??;
            difference.into_iter().for_each(|difference| differences.add(difference));
        }
        Ok(())
    }
}
