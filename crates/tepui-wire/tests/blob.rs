//! Whole answers of the Blob service, as they go over the wire.

mod snapshot;

use http::{HeaderMap, Response};
use snapshot::Snapshot;
use std::sync::LazyLock;
use std::time::Duration;
use tepui_digest::Checksum as _;
use tepui_model::access_policy::{AccessPolicy, SignedIdentifier};
use tepui_model::blob::*;
use tepui_model::metadata::Metadata;
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_wire::address::{AddressRules, Service, Target};
use tepui_wire::auth::Challenge;
use tepui_wire::blob::batch::{self, PartAnswer};
use tepui_wire::blob::reply::{BlobListWriter, Context, encode, overrides};
use tepui_wire::blob::request::Request;
use tepui_wire::blob::request::resource::Resource;
use tepui_wire::error_body::{self, ErrorFormat};
use tepui_wire::head::Head;
use tepui_wire::query::Query;
use tepui_wire::version::ServiceVersion;

/// When everything in these answers happened.
static CHANGED: LazyLock<Changed> = LazyLock::new(|| Changed(moment("2026-03-04T05:06:07.1234567Z")));

fn moment(text: &str) -> Timestamp {
    Timestamp::parse_iso(text).expect("a time")
}

/// The answer to `METHOD /path?query`, given what it asks for was done.
fn answer_in(version: &str, line: &str, reply: Reply) -> Response<Vec<u8>> {
    answer_by(version, line, |context, call| {
        let Call::Operation(operation) = call else { panic!("no operation: {call:?}") };
        encode(context, operation, reply).expect("an answer")
    })
}

fn answer_by(
    version: &str,
    line: &str,
    print: impl FnOnce(&Context<'_>, &Call) -> Response<Vec<u8>>,
) -> Response<Vec<u8>> {
    let (method, target) = line.split_once(' ').expect("a method and a target");
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let query = Query::parse(query);
    let target = Target {
        account: "tepuiacct".to_owned(),
        secondary: false,
        base: "http://127.0.0.1:10000/tepuiacct".to_owned(),
        raw_path: path.to_owned(),
        path: path[1..].to_owned(),
        host_style: false,
    };
    let head = Head {
        service: Service::Blob,
        method: &method.parse().expect("a method"),
        target: &target,
        path: &target.path,
        query: &query,
        headers: &HeaderMap::new(),
        case: None,
        version: ServiceVersion::parse(version).expect("a version"),
    };
    let rules = AddressRules::new(Service::Blob);
    let request = Request::read(&head, &rules).expect("a kind");
    let call = match request.prepare() {
        Ok(prepared) => prepared.call().clone(),
        // Of a write, whose answer does not depend on what was asked.
        Err(_) => {
            let resource = Resource::parse(head.path, &query).expect("a resource");
            Operation::UndeleteBlob { blob: resource.blob_path().expect("a blob") }.into()
        }
    };
    let said = overrides(&query);
    let context = Context { head, overrides: Some(&said), may_read_tags: true };
    print(&context, &call)
}

fn answer(line: &str, reply: Reply) -> Response<Vec<u8>> {
    answer_in("2026-02-06", line, reply)
}

fn metadata(pairs: &[(&str, &str)]) -> Metadata {
    let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Metadata::new(owned.collect()).expect("metadata")
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    Tags::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
        .expect("tags")
}

fn sums() -> Checksums {
    Checksums { md5: Some(Md5Sum::of(b"Hello World")), crc64: Some(Crc64Sum::of(b"Hello World")) }
}

fn written() -> Written {
    Written { changed: *CHANGED, version: None, encryption: Encryption::default() }
}

fn plain_state<T: From<&'static str>>() -> BlobState<T> {
    BlobState {
        changed: CHANGED.0,
        created: CHANGED.0,
        bytes: 11,
        of_type: OfType::Block,
        http: HttpProperties {
            content_type: Some(T::from("text/plain")),
            content_encoding: None,
            content_language: None,
            content_disposition: None,
            cache_control: None,
            content_md5: sums().md5.map(ContentMd5::from),
        },
        metadata: Metadata::default(),
        tags: Tags::default(),
        copy: None,
        encryption: Encryption::default(),
        immutability: None,
        legal_hold: None,
    }
}

