//! Replies of blobs.

use crate::arrived::{Arrived, Signed, answered, any_remote};
use crate::blob::{blob_name, block_id, container, encryption, http, lease_id, policy, tags, text, tier};
use crate::some::{identifiers, metadata, second, time};
use http::Response;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::time::Duration;
use tepui_model::Timestamp;
use tepui_model::blob::{
    AccessTier, AppendBlock, AppendConditions, ArchiveStatus, BlobEntry, BlobInclude, BlobMarker, BlobPath,
    BlobProperties, BlobServiceProperties, BlobSink, BlobState, BlockList, BlockListType, ByteRange, Call,
    Changed, Checksums, Conditions, ContainerEncryption, ContainerMarker, ContainerName, ContainerPage,
    ContainerProperties, Content, CopyBlob, CopyPace, CopySource, CopyState, CopyStatus, CopyTags, Crc64Sum,
    DeleteBlob, DeleteRetention, DeletedContainer, Detail, Encryption, FindBlobsByTags, FoundBlob, FoundPage,
    GetBlob, GetPageRanges, HttpProperties, LeaseAction, LeaseDuration, LeaseId, LeaseOutcome, LeaseState,
    LeaseView, ListBlobs, ListContainers, ListedBlob, ListedBlock, ListedContainer, ListedContent, Md5Sum,
    NewBlob, OfType, Operation, PageRanges, PageState, Piece, Preconditions, PublicAccess, PutBlob, PutBlock,
    RangeChecksum, RehydratePriority, Reply, Revision, SetBlobProperties, SoftDeleted, SourcePlace,
    StaticWebsite, TagComparison, TagFilter, TierConditions, TierView, Upload, UploadOperation, VersionView,
    Written, etag,
};
use tepui_wire::address::Service;
use tepui_wire::blob::marker;
use tepui_wire::blob::reply::read::{
    RemoteBlob, RemoteChanged, RemoteContainer, RemoteContent, RemoteEntry, RemoteFound, RemoteLease,
    RemoteReply, RemoteWritten, read,
};
use tepui_wire::blob::reply::{BlobListWriter, Context, encode};
use tepui_wire::blob::request::write::{Options, write};
use tepui_wire::remote::{RemoteService, ReplyError};
use tepui_wire::version::ServiceVersion;
use tepui_wire::xml::GeoReplication;

