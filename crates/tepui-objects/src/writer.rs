//! An extent that is being written: one object, put at once if it is short, or else in parts.
//!
//! What was begun is ended in a task of its own, whatever becomes of the caller: a put that was under way when the caller lost
//! interest is deleted when it is done.

use crate::error::CallError;
use crate::names::Names;
use crate::objects::Objects;
use crate::pieces::{PieceWriter, Place};
use crate::volumes::WriterPin;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, PutPayload};
use std::sync::Arc;
use tepui_storage::{Extent, ExtentWriter, StorageError, StoreId};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The most parts that S3 takes.
const MAX_PARTS: usize = 10_000;

/// What writers share.
pub(crate) struct WriterContext {
    pub(crate) objects: Objects,
    pub(crate) names: Names,
    pub(crate) store: StoreId,
    pub(crate) part_bytes: usize,
}

/// An extent that is being written to an [`ObjectExtents`](crate::ObjectExtents).
pub struct ObjectWriter {
    context: Arc<WriterContext>,
    bytes: u64,
    pieces: Option<PieceWriter>,
    /// `None` after the extent was finished.
    upload: Option<Upload>,
    /// Whether a write has failed, or its future was dropped.
    is_broken: bool,
}

/// What there is of the object.
struct Upload {
    context: Arc<WriterContext>,
    name: Path,
    extent: Extent,
    pin: WriterPin,
    parts: Option<Parts>,
    runtime: Handle,
}

struct Parts {
    upload: Box<dyn MultipartUpload>,
    count: usize,
    /// The part that is sent while the next one is filled.
    sending: Option<JoinHandle<Result<(), CallError>>>,
}

impl ObjectWriter {
    pub(crate) fn new(context: Arc<WriterContext>, pin: WriterPin, runtime: Handle) -> Self {
        let extent = Extent { store: context.store, volume: pin.volume(), offset: pin.offset(), bytes: 0 };
        let name = context.names.extent(extent);
        let upload = Upload { context: Arc::clone(&context), name, extent, pin, parts: None, runtime };
        let pieces = Some(PieceWriter::new(Place::of(extent)));
        Self { context, bytes: 0, pieces, upload: Some(upload), is_broken: false }
    }

    async fn push(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        let (Some(pieces), Some(upload)) = (&mut self.pieces, &mut self.upload) else { return Err(broken()) };
        self.bytes += bytes.len() as u64;
        pieces.push(bytes);
        while pieces.waiting_bytes() >= self.context.part_bytes {
            let part = pieces.take(self.context.part_bytes);
            upload.send_part(part).await?;
        }
        Ok(())
    }
}

impl ExtentWriter for ObjectWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(broken());
        }
        self.push(bytes).await?;
        self.is_broken = false;
        Ok(())
    }

    async fn finish(mut self) -> Result<Extent, StorageError> {
        let (false, Some(pieces), Some(mut upload)) =
            (self.is_broken, self.pieces.take(), self.upload.take())
        else {
            return Err(broken());
        };
        upload.extent.bytes = self.bytes;
        let (tell, told) = oneshot::channel();
        let runtime = upload.runtime.clone();
        runtime.spawn(async move {
            // If nobody listens any more, what was finished is deleted.
            let _ = tell.send(upload.finish(pieces.finish()).await);
        });
        let finished = told.await.map_err(|_| StorageError::unavailable("the program is ending"))??;
        Ok(finished.claim())
    }
}

fn broken() -> StorageError {
    StorageError::failed("an earlier write of this extent failed")
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take()
            && upload.parts.is_some()
        {
            let runtime = upload.runtime.clone();
            runtime.spawn(upload.abort());
        }
    }
}

