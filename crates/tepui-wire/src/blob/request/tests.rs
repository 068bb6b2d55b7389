use super::*;
use crate::address::Service;
use crate::head::sent::Sent;
use ErrorCode::*;
use proptest::prelude::*;
use std::time::Duration;
use tepui_digest::Checksum as _;
use tepui_model::blob::{
    AccessTier, AppendConditions, BlobInclude, BlobMarker, BlobName, ByteRange, ContentMd5, CopyPace,
    CopyTags, EmptyContent, HttpProperties, LeaseAction, LeaseDuration, LeaseId, NotImplemented, Piece,
    RangeChecksum, UploadOperation, UploadOrigin,
};
use tepui_model::blob::{Crc64Sum, Md5Sum};

const ID: &str = "5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11";
const MOMENT: &str = "2026-03-04T05%3A06%3A07.0201905Z";
const MD5: &str = "sQqNsWTgdUEFt6mb5y4/5Q==";
const SOURCE: &str = "x-ms-copy-source: http://127.0.0.1:10000/a/c01/s";

/// Decodes `METHOD /path?query`, then a line `name: value` for each header.
fn decoded(head: &str, version: &str, body: &str) -> Result<Call, ServiceError> {
    let sent = Sent::parse(head);
    let rules = AddressRules::new(Service::Blob);
    let request = Request::read(&sent.head(Service::Blob, version), &rules)?;
    let prepared = request.prepare()?;
    let call = prepared.call();
    let says_nothing =
        matches!(call, Call::Operation(Operation::GetAccountInformation | Operation::NotImplemented(_)));
    if !says_nothing {
        assert_eq!(call.container().map(ContainerName::as_str), request.container(), "{head}");
        assert_eq!(call.blob().is_some(), matches!(request.resource, Resource::Blob(..)), "{head}");
    }
    let (has_source, is_sent) = match call {
        Call::Operation(operation) => (operation.source().is_some(), false),
        Call::Upload(operation) => match operation.origin() {
            UploadOrigin::Request(_) => (false, true),
            UploadOrigin::Source(_) => (true, false),
        },
        Call::List(_) | Call::Batch { .. } => (false, false),
    };
    assert!(!has_source || request.headers.has("x-ms-copy-source"), "{head}");
    assert!(!is_sent || request.body() == BodyUse::Streamed, "{head}");
    prepared.decode(body.as_bytes(), &tepui_digest::Algorithms)
}

fn newest(head: &str) -> Result<Call, ServiceError> {
    decoded(head, ServiceVersion::NEWEST.text(), "")
}

fn code(head: &str) -> Result<(), ErrorCode> {
    newest(head).map(drop).map_err(|error| error.code)
}

fn blob() -> BlobPath {
    BlobPath { container: ContainerName::parse("c01").unwrap(), blob: BlobName::parse("b").unwrap() }
}

/// The operation inside, if it is the expected one.
macro_rules! take {
    ($head:expr, $variant:ident) => {
        take!($head, Operation, Operation, $variant)
    };
    ($head:expr, $call:ident, $kind:ident, $variant:ident) => {
        match newest($head) {
            Ok(Call::$call($kind::$variant(inside))) => inside,
            other => panic!("{}: {other:?}", $head),
        }
    };
}

macro_rules! take_upload {
    ($head:expr, $variant:ident) => {
        take!($head, Upload, UploadOperation, $variant)
    };
}

fn take_list(head: &str) -> tepui_model::blob::ListBlobs {
    match newest(head) {
        Ok(Call::List(list)) => list,
        other => panic!("{head}: {other:?}"),
    }
}

