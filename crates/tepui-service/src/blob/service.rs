//! The Blob service of all accounts of a server.

use super::copy::{CopyContent, SourceErrorStyle};
use super::download::{Download, Layout};
use super::list::Listed;
use super::merge::Merged;
use super::pending::{ActiveCopies, CopyUnderWay};
use super::upload::{Upload, UploadLocation, Uploaded};
use super::{append, blocks, change, containers, copy, delete, find, list, logs, pages, pending, put, read};
use crate::catalogue::CatalogueCache;
use crate::coop::{CoopBudget, CoopSnapshot};
use crate::keyspace::ContentId;
use crate::phase::{self, Phase};
use crate::record::{Content, StoredBlob, StoredContainer};
use crate::settings::Settings;
use crate::stats::BlobStats;
use crate::transact::{
    Attempt, CommitFailure, CommitState, MAX_RESTARTS, Outcome, SpaceUse, commit, restart, retry,
    storage_error,
};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tepui_digest::{ChecksumHasher, Digester};
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{
    self, BlobPage, BlobServiceProperties, BlobSink, ByteRange, Changed, Checksums, ContainerName, CopyBlob,
    CopySource, ImmutabilityMode, ListBlobs, OfType, Operation, RangeChecksum, Reply, UploadOperation,
    UploadOrigin,
};
use tepui_model::{Clock, ErrorCode, ServiceError, Timestamp, guid};
use tepui_storage::{Engine, Extent, Extents, Snapshot, StorageError};

/// The most extents of failed uploads that are remembered to be freed. If there are more, the next start frees them.
const MAX_DISCARDED: usize = 10_000;

/// Options of the Blob service.
#[derive(Debug, Clone)]
pub struct BlobOptions {
    /// How long the name of a deleted container stays reserved. Azure takes some 30 s; the default is zero.
    pub deleted_name_reserved_for: Duration,
    /// How long deleted containers can be restored. `None`: not at all.
    pub container_retention: Option<Duration>,
    /// The accounts with versioning enabled.
    pub versioned_accounts: Vec<String>,
    /// How long rehydration from the archive takes. Azure takes hours.
    pub rehydration: Duration,
    /// How far the clocks of the nodes that share the store may be apart, up to [`MAX_CLOCK_SKEW`](crate::MAX_CLOCK_SKEW).
    /// Leases last so much longer. Zero, the default, if no other node uses the store.
    pub clock_skew: Duration,
}

impl Default for BlobOptions {
    fn default() -> Self {
        Self {
            deleted_name_reserved_for: Duration::ZERO,
            container_retention: None,
            versioned_accounts: Vec::new(),
            rehydration: Duration::from_secs(5),
            clock_skew: Duration::ZERO,
        }
    }
}

/// The account of a request, and its permissions.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    pub account: &'a str,
    /// The permission for the operation.
    pub allowed: Allowed,
    /// The permission to read the source, if the operation has one.
    pub source_allowed: Allowed,
    /// The server itself, which may write logs. What it deletes is not retained.
    pub is_server: bool,
}

impl<'a> Caller<'a> {
    /// A caller with all permissions on an account.
    pub fn owner(account: &'a str) -> Self {
        Self { account, allowed: Allowed::Fully, source_allowed: Allowed::Fully, is_server: false }
    }

    /// The server itself, for what it keeps in an account.
    pub(super) fn server(account: &'a str) -> Self {
        Self { is_server: true, ..Self::owner(account) }
    }
}

/// Makes ids that nobody can guess: of leases, copies and contents.
pub type RandomIds = Arc<dyn Fn() -> u128 + Send + Sync>;

pub struct BlobService<E, X> {
    pub(super) engine: Arc<E>,
    pub(super) extents: Arc<X>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random_ids: RandomIds,
    options: BlobOptions,
    catalogue: CatalogueCache,
    settings: Settings<BlobServiceProperties>,
    digester: Digester,
    pub(super) copies: Arc<ActiveCopies>,
    pub(super) stats: Arc<BlobStats>,
    /// Extents of failed uploads that could not be freed yet.
    discarded: Mutex<Vec<Extent>>,
}

