//! The Blob service of all accounts of a server.

use super::copy::Telling;
use super::digester::Digester;
use super::download::{Download, Shape};
use super::merge::{Making, Merged};
use super::pending::{Copies, CopyUnderWay};
use super::upload::{Place, Upload, Uploaded};
use super::{append, blocks, change, containers, copy, delete, find, list, pages, pending, put, read};
use crate::catalogue::Catalogue;
use crate::keyspace::ContentId;
use crate::pace::{Pace, Paced};
use crate::record::{Content, StoredBlob, StoredContainer};
use crate::settings::Settings;
use crate::transact::{Attempt, Failure, NO_SPACE, Outcome, Space, Written, commit, engine_error};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{
    self, BlobMarker, BlobServiceProperties, BlobSink, ByteRange, Changed, Checksums, ContainerName,
    CopySource, ImmutabilityMode, ListBlobs, OfType, Operation, RangeChecksum, Reply, Summing,
};
use tepui_model::{Clock, ErrorCode, ServiceError, Timestamp, guid};
use tepui_storage::{Engine, EngineError, ExtentError, Extents};

/// How the Blob service behaves where there is a choice.
#[derive(Debug, Clone)]
pub struct BlobOptions {
    /// How long the name of a deleted container cannot be used again. Azure takes some 30 s; here it is at once.
    pub deleted_name_rests: Duration,
    /// How long deleted containers can be restored. `None`: deleted is deleted.
    pub container_retention: Option<Duration>,
    /// The accounts that keep previous versions of blobs.
    pub versioned_accounts: Vec<String>,
    /// How long it takes to get a blob back from the archive. Azure takes hours.
    pub rehydration: Duration,
}

impl Default for BlobOptions {
    fn default() -> Self {
        Self {
            deleted_name_rests: Duration::ZERO,
            container_retention: None,
            versioned_accounts: Vec::new(),
            rehydration: Duration::from_secs(5),
        }
    }
}

/// Who asks, and what they may do.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    pub account: &'a str,
    /// How far the permission for the operation goes.
    pub allowed: Allowed,
    /// How far the permission to read the source goes, if the operation has one.
    pub source_allowed: Allowed,
}

impl<'a> Caller<'a> {
    /// One who may do everything with an account.
    pub fn owner(account: &'a str) -> Self {
        Self { account, allowed: Allowed::Fully, source_allowed: Allowed::Fully }
    }
}

/// Numbers that nobody can guess: ids of leases and copies.
pub type Chance = Arc<dyn Fn() -> u128 + Send + Sync>;

/// How often an operation is decided again before the caller is told that the server is busy. Each time
/// something that it rests on has changed.
const MAX_ATTEMPTS: u32 = 1000;

pub struct BlobService<E, X> {
    pub(super) engine: Arc<E>,
    pub(super) extents: Arc<X>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) chance: Chance,
    options: BlobOptions,
    catalogue: Catalogue,
    settings: Settings<BlobServiceProperties>,
    digester: Digester,
    pub(super) copies: Arc<Copies>,
    pub(super) making: Arc<Making>,
}

/// What decisions rest on beside the operation.
pub(super) struct Context<'a, S> {
    pub(super) snapshot: &'a S,
    /// For what takes long without reading.
    pub(super) pace: &'a Pace,
    pub(super) catalogue: &'a Catalogue,
    pub(super) account: &'a str,
    pub(super) allowed: Allowed,
    pub(super) source_allowed: Allowed,
    /// Later than every moment that a decision was given before.
    pub(super) now: Timestamp,
    pub(super) chance: &'a (dyn Fn() -> u128 + Send + Sync),
    pub(super) options: &'a BlobOptions,
    pub(super) settings: Arc<BlobServiceProperties>,
    pub(super) copies: &'a Copies,
    /// The copy that the operation starts, if it goes on after the answer.
    pub(super) starting: Option<&'a CopyUnderWay>,
    /// What was made of layers that were too many.
    pub(super) merged: Option<&'a Merged>,
}