fn plain<S>(state: S) -> BlobProperties<S> {
    let (tier, lease) = (Some(TierView::default()), Some(LeaseView::default()));
    BlobProperties { state, tier, lease, last_accessed: None, version: None }
}

/// A blob of which there is much to say.
fn rich_state<T: From<&'static str>>() -> BlobState<T> {
    let text = |text| Some(T::from(text));
    BlobState {
        http: HttpProperties {
            content_type: text("text/plain"),
            content_encoding: text("gzip"),
            content_language: text("en"),
            content_disposition: text("inline"),
            cache_control: text("no-cache"),
            content_md5: sums().md5.map(ContentMd5::from),
        },
        metadata: metadata(&[("Owner", "ana"), ("note", "a < b")]),
        tags: tags(&[("env", "prod")]),
        copy: Some(Box::new(CopyState {
            id: "0b77".to_owned(),
            source: "http://h/a/c/b".to_owned(),
            status: CopyStatus::Failed,
            progress: (5, 11),
            completed: Some(CHANGED.0),
            description: Some("404 ResourceNotFound".to_owned()),
            incremental: Some(IncrementalCopy { destination_snapshot: Some(CHANGED.0) }),
        })),
        encryption: Encryption { key: None, secret: None, scope: Some("scope".to_owned()) },
        immutability: Some(ImmutabilityPolicy { until: CHANGED.0, mode: ImmutabilityMode::Locked }),
        legal_hold: Some(true),
        ..plain_state()
    }
}

fn rich<S>(state: S) -> BlobProperties<S> {
    BlobProperties {
        state,
        tier: Some(TierView {
            tier: AccessTier::Archive,
            inferred: false,
            changed: Some(CHANGED.0),
            archive_status: Some(ArchiveStatus::ToHot),
            rehydrate_priority: Some(RehydratePriority::High),
        }),
        lease: Some(LeaseView { state: LeaseState::Leased, duration: Some(LeaseDuration::Infinite) }),
        last_accessed: Some(CHANGED.0),
        version: Some(VersionView { id: CHANGED.0, is_current: true }),
    }
}

fn content(
    properties: BlobProperties,
    range: Option<std::ops::RangeInclusive<u64>>,
    checksums: Checksums,
) -> Reply {
    Reply::Content(Box::new(Content { properties, range, checksums }))
}

#[test]
fn blobs_are_read() {
    let none = Checksums::default();
    let range_md5 = Checksums { md5: Some(Md5Sum::of(b"H")), crc64: None };
    let append = OfType::Append { committed_blocks: 3, sealed: true };
    let of =
        |of_type| BlobProperties { tier: None, lease: None, ..plain(BlobState { of_type, ..plain_state() }) };
    let (plain, rich) = (|| plain(plain_state()), || rich(rich_state()));
    Snapshot::default()
        .add("whole", &answer("GET /c01/b", content(plain(), None, none)))
        .add("much to say", &answer("GET /c01/b", content(rich(), None, none)))
        .add("with the tier", &answer_in("2026-10-06", "GET /c01/b", content(plain(), None, none)))
        .add("a range", &answer("GET /c01/b", content(plain(), Some(6..=10), none)))
        .add("a range and its sum", &answer("GET /c01/b", content(plain(), Some(0..=0), range_md5)))
        .add("as a SAS says", &answer("GET /c01/b?rsct=a%2Fb&rscd=file", content(plain(), None, none)))
        .add("in an old version", &answer_in("2015-04-05", "GET /c01/b", content(rich(), None, none)))
        .add("properties", &answer("HEAD /c01/b", Reply::Blob(Box::new(plain()))))
        .add("properties, much to say", &answer("HEAD /c01/b", Reply::Blob(Box::new(rich()))))
        .add("properties of an append blob", &answer("HEAD /c01/b", Reply::Blob(Box::new(of(append)))))
        .add(
            "properties of a page blob",
            &answer("HEAD /c01/b", Reply::Blob(Box::new(of(OfType::Page { sequence_number: 7 })))),
        )
        .add("metadata", &answer("HEAD /c01/b?comp=metadata", Reply::Blob(Box::new(rich()))))
        .check("blob_reads");
}

