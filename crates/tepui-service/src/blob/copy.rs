//! Copies: of blobs of this server by sharing their content, of others from fetched bytes.

use super::contents;
use super::encryption::stored_metadata;
use super::pending;
use super::precondition::{check_key, require_not_archived};
use super::put::{find_destination, new_blob, store};
use super::service::{Context, LocatedContent, NextStep, layout};
use super::slot::{BlobSlot, Progress, written};
use super::tier;
use super::upload::Uploaded;
use super::write_set::WriteSet;
use crate::keyspace::ContentId;
use crate::record::{StoredBlob, StoredTier};
use crate::transact::Outcome;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{
    AccessTier, BlobType, Checksums, Conditions, ContentMd5, CopyBlob, CopyPace, CopySource, CopyState,
    CopyStatus, CopyTags, Encryption, HttpProperties, NewBlob, OfType, Preconditions, PutBlobFromUrl,
    RehydratePriority, Reply, SourceBlob, SourcePlace, Tags, Unmet, Validators,
};
use tepui_model::metadata::Metadata;
use tepui_model::{ErrorCode, ServiceError, guid};
use tepui_storage::Snapshot;

/// The longest blob that is copied synchronously.
const MAX_WAITING_BYTES: u64 = 256 * 1024 * 1024;

/// How an error of the source is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceErrorStyle {
    /// Copy Blob: like an error of any blob of the account.
    AsIs,
    /// Other operations: as a source that could not be read, with its status.
    AsCopySource,
}

impl SourceErrorStyle {
    fn error(self, error: ServiceError) -> ServiceError {
        match self {
            Self::AsIs => error,
            // Nothing is wrong with the source.
            Self::AsCopySource if error.is_outdated => error,
            Self::AsCopySource => ServiceError::new(ErrorCode::CannotVerifyCopySource)
                .with_status(error.status())
                .with_copy_source(error.status(), Some(error.code.name()), Some(error.message()))
                .with_message(error.message().to_owned()),
        }
    }

    fn unmet(self, unmet: Unmet) -> ServiceError {
        let condition = ServiceError::new(ErrorCode::ConditionNotMet);
        match (self, unmet) {
            (Self::AsIs, _) => ErrorCode::SourceConditionNotMet.into(),
            (Self::AsCopySource, Unmet::NotModified) => self.error(condition.with_status(304)),
            (Self::AsCopySource, Unmet::Failed) => self.error(condition),
        }
    }
}

/// The source, if it is on this server.
pub(super) async fn find_source<S: Snapshot>(
    context: &Context<'_, S>,
    source: &CopySource,
    style: SourceErrorStyle,
) -> Result<Option<StoredBlob>, ServiceError> {
    match &source.place {
        SourcePlace::Here(blob) => find_here(context, blob, &source.conditions, style).await.map(Some),
        SourcePlace::Elsewhere | SourcePlace::Fetched(_) => Ok(None),
    }
}

async fn find_here<S: Snapshot>(
    context: &Context<'_, S>,
    source: &SourceBlob,
    conditions: &Conditions,
    style: SourceErrorStyle,
) -> Result<StoredBlob, ServiceError> {
    let SourceBlob { account, blob, revision } = source;
    let find = async {
        let mut writes = WriteSet::new(context.snapshot);
        let slot = BlobSlot::find_in(context, &mut writes, (account, context.source_allowed), blob).await?;
        slot.revision(&writes, *revision).await.map(|(blob, _)| blob)
    };
    let found = find.await.map_err(|error| style.error(error))?;
    let container = blob.container.as_str();
    let validators = Validators { changed: found.changed, container, tags: &found.tags };
    conditions.check_read(&validators).map_err(|unmet| style.unmet(unmet))?;
    // Requests have no header for the key of a source.
    check_key(&found, &Encryption::default())?;
    Ok(found)
}

