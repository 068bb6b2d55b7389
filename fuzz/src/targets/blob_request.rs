//! Whole requests of the Blob service, through the same steps as in the server, up to the typed operation.

use super::queue_request::is_text_of_xml;
use crate::checks::refused;
use crate::material::{NOW, Sent};
use tepui_model::ServiceError;
use tepui_model::blob::{
    Call, ContainerPage, EmptyContent, FoundPage, Operation, PageWrite, Piece, Reply, Upload, UploadOperation,
};
use tepui_wire::address::{self, AddressError, AddressRules, Service, Target};
use tepui_wire::auth::Challenge;
use tepui_wire::blob::reply::{BlobListWriter, Context, encode, overrides};
use tepui_wire::blob::request::Request;
use tepui_wire::error_body::{self, ErrorFormat};
use tepui_wire::head::BodyUse;
use tepui_wire::query::Query;
use tepui_wire::version::{self, VersionPolicy};

pub(super) const WORDS: &[&str] = &[
    "GET ",
    "HEAD ",
    "POST ",
    "PUT ",
    "DELETE ",
    "/devstoreaccount1/",
    "/",
    "c01",
    "$root",
    "a%2Fb",
    "?",
    "&",
    "restype=container",
    "restype=service&comp=properties",
    "restype=service&comp=userdelegationkey",
    "restype=account&comp=properties",
    "comp=list",
    "comp=metadata",
    "comp=acl",
    "comp=lease",
    "comp=undelete",
    "comp=block&blockid=MDAwMQ%3D%3D",
    "comp=blocklist",
    "comp=page",
    "comp=pagelist",
    "comp=appendblock",
    "comp=seal",
    "comp=tags",
    "comp=tier",
    "comp=snapshot",
    "comp=copy&copyid=1",
    "comp=blobs&where=a%3D'b'",
    "comp=immutabilityPolicies",
    "comp=legalhold",
    "comp=query",
    "snapshot=2026-03-04T05%3A06%3A07.0201905Z",
    "versionid=2026-03-04T05%3A06%3A07.0201905Z",
    "prevsnapshot=2026-03-04T05%3A06%3A07.0201905Z",
    "deletetype=permanent",
    "marker=2!18!cGIAAAAAAAAAAHAwLw",
    "delimiter=%2F",
    "include=metadata,tags",
    "maxresults=5",
    "startFrom=x",
    " HTTP/1.1\r\n",
    "Host: 127.0.0.1:10000\r\n",
    "x-ms-version: 2015-04-05\r\n",
    "x-ms-blob-type: BlockBlob\r\n",
    "x-ms-blob-type: PageBlob\r\n",
    "x-ms-blob-content-length: 1024\r\n",
    "Content-Length: 11\r\n",
    "Content-Length: 0\r\n",
    "Content-MD5: sQqNsWTgdUEFt6mb5y4/5Q==\r\n",
    "x-ms-content-crc64: YeJLfssylmU=\r\n",
    "x-ms-range: bytes=0-511\r\n",
    "x-ms-page-write: update\r\n",
    "x-ms-copy-source: http://127.0.0.1:10000/devstoreaccount1/c01/b?snapshot=2026-03-04T05:06:07.0201905Z\r\n",
    "x-ms-source-range: bytes=0-511\r\n",
    "x-ms-lease-action: acquire\r\n",
    "x-ms-lease-duration: 15\r\n",
    "x-ms-lease-id: 5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11\r\n",
    "x-ms-tags: a=b&c=d\r\n",
    "x-ms-if-tags: a='b' OR c<>'d'\r\n",
    "If-Match: \"0x8DE79ABBE3D2007\"\r\n",
    "If-None-Match: *\r\n",
    "x-ms-access-tier: Cool\r\n",
    "x-ms-meta-team: core\r\n",
    "\r\n",
    "<BlockList><Latest>MDAwMQ==</Latest></BlockList>",
    "<Tags><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tags>",
    "<SignedIdentifiers/>",
];