#[test]
fn blobs_are_written() {
    let key = CustomerKey { sha256: [7; 32] };
    let versioned = Written {
        version: Some(CHANGED.0),
        encryption: Encryption { key: Some(key), secret: None, scope: Some("s".to_owned()) },
        ..written()
    };
    let crc64 = Checksums { md5: None, crc64: sums().crc64 };
    let put = |written| Reply::BlobPut { written, checksums: sums() };
    Snapshot::default()
        .add("put", &answer("PUT /c01/b", put(written())))
        .add("put, versioned and encrypted", &answer("PUT /c01/b", put(versioned.clone())))
        .add("put in an old version", &answer_in("2015-04-05", "PUT /c01/b", put(written())))
        .add(
            "block",
            &answer("PUT /c01/b", Reply::BlockPut { checksums: crc64, encryption: Encryption::default() }),
        )
        .add(
            "block list",
            &answer("PUT /c01/b", Reply::BlockListPut { written: written(), checksums: crc64 }),
        )
        .add(
            "append",
            &answer(
                "PUT /c01/b",
                Reply::Appended { written: written(), checksums: crc64, offset: 5, committed_blocks: 2 },
            ),
        )
        .add(
            "pages",
            &answer(
                "PUT /c01/b",
                Reply::PagesPut { written: written(), checksums: Checksums::default(), sequence_number: 7 },
            ),
        )
        .add("sealed", &answer("PUT /c01/b", Reply::Sealed(*CHANGED)))
        .add("metadata set", &answer("PUT /c01/b", Reply::MetadataSet(versioned.clone())))
        .add(
            "properties set",
            &answer("PUT /c01/b", Reply::PropertiesSet { written: written(), sequence_number: Some(1) }),
        )
        .add("snapshot", &answer("PUT /c01/b", Reply::Snapshot { written: versioned, snapshot: CHANGED.0 }))
        .add("deleted", &answer("DELETE /c01/b", Reply::BlobDeleted { permanently: true }))
        .add("deleted softly", &answer("DELETE /c01/b", Reply::BlobDeleted { permanently: false }))
        .add("undeleted", &answer("PUT /c01/b", Reply::BlobUndeleted))
        .add("tier set", &answer("PUT /c01/b", Reply::TierSet { rehydrating: false }))
        .add("tier to be set", &answer("PUT /c01/b", Reply::TierSet { rehydrating: true }))
        .add("tags set", &answer("PUT /c01/b", Reply::TagsSet))
        .add("legal hold", &answer("PUT /c01/b", Reply::LegalHoldSet(true)))
        .add(
            "immutable",
            &answer(
                "PUT /c01/b",
                Reply::ImmutabilityPolicySet(ImmutabilityPolicy {
                    until: CHANGED.0,
                    mode: ImmutabilityMode::Unlocked,
                }),
            ),
        )
        .add("no longer immutable", &answer("PUT /c01/b", Reply::ImmutabilityPolicyDeleted))
        .check("blob_writes");
}

#[test]
fn leases_and_copies() {
    let id = LeaseId::parse("5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11").expect("an id");
    let lease = |outcome| answer("PUT /c01/b", Reply::Lease { changed: *CHANGED, outcome });
    let copy = |status, checksums| {
        answer(
            "PUT /c01/b",
            Reply::CopyStarted { written: written(), copy_id: "0b77".to_owned(), status, checksums },
        )
    };
    Snapshot::default()
        .add("acquired", &lease(LeaseOutcome::Acquired(id)))
        .add("renewed", &lease(LeaseOutcome::Renewed(id)))
        .add("changed", &lease(LeaseOutcome::Changed(id)))
        .add("released", &lease(LeaseOutcome::Released))
        .add("broken", &lease(LeaseOutcome::Broken(Duration::from_secs(5))))
        .add("copied", &copy(CopyStatus::Success, sums()))
        .add("being copied", &copy(CopyStatus::Pending, Checksums::default()))
        .add("aborted", &answer("PUT /c01/b", Reply::CopyAborted))
        .check("blob_leases_and_copies");
}