/// What a copy is given as its content.
#[derive(Clone, Copy)]
pub(super) enum CopyContent<'a> {
    /// That of a blob of this server.
    Shared(&'a SourceBlob),
    Fetched(&'a Uploaded),
}

/// The same, with the source.
enum FoundContent<'a> {
    Shared(StoredBlob),
    /// The source, if it is on this server.
    Fetched(Option<StoredBlob>, &'a Uploaded),
}

impl<'a> FoundContent<'a> {
    async fn find<S: Snapshot>(
        context: &Context<'_, S>,
        content: CopyContent<'a>,
        source: &CopySource,
        style: SourceErrorStyle,
    ) -> Result<Self, ServiceError> {
        Ok(match content {
            CopyContent::Shared(blob) => {
                Self::Shared(find_here(context, blob, &source.conditions, style).await?)
            }
            CopyContent::Fetched(uploaded) => {
                Self::Fetched(find_source(context, source, style).await?, uploaded)
            }
        })
    }

    fn source(&self) -> Option<&StoredBlob> {
        match self {
            Self::Shared(source) => Some(source),
            Self::Fetched(source, _) => source.as_ref(),
        }
    }
}

/// Copy Blob, and Copy Blob From URL.
pub(super) async fn copy_blob<S: Snapshot>(
    context: &Context<'_, S>,
    copy: &CopyBlob,
    content: CopyContent<'_>,
) -> Result<Outcome<NextStep>, ServiceError> {
    let (style, declared) = match &copy.pace {
        CopyPace::Background if is_own(context, &copy.source) => {
            (SourceErrorStyle::AsIs, Checksums::default())
        }
        CopyPace::Background => (SourceErrorStyle::AsCopySource, Checksums::default()),
        CopyPace::Waiting(declared) => (SourceErrorStyle::AsCopySource, *declared),
    };
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, &copy.blob).await?;
    let content = FoundContent::find(context, content, &copy.source, style).await?;
    let Some(mut new) = destination(context, &mut writes, &slot, copy, content.source()).await? else {
        return Ok(writes.finish(NextStep::Continue));
    };
    let computed = fill(context, &mut writes, &mut new, &content, &declared).await?;
    if matches!(copy.pace, CopyPace::Waiting(_)) && new.bytes > MAX_WAITING_BYTES {
        return Err(ServiceError::new(ErrorCode::CannotVerifyCopySource).with_status(409));
    }
    let copy_id = guid::print((context.random_ids)());
    let (status, progress) = (CopyStatus::Success, (new.bytes, new.bytes));
    let completed = Some(new.changed);
    new.copy = Some(Box::new(CopyState { completed, ..state(copy, &copy_id, status, progress) }));
    slot.replace(context, &mut writes, &new).await?;
    let written = written(&new);
    let reply = |checksums| Reply::CopyStarted { written, copy_id, status, checksums };
    Ok(writes.finish(match copy.pace {
        CopyPace::Background => reply(Checksums::default()).into(),
        CopyPace::Waiting(declared) => synchronous_reply(reply, &declared, &computed, &new),
    }))
}

/// Starts a copy that goes on after the reply: writes an empty blob as its destination.
pub(super) async fn start_copy<S: Snapshot>(
    context: &Context<'_, S>,
    copy: &CopyBlob,
    copy_id: &str,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, &copy.blob).await?;
    let Some(mut new) = destination(context, &mut writes, &slot, copy, None).await? else {
        return Ok(writes.finish(NextStep::Continue));
    };
    let total = match &copy.source.place {
        SourcePlace::Fetched(head) => head.bytes.unwrap_or(0),
        SourcePlace::Here(_) | SourcePlace::Elsewhere => 0,
    };
    let status = CopyStatus::Pending;
    new.copy = Some(Box::new(state(copy, copy_id, status, (0, total))));
    pending::put_record(&mut writes, &slot, copy_id, context.now);
    slot.replace(context, &mut writes, &new).await?;
    let (copy_id, checksums) = (copy_id.to_owned(), Checksums::default());
    Ok(writes.finish(Reply::CopyStarted { written: written(&new), copy_id, status, checksums }.into()))
}

/// The new blob without its content. `None`: something has to be discarded first, in a commit of its own. `source`: if it
/// is on this server.
async fn destination<S: Snapshot>(
    context: &Context<'_, S>,
    writes: &mut WriteSet<'_, S>,
    slot: &BlobSlot<'_>,
    copy: &CopyBlob,
    source: Option<&StoredBlob>,
) -> Result<Option<StoredBlob>, ServiceError> {
    let blob_type = source.map_or(BlobType::Block, |blob| blob.of_type.blob_type());
    // Only block blobs are copied synchronously.
    if matches!(copy.pace, CopyPace::Waiting(_)) && blob_type != BlobType::Block {
        return Err(ErrorCode::InvalidBlobType.into());
    }
    let check = slot.precondition_check(&copy.preconditions, context.now);
    check.for_create(slot.base.as_ref(), blob_type, context.allowed)?;
    tier::check_new(copy.tier, blob_type)?;
    // All bytes are encrypted synchronously, and a page blob may have very many zeros.
    let is_long = source.is_some_and(|source| source.bytes > MAX_WAITING_BYTES);
    if is_long && copy.encryption.key.is_some() {
        return Err(ServiceError::new(ErrorCode::CannotVerifyCopySource).with_status(409));
    }
    require_infinite(slot.base.as_ref(), &copy.preconditions, context)?;
    let given = NewBlob {
        metadata: copy.metadata.clone(),
        tags: tags(&copy.tags, source),
        tier: copy.tier,
        encryption: copy.encryption.clone(),
        immutability: copy.immutability,
        legal_hold: copy.legal_hold,
        ..NewBlob::default()
    };
    let of_type = match source.map(|blob| blob.of_type) {
        Some(OfType::Append { committed_blocks, sealed }) => {
            OfType::Append { committed_blocks, sealed: copy.seal.unwrap_or(sealed) }
        }
        Some(of_type) => of_type,
        None => OfType::Block,
    };
    if slot.discard_blocks(writes).await? == Progress::Partial {
        return Ok(None);
    }
    let mut new = new_blob(context, slot, &given, of_type);
    let properties = SourceProperties::of(source, &copy.source);
    new.http = properties.http;
    if new.metadata.is_empty() {
        new.metadata = properties.metadata;
    }
    new.metadata = stored_metadata(&new.metadata, &copy.encryption)?;
    if let Some(source) = source {
        new.tier = tier_of_copy(context, source, copy.tier, copy.priority, new.tier)
            .map_err(|code| archived(context, code, &copy.source))?;
    }
    Ok(Some(new))
}

