//! Containers and blobs, as far as patterns of tables need them: whole blobs, ranges of them, lists, and append blobs.

use crate::core::{self, CallOptions, Core, Failure};
use crate::{Account, ETag, Error, ErrorKind, Match, Timestamp};
use bytes::Bytes;
use http::Response;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::blob::list::MAX_PAGE_SIZE;
use tepui_model::blob::{
    AppendBlock, AppendConditions, BlobInclude, BlobName, BlobPath, ByteRange, Call, Checksums,
    ContainerEncryption, ContainerName, DeleteBlob, EmptyContent, Encryption, GetBlob, HttpProperties,
    ListBlobs, NewBlob, Operation, Piece, Preconditions, PutBlob, PutEmptyBlob, Revision, TierConditions,
    Upload, UploadOperation,
};
use tepui_model::metadata::Metadata;
use tepui_wire::address::Service;
use tepui_wire::blob::reply::read::{RemoteEntry, RemoteReply, read};
use tepui_wire::blob::request::write::{Options, write};

/// A container of blobs. Cheap to clone.
///
/// ```
/// use tepui_client::{ErrorKind, Match, WriteIf};
/// # tepui_client_testing::run(async |account| {
/// let pictures = account.container("pictures")?;
/// pictures.create_if_missing().await?;
/// let blob = pictures.blob("2026/cat.png")?;
/// blob.put(vec![1, 2, 3], "image/png", WriteIf::Absent).await?;
/// let cat = blob.get().await?;
/// assert_eq!((&cat.bytes[..], cat.content_type.as_deref()), (&[1, 2, 3][..], Some("image/png")));
/// blob.delete(Match::Any).await?;
/// assert_eq!(blob.get().await.unwrap_err().kind(), ErrorKind::NotFound);
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct Container {
    core: Arc<Core>,
    name: ContainerName,
    within: Option<Duration>,
}

/// A blob of a container.
///
/// ```
/// use tepui_client::WriteIf;
/// # tepui_client_testing::run(async |account| {
/// # let logs = account.container("logs")?;
/// # logs.create_if_missing().await?;
/// let log = logs.blob("service/2026/03/10/08/0.log")?;
/// log.create_append("text/plain", WriteIf::Absent).await?;
/// let first = log.append("started\n", Some(0)).await?;
/// log.append("stopped\n", None).await?;
/// let tail = log.get_range(first + 3..first + 100).await?;
/// assert_eq!((&tail.bytes[..], tail.total_bytes), (&b"rted\nstopped\n"[..], 16));
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct Blob {
    container: Container,
    path: BlobPath,
}

/// When a blob is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteIf {
    /// Whatever is there is overwritten.
    Always,
    /// Only if there is none: otherwise [`AlreadyExists`](ErrorKind::AlreadyExists).
    Absent,
    /// Only over this version: otherwise [`Conflict`](ErrorKind::Conflict).
    ETag(ETag),
}

impl WriteIf {
    fn options(&self) -> Options<'_> {
        match self {
            Self::Always => Options::default(),
            Self::Absent => Options { if_none_match: Some("*"), ..Options::default() },
            Self::ETag(etag) => Options { if_match: Some(etag.as_str()), ..Options::default() },
        }
    }
}

/// A blob that was read, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobContent {
    pub bytes: Bytes,
    /// Of the whole blob.
    pub total_bytes: u64,
    pub etag: ETag,
    pub last_modified: Timestamp,
    pub content_type: Option<String>,
}

/// A blob in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedBlob {
    pub name: String,
    pub total_bytes: u64,
    pub etag: ETag,
    pub last_modified: Timestamp,
}

/// A page of a list. It may be empty and still have a next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobPage {
    pub blobs: Vec<ListedBlob>,
    /// Where the next page begins, for [`Container::list_page`].
    pub next: Option<String>,
    /// What time it was by the service's clock: what the times of its blobs can be compared with.
    pub date: Option<Timestamp>,
}

impl Account {
    /// A container by its name. Whether it exists is not asked.
    pub fn container(&self, name: &str) -> Result<Container, Error> {
        let name = ContainerName::parse(name)
            .map_err(|error| Error::from(error).with_kind(ErrorKind::KeyInvalid))?;
        Ok(Container { core: Arc::clone(&self.0), name, within: None })
    }
}

impl Container {
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The same container, with so much time for each call. Large blobs may need more than the account gives.
    #[must_use]
    pub fn within(&self, time: Duration) -> Self {
        Self { within: Some(time), ..self.clone() }
    }

    pub fn blob(&self, name: &str) -> Result<Blob, Error> {
        let blob =
            BlobName::parse(name).map_err(|error| Error::from(error).with_kind(ErrorKind::KeyInvalid))?;
        Ok(Blob { container: self.clone(), path: BlobPath { container: self.name.clone(), blob } })
    }

