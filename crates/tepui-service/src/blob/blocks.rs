//! Put Block, Put Block List and Get Block List.

use super::contents;
use super::cursor::RowCursor;
use super::encryption::stored_metadata;
use super::precondition::{check_key, check_keys, require_not_archived, require_type};
use super::put::new_blob;
use super::service::{Context, NextStep};
use super::slot::{BlobSlot, Progress, written};
use super::staged;
use super::tier;
use super::upload::{UploadLocation, Uploaded};
use super::write_set::WriteSet;
use crate::coop::ROW_COST;
use crate::keyspace::{self, ContentId};
use crate::record::{
    self, BlockContent, Content, PieceRow, PieceSource, StoredBlob, StoredBlock, StoredPiece,
};
use crate::transact::Outcome;
use std::collections::HashMap;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{
    BlobPath, BlobType, BlockId, BlockList, BlockListType, BlockSearch, Changed, CustomerKey, ListedBlock,
    OfType, Preconditions, PutBlock, PutBlockList, Reply, Revision,
};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Extent, Snapshot};

/// The most uncommitted blocks of a blob.
const MAX_UNCOMMITTED: usize = 100_000;
/// The most bytes of keys of blocks that are discarded in the commit of a list. The keys contain the blob's name, which can
/// be so long that 50,000 of them do not fit into a commit.
const MAX_DISCARDED_KEY_BYTES: usize = 16 * 1024 * 1024;
/// Blocks that are discarded in a commit of their own, of those that the list does not name.
const DISCARDED_AT_ONCE: usize = 1000;

pub(super) async fn put_block<S: Snapshot>(
    context: &Context<'_, S>,
    put: &PutBlock,
    uploaded: &Uploaded,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let also = |container| {
        let name = put.blob.blob.as_str();
        let (marker, consumed) =
            (keyspace::staged(container, name), keyspace::consumed_blocks(container, name));
        let rows = [marker, consumed, keyspace::block(container, name, &put.id)];
        rows.into_iter().chain(uploaded.extent().map(keyspace::free_extent)).collect()
    };
    let slot = BlobSlot::find_with(context, &mut writes, &put.blob, also).await?;
    if slot.discard_consumed(&mut writes).await? == Progress::Partial {
        return Ok(writes.finish(NextStep::Continue));
    }
    if let Some(base) = &slot.base {
        if context.allowed == Allowed::IfAbsent {
            return Err(ErrorCode::UnauthorizedBlobOverwrite.into());
        }
        require_type(base, BlobType::Block)?;
        require_not_archived(base, context.now)?;
        slot.precondition_check(&put.preconditions, context.now).for_write(base)?;
        writes.guard_shared(slot.key(Revision::Base));
    } else if put.preconditions.lease.is_some() {
        return Err(ErrorCode::LeaseNotPresentWithBlobOperation.into());
    }
    staged::mark(&mut writes, &slot, &put.id).await?;
    check_count(context, &slot).await?;
    let content = match uploaded.location {
        UploadLocation::Extent(extent) if uploaded.is_encrypted => BlockContent::Encrypted(extent),
        UploadLocation::Extent(extent) => BlockContent::Extent(extent),
        UploadLocation::Zeros(bytes) if bytes > 0 => BlockContent::Zeros(bytes),
        // No byte of a block stays in memory, so there was none.
        UploadLocation::Zeros(_) | UploadLocation::InMemory(_) => {
            let error = ServiceError::new(ErrorCode::InvalidHeaderValue);
            return Err(error.with_detail("HeaderName", "Content-Length").with_detail("HeaderValue", "0"));
        }
    };
    let declared = put.piece.checksums();
    let computed = uploaded.check(declared)?;
    let key = keyspace::block(slot.container, slot.name(), &put.id);
    if let Some(row) = writes.get(&key).await? {
        contents::release_block(&mut writes, StoredBlock::decode(&row)?.content).await?;
    }
    if let Some(extent) = content.extent() {
        contents::add_extent(&mut writes, extent).await?;
    }
    writes.put_stamped(key, StoredBlock { put: context.now, content, key: put.encryption.key }.encode());
    let reply = Reply::BlockPut {
        checksums: declared.answered(&computed),
        encryption: put.encryption.without_secret(),
    };
    Ok(writes.finish(reply.into()))
}