/// The reply to a synchronous copy. Fidelity: it has the MD5 if the request declares one, and else the CRC64.
/// scenario: copy-from-url-checksums
fn synchronous_reply(
    reply: impl FnOnce(Checksums) -> Reply,
    declared: &Checksums,
    computed: &Checksums,
    new: &StoredBlob,
) -> NextStep {
    let reply = reply(declared.answered(computed));
    // Shared bytes were not read.
    let unread = declared.md5.is_none() && computed.crc64.is_none();
    match unread && new.bytes <= MAX_WAITING_BYTES {
        true => {
            let content = (new.content.clone(), layout(new.of_type));
            NextStep::Checksum(reply, LocatedContent { content, range: 0..new.bytes })
        }
        false => reply.into(),
    }
}

fn state(copy: &CopyBlob, id: &str, status: CopyStatus, progress: (u64, u64)) -> CopyState {
    CopyState {
        id: id.to_owned(),
        source: without_signature(&copy.source.url),
        status,
        progress,
        completed: None,
        description: None,
        incremental: None,
    }
}

/// The properties that a copy takes over from its source.
#[derive(Default)]
struct SourceProperties {
    http: HttpProperties,
    metadata: Metadata,
}

impl SourceProperties {
    fn of(found: Option<&StoredBlob>, source: &CopySource) -> Self {
        match (found, &source.place) {
            (Some(blob), _) => Self { http: blob.http.clone(), metadata: blob.metadata.clone() },
            (None, SourcePlace::Fetched(head)) => {
                Self { http: head.http.clone(), metadata: head.metadata.clone() }
            }
            (None, SourcePlace::Here(_) | SourcePlace::Elsewhere) => Self::default(),
        }
    }
}

/// Whether a source is in the destination's account, and the caller may read all of it.
fn is_own<S: Snapshot>(context: &Context<'_, S>, source: &CopySource) -> bool {
    let same = matches!(&source.place, SourcePlace::Here(blob) if blob.account == context.account);
    same && context.source_allowed == Allowed::Fully
}

pub(super) async fn put_blob_from_url<S: Snapshot>(
    context: &Context<'_, S>,
    put: &PutBlobFromUrl,
    content: CopyContent<'_>,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let destination = (&put.blob, &put.new, &put.preconditions);
    let slot = find_destination(context, &mut writes, destination, BlobType::Block, None).await?;
    let style = SourceErrorStyle::AsCopySource;
    let content = FoundContent::find(context, content, &put.source, style).await?;
    if let Some(source) = content.source() {
        require_readable(context, source, &put.source)?;
    }
    if let FoundContent::Shared(source) = &content
        && source.of_type.blob_type() == BlobType::Page
    {
        // A block blob cannot share the content of a page blob.
        return Err(ErrorCode::InvalidBlobType.into());
    }
    let mut given = put.new.clone();
    given.tags = tags(&put.tags, content.source());
    if slot.discard_blocks(&mut writes).await? == Progress::Partial {
        return Ok(writes.finish(NextStep::Continue));
    }
    let mut new = new_blob(context, &slot, &given, OfType::Block);
    let properties = SourceProperties::of(content.source(), &put.source);
    if put.copy_properties {
        let (http, theirs) = (&mut new.http, properties.http);
        http.content_type = http.content_type.take().or(theirs.content_type);
        http.content_encoding = http.content_encoding.take().or(theirs.content_encoding);
        http.content_language = http.content_language.take().or(theirs.content_language);
        http.content_disposition = http.content_disposition.take().or(theirs.content_disposition);
        http.cache_control = http.cache_control.take().or(theirs.cache_control);
    }
    if new.metadata.is_empty() {
        new.metadata = properties.metadata;
    }
    new.metadata = stored_metadata(&new.metadata, &put.new.encryption)?;
    let computed = fill(context, &mut writes, &mut new, &content, &put.checksums).await?;
    if let Some(md5) = computed.md5 {
        new.http.content_md5 = Some(md5.into());
    }
    slot.replace(context, &mut writes, &new).await?;
    let reply = |checksums| Reply::BlobPut { written: written(&new), checksums };
    let step = synchronous_reply(reply, &put.checksums, &computed, &new);
    Ok(writes.finish(step))
}

