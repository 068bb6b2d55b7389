//! What the steps of a seed do to the services. Each leaves alone what is there already just so.

use super::read::{BlobBegin, SeedMessage, SeedReader, Step, StepKind};
use super::{SeedCounts, SeedError, SeedSource};
use crate::accounts::AccountDirectory;
use crate::config::Config;
use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tepui_model::blob::{
    self, BlobPath, ContainerEncryption, ContainerName, Detail, Encryption, HttpProperties, NewBlob, OfType,
    Preconditions, PutBlob, Revision, UploadOperation,
};
use tepui_model::grant::KeyBounds;
use tepui_model::metadata::Metadata;
use tepui_model::queue::{self, QueueName, SequencedOperation};
use tepui_model::table::{self, TableName};
use tepui_model::{ErrorCode, ServiceError};
use tepui_service::blob::{Caller, Upload, Uploaded};
use tepui_service::test_bench::TestBench;
use tepui_service::{BlobService, QueueService, TableService};
use tepui_storage::rewindable::RewindableEngine;
use tepui_storage::{Engine, Extents};
use tokio::sync::mpsc;

/// How many steps are read ahead.
const READ_AHEAD: usize = 8;
/// How often progress is logged.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
/// The longest blob of one Put Blob.
const MAX_BLOB_BYTES: u64 = 5000 << 20;

/// The services that are seeded.
pub(crate) struct Seeder<E: Engine, X: Extents> {
    pub(crate) tables: Arc<TableService<E>>,
    pub(crate) queues: Arc<QueueService<E>>,
    pub(crate) blobs: Arc<BlobService<E, X>>,
    pub(crate) accounts: Arc<AccountDirectory>,
    /// The account of what names none.
    pub(crate) default_account: String,
}

impl<E: Engine, X: Extents> Seeder<RewindableEngine<E>, X> {
    /// Of the services of a server.
    pub(crate) fn of(bench: &TestBench<E, X>, config: &Config, accounts: &Arc<AccountDirectory>) -> Self {
        Self {
            tables: Arc::clone(&bench.tables),
            queues: Arc::clone(&bench.queues),
            blobs: Arc::clone(&bench.blobs),
            accounts: Arc::clone(accounts),
            default_account: config.default_account(),
        }
    }
}

/// What the steps before have begun.
struct Progress<X: Extents> {
    counts: SeedCounts,
    table: Option<TableName>,
    /// The queue, and whether its messages are put.
    queue: Option<(QueueName, bool)>,
    container: Option<(Arc<str>, ContainerName)>,
    blob: Option<(PutBlob, Upload<X>)>,
}

impl<E: Engine, X: Extents> Seeder<E, X> {
    /// Reads a seed to its end and changes nothing.
    pub(crate) async fn check(&self, source: SeedSource, account: &str) -> Result<(), SeedError> {
        let (accounts, account) = (self.accounts.current(), account.to_owned());
        let read = tokio::task::spawn_blocking(move || {
            let is_served = |account: &str| accounts.serves(account);
            SeedReader { account: &account, is_served: &is_served, take: &mut |_| Ok(()) }.read(&source)
        });
        read.await.unwrap_or_else(|panic| Err(internal(&panic)))
    }