#[test]
fn errors_name_the_header_that_is_missing_or_wrong() {
    let missing = |name| header::missing(name);
    let wrong = |name, value| header::invalid_value(InvalidHeaderValue, name, value);
    let put = "PUT /c01/b\nContent-Length: 0";
    let page = "PUT /c01/b?comp=page\nContent-Length: 512\nx-ms-page-write: update";
    let lease = "PUT /c01/b?comp=lease";
    for (head, expected) in [
        (put.to_owned(), missing("x-ms-blob-type")),
        (format!("{put}\nx-ms-blob-type: Other"), wrong("x-ms-blob-type", "Other")),
        (format!("{put}\nx-ms-blob-type: PageBlob"), missing("x-ms-blob-content-length")),
        (
            format!("{put}\nx-ms-blob-type: PageBlob\nx-ms-blob-content-length: 511"),
            wrong("x-ms-blob-content-length", "511"),
        ),
        ("PUT /c01/b\nx-ms-blob-type: AppendBlob\nContent-Length: 5".to_owned(), wrong("content-length", "5")),
        ("PUT /c01/b?comp=block&blockid=MQ%3D%3D\nContent-Length: 0".to_owned(), wrong("content-length", "0")),
        ("PUT /c01/b?comp=appendblock\nContent-Length: 0".to_owned(), wrong("content-length", "0")),
        (format!("{page}\nx-ms-range: bytes=0-100"), wrong("x-ms-range", "bytes=0-100")),
        (format!("{page}\nx-ms-range: bytes=0-1023"), wrong("x-ms-range", "bytes=0-1023")),
        (page.to_owned(), missing("range")),
        (page.replace("update", "other"), wrong("x-ms-page-write", "other")),
        (lease.to_owned(), missing("x-ms-lease-action")),
        (format!("{lease}\nx-ms-lease-action: grab"), wrong("x-ms-lease-action", "grab")),
        (format!("{lease}\nx-ms-lease-action: acquire"), missing("x-ms-lease-duration")),
        (
            format!("{lease}\nx-ms-lease-action: acquire\nx-ms-lease-duration: 10"),
            wrong("x-ms-lease-duration", "10"),
        ),
        (
            format!("{lease}\nx-ms-lease-action: acquire\nx-ms-lease-duration: -1\nx-ms-proposed-lease-id: x"),
            wrong("x-ms-proposed-lease-id", "x"),
        ),
        (format!("{lease}\nx-ms-lease-action: renew"), missing("x-ms-lease-id")),
        (
            format!("{lease}\nx-ms-lease-action: change\nx-ms-lease-id: {ID}"),
            missing("x-ms-proposed-lease-id"),
        ),
        (
            format!("{lease}\nx-ms-lease-action: break\nx-ms-lease-break-period: 61"),
            wrong("x-ms-lease-break-period", "61"),
        ),
        ("PUT /c01/b?comp=tier".to_owned(), missing("x-ms-access-tier")),
        ("PUT /c01/b?comp=tier\nx-ms-access-tier: Warm".to_owned(), wrong("x-ms-access-tier", "Warm")),
        ("PUT /c01/b?comp=copy&copyid=1".to_owned(), missing("x-ms-copy-action")),
        ("PUT /c01/b\nx-ms-copy-source: nowhere".to_owned(), wrong("x-ms-copy-source", "nowhere")),
        ("PUT /c01/b?comp=incrementalcopy".to_owned(), missing("x-ms-copy-source")),
        ("PUT /c01/b?comp=legalhold".to_owned(), missing("x-ms-legal-hold")),
        ("PUT /c01/b?comp=immutabilityPolicies".to_owned(), missing("x-ms-immutability-policy-until-date")),
        ("DELETE /c01/b\nx-ms-delete-snapshots: all".to_owned(), wrong("x-ms-delete-snapshots", "all")),
        (
            "PUT /c01?restype=container\nx-ms-blob-public-access: all".to_owned(),
            wrong("x-ms-blob-public-access", "all"),
        ),
        ("PUT /c01?restype=container&comp=undelete".to_owned(), missing("x-ms-deleted-container-name")),
        (
            "PUT /c01/b?comp=properties\nx-ms-sequence-number-action: max".to_owned(),
            missing("x-ms-blob-sequence-number"),
        ),
        (
            "PUT /c01/b?comp=properties\nx-ms-sequence-number-action: increment\nx-ms-blob-sequence-number: 1"
                .to_owned(),
            wrong("x-ms-blob-sequence-number", "1"),
        ),
        ("GET /c01/b\nx-ms-range-get-content-md5: true".to_owned(), wrong("x-ms-range-get-content-md5", "true")),
        (
            "PUT /c01/b?comp=appendblock\nContent-Length: 44\nx-ms-structured-body: XSM/1.0; properties=crc64".to_owned(),
            missing("x-ms-structured-content-length"),
        ),
        ("GET /c01/b\nx-ms-structured-body: XSM/1.0".to_owned(), wrong("x-ms-structured-body", "XSM/1.0")),
    ] {
        assert_eq!(newest(&head), Err(expected), "{head}");
    }
}