/// Fails if the blob has too many uncommitted blocks. Counting takes linear time, so only one put in 1024 counts, at
/// random.
async fn check_count<S: Snapshot>(context: &Context<'_, S>, slot: &BlobSlot<'_>) -> Result<(), ServiceError> {
    if !(context.random_ids)().is_multiple_of(1024) {
        return Ok(());
    }
    let range = keyspace::blocks(slot.container, slot.name());
    let mut rows = RowCursor::new(context.snapshot, range, 10_000);
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
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, &put.blob).await?;
    let check = slot.precondition_check(&put.preconditions, context.now);
    check.for_create(slot.base.as_ref(), BlobType::Block, context.allowed)?;
    tier::check_new(put.new.tier, BlobType::Block)?;
    if let Some(base) = slot.base.as_ref().filter(|base| base.encryption.key.is_some()) {
        check_key(base, &put.new.encryption)?;
    }
    if slot.discard_consumed(&mut writes).await? == Progress::Partial {
        return Ok(writes.finish(NextStep::Continue));
    }
    let mut selection = BlockSelection::of(context, &slot, put).await?;
    writes.prefetch(selection.referenced_extents(put).map(keyspace::extent)).await?;
    let mut pieces = Vec::with_capacity(put.blocks.len());
    for line in &put.blocks {
        context.coop.spend(ROW_COST).await;
        let piece = selection.select(&mut writes, &line.id, line.search).await?;
        pieces.push(piece.ok_or(ErrorCode::InvalidBlockList)?);
    }
    if selection.is_deferred {
        let gc_record = keyspace::consumed_blocks(slot.container, slot.name());
        writes.put(gc_record, record::encode_number(context.now.ticks()));
    } else {
        if let Some(outcome) = selection.discard_many(context, &slot).await? {
            return Ok(outcome);
        }
        let unused = selection.uncommitted.values().filter(|block| !block.used);
        writes.prefetch(unused.filter_map(|block| block.content.extent()).map(keyspace::extent)).await?;
        for (id, block) in selection.uncommitted {
            context.coop.spend(ROW_COST).await;
            if !block.used {
                contents::release_block(&mut writes, block.content).await?;
            }
            writes.delete(keyspace::block(slot.container, slot.name(), &id));
        }
    }
    let mut new = new_blob(context, &slot, &put.new, OfType::Block);
    new.metadata = stored_metadata(&new.metadata, &put.new.encryption)?;
    if !pieces.is_empty() {
        let content = ContentId::new(new.stamp, (context.random_ids)());
        new.bytes = contents::put_list(&mut writes, context.coop, content, pieces).await;
        new.content = Content::Listed(content);
    }
    slot.replace(context, &mut writes, &new).await?;
    let reply = Reply::BlockListPut { written: written(&new), checksums: put.list_checksums };
    Ok(writes.finish(reply.into()))
}

/// The blocks that a list can select from.
struct BlockSelection {
    uncommitted: HashMap<BlockId, Uncommitted>,
    committed: HashMap<BlockId, PieceSource>,
    /// The customer-provided key of the committed blocks.
    committed_key: Option<CustomerKey>,
    /// The customer-provided key of the list: blocks with another cannot be selected.
    key: Option<CustomerKey>,
    /// The blocks are too many to be discarded in this commit, so the list adds references of its own.
    is_deferred: bool,
}

struct Uncommitted {
    content: BlockContent,
    key: Option<CustomerKey>,
    /// The list has taken over the block's reference.
    used: bool,
}

