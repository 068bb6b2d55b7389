//! Batches: what a group of the log holds.
//!
//! ```text
//! sequence number: u64, count: u32, then for each write
//! 0, length of the key: u16, length of the value: u32, key, value
//! 1, length of the key: u16, key
//! ```

use super::sector::GroupBuffer;
use crate::byte_reader::ByteReader;
use crate::lsm::SeqNo;
use tepui_storage::{Key, Value, Write};

const PUT: u8 = 0;
const DELETE: u8 = 1;

/// All writes of one sequence number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteBatch {
    pub(crate) seq_no: SeqNo,
    pub(crate) writes: Vec<Write>,
}

pub(super) fn put(group: &mut GroupBuffer, seq_no: SeqNo, writes: &[Write]) {
    group.put(&seq_no.to_le_bytes());
    group.put(&(writes.len() as u32).to_le_bytes());
    for write in writes {
        // Keys and commits are limited in size: the lengths fit.
        let key_length = (write.key().len() as u16).to_le_bytes();
        match write {
            Write::Put(key, value) => {
                let [a, b] = key_length;
                let [c, d, e, f] = (value.len() as u32).to_le_bytes();
                group.put(&[PUT, a, b, c, d, e, f]);
                group.put(key);
                group.put(value);
            }
            Write::Delete(key) => {
                let [a, b] = key_length;
                group.put(&[DELETE, a, b]);
                group.put(key);
            }
        }
    }
}

/// `None`: these are not the bytes of a batch.
pub(super) fn read(bytes: &[u8]) -> Option<WriteBatch> {
    let mut reader = ByteReader(bytes);
    let seq_no = reader.u64()?;
    let count = reader.u32()?;
    let mut writes = Vec::new();
    for _ in 0..count {
        let [kind] = reader.array()?;
        let key_length = usize::from(reader.u16()?);
        writes.push(match kind {
            PUT => {
                let value_length = reader.u32()? as usize;
                let key = Key::copy_from_slice(reader.take(key_length)?);
                Write::Put(key, Value::copy_from_slice(reader.take(value_length)?))
            }
            DELETE => Write::Delete(Key::copy_from_slice(reader.take(key_length)?)),
            _ => return None,
        });
    }
    // What follows fills the last sector.
    Some(WriteBatch { seq_no, writes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::sector::{SECTOR, content};
    use proptest::prelude::*;

    fn any_write() -> impl Strategy<Value = Write> {
        let bytes = |range| prop::collection::vec(any::<u8>(), range).prop_map(Key::from);
        prop_oneof![
            (bytes(1..40), bytes(0..1500)).prop_map(|(key, value)| Write::Put(key, value)),
            bytes(1..40).prop_map(Write::Delete),
        ]
    }

    proptest! {
        #[test]
        fn batches_are_read_back(seq_no in any::<u64>(), writes in prop::collection::vec(any_write(), 0..9)) {
            let mut group = GroupBuffer::default();
            group.clear();
            put(&mut group, seq_no, &writes);
            let sectors = group.finish(1, 1).chunks_exact(SECTOR);
            let bytes: Vec<u8> = sectors.flat_map(content).copied().collect();
            prop_assert_eq!(read(&bytes), Some(WriteBatch { seq_no, writes }));
        }

        #[test]
        fn foreign_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(&bytes);
        }
    }
}
