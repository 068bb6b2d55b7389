//! Bytes that come with a request: streamed into the store, then kept by the operation that wants them.

use super::{Blobs, encode_with_overrides};
use crate::net::body::{Body, ReplyBody};
use crate::net::limits::SMALL_BODY_BYTES;
use crate::pipeline::body_error;
use crate::pipeline::exchange::Authorized;
use bytes::Bytes;
use hyper::header::EXPECT;
use hyper::http::{HeaderMap, Response};
use std::pin::pin;
use std::sync::Arc;
use tepui_digest::structured::Decoder;
use tepui_model::blob::{Reply, UploadOperation};
use tepui_model::{ErrorCode, ServiceError};
use tepui_service::blob::{Caller, Upload, Uploaded};
use tepui_storage::{Engine, Extents};
use tepui_wire::blob::structured;

/// How much of an upload is in memory: what the store gathers, and what it writes meanwhile.
const BUFFER_BYTES: usize = 1024 * 1024;

impl<E: Engine, X: Extents> Blobs<E, X> {
    pub(super) async fn answer_upload(
        &self,
        authorized: &Authorized<'_>,
        caller: Caller<'_>,
        operation: UploadOperation,
        declared: Option<u64>,
        body: &mut Option<Body>,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        let upload = self.service.begin_upload(&operation);
        if is_worth_asking(authorized.head.headers, body.as_ref()) {
            authorized.in_time(pin!(self.service.check(caller, &operation))).await?;
        }
        let is_structured = structured::is_asked(authorized.head.headers)?;
        let decoder = is_structured.then(Decoder::new);
        let uploaded = receive(authorized, upload, decoder, declared, body).await?;
        let mut response = self.keep(authorized, caller, operation, uploaded).await?;
        if is_structured {
            structured::mark_upload(response.headers_mut());
        }
        Ok(response)
    }

    /// Carries out an operation whose bytes have been received.
    pub(super) async fn keep(
        &self,
        authorized: &Authorized<'_>,
        caller: Caller<'_>,
        operation: UploadOperation,
        uploaded: Uploaded,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        authorized.check_account()?;
        let (operation, reply) = if uploaded.is_stored() {
            self.keep_stored(authorized, caller, operation, uploaded).await?
        } else {
            let reply = self.service.execute_upload(caller, &operation, uploaded);
            let reply = authorized.in_time(pin!(reply)).await?;
            (operation, reply)
        };
        Ok(encode_with_overrides(authorized, &operation, reply)?.map(ReplyBody::from))
    }

    async fn keep_stored(
        &self,
        authorized: &Authorized<'_>,
        caller: Caller<'_>,
        operation: UploadOperation,
        uploaded: Uploaded,
    ) -> Result<(UploadOperation, Reply), ServiceError> {
        // Bytes in the store are kept or discarded, even if the client goes away meanwhile.
        let (service, account) = (Arc::clone(&self.service), caller.account.to_owned());
        let (allowed, source_allowed) = (caller.allowed, caller.source_allowed);
        let task = tokio::spawn(async move {
            let caller = Caller { allowed, source_allowed, ..Caller::owner(&account) };
            let reply = service.execute_upload(caller, &operation, uploaded).await;
            reply.map(|reply| (operation, reply))
        });
        let ended = async { task.await.map_err(|error| failed(&error))? };
        authorized.in_time(pin!(ended)).await
    }
}

/// Whether it is worth asking before the body is received: it is long, or the client waits for the answer.
fn is_worth_asking(headers: &HeaderMap, body: Option<&Body>) -> bool {
    let bytes = body.map_or(Some(0), Body::declared_bytes);
    headers.contains_key(EXPECT) || bytes.is_none_or(|bytes| bytes > SMALL_BODY_BYTES as u64)
}

/// Receives all bytes. They may take any time, as long as they keep coming; the store may not.
async fn receive<X: Extents>(
    authorized: &Authorized<'_>,
    mut upload: Upload<X>,
    mut decoder: Option<Decoder>,
    declared: Option<u64>,
    body: &mut Option<Body>,
) -> Result<Uploaded, ServiceError> {
    if let Some(body) = body {
        body.begin_stream(BUFFER_BYTES).await.map_err(body_error)?;
    }
    let mut bytes = 0;
    while let Some(piece) = authorized.body.waiting(next(authorized, body)).await? {
        authorized.body.count(piece.len());
        let plain = match &mut decoder {
            Some(decoder) => unwrapped(decoder, &piece)?,
            None => piece,
        };
        bytes += plain.len() as u64;
        authorized.in_time(pin!(upload.write(plain))).await?;
    }
    if let Some(decoder) = decoder {
        decoder.finish()?;
    }
    if declared.is_some_and(|declared| declared != bytes) {
        let error = ServiceError::new(ErrorCode::InvalidInput);
        return Err(error.with_cause("the body has another length than declared"));
    }
    authorized.in_time(pin!(upload.finish())).await
}

/// The next bytes of the body, which is gone once it is read or broken.
async fn next(authorized: &Authorized<'_>, body: &mut Option<Body>) -> Result<Option<Bytes>, ServiceError> {
    let Some(reading) = body else { return Ok(None) };
    match reading.next().await {
        Ok(Some(piece)) => Ok(Some(piece)),
        Ok(None) => {
            *body = None;
            Ok(None)
        }
        Err(error) => {
            *body = None;
            Err(authorized.body.failed(error))
        }
    }
}

fn unwrapped(decoder: &mut Decoder, piece: &[u8]) -> Result<Bytes, ServiceError> {
    let mut plain = Vec::with_capacity(piece.len());
    decoder.push(piece, |bytes| plain.extend_from_slice(bytes))?;
    Ok(plain.into())
}

fn failed(cause: &impl std::fmt::Display) -> ServiceError {
    ServiceError::new(ErrorCode::InternalError).with_cause(cause)
}