#[test]
fn blocks_pages_and_tags() {
    let block = |id: &str, bytes| ListedBlock { id: BlockId::parse(id).expect("an id"), bytes };
    let blocks = |committed, uncommitted| {
        let committed_as = Some((*CHANGED, 11)).filter(|_| committed != Some(vec![]));
        answer(
            "GET /c01/b?comp=blocklist",
            Reply::BlockList(BlockList { committed_as, committed, uncommitted }),
        )
    };
    let range = |first, last| ByteRange { first, last: Some(last) };
    let pages = |ranges, next| {
        let pages = PageRanges { changed: *CHANGED, blob_bytes: 2048, ranges, next };
        answer("GET /c01/b?comp=pagelist", Reply::PageRanges(pages))
    };
    let (kept, cleared) = ((PageState::Written, range(0, 511)), (PageState::Cleared, range(512, 1023)));
    Snapshot::default()
        .add("committed blocks", &blocks(Some(vec![block("MQ==", 3)]), None))
        .add("all blocks", &blocks(Some(vec![]), Some(vec![block("MDAwMQ==", 4_194_304)])))
        .add("no pages", &pages(vec![], None))
        .add("pages", &pages(vec![kept, cleared], None))
        .add("more pages", &pages(vec![kept], Some(1024)))
        .add("tags", &answer("GET /c01/b?comp=tags", Reply::Tags(tags(&[("env", "prod"), ("empty", "")]))))
        .add("no tags", &answer("GET /c01/b?comp=tags", Reply::Tags(Tags::default())))
        .check("blob_blocks_pages_and_tags");
}

fn entry<'a>(
    name: &'a str,
    revision: Revision,
    properties: BlobProperties<&'a BlobState<&'a str>>,
) -> ListedBlob<'a> {
    ListedBlob::Blob(BlobEntry {
        name,
        revision,
        deleted: None,
        has_versions_only: false,
        content: ListedContent::Committed(properties),
    })
}

fn print_list(
    context: &Context<'_>,
    call: &Call,
    blobs: &[ListedBlob<'_>],
    next: Option<&BlobMarker>,
) -> Response<Vec<u8>> {
    let Call::List(list) = call else { panic!("no list: {call:?}") };
    let mut writer = BlobListWriter::new(context, list);
    blobs.iter().for_each(|listed| writer.accept(listed));
    let said = writer.bytes();
    let response = writer.finish(next);
    assert!((said..said + 200).contains(&response.body().len()), "only the end was missing");
    response
}

#[test]
fn lists_of_blobs() {
    let list = |version, query: &str, blobs: Vec<ListedBlob<'_>>, next: Option<BlobMarker>| {
        let line = format!("GET /c01?restype=container&comp=list{query}");
        answer_by(version, &line, |context, call| print_list(context, call, &blobs, next.as_ref()))
    };
    let prefix = ListedBlob::Prefix("p0/");
    let next = BlobMarker::AfterPrefix("p0/".to_owned());
    let everything =
        "&include=metadata,tags,copy,immutabilitypolicy,legalhold,versions,deleted,uncommittedblobs";
    let (plain_state, rich_state) = (plain_state(), rich_state());
    let (plain, rich) = (|| plain(&plain_state), || rich(&rich_state));
    let snapshot = || BlobProperties { lease: None, ..plain() };
    let deleted = ListedBlob::Blob(BlobEntry {
        name: "gone",
        revision: Revision::Base,
        deleted: Some(SoftDeleted { deleted: CHANGED.0, remaining_days: 6 }),
        has_versions_only: true,
        content: ListedContent::Committed(snapshot()),
    });
    let uncommitted = ListedBlob::Blob(BlobEntry {
        name: "soon",
        revision: Revision::Base,
        deleted: None,
        has_versions_only: false,
        content: ListedContent::Uncommitted { lease: LeaseView::default() },
    });
    let hidden = BlobState {
        encryption: Encryption { key: Some(CustomerKey { sha256: [7; 32] }), ..Encryption::default() },
        metadata: metadata(&[("secret", "x")]),
        ..plain_state.clone()
    };
    let append =
        BlobState { of_type: OfType::Append { committed_blocks: 1, sealed: true }, ..plain_state.clone() };
    let append = BlobProperties { state: &append, tier: None, ..plain() };
    let odd = || {
        vec![entry("dir1/file\u{FFFF}", Revision::Base, plain()), entry("a & <b>", Revision::Base, plain())]
    };
    Snapshot::default()
        .add("none", &list("2026-02-06", "", vec![], None))
        .add("one", &list("2026-02-06", "", vec![entry("hello.txt", Revision::Base, plain())], None))
        .add(
            "a page with a prefix",
            &list("2026-02-06", "&prefix=p&delimiter=%2F&maxresults=1", vec![prefix], Some(next)),
        )
        .add(
            "everything",
            &list(
                "2026-02-06",
                everything,
                vec![
                    entry("a", Revision::Snapshot(CHANGED.0), snapshot()),
                    entry("a", Revision::Base, rich()),
                    deleted,
                    uncommitted,
                    entry("k", Revision::Base, BlobProperties { state: &hidden, ..plain() }),
                    entry("log", Revision::Base, append),
                ],
                None,
            ),
        )
        .add("odd names", &list("2026-02-06", "&prefix=%EF%BF%BF", odd(), None))
        .add("odd names in an older version", &list("2020-12-06", "", odd(), None))
        .add("in an old version", &list("2012-02-12", "", vec![entry("a", Revision::Base, rich())], None))
        .check("blob_lists");
}