    /// Puts what a seed holds where it belongs. What is in no account's folder is of `account`.
    pub(crate) async fn apply(&self, source: SeedSource, account: &str) -> Result<SeedCounts, SeedError> {
        let (sender, mut steps) = mpsc::channel(READ_AHEAD);
        let (accounts, account) = (self.accounts.current(), account.to_owned());
        let reading = tokio::task::spawn_blocking(move || {
            let is_served = |account: &str| accounts.serves(account);
            // It is closed if a step has failed, which is told by itself.
            let stopped = |_| SeedError::new("", None, "stopped");
            let take = &mut |step| sender.blocking_send(step).map_err(stopped);
            SeedReader { account: &account, is_served: &is_served, take }.read(&source)
        });
        let (mut logged, mut progress) = (Instant::now(), Progress::default());
        while let Some(step) = steps.recv().await {
            let (file, line) = (Arc::clone(&step.file), step.line);
            self.apply_step(step, &mut progress).await.map_err(|error| {
                let is_internal = error.code == ErrorCode::InternalError;
                let message = if is_internal { error.to_string() } else { error.message().to_owned() };
                SeedError { file: file.to_string(), line, message, is_internal }
            })?;
            if logged.elapsed() >= PROGRESS_INTERVAL {
                logged = Instant::now();
                let SeedCounts { entities, messages, blobs, .. } = progress.counts;
                tracing::info!(entities, messages, blobs, file = &*file, "seeding");
            }
        }
        reading.await.unwrap_or_else(|panic| Err(internal(&panic)))?;
        let SeedCounts { entities_written, messages_written, blobs_written, .. } = progress.counts;
        tracing::info!(entities_written, messages_written, blobs_written, "seeded");
        Ok(progress.counts)
    }

    async fn apply_step(&self, step: Step, progress: &mut Progress<X>) -> Result<(), ServiceError> {
        let account = &step.account;
        match step.what {
            StepKind::Table(name) => {
                let create = table::Operation::CreateTable { name: name.clone() };
                let created = self.tables.execute(account, &create, &KeyBounds::default()).await;
                unless(ErrorCode::TableAlreadyExists, created)?;
                progress.counts.tables += 1;
                progress.table = Some(name);
            }
            StepKind::Entities(entities) => {
                let table = progress.table.as_ref().ok_or(ErrorCode::InternalError)?;
                let written = self.tables.import(account, table.as_str(), &entities).await?;
                progress.counts.entities += entities.len() as u64;
                progress.counts.entities_written += written as u64;
            }
            StepKind::Queue(name) => {
                let is_empty = self.create_queue(account, &name).await?;
                progress.counts.queues += 1;
                progress.queue = Some((name, is_empty));
            }
            StepKind::Messages(messages) => {
                let (queue, was_empty) = progress.queue.as_ref().ok_or(ErrorCode::InternalError)?;
                progress.counts.messages += messages.len() as u64;
                if *was_empty {
                    progress.counts.messages_written += messages.len() as u64;
                    self.put_messages(account, queue, messages).await?;
                }
            }
            StepKind::Container(name) => {
                let place = (Arc::clone(account), name);
                if progress.container.as_ref() != Some(&place) {
                    self.create_container(account, &place.1).await?;
                    progress.counts.containers += 1;
                    progress.container = Some(place);
                }
            }
            StepKind::Blob(begin) => {
                let put = put_blob(begin);
                let upload = self.blobs.begin_upload(&UploadOperation::PutBlob(put.clone()));
                progress.blob = Some((put, upload));
            }
            StepKind::BlobPart(bytes) => self.write(progress, bytes).await?,
            StepKind::BlobEnd => {
                let (put, upload) = progress.blob.take().ok_or(ErrorCode::InternalError)?;
                progress.counts.blobs += 1;
                let is_written = self.put(account, put, upload.finish().await?).await?;
                progress.counts.blobs_written += u64::from(is_written);
            }
        }
        Ok(())
    }

    /// Returns whether the queue has no messages.
    async fn create_queue(&self, account: &str, queue: &QueueName) -> Result<bool, ServiceError> {
        let get = queue::Operation::GetMetadata { queue: queue.clone() };
        match self.queues.execute(account, &get.into()).await {
            Ok(queue::Reply::Metadata { messages, .. }) => return Ok(messages == 0),
            Ok(_) => return Err(ErrorCode::InternalError.into()),
            Err(error) if error.code == ErrorCode::QueueNotFound => {}
            Err(error) => return Err(error),
        }
        let create = queue::Operation::CreateQueue { queue: queue.clone(), metadata: Metadata::default() };
        self.queues.execute(account, &create.into()).await?;
        Ok(true)
    }