    /// Creates the container unless it is there. Says whether it was not.
    pub async fn create_if_missing(&self) -> Result<bool, Error> {
        let operation = Operation::CreateContainer {
            container: self.name.clone(),
            metadata: Metadata::default(),
            public_access: None,
            encryption: ContainerEncryption::default(),
        };
        match self.call(operation, &Options::default()).await {
            Ok(_) => Ok(true),
            Err(Failure { error, .. }) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(failure) => Err(failure.of_write()),
        }
    }

    /// Deletes the container with all its blobs.
    pub async fn delete_container(&self) -> Result<(), Error> {
        let preconditions = Preconditions::default();
        let operation = Operation::DeleteContainer { container: self.name.clone(), preconditions };
        core::gone(self.call(operation, &Options::default()).await)
    }

    /// The blobs whose names begin like this, from where a page before ended.
    pub async fn list_page(&self, prefix: &str, from: Option<&str>) -> Result<BlobPage, Error> {
        let call = Call::List(ListBlobs {
            container: self.name.clone(),
            prefix: prefix.to_owned(),
            delimiter: None,
            from: None,
            page_size: MAX_PAGE_SIZE,
            include: BlobInclude::default(),
        });
        let options = Options { marker: from, ..Options::default() };
        let (reply, date) = self
            .call_with(call, &options, Bytes::new(), |response, reply| (reply, core::date(response)))
            .await?;
        let RemoteReply::Blobs { entries, next } = reply else { return Err(Error::unexpected()) };
        let listed = |entry| match entry {
            RemoteEntry::Blob { name, blob: Some(blob), .. } => Some(ListedBlob {
                name,
                total_bytes: blob.bytes,
                etag: ETag::new(quoted(&blob.changed.etag)),
                last_modified: blob.changed.last_modified,
            }),
            RemoteEntry::Blob { .. } | RemoteEntry::Prefix(_) => None,
        };
        Ok(BlobPage { blobs: entries.into_iter().filter_map(listed).collect(), next, date })
    }

    /// All blobs whose names begin like this: for lists that are known to be short.
    pub async fn list(&self, prefix: &str) -> Result<Vec<ListedBlob>, Error> {
        let (mut all, mut from) = (Vec::new(), None);
        loop {
            let page = self.list_page(prefix, from.as_deref()).await?;
            all.extend(page.blobs);
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(all),
            }
        }
    }

    async fn call(
        &self,
        call: impl Into<Call>,
        options: &Options<'_>,
    ) -> Result<(RemoteReply, Bytes), Failure> {
        self.send(call.into(), options, Bytes::new()).await
    }

    async fn upload(
        &self,
        operation: UploadOperation,
        options: &Options<'_>,
        bytes: Bytes,
    ) -> Result<RemoteReply, Error> {
        self.send(operation.into(), options, bytes).await.map(|(reply, _)| reply).map_err(Failure::of_write)
    }

    async fn send(
        &self,
        call: Call,
        options: &Options<'_>,
        body: Bytes,
    ) -> Result<(RemoteReply, Bytes), Failure> {
        self.call_with(call, options, body, |response, reply| (reply, response.body().clone())).await
    }

    /// The same for callers who want something else of the response beside its reply.
    async fn call_with<T>(
        &self,
        call: Call,
        options: &Options<'_>,
        body: Bytes,
        take: impl Fn(&Response<Bytes>, RemoteReply) -> T,
    ) -> Result<T, Failure> {
        let certain = |error: Error| Failure { error, is_doubtful: false };
        let endpoint = self.core.endpoint(Service::Blob).map_err(certain)?;
        let request = write(&endpoint.remote, &call, options).map_err(|error| certain(error.into()))?;
        let how = CallOptions { within: self.within, body, ..CallOptions::default() };
        let version = endpoint.remote.version();
        let read = |response: &Response<Bytes>| Ok(take(response, read(&call, version, response)?));
        self.core.call(endpoint, &request, &how, read).await
    }
}

impl Blob {
    pub fn name(&self) -> &str {
        self.path.blob.as_str()
    }

    /// Writes a blob whole.
    pub async fn put(
        &self,
        bytes: impl Into<Bytes>,
        content_type: &str,
        when: WriteIf,
    ) -> Result<ETag, Error> {
        let bytes = bytes.into();
        let put = PutBlob {
            blob: self.path.clone(),
            new: new_blob(content_type),
            upload: upload(&bytes),
            preconditions: Preconditions::default(),
        };
        put_reply(self.container.upload(UploadOperation::PutBlob(put), &when.options(), bytes).await?)
    }

