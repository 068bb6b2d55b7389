//! Put Block, Put Block List and Get Block List: blobs that come in pieces.

use super::contents;
use super::edit::{Edit, Rows};
use super::encryption::stored_metadata;
use super::precondition::{check_key, check_keys, require_not_archived, require_type};
use super::put::{new_blob, no_bytes};
use super::service::{Context, Step};
use super::staged;
use super::target::{More, Target, written};
use super::tier;
use super::upload::{Place, Uploaded};
use crate::keyspace::{self, ContentId};
use crate::pace::ROW_WORK;
use crate::record::{self, BlockContent, Content, Piece, Source, StoredBlob, StoredBlock};
use crate::transact::Outcome;
use std::collections::HashMap;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{
    self, BlobPath, BlobType, BlockId, BlockList, BlockListType, BlockSearch, Changed, CustomerKey,
    ListedBlock, OfType, Preconditions, PutBlock, PutBlockList, Reply, Revision,
};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::Snapshot;

/// How many blocks a blob may have that are not committed.
const MAX_UNCOMMITTED: usize = 100_000;
/// How long the keys of all blocks may be together that are discarded with the commit of a list. Names of blobs
/// are in them, and can be so long that 50,000 of them do not fit into a commit.
const MAX_DISCARDED_KEY_BYTES: usize = 16 * 1024 * 1024;
/// How many blocks that the list does not name are discarded in a commit of their own.
const DISCARDED_AT_ONCE: usize = 1000;

pub(super) async fn put_block<S: Snapshot>(
    context: &Context<'_, S>,
    put: &PutBlock,
    uploaded: Option<&Uploaded>,
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, &put.blob).await?;
    if target.discard_spent(&mut edit).await? == More::Yes {
        return Ok(edit.finish(Step::More));
    }
    if let Some(base) = &target.base {
        if context.allowed == Allowed::IfAbsent {
            return Err(ErrorCode::UnauthorizedBlobOverwrite.into());
        }
        require_type(base, BlobType::Block)?;
        require_not_archived(base, context.now)?;
        target.asked(&put.preconditions, context.now).check_write(base)?;
        edit.guard(target.key(Revision::Base));
    } else if put.preconditions.lease.is_some() {
        return Err(ErrorCode::LeaseNotPresentWithBlobOperation.into());
    }
    staged::note(&mut edit, &target, &put.id).await?;
    check_count(context, &target).await?;
    let uploaded = uploaded.ok_or_else(no_bytes)?;
    if uploaded.bytes == 0 {
        let error = ServiceError::new(ErrorCode::InvalidHeaderValue);
        return Err(error.with_detail("HeaderName", "Content-Length").with_detail("HeaderValue", "0"));
    }
    let said = match &put.piece {
        blob::Piece::Sent(upload) => upload.checksums,
        blob::Piece::FromUrl(from) => from.checksums,
    };
    let computed = uploaded.check(&said)?;
    let content = match uploaded.place {
        Place::Extent(extent) if uploaded.is_encrypted => Some(BlockContent::Encrypted(extent)),
        Place::Extent(extent) => Some(BlockContent::Extent(extent)),
        Place::Zeros(bytes) => Some(BlockContent::Zeros(bytes)),
        // Nothing has been received yet.
        Place::Held(_) => None,
    };
    if let Some(content) = content {
        let key = keyspace::block(target.container, target.name(), &put.id);
        if let Some(row) = edit.get(&key).await? {
            contents::release_block(&mut edit, StoredBlock::decode(&row)?.content).await?;
        }
        if let Some(extent) = content.extent() {
            contents::keep_extent(&mut edit, extent).await?;
        }
        edit.put_stamped(key, StoredBlock { put: context.now, content, key: put.encryption.key }.encode());
    }
    let reply =
        Reply::BlockPut { checksums: said.answered(&computed), encryption: put.encryption.without_secret() };
    Ok(edit.finish(reply.into()))
}

/// There are not too many blocks that are not committed. Counting costs as much as there is to count, so it is
/// done now and then: one put in 1024 at random.
async fn check_count<S: Snapshot>(context: &Context<'_, S>, target: &Target<'_>) -> Result<(), ServiceError> {
    if !(context.chance)().is_multiple_of(1024) {
        return Ok(());
    }
    let range = keyspace::blocks(target.container, target.name());
    let mut rows = Rows::of(context.snapshot, range, 10_000);
    for _ in 0..MAX_UNCOMMITTED {
        if rows.next().await?.is_none() {
            return Ok(());
        }
    }
    Err(ErrorCode::BlockCountExceedsLimit.into())
}

