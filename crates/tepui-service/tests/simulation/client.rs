//! What clients do, and what they hear of it.

use crate::model::{Content, Object, Outcome};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tepui_local::{DiskEngine, DiskExtents};
use tepui_model::blob::{
    BlobName, BlobPath, BlockId, BlockSearch, Checksums, ChosenBlock, ContainerEncryption, ContainerName,
    DeleteBlob, DeleteSnapshots, Encryption, GetBlob, NewBlob, Piece, Preconditions, PutBlob, PutBlock,
    PutBlockList, Revision, TierConditions, operation,
};
use tepui_model::condition::Condition;
use tepui_model::grant::KeyBounds;
use tepui_model::metadata::Metadata;
use tepui_model::table::{
    Action, Change, ChangeSet, EntityKey, PropertiesBuilder, TableName, TextRef, ValueRef,
};
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_model::{blob, queue, table};
use tepui_service::blob::Caller;
use tepui_service::{BlobService, QueueService, TableService};

pub(crate) const ACCOUNT: &str = "account";
const TABLE: &str = "People";

/// The services of one life of a server.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) tables: Arc<TableService<DiskEngine>>,
    pub(crate) queues: Arc<QueueService<DiskEngine>>,
    pub(crate) blobs: Arc<BlobService<DiskEngine, DiskExtents>>,
}

/// What a client did.
#[derive(Debug, Clone)]
pub(crate) enum Done {
    Changed { objects: Vec<Object>, content: Content, outcome: Outcome },
    Put { message: u32, outcome: Outcome },
    Consumed { message: u32, outcome: Outcome },
    Snapshot { blob: u8, content: u32, taken: Option<Timestamp> },
    Background(Result<(), ErrorCode>),
}

/// The code of an error. Why it happened is printed when a seed is repeated.
pub(crate) fn code(error: ServiceError) -> ErrorCode {
    if std::env::var_os("TEPUI_SIM_SEED").is_some() {
        eprintln!("{:?}: {:?}", error.code, error.cause);
    }
    error.code
}

/// What an error implies about the stored state.
fn outcome<T>(result: &Result<T, ServiceError>) -> Outcome {
    if let (Err(error), true) = (result, std::env::var_os("TEPUI_SIM_SEED").is_some()) {
        eprintln!("{:?}: {:?}", error.code, error.cause);
    }
    match result {
        Ok(_) => Outcome::Done,
        Err(error) if error.code.status() >= 500 => Outcome::Unknown,
        Err(_) => Outcome::Nothing,
    }
}

pub(crate) fn entity_key(entity: u8) -> EntityKey {
    EntityKey::new(format!("p{}", entity % 3), format!("{:02}", entity / 3))
}

fn action(content: Content) -> Action {
    match content {
        None => Action::Delete(Condition::Any),
        Some(number) => {
            let mut properties = PropertiesBuilder::default();
            properties.push("Number", ValueRef::Int32(number as i32)).unwrap();
            properties
                .push("Text", ValueRef::String(TextRef::new(&"x".repeat(number as usize * 37 % 900))))
                .unwrap();
            Action::InsertOrReplace(properties.finish())
        }
    }
}

fn container() -> ContainerName {
    ContainerName::parse("pictures").unwrap()
}

fn path(name: u8) -> BlobPath {
    BlobPath { container: container(), blob: BlobName::parse(&format!("blob {name}")).unwrap() }
}

/// What a blob with this number holds: in a row, or in an extent, and different wherever one looks.
pub(crate) fn bytes(number: u32) -> Vec<u8> {
    let length = [10, 400, 9_000, 20_000, 31_000][number as usize % 5] + number as usize % 97;
    let beginning = number.to_le_bytes();
    (0..length)
        .map(|at| if at < 4 { beginning[at] } else { (at % 251) as u8 ^ (number % 256) as u8 })
        .collect()
}

fn queue_name() -> queue::QueueName {
    queue::QueueName::parse("jobs").unwrap()
}

impl Services {
    /// Makes what all clients use.
    pub(crate) async fn create(self) -> Result<(), ErrorCode> {
        let table = table::Operation::CreateTable { name: TableName::parse(TABLE).unwrap() };
        let queue = queue::Operation::CreateQueue { queue: queue_name(), metadata: Metadata::default() };
        let container = blob::Operation::CreateContainer {
            container: container(),
            metadata: Metadata::default(),
            public_access: None,
            encryption: ContainerEncryption::default(),
        };
        let is_there = |error: ServiceError| match error.code {
            ErrorCode::TableAlreadyExists | ErrorCode::ContainerAlreadyExists => Ok(()),
            code => Err(code),
        };
        self.tables.execute(ACCOUNT, &table, &KeyBounds::default()).await.map(drop).or_else(is_there)?;
        self.queues.execute(ACCOUNT, &queue.into()).await.map(drop).or_else(is_there)?;
        self.blobs.execute(Caller::owner(ACCOUNT), &container).await.map(drop).or_else(is_there)
    }

