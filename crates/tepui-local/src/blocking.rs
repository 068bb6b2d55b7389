//! Work that may wait for the disk. One policy for all reads: first on the calling task, from the page cache only
//! ([`ReadMode::Cached`]); what is not there is read on a thread for blocking work.

use tepui_files::FileSystem;
use tokio::sync::oneshot;

/// Whether a read may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// Reads only what is in memory, and otherwise fails.
    Cached,
    Blocking,
}

/// Starts blocking work on a thread for it. The receiver fails if the program ends before it has run.
pub(crate) fn spawn<T: Send + 'static>(
    files: &dyn FileSystem,
    work: impl FnOnce() -> T + Send + 'static,
) -> oneshot::Receiver<T> {
    let (sender, receiver) = oneshot::channel();
    files.spawn_blocking(Box::new(move || {
        // If the receiver is gone, the result is dropped here.
        drop(sender.send(work()));
    }));
    receiver
}