impl Upload {
    /// Sends a part when the one before is stored.
    async fn send_part(&mut self, part: Vec<Bytes>) -> Result<(), StorageError> {
        let Self { context, name, parts, runtime, .. } = self;
        if parts.is_none() {
            let upload = context.objects.begin_parts(name).await?;
            *parts = Some(Parts { upload, count: 0, sending: None });
        }
        let Some(parts) = parts else { return Err(broken()) };
        parts.wait().await?;
        parts.count += 1;
        if parts.count > MAX_PARTS {
            let most = (context.part_bytes as u64).saturating_mul(MAX_PARTS as u64);
            return Err(StorageError::failed(format!("too long for one object: at most {most} bytes")));
        }
        let part = parts.upload.put_part(PutPayload::from_iter(part));
        let (context, name) = (Arc::clone(context), name.clone());
        parts.sending = Some(runtime.spawn(async move { context.objects.put_part(&name, part).await }));
        Ok(())
    }

    /// Stores the rest and completes the object.
    async fn finish(mut self, rest: Vec<Bytes>) -> Result<Finished, StorageError> {
        let stored = self.store(rest).await;
        // After that others may sweep what is not referenced.
        let is_held = self.pin.is_held();
        let Self { context, name, extent, pin, parts: _, runtime } = self;
        let finished = Finished { extent, unclaimed: Some(Unclaimed { context, name, pin, runtime }) };
        match stored {
            Ok(()) if is_held => Ok(finished),
            // Dropped here, so that it is deleted.
            Ok(()) => {
                Err(StorageError::unavailable("the lease on the volume was lost while an extent was written"))
            }
            // Whatever the last answer says, it says nothing of the attempts before it, which nobody counts: one that was carried
            // out and not answered makes the next one fail, as there is no such upload any more. And what was sent may come to be
            // after it was deleted. So it is deleted now, and looked for once more by the sweep.
            Err(error) => {
                finished.taint();
                Err(error.error)
            }
        }
    }

    async fn store(&mut self, rest: Vec<Bytes>) -> Result<(), CallError> {
        let Self { context, name, parts, .. } = self;
        let Some(parts) = parts else { return context.objects.put(name, rest).await };
        let completed = async {
            parts.wait().await?;
            let last = parts.upload.put_part(PutPayload::from_iter(rest));
            context.objects.put_part(name, last).await?;
            context.objects.complete(name, &mut parts.upload).await
        };
        let completed = completed.await;
        if completed.is_err() {
            // If it was completed nevertheless, this fails, and the object is deleted.
            let _ = context.objects.abort(name, &mut parts.upload).await;
        }
        completed
    }

    async fn abort(mut self) {
        let Self { context, name, parts, .. } = &mut self;
        let Some(parts) = parts else { return };
        if let Some(sending) = parts.sending.take() {
            sending.abort();
            let _ = sending.await;
        }
        if let Err(error) = context.objects.abort(name, &mut parts.upload).await {
            // The store drops the parts one day, if it was told to: docs/cluster.md.
            tracing::warn!(error = %error.error, "cannot abort an upload");
        }
    }
}

impl Parts {
    async fn wait(&mut self) -> Result<(), CallError> {
        match self.sending.take() {
            Some(sending) => match sending.await {
                Ok(sent) => sent,
                Err(error) => Err(CallError::unavailable(format!("a part was not sent: {error}"))),
            },
            None => Ok(()),
        }
    }
}

/// A finished extent that the caller was not told of yet. If it never is, it is deleted.
struct Finished {
    extent: Extent,
    unclaimed: Option<Unclaimed>,
}

struct Unclaimed {
    context: Arc<WriterContext>,
    name: Path,
    pin: WriterPin,
    runtime: Handle,
}

impl Finished {
    fn claim(mut self) -> Extent {
        if let Some(unclaimed) = self.unclaimed.take() {
            unclaimed.pin.keep();
        }
        self.extent
    }

    fn taint(&self) {
        if let Some(unclaimed) = &self.unclaimed {
            unclaimed.pin.taint();
        }
    }
}

impl Drop for Finished {
    fn drop(&mut self) {
        let Some(Unclaimed { context, name, pin, runtime }) = self.unclaimed.take() else { return };
        runtime.spawn(async move {
            if let Err(error) = context.objects.delete(vec![name]).await {
                tracing::warn!(error = %error.error, "cannot delete an object that nobody was told of");
                pin.taint();
            }
        });
    }
}
