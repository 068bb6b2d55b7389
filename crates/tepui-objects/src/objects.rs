//! Calls of the store of objects, each with a deadline.

use crate::error::CallError;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload,
};
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Objects that are deleted with one deadline: a request of S3 deletes 1,000.
const DELETED_AT_ONCE: usize = 4000;

/// How many deadlines an upload in parts has to be completed.
const COMPLETE_PATIENCE: u32 = 4;

/// A store of objects.
#[derive(Clone)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    timeout: Duration,
}

impl Objects {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, timeout: Duration) -> Self {
        Self { store, timeout }
    }

    async fn call<T>(
        &self,
        what: &str,
        name: &Path,
        call: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, CallError> {
        match timeout(self.timeout, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(CallError::new(&format!("{what}: {name}"), error)),
            Err(_) => Err(CallError::late(&format!("{what}: {name}"))),
        }
    }

    /// Writes an object, whether there is one or not.
    pub(crate) async fn put(&self, name: &Path, content: Vec<Bytes>) -> Result<(), CallError> {
        let content = PutPayload::from_iter(content);
        self.call("cannot put", name, self.store.put(name, content)).await.map(drop)
    }

    /// Writes an object, if there is none.
    pub(crate) async fn create(&self, name: &Path, content: Bytes) -> Result<(), CallError> {
        let put = self.store.put_opts(name, content.into(), PutMode::Create.into());
        self.call("cannot create", name, put).await.map(drop)
    }

    /// A whole object, which is short. `None`: there is none.
    pub(crate) async fn get(&self, name: &Path) -> Result<Option<Bytes>, CallError> {
        let get = async { self.store.get(name).await?.bytes().await };
        match self.call("cannot get", name, get).await {
            Err(error) if error.is_not_found => Ok(None),
            got => got.map(Some),
        }
    }

    /// A range of an object, and the size of the object.
    pub(crate) async fn get_range(&self, name: &Path, range: Range<u64>) -> Result<(Bytes, u64), CallError> {
        let get = async {
            let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
            let got = self.store.get_opts(name, options).await?;
            let size = got.meta.size;
            Ok((got.bytes().await?, size))
        };
        self.call("cannot get", name, get).await
    }

    /// The size of an object. `None`: there is none.
    pub(crate) async fn size(&self, name: &Path) -> Result<Option<u64>, CallError> {
        match self.call("cannot look at", name, self.store.head(name)).await {
            Err(error) if error.is_not_found => Ok(None),
            found => found.map(|object| Some(object.size)),
        }
    }

    pub(crate) async fn begin_parts(&self, name: &Path) -> Result<Box<dyn MultipartUpload>, CallError> {
        self.call("cannot begin to put", name, self.store.put_multipart(name)).await
    }

    pub(crate) async fn put_part(
        &self,
        name: &Path,
        part: impl Future<Output = object_store::Result<()>>,
    ) -> Result<(), CallError> {
        self.call("cannot put a part", name, part).await
    }

    pub(crate) async fn complete(
        &self,
        name: &Path,
        upload: &mut Box<dyn MultipartUpload>,
    ) -> Result<(), CallError> {
        // A store may take its time to put thousands of parts together.
        let patient = Self { timeout: self.timeout * COMPLETE_PATIENCE, ..self.clone() };
        patient.call("cannot complete", name, upload.complete()).await.map(drop)
    }

    pub(crate) async fn abort(
        &self,
        name: &Path,
        upload: &mut Box<dyn MultipartUpload>,
    ) -> Result<(), CallError> {
        self.call("cannot abort", name, upload.abort()).await
    }

    /// Deletes objects, some of which may be gone. After an error any of them may be.
    pub(crate) async fn delete(&self, mut names: Vec<Path>) -> Result<(), CallError> {
        while !names.is_empty() {
            let some = names.split_off(names.len().saturating_sub(DELETED_AT_ONCE));
            let Some(first) = some.first().cloned() else { return Ok(()) };
            let delete = async {
                let mut deleted = self.store.delete_stream(stream::iter(some.into_iter().map(Ok)).boxed());
                let mut failure = None;
                while let Some(outcome) = deleted.next().await {
                    match outcome {
                        Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                        Err(error) => failure = Some(error),
                    }
                }
                failure.map_or(Ok(()), Err)
            };
            self.call("cannot delete", &first, delete).await?;
        }
        Ok(())
    }

    /// The objects below a prefix, at most so many.
    pub(crate) async fn list(&self, prefix: &Path, limit: usize) -> Result<Vec<ObjectMeta>, CallError> {
        let mut found = Vec::new();
        let mut objects = self.store.list(Some(prefix));
        // The deadline is for every page, not for all of them.
        while found.len() < limit {
            let next = async { objects.next().await.transpose() };
            match self.call("cannot list", prefix, next).await? {
                Some(object) => found.push(object),
                None => break,
            }
        }
        Ok(found)
    }
}