#[test]
fn requests_are_refused() {
    let put = "PUT /c01/b\nx-ms-blob-type: BlockBlob";
    let large = 5000u64 * 1024 * 1024 + 1;
    for (head, expected) in [
        (put.to_owned(), MissingContentLengthHeader),
        (format!("{put}\nContent-Length: {large}"), RequestBodyTooLarge),
        (format!("{put}\nContent-Length: 5\nContent-MD5: x"), InvalidMd5),
        (format!("{put}\nContent-Length: 5\nx-ms-content-crc64: x"), InvalidHeaderValue),
        (
            format!("{put}\nContent-Length: 5\nContent-MD5: {MD5}\nx-ms-content-crc64: YeJLfssylmU="),
            BothCrc64AndMd5HeaderPresent,
        ),
        (format!("{put}\nContent-Length: 5\nx-ms-tags: a&a"), DuplicateTagNames),
        (format!("{put}\nContent-Length: 5\nx-ms-meta-1: x"), InvalidMetadata),
        (format!("{put}\nContent-Length: 5\nx-ms-meta-a:"), InvalidMetadata),
        (format!("{put}\nContent-Length: 5\nIf-Match: \"a\", \"b\""), MultipleConditionHeadersNotSupported),
        (format!("{put}\nContent-Length: 5\nx-ms-encryption-key: x"), InvalidHeaderValue),
        (format!("{put}\nContent-Length: 5\nx-ms-encryption-algorithm: AES256"), MissingRequiredHeader),
        (format!("PUT /c01/b?snapshot={MOMENT}\nContent-Length: 0"), InvalidQueryParameterValue),
        (format!("PUT /c01/b?comp=metadata&versionid={MOMENT}"), InvalidQueryParameterValue),
        (format!("PUT /c01/b?comp=tags&snapshot={MOMENT}"), InvalidQueryParameterValue),
        (format!("HEAD /c01/b?snapshot={MOMENT}&versionid={MOMENT}"), MutuallyExclusiveQueryParameters),
        ("GET /c01/b?snapshot=yesterday".to_owned(), InvalidQueryParameterValue),
        (
            format!("DELETE /c01/b?snapshot={MOMENT}\nx-ms-delete-snapshots: include"),
            InvalidQueryParameterValue,
        ),
        (
            format!("DELETE /c01/b?versionid={MOMENT}\nx-ms-delete-snapshots: only"),
            InvalidQueryParameterValue,
        ),
        ("DELETE /c01/b?deletetype=soft".to_owned(), InvalidQueryParameterValue),
        ("PUT /c01/b?comp=block\nContent-Length: 5".to_owned(), MissingRequiredQueryParameter),
        ("PUT /c01/b?comp=block&blockid=x\nContent-Length: 5".to_owned(), InvalidQueryParameterValue),
        (
            "PUT /c01/b?comp=block&blockid=MQ%3D%3D\nContent-Length: 5\nIf-Match: *".to_owned(),
            ConditionHeadersNotSupported,
        ),
        ("PUT /c01/b?comp=blocklist".to_owned(), MissingContentLengthHeader),
        ("PUT /c01/b?comp=blocklist\nContent-Length: 0".to_owned(), InvalidXmlDocument),
        ("GET /c01/b?comp=blocklist&blocklisttype=some".to_owned(), InvalidQueryParameterValue),
        ("GET /c01/b?comp=pagelist&prevsnapshot=x".to_owned(), InvalidQueryParameterValue),
        ("GET /c01/b\nIf-None-Match: *".to_owned(), UnsatisfiableCondition),
        (
            "GET /c01/b\nx-ms-range: bytes=0-4194304\nx-ms-range-get-content-md5: true".to_owned(),
            OutOfRangeInput,
        ),
        ("PUT /c01/b?comp=copy\nx-ms-copy-action: abort".to_owned(), MissingRequiredQueryParameter),
        ("PUT /c01/b?comp=tags".to_owned(), InvalidXmlDocument),
        ("GET /c01?restype=container&comp=list&maxresults=0".to_owned(), OutOfRangeQueryParameterValue),
        ("GET /c01?restype=container&comp=list&marker=rubbish".to_owned(), InvalidQueryParameterValue),
        ("GET /c01?restype=container&comp=list&include=all".to_owned(), InvalidQueryParameterValue),
        (
            "GET /c01?restype=container&comp=list&include=snapshots&delimiter=/".to_owned(),
            InvalidQueryParameterValue,
        ),
        ("GET /?comp=list&include=tags".to_owned(), InvalidQueryParameterValue),
        ("GET /?comp=list&marker=c01".to_owned(), InvalidQueryParameterValue),
        ("GET /?comp=blobs".to_owned(), MissingRequiredQueryParameter),
        ("GET /?comp=blobs&where=a".to_owned(), InvalidQueryParameterValue),
        ("PUT /Bad_Name?restype=container".to_owned(), InvalidResourceName),
        ("PUT /c?restype=container".to_owned(), OutOfRangeInput),
        ("DELETE /c01?restype=container\nIf-Match: *".to_owned(), ConditionHeadersNotSupported),
    ] {
        assert_eq!(code(&head), Err(expected), "{head}");
    }
}