fn with_context<T>(remote: &RemoteService, call: &Call, then: impl FnOnce(&Context<'_>) -> T) -> T {
    let request = write(remote, call, &Options::default()).unwrap();
    let arrived = Arrived::new(remote, request, Signed::SharedKey);
    then(&Context { head: arrived.head(Service::Blob), overrides: None, may_read_tags: true })
}

fn replied(remote: &RemoteService, call: impl Into<Call>, reply: Reply) -> Result<RemoteReply, ReplyError> {
    let call = call.into();
    let response = with_context(remote, &call, |context| match &call {
        Call::Operation(operation) => encode(context, operation, reply).unwrap(),
        Call::Upload(operation) => encode(context, operation, reply).unwrap(),
        Call::List(_) | Call::Batch { .. } => panic!("not answered so: {call:?}"),
    });
    read(&call, remote.version(), &answered(response))
}

fn newest() -> impl Strategy<Value = RemoteService> {
    any_remote(Service::Blob).prop_map(|remote| remote.with_version(ServiceVersion::NEWEST))
}

fn of_seconds(time: Timestamp) -> Timestamp {
    Timestamp::parse_http(&time.to_http()).unwrap()
}

fn changed(at: Timestamp) -> RemoteChanged {
    RemoteChanged { etag: format!("\"{}\"", etag::to_text(at)), last_modified: of_seconds(at) }
}

fn lease() -> impl Strategy<Value = LeaseView> {
    prop_oneof![
        Just(LeaseView::default()),
        Just(LeaseView { state: LeaseState::Broken, duration: None }),
        Just(LeaseView { state: LeaseState::Leased, duration: Some(LeaseDuration::Infinite) }),
        Just(LeaseView { state: LeaseState::Leased, duration: LeaseDuration::from_seconds(15) }),
    ]
}

fn remote_lease(lease: &LeaseView) -> RemoteLease {
    let is_infinite = lease.duration.map(|duration| duration == LeaseDuration::Infinite);
    RemoteLease { state: lease.state, is_infinite }
}

prop_compose! {
    fn copy_state()(id in "[a-z0-9-]{1,9}", done in 0u64..9, completed in option::of(second()), description in text(), snapshot in option::of(time())) -> CopyState {
        CopyState {
            id,
            source: "https://example.com/c/b".to_owned(),
            status: CopyStatus::Pending,
            progress: (done, 9),
            completed,
            // The header of a description is no text of people.
            description: description.filter(|text| text.is_ascii()),
            incremental: snapshot.map(|snapshot| tepui_model::blob::IncrementalCopy { destination_snapshot: Some(snapshot) }),
        }
    }
}

fn of_type() -> impl Strategy<Value = OfType> {
    prop_oneof![
        Just(OfType::Block),
        (any::<bool>(), 0u32..9)
            .prop_map(|(sealed, committed_blocks)| OfType::Append { committed_blocks, sealed }),
        (0u64..9).prop_map(|sequence_number| OfType::Page { sequence_number }),
    ]
}

fn tier_view() -> impl Strategy<Value = TierView> {
    let archive = option::of(Just((ArchiveStatus::ToCool, RehydratePriority::High)));
    (tier(), any::<bool>(), option::of(second()), archive).prop_map(|(tier, inferred, changed, archive)| {
        TierView {
            tier,
            inferred,
            changed,
            archive_status: archive.map(|(status, _)| status),
            rehydrate_priority: archive.map(|(_, priority)| priority),
        }
    })
}

/// Header values of replies are read as ASCII.
fn plain(http: HttpProperties) -> HttpProperties {
    let plain = |text: Option<String>| text.filter(|text| text.is_ascii());
    HttpProperties {
        content_type: plain(http.content_type),
        content_encoding: plain(http.content_encoding),
        content_language: plain(http.content_language),
        content_disposition: plain(http.content_disposition),
        cache_control: plain(http.cache_control),
        content_md5: http.content_md5,
    }
}

prop_compose! {
    fn state()(at in time(), created in second(), bytes: u64, of_type in of_type(), http in http(), metadata in metadata(), tags in tags(),
        copy in option::of(copy_state()), encryption in encryption(), immutability in option::of(policy()), legal_hold in option::of(any::<bool>())) -> BlobState {
        BlobState {
            changed: at, created, bytes, of_type, http: plain(http), metadata, tags, copy: copy.map(Box::new),
            encryption: encryption.without_secret(), immutability, legal_hold,
        }
    }
}

fn properties() -> impl Strategy<Value = BlobProperties> {
    let version = option::of((time(), any::<bool>()))
        .prop_map(|version| version.map(|(id, is_current)| VersionView { id, is_current }));
    (state(), option::of(tier_view()), option::of(lease()), option::of(second()), version).prop_map(
        |(state, tier, lease, last_accessed, version)| BlobProperties {
            state,
            tier,
            lease,
            last_accessed,
            version,
        },
    )
}

fn remote_blob(properties: &BlobProperties) -> RemoteBlob {
    let state = &properties.state;
    RemoteBlob {
        changed: changed(state.changed),
        created: Some(state.created),
        bytes: state.bytes,
        of_type: state.of_type,
        http: state.http.clone(),
        metadata: state.metadata.clone(),
        tag_count: state.tags.len(),
        tier: properties.tier,
        lease: properties.lease.as_ref().map(remote_lease),
        copy: state.copy.clone(),
        version: properties.version,
        encryption: state.encryption.clone(),
        immutability: state.immutability,
        legal_hold: state.legal_hold,
        last_accessed: properties.last_accessed,
    }
}

fn path(container: &ContainerName) -> BlobPath {
    BlobPath { container: container.clone(), blob: tepui_model::blob::BlobName::parse("dir/b c").unwrap() }
}

fn get_properties(container: &ContainerName, detail: Detail) -> Operation {
    Operation::GetBlobProperties {
        blob: path(container),
        revision: Revision::Base,
        detail,
        preconditions: Preconditions::default(),
        encryption: Encryption::default(),
    }
}

const EVERYTHING: BlobInclude = BlobInclude {
    snapshots: true,
    metadata: true,
    uncommitted: true,
    copy: true,
    deleted: true,
    tags: true,
    versions: true,
    deleted_with_versions: true,
    immutability_policy: true,
    legal_hold: true,
};

fn list_blobs(container: &ContainerName) -> ListBlobs {
    ListBlobs {
        container: container.clone(),
        prefix: String::new(),
        delimiter: None,
        from: None,
        page_size: 5000,
        include: EVERYTHING,
    }
}

fn borrowed(state: &BlobState) -> BlobState<&str> {
    BlobState {
        changed: state.changed,
        created: state.created,
        bytes: state.bytes,
        of_type: state.of_type,
        http: HttpProperties {
            content_type: state.http.content_type.as_deref(),
            content_encoding: state.http.content_encoding.as_deref(),
            content_language: state.http.content_language.as_deref(),
            content_disposition: state.http.content_disposition.as_deref(),
            cache_control: state.http.cache_control.as_deref(),
            content_md5: state.http.content_md5.clone(),
        },
        metadata: state.metadata.clone(),
        tags: state.tags.clone(),
        copy: state.copy.clone(),
        encryption: state.encryption.clone(),
        immutability: state.immutability,
        legal_hold: state.legal_hold,
    }
}

/// Lists show what metadata says to people, and none of what is encrypted with a caller's key.
fn listed_metadata(state: &BlobState) -> tepui_model::metadata::Metadata {
    if state.encryption.key.is_some() {
        return Default::default();
    }
    let said = |value: &str| tepui_wire::metadata::readable(value).bytes().map(char::from).collect();
    let pairs = state.metadata.iter().map(|(name, value)| (name.to_owned(), said(value)));
    tepui_model::metadata::Metadata::from_stored(pairs.collect())
}

proptest! {
    #[test]
    fn blobs_are_read_as_they_were_replied(
        remote in newest(),
        container in container(),
        properties in properties(),
        range in option::of((0u64..100, 0u64..100)),
        md5: [u8; 16],
    ) {
        let operation = get_properties(&container, Detail::Properties);
        let expected = remote_blob(&properties);
        let received = replied(&remote, operation.clone(), Reply::Blob(Box::new(properties.clone())));
        prop_assert_eq!(received, Ok(RemoteReply::Blob(Box::new(expected.clone()))));

        let operation = get_properties(&container, Detail::Metadata);
        let received = replied(&remote, operation.clone(), Reply::Blob(Box::new(properties.clone())));
        let metadata = properties.state.metadata.clone();
        prop_assert_eq!(received, Ok(RemoteReply::Metadata { changed: expected.changed.clone(), metadata }));

        let operation = Operation::GetBlob(GetBlob {
            blob: path(&container),
            revision: Revision::Base,
            range: range.map(|(first, more)| ByteRange { first, last: Some(first + more) }),
            range_checksum: range.map(|_| RangeChecksum::Md5),
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        });
        let range = range.map(|(first, more)| first..=first + more);
        let checksums = match range {
            Some(_) => Checksums { md5: Some(Md5Sum(md5)), crc64: None },
            None => Checksums::default(),
        };
        let content = Content { properties, range: range.clone(), checksums };
        let received = replied(&remote, operation.clone(), Reply::Content(Box::new(content)));
        let expected = RemoteContent { blob: expected, range, checksums };
        prop_assert_eq!(received, Ok(RemoteReply::Content(Box::new(expected))));
    }

    #[test]
    fn lists_of_blobs_are_read_as_they_were_replied(
        remote in newest(),
        container in container(),
        entries in vec((any::<String>().prop_filter("a name", |name| !name.is_empty()), properties(), option::of(time())), 0..4),
        prefix in blob_name(),
        deleted in option::of(second()),
        next in option::of(blob_name()),
    ) {
        let list = list_blobs(&container);
        let call = Call::List(list.clone());
        let next = next.map(|name| BlobMarker::At(name, Revision::Base));
        let deleted = deleted.map(|deleted| SoftDeleted { deleted, remaining_days: 7 });
        let mut expected = vec![RemoteEntry::Prefix(prefix.to_string())];
        let response: Response<Vec<u8>> = with_context(&remote, &call, |context| {
            let mut writer = BlobListWriter::new(context, &list);
            writer.accept(&ListedBlob::Prefix(prefix.as_str()));
            for (name, properties, snapshot) in &entries {
                let BlobProperties { tier, lease, last_accessed, version, .. } = *properties;
                let state = borrowed(&properties.state);
                writer.accept(&ListedBlob::Blob(BlobEntry {
                    name,
                    revision: snapshot.map_or(Revision::Base, Revision::Snapshot),
                    deleted: deleted.clone(),
                    has_versions_only: false,
                    content: ListedContent::Committed(
                        BlobProperties { state: (), tier, lease, last_accessed, version }.of(&state),
                    ),
                }));
                let mut blob = remote_blob(properties);
                blob.metadata = listed_metadata(&properties.state);
                if let OfType::Append { committed_blocks, .. } = &mut blob.of_type {
                    *committed_blocks = 0;
                }
                blob.lease = blob.lease.filter(|_| deleted.is_none());
                expected.push(RemoteEntry::Blob {
                    name: name.clone(),
                    snapshot: *snapshot,
                    deleted: deleted.clone(),
                    has_versions_only: false,
                    blob: Some(Box::new(blob)),
                    tags: properties.state.tags.clone(),
                });
            }
            let lease = LeaseView::default();
            writer.accept(&ListedBlob::Blob(BlobEntry {
                name: "blocks",
                revision: Revision::Base,
                deleted: None,
                has_versions_only: false,
                content: ListedContent::Uncommitted { lease },
            }));
            writer.finish(next.as_ref())
        });
        expected.push(RemoteEntry::Blob {
            name: "blocks".to_owned(),
            snapshot: None,
            deleted: None,
            has_versions_only: false,
            blob: None,
            tags: Default::default(),
        });
        let next = next.as_ref().map(marker::print_blobs);
        let received = read(&call, remote.version(), &answered(response));
        prop_assert_eq!(received, Ok(RemoteReply::Blobs { entries: expected, next }));
    }

    #[test]
    fn containers_are_read_as_they_were_replied(
        remote in newest(),
        names in vec(container(), 1..4),
        at in time(),
        metadata in metadata(),
        lease in lease(),
        public_access in option::of(Just(PublicAccess::Blob)),
        scope in "[a-z]{3,9}",
        deny_override: bool,
        deleted in option::of(second()),
        identifiers in identifiers("[rwdl]{1,4}"),
    ) {
        // What people read in lists is what was sent in headers, as long as it is ASCII.
        let is_ascii = metadata.iter().all(|(_, value)| value.is_ascii());
        let metadata = if is_ascii { metadata } else { Default::default() };
        let encryption = ContainerEncryption { default_scope: scope, deny_override };
        let properties = ContainerProperties { changed: Changed(at), metadata: metadata.clone(), public_access, lease, encryption: encryption.clone() };
        let expected = |name: &ContainerName, deleted| RemoteContainer {
            name: name.to_string(),
            changed: changed(at),
            metadata: metadata.clone(),
            public_access,
            lease: remote_lease(&lease),
            encryption: encryption.clone(),
            deleted,
        };
        let get = |detail| Operation::GetContainer { container: names[0].clone(), preconditions: Preconditions::default(), detail };
        let received = replied(&remote, get(Detail::Properties), Reply::Container(Box::new(properties.clone())));
        prop_assert_eq!(received, Ok(RemoteReply::Container(Box::new(expected(&names[0], None)))));

        let deleted = deleted.map(|deleted| DeletedContainer {
            version: "000000000000002A".to_owned(),
            since: SoftDeleted { deleted, remaining_days: 3 },
        });
        let listed = names.iter().map(|name| ListedContainer { name: name.to_string(), properties: properties.clone(), deleted: deleted.clone() });
        let next = ContainerMarker { name: "zzz".to_owned(), deleted_version: None };
        let page = ContainerPage { containers: listed.collect(), next: Some(next.clone()), ..ContainerPage::default() };
        let list = Operation::ListContainers(ListContainers {
            prefix: String::new(),
            from: None,
            page_size: 5000,
            with_metadata: true,
            with_deleted: true,
            with_system: false,
        });
        let containers = names.iter().map(|name| expected(name, deleted.clone())).collect();
        let next = Some(marker::print_containers(remote.account(), &next));
        let received = replied(&remote, list, Reply::Containers(page));
        prop_assert_eq!(received, Ok(RemoteReply::Containers { containers, next }));

        let acl = Operation::GetContainerAcl { container: names[0].clone(), preconditions: Preconditions::default() };
        let reply = Reply::ContainerAcl { changed: Changed(at), public_access, identifiers: identifiers.clone() };
        let expected = RemoteReply::ContainerAcl { changed: changed(at), public_access, identifiers };
        prop_assert_eq!(replied(&remote, acl, reply), Ok(expected));
    }

    #[test]
    fn writes_are_read_as_they_were_replied(
        remote in newest(),
        container in container(),
        at in time(),
        version in option::of(time()),
        snapshot in time(),
        crc64: u64,
        number in 0u64..1000,
        blocks in option::of(vec((block_id(), any::<u64>()), 0..4)),
        tags in tags(),
        policy in policy(),
        hold: bool,
        id in lease_id(),
    ) {
        let blob = path(&container);
        let (preconditions, encryption) = (Preconditions::default(), Encryption::default());
        let checksums = Checksums { md5: None, crc64: Some(Crc64Sum(crc64)) };
        let none = Checksums::default();
        let written = Written { changed: Changed(at), version, encryption: encryption.clone() };
        let remote_written = |checksums| RemoteWritten { changed: changed(at), version, checksums };
        let upload = Upload { bytes: Some(1), max_bytes: 1, checksums: none };
        let listed: Option<Vec<ListedBlock>> =
            blocks.map(|blocks| blocks.into_iter().map(|(id, bytes)| ListedBlock { id, bytes }).collect());
        let source = CopySource {
            url: "https://example.com/c/b".to_owned(),
            place: SourcePlace::Elsewhere,
            authorization: None,
            conditions: Conditions::default(),
        };
        let copy = Call::from(CopyBlob {
            blob: blob.clone(),
            source,
            pace: CopyPace::Background,
            metadata: Default::default(),
            tags: CopyTags::Source,
            tier: None,
            priority: None,
            seal: None,
            immutability: None,
            legal_hold: None,
            encryption: encryption.clone(),
            preconditions: preconditions.clone(),
        });
        let ranges = vec![
            (PageState::Written, ByteRange { first: 0, last: Some(511) }),
            (PageState::Cleared, ByteRange { first: 512, last: Some(1023) }),
        ];
        let filter = TagFilter::Compare { key: "k".to_owned(), how: TagComparison::Equal, value: "v".to_owned() };
        let lease = |action| Operation::LeaseBlob { blob: blob.clone(), action, conditions: Conditions::default() };
        let found = FoundBlob { container: container.to_string(), name: "b".to_owned(), revision: version.map_or(Revision::Base, Revision::Version), is_current_version: hold, tags: tags.clone() };
        let settings = BlobServiceProperties {
            delete_retention: DeleteRetention { days: Some(7), allow_permanent_delete: hold },
            static_website: StaticWebsite { enabled: hold, ..Default::default() },
            ..Default::default()
        };
        let uploads = vec![
            (
                UploadOperation::PutBlob(PutBlob { blob: blob.clone(), new: NewBlob::default(), upload, preconditions: preconditions.clone() }),
                Reply::BlobPut { written: written.clone(), checksums },
                RemoteReply::Put(remote_written(checksums)),
            ),
            (
                UploadOperation::PutBlock(PutBlock { blob: blob.clone(), id: tepui_model::blob::BlockId::parse("MDAwMQ==").unwrap(), piece: Piece::Sent(upload), preconditions: preconditions.clone(), encryption: encryption.clone() }),
                Reply::BlockPut { checksums, encryption: encryption.clone() },
                RemoteReply::BlockPut(checksums),
            ),
            (
                UploadOperation::AppendBlock(AppendBlock { blob: blob.clone(), piece: Piece::Sent(upload), append: AppendConditions::default(), preconditions: preconditions.clone(), encryption: encryption.clone() }),
                Reply::Appended { written: written.clone(), checksums, offset: number, committed_blocks: 7 },
                RemoteReply::Appended { written: remote_written(checksums), offset: number, committed_blocks: 7 },
            ),
        ];
        for (operation, reply, expected) in uploads {
            prop_assert_eq!(replied(&remote, operation, reply), Ok(expected));
        }
        let (reply, expected) = (
            Reply::CopyStarted { written: written.clone(), copy_id: "c".to_owned(), status: CopyStatus::Pending, checksums: none },
            RemoteReply::CopyStarted { written: remote_written(none), copy_id: "c".to_owned(), status: CopyStatus::Pending },
        );
        prop_assert_eq!(replied(&remote, copy, reply), Ok(expected));
        let cases = vec![
            (
                Operation::SnapshotBlob { blob: blob.clone(), metadata: Default::default(), preconditions: preconditions.clone(), encryption: encryption.clone() },
                Reply::Snapshot { written: written.clone(), snapshot },
                RemoteReply::Snapshot { written: remote_written(none), snapshot },
            ),
            (
                Operation::SetBlobMetadata { blob: blob.clone(), metadata: Default::default(), preconditions: preconditions.clone(), encryption: encryption.clone() },
                Reply::MetadataSet(written.clone()),
                RemoteReply::MetadataSet(remote_written(none)),
            ),
            (
                Operation::SetBlobProperties(SetBlobProperties { blob: blob.clone(), http: None, resize: Some(0), sequence_number: None, preconditions: preconditions.clone(), encryption: encryption.clone() }),
                Reply::PropertiesSet { written, sequence_number: Some(number) },
                RemoteReply::PropertiesSet { changed: changed(at), sequence_number: Some(number) },
            ),
            (
                Operation::SetBlobTier { blob: blob.clone(), revision: Revision::Base, tier: AccessTier::Hot, priority: None, preconditions: preconditions.clone() },
                Reply::TierSet { rehydrating: hold },
                RemoteReply::TierSet { rehydrating: hold },
            ),
            (
                Operation::GetBlobTags { blob: blob.clone(), revision: Revision::Base, preconditions: preconditions.clone() },
                Reply::Tags(tags.clone()),
                RemoteReply::Tags(tags.clone()),
            ),
            (
                Operation::SetBlobTags { blob: blob.clone(), revision: Revision::Base, tags: tags.clone(), preconditions: preconditions.clone() },
                Reply::TagsSet,
                RemoteReply::TagsSet,
            ),
            (
                Operation::SetImmutabilityPolicy { blob: blob.clone(), revision: Revision::Base, policy, unmodified_since: None },
                Reply::ImmutabilityPolicySet(policy),
                RemoteReply::ImmutabilityPolicySet(policy),
            ),
            (
                Operation::SetLegalHold { blob: blob.clone(), revision: Revision::Base, hold },
                Reply::LegalHoldSet(hold),
                RemoteReply::LegalHoldSet(hold),
            ),
            (
                Operation::GetBlockList { blob: blob.clone(), revision: Revision::Base, list: BlockListType::All, preconditions: preconditions.clone() },
                Reply::BlockList(BlockList { committed_as: None, committed: listed.clone(), uncommitted: Some(Vec::new()) }),
                RemoteReply::BlockList { committed: listed, uncommitted: Some(Vec::new()) },
            ),
            (
                Operation::GetPageRanges(GetPageRanges { blob: blob.clone(), revision: Revision::Base, since: None, range: None, from: None, page_size: None, preconditions: preconditions.clone() }),
                Reply::PageRanges(PageRanges { changed: Changed(at), blob_bytes: number, ranges: ranges.clone(), next: Some(number) }),
                RemoteReply::PageRanges { changed: changed(at), blob_bytes: number, ranges, next: Some(number.to_string()) },
            ),
            (
                Operation::DeleteBlob(DeleteBlob { blob: blob.clone(), revision: Revision::Base, snapshots: None, tier_conditions: TierConditions::default(), permanently: false, preconditions: preconditions.clone() }),
                Reply::BlobDeleted { permanently: hold },
                RemoteReply::BlobDeleted,
            ),
            (
                lease(LeaseAction::Acquire { duration: LeaseDuration::Infinite, proposed: None }),
                Reply::Lease { changed: Changed(at), outcome: LeaseOutcome::Acquired(id) },
                RemoteReply::Lease { changed: changed(at), outcome: LeaseOutcome::Acquired(id) },
            ),
            (
                lease(LeaseAction::Change { from: LeaseId(1), to: id }),
                Reply::Lease { changed: Changed(at), outcome: LeaseOutcome::Changed(id) },
                RemoteReply::Lease { changed: changed(at), outcome: LeaseOutcome::Changed(id) },
            ),
            (
                lease(LeaseAction::Break { period: None }),
                Reply::Lease { changed: Changed(at), outcome: LeaseOutcome::Broken(Duration::from_secs(number)) },
                RemoteReply::Lease { changed: changed(at), outcome: LeaseOutcome::Broken(Duration::from_secs(number)) },
            ),
            (
                Operation::FindBlobsByTags(FindBlobsByTags { container: None, filter, from: None, page_size: 5000, with_deleted: false, with_versions: false }),
                Reply::Found(FoundPage { blobs: vec![found], ..FoundPage::default() }),
                RemoteReply::Found {
                    blobs: vec![RemoteFound {
                        container: container.to_string(),
                        name: "b".to_owned(),
                        version: version.map(|id| VersionView { id, is_current: hold }),
                        tags,
                    }],
                    next: None,
                },
            ),
            (
                Operation::GetServiceStats,
                Reply::ServiceStats { last_sync: of_seconds(at) },
                RemoteReply::ServiceStats(GeoReplication::Live { last_sync: of_seconds(at) }),
            ),
            (
                Operation::GetServiceProperties,
                Reply::ServiceProperties(Box::new(settings.clone())),
                RemoteReply::ServiceProperties(Box::new(settings)),
            ),
            (
                Operation::CreateContainer { container, metadata: Default::default(), public_access: None, encryption: Default::default() },
                Reply::ContainerCreated(Changed(at)),
                RemoteReply::ContainerCreated(changed(at)),
            ),
        ];
        for (operation, reply, expected) in cases {
            prop_assert_eq!(replied(&remote, operation.clone(), reply), Ok(expected));
        }
    }
}