/// What a decision comes to.
pub(super) enum Step {
    Done(Reply),
    /// The content follows.
    Content(Box<blob::Content>, Located),
    /// Done, but for the CRC64 of these bytes, which the answer tells.
    Sum(Reply, Located),
    /// A part is done: commit it and decide again.
    More,
    /// The layers of this content have to be merged before it is decided again.
    Merge(ContentId),
}

/// Bytes that are to be sent, and where they are.
pub(super) struct Located {
    pub(super) content: (Content, Shape),
    pub(super) range: Range<u64>,
}

impl From<Reply> for Step {
    fn from(reply: Reply) -> Self {
        Self::Done(reply)
    }
}

/// The answer to an operation, and the bytes that follow it.
pub struct Answer<S, X: Extents> {
    pub reply: Reply,
    /// With [`Reply::Content`].
    pub content: Option<Download<S, X>>,
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    /// What is stored now. Whoever reads much of it lets others run meanwhile.
    pub(super) async fn snapshot(&self) -> Result<Paced<E::Snapshot>, ServiceError> {
        self.engine.snapshot().await.map(Paced::new).map_err(engine_error)
    }

    pub fn new(
        engine: Arc<E>,
        extents: Arc<X>,
        clock: Arc<dyn Clock>,
        chance: Chance,
        options: BlobOptions,
    ) -> Self {
        let (catalogue, settings) = (Catalogue::default(), Settings::of_service("blob"));
        let digester = Digester::start();
        let (copies, making) = (Arc::default(), Arc::default());
        Self { engine, extents, clock, chance, options, catalogue, settings, digester, copies, making }
    }

    /// Begins to receive the bytes that an operation needs: those that come with the request, or those that have
    /// to be fetched from its source ([`BlobService::open_source`] has them, if the source is here). `None` if
    /// it needs none.
    pub fn begin_upload(&self, operation: &Operation) -> Option<Upload<X>> {
        Upload::of(Arc::clone(&self.extents), &self.digester, operation)
    }

    /// The bytes of a source that is here, as the caller may read them.
    pub async fn open_source(
        &self,
        caller: Caller<'_>,
        source: &CopySource,
        range: Option<ByteRange>,
    ) -> Result<Download<E::Snapshot, X>, ServiceError> {
        let reading = self.extents.read_guard();
        let snapshot = self.snapshot().await?;
        let context = self.context(&snapshot, caller).await?;
        let found = copy::find_source(&context, source, Telling::AsSource).await?;
        let blob = found.ok_or(ErrorCode::CannotVerifyCopySource)?;
        copy::require_readable(&context, &blob, source)?;
        drop(context);
        let range = range.map_or(Ok(0..blob.bytes), |range| range.within(blob.bytes))?;
        let content = (blob.content, shape(blob.state.of_type));
        let extents = Arc::clone(&self.extents);
        // Nobody reads a blob with a key through a copy.
        Download::open(extents, reading, snapshot.into_inner(), content, range, None).await
    }

    /// Refuses what would be refused whatever bytes come with it. For asking before they are received.
    pub async fn check(&self, caller: Caller<'_>, operation: &Operation) -> Result<(), ServiceError> {
        // A length that fits every condition if the caller does not say one.
        let said = operation.upload().and_then(|upload| upload.bytes);
        let bytes = match operation {
            Operation::PutPages(put) => said.unwrap_or(put.pages.bytes()),
            _ => said.unwrap_or(1),
        };
        let snapshot = self.snapshot().await?;
        let context = self.context(&snapshot, caller).await?;
        self.decide(&context, operation, Some(&Uploaded::expected(bytes))).await.map(drop)
    }

    /// Gives up bytes that were received for an operation that was not carried out. Nobody else knows of them.
    pub async fn discard(&self, uploaded: Uploaded) {
        let Place::Extent(extent) = uploaded.place else { return };
        match self.extents.free(vec![extent]).await {
            Ok(()) => self.extents.unpin(extent),
            Err(error) => {
                tracing::warn!(%error, "cannot free bytes that were received in vain; a restart will")
            }
        }
    }