#[test]
fn what_this_service_does_not_do() {
    for (head, expected, told) in [
        ("POST /c01/b?comp=query", NotImplemented::QueryBlobContents, ErrorCode::NotImplemented),
        (
            "PUT /c01?restype=container&comp=rename",
            NotImplemented::RenameContainer,
            ErrorCode::NotImplemented,
        ),
        ("PUT /c01/b?comp=expiry", NotImplemented::SetBlobExpiry, BlobOperationNotSupported),
    ] {
        assert_eq!(newest(head), Ok(Operation::NotImplemented(expected).into()), "{head}");
        assert_eq!(expected.code(), told, "{head}");
    }
}

#[test]
fn block_blobs_are_put() {
    let put = take_upload!(
        &format!(
            "PUT /c01/b\nx-ms-blob-type: BlockBlob\nContent-Length: 11\nContent-Type: text/plain\n\
             x-ms-blob-content-language: en\nContent-MD5: {MD5}\nx-ms-meta-Owner: ana\nx-ms-tags: env=prod\n\
             x-ms-access-tier: Cool\nx-ms-lease-id: {ID}\nIf-None-Match: *"
        ),
        PutBlob
    );
    let md5 = Md5Sum::parse(MD5).ok();
    assert_eq!(put.blob, blob());
    assert_eq!(put.new.http.content_type.as_deref(), Some("text/plain"));
    assert_eq!(
        (
            put.new.http.content_language.as_deref(),
            put.new.http.content_md5.as_ref().and_then(ContentMd5::sum)
        ),
        (Some("en"), md5)
    );
    assert_eq!(put.new.metadata.iter().collect::<Vec<_>>(), [("owner", "ana")]);
    assert_eq!((put.new.tags.get("env"), put.new.tier), (Some("prod"), Some(AccessTier::Cool)));
    assert_eq!(put.preconditions.lease, LeaseId::parse(ID));
    assert!(put.preconditions.conditions.only_creates());
    assert_eq!((put.upload.bytes, put.upload.max_bytes), (Some(11), 5000 * 1024 * 1024));
    assert_eq!(put.upload.checksums, Checksums { md5, crc64: None });
    let chunked = take_upload!("PUT /c01/b\nx-ms-blob-type: blockblob\nTransfer-Encoding: chunked", PutBlob);
    assert_eq!(chunked.upload.bytes, None);
    assert_eq!(chunked.new.http.content_type.as_deref(), Some("application/octet-stream"));
}

#[test]
fn what_is_said_of_the_blob_counts_before_what_is_said_of_the_request() {
    let other = "AAAAAAAAAAAAAAAAAAAAAA==";
    let put = take_upload!(
        &format!(
            "PUT /c01/b\nx-ms-blob-type: BlockBlob\nContent-Length: 1\nContent-MD5: {other}\n\
             x-ms-blob-content-md5: {MD5}\nContent-Type: a/b\nx-ms-blob-content-type: c/d"
        ),
        PutBlob
    );
    assert_eq!(put.upload.checksums.md5, Md5Sum::parse(other).ok());
    assert_eq!(put.new.http.content_md5, ContentMd5::parse(MD5).ok());
    assert_eq!(put.new.http.content_type.as_deref(), Some("c/d"));
}

#[test]
fn other_blobs_are_put() {
    let page = take!(
        "PUT /c01/b\nx-ms-blob-type: PageBlob\nContent-Length: 0\nx-ms-blob-content-length: 2048\n\
         x-ms-blob-sequence-number: 7",
        PutEmptyBlob
    );
    assert_eq!(page.content, EmptyContent::Page { bytes: 2048, sequence_number: 7 });
    let append = take!("PUT /c01/b\nx-ms-blob-type: AppendBlob\nContent-Length: 0", PutEmptyBlob);
    assert_eq!(append.content, EmptyContent::Append);
}

