//! Copies: of blobs of this server by sharing what they are made of, of others from bytes that were fetched.

use super::contents;
use super::edit::Edit;
use super::encryption::stored_metadata;
use super::pending;
use super::precondition::{check_key, require_not_archived};
use super::put::{new_blob, no_bytes, store};
use super::service::{Context, Located, Step, shape};
use super::target::{More, Target, written};
use super::tier;
use super::upload::Uploaded;
use crate::keyspace::ContentId;
use crate::record::{StoredBlob, StoredTier};
use crate::transact::Outcome;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{
    AccessTier, BlobPath, BlobType, Checksums, ContentMd5, CopyBlob, CopyPace, CopySource, CopyState,
    CopyStatus, CopyTags, Encryption, HttpProperties, NewBlob, OfType, Preconditions, PutBlobFromUrl,
    RehydratePriority, Reply, Revision, SourcePlace, Tags, Unmet, Validators,
};
use tepui_model::metadata::Metadata;
use tepui_model::{ErrorCode, ServiceError, guid};
use tepui_storage::Snapshot;

/// The longest blob that is copied while the caller waits.
const MAX_WAITING_BYTES: u64 = 256 * 1024 * 1024;

/// How a source that cannot be copied is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    /// Copy Blob tells of it as of any blob of the account.
    Plainly,
    /// The others tell that they could not read it, and with which status.
    AsSource,
}

impl Telling {
    fn error(self, error: ServiceError) -> ServiceError {
        match self {
            Self::Plainly => error,
            Self::AsSource => ServiceError::new(ErrorCode::CannotVerifyCopySource)
                .with_status(error.status())
                .with_copy_source(error.status(), Some(error.code.name()), Some(error.message()))
                .with_message(error.message().to_owned()),
        }
    }

    fn unmet(self, unmet: Unmet) -> ServiceError {
        let condition = ServiceError::new(ErrorCode::ConditionNotMet);
        match (self, unmet) {
            (Self::Plainly, _) => ErrorCode::SourceConditionNotMet.into(),
            (Self::AsSource, Unmet::NotModified) => self.error(condition.with_status(304)),
            (Self::AsSource, Unmet::Failed) => self.error(condition),
        }
    }
}

/// The blob that is copied, if it is one of this server.
pub(super) async fn find_source<S: Snapshot>(
    context: &Context<'_, S>,
    source: &CopySource,
    telling: Telling,
) -> Result<Option<StoredBlob>, ServiceError> {
    let SourcePlace::Here { account, blob, revision } = &source.place else { return Ok(None) };
    let found = find_here(context, account, blob, *revision).await;
    let found = found.map_err(|error| telling.error(error))?;
    let container = blob.container.as_str();
    let validators = Validators { changed: found.changed, container, tags: &found.tags };
    source.conditions.check_read(&validators).map_err(|unmet| telling.unmet(unmet))?;
    // No caller can show the key of a source.
    check_key(&found, &Encryption::default())?;
    Ok(Some(found))
}

async fn find_here<S: Snapshot>(
    context: &Context<'_, S>,
    account: &str,
    path: &BlobPath,
    revision: Revision,
) -> Result<StoredBlob, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find_in(context, &mut edit, (account, context.source_allowed), path).await?;
    target.revision(&edit, revision).await.map(|(blob, _)| blob)
}