/// The input of a decision beside the operation.
pub(super) struct Context<'a, S> {
    pub(super) snapshot: &'a S,
    /// For long work without reads.
    pub(super) coop: &'a CoopBudget,
    pub(super) catalogue: &'a CatalogueCache,
    pub(super) account: &'a str,
    pub(super) allowed: Allowed,
    pub(super) source_allowed: Allowed,
    /// See [`Caller`].
    pub(super) is_server: bool,
    /// Later than the time of every decision before.
    pub(super) now: Timestamp,
    pub(super) random_ids: &'a (dyn Fn() -> u128 + Send + Sync),
    pub(super) options: &'a BlobOptions,
    pub(super) settings: &'a Settings<BlobServiceProperties>,
    pub(super) copies: &'a ActiveCopies,
    /// The content that a merge of layers has made.
    pub(super) merged: Option<&'a Merged>,
}

/// What is decided.
#[derive(Clone, Copy)]
enum Input<'a> {
    Operation(&'a Operation),
    Upload(&'a UploadOperation, &'a Uploaded),
    /// A copy that goes on after the reply, and its id.
    CopyStart(&'a CopyBlob, &'a str),
}

/// What follows the commit of a decision.
pub(super) enum NextStep {
    Done(Reply),
    /// Send the content.
    Content(Box<blob::Content>, LocatedContent),
    /// Add the CRC64 of these bytes to the reply.
    Checksum(Reply, LocatedContent),
    /// A part is committed: decide again.
    Continue,
    /// Merge the layers of this content, then decide again.
    MergeLayers(ContentId),
}

/// A range of a content.
pub(super) struct LocatedContent {
    pub(super) content: (Content, Layout),
    pub(super) range: Range<u64>,
}

impl From<Reply> for NextStep {
    fn from(reply: Reply) -> Self {
        Self::Done(reply)
    }
}

/// The reply to an operation, and the bytes that follow it.
pub struct Answer<E, X: Extents> {
    pub reply: Reply,
    /// With [`Reply::Content`].
    pub content: Option<Download<E, X>>,
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    /// Begins a transaction, whose reads yield when they take long.
    pub(super) async fn begin(&self) -> Result<CoopSnapshot<E::Transaction>, ServiceError> {
        self.engine.begin().await.map(CoopSnapshot::new).map_err(storage_error)
    }

    pub fn new(
        engine: Arc<E>,
        extents: Arc<X>,
        clock: Arc<dyn Clock>,
        random_ids: RandomIds,
        options: BlobOptions,
    ) -> Self {
        let (catalogue, settings) = (CatalogueCache::default(), Settings::of_service("blob"));
        let digester = Digester::start();
        Self {
            engine,
            extents,
            clock,
            random_ids,
            options,
            catalogue,
            settings,
            digester,
            copies: Arc::default(),
            stats: Arc::default(),
            discarded: Mutex::default(),
        }
    }

    /// What happens to the bytes of blobs in the background.
    pub fn stats(&self) -> &Arc<BlobStats> {
        &self.stats
    }

    /// Begins to receive the bytes that an operation needs: the body of the request, or the bytes of its source (from
    /// [`BlobService::open_source`], if the source is on this server).
    pub fn begin_upload(&self, operation: &UploadOperation) -> Upload<X> {
        Upload::new(Arc::clone(&self.extents), &self.digester, operation)
    }

    /// The bytes of a source on this server, if the caller may read them.
    pub async fn open_source(
        &self,
        caller: Caller<'_>,
        source: &CopySource,
        range: Option<ByteRange>,
    ) -> Result<Download<E, X>, ServiceError> {
        restart(|| async {
            let reading = self.extents.read_guard();
            let snapshot = self.begin().await?;
            let context = self.context(&snapshot, caller);
            let found = copy::find_source(&context, source, SourceErrorStyle::AsCopySource).await?;
            let blob = found.ok_or(ErrorCode::CannotVerifyCopySource)?;
            copy::require_readable(&context, &blob, source)?;
            let range = range.map_or(Ok(0..blob.bytes), |range| range.within(blob.bytes))?;
            let content = (blob.content, layout(blob.state.of_type));
            // A source with a customer-provided key was refused above.
            Download::open(self.stores(), reading, &snapshot, content, range, None).await
        })
        .await
    }

    fn stores(&self) -> (Arc<E>, Arc<X>, Arc<BlobStats>) {
        (Arc::clone(&self.engine), Arc::clone(&self.extents), Arc::clone(&self.stats))
    }