    /// A blob refers to the bytes that were received for it.
    pub(super) fn settle(&self, uploaded: &Uploaded) {
        if let Place::Extent(extent) = uploaded.place {
            self.extents.unpin(extent);
        }
    }

    /// Starts a copy that goes on after the answer ([`Operation::goes_on`]). Its source has been found. Whoever
    /// starts it fetches the bytes then, and ends it with [`BlobService::finish_copy`].
    pub async fn start_copy(
        &self,
        caller: Caller<'_>,
        operation: &Operation,
    ) -> Result<(Answer<E::Snapshot, X>, CopyUnderWay), ServiceError> {
        let copy = Copies::begin(&self.copies, caller.account, guid::print((self.chance)()))?;
        let answer =
            self.execute_with(caller, operation, None, Some(&copy)).await.map_err(|failure| failure.error)?;
        Ok((answer, copy))
    }

    /// Carries out an operation. Its bytes, if it brings some along, have been received.
    pub async fn execute(
        &self,
        caller: Caller<'_>,
        operation: &Operation,
        uploaded: Option<Uploaded>,
    ) -> Result<Answer<E::Snapshot, X>, ServiceError> {
        let failure = match self.execute_with(caller, operation, uploaded.as_ref(), None).await {
            Ok(answer) => {
                uploaded.iter().for_each(|uploaded| self.settle(uploaded));
                return Ok(answer);
            }
            Err(failure) => failure,
        };
        // Bytes that a blob may refer to are never freed, nor settled: a restart will find out.
        if failure.written == Written::Nothing
            && let Some(uploaded) = uploaded
        {
            self.discard(uploaded).await;
        }
        Err(failure.error)
    }

    /// Lists blobs. They go to the sink; returns where the next page begins.
    pub async fn list_blobs(
        &self,
        caller: Caller<'_>,
        query: &ListBlobs,
        sink: &mut dyn BlobSink,
    ) -> Result<Option<BlobMarker>, ServiceError> {
        let snapshot = self.snapshot().await?;
        let context = self.context(&snapshot, caller).await?;
        list::list_blobs(&context, query, sink).await
    }

    async fn execute_with(
        &self,
        caller: Caller<'_>,
        operation: &Operation,
        uploaded: Option<&Uploaded>,
        starting: Option<&CopyUnderWay>,
    ) -> Result<Answer<E::Snapshot, X>, Failure> {
        let mut merged = None;
        let space = Space::freed_if(operation.frees_space());
        for _ in 0..MAX_ATTEMPTS {
            // Before the snapshot: what it sees stays readable.
            let reading = self.extents.read_guard();
            let snapshot = self.snapshot().await?;
            let context = self.context(&snapshot, caller).await?;
            let context = Context { starting, merged: merged.as_ref(), ..context };
            let outcome = self.decide(&context, operation, uploaded).await?;
            drop(context);
            match commit(&*self.engine, &snapshot, outcome, space).await? {
                Attempt::Done(Step::Done(reply)) => {
                    self.heed(caller.account, operation);
                    return Ok(Answer { reply, content: None });
                }
                Attempt::Done(Step::Content(content, located)) => {
                    return Ok(self
                        .send(operation, *content, located, snapshot.into_inner(), reading)
                        .await?);
                }
                Attempt::Done(Step::Sum(mut reply, located)) => {
                    let Located { content, range } = located;
                    let extents = Arc::clone(&self.extents);
                    let sum = async {
                        Download::open(extents, reading, snapshot, content, range, None).await?.crc64().await
                    };
                    match (sum.await, &mut reply) {
                        (
                            Ok(sum),
                            Reply::BlobPut { checksums, .. } | Reply::CopyStarted { checksums, .. },
                        ) => checksums.crc64 = Some(sum),
                        (Ok(_), _) => {}
                        // The copy is there: that is what counts.
                        (Err(error), _) => tracing::warn!(%error, "cannot sum up what was copied"),
                    }
                    return Ok(Answer { reply, content: None });
                }
                Attempt::Done(Step::Merge(content)) => merged = self.merge(content).await?,
                Attempt::Done(Step::More) | Attempt::Again => {}
            }
        }
        Err(ServiceError::from(ErrorCode::ServerBusy).into())
    }