#[test]
fn containers() {
    let properties = ContainerProperties {
        changed: *CHANGED,
        metadata: metadata(&[("owner", "ana")]),
        public_access: Some(PublicAccess::Blob),
        lease: LeaseView { state: LeaseState::Leased, duration: LeaseDuration::from_seconds(15) },
        encryption: ContainerEncryption::default(),
    };
    let private = ContainerProperties {
        metadata: Metadata::default(),
        public_access: None,
        lease: LeaseView { state: LeaseState::Breaking, duration: LeaseDuration::from_seconds(15) },
        ..properties.clone()
    };
    let listed = |name: &str, properties: &ContainerProperties, deleted| ListedContainer {
        name: name.to_owned(),
        properties: properties.clone(),
        deleted,
    };
    let gone = DeletedContainer {
        version: "01D6".to_owned(),
        since: SoftDeleted { deleted: CHANGED.0, remaining_days: 6 },
    };
    let page = ContainerPage {
        containers: vec![listed("c01", &properties, None), listed("gone", &private, Some(gone))],
        next: Some(ContainerMarker { name: "d01".to_owned(), deleted_version: None }),
        ..ContainerPage::default()
    };
    let policy = AccessPolicy {
        start: Some(moment("2026-01-02T03:04:05Z")),
        expiry: None,
        permission: Some("rl".to_owned()),
    };
    let acl = Reply::ContainerAcl {
        changed: *CHANGED,
        public_access: Some(PublicAccess::Container),
        identifiers: vec![SignedIdentifier { id: "p1".to_owned(), policy: Some(policy) }],
    };
    let on = "?restype=container";
    let plain_list = "GET /?comp=list&prefix=&marker=";
    Snapshot::default()
        .add("created", &answer(&format!("PUT /c01{on}"), Reply::ContainerCreated(*CHANGED)))
        .add("properties", &answer(&format!("HEAD /c01{on}"), Reply::Container(Box::new(properties.clone()))))
        .add("properties, private", &answer(&format!("HEAD /c01{on}"), Reply::Container(Box::new(private))))
        .add(
            "metadata",
            &answer(&format!("HEAD /c01{on}&comp=metadata"), Reply::Container(Box::new(properties))),
        )
        .add(
            "metadata set",
            &answer(&format!("PUT /c01{on}&comp=metadata"), Reply::ContainerMetadataSet(*CHANGED)),
        )
        .add("policies", &answer(&format!("GET /c01{on}&comp=acl"), acl))
        .add("policies set", &answer(&format!("PUT /c01{on}&comp=acl"), Reply::ContainerAclSet(*CHANGED)))
        .add("deleted", &answer(&format!("DELETE /c01{on}"), Reply::ContainerDeleted))
        .add("restored", &answer(&format!("PUT /c01{on}"), Reply::ContainerRestored))
        .add("list of none", &answer(plain_list, Reply::Containers(ContainerPage::default())))
        .add(
            "list",
            &answer(
                "GET /?comp=list&include=metadata,deleted&maxresults=2&prefix=c",
                Reply::Containers(page),
            ),
        )
        .check("containers");
}