    /// Fails if the operation would fail whatever bytes it has. To be called before they are received.
    pub async fn check(&self, caller: Caller<'_>, operation: &UploadOperation) -> Result<(), ServiceError> {
        let declared = match operation.origin() {
            UploadOrigin::Request(upload) => upload.bytes,
            UploadOrigin::Source(_) => None,
        };
        // Without a declared length, one that meets every condition.
        let bytes = match operation {
            UploadOperation::PutPages(put) => declared.unwrap_or(put.write.pages.bytes()),
            _ => declared.unwrap_or(1),
        };
        let expected = Uploaded::expected(bytes);
        let input = Input::Upload(operation, &expected);
        restart(|| async {
            let snapshot = self.begin().await?;
            let context = self.context(&snapshot, caller);
            self.decide(&context, input).await.map(drop)
        })
        .await
    }

    /// Frees bytes that were received for an operation that failed. Nothing refers to them.
    pub async fn discard(&self, uploaded: Uploaded) {
        let UploadLocation::Extent(extent) = uploaded.location else { return };
        if let Err(error) = self.free_unreferenced(vec![extent]).await {
            tracing::warn!(%error, "cannot free the bytes of a failed upload yet");
            let mut discarded = self.discarded.lock();
            if discarded.len() < MAX_DISCARDED {
                discarded.push(extent);
            }
        }
    }

    /// Frees the bytes of failed uploads that could not be freed at once.
    pub(super) async fn free_discarded(&self) -> Result<(), StorageError> {
        let extents = std::mem::take(&mut *self.discarded.lock());
        if extents.is_empty() {
            return Ok(());
        }
        let freed = self.free_unreferenced(extents.clone()).await;
        if freed.is_err() {
            self.discarded.lock().extend(extents);
        }
        freed
    }

    /// Frees extents that nothing ever referred to.
    async fn free_unreferenced(&self, extents: Vec<Extent>) -> Result<(), StorageError> {
        self.extents.free(extents.clone()).await?;
        extents.into_iter().for_each(|extent| self.extents.unpin(extent));
        Ok(())
    }

    /// To be called when a blob refers to the received bytes.
    pub(super) fn mark_referenced(&self, uploaded: &Uploaded) {
        if let UploadLocation::Extent(extent) = uploaded.location {
            self.extents.unpin(extent);
        }
    }

    /// Starts a copy that continues after the reply ([`CopyBlob::goes_on`]). Its source has been found. The caller then
    /// fetches the bytes and calls [`BlobService::finish_copy`].
    pub async fn start_copy(
        &self,
        caller: Caller<'_>,
        copy: &CopyBlob,
    ) -> Result<(Reply, CopyUnderWay), ServiceError> {
        let started = ActiveCopies::begin(&self.copies, caller.account, guid::print((self.random_ids)()))?;
        let input = Input::CopyStart(copy, started.id());
        let answer = self.execute_with(caller, input).await.map_err(|failure| failure.error)?;
        Ok((answer.reply, started))
    }

    /// Executes an operation.
    pub async fn execute(
        &self,
        caller: Caller<'_>,
        operation: &Operation,
    ) -> Result<Answer<E, X>, ServiceError> {
        self.execute_with(caller, Input::Operation(operation)).await.map_err(|failure| failure.error)
    }

    /// Executes an operation whose bytes have been received.
    pub async fn execute_upload(
        &self,
        caller: Caller<'_>,
        operation: &UploadOperation,
        uploaded: Uploaded,
    ) -> Result<Reply, ServiceError> {
        let failure = match self.execute_with(caller, Input::Upload(operation, &uploaded)).await {
            Ok(answer) => {
                self.mark_referenced(&uploaded);
                return Ok(answer.reply);
            }
            Err(failure) => failure,
        };
        // Bytes that a blob may refer to are neither freed nor marked: the next start finds out.
        if failure.state == CommitState::NotCommitted {
            self.discard(uploaded).await;
        }
        Err(failure.error)
    }