pub(super) async fn copy_blob<S: Snapshot>(
    context: &Context<'_, S>,
    copy: &CopyBlob,
    uploaded: Option<&Uploaded>,
) -> Result<Outcome<Step>, ServiceError> {
    let (telling, said) = match &copy.pace {
        CopyPace::Background if is_own(context, &copy.source) => (Telling::Plainly, Checksums::default()),
        CopyPace::Background => (Telling::AsSource, Checksums::default()),
        CopyPace::Waiting(said) => (Telling::AsSource, *said),
    };
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, &copy.blob).await?;
    let source = find_source(context, &copy.source, telling).await?;
    let blob_type = source.as_ref().map_or(BlobType::Block, |blob| blob.of_type.blob_type());
    // Only block blobs are copied while the caller waits.
    if matches!(copy.pace, CopyPace::Waiting(_)) && blob_type != BlobType::Block {
        return Err(ErrorCode::InvalidBlobType.into());
    }
    let asked = target.asked(&copy.preconditions, context.now);
    asked.check_create(target.base.as_ref(), blob_type, context.allowed)?;
    tier::check_new(copy.tier, blob_type)?;
    // All bytes are encrypted while the caller waits, and a page blob may have very many that it never had.
    let is_long = source.as_ref().is_some_and(|source| source.bytes > MAX_WAITING_BYTES);
    if is_long && copy.encryption.key.is_some() {
        return Err(ServiceError::new(ErrorCode::CannotVerifyCopySource).with_status(409));
    }
    require_infinite(target.base.as_ref(), &copy.preconditions, context)?;
    let given = NewBlob {
        metadata: copy.metadata.clone(),
        tags: tags(&copy.tags, source.as_ref()),
        tier: copy.tier,
        encryption: copy.encryption.clone(),
        immutability: copy.immutability,
        legal_hold: copy.legal_hold,
        ..NewBlob::default()
    };
    let of_type = match source.as_ref().map(|blob| blob.of_type) {
        Some(OfType::Append { committed_blocks, sealed }) => {
            OfType::Append { committed_blocks, sealed: copy.seal.unwrap_or(sealed) }
        }
        Some(of_type) => of_type,
        None => OfType::Block,
    };
    if target.discard_blocks(&mut edit).await? == More::Yes {
        return Ok(edit.finish(Step::More));
    }
    let mut new = new_blob(context, &target, &given, of_type);
    let origin = Origin::of(source.as_ref(), &copy.source);
    new.http = origin.http;
    if new.metadata.is_empty() {
        new.metadata = origin.metadata;
    }
    new.metadata = stored_metadata(&new.metadata, &copy.encryption)?;
    if let Some(source) = &source {
        new.tier = tier_of_copy(context, source, copy.tier, copy.priority, new.tier)
            .map_err(|code| archived(context, code, &copy.source))?;
    }
    if copy.goes_on() {
        return start(context, edit, &target, new, copy).await;
    }
    let computed = fill(context, &mut edit, &mut new, source.as_ref(), uploaded, &said).await?;
    if matches!(copy.pace, CopyPace::Waiting(_)) && new.bytes > MAX_WAITING_BYTES {
        return Err(ServiceError::new(ErrorCode::CannotVerifyCopySource).with_status(409));
    }
    let copy_id = guid::print((context.chance)());
    let (status, progress) = (CopyStatus::Success, (new.bytes, new.bytes));
    let completed = Some(new.changed);
    new.copy = Some(Box::new(CopyState { completed, ..state(copy, &copy_id, status, progress) }));
    target.replace(context, &mut edit, &new).await?;
    let written = written(&new);
    let reply = |checksums| Reply::CopyStarted { written, copy_id, status, checksums };
    Ok(edit.finish(match copy.pace {
        CopyPace::Background => reply(Checksums::default()).into(),
        CopyPace::Waiting(said) => answer(reply, &said, &computed, &new),
    }))
}