#[test]
fn the_service() {
    let website = StaticWebsite {
        enabled: true,
        index_document: Some("index.html".to_owned()),
        error_document: Some("404.html".to_owned()),
        default_index_document: None,
    };
    let settings = BlobServiceProperties {
        default_version: Some("2021-08-06".to_owned()),
        delete_retention: DeleteRetention { days: Some(7), allow_permanent_delete: false },
        static_website: website,
        ..BlobServiceProperties::default()
    };
    let found = FoundBlob {
        container: "c01".to_owned(),
        name: "hello.txt".to_owned(),
        revision: Revision::Version(CHANGED.0),
        is_current_version: true,
        tags: tags(&[("env", "prod")]),
    };
    let next = FoundMarker { container: "c01".to_owned(), blob: "next".to_owned(), revision: Revision::Base };
    let on = "/?restype=service&comp=properties";
    let information = "GET /?restype=account&comp=properties";
    Snapshot::default()
        .add("properties", &answer(&format!("GET {on}"), Reply::ServiceProperties(Box::default())))
        .add(
            "properties that were set",
            &answer(&format!("GET {on}"), Reply::ServiceProperties(Box::new(settings.clone()))),
        )
        .add(
            "properties in an old version",
            &answer_in("2015-04-05", &format!("GET {on}"), Reply::ServiceProperties(Box::new(settings))),
        )
        .add("properties set", &answer(&format!("PUT {on}"), Reply::ServicePropertiesSet))
        .add(
            "stats",
            &answer("GET /?restype=service&comp=stats", Reply::ServiceStats { last_sync: CHANGED.0 }),
        )
        .add("account", &answer(information, Reply::AccountInformation))
        .add("account in an old version", &answer_in("2018-03-28", information, Reply::AccountInformation))
        .add(
            "found by tags",
            &answer(
                "GET /?comp=blobs&where=%22env%22%3D%27prod%27&maxresults=1",
                Reply::Found(FoundPage { blobs: vec![found], next: Some(next), ..FoundPage::default() }),
            ),
        )
        .check("blob_service");
}

#[test]
fn errors() {
    let answer = |error: &ServiceError| {
        error_body::encode(
            error,
            ErrorFormat::Xml,
            Service::Blob,
            "id",
            moment("2026-03-04T05:06:07Z"),
            &Challenge::default(),
        )
    };
    let source = ServiceError::new(ErrorCode::CannotVerifyCopySource)
        .with_status(404)
        .with_message("The specified blob does not exist.")
        .with_detail("CopySourceStatusCode", "404")
        .with_detail("CopySourceErrorCode", "BlobNotFound")
        .with_detail("CopySourceErrorMessage", "The specified blob does not exist.");
    let said = Checksums { md5: Some(Md5Sum([0; 16])), crc64: None };
    Snapshot::default()
        .add("not modified", &answer(&ServiceError::new(ErrorCode::ConditionNotMet).with_status(304)))
        .add("a condition", &answer(&ErrorCode::ConditionNotMet.into()))
        .add("a range", &answer(&ServiceError::new(ErrorCode::InvalidRange).with_resource_bytes(0)))
        .add("a source", &answer(&source))
        .add("a checksum", &answer(&said.check(&sums()).expect_err("another sum")))
        .check("blob_errors");
}

#[test]
fn batches() {
    let now = moment("2026-03-04T05:06:07Z");
    let finish = |mut response: Response<Vec<u8>>| {
        let version = ServiceVersion::parse("2021-08-06");
        error_body::finish(response.headers_mut(), Service::Blob, version, "id", &HeaderMap::new());
        response
    };
    let missing: ServiceError = ErrorCode::BlobNotFound.into();
    let answers = [
        PartAnswer {
            content_id: Some("0".to_owned()),
            response: finish(answer("DELETE /c01/b", Reply::BlobDeleted { permanently: true })),
            reason: None,
        },
        PartAnswer {
            content_id: None,
            response: finish(error_body::encode(
                &missing,
                ErrorFormat::Xml,
                Service::Blob,
                "id",
                now,
                &Challenge::default(),
            )),
            reason: Some(missing.message().to_owned()),
        },
    ];
    Snapshot::default().add("one done, one not", &batch::encode("1", &answers)).check("blob_batches");
}