#[test]
fn limits_grow_with_versions() {
    let mib = 1024 * 1024;
    for (target, blob_type, limits) in [
        (
            "/c01/b",
            "x-ms-blob-type: BlockBlob",
            [("2015-04-05", 64), ("2016-05-31", 256), ("2019-12-12", 5000)],
        ),
        (
            "/c01/b?comp=block&blockid=MQ%3D%3D",
            "x-ms-meta-a: b",
            [("2015-04-05", 4), ("2016-05-31", 100), ("2019-12-12", 4000)],
        ),
        (
            "/c01/b?comp=appendblock",
            "x-ms-meta-a: b",
            [("2015-04-05", 4), ("2021-12-02", 4), ("2022-11-02", 100)],
        ),
    ] {
        for (version, most) in limits {
            let sent = |bytes: u64| {
                decoded(&format!("PUT {target}\n{blob_type}\nContent-Length: {bytes}"), version, "")
            };
            assert!(sent(most * mib).is_ok(), "{target} {version}");
            assert_eq!(sent(most * mib + 1).map(drop), Err(too_large(most * mib)), "{target} {version}");
        }
    }
}

#[test]
fn sources() {
    let copy =
        take!(&format!("PUT /c01/b\n{SOURCE}\nx-ms-source-if-match: *\nx-ms-seal-blob: true"), CopyBlob);
    assert_eq!(copy.source().account, "a");
    let copy = copy.copy();
    assert_eq!((copy.pace, copy.seal), (CopyPace::Background, Some(true)));
    assert!(copy.source.conditions.if_match.is_some() && copy.preconditions.conditions.is_empty());
    let waiting = take_upload!(
        &format!("PUT /c01/b\n{SOURCE}\nx-ms-requires-sync: true\nx-ms-source-content-md5: {MD5}"),
        CopyBlob
    );
    assert!(matches!(waiting.pace, CopyPace::Waiting(sums) if sums.md5.is_some()));
    let put = take!(
        &format!(
            "PUT /c01/b\n{SOURCE}\nx-ms-blob-type: BlockBlob\nContent-Length: 0\n\
             x-ms-copy-source-blob-properties: false\nx-ms-copy-source-tag-option: COPY"
        ),
        PutBlobFromUrl
    );
    assert_eq!((put.copy().copy_properties, &put.copy().tags), (false, &CopyTags::Source));
    let block = take_upload!(
        &format!(
            "PUT /c01/b?comp=block&blockid=MQ%3D%3D\n{SOURCE}\nContent-Length: 0\n\
             x-ms-source-range: bytes=0-4194303"
        ),
        PutBlock
    );
    assert!(
        matches!(block.piece, Piece::FromUrl(from) if from.range.and_then(ByteRange::bytes) == Some(4_194_304))
    );
    let page = format!(
        "PUT /c01/b?comp=page\n{SOURCE}\nContent-Length: 0\nx-ms-page-write: update\nx-ms-range: bytes=0-511"
    );
    assert_eq!(code(&page), Err(MissingRequiredHeader));
    assert_eq!(code(&format!("{page}\nx-ms-source-range: bytes=0-1023")), Err(InvalidHeaderValue));
    assert_eq!(code(&format!("{page}\nx-ms-source-range: bytes=512-1023")), Ok(()));
}

#[test]
fn pages_and_appends() {
    let update = take_upload!(
        "PUT /c01/b?comp=page\nContent-Length: 512\nx-ms-page-write: Update\nRange: bytes=0-511\n\
         x-ms-if-sequence-number-le: 5",
        PutPages
    );
    assert_eq!((update.write.pages.start(), update.write.pages.end()), (0, 512));
    assert_eq!(update.write.sequence.at_most, Some(5));
    let clear = take!(
        "PUT /c01/b?comp=page\nContent-Length: 0\nx-ms-page-write: clear\nx-ms-range: bytes=512-1073741823",
        ClearPages
    );
    assert_eq!((clear.pages.start(), clear.pages.end()), (512, 1 << 30));
    let append = take_upload!(
        "PUT /c01/b?comp=appendblock\nContent-Length: 5\nx-ms-blob-condition-appendpos: 0\n\
         x-ms-blob-condition-maxsize: 6",
        AppendBlock
    );
    let framed = "PUT /c01/b?comp=appendblock\nContent-Length: 44\nx-ms-structured-content-length: 5\n\
                  x-ms-structured-body: XSM/1.0; properties=crc64";
    assert!(
        matches!(take_upload!(framed, AppendBlock).piece, Piece::Sent(upload) if upload.bytes == Some(5))
    );
    assert_eq!(append.append, AppendConditions { position: Some(0), max_bytes: Some(6) });
}

