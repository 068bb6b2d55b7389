//! Operations that write the content of a blob.

use super::parts::{
    RANGE, flag, page_range_text, push_checksums, push_encryption, push_immutability, push_new_blob,
    push_preconditions, push_source, push_tags, range_text,
};
use super::{Options, blob, streamed};
use crate::blob::headers as header;
use crate::remote::{InvalidRequest, Outgoing, OutgoingRequest, RemoteService};
use http::Method;
use tepui_model::blob::{
    AppendBlock, BlobPath, BlobType, CopyBlob, CopyPace, CopyTags, EmptyContent, NewBlob, PageWrite, Piece,
    Preconditions, PutBlob, PutBlobFromUrl, PutBlock, PutEmptyBlob, PutPages,
};

type Written = Result<OutgoingRequest, InvalidRequest>;

pub(super) fn put_blob(to: &RemoteService, put: &PutBlob, options: &Options<'_>) -> Written {
    let mut out = new_blob(to, &put.blob, &put.new, &put.preconditions, options);
    out.header(header::BLOB_TYPE, BlobType::Block.name());
    push_checksums(&mut out, &put.upload.checksums, header::CONTENT_MD5, header::CONTENT_CRC64);
    streamed(out, put.upload.bytes)
}

pub(super) fn put_empty_blob(to: &RemoteService, put: &PutEmptyBlob, options: &Options<'_>) -> Written {
    let mut out = new_blob(to, &put.blob, &put.new, &put.preconditions, options);
    match &put.content {
        EmptyContent::Append => out.header(header::BLOB_TYPE, BlobType::Append.name()),
        EmptyContent::Page { bytes, sequence_number } => {
            out.header(header::BLOB_TYPE, BlobType::Page.name());
            out.header(header::BLOB_CONTENT_LENGTH, bytes.to_string());
            out.header(header::BLOB_SEQUENCE_NUMBER, sequence_number.to_string());
        }
    }
    out.empty()
}

fn new_blob<'a>(
    to: &'a RemoteService,
    path: &BlobPath,
    new: &NewBlob,
    preconditions: &Preconditions,
    options: &Options<'_>,
) -> Outgoing<'a> {
    let mut out = blob(to, Method::PUT, path, None);
    push_new_blob(&mut out, new);
    push_tags(&mut out, &new.tags);
    push_preconditions(&mut out, preconditions, options);
    out
}

pub(super) fn put_blob_from_url(to: &RemoteService, put: &PutBlobFromUrl, options: &Options<'_>) -> Written {
    let mut out = blob(to, Method::PUT, &put.blob, None);
    out.header(header::BLOB_TYPE, BlobType::Block.name());
    push_source(&mut out, &put.source);
    push_checksums(&mut out, &put.checksums, header::SOURCE_MD5, header::SOURCE_CRC64);
    if !put.copy_properties {
        out.header(header::COPY_SOURCE_PROPERTIES, "false");
    }
    push_new_blob(&mut out, &put.new);
    push_copied_tags(&mut out, &put.tags);
    push_preconditions(&mut out, &put.preconditions, options);
    out.empty()
}

fn push_copied_tags(out: &mut Outgoing<'_>, tags: &CopyTags) {
    match tags {
        CopyTags::Source => out.header(header::COPY_SOURCE_TAGS, "COPY"),
        CopyTags::These(tags) => push_tags(out, tags),
    }
}

pub(super) fn copy_blob(to: &RemoteService, copy: &CopyBlob, options: &Options<'_>) -> Written {
    let mut out = blob(to, Method::PUT, &copy.blob, None);
    push_source(&mut out, &copy.source);
    if let CopyPace::Waiting(checksums) = &copy.pace {
        out.header(header::REQUIRES_SYNC, "true");
        push_checksums(&mut out, checksums, header::SOURCE_MD5, header::SOURCE_CRC64);
    }
    out.metadata(&copy.metadata);
    push_copied_tags(&mut out, &copy.tags);
    out.header_if(header::ACCESS_TIER, copy.tier.map(|tier| tier.name()));
    out.header_if(header::REHYDRATE_PRIORITY, copy.priority.map(|priority| priority.name()));
    out.header_if(header::SEAL_BLOB, copy.seal.map(flag));
    copy.immutability.iter().for_each(|policy| push_immutability(&mut out, policy));
    out.header_if(header::LEGAL_HOLD, copy.legal_hold.map(flag));
    push_encryption(&mut out, &copy.encryption);
    push_preconditions(&mut out, &copy.preconditions, options);
    out.empty()
}

pub(super) fn put_block(to: &RemoteService, put: &PutBlock, options: &Options<'_>) -> Written {
    let mut out = blob(to, Method::PUT, &put.blob, Some("block"));
    out.parameter("blockid", &put.id.to_string());
    push_preconditions(&mut out, &put.preconditions, options);
    push_encryption(&mut out, &put.encryption);
    with_piece(out, &put.piece)
}

pub(super) fn append_block(to: &RemoteService, append: &AppendBlock, options: &Options<'_>) -> Written {
    let mut out = blob(to, Method::PUT, &append.blob, Some("appendblock"));
    out.header_if(header::APPEND_POSITION, append.append.position.map(|position| position.to_string()));
    out.header_if(header::MAX_SIZE, append.append.max_bytes.map(|bytes| bytes.to_string()));
    push_preconditions(&mut out, &append.preconditions, options);
    push_encryption(&mut out, &append.encryption);
    with_piece(out, &append.piece)
}

pub(super) fn put_pages(to: &RemoteService, put: &PutPages, options: &Options<'_>) -> Written {
    let mut out = page_write(to, &put.write, options);
    out.header(header::PAGE_WRITE, "update");
    with_piece(out, &put.piece)
}

pub(super) fn clear_pages(to: &RemoteService, clear: &PageWrite, options: &Options<'_>) -> Written {
    let mut out = page_write(to, clear, options);
    out.header(header::PAGE_WRITE, "clear");
    out.empty()
}

fn page_write<'a>(to: &'a RemoteService, write: &PageWrite, options: &Options<'_>) -> Outgoing<'a> {
    let mut out = blob(to, Method::PUT, &write.blob, Some("page"));
    out.header(RANGE, page_range_text(write.pages));
    for (name, number) in [
        (header::SEQUENCE_AT_MOST, write.sequence.at_most),
        (header::SEQUENCE_LESS, write.sequence.less_than),
        (header::SEQUENCE_EQUAL, write.sequence.equal),
    ] {
        out.header_if(name, number.map(|number| number.to_string()));
    }
    push_preconditions(&mut out, &write.preconditions, options);
    push_encryption(&mut out, &write.encryption);
    out
}

fn with_piece(mut out: Outgoing<'_>, piece: &Piece) -> Written {
    match piece {
        Piece::Sent(upload) => {
            push_checksums(&mut out, &upload.checksums, header::CONTENT_MD5, header::CONTENT_CRC64);
            streamed(out, upload.bytes)
        }
        Piece::FromUrl(from) => {
            push_source(&mut out, &from.source);
            out.header_if(header::SOURCE_RANGE, from.range.map(range_text));
            push_checksums(&mut out, &from.checksums, header::SOURCE_MD5, header::SOURCE_CRC64);
            out.empty()
        }
    }
}