    async fn put_messages(
        &self,
        account: &str,
        queue: &QueueName,
        messages: Vec<SeedMessage>,
    ) -> Result<(), ServiceError> {
        let puts = messages.into_iter().map(|SeedMessage { text, visibility, lifetime }| {
            let put = SequencedOperation::PutMessage { queue: queue.clone(), text, visibility, lifetime };
            Box::pin(async move { self.queues.execute(account, &put.into()).await.map(drop) })
        });
        in_order(puts.collect()).await
    }

    async fn create_container(&self, account: &str, container: &ContainerName) -> Result<(), ServiceError> {
        let create = blob::Operation::CreateContainer {
            container: container.clone(),
            metadata: Metadata::default(),
            public_access: None,
            encryption: ContainerEncryption::default(),
        };
        let created = self.blobs.execute(Caller::owner(account), &create).await;
        unless(ErrorCode::ContainerAlreadyExists, created.map(drop))
    }

    async fn write(&self, progress: &mut Progress<X>, bytes: Bytes) -> Result<(), ServiceError> {
        let (_, upload) = progress.blob.as_mut().ok_or(ErrorCode::InternalError)?;
        upload.write(bytes).await
    }

    /// Returns whether the blob was put: not if it has the same bytes and content type.
    async fn put(&self, account: &str, put: PutBlob, uploaded: Uploaded) -> Result<bool, ServiceError> {
        let get = blob::Operation::GetBlobProperties {
            blob: put.blob.clone(),
            revision: Revision::Base,
            detail: Detail::Properties,
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        };
        let caller = Caller::owner(account);
        let stored = self.blobs.execute(caller, &get).await;
        if let Ok(blob::Reply::Blob(stored)) = stored.map(|answer| answer.reply) {
            let stored = stored.state;
            let is_same = stored.of_type == OfType::Block
                && stored.bytes == uploaded.bytes()
                && stored.http.content_md5.as_ref().and_then(blob::ContentMd5::sum) == uploaded.md5()
                && stored.http.content_type == put.new.http.content_type;
            if is_same && uploaded.md5().is_some() {
                self.blobs.discard(uploaded).await;
                return Ok(false);
            }
        }
        self.blobs.execute_upload(caller, &UploadOperation::PutBlob(put), uploaded).await.map(|_| true)
    }
}

impl<X: Extents> Default for Progress<X> {
    fn default() -> Self {
        Self { counts: SeedCounts::default(), table: None, queue: None, container: None, blob: None }
    }
}

fn put_blob(BlobBegin { container, name, content_type }: BlobBegin) -> PutBlob {
    let upload = blob::operation::Upload {
        bytes: None,
        max_bytes: MAX_BLOB_BYTES,
        checksums: blob::Checksums::default(),
    };
    let http = HttpProperties { content_type: content_type.map(str::to_owned), ..HttpProperties::default() };
    PutBlob {
        blob: BlobPath { container, blob: name },
        new: NewBlob { http, ..NewBlob::default() },
        upload,
        preconditions: Preconditions::default(),
    }
}

/// Success, if it failed only because it was done before.
fn unless<T>(done: ErrorCode, outcome: Result<T, ServiceError>) -> Result<(), ServiceError> {
    match outcome {
        Err(error) if error.code != done => Err(error),
        _ => Ok(()),
    }
}

fn internal(error: &dyn std::fmt::Display) -> SeedError {
    SeedError { is_internal: true, ..SeedError::new("", None, error.to_string()) }
}

/// Runs changes of one queue at once, so that they share syncs of the disk. They take their turns in this order, because
/// each is begun before the next.
async fn in_order<F: Future<Output = Result<(), ServiceError>>>(
    mut puts: Vec<Pin<Box<F>>>,
) -> Result<(), ServiceError> {
    std::future::poll_fn(|context| {
        let mut failed = None;
        puts.retain_mut(|put| match put.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(outcome) => {
                failed = failed.take().or(outcome.err());
                false
            }
        });
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if puts.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}