#[test]
fn block_lists_are_put() {
    let list = "<BlockList><Latest>MDAwMQ==</Latest></BlockList>";
    let head = "PUT /c01/b?comp=blocklist\nContent-Length: 1\nContent-Type: application/xml";
    let put = |more: &str| match decoded(&format!("{head}{more}"), ServiceVersion::NEWEST.text(), list) {
        Ok(Call::Operation(Operation::PutBlockList(put))) => Ok(put),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.code),
    };
    let plain = put("\nx-ms-blob-content-type: video/mp4").unwrap();
    assert_eq!(plain.blocks.len(), 1);
    assert_eq!(plain.new.http.content_type.as_deref(), Some("video/mp4"));
    assert_eq!(plain.list_checksums, Checksums { md5: None, crc64: Some(Crc64Sum::of(list.as_bytes())) });
    let md5 = Md5Sum::of(list.as_bytes());
    let checked = put(&format!("\nContent-MD5: {md5}")).unwrap();
    assert_eq!(checked.list_checksums, Checksums { md5: Some(md5), crc64: None });
    assert_eq!(checked.new.http, HttpProperties::default());
    assert_eq!(put(&format!("\nContent-MD5: {MD5}")), Err(Md5Mismatch));
    assert_eq!(put("\nx-ms-content-crc64: YeJLfssylmU="), Err(Crc64Mismatch));
}

#[test]
fn reads() {
    let range = |first, last| Some(ByteRange { first, last });
    for (headers, expected) in [
        ("", None),
        ("\nRange: bytes=0-", range(0, None)),
        ("\nRange: bytes=0-\nx-ms-range: bytes=1-2", range(1, Some(2))),
        ("\nRange: bytes=-5", None),
        ("\nRange: rubbish", None),
    ] {
        assert_eq!(take!(&format!("GET /c01/b{headers}"), GetBlob).range, expected, "{headers}");
    }
    let checked = take!("GET /c01/b\nRange: bytes=0-0\nx-ms-range-get-content-crc64: true", GetBlob);
    assert_eq!(checked.range_checksum, Some(RangeChecksum::Crc64));
    let snapshot = take!(&format!("GET /c01/b?snapshot={MOMENT}"), GetBlob);
    assert!(matches!(snapshot.revision, Revision::Snapshot(_)));
}

#[test]
fn leases() {
    let id = LeaseId::parse(ID).unwrap();
    let fixed = |seconds| LeaseDuration::from_seconds(seconds).unwrap();
    for (headers, expected) in [
        (
            "acquire\nx-ms-lease-duration: 15".to_owned(),
            LeaseAction::Acquire { duration: fixed(15), proposed: None },
        ),
        (
            format!("ACQUIRE\nx-ms-lease-duration: -1\nx-ms-proposed-lease-id: {ID}"),
            LeaseAction::Acquire { duration: LeaseDuration::Infinite, proposed: Some(id) },
        ),
        (format!("renew\nx-ms-lease-id: {ID}"), LeaseAction::Renew(id)),
        (
            format!("change\nx-ms-lease-id: {ID}\nx-ms-proposed-lease-id: {{{ID}}}"),
            LeaseAction::Change { from: id, to: id },
        ),
        (format!("release\nx-ms-lease-id: {ID}"), LeaseAction::Release(id)),
        ("break".to_owned(), LeaseAction::Break { period: None }),
        ("break\nx-ms-lease-break-period: 0".to_owned(), LeaseAction::Break { period: Some(Duration::ZERO) }),
    ] {
        let on_blob = newest(&format!("PUT /c01/b?comp=lease\nx-ms-lease-action: {headers}"));
        assert!(
            matches!(on_blob, Ok(Call::Operation(Operation::LeaseBlob { action, .. })) if action == expected),
            "{headers}"
        );
        let on_container =
            newest(&format!("PUT /c01?restype=container&comp=lease\nx-ms-lease-action: {headers}"));
        assert!(
            matches!(on_container, Ok(Call::Operation(Operation::LeaseContainer { action, .. })) if action == expected),
            "{headers}"
        );
    }
}