    /// Lists a page of blobs into the sink.
    pub async fn list_blobs(
        &self,
        caller: Caller<'_>,
        query: &ListBlobs,
        sink: &mut dyn BlobSink,
    ) -> Result<BlobPage, ServiceError> {
        phase::enter(Phase::Read);
        let mut progress = None;
        for _ in 0..=MAX_RESTARTS {
            let snapshot = self.begin().await?;
            let context = self.context(&snapshot, caller);
            match list::list_blobs(&context, query, sink, progress).await? {
                Listed::Page(page) => return Ok(page),
                Listed::Outdated(listed) => progress = listed,
            }
        }
        Err(ErrorCode::ServerBusy.into())
    }

    async fn execute_with(
        &self,
        caller: Caller<'_>,
        input: Input<'_>,
    ) -> Result<Answer<E, X>, CommitFailure> {
        let frees_space = matches!(input, Input::Operation(operation) if operation.frees_space());
        let space = SpaceUse::frees_if(frees_space);
        retry(|merged: Option<Merged>| async move {
            phase::enter(Phase::Read);
            // Before the transaction: what it sees stays readable.
            let reading = self.extents.read_guard();
            let snapshot = self.begin().await?;
            let context = self.context(&snapshot, caller);
            let context = Context { merged: merged.as_ref(), ..context };
            let outcome = self.decide(&context, input).await?;
            if let NextStep::Content(content, located) = outcome.reply {
                let answer = self.send(input, *content, located, &snapshot, reading).await?;
                return Ok(Attempt::Done(answer));
            }
            let answer = match commit(&*self.engine, snapshot.into_inner(), outcome, space).await? {
                Attempt::Done(NextStep::Done(reply)) => {
                    self.after_commit(caller.account, input);
                    Answer { reply, content: None }
                }
                Attempt::Done(NextStep::Checksum(reply, located)) => {
                    Answer { reply: self.with_crc64(reply, located, reading).await, content: None }
                }
                Attempt::Done(NextStep::MergeLayers(content)) => {
                    return Ok(Attempt::Continue(self.merge(content).await?));
                }
                Attempt::Done(NextStep::Continue | NextStep::Content(..)) | Attempt::Continue(()) => {
                    return Ok(Attempt::Continue(merged));
                }
                Attempt::Retry(()) => return Ok(Attempt::Retry(merged)),
            };
            Ok(Attempt::Done(answer))
        })
        .await
    }

    /// Updates the state in memory after an operation was committed.
    fn after_commit(&self, account: &str, input: Input<'_>) {
        match input {
            Input::Operation(Operation::SetServiceProperties(_)) => self.settings.invalidate(account),
            Input::Operation(Operation::AbortCopy { copy_id, .. }) => {
                self.copies.abort(&copy_id.to_ascii_lowercase())
            }
            _ => {}
        }
    }

    /// The reply with bytes, and with their checksum if the request wants it.
    async fn send(
        &self,
        input: Input<'_>,
        mut content: blob::Content,
        located: LocatedContent,
        snapshot: &CoopSnapshot<E::Transaction>,
        reading: X::ReadGuard,
    ) -> Result<Answer<E, X>, ServiceError> {
        let (wanted, secret) = match input {
            Input::Operation(Operation::GetBlob(get)) => (get.range_checksum, get.encryption.secret.clone()),
            _ => (None, None),
        };
        let LocatedContent { content: stored, range } = located;
        let download = Download::open(self.stores(), reading, snapshot, stored, range, secret).await?;
        let Some(wanted) = wanted else {
            let reply = Reply::Content(Box::new(content));
            return Ok(Answer { reply, content: Some(download) });
        };
        let (download, sums) = download.summed(ChecksumHasher::new(wanted == RangeChecksum::Md5)).await?;
        content.checksums = match wanted {
            RangeChecksum::Md5 => Checksums { md5: sums.md5, crc64: None },
            RangeChecksum::Crc64 => Checksums { md5: None, crc64: sums.crc64 },
        };
        Ok(Answer { reply: Reply::Content(Box::new(content)), content: Some(download) })
    }

