//! Bytes that are read from elsewhere: who may read them, and where they come from.

use super::Blobs;
use super::remote::Fetched;
use crate::net::body::ReplyBody;
use crate::pipeline::authenticate_within;
use crate::pipeline::exchange::Authorized;
use hyper::header::AUTHORIZATION;
use hyper::http::{HeaderMap, HeaderValue, Method, Response};
use std::pin::pin;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{
    BlobPath, ByteRange, CopySource, Operation, OperationKind, SourceBlob, SourcePlace, UploadOperation,
};
use tepui_model::grant::Grant;
use tepui_model::{ErrorCode, ServiceError};
use tepui_service::blob::{BytesOrHole, Caller, Download, Upload, Uploaded};
use tepui_storage::{Engine, Extents};
use tepui_wire::access::blob as access;
use tepui_wire::address::Service;
use tepui_wire::blob::source::as_request;
use tepui_wire::head::Head;

impl<E: Engine, X: Extents> Blobs<E, X> {
    /// Answers an operation that has a source, whose bytes are not read.
    pub(super) async fn answer_shared(
        &self,
        authorized: &Authorized<'_>,
        caller: Caller<'_>,
        operation: &Operation,
        source: &CopySource,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        let caller = self.with_source(authorized, caller, source, operation.copies_tags()).await?;
        self.carry_out(authorized, caller, operation).await
    }

    /// Answers an operation whose bytes are fetched from its source.
    pub(super) async fn answer_fetched(
        &self,
        authorized: &Authorized<'_>,
        caller: Caller<'_>,
        mut operation: UploadOperation,
        source: &CopySource,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        let caller = self.with_source(authorized, caller, source, operation.copies_tags()).await?;
        authorized.in_time(pin!(self.service.check(caller, &operation))).await?;
        let bytes = self.open(authorized, caller, operation.source_range(), source).await?;
        if let Source::Elsewhere(fetched) = &bytes {
            operation.set_source_head(fetched.head.clone());
        }
        let uploaded = fetch(authorized, self.service.begin_upload(&operation), bytes).await?;
        self.keep(authorized, caller, operation, uploaded).await
    }

    /// The caller with what it may read of the source. Fails if that is nothing.
    async fn with_source<'a>(
        &self,
        authorized: &Authorized<'_>,
        caller: Caller<'a>,
        source: &CopySource,
        copies_tags: bool,
    ) -> Result<Caller<'a>, ServiceError> {
        let with_tags = copies_tags || source.conditions.tags.is_some();
        let source_allowed = self.allowed_of_source(authorized, source, with_tags).await;
        Ok(Caller { source_allowed: source_allowed.map_err(|error| unverified(&error))?, ..caller })
    }

    /// How far the caller may read the source, with its tags if they are needed. It has credentials of its own in
    /// its URL or its own header, or those of the caller in the account that it shares with the destination, or is public.
    async fn allowed_of_source(
        &self,
        authorized: &Authorized<'_>,
        source: &CopySource,
        with_tags: bool,
    ) -> Result<Allowed, ServiceError> {
        let SourcePlace::Here(SourceBlob { account, blob, .. }) = &source.place else {
            return self.remote.check(&source.url).map(|()| Allowed::Fully);
        };
        let Some((target, query)) = as_request(&source.url, authorized.head.target, &self.front.addresses)
        else {
            return Err(ErrorCode::InvalidHeaderValue.into());
        };
        let brings_none = query.get("sig").is_none() && source.authorization.is_none();
        if brings_none
            && *account == *authorized.account()
            && let Grant::AccountKey | Grant::Token(_) = authorized.grant
            && let Ok(allowed) = check_source(&authorized.grant, blob, with_tags)
        {
            return Ok(allowed);
        }
        let mut headers = HeaderMap::new();
        if let Some(text) = &source.authorization {
            let mut value = HeaderValue::from_str(text).map_err(|_| ErrorCode::InvalidAuthenticationInfo)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let head = Head {
            service: Service::Blob,
            method: &Method::GET,
            target: &target,
            path: &target.path,
            query: &query,
            headers: &headers,
            case: None,
            version: authorized.head.version,
        };
        let grant = authenticate_within(&self.front, self, authorized, &head);
        let grant = authorized.in_time(pin!(grant)).await?;
        Ok(check_source(&grant, blob, with_tags)?)
    }

    async fn open(
        &self,
        authorized: &Authorized<'_>,
        caller: Caller<'_>,
        range: Option<ByteRange>,
        source: &CopySource,
    ) -> Result<Source<E, X>, ServiceError> {
        match source.place {
            SourcePlace::Here(_) => {
                let opened = self.service.open_source(caller, source, range);
                authorized.in_time(pin!(opened)).await.map(|download| Source::Here(Box::new(download)))
            }
            SourcePlace::Elsewhere | SourcePlace::Fetched(_) => {
                let opened = self.remote.open(source, range, authorized.head.headers);
                authorized.in_time(pin!(opened)).await.map(|fetched| Source::Elsewhere(Box::new(fetched)))
            }
        }
    }
}

/// How far a grant allows to read a source.
fn check_source(grant: &Grant, blob: &BlobPath, with_tags: bool) -> Result<Allowed, ErrorCode> {
    let container = Some(blob.container.as_str());
    if with_tags {
        access::check_tags(grant, container)?;
    }
    access::check(grant, OperationKind::GetBlob, container)
}

/// Bytes that are fetched.
enum Source<E, X: Extents> {
    Here(Box<Download<E, X>>),
    Elsewhere(Box<Fetched>),
}

impl<E: Engine, X: Extents> Source<E, X> {
    async fn next(&mut self) -> Result<Option<BytesOrHole>, ServiceError> {
        match self {
            Self::Here(download) => download.next_or_hole().await,
            Self::Elsewhere(fetched) => {
                Ok(fetched.next().await?.map(|piece| BytesOrHole::Bytes(vec![piece])))
            }
        }
    }
}

/// Fetches all bytes. All of them may take any time, but none of them too long.
async fn fetch<E: Engine, X: Extents>(
    authorized: &Authorized<'_>,
    mut upload: Upload<X>,
    mut source: Source<E, X>,
) -> Result<Uploaded, ServiceError> {
    while let Some(next) = authorized.in_time(pin!(source.next())).await? {
        match next {
            BytesOrHole::Bytes(pieces) => {
                for piece in pieces {
                    authorized.in_time(pin!(upload.write(piece))).await?;
                }
            }
            BytesOrHole::Hole(bytes) => authorized.in_time(pin!(upload.write_hole(bytes))).await?,
        }
    }
    authorized.in_time(pin!(upload.finish())).await
}

/// The error for a source that the caller cannot read has the status and the message of the source's own error.
fn unverified(error: &ServiceError) -> ServiceError {
    match error.code {
        ErrorCode::CannotVerifyCopySource => error.clone(),
        _ => ServiceError::new(ErrorCode::CannotVerifyCopySource)
            .with_status(error.status())
            .with_copy_source(error.status(), Some(error.code.name()), Some(error.message()))
            .with_message(error.message()),
    }
}