    pub(crate) async fn change_entity(self, entity: u8, content: Content) -> Done {
        let change = Change { key: entity_key(entity), action: action(content) };
        let result = self.tables.change_entity(ACCOUNT, TABLE, &change, &KeyBounds::default()).await;
        Done::Changed { objects: vec![Object::Entity(entity)], content, outcome: outcome(&result) }
    }

    pub(crate) async fn change_entities(self, entities: Vec<u8>, number: u32) -> Done {
        let change = |entity: &u8| Change { key: entity_key(*entity), action: action(Some(number)) };
        let set = entities.iter().map(|entity| (TABLE.to_owned(), change(entity))).collect();
        let set = ChangeSet::new(set).unwrap();
        let result = self.tables.transact(ACCOUNT, &set, &KeyBounds::default()).await;
        let objects = entities.into_iter().map(Object::Entity).collect();
        Done::Changed { objects, content: Some(number), outcome: outcome(&result) }
    }

    pub(crate) async fn read_entity(self, entity: u8) -> Result<Content, ErrorCode> {
        let operation = table::Operation::GetEntity { table: TABLE.to_owned(), key: entity_key(entity) };
        match self.tables.execute(ACCOUNT, &operation, &KeyBounds::default()).await {
            Ok(table::Reply::Entity(entity)) => match entity.properties.get("Number") {
                Some(ValueRef::Int32(number)) => Ok(Some(number as u32)),
                _ => Ok(Some(u32::MAX)),
            },
            Ok(_) => Ok(Some(u32::MAX)),
            Err(error) if error.code == ErrorCode::ResourceNotFound => Ok(None),
            Err(error) => Err(code(error)),
        }
    }

    pub(crate) async fn put_message(self, message: u32) -> Done {
        let operation = queue::SequencedOperation::PutMessage {
            queue: queue_name(),
            text: Bytes::from(format!("{message} {}", "x".repeat(message as usize % 300))),
            visibility: Duration::ZERO,
            lifetime: None,
        };
        let result = self.queues.execute(ACCOUNT, &operation.into()).await;
        Done::Put { message, outcome: outcome(&result) }
    }

    /// Takes messages for so long.
    pub(crate) async fn take(
        self,
        count: usize,
        visibility: Duration,
    ) -> Result<Vec<(u32, queue::Claimed)>, ErrorCode> {
        let operation = queue::SequencedOperation::GetMessages { queue: queue_name(), count, visibility };
        match self.queues.execute(ACCOUNT, &operation.into()).await {
            Ok(queue::Reply::Messages(messages)) => {
                let number = |text: &Bytes| String::from_utf8_lossy(text).split(' ').next()?.parse().ok();
                Ok(messages
                    .into_iter()
                    .map(|message| (number(&message.text).unwrap_or(u32::MAX), message))
                    .collect())
            }
            Ok(_) => Ok(vec![]),
            Err(error) => Err(code(error)),
        }
    }

    /// Dequeues a message and deletes it. Its id is reported before the delete.
    pub(crate) async fn consume(self, deleting: Arc<AtomicU32>) -> Done {
        let taken = self.clone().take(1, Duration::from_secs(30)).await.unwrap_or_default();
        let Some((message, claimed)) = taken.into_iter().next() else { return Done::Background(Ok(())) };
        deleting.store(message, Ordering::SeqCst);
        let operation = queue::SequencedOperation::DeleteMessage {
            queue: queue_name(),
            id: Some(claimed.stamp.id),
            receipt: Some(claimed.receipt),
        };
        let result = self.queues.execute(ACCOUNT, &operation.into()).await;
        Done::Consumed { message, outcome: outcome(&result) }
    }

    async fn upload(&self, operation: blob::UploadOperation, bytes: &[u8]) -> Result<(), ServiceError> {
        let caller = Caller::owner(ACCOUNT);
        self.blobs.check(caller, &operation).await?;
        let mut upload = self.blobs.begin_upload(&operation);
        for chunk in bytes.chunks(7_000) {
            upload.write(Bytes::copy_from_slice(chunk)).await?;
        }
        let uploaded = upload.finish().await?;
        self.blobs.execute_upload(caller, &operation, uploaded).await.map(drop)
    }