    /// Does what follows from an operation for what is in memory.
    fn heed(&self, account: &str, operation: &Operation) {
        match operation {
            Operation::SetServiceProperties(_) => self.settings.forget(account),
            Operation::AbortCopy { copy_id, .. } => self.copies.abort(&copy_id.to_ascii_lowercase()),
            _ => {}
        }
    }

    /// The answer with bytes, and with their checksum if that was asked for.
    async fn send(
        &self,
        operation: &Operation,
        mut content: blob::Content,
        located: Located,
        snapshot: E::Snapshot,
        reading: X::ReadGuard,
    ) -> Result<Answer<E::Snapshot, X>, ServiceError> {
        let (wanted, secret) = match operation {
            Operation::GetBlob(get) => (get.range_checksum, get.encryption.secret.clone()),
            _ => (None, None),
        };
        let Located { content: stored, range } = located;
        let extents = Arc::clone(&self.extents);
        let download = Download::open(extents, reading, snapshot, stored, range, secret).await?;
        let Some(wanted) = wanted else {
            let reply = Reply::Content(Box::new(content));
            return Ok(Answer { reply, content: Some(download) });
        };
        let (download, sums) = download.summed(Summing::new(wanted == RangeChecksum::Md5)).await?;
        content.checksums = match wanted {
            RangeChecksum::Md5 => Checksums { md5: sums.md5, crc64: None },
            RangeChecksum::Crc64 => Checksums { md5: None, crc64: sums.crc64 },
        };
        Ok(Answer { reply: Reply::Content(Box::new(content)), content: Some(download) })
    }