impl BlockSelection {
    async fn of<S: Snapshot>(
        context: &Context<'_, S>,
        slot: &BlobSlot<'_>,
        put: &PutBlockList,
    ) -> Result<Self, ServiceError> {
        let mut uncommitted = HashMap::new();
        let range = keyspace::blocks(slot.container, slot.name());
        let mut rows = RowCursor::new(context.snapshot, range, 10_000);
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
            context.coop.spend(1).await;
            wants_committed |= match line.search {
                BlockSearch::Committed => true,
                BlockSearch::Latest => !uncommitted.contains_key(&line.id),
                BlockSearch::Uncommitted => false,
            };
        }
        if wants_committed && let Some(StoredBlob { content: Content::Listed(content), .. }) = slot.base {
            let mut rows = contents::block_rows(context.snapshot, content);
            while let Some((_, row)) = rows.next().await? {
                for piece in PieceRow::decode(&row)?.pieces {
                    context.coop.spend(1).await;
                    if let Some(id) = piece.id {
                        committed.insert(id, piece.source);
                    }
                }
            }
        }
        let committed_key = slot.base.as_ref().and_then(|base| base.encryption.key);
        let (key, is_deferred) = (put.new.encryption.key, key_bytes > MAX_DISCARDED_KEY_BYTES);
        Ok(Self { uncommitted, committed, committed_key, key, is_deferred })
    }

    /// The extents whose references are counted again when the list selects their blocks.
    fn referenced_extents(&self, put: &PutBlockList) -> impl Iterator<Item = Extent> {
        put.blocks.iter().filter_map(|line| match (self.uncommitted.get(&line.id), line.search) {
            (Some(block), BlockSearch::Uncommitted | BlockSearch::Latest) => {
                self.is_deferred.then(|| block.content.extent()).flatten()
            }
            _ => self.committed.get(&line.id).and_then(contents::extent_of),
        })
    }

    /// The block with an id, with a reference. `None` if there is none.
    async fn select<S: Snapshot>(
        &mut self,
        writes: &mut WriteSet<'_, S>,
        id: &BlockId,
        search: BlockSearch,
    ) -> Result<Option<StoredPiece>, ServiceError> {
        let new = match search {
            BlockSearch::Uncommitted | BlockSearch::Latest => self.uncommitted.get_mut(id),
            BlockSearch::Committed => None,
        };
        let source = match (new, search) {
            (Some(block), _) => {
                check_keys(block.key, self.key)?;
                if let Some(extent) = block.content.extent()
                    && (block.used || self.is_deferred)
                {
                    contents::add_extent_reference(writes, extent).await?;
                }
                block.used = true;
                block.content.source()
            }
            (None, BlockSearch::Uncommitted) => return Ok(None),
            (None, BlockSearch::Committed | BlockSearch::Latest) => {
                let Some(source) = self.committed.get(id).cloned() else { return Ok(None) };
                check_keys(self.committed_key, self.key)?;
                if let Some(extent) = contents::extent_of(&source) {
                    contents::add_extent_reference(writes, extent).await?;
                }
                source
            }
        };
        Ok(Some(StoredPiece { id: Some(id.clone()), source }))
    }

    /// If there are very many blocks that the list does not name, a commit that discards some of them.
    async fn discard_many<S: Snapshot>(
        &self,
        context: &Context<'_, S>,
        slot: &BlobSlot<'_>,
    ) -> Result<Option<Outcome<NextStep>>, ServiceError> {
        let unused = || self.uncommitted.iter().filter(|(_, block)| !block.used);
        if unused().count() <= DISCARDED_AT_ONCE {
            return Ok(None);
        }
        let mut writes = WriteSet::new(context.snapshot);
        let discarded = unused().take(DISCARDED_AT_ONCE).filter_map(|(_, block)| block.content.extent());
        writes.prefetch(discarded.map(keyspace::extent)).await?;
        for (id, block) in unused().take(DISCARDED_AT_ONCE) {
            contents::release_block(&mut writes, block.content).await?;
            writes.delete(keyspace::block(slot.container, slot.name(), id));
        }
        Ok(Some(writes.finish(NextStep::Continue)))
    }
}

pub(super) async fn get_block_list<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    revision: Revision,
    list: BlockListType,
    preconditions: &Preconditions,
) -> Result<BlockList, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, path).await?;
    let is_anonymous = context.allowed.is_anonymous();
    if is_anonymous && list.has_uncommitted() {
        return Err(ErrorCode::ResourceNotFound.into());
    }
    let mut uncommitted = Vec::new();
    let gc_record = writes.get(&keyspace::consumed_blocks(slot.container, slot.name())).await?;
    let spent = gc_record.map_or(Ok(0), |row| record::decode_number(&row))?;
    // Uncommitted blocks alone make the blob exist for this operation.
    if revision == Revision::Base && !is_anonymous && (list.has_uncommitted() || slot.base.is_none()) {
        let range = keyspace::blocks(slot.container, slot.name());
        let mut rows = RowCursor::new(context.snapshot, range, 10_000);
        while let Some((key, row)) = rows.next().await? {
            let (_, id) = keyspace::block_of(&key).ok_or(ErrorCode::InternalError)?;
            let StoredBlock { put, content, .. } = StoredBlock::decode(&row)?;
            if put.ticks() > spent {
                uncommitted.push(ListedBlock { id, bytes: content.bytes() });
            }
        }
    }
    let found = match slot.revision(&writes, revision).await {
        Ok((blob, revision)) => {
            require_type(&blob, BlobType::Block)?;
            require_not_archived(&blob, context.now)?;
            let check = slot.precondition_check(preconditions, context.now);
            check.for_read(&blob, revision == Revision::Base)?;
            Some(blob)
        }
        Err(error) if error.code == ErrorCode::BlobNotFound && !uncommitted.is_empty() => None,
        Err(error) => return Err(error),
    };
    let mut committed = Vec::new();
    if let Some(StoredBlob { content: Content::Listed(content), .. }) = &found
        && list.has_committed()
    {
        let mut rows = contents::block_rows(context.snapshot, *content);
        while let Some((_, row)) = rows.next().await? {
            for piece in PieceRow::decode(&row)?.pieces {
                context.coop.spend(1).await;
                let bytes = piece.bytes();
                committed.extend(piece.id.map(|id| ListedBlock { id, bytes }));
            }
        }
    }
    Ok(BlockList {
        committed_as: found.map(|blob| (Changed(blob.changed), blob.bytes)),
        committed: list.has_committed().then_some(committed),
        uncommitted: list.has_uncommitted().then_some(uncommitted),
    })
}