    pub(crate) async fn put_blob(self, name: u8, number: u32) -> Done {
        let operation = blob::UploadOperation::PutBlob(PutBlob {
            blob: path(name),
            new: NewBlob::default(),
            upload: sent(),
            preconditions: Preconditions::default(),
        });
        let result = self.upload(operation, &bytes(number)).await;
        Done::Changed { objects: vec![Object::Blob(name)], content: Some(number), outcome: outcome(&result) }
    }

    /// The same in two blocks.
    pub(crate) async fn put_blocks(self, name: u8, number: u32) -> Done {
        let content = bytes(number);
        let mut result = Ok(());
        let ids: Vec<BlockId> =
            ["1", "2"].iter().map(|id| BlockId::from_bytes(id.as_bytes().to_vec()).unwrap()).collect();
        for (id, part) in ids.iter().zip(content.chunks(content.len().div_ceil(2))) {
            if result.is_ok() {
                let operation = blob::UploadOperation::PutBlock(PutBlock {
                    blob: path(name),
                    id: id.clone(),
                    piece: Piece::Sent(sent()),
                    preconditions: Preconditions::default(),
                    encryption: Encryption::default(),
                });
                // A block alone changes nothing that can be read.
                result = self.upload(operation, part).await;
            }
        }
        if result.is_err() {
            let outcome = Outcome::Nothing;
            return Done::Changed { objects: vec![Object::Blob(name)], content: Some(number), outcome };
        }
        let blocks = ids.into_iter().map(|id| ChosenBlock { id, search: BlockSearch::Latest });
        let operation = blob::Operation::PutBlockList(PutBlockList {
            blob: path(name),
            blocks: blocks.collect(),
            list_checksums: Checksums::default(),
            new: NewBlob::default(),
            preconditions: Preconditions::default(),
        });
        let result = self.blobs.execute(Caller::owner(ACCOUNT), &operation).await;
        let outcome = outcome(&result.map(drop));
        Done::Changed { objects: vec![Object::Blob(name)], content: Some(number), outcome }
    }

    pub(crate) async fn delete_blob(self, name: u8) -> Done {
        let operation = blob::Operation::DeleteBlob(DeleteBlob {
            blob: path(name),
            revision: Revision::Base,
            snapshots: Some(DeleteSnapshots::Include),
            tier_conditions: TierConditions::default(),
            permanently: false,
            preconditions: Preconditions::default(),
        });
        let result = self.blobs.execute(Caller::owner(ACCOUNT), &operation).await;
        Done::Changed {
            objects: vec![Object::Blob(name)],
            content: None,
            outcome: outcome(&result.map(drop)),
        }
    }

    pub(crate) async fn snapshot_blob(self, name: u8) -> Done {
        let Ok(Some(content)) = self.clone().read_blob(name, Revision::Base).await else {
            return Done::Background(Ok(()));
        };
        let operation = blob::Operation::SnapshotBlob {
            blob: path(name),
            metadata: Metadata::default(),
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        };
        let taken = match self.blobs.execute(Caller::owner(ACCOUNT), &operation).await {
            Ok(answer) => match answer.reply {
                blob::Reply::Snapshot { snapshot, .. } => Some(snapshot),
                _ => None,
            },
            Err(_) => None,
        };
        Done::Snapshot { blob: name, content, taken }
    }

    /// The number of what a blob holds, all of which was read.
    pub(crate) async fn read_blob(self, name: u8, revision: Revision) -> Result<Content, ErrorCode> {
        let get = GetBlob {
            blob: path(name),
            revision,
            range: None,
            range_checksum: None,
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        };
        let answer = match self.blobs.execute(Caller::owner(ACCOUNT), &blob::Operation::GetBlob(get)).await {
            Ok(answer) => answer,
            Err(error) if error.code == ErrorCode::BlobNotFound => return Ok(None),
            Err(error) => return Err(error.code),
        };
        let mut read = Vec::new();
        let mut download = answer.content.ok_or(ErrorCode::InternalError)?;
        while let Some(pieces) = download.next().await.map_err(code)? {
            pieces.iter().for_each(|bytes| read.extend_from_slice(bytes));
        }
        let number = read.first_chunk().map_or(u32::MAX, |number| u32::from_le_bytes(*number));
        // Not what was written, whatever its first bytes are.
        Ok(Some(if number < 1 << 20 && read == bytes(number) { number } else { u32::MAX }))
    }
}

fn sent() -> operation::Upload {
    operation::Upload { bytes: None, max_bytes: 1 << 30, checksums: Checksums::default() }
}
