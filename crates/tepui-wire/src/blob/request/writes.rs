//! Requests that write the content of a blob.

use super::Request;
use super::new_blob::{
    encryption, http_properties, http_properties_of_blob, immutability, md5, metadata, new_blob,
};
use super::new_blob::{priority, tags, tier};
use super::pieces::{from_url, no_body, not_empty, source_checksums, upload};
use crate::blob::headers::{self, flag, invalid, required_word, word};
use crate::blob::{conditions, source};
use crate::parameters::{given, invalid_value, missing};
use crate::request_headers::RequestHeaders;
use crate::version::ServiceVersion;
use tepui_model::ServiceError;
use tepui_model::blob::range::PAGE_BYTES;
use tepui_model::blob::{
    AppendBlock, BlobPath, BlobType, BlockId, ByteRange, Call, Checksums, ContentMd5, CopyBlob, CopyPace,
    CopyTags, EmptyContent, Operation, OperationKind, PageRange, PageWrite, Piece, PutBlob, PutBlobFromUrl,
    PutBlock, PutBlockList, PutEmptyBlob, PutPages, UploadOperation,
};

const MIB: u64 = 1024 * 1024;
const MAX_PAGE_WRITE_BYTES: u64 = 4 * MIB;
const MAX_PAGE_BLOB_BYTES: u64 = 8 * 1024 * 1024 * MIB;

fn max_blob_bytes(version: ServiceVersion) -> u64 {
    match version {
        _ if version.has_tags_and_versions() => 5000 * MIB,
        _ if version.has_large_blocks() => 256 * MIB,
        _ => 64 * MIB,
    }
}

fn max_block_bytes(version: ServiceVersion) -> u64 {
    match version {
        _ if version.has_tags_and_versions() => 4000 * MIB,
        _ if version.has_large_blocks() => 100 * MIB,
        _ => 4 * MIB,
    }
}

fn max_append_bytes(version: ServiceVersion) -> u64 {
    if version.has_large_appends() { 100 * MIB } else { 4 * MIB }
}

pub(super) fn put_blob(request: &Request<'_>, blob: BlobPath) -> Result<Call, ServiceError> {
    let (headers, version) = (&request.headers, request.head.version);
    let blob_type = required_word(headers, headers::BLOB_TYPE, BlobType::parse)?;
    let mut http = http_properties(headers)?;
    let content = match blob_type {
        BlobType::Block => {
            let mut upload = upload(headers, max_blob_bytes(version))?;
            // What is said of the request and what is said of the blob are about the same bytes.
            let of_blob = md5(headers, headers::BLOB_CONTENT_MD5)?;
            upload.checksums.md5 = upload.checksums.md5.or(of_blob);
            http.content_md5 = of_blob.or(upload.checksums.md5).map(ContentMd5::from);
            let new = new_blob(headers, version, http)?;
            let preconditions = conditions::of_write(headers)?;
            return Ok(UploadOperation::PutBlob(PutBlob { blob, new, upload, preconditions }).into());
        }
        BlobType::Append => {
            no_body(headers)?;
            EmptyContent::Append
        }
        BlobType::Page => {
            no_body(headers)?;
            let bytes =
                page_blob_bytes(headers)?.ok_or_else(|| headers::missing(headers::BLOB_CONTENT_LENGTH))?;
            let sequence_number = headers::number(headers, headers::BLOB_SEQUENCE_NUMBER)?.unwrap_or(0);
            EmptyContent::Page { bytes, sequence_number }
        }
    };
    let new = new_blob(headers, version, http)?;
    let preconditions = conditions::of_write(headers)?;
    Ok(Operation::PutEmptyBlob(PutEmptyBlob { blob, new, content, preconditions }).into())
}

/// The length of a page blob: whole pages.
pub(super) fn page_blob_bytes(headers: &RequestHeaders<'_>) -> Result<Option<u64>, ServiceError> {
    match headers::number(headers, headers::BLOB_CONTENT_LENGTH)? {
        Some(bytes) if !bytes.is_multiple_of(PAGE_BYTES) || bytes > MAX_PAGE_BLOB_BYTES => {
            Err(invalid(headers, headers::BLOB_CONTENT_LENGTH))
        }
        bytes => Ok(bytes),
    }
}

pub(super) fn put_blob_from_url(
    request: &Request<'_>,
    blob: BlobPath,
) -> Result<PutBlobFromUrl, ServiceError> {
    let (headers, version) = (&request.headers, request.head.version);
    required_word(headers, headers::BLOB_TYPE, |text| {
        BlobType::parse(text).filter(|blob_type| *blob_type == BlobType::Block)
    })?;
    no_body(headers)?;
    Ok(PutBlobFromUrl {
        blob,
        source: source::decode(headers, request.head.target, request.rules)?,
        checksums: source_checksums(headers)?,
        copy_properties: flag(headers, headers::COPY_SOURCE_PROPERTIES)?.unwrap_or(true),
        new: new_blob(headers, version, http_properties_of_blob(headers)?)?,
        tags: copy_tags(headers)?,
        preconditions: conditions::of_write(headers)?,
    })
}

fn copy_tags(headers: &RequestHeaders<'_>) -> Result<CopyTags, ServiceError> {
    let from_source = word(headers, headers::COPY_SOURCE_TAGS, |text| match text {
        _ if text.eq_ignore_ascii_case("copy") => Some(true),
        _ if text.eq_ignore_ascii_case("replace") => Some(false),
        _ => None,
    })?;
    let tags = tags(headers)?;
    match from_source {
        // Tags of its own would be lost.
        Some(true) if !tags.is_empty() => Err(invalid(headers, headers::COPY_SOURCE_TAGS)),
        Some(true) => Ok(CopyTags::Source),
        _ => Ok(CopyTags::These(tags)),
    }
}