    async fn context<'a>(
        &'a self,
        snapshot: &'a Paced<E::Snapshot>,
        caller: Caller<'a>,
    ) -> Result<Context<'a, Paced<E::Snapshot>>, ServiceError> {
        Ok(Context {
            snapshot,
            pace: &snapshot.pace,
            catalogue: &self.catalogue,
            account: caller.account,
            allowed: caller.allowed,
            source_allowed: caller.source_allowed,
            now: self.clock.tick(),
            chance: &*self.chance,
            options: &self.options,
            settings: self.settings.of_account(&*self.engine, caller.account).await?,
            copies: &self.copies,
            starting: None,
            merged: None,
        })
    }

    async fn decide(
        &self,
        context: &Context<'_, Paced<E::Snapshot>>,
        operation: &Operation,
        uploaded: Option<&Uploaded>,
    ) -> Result<Outcome<Step>, ServiceError> {
        containers::check_logs(operation)?;
        match operation {
            Operation::PutBlob(put) => put::put_blob(context, put, uploaded).await,
            Operation::PutBlobFromUrl(put) => copy::put_blob_from_url(context, put, uploaded).await,
            Operation::CopyBlob(copy) => copy::copy_blob(context, copy, uploaded).await,
            Operation::AbortCopy { blob, copy_id, preconditions } => {
                pending::abort(context, blob, copy_id, preconditions).await
            }
            Operation::GetBlob(get) => {
                let (content, located) = read::get_blob(context, get).await?;
                Ok(Outcome::read(Step::Content(Box::new(content), located)))
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
                change::hold(context, blob, *revision, set).await
            }
            Operation::DeleteImmutabilityPolicy { blob, revision } => {
                let delete = |stored: &mut StoredBlob| {
                    if stored.immutability.is_some_and(|old| old.mode == ImmutabilityMode::Locked) {
                        return Err(ErrorCode::BlobImmutableDueToPolicy);
                    }
                    stored.immutability = None;
                    Ok(Reply::ImmutabilityPolicyDeleted)
                };
                change::hold(context, blob, *revision, delete).await
            }
            Operation::SetLegalHold { blob, revision, hold } => {
                let set = |stored: &mut StoredBlob| {
                    stored.legal_hold = Some(*hold);
                    Ok(Reply::LegalHoldSet(*hold))
                };
                change::hold(context, blob, *revision, set).await
            }
            Operation::LeaseBlob { blob, action, conditions } => {
                change::lease(context, blob, *action, conditions).await
            }
            Operation::SnapshotBlob { blob, metadata, preconditions, encryption } => {
                change::snapshot(context, blob, metadata, preconditions, encryption).await
            }
            Operation::DeleteBlob(delete) => delete::delete_blob(context, delete).await,
            Operation::UndeleteBlob { blob } => delete::undelete_blob(context, blob).await,
            Operation::PutBlock(put) => blocks::put_block(context, put, uploaded).await,
            Operation::PutBlockList(put) => blocks::put_block_list(context, put).await,
            Operation::GetBlockList { blob, revision, list, preconditions } => {
                let list = blocks::get_block_list(context, blob, *revision, *list, preconditions).await?;
                Ok(Outcome::read(Reply::BlockList(list).into()))
            }
            Operation::AppendBlock(append) => append::append_block(context, append, uploaded).await,
            Operation::SealBlob { blob, position, preconditions } => {
                append::seal(context, blob, *position, preconditions).await
            }
            Operation::PutPages(put) => pages::put_pages(context, put, uploaded).await,
            Operation::GetPageRanges(get) => pages::get_page_ranges(context, get)
                .await
                .map(|ranges| Outcome::read(Reply::PageRanges(ranges).into())),
            Operation::ListBlobs(_) => {
                let error = ServiceError::new(ErrorCode::InternalError);
                Err(error.with_cause("a list of blobs was executed without a sink"))
            }
            Operation::FindBlobsByTags(query) => {
                find::find(context, query).await.map(|page| Outcome::read(Reply::Found(page).into()))
            }
            Operation::DeleteContainer { container, preconditions } => {
                containers::delete(context, container, preconditions).await
            }
            _ => self.decide_on_account(context, operation).await.map(|outcome| outcome.map(Step::Done)),
        }
    }

    /// Decides what is about the account or about a container as a whole.
    async fn decide_on_account(
        &self,
        context: &Context<'_, Paced<E::Snapshot>>,
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
                outcome.writes.push(self.settings.change(context.snapshot, context.account, change).await?);
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
            // What this service does not do yet: user delegation keys and incremental copies. Batches are taken
            // apart by the server. Everything else was decided before.
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
        let snapshot = self.snapshot().await?;
        let context = self.context(&snapshot, Caller::owner(account)).await?;
        containers::find(&context, container).await.map(|(_, container)| container)
    }

    /// The service properties of an account, as they are asked for with every request: changes made
    /// by this process hold at once, those of another after a few seconds.
    pub async fn service_properties(
        &self,
        account: &str,
    ) -> Result<Arc<BlobServiceProperties>, ServiceError> {
        self.settings.of_account(&*self.engine, account).await
    }

    /// Whether the engine takes writes now.
    pub fn health(&self) -> Result<(), EngineError> {
        self.engine.health()
    }
}

/// What the caller is told of a failure below.
pub(super) fn extent_error(error: ExtentError) -> ServiceError {
    match &error {
        ExtentError::Unavailable(_) => ServiceError::new(ErrorCode::ServerBusy),
        ExtentError::NoSpace(_) => ServiceError::new(ErrorCode::ServerBusy).with_message(NO_SPACE),
        ExtentError::Corrupt(_) | ExtentError::Failed(_) => ServiceError::new(ErrorCode::InternalError),
    }
    .with_cause(error)
}

/// How the bytes of a blob of a type are laid out.
pub(super) fn shape(of_type: OfType) -> Shape {
    match of_type {
        OfType::Block | OfType::Append { .. } => Shape::Whole,
        OfType::Page { .. } => Shape::Sparse,
    }
}
