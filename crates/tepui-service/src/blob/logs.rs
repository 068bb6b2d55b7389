//! The container of analytics logs, `$logs`: what clients may do with it, and how the server writes it.
//!
//! Every account has the container without creating it. Its row comes to be with the first log.

use super::service::{BlobService, Caller};
use bytes::Bytes;
use tepui_model::blob::name::LOGS;
use tepui_model::blob::{
    BlobInclude, BlobMarker, BlobName, BlobPath, BlobSink, Checksums, Conditions, ContainerEncryption,
    ContainerName, ContentMd5, DeleteBlob, Detail, Encryption, EtagMatch, HttpProperties, ListBlobs,
    ListedBlob, NewBlob, Operation, Preconditions, PutBlob, Reply, Revision, TierConditions, Upload,
    UploadOperation,
};
use tepui_model::metadata::Metadata;
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Engine, Extents};

/// A log that is to be written.
#[derive(Debug, Clone)]
pub struct NewLog {
    pub name: BlobName,
    pub metadata: Metadata,
    pub text: Bytes,
}

/// Whether a client may do this in the container of logs: read it, and delete blobs.
pub(super) fn check(operation: &Operation) -> Result<(), ErrorCode> {
    if !operation.container().is_some_and(ContainerName::is_logs) {
        return Ok(());
    }
    match operation {
        Operation::CreateContainer { .. } => Err(ErrorCode::ContainerAlreadyExists),
        Operation::GetContainer { .. }
        | Operation::GetContainerAcl { .. }
        | Operation::FindBlobsByTags(_)
        | Operation::GetBlob(_)
        | Operation::GetBlobProperties { .. }
        | Operation::GetBlobTags { .. }
        | Operation::GetBlockList { .. }
        | Operation::GetPageRanges(_)
        | Operation::DeleteBlob(_) => Ok(()),
        _ => Err(ErrorCode::AuthorizationFailure),
    }
}

/// Whether a client may upload to this blob: not in the container of logs.
pub(super) fn check_upload(blob: &BlobPath) -> Result<(), ErrorCode> {
    if blob.container.is_logs() { Err(ErrorCode::AuthorizationFailure) } else { Ok(()) }
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    /// Writes a log. One of that name must not exist, unless it is the same: it may be there already after an attempt whose
    /// outcome was unknown.
    pub async fn put_log(&self, account: &str, log: &NewLog) -> Result<(), ServiceError> {
        let caller = Caller::server(account);
        let operation = UploadOperation::PutBlob(put(log)?);
        let outcome = match self.send_log(caller, &operation, log).await {
            Err((error, _)) if error.code == ErrorCode::ContainerNotFound => {
                self.create_logs(caller).await?;
                self.send_log(caller, &operation, log).await
            }
            outcome => outcome,
        };
        match outcome {
            Err((error, Some(md5)))
                if error.code == ErrorCode::BlobAlreadyExists && self.is_there(caller, log, &md5).await? =>
            {
                Ok(())
            }
            outcome => outcome.map_err(|(error, _)| error),
        }
    }

    /// The error comes with the checksum of the log, if it is known.
    async fn send_log(
        &self,
        caller: Caller<'_>,
        operation: &UploadOperation,
        log: &NewLog,
    ) -> Result<(), (ServiceError, Option<ContentMd5>)> {
        let failed = |error| (error, None);
        let mut upload = self.begin_upload(operation);
        upload.write(log.text.clone()).await.map_err(failed)?;
        let uploaded = upload.finish().await.map_err(failed)?;
        let md5 = uploaded.checksums.md5.map(ContentMd5::from);
        self.execute_upload(caller, operation, uploaded).await.map(drop).map_err(|error| (error, md5))
    }

    async fn create_logs(&self, caller: Caller<'_>) -> Result<(), ServiceError> {
        let create = Operation::CreateContainer {
            container: container()?,
            metadata: Metadata::default(),
            public_access: None,
            encryption: ContainerEncryption::default(),
        };
        match self.execute(caller, &create).await {
            Err(error) if error.code != ErrorCode::ContainerAlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    async fn is_there(
        &self,
        caller: Caller<'_>,
        log: &NewLog,
        md5: &ContentMd5,
    ) -> Result<bool, ServiceError> {
        let get = Operation::GetBlobProperties {
            blob: path(&log.name)?,
            revision: Revision::Base,
            detail: Detail::Properties,
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        };
        match self.execute(caller, &get).await?.reply {
            Reply::Blob(found) => Ok(found.state.http.content_md5.as_ref() == Some(md5)),
            _ => Ok(false),
        }
    }

    /// Names of logs that begin with `prefix`, in order, `page_size` at most, and where the next page begins.
    pub async fn log_names(
        &self,
        account: &str,
        prefix: &str,
        from: Option<BlobMarker>,
        page_size: usize,
    ) -> Result<(Vec<String>, Option<BlobMarker>), ServiceError> {
        let query = ListBlobs {
            container: container()?,
            prefix: prefix.to_owned(),
            delimiter: None,
            from,
            page_size,
            include: BlobInclude::default(),
        };
        let mut names = Names(Vec::new());
        let page = self.list_blobs(Caller::owner(account), &query, &mut names).await?;
        Ok((names.0, page.next))
    }

    /// Deletes a log, for good even where deleted blobs can be restored. One that is gone already is no error.
    pub async fn delete_log(&self, account: &str, name: &str) -> Result<(), ServiceError> {
        let delete = Operation::DeleteBlob(DeleteBlob {
            blob: path(&BlobName::parse(name)?)?,
            revision: Revision::Base,
            snapshots: None,
            tier_conditions: TierConditions::default(),
            permanently: false,
            preconditions: Preconditions::default(),
        });
        match self.execute(Caller::server(account), &delete).await {
            Err(error) if error.status() != 404 => Err(error),
            _ => Ok(()),
        }
    }
}

struct Names(Vec<String>);

impl BlobSink for Names {
    fn accept(&mut self, listed: &ListedBlob<'_>) {
        if let ListedBlob::Blob(entry) = listed {
            self.0.push(entry.name.to_owned());
        }
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(String::len).sum()
    }
}

fn container() -> Result<ContainerName, ServiceError> {
    ContainerName::parse(LOGS)
}

fn path(name: &BlobName) -> Result<BlobPath, ServiceError> {
    Ok(BlobPath { container: container()?, blob: name.clone() })
}

fn put(log: &NewLog) -> Result<PutBlob, ServiceError> {
    let bytes = log.text.len() as u64;
    let http = HttpProperties {
        content_type: Some("application/octet-stream".to_owned()),
        ..HttpProperties::default()
    };
    let conditions = Conditions { if_none_match: Some(EtagMatch::Any), ..Conditions::default() };
    Ok(PutBlob {
        blob: path(&log.name)?,
        new: NewBlob { http, metadata: log.metadata.clone(), ..NewBlob::default() },
        upload: Upload { bytes: Some(bytes), max_bytes: bytes, checksums: Checksums::default() },
        preconditions: Preconditions { conditions, ..Preconditions::default() },
    })
}