pub(super) async fn put_block_list<S: Snapshot>(
    context: &Context<'_, S>,
    put: &PutBlockList,
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, &put.blob).await?;
    let asked = target.asked(&put.preconditions, context.now);
    asked.check_create(target.base.as_ref(), BlobType::Block, context.allowed)?;
    tier::check_new(put.new.tier, BlobType::Block)?;
    if let Some(base) = target.base.as_ref().filter(|base| base.encryption.key.is_some()) {
        check_key(base, &put.new.encryption)?;
    }
    if target.discard_spent(&mut edit).await? == More::Yes {
        return Ok(edit.finish(Step::More));
    }
    let mut chosen = Choosing::of(context, &target, put).await?;
    let mut pieces = Vec::with_capacity(put.blocks.len());
    for line in &put.blocks {
        context.pace.work(ROW_WORK).await;
        let piece = chosen.choose(&mut edit, &line.id, line.search).await?;
        pieces.push(piece.ok_or(ErrorCode::InvalidBlockList)?);
    }
    if chosen.are_left {
        let note = keyspace::spent_blocks(target.container, target.name());
        edit.put(note, record::encode_number(context.now.ticks()));
    } else {
        if let Some(outcome) = chosen.discard_many(context, &target).await? {
            return Ok(outcome);
        }
        for (id, block) in chosen.uncommitted {
            context.pace.work(ROW_WORK).await;
            if !block.used {
                contents::release_block(&mut edit, block.content).await?;
            }
            edit.delete(keyspace::block(target.container, target.name(), &id));
        }
    }
    let mut new = new_blob(context, &target, &put.new, OfType::Block);
    new.metadata = stored_metadata(&new.metadata, &put.new.encryption)?;
    if !pieces.is_empty() {
        let content = ContentId::new(new.stamp, (context.chance)());
        new.bytes = contents::put_list(&mut edit, context.pace, content, pieces).await;
        new.content = Content::Listed(content);
    }
    target.replace(context, &mut edit, &new).await?;
    let reply = Reply::BlockListPut { written: written(&new), checksums: put.list_checksums };
    Ok(edit.finish(reply.into()))
}

/// The blocks that a list can choose from.
struct Choosing {
    uncommitted: HashMap<BlockId, Uncommitted>,
    committed: HashMap<BlockId, Source>,
    /// The customer's key that committed blocks were put with.
    committed_key: Option<CustomerKey>,
    /// The one that the list is put with: blocks with another cannot be chosen.
    key: Option<CustomerKey>,
    /// There is so much to discard that it is left for later: the list has references of its own.
    are_left: bool,
}

struct Uncommitted {
    content: BlockContent,
    key: Option<CustomerKey>,
    /// The block's own reference has gone over to the list.
    used: bool,
}

impl Choosing {
    async fn of<S: Snapshot>(
        context: &Context<'_, S>,
        target: &Target<'_>,
        put: &PutBlockList,
    ) -> Result<Self, ServiceError> {
        let mut uncommitted = HashMap::new();
        let range = keyspace::blocks(target.container, target.name());
        let mut rows = Rows::of(context.snapshot, range, 10_000);
        let mut key_bytes = 0;
        while let Some((key, row)) = rows.next().await? {
            key_bytes += key.len();
            let (_, id) = keyspace::block_of(&key).ok_or(ErrorCode::InternalError)?;
            let StoredBlock { content, key, .. } = StoredBlock::decode(&row)?;
            uncommitted.insert(id, Uncommitted { content, key, used: false });
        }
        let mut committed = HashMap::new();
        let mut wants_committed = false;
        for line in &put.blocks {
            context.pace.work(1).await;
            wants_committed |= match line.search {
                BlockSearch::Committed => true,
                BlockSearch::Latest => !uncommitted.contains_key(&line.id),
                BlockSearch::Uncommitted => false,
            };
        }
        if wants_committed && let Some(StoredBlob { content: Content::Listed(content), .. }) = target.base {
            for piece in contents::blocks(context.snapshot, content).await? {
                context.pace.work(1).await;
                if let Some(id) = piece.id {
                    committed.insert(id, piece.source);
                }
            }
        }
        let committed_key = target.base.as_ref().and_then(|base| base.encryption.key);
        let (key, are_left) = (put.new.encryption.key, key_bytes > MAX_DISCARDED_KEY_BYTES);
        Ok(Self { uncommitted, committed, committed_key, key, are_left })
    }

