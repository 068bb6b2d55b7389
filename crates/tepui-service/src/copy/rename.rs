//! Rows that name extents: which they name, and the same rows with other names.

use crate::blob::contents::extent_of;
use crate::keyspace::space;
use crate::record::{BlockContent, Content, PieceRow, PieceSource, StoredBlob, StoredBlock};
use bytes::Bytes;
use tepui_model::ServiceError;
use tepui_storage::Extent;

/// The extents that a row names, in the order in which it does. Those of reference counts are in their keys, and not found here.
pub(super) fn extents_in(key: &[u8], value: &Bytes) -> Result<Vec<Extent>, ServiceError> {
    Ok(match key.first() {
        Some(&space::BLOB) => match StoredBlob::decode(value)?.content {
            Content::Extent(extent) => vec![extent],
            Content::Inline(_) | Content::Small(_) | Content::Listed(_) => Vec::new(),
        },
        Some(&space::BLOCK) => StoredBlock::decode(value)?.content.extent().into_iter().collect(),
        Some(&space::PIECES) => {
            PieceRow::decode(value)?.pieces.iter().filter_map(|piece| extent_of(&piece.source)).collect()
        }
        _ => Vec::new(),
    })
}

/// The row with other extents in the place of those that it names. `names` gives one after the other; `None`: there are too few.
pub(super) fn with_extents(
    key: &[u8],
    value: &Bytes,
    names: &mut dyn Iterator<Item = Extent>,
) -> Result<Option<Bytes>, ServiceError> {
    Ok(match key.first() {
        Some(&space::BLOB) => {
            let mut blob = StoredBlob::decode(value)?;
            let Content::Extent(extent) = &mut blob.content else { return Ok(Some(value.clone())) };
            rename(extent, names).map(|()| blob.encode())
        }
        Some(&space::BLOCK) => {
            let mut block = StoredBlock::decode(value)?;
            match &mut block.content {
                BlockContent::Extent(extent) | BlockContent::Encrypted(extent) => {
                    rename(extent, names).map(|()| block.encode())
                }
                BlockContent::Zeros(_) => Some(value.clone()),
            }
        }
        Some(&space::PIECES) => {
            let mut row = PieceRow::decode(value)?;
            let mut renamed = 0;
            for piece in &mut row.pieces {
                if let PieceSource::Extent(extent)
                | PieceSource::Slice(extent, _)
                | PieceSource::EncryptedExtent(extent, _) = &mut piece.source
                {
                    if rename(extent, names).is_none() {
                        return Ok(None);
                    }
                    renamed += 1;
                }
            }
            Some(if renamed == 0 { value.clone() } else { row.encode() })
        }
        _ => Some(value.clone()),
    })
}

fn rename(extent: &mut Extent, names: &mut dyn Iterator<Item = Extent>) -> Option<()> {
    *extent = names.next()?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{self, ContentId, Incarnation};
    use crate::record::StoredPiece;
    use tepui_model::Timestamp;
    use tepui_model::blob::{BlockId, CustomerKey, Revision};
    use tepui_storage::StoreId;

    fn extent(store: u64, volume: u64) -> Extent {
        Extent { store: StoreId(store), volume, offset: 4096 * volume, bytes: 100 }
    }

    /// A row of each kind that names extents, with these.
    fn rows(extents: &[Extent; 4]) -> Vec<(Vec<u8>, Bytes, usize)> {
        let container = Incarnation(3);
        let block = |content| StoredBlock { put: Timestamp::MIN, content, key: None }.encode();
        let id = BlockId::from_bytes(b"id".to_vec()).unwrap();
        let blob = |content| StoredBlob { content, ..StoredBlob::default() }.encode();
        let [first, second, third, fourth] = *extents;
        let pieces = [
            (None, PieceSource::Extent(first)),
            (Some(id.clone()), PieceSource::Slice(second, 3..50)),
            (None, PieceSource::Zeros(7)),
            (Some(id.clone()), PieceSource::Extent(third)),
            (None, PieceSource::Inline(Bytes::from_static(b"inline"))),
            (None, PieceSource::EncryptedExtent(fourth, 1..9)),
        ];
        let pieces = pieces.map(|(id, source)| StoredPiece { id, source }).to_vec();
        let blob_key = || keyspace::blob(container, "name", Revision::Base).to_vec();
        let block_key = || keyspace::block(container, "name", &id).to_vec();
        let encrypted = StoredBlock {
            put: Timestamp::MAX,
            content: BlockContent::Encrypted(first),
            key: Some(CustomerKey { sha256: [7; 32] }),
        };
        vec![
            (blob_key(), blob(Content::Extent(first)), 1),
            (blob_key(), blob(Content::Inline(Bytes::from_static(b"bytes"))), 0),
            (blob_key(), blob(Content::Listed(ContentId(5))), 0),
            (block_key(), block(BlockContent::Extent(first)), 1),
            (block_key(), block(BlockContent::Zeros(5)), 0),
            (block_key(), encrypted.encode(), 1),
            (keyspace::pieces(ContentId(5), 100).to_vec(), PieceRow { start: 0, pieces }.encode(), 4),
            (keyspace::entity(container, "p", "r").to_vec(), Bytes::from_static(b"anything"), 0),
        ]
    }

    #[test]
    fn rows_get_the_names_of_another_store_and_back() {
        let (here, there) = ([1, 2, 3, 4].map(|at| extent(0, at)), [9, 8, 7, 6].map(|at| extent(77, at)));
        for ((key, before, count), (_, after, _)) in rows(&here).into_iter().zip(rows(&there)) {
            assert_eq!(extents_in(&key, &before).unwrap(), here[..count]);
            assert_eq!(extents_in(&key, &after).unwrap(), there[..count]);
            let renamed =
                |value, names: &[Extent]| with_extents(&key, value, &mut names.iter().copied()).unwrap();
            assert_eq!(renamed(&before, &there), Some(after.clone()));
            assert_eq!(renamed(&after, &here), Some(before.clone()));
            let too_few = renamed(&before, &there[..count.saturating_sub(1)]);
            assert_eq!(too_few.is_none(), count > 0);
        }
    }
}