/// The answer to who has waited for a copy. Fidelity: it has the MD5 if the caller has said one, and else the CRC64.
/// scenario: copy-from-url-checksums
fn answer(
    reply: impl FnOnce(Checksums) -> Reply,
    said: &Checksums,
    computed: &Checksums,
    new: &StoredBlob,
) -> Step {
    let reply = reply(said.answered(computed));
    // Nobody has read bytes that are shared.
    let unread = said.md5.is_none() && computed.crc64.is_none();
    match unread && new.bytes <= MAX_WAITING_BYTES {
        true => {
            let content = (new.content.clone(), shape(new.of_type));
            Step::Sum(reply, Located { content, range: 0..new.bytes })
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

/// Puts an empty blob in the place of a copy that goes on.
async fn start<S: Snapshot>(
    context: &Context<'_, S>,
    mut edit: Edit<'_, S>,
    target: &Target<'_>,
    mut new: StoredBlob,
    copy: &CopyBlob,
) -> Result<Outcome<Step>, ServiceError> {
    let copy_id = match context.starting {
        Some(starting) => starting.id().to_owned(),
        None => guid::print((context.chance)()),
    };
    let total = match &copy.source.place {
        SourcePlace::Fetched(head) => head.bytes.unwrap_or(0),
        SourcePlace::Here { .. } | SourcePlace::Elsewhere => 0,
    };
    let status = CopyStatus::Pending;
    new.copy = Some(Box::new(state(copy, &copy_id, status, (0, total))));
    pending::note(&mut edit, target, &copy_id);
    target.replace(context, &mut edit, &new).await?;
    let checksums = Checksums::default();
    Ok(edit.finish(Reply::CopyStarted { written: written(&new), copy_id, status, checksums }.into()))
}

/// What a copy takes over from its source beside the bytes.
#[derive(Default)]
struct Origin {
    http: HttpProperties,
    metadata: Metadata,
}

impl Origin {
    fn of(found: Option<&StoredBlob>, source: &CopySource) -> Self {
        match (found, &source.place) {
            (Some(blob), _) => Self { http: blob.http.clone(), metadata: blob.metadata.clone() },
            (None, SourcePlace::Fetched(head)) => {
                Self { http: head.http.clone(), metadata: head.metadata.clone() }
            }
            (None, SourcePlace::Here { .. } | SourcePlace::Elsewhere) => Self::default(),
        }
    }
}

/// Whether a source belongs to the account that it is copied in, and to a caller who may read all of it.
fn is_own<S: Snapshot>(context: &Context<'_, S>, source: &CopySource) -> bool {
    let same = matches!(&source.place, SourcePlace::Here { account, .. } if account == context.account);
    same && context.source_allowed == Allowed::Fully
}

pub(super) async fn put_blob_from_url<S: Snapshot>(
    context: &Context<'_, S>,
    put: &PutBlobFromUrl,
    uploaded: Option<&Uploaded>,
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, &put.blob).await?;
    let asked = target.asked(&put.preconditions, context.now);
    asked.check_create(target.base.as_ref(), BlobType::Block, context.allowed)?;
    tier::check_new(put.new.tier, BlobType::Block)?;
    let source = find_source(context, &put.source, Telling::AsSource).await?;
    if let Some(source) = &source {
        require_readable(context, source, &put.source)?;
        // Pages cannot be shared by a blob that has none.
        if source.of_type.blob_type() == BlobType::Page && uploaded.is_none() {
            return Err(ErrorCode::InvalidBlobType.into());
        }
    }
    let mut given = put.new.clone();
    given.tags = tags(&put.tags, source.as_ref());
    if target.discard_blocks(&mut edit).await? == More::Yes {
        return Ok(edit.finish(Step::More));
    }
    let mut new = new_blob(context, &target, &given, OfType::Block);
    let origin = Origin::of(source.as_ref(), &put.source);
    if put.copy_properties {
        let (http, theirs) = (&mut new.http, origin.http);
        http.content_type = http.content_type.take().or(theirs.content_type);
        http.content_encoding = http.content_encoding.take().or(theirs.content_encoding);
        http.content_language = http.content_language.take().or(theirs.content_language);
        http.content_disposition = http.content_disposition.take().or(theirs.content_disposition);
        http.cache_control = http.cache_control.take().or(theirs.cache_control);
    }
    if new.metadata.is_empty() {
        new.metadata = origin.metadata;
    }
    new.metadata = stored_metadata(&new.metadata, &put.new.encryption)?;
    let computed = fill(context, &mut edit, &mut new, source.as_ref(), uploaded, &put.checksums).await?;
    if let Some(md5) = computed.md5 {
        new.http.content_md5 = Some(md5.into());
    }
    target.replace(context, &mut edit, &new).await?;
    let reply = |checksums| Reply::BlobPut { written: written(&new), checksums };
    let answer = answer(reply, &put.checksums, &computed, &new);
    Ok(edit.finish(answer))
}

/// Gives a copy its content: bytes that were fetched, or else those of the source, which both then share.
async fn fill<S: Snapshot>(
    context: &Context<'_, S>,
    edit: &mut Edit<'_, S>,
    new: &mut StoredBlob,
    source: Option<&StoredBlob>,
    uploaded: Option<&Uploaded>,
    said: &Checksums,
) -> Result<Checksums, ServiceError> {
    if let Some(uploaded) = uploaded {
        let computed = uploaded.check(said)?;
        new.bytes = uploaded.bytes;
        let fresh = ContentId::new(context.now, (context.chance)());
        new.content = store(edit, uploaded, fresh).await?;
        return Ok(computed);
    }
    let source = source.ok_or_else(no_bytes)?;
    if *said != Checksums::default() {
        return Err(no_bytes());
    }
    contents::share(edit, &source.content).await?;
    new.bytes = source.bytes;
    new.content = source.content.clone();
    Ok(Checksums { md5: source.http.content_md5.as_ref().and_then(ContentMd5::sum), crc64: None })
}

fn tags(tags: &CopyTags, source: Option<&StoredBlob>) -> Tags {
    match tags {
        CopyTags::These(tags) => tags.clone(),
        CopyTags::Source => source.map(|blob| blob.tags.clone()).unwrap_or_default(),
    }
}

/// Fails if the bytes of a source are in the archive.
pub(super) fn require_readable<S: Snapshot>(
    context: &Context<'_, S>,
    found: &StoredBlob,
    source: &CopySource,
) -> Result<(), ServiceError> {
    require_not_archived(found, context.now).map_err(|code| archived(context, code, source))
}

/// How a source is told of that is in the archive: of another account, as of any that cannot be read.
fn archived<S: Snapshot>(context: &Context<'_, S>, code: ErrorCode, source: &CopySource) -> ServiceError {
    let foreign = matches!(&source.place, SourcePlace::Here { account, .. } if account != context.account);
    match code {
        ErrorCode::BlobArchived if foreign => Telling::AsSource.error(code.into()),
        code => code.into(),
    }
}

/// An archived blob is copied only on its way out of the archive.
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

/// A lease on the destination must not end while the copy is made.
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

/// A URL without anything secret: of its query, only what tells which state of the blob was meant.
fn without_signature(url: &str) -> String {
    let Some((place, query)) = url.split_once('?') else { return url.to_owned() };
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            name.eq_ignore_ascii_case("snapshot") || name.eq_ignore_ascii_case("versionid")
        })
        .collect();
    if kept.is_empty() { place.to_owned() } else { format!("{place}?{}", kept.join("&")) }
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