    /// The block of an id, with a reference of its own. `None`: there is none.
    async fn choose<S: Snapshot>(
        &mut self,
        edit: &mut Edit<'_, S>,
        id: &BlockId,
        search: BlockSearch,
    ) -> Result<Option<Piece>, ServiceError> {
        let new = match search {
            BlockSearch::Uncommitted | BlockSearch::Latest => self.uncommitted.get_mut(id),
            BlockSearch::Committed => None,
        };
        let source = match (new, search) {
            (Some(block), _) => {
                check_keys(block.key, self.key)?;
                if let Some(extent) = block.content.extent()
                    && (block.used || self.are_left)
                {
                    contents::share_extent(edit, extent).await?;
                }
                block.used = true;
                block.content.source()
            }
            (None, BlockSearch::Uncommitted) => return Ok(None),
            (None, BlockSearch::Committed | BlockSearch::Latest) => {
                let Some(source) = self.committed.get(id).cloned() else { return Ok(None) };
                check_keys(self.committed_key, self.key)?;
                if let Some(extent) = contents::extent_of(&source) {
                    contents::share_extent(edit, extent).await?;
                }
                source
            }
        };
        Ok(Some(Piece { id: Some(id.clone()), source }))
    }

    /// Discards blocks that the list does not name in a commit of their own, if there are very many.
    async fn discard_many<S: Snapshot>(
        &self,
        context: &Context<'_, S>,
        target: &Target<'_>,
    ) -> Result<Option<Outcome<Step>>, ServiceError> {
        let unused = || self.uncommitted.iter().filter(|(_, block)| !block.used);
        if unused().count() <= DISCARDED_AT_ONCE {
            return Ok(None);
        }
        let mut edit = Edit::of(context.snapshot);
        for (id, block) in unused().take(DISCARDED_AT_ONCE) {
            contents::release_block(&mut edit, block.content).await?;
            edit.delete(keyspace::block(target.container, target.name(), id));
        }
        Ok(Some(edit.finish(Step::More)))
    }
}

pub(super) async fn get_block_list<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    revision: Revision,
    list: BlockListType,
    preconditions: &Preconditions,
) -> Result<BlockList, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, path).await?;
    let is_anonymous = context.allowed.is_anonymous();
    if is_anonymous && list.has_uncommitted() {
        return Err(ErrorCode::ResourceNotFound.into());
    }
    let mut uncommitted = Vec::new();
    let note = edit.get(&keyspace::spent_blocks(target.container, target.name())).await?;
    let spent = note.map_or(Ok(0), |row| record::decode_number(&row))?;
    // Whether there are any decides whether there is something at all.
    if revision == Revision::Base && !is_anonymous && (list.has_uncommitted() || target.base.is_none()) {
        let range = keyspace::blocks(target.container, target.name());
        let mut rows = Rows::of(context.snapshot, range, 10_000);
        while let Some((key, row)) = rows.next().await? {
            let (_, id) = keyspace::block_of(&key).ok_or(ErrorCode::InternalError)?;
            let StoredBlock { put, content, .. } = StoredBlock::decode(&row)?;
            if put.ticks() > spent {
                uncommitted.push(ListedBlock { id, bytes: content.bytes() });
            }
        }
    }
    let found = match target.revision(&edit, revision).await {
        Ok((blob, revision)) => {
            require_type(&blob, BlobType::Block)?;
            require_not_archived(&blob, context.now)?;
            let asked = target.asked(preconditions, context.now);
            asked.check_read(&blob, revision == Revision::Base)?;
            Some(blob)
        }
        Err(error) if error.code == ErrorCode::BlobNotFound && !uncommitted.is_empty() => None,
        Err(error) => return Err(error),
    };
    let mut committed = Vec::new();
    if let Some(StoredBlob { content: Content::Listed(content), .. }) = &found
        && list.has_committed()
    {
        for piece in contents::blocks(context.snapshot, *content).await? {
            context.pace.work(1).await;
            let bytes = piece.bytes();
            committed.extend(piece.id.map(|id| ListedBlock { id, bytes }));
        }
    }
    Ok(BlockList {
        committed_as: found.map(|blob| (Changed(blob.changed), blob.bytes)),
        committed: list.has_committed().then_some(committed),
        uncommitted: list.has_uncommitted().then_some(uncommitted),
    })
}