    fn context<'a>(
        &'a self,
        snapshot: &'a CoopSnapshot<E::Transaction>,
        caller: Caller<'a>,
    ) -> Context<'a, CoopSnapshot<E::Transaction>> {
        Context {
            snapshot,
            coop: &snapshot.coop,
            catalogue: &self.catalogue,
            account: caller.account,
            allowed: caller.allowed,
            source_allowed: caller.source_allowed,
            is_server: caller.is_server,
            now: self.clock.tick(),
            random_ids: &*self.random_ids,
            options: &self.options,
            settings: &self.settings,
            copies: &self.copies,
            merged: None,
        }
    }

    async fn decide(
        &self,
        context: &Context<'_, CoopSnapshot<E::Transaction>>,
        input: Input<'_>,
    ) -> Result<Outcome<NextStep>, ServiceError> {
        if !context.is_server {
            match input {
                Input::Operation(operation) => logs::check(operation)?,
                Input::Upload(operation, _) => logs::check_upload(operation.blob())?,
                Input::CopyStart(copy, _) => logs::check_upload(&copy.blob)?,
            }
        }
        match input {
            Input::Operation(operation) => self.decide_operation(context, operation).await,
            Input::Upload(operation, uploaded) => decide_upload(context, operation, uploaded).await,
            Input::CopyStart(copy, id) => copy::start_copy(context, copy, id).await,
        }
    }

    async fn decide_operation(
        &self,
        context: &Context<'_, CoopSnapshot<E::Transaction>>,
        operation: &Operation,
    ) -> Result<Outcome<NextStep>, ServiceError> {
        match operation {
            Operation::PutEmptyBlob(put) => put::put_empty_blob(context, put).await,
            Operation::PutBlobFromUrl(shared) => {
                let content = CopyContent::Shared(shared.source());
                copy::put_blob_from_url(context, shared.copy(), content).await
            }
            Operation::CopyBlob(shared) => {
                copy::copy_blob(context, shared.copy(), CopyContent::Shared(shared.source())).await
            }
            Operation::AbortCopy { blob, copy_id, preconditions } => {
                pending::abort(context, blob, copy_id, preconditions).await
            }
            Operation::GetBlob(get) => {
                let (content, located) = read::get_blob(context, get).await?;
                Ok(Outcome::read(NextStep::Content(Box::new(content), located)))
            }
            Operation::GetBlobProperties { blob, revision, preconditions, encryption, .. } => {
                let properties =
                    read::get_properties(context, blob, *revision, preconditions, encryption).await?;
                Ok(Outcome::read(Reply::Blob(Box::new(properties)).into()))
            }
            Operation::SetBlobMetadata { blob, metadata, preconditions, encryption } => {
                change::set_metadata(context, blob, metadata, preconditions, encryption).await
            }
            Operation::SetBlobProperties(set) => change::set_properties(context, set).await,
            Operation::SetBlobTier { blob, revision, tier, priority, preconditions } => {
                change::set_tier(context, blob, *revision, (*tier, *priority), preconditions).await
            }
            Operation::GetBlobTags { blob, revision, preconditions } => {
                let (blob, _) = read::find(context, blob, *revision, preconditions).await?;
                Ok(Outcome::read(Reply::Tags(blob.state.tags).into()))
            }
            Operation::SetBlobTags { blob, revision, tags, preconditions } => {
                change::set_tags(context, blob, *revision, tags, preconditions).await
            }
            Operation::SetImmutabilityPolicy { blob, revision, policy, unmodified_since } => {
                let set = |stored: &mut StoredBlob| {
                    if unmodified_since.is_some_and(|since| stored.changed > since) {
                        return Err(ErrorCode::ConditionNotMet);
                    }
                    let locked = stored.immutability.filter(|old| old.mode == ImmutabilityMode::Locked);
                    if locked.is_some_and(|old| policy.until < old.until || policy.mode != old.mode) {
                        return Err(ErrorCode::BlobImmutableDueToPolicy);
                    }
                    stored.immutability = Some(*policy);
                    Ok(Reply::ImmutabilityPolicySet(*policy))
                };
                change::update_retention(context, blob, *revision, set).await
            }
            Operation::DeleteImmutabilityPolicy { blob, revision } => {
                let delete = |stored: &mut StoredBlob| {
                    if stored.immutability.is_some_and(|old| old.mode == ImmutabilityMode::Locked) {
                        return Err(ErrorCode::BlobImmutableDueToPolicy);
                    }
                    stored.immutability = None;
                    Ok(Reply::ImmutabilityPolicyDeleted)
                };
                change::update_retention(context, blob, *revision, delete).await
            }
            Operation::SetLegalHold { blob, revision, hold } => {
                let set = |stored: &mut StoredBlob| {
                    stored.legal_hold = Some(*hold);
                    Ok(Reply::LegalHoldSet(*hold))
                };
                change::update_retention(context, blob, *revision, set).await
            }
            Operation::LeaseBlob { blob, action, conditions } => {
                change::lease(context, blob, *action, conditions).await
            }
            Operation::SnapshotBlob { blob, metadata, preconditions, encryption } => {
                change::snapshot(context, blob, metadata, preconditions, encryption).await
            }
            Operation::DeleteBlob(delete) => delete::delete_blob(context, delete).await,
            Operation::UndeleteBlob { blob } => delete::undelete_blob(context, blob).await,
            Operation::PutBlockList(put) => blocks::put_block_list(context, put).await,
            Operation::GetBlockList { blob, revision, list, preconditions } => {
                let list = blocks::get_block_list(context, blob, *revision, *list, preconditions).await?;
                Ok(Outcome::read(Reply::BlockList(list).into()))
            }
            Operation::SealBlob { blob, position, preconditions } => {
                append::seal(context, blob, *position, preconditions).await
            }
            Operation::ClearPages(clear) => pages::clear_pages(context, clear).await,
            Operation::GetPageRanges(get) => pages::get_page_ranges(context, get)
                .await
                .map(|ranges| Outcome::read(Reply::PageRanges(ranges).into())),
            Operation::FindBlobsByTags(query) => {
                find::find(context, query).await.map(|page| Outcome::read(Reply::Found(page).into()))
            }
            Operation::DeleteContainer { container, preconditions } => {
                containers::delete(context, container, preconditions).await
            }
            _ => self.decide_on_account(context, operation).await.map(|outcome| outcome.map(NextStep::Done)),
        }
    }

    /// Decides operations on the account or on a container as a whole.
    async fn decide_on_account(
        &self,
        context: &Context<'_, CoopSnapshot<E::Transaction>>,
        operation: &Operation,
    ) -> Result<Outcome<Reply>, ServiceError> {
        match operation {
            Operation::GetServiceProperties => {
                let properties = self.settings.read(context.snapshot, context.account).await?;
                Ok(Outcome::read(Reply::ServiceProperties(Box::new(properties))))
            }
            Operation::SetServiceProperties(change) => {
                let website = change.static_website.as_ref().is_some_and(|website| website.enabled);
                let mut outcome = match website {
                    true => containers::create_web(context).await?,
                    false => Outcome::read(Reply::ServicePropertiesSet),
                };
                let Context { snapshot, account, now, .. } = *context;
                let guard = self.settings.change(snapshot, account, change, now, &mut outcome.writes).await?;
                outcome.guards.push(guard);
                Ok(outcome)
            }
            Operation::GetServiceStats => Ok(Outcome::read(Reply::ServiceStats { last_sync: context.now })),
            Operation::GetAccountInformation => Ok(Outcome::read(Reply::AccountInformation)),
            Operation::ListContainers(query) => {
                containers::list(context, query).await.map(Reply::Containers).map(Outcome::read)
            }
            Operation::CreateContainer { container, metadata, public_access, encryption } => {
                containers::create(context, container, metadata, *public_access, encryption).await
            }
            Operation::GetContainer { container, preconditions, .. } => {
                let container = containers::get(context, container, preconditions).await?;
                let properties = containers::view(&container, context.now);
                Ok(Outcome::read(Reply::Container(Box::new(properties))))
            }
            Operation::SetContainerMetadata { container, metadata, preconditions } => {
                let set = |stored: &mut StoredContainer| stored.metadata = metadata.clone();
                let reply = Reply::ContainerMetadataSet;
                containers::change(context, container, preconditions, reply, set).await
            }
            Operation::GetContainerAcl { container, preconditions } => {
                let container = containers::get(context, container, preconditions).await?;
                Ok(Outcome::read(Reply::ContainerAcl {
                    changed: Changed(container.changed),
                    public_access: container.public_access,
                    identifiers: container.acl,
                }))
            }
            Operation::SetContainerAcl { container, public_access, identifiers, preconditions } => {
                let set = containers::set_acl(*public_access, identifiers);
                containers::change(context, container, preconditions, Reply::ContainerAclSet, set).await
            }
            Operation::LeaseContainer { container, action, conditions } => {
                containers::lease(context, container, *action, conditions).await
            }
            Operation::RestoreContainer { container, deleted, deleted_version } => {
                containers::restore(context, container, deleted, deleted_version).await
            }
            Operation::NotImplemented(what) => Err(what.code().into()),
            // Not implemented: user delegation keys and incremental copies.
            // Everything else was decided before.
            _ => Err(ErrorCode::NotImplemented.into()),
        }
    }

    /// Fails if there is no such container.
    pub async fn require_container(
        &self,
        account: &str,
        container: &ContainerName,
    ) -> Result<(), ServiceError> {
        self.container(account, container).await.map(drop)
    }

    /// The stored access policy `id` of a container, if there is one.
    pub async fn signed_identifier(
        &self,
        account: &str,
        container: &ContainerName,
        id: &str,
    ) -> Result<Option<SignedIdentifier>, ServiceError> {
        match self.container(account, container).await {
            Ok(container) => Ok(container.acl.into_iter().find(|identifier| identifier.id == id)),
            Err(error) if error.code == ErrorCode::ContainerNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn container(
        &self,
        account: &str,
        container: &ContainerName,
    ) -> Result<StoredContainer, ServiceError> {
        restart(|| async {
            let snapshot = self.begin().await?;
            let context = self.context(&snapshot, Caller::owner(account));
            containers::find(&context, container).await.map(|(_, container)| container)
        })
        .await
    }

    /// The service properties of an account, cached: changes made by this process are visible at once, those of
    /// another process after a few seconds.
    pub async fn service_properties(
        &self,
        account: &str,
    ) -> Result<Arc<BlobServiceProperties>, ServiceError> {
        self.settings.of_account(&*self.engine, account).await
    }

    /// The service properties that were cached last, however long ago. Waits for nothing.
    pub fn cached_properties(&self, account: &str) -> Option<Arc<BlobServiceProperties>> {
        self.settings.cached(account)
    }

    /// Drops the cached service properties of all accounts: they were changed by something else than requests.
    pub(crate) fn forget_settings(&self) {
        self.settings.invalidate_all();
    }

    /// Whether the engine takes writes now.
    pub async fn health(&self) -> Result<(), StorageError> {
        self.engine.health().await
    }

    /// Adds the CRC64 of what was copied to the reply.
    async fn with_crc64(&self, mut reply: Reply, located: LocatedContent, reading: X::ReadGuard) -> Reply {
        let LocatedContent { content, range } = located;
        let sum = async {
            let snapshot = self.begin().await?;
            Download::open(self.stores(), reading, &snapshot, content, range, None).await?.crc64().await
        };
        match (sum.await, &mut reply) {
            (Ok(sum), Reply::BlobPut { checksums, .. } | Reply::CopyStarted { checksums, .. }) => {
                checksums.crc64 = Some(sum);
            }
            (Ok(_), _) => {}
            // The copy is committed, which is what counts.
            (Err(error), _) => tracing::warn!(%error, "cannot compute the checksum of a copy"),
        }
        reply
    }
}

async fn decide_upload<S: Snapshot>(
    context: &Context<'_, S>,
    operation: &UploadOperation,
    uploaded: &Uploaded,
) -> Result<Outcome<NextStep>, ServiceError> {
    match operation {
        UploadOperation::PutBlob(put) => put::put_blob(context, put, uploaded).await,
        UploadOperation::PutBlobFromUrl(put) => {
            copy::put_blob_from_url(context, put, CopyContent::Fetched(uploaded)).await
        }
        UploadOperation::CopyBlob(copy) => {
            copy::copy_blob(context, copy, CopyContent::Fetched(uploaded)).await
        }
        UploadOperation::PutBlock(put) => blocks::put_block(context, put, uploaded).await,
        UploadOperation::AppendBlock(append) => append::append_block(context, append, uploaded).await,
        UploadOperation::PutPages(put) => pages::put_pages(context, put, uploaded).await,
    }
}

/// The layout of the content of a blob type.
pub(super) fn layout(of_type: OfType) -> Layout {
    match of_type {
        OfType::Block | OfType::Append { .. } => Layout::Contiguous,
        OfType::Page { .. } => Layout::Sparse,
    }
}