#[test]
fn lists_of_blobs() {
    let list = |query: &str| take_list(&format!("GET /c01?restype=container&comp=list{query}"));
    let all = list("");
    assert_eq!((all.page_size, all.delimiter, all.from), (5000, None, None));
    let some = list("&prefix=p&delimiter=%2F&maxresults=1&include=metadata,,Tags,tags,deleted&startFrom=x");
    assert_eq!((some.prefix.as_str(), some.delimiter.as_deref(), some.page_size), ("p", Some("/"), 1));
    assert_eq!(some.include, BlobInclude { metadata: true, tags: true, deleted: true, ..Default::default() });
    assert_eq!(some.from, Some(BlobMarker::AtName("x".to_owned())));
    assert_eq!(list("&delimiter=&include=&maxresults=999999").delimiter, None);
}

#[test]
fn properties_are_set_together_or_not_at_all() {
    for (headers, http, resize) in [
        ("", Some(HttpProperties::default()), None),
        (
            "\nx-ms-blob-content-type: a/b",
            Some(HttpProperties { content_type: Some("a/b".to_owned()), ..Default::default() }),
            None,
        ),
        ("\nx-ms-blob-content-length: 1024", None, Some(1024)),
        ("\nx-ms-sequence-number-action: increment", None, None),
    ] {
        let set = take!(&format!("PUT /c01/b?comp=properties{headers}"), SetBlobProperties);
        assert_eq!((set.http, set.resize), (http, resize), "{headers}");
    }
}

#[test]
fn keys_of_callers() {
    let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let sha256 = "Zmh6rfhivXdsj8GLjp+OIAiXFIVu4jOzkCpZHQ1fKSU=";
    let head = |sha256: &str| {
        format!(
            "HEAD /c01/b\nx-ms-encryption-key: {key}\nx-ms-encryption-key-sha256: {sha256}\n\
             x-ms-encryption-algorithm: AES256"
        )
    };
    assert_eq!(code(&head(sha256)), Ok(()));
    assert_eq!(code(&head(key)), Err(InvalidHeaderValue));
    assert_eq!(code(&head(sha256).replace("AES256", "ROT13")), Err(InvalidHeaderValue));
}

#[test]
fn policies_have_the_letters_of_containers() {
    let set = |letters: &str| {
        let body = format!(
            "<SignedIdentifiers><SignedIdentifier><Id>p</Id><AccessPolicy><Permission>{letters}</Permission>\
             </AccessPolicy></SignedIdentifier></SignedIdentifiers>"
        );
        let head = "PUT /c01?restype=container&comp=acl\nx-ms-blob-public-access: blob";
        decoded(head, "2021-08-06", &body).map_err(|error| error.code)
    };
    assert!(matches!(
        set("racwdl"),
        Ok(Call::Operation(Operation::SetContainerAcl { public_access: Some(PublicAccess::Blob), .. }))
    ));
    assert_eq!(set("rq").map(drop), Err(InvalidXmlDocument));
}

proptest! {
    #[test]
    fn any_headers_are_read_or_not(
        line in "(GET|PUT|DELETE|HEAD|POST) (/c01/b|/c01|/)\\?(restype=container&)?(comp=(list|page|block|blocklist|lease|tags|properties|pagelist|copy|tier|appendblock)&)?(blockid=MQ==|snapshot=x|prevsnapshot=|include=tags|maxresults=5|marker=2!|where=a='b')?",
        headers in proptest::collection::vec(
            "(x-ms-blob-type|x-ms-range|range|x-ms-copy-source|x-ms-lease-action|x-ms-lease-duration|content-length|x-ms-source-range|x-ms-page-write|x-ms-tags|if-match|x-ms-if-tags): (BlockBlob|PageBlob|bytes=0-511|http://127\\.0\\.0\\.1:10000/a/c01/b|acquire|break|-1|0|512|update|clear|a=b|a='b'|\\*|é)",
            0..6,
        ),
    ) {
        let _ = newest(&std::iter::once(line).chain(headers).collect::<Vec<_>>().join("\n"));
    }
}