/// Whatever is asked, the answer can be written.
pub fn blob_request(data: &[u8]) {
    let Some(request) = Sent::read(data) else { return };
    let query = Query::parse(request.uri.query());
    let rules = AddressRules::new(Service::Blob);
    let target = match address::parse(&request.uri, &request.headers, false, &rules) {
        Ok(target) => target,
        Err(AddressError::Service(error)) => return refused(&error),
        Err(AddressError::InvalidUrl { .. }) => return,
    };
    if let Err(error) = answer(&request, &query, &target, &rules) {
        refused(&error);
        let body =
            error_body::encode(&error, ErrorFormat::Xml, Service::Blob, "id", *NOW, &Challenge::default())
                .into_body();
        is_text_of_xml(&body);
    }
}

fn answer(sent: &Sent<'_>, query: &Query, target: &Target, rules: &AddressRules) -> Result<(), ServiceError> {
    let version = version::negotiate(&sent.headers, query, None, VersionPolicy::Check)?;
    let head = sent.head(Service::Blob, version, query, target);
    let request = Request::read(&head, rules)?;
    let prepared = request.prepare()?;
    let body = match request.body() {
        BodyUse::Whole { max_bytes, .. } => sent.body.get(..max_bytes).unwrap_or(sent.body),
        BodyUse::Nothing | BodyUse::Streamed => b"",
    };
    let call = prepared.decode(body, &tepui_digest::Algorithms)?;
    let overridden = overrides(query);
    let context = Context { head, overrides: Some(&overridden), may_read_tags: true };
    match &call {
        Call::Upload(operation) => upload_within_limits(operation),
        Call::Operation(operation) => {
            within_limits(operation);
            for reply in [Reply::Containers(ContainerPage::default()), Reply::Found(FoundPage::default())] {
                let response = encode(&context, operation, reply).expect("lists can be written");
                is_text_of_xml(response.body());
            }
        }
        Call::List(list) => {
            assert!((1..=5000).contains(&list.page_size) && list.delimiter.as_deref() != Some(""));
            is_text_of_xml(&BlobListWriter::new(&context, list).finish(None).into_body());
        }
        Call::Batch { .. } => {}
    }
    Ok(())
}

fn upload_within_limits(operation: &UploadOperation) {
    let upload = |upload: &Upload| assert!(upload.bytes.is_none_or(|bytes| bytes <= upload.max_bytes));
    let piece = |piece: &Piece| match piece {
        Piece::Sent(sent) => upload(sent),
        Piece::FromUrl(from) => assert!(from.source.url.len() <= 2048 && from.source.url.is_ascii()),
    };
    match operation {
        UploadOperation::PutBlob(put) => upload(&put.upload),
        UploadOperation::PutBlock(put) => piece(&put.piece),
        UploadOperation::AppendBlock(append) => piece(&append.piece),
        UploadOperation::PutPages(put) => {
            whole_pages(&put.write);
            piece(&put.piece);
        }
        UploadOperation::PutBlobFromUrl(_) | UploadOperation::CopyBlob(_) => {}
    }
}

fn whole_pages(write: &PageWrite) {
    assert!(write.pages.start() < write.pages.end() && write.pages.bytes().is_multiple_of(512));
}

fn within_limits(operation: &Operation) {
    match operation {
        Operation::PutEmptyBlob(put) => match put.content {
            EmptyContent::Page { bytes, .. } => assert_eq!(bytes % 512, 0),
            EmptyContent::Append => {}
        },
        Operation::ClearPages(clear) => whole_pages(clear),
        Operation::ListContainers(list) => assert!((1..=5000).contains(&list.page_size)),
        Operation::FindBlobsByTags(find) => assert!((1..=5000).contains(&find.page_size)),
        Operation::SetBlobTags { tags, .. } => assert!(tags.len() <= 10),
        _ => {}
    }
}