pub(super) fn copy_blob(request: &Request<'_>, blob: BlobPath) -> Result<CopyBlob, ServiceError> {
    let (headers, version) = (&request.headers, request.head.version);
    headers::given(headers, headers::REQUIRES_SYNC)?;
    let pace = match request.kind {
        OperationKind::CopyBlobFromUrl => CopyPace::Waiting(source_checksums(headers)?),
        _ => CopyPace::Background,
    };
    Ok(CopyBlob {
        blob,
        source: source::decode(headers, request.head.target, request.rules)?,
        pace,
        metadata: metadata(headers)?,
        tags: copy_tags(headers)?,
        tier: tier(headers, version)?,
        priority: priority(headers)?,
        seal: flag(headers, headers::SEAL_BLOB)?,
        immutability: immutability(headers, None)?,
        legal_hold: flag(headers, headers::LEGAL_HOLD)?,
        encryption: encryption(headers)?,
        preconditions: conditions::of_write(headers)?,
    })
}

pub(super) fn put_block(request: &Request<'_>, blob: BlobPath) -> Result<UploadOperation, ServiceError> {
    let (headers, version) = (&request.headers, request.head.version);
    let text = given(request.head.query, "blockid").ok_or_else(|| missing("blockid"))?;
    // A plus that was not escaped has been read as a blank.
    let id = BlockId::parse(&text.replace(' ', "+"));
    let id = id.ok_or_else(|| invalid_value("blockid", text, "Not a valid base64 string."))?;
    let max_bytes = max_block_bytes(version);
    let piece = match request.kind {
        OperationKind::PutBlockFromUrl => from_url(request, max_bytes)?,
        _ => Piece::Sent(not_empty(headers, upload(headers, max_bytes)?)?),
    };
    let preconditions = conditions::of_lease_only(headers)?;
    let encryption = encryption(headers)?;
    Ok(UploadOperation::PutBlock(PutBlock { blob, id, piece, preconditions, encryption }))
}

/// The list itself is in the body.
pub(super) fn put_block_list(request: &Request<'_>, blob: BlobPath) -> Result<PutBlockList, ServiceError> {
    let (headers, version) = (&request.headers, request.head.version);
    super::pieces::body_bytes(headers)?;
    Ok(PutBlockList {
        blob,
        blocks: Vec::new(),
        list_checksums: Checksums::default(),
        // The type of the request is that of the list.
        new: new_blob(headers, version, http_properties_of_blob(headers)?)?,
        preconditions: conditions::of_write(headers)?,
    })
}

pub(super) fn append_block(request: &Request<'_>, blob: BlobPath) -> Result<UploadOperation, ServiceError> {
    let (headers, version) = (&request.headers, request.head.version);
    let max_bytes = max_append_bytes(version);
    let piece = match request.kind {
        OperationKind::AppendBlockFromUrl => from_url(request, max_bytes)?,
        _ => Piece::Sent(not_empty(headers, upload(headers, max_bytes)?)?),
    };
    Ok(UploadOperation::AppendBlock(AppendBlock {
        blob,
        piece,
        append: conditions::of_append(headers)?,
        preconditions: conditions::of_write(headers)?,
        encryption: encryption(headers)?,
    }))
}

pub(super) fn put_pages(request: &Request<'_>, blob: BlobPath) -> Result<Call, ServiceError> {
    let headers = &request.headers;
    let clears = required_word(headers, headers::PAGE_WRITE, |text| match text {
        _ if text.eq_ignore_ascii_case("update") => Some(false),
        _ if text.eq_ignore_ascii_case("clear") => Some(true),
        _ => None,
    })?;
    let name = match headers::is_given(headers, headers::X_MS_RANGE) {
        true => headers::X_MS_RANGE,
        false => headers::RANGE,
    };
    let page_range = |text: &str| PageRange::new(ByteRange::parse(text)?);
    let pages = required_word(headers, name, page_range)?;
    let piece = match request.kind {
        OperationKind::ClearPages => {
            no_body(headers)?;
            // There are no bytes that a checksum could be of.
            for name in [headers::CONTENT_MD5, headers::CONTENT_CRC64] {
                if headers::is_given(headers, name) {
                    return Err(invalid(headers, name));
                }
            }
            None
        }
        OperationKind::PutPagesFromUrl => {
            if clears {
                return Err(invalid(headers, headers::PAGE_WRITE));
            }
            let source = required_word(headers, headers::SOURCE_RANGE, page_range)?;
            let piece = from_url(request, MAX_PAGE_WRITE_BYTES)?;
            if source.bytes() != pages.bytes() {
                return Err(invalid(headers, headers::SOURCE_RANGE));
            }
            Some(piece)
        }
        _ => {
            let upload = upload(headers, MAX_PAGE_WRITE_BYTES)?;
            if upload.bytes.is_some_and(|bytes| bytes != pages.bytes()) || pages.bytes() > upload.max_bytes {
                return Err(invalid(headers, name));
            }
            Some(Piece::Sent(upload))
        }
    };
    let write = PageWrite {
        blob,
        pages,
        sequence: conditions::of_sequence(headers)?,
        preconditions: conditions::of_write(headers)?,
        encryption: encryption(headers)?,
    };
    Ok(match piece {
        Some(piece) => UploadOperation::PutPages(PutPages { write, piece }).into(),
        None => Operation::ClearPages(write).into(),
    })
}