    /// Creates an empty blob that can only be appended to.
    pub async fn create_append(&self, content_type: &str, when: WriteIf) -> Result<ETag, Error> {
        let put = Operation::PutEmptyBlob(PutEmptyBlob {
            blob: self.path.clone(),
            new: new_blob(content_type),
            content: EmptyContent::Append,
            preconditions: Preconditions::default(),
        });
        let (reply, _) = self.container.call(put, &when.options()).await.map_err(Failure::of_write)?;
        put_reply(reply)
    }

    /// Appends to an append blob, and says where. With `at` only if the blob is so long: then an append whose answer was
    /// lost is [`Unknown`](ErrorKind::Unknown) and not there twice.
    pub async fn append(&self, bytes: impl Into<Bytes>, at: Option<u64>) -> Result<u64, Error> {
        let bytes = bytes.into();
        let append = AppendBlock {
            blob: self.path.clone(),
            piece: Piece::Sent(upload(&bytes)),
            append: AppendConditions { position: at, max_bytes: None },
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        };
        let append = UploadOperation::AppendBlock(append);
        match self.container.upload(append, &Options::default(), bytes).await? {
            RemoteReply::Appended { offset, .. } => Ok(offset),
            _ => Err(Error::unexpected()),
        }
    }

    /// Reads the blob whole. What has more than 64 MiB has to be read in ranges.
    pub async fn get(&self) -> Result<BlobContent, Error> {
        self.read(None, &Options::default()).await
    }

    /// Reads the blob unless it is still this version; then `None`.
    pub async fn get_if_changed(&self, since: &ETag) -> Result<Option<BlobContent>, Error> {
        let options = Options { if_none_match: Some(since.as_str()), ..Options::default() };
        match self.read(None, &options).await {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == ErrorKind::NotModified => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a part of the blob, and less if it ends before.
    pub async fn get_range(&self, range: Range<u64>) -> Result<BlobContent, Error> {
        let Some(last) = range.end.checked_sub(1).filter(|last| *last >= range.start) else {
            return Err(Error::new(ErrorKind::Refused, "an empty range cannot be read"));
        };
        let range = ByteRange { first: range.start, last: Some(last) };
        self.read(Some(range), &Options::default()).await
    }

    async fn read(&self, range: Option<ByteRange>, options: &Options<'_>) -> Result<BlobContent, Error> {
        let get = GetBlob {
            blob: self.path.clone(),
            revision: Revision::Base,
            range,
            range_checksum: None,
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        };
        let (reply, bytes) = self.container.call(Operation::GetBlob(get), options).await?;
        let RemoteReply::Content(content) = reply else { return Err(Error::unexpected()) };
        let blob = content.blob;
        Ok(BlobContent {
            bytes,
            total_bytes: blob.bytes,
            etag: ETag::new(blob.changed.etag),
            last_modified: blob.changed.last_modified,
            content_type: blob.http.content_type,
        })
    }

    /// Deletes the blob. One that is not there is a [`NotFound`](ErrorKind::NotFound).
    pub async fn delete(&self, condition: impl Into<Match>) -> Result<(), Error> {
        let delete = DeleteBlob {
            blob: self.path.clone(),
            revision: Revision::Base,
            snapshots: None,
            tier_conditions: TierConditions::default(),
            permanently: false,
            preconditions: Preconditions::default(),
        };
        let delete = Operation::DeleteBlob(delete);
        match condition.into() {
            Match::Any => core::gone(self.container.call(delete, &Options::default()).await),
            Match::ETag(etag) => {
                let options = Options { if_match: Some(etag.as_str()), ..Options::default() };
                let outcome = self.container.call(delete, &options).await;
                outcome.map(drop).map_err(Failure::of_write)
            }
        }
    }
}

fn new_blob(content_type: &str) -> NewBlob {
    let http = HttpProperties { content_type: Some(content_type.to_owned()), ..HttpProperties::default() };
    NewBlob { http, ..NewBlob::default() }
}

fn put_reply(reply: RemoteReply) -> Result<ETag, Error> {
    match reply {
        RemoteReply::Put(written) => Ok(ETag::new(written.changed.etag)),
        _ => Err(Error::unexpected()),
    }
}

fn upload(bytes: &Bytes) -> Upload {
    Upload { bytes: Some(bytes.len() as u64), max_bytes: u64::MAX, checksums: Checksums::default() }
}

/// Lists have ETags without the quotes that headers have around them.
fn quoted(etag: &str) -> String {
    if etag.starts_with('"') || etag.starts_with("W/") { etag.to_owned() } else { format!("\"{etag}\"") }
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Container").field(&self.name.as_str()).finish()
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Blob").field(&self.path.to_string()).finish()
    }
}