/// Sets the content of a copy. Returns the checksums of it that are known.
async fn fill<S: Snapshot>(
    context: &Context<'_, S>,
    writes: &mut WriteSet<'_, S>,
    new: &mut StoredBlob,
    content: &FoundContent<'_>,
    declared: &Checksums,
) -> Result<Checksums, ServiceError> {
    match content {
        FoundContent::Fetched(_, uploaded) => {
            let computed = uploaded.check(declared)?;
            new.bytes = uploaded.bytes;
            let fresh = ContentId::new(context.now, (context.random_ids)());
            new.content = store(writes, uploaded, fresh).await?;
            Ok(computed)
        }
        FoundContent::Shared(source) => {
            contents::add_reference(writes, &source.content).await?;
            new.bytes = source.bytes;
            new.content = source.content.clone();
            Ok(Checksums { md5: source.http.content_md5.as_ref().and_then(ContentMd5::sum), crc64: None })
        }
    }
}

fn tags(tags: &CopyTags, source: Option<&StoredBlob>) -> Tags {
    match tags {
        CopyTags::These(tags) => tags.clone(),
        CopyTags::Source => source.map(|blob| blob.tags.clone()).unwrap_or_default(),
    }
}

/// Fails if a source is archived.
pub(super) fn require_readable<S: Snapshot>(
    context: &Context<'_, S>,
    found: &StoredBlob,
    source: &CopySource,
) -> Result<(), ServiceError> {
    require_not_archived(found, context.now).map_err(|code| archived(context, code, source))
}

/// The error of an archived source: of another account, like any source that cannot be read.
fn archived<S: Snapshot>(context: &Context<'_, S>, code: ErrorCode, source: &CopySource) -> ServiceError {
    let foreign = matches!(&source.place, SourcePlace::Here(blob) if blob.account != context.account);
    match code {
        ErrorCode::BlobArchived if foreign => SourceErrorStyle::AsCopySource.error(code.into()),
        code => code.into(),
    }
}

/// The tier of a copy. An archived source can only be copied to another tier, which rehydrates it.
fn tier_of_copy<S: Snapshot>(
    context: &Context<'_, S>,
    source: &StoredBlob,
    given: Option<AccessTier>,
    priority: Option<RehydratePriority>,
    otherwise: Option<StoredTier>,
) -> Result<Option<StoredTier>, ErrorCode> {
    match (tier::is_archived(source, context.now), given) {
        (false, _) => Ok(otherwise),
        (true, None | Some(AccessTier::Archive)) => Err(ErrorCode::BlobArchived),
        (true, Some(to)) => {
            let archived = source.tier.map(|tier| StoredTier { rehydrating: None, ..tier });
            let rehydration = context.options.rehydration;
            tier::set(archived, to, priority, context.now, rehydration).map(|(tier, _)| Some(tier))
        }
    }
}

/// A lease on the destination must not expire while the copy is made.
fn require_infinite<S: Snapshot>(
    base: Option<&StoredBlob>,
    preconditions: &Preconditions,
    context: &Context<'_, S>,
) -> Result<(), ErrorCode> {
    match base {
        Some(base)
            if preconditions.lease.is_some()
                && base.lease.is_locked(context.now)
                && !base.lease.is_infinite() =>
        {
            Err(ErrorCode::InfiniteLeaseDurationRequired)
        }
        _ => Ok(()),
    }
}

/// A URL without its signature: of the query, only the parameters that name a revision are kept.
fn without_signature(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            name.eq_ignore_ascii_case("snapshot") || name.eq_ignore_ascii_case("versionid")
        })
        .collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_not_kept() {
        for (url, expected) in [
            ("http://host/a/c/b", "http://host/a/c/b"),
            ("http://host/a/c/b?sv=1&sig=secret", "http://host/a/c/b"),
            ("http://host/a/c/b?snapshot=2026&sig=secret", "http://host/a/c/b?snapshot=2026"),
        ] {
            assert_eq!(without_signature(url), expected);
        }
    }
}
