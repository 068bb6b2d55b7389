//! What the services count of themselves, beside what requests show.

use tepui_model::queue::Reply;
use tepui_storage::stats::{Counter, Gauge};

/// Events of messages, counted when they are durable.
#[derive(Debug, Default)]
pub struct QueueStats {
    pub put: Counter,
    pub got: Counter,
    /// Messages that were got before: part of `got`.
    pub redelivered: Counter,
    pub updated: Counter,
    pub deleted: Counter,
    /// Messages that were removed because their time was over.
    pub expired: Counter,
}

impl QueueStats {
    pub(crate) fn count(&self, reply: &Reply) {
        match reply {
            Reply::Put(_) => self.put.add(1),
            Reply::Messages(messages) => {
                self.got.add(messages.len() as u64);
                let again = messages.iter().filter(|message| message.dequeue_count > 1).count();
                self.redelivered.add(again as u64);
            }
            Reply::Updated(_) => self.updated.add(1),
            Reply::MessageDeleted => self.deleted.add(1),
            _ => {}
        }
    }
}

/// What happens to the bytes of blobs in the background.
#[derive(Debug, Default)]
pub struct BlobStats {
    /// Of extents that are to be freed, and wait for readers or their turn. Of those that a round of the garbage collection
    /// has read so far, not of all that are there.
    pub free_backlog_bytes: Gauge,
    /// Reads that met bytes that are not what was written.
    pub corrupt_reads: Counter,
}
