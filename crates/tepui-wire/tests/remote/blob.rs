//! Blobs.

use crate::arrived::{Arrived, any_remote, any_signed};
use crate::some::{identifiers, metadata, second, time};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use tepui_model::blob::{
    AccessTier, AppendBlock, AppendConditions, BlobInclude, BlobMarker, BlobName, BlobPath, BlockId,
    BlockListType, BlockSearch, ByteRange, Call, Checksums, ChosenBlock, Conditions, ContainerEncryption,
    ContainerMarker, ContainerName, ContentMd5, CopyBlob, CopyPace, CopySource, CopyTags, Crc64Sum,
    CustomerKey, CustomerSecret, DeleteBlob, DeleteSnapshots, Detail, EmptyContent, Encryption, EtagMatch,
    FindBlobsByTags, FromUrl, GetBlob, GetPageRanges, HttpProperties, ImmutabilityMode, ImmutabilityPolicy,
    LeaseAction, LeaseDuration, LeaseId, ListBlobs, ListContainers, Md5Sum, NewBlob, Operation, PageRange,
    PageWrite, Piece, Preconditions, PreviousSnapshot, PublicAccess, PutBlob, PutBlobFromUrl, PutBlock,
    PutBlockList, PutEmptyBlob, PutPages, RangeChecksum, RehydratePriority, Revision, SequenceConditions,
    SequenceNumberAction, SetBlobProperties, SourcePlace, TagComparison, TagFilter, Tags, TierConditions,
    Upload, UploadOperation,
};
use tepui_wire::address::Service;
use tepui_wire::blob::request::Request;
use tepui_wire::blob::request::write::{Options, write};

pub(crate) fn container() -> impl Strategy<Value = ContainerName> {
    prop_oneof!["[a-z0-9]{1,9}-[a-z0-9]{1,9}", Just("$web".to_owned())]
        .prop_map(|name| ContainerName::parse(&name).unwrap())
}

/// Any name but for backslashes, which mean slashes, and control characters, which the HTTP layer refuses.
pub(crate) fn blob_name() -> impl Strategy<Value = BlobName> {
    prop_oneof![
        "[a-z]{1,9}(/[a-z. ]{1,5}){0,2}",
        "[^\\\\\u{0}-\u{1F}\u{7F}-\u{9F}]{1,12}",
        "[a-z][/%+?#&=';:@(),.\" ]{1,9}",
    ]
    .prop_map(|name| BlobName::parse(&name).unwrap())
}

fn path() -> impl Strategy<Value = BlobPath> {
    (container(), blob_name()).prop_map(|(container, blob)| BlobPath { container, blob })
}

fn revision() -> impl Strategy<Value = Revision> {
    prop_oneof![Just(Revision::Base), time().prop_map(Revision::Snapshot), time().prop_map(Revision::Version)]
}

pub(crate) fn lease_id() -> impl Strategy<Value = LeaseId> {
    any::<u128>().prop_map(LeaseId)
}

fn etags() -> impl Strategy<Value = EtagMatch> {
    option::of(time()).prop_map(|moment| EtagMatch::OneOf(vec![moment]))
}

fn tag_filter() -> impl Strategy<Value = TagFilter> {
    let compare = ("[A-Za-z0-9 _]{1,9}", "[A-Za-z0-9 .:/=+_-]{0,9}")
        .prop_map(|(key, value)| TagFilter::Compare { key, how: TagComparison::GreaterOrEqual, value });
    let both = (compare.clone(), compare.clone())
        .prop_map(|(left, right)| TagFilter::And(Box::new(left), Box::new(right)));
    prop_oneof![compare, both]
}

/// Those that writes accept, which reads do as well.
fn conditions() -> impl Strategy<Value = Conditions> {
    let known = (option::of(etags()), option::of(second()), option::of(tag_filter()));
    (known, any::<bool>()).prop_map(|((etags, since, tags), matches)| match matches {
        true => Conditions { if_match: etags, unmodified_since: since, tags, ..Conditions::default() },
        false => Conditions { if_none_match: etags, modified_since: since, tags, ..Conditions::default() },
    })
}

fn preconditions() -> impl Strategy<Value = Preconditions> {
    (option::of(lease_id()), conditions()).prop_map(|(lease, conditions)| Preconditions { lease, conditions })
}

fn lease_only() -> impl Strategy<Value = Preconditions> {
    (option::of(lease_id()), option::of(tag_filter())).prop_map(|(lease, tags)| Preconditions {
        lease,
        conditions: Conditions { tags, ..Conditions::default() },
    })
}

fn of_container() -> impl Strategy<Value = Preconditions> {
    (option::of(lease_id()), option::of(second())).prop_map(|(lease, modified_since)| Preconditions {
        lease,
        conditions: Conditions { modified_since, ..Conditions::default() },
    })
}

fn lease_alone() -> impl Strategy<Value = Preconditions> {
    option::of(lease_id()).prop_map(|lease| Preconditions { lease, conditions: Conditions::default() })
}

fn action() -> impl Strategy<Value = LeaseAction> {
    let duration = prop_oneof![
        Just(LeaseDuration::Infinite),
        (15i64..=60).prop_map(|seconds| LeaseDuration::from_seconds(seconds).unwrap())
    ];
    prop_oneof![
        (duration, option::of(lease_id()))
            .prop_map(|(duration, proposed)| LeaseAction::Acquire { duration, proposed }),
        lease_id().prop_map(LeaseAction::Renew),
        (lease_id(), lease_id()).prop_map(|(from, to)| LeaseAction::Change { from, to }),
        lease_id().prop_map(LeaseAction::Release),
        option::of(0u64..=60)
            .prop_map(|period| LeaseAction::Break { period: period.map(Duration::from_secs) }),
    ]
}

fn md5() -> impl Strategy<Value = Md5Sum> {
    any::<[u8; 16]>().prop_map(Md5Sum)
}

fn checksums() -> impl Strategy<Value = Checksums> {
    prop_oneof![
        Just(Checksums::default()),
        md5().prop_map(|md5| Checksums { md5: Some(md5), crc64: None }),
        any::<u64>().prop_map(|sum| Checksums { md5: None, crc64: Some(Crc64Sum(sum)) }),
    ]
}

/// The most that can be sent is the server's to say.
const ANY_MAX: u64 = 0;

fn upload(least: u64) -> impl Strategy<Value = Upload> {
    (least..4096, checksums()).prop_map(|(bytes, checksums)| Upload {
        bytes: Some(bytes),
        max_bytes: ANY_MAX,
        checksums,
    })
}

fn source() -> impl Strategy<Value = CopySource> {
    (path(), option::of("Bearer [a-z]{1,9}"), conditions()).prop_map(|(path, authorization, conditions)| {
        let name: String = path.blob.as_str().bytes().map(|byte| format!("%{byte:02X}")).collect();
        CopySource {
            url: format!("https://example.com/{}/{name}?sig=a%2Bb", path.container),
            place: SourcePlace::Elsewhere,
            authorization,
            conditions,
        }
    })
}

fn piece() -> impl Strategy<Value = Piece> {
    let range = option::of((0u64..1000, 0u64..1000))
        .prop_map(|range| range.map(|(first, more)| ByteRange { first, last: Some(first + more) }));
    let from = (source(), range, checksums()).prop_map(|(source, range, checksums)| {
        Piece::FromUrl(Box::new(FromUrl { source, range, max_bytes: ANY_MAX, checksums }))
    });
    prop_oneof![upload(1).prop_map(Piece::Sent), from]
}

pub(crate) fn encryption() -> impl Strategy<Value = Encryption> {
    (option::of(any::<[u8; 32]>()), option::of("[a-z]{3,9}")).prop_map(|(key, scope)| Encryption {
        key: key.map(|key| CustomerKey { sha256: Sha256::digest(key).into() }),
        secret: key.map(CustomerSecret),
        scope,
    })
}

pub(crate) fn text() -> impl Strategy<Value = Option<String>> {
    option::of("[!-~]([ -~é]{0,8}[!-~])?")
}

prop_compose! {
    pub(crate) fn http()(content_type in text(), content_encoding in text(), content_language in text(),
        content_disposition in text(), cache_control in text(), md5 in option::of(md5())) -> HttpProperties {
        let content_md5 = md5.map(ContentMd5::from);
        HttpProperties { content_type, content_encoding, content_language, content_disposition, cache_control, content_md5 }
    }
}

pub(crate) fn tags() -> impl Strategy<Value = Tags> {
    vec(("[A-Za-z0-9 +./:=_-]{1,9}", "[A-Za-z0-9 +./:=_-]{0,9}"), 0..4)
        .prop_filter_map("keys are there once", |pairs| Tags::new(pairs).ok())
}

pub(crate) fn tier() -> impl Strategy<Value = AccessTier> {
    prop_oneof![Just(AccessTier::Hot), Just(AccessTier::Cool), Just(AccessTier::Archive)]
}

pub(crate) fn policy() -> impl Strategy<Value = ImmutabilityPolicy> {
    (second(), any::<bool>()).prop_map(|(until, locked)| ImmutabilityPolicy {
        until,
        mode: if locked { ImmutabilityMode::Locked } else { ImmutabilityMode::Unlocked },
    })
}

prop_compose! {
    fn new_blob()(http in http(), metadata in metadata(), tags in tags(), tier in option::of(tier()),
        encryption in encryption(), immutability in option::of(policy()), legal_hold in option::of(any::<bool>())) -> NewBlob {
        NewBlob { http, metadata, tags, tier, encryption, immutability, legal_hold }
    }
}

fn put_blob() -> impl Strategy<Value = PutBlob> {
    (path(), new_blob(), upload(0), preconditions()).prop_map(|(blob, mut new, mut upload, preconditions)| {
        new.http.content_type.get_or_insert("application/octet-stream".to_owned());
        // What is said of the request and what is said of the blob are about the same bytes.
        match &new.http.content_md5 {
            Some(md5) => upload.checksums = Checksums { md5: md5.sum(), crc64: None },
            None => new.http.content_md5 = upload.checksums.md5.map(ContentMd5::from),
        }
        PutBlob { blob, new, upload, preconditions }
    })
}

fn put_empty_blob() -> impl Strategy<Value = PutEmptyBlob> {
    let content = prop_oneof![
        Just(EmptyContent::Append),
        (0u64..100, 0u64..1000)
            .prop_map(|(pages, sequence_number)| EmptyContent::Page { bytes: pages * 512, sequence_number }),
    ];
    (path(), new_blob(), content, preconditions()).prop_map(|(blob, mut new, content, preconditions)| {
        new.http.content_type.get_or_insert("application/octet-stream".to_owned());
        PutEmptyBlob { blob, new, content, preconditions }
    })
}

fn copy_tags() -> impl Strategy<Value = CopyTags> {
    prop_oneof![Just(CopyTags::Source), tags().prop_map(CopyTags::These)]
}

fn put_from_url() -> impl Strategy<Value = PutBlobFromUrl> {
    (path(), source(), checksums(), any::<bool>(), new_blob(), copy_tags(), preconditions()).prop_map(
        |(blob, source, checksums, copy_properties, mut new, tags, preconditions)| {
            new.tags = match &tags {
                CopyTags::Source => Tags::default(),
                CopyTags::These(tags) => tags.clone(),
            };
            PutBlobFromUrl { blob, source, checksums, copy_properties, new, tags, preconditions }
        },
    )
}

fn copy() -> impl Strategy<Value = CopyBlob> {
    let pace = prop_oneof![Just(CopyPace::Background), checksums().prop_map(CopyPace::Waiting)];
    let priority = option::of(prop_oneof![Just(RehydratePriority::High), Just(RehydratePriority::Standard)]);
    (path(), source(), pace, copy_tags(), new_blob(), priority, option::of(any::<bool>()), preconditions())
        .prop_map(|(blob, source, pace, tags, new, priority, seal, preconditions)| CopyBlob {
            blob,
            source,
            pace,
            metadata: new.metadata,
            tags,
            tier: new.tier,
            priority,
            seal,
            immutability: new.immutability,
            legal_hold: new.legal_hold,
            encryption: new.encryption,
            preconditions,
        })
}

pub(crate) fn block_id() -> impl Strategy<Value = BlockId> {
    vec(any::<u8>(), 1..64).prop_map(|bytes| BlockId::from_bytes(bytes).unwrap())
}

fn block_list() -> impl Strategy<Value = PutBlockList> {
    let search =
        prop_oneof![Just(BlockSearch::Committed), Just(BlockSearch::Uncommitted), Just(BlockSearch::Latest)];
    let block = (block_id(), search).prop_map(|(id, search)| ChosenBlock { id, search });
    (path(), vec(block, 0..6), new_blob(), preconditions()).prop_map(|(blob, blocks, new, preconditions)| {
        PutBlockList { blob, blocks, list_checksums: Checksums::default(), new, preconditions }
    })
}

/// Put Page, and without bytes Clear Page.
fn write_pages() -> impl Strategy<Value = Call> {
    let pages = (0u64..100, 1u64..9).prop_map(|(first, count)| {
        PageRange::new(ByteRange { first: first * 512, last: Some((first + count) * 512 - 1) }).unwrap()
    });
    let sequence = (option::of(0u64..9), option::of(0u64..9), option::of(0u64..9))
        .prop_map(|(at_most, less_than, equal)| SequenceConditions { at_most, less_than, equal });
    let write = prop_oneof![Just(None), piece().prop_map(Some)];
    (path(), pages, sequence, write, preconditions(), encryption()).prop_map(
        |(blob, pages, sequence, piece, preconditions, encryption)| {
            let write = PageWrite { blob, pages, sequence, preconditions, encryption };
            let piece = match piece {
                None => return Operation::ClearPages(write).into(),
                Some(Piece::Sent(upload)) => Piece::Sent(Upload { bytes: Some(pages.bytes()), ..upload }),
                Some(Piece::FromUrl(mut from)) => {
                    from.range = Some(ByteRange { first: 512, last: Some(511 + pages.bytes()) });
                    Piece::FromUrl(from)
                }
            };
            UploadOperation::PutPages(PutPages { write, piece }).into()
        },
    )
}

fn get_blob() -> impl Strategy<Value = GetBlob> {
    let range = option::of((0u64..1000, option::of(0u64..1000))).prop_map(|range| {
        range.map(|(first, more)| ByteRange { first, last: more.map(|more| first + more) })
    });
    let checksum = option::of(prop_oneof![Just(RangeChecksum::Md5), Just(RangeChecksum::Crc64)]);
    (path(), revision(), range, checksum, preconditions(), encryption()).prop_map(
        |(blob, revision, range, checksum, preconditions, encryption)| GetBlob {
            blob,
            revision,
            range,
            range_checksum: checksum.filter(|_| range.is_some()),
            preconditions,
            encryption,
        },
    )
}

fn list_blobs() -> impl Strategy<Value = ListBlobs> {
    let from = prop_oneof![
        "[ -~é]{1,9}".prop_map(BlobMarker::AtName),
        (blob_name(), revision()).prop_map(|(name, revision)| BlobMarker::At(name, revision)),
        "[ -~é]{1,9}".prop_map(BlobMarker::AfterPrefix),
    ];
    let flags = any::<[bool; 9]>();
    (container(), "[ -~é]{0,9}", option::of("[/!é]{1,2}"), option::of(from), 1usize..=5000, flags).prop_map(
        |(container, prefix, delimiter, from, page_size, flags)| ListBlobs {
            container,
            prefix,
            from,
            page_size,
            include: BlobInclude {
                snapshots: flags[0] && delimiter.is_none(),
                metadata: flags[1],
                uncommitted: flags[2],
                copy: flags[3],
                deleted: flags[4],
                tags: flags[5],
                versions: flags[6],
                deleted_with_versions: flags[7],
                immutability_policy: flags[8],
                legal_hold: flags[8],
            },
            delimiter,
        },
    )
}

fn list_containers() -> impl Strategy<Value = ListContainers> {
    let from = (container(), option::of("[0-9A-F]{16}"))
        .prop_map(|(name, deleted_version)| ContainerMarker { name: name.to_string(), deleted_version });
    ("[ -~é]{0,9}", option::of(from), 1usize..=5000, any::<[bool; 3]>()).prop_map(
        |(prefix, from, page_size, [with_metadata, with_deleted, with_system])| ListContainers {
            prefix,
            from,
            page_size,
            with_metadata,
            with_deleted,
            with_system,
        },
    )
}

fn operation_of_container() -> impl Strategy<Value = Operation> {
    let access = option::of(prop_oneof![Just(PublicAccess::Blob), Just(PublicAccess::Container)]);
    let encryption = prop_oneof![
        Just(ContainerEncryption::default()),
        ("[a-z]{3,9}", any::<bool>())
            .prop_map(|(default_scope, deny_override)| ContainerEncryption { default_scope, deny_override }),
    ];
    let detail = prop_oneof![Just(Detail::Properties), Just(Detail::Metadata)];
    let find = (option::of(container()), tag_filter(), 1usize..=5000, any::<bool>(), any::<bool>()).prop_map(
        |(container, filter, page_size, with_deleted, with_versions)| FindBlobsByTags {
            container,
            filter,
            from: None,
            page_size,
            with_deleted,
            with_versions,
        },
    );
    prop_oneof![
        Just(Operation::GetServiceProperties),
        Just(Operation::GetServiceStats),
        Just(Operation::GetAccountInformation),
        list_containers().prop_map(Operation::ListContainers),
        find.prop_map(Operation::FindBlobsByTags),
        (container(), metadata(), access.clone(), encryption).prop_map(
            |(container, metadata, public_access, encryption)| Operation::CreateContainer {
                container,
                metadata,
                public_access,
                encryption
            }
        ),
        (container(), lease_alone(), detail).prop_map(|(container, preconditions, detail)| {
            Operation::GetContainer { container, preconditions, detail }
        }),
        (container(), metadata(), of_container()).prop_map(|(container, metadata, preconditions)| {
            Operation::SetContainerMetadata { container, metadata, preconditions }
        }),
        (container(), lease_alone())
            .prop_map(|(container, preconditions)| Operation::GetContainerAcl { container, preconditions }),
        (container(), access, identifiers("[rwdl]{1,4}"), of_container()).prop_map(
            |(container, public_access, identifiers, preconditions)| Operation::SetContainerAcl {
                container,
                public_access,
                identifiers,
                preconditions
            }
        ),
        (container(), action(), of_container()).prop_map(|(container, action, preconditions)| {
            Operation::LeaseContainer { container, action, conditions: preconditions.conditions }
        }),
        (container(), of_container())
            .prop_map(|(container, preconditions)| Operation::DeleteContainer { container, preconditions }),
        (container(), container(), "[0-9A-F]{16}").prop_map(|(container, deleted, deleted_version)| {
            Operation::RestoreContainer { container, deleted, deleted_version }
        }),
    ]
}

fn operation_of_blob() -> impl Strategy<Value = Operation> {
    let detail = prop_oneof![Just(Detail::Properties), Just(Detail::Metadata)];
    let list = prop_oneof![
        Just(BlockListType::Committed),
        Just(BlockListType::Uncommitted),
        Just(BlockListType::All)
    ];
    let base_or_version = prop_oneof![Just(Revision::Base), time().prop_map(Revision::Version)];
    prop_oneof![
        (path(), "[a-z0-9-]{1,9}", lease_only())
            .prop_map(|(blob, copy_id, preconditions)| Operation::AbortCopy { blob, copy_id, preconditions }),
        (path(), source(), preconditions()).prop_map(|(blob, source, preconditions)| {
            Operation::IncrementalCopy { blob, source, preconditions }
        }),
        (path(), revision(), detail, preconditions(), encryption()).prop_map(
            |(blob, revision, detail, preconditions, encryption)| Operation::GetBlobProperties {
                blob,
                revision,
                detail,
                preconditions,
                encryption
            }
        ),
        (path(), metadata(), preconditions(), encryption()).prop_map(
            |(blob, metadata, preconditions, encryption)| Operation::SetBlobMetadata {
                blob,
                metadata,
                preconditions,
                encryption
            }
        ),
        (path(), revision(), tier(), option::of(Just(RehydratePriority::High)), lease_only()).prop_map(
            |(blob, revision, tier, priority, preconditions)| Operation::SetBlobTier {
                blob,
                revision,
                tier,
                priority,
                preconditions
            }
        ),
        (path(), revision(), preconditions()).prop_map(|(blob, revision, preconditions)| {
            Operation::GetBlobTags { blob, revision, preconditions }
        }),
        (path(), base_or_version, tags(), preconditions()).prop_map(
            |(blob, revision, tags, preconditions)| {
                Operation::SetBlobTags { blob, revision, tags, preconditions }
            }
        ),
        (path(), revision(), policy(), option::of(second())).prop_map(
            |(blob, revision, policy, unmodified_since)| Operation::SetImmutabilityPolicy {
                blob,
                revision,
                policy,
                unmodified_since
            }
        ),
        (path(), revision())
            .prop_map(|(blob, revision)| Operation::DeleteImmutabilityPolicy { blob, revision }),
        (path(), revision(), any::<bool>()).prop_map(|(blob, revision, hold)| Operation::SetLegalHold {
            blob,
            revision,
            hold
        }),
        (path(), action(), conditions()).prop_map(|(blob, action, conditions)| Operation::LeaseBlob {
            blob,
            action,
            conditions
        }),
        (path(), metadata(), preconditions(), encryption()).prop_map(
            |(blob, metadata, preconditions, encryption)| Operation::SnapshotBlob {
                blob,
                metadata,
                preconditions,
                encryption
            }
        ),
        path().prop_map(|blob| Operation::UndeleteBlob { blob }),
        (path(), revision(), list, lease_only()).prop_map(|(blob, revision, list, preconditions)| {
            Operation::GetBlockList { blob, revision, list, preconditions }
        }),
        (path(), option::of(0u64..1000), preconditions()).prop_map(|(blob, position, preconditions)| {
            Operation::SealBlob { blob, position, preconditions }
        }),
    ]
}

fn operation_with_fields() -> impl Strategy<Value = Operation> {
    let snapshots = option::of(prop_oneof![Just(DeleteSnapshots::Include), Just(DeleteSnapshots::Only)]);
    let delete = (path(), revision(), snapshots, option::of(second()), any::<bool>(), preconditions())
        .prop_map(|(blob, revision, snapshots, modified_since, permanently, preconditions)| DeleteBlob {
            blob,
            revision,
            snapshots: snapshots.filter(|_| revision == Revision::Base),
            tier_conditions: TierConditions { modified_since, unmodified_since: None },
            permanently,
            preconditions,
        });
    let sequence = option::of(prop_oneof![
        (0u64..9).prop_map(SequenceNumberAction::Max),
        (0u64..9).prop_map(SequenceNumberAction::Update),
        Just(SequenceNumberAction::Increment),
    ]);
    let set = (path(), http(), option::of(0u64..9), sequence, preconditions(), encryption()).prop_map(
        |(blob, http, resize, sequence_number, preconditions, encryption)| {
            let only_pages =
                http == HttpProperties::default() && (resize.is_some() || sequence_number.is_some());
            SetBlobProperties {
                blob,
                http: (!only_pages).then_some(http),
                resize: resize.map(|pages| pages * 512),
                sequence_number,
                preconditions,
                encryption,
            }
        },
    );
    let since = option::of(prop_oneof![
        time().prop_map(PreviousSnapshot::At),
        Just(PreviousSnapshot::Url("https://example.com/c/b?snapshot=x".to_owned())),
    ]);
    let pages =
        (path(), revision(), since, option::of(0u64..999), option::of(1usize..=10_000), preconditions())
            .prop_map(|(blob, revision, since, from, page_size, preconditions)| GetPageRanges {
                blob,
                revision,
                since,
                range: from.map(|first| ByteRange { first, last: None }),
                from,
                page_size,
                preconditions,
            });
    prop_oneof![
        put_empty_blob().prop_map(Operation::PutEmptyBlob).boxed(),
        get_blob().prop_map(Operation::GetBlob).boxed(),
        set.prop_map(Operation::SetBlobProperties).boxed(),
        delete.prop_map(Operation::DeleteBlob).boxed(),
        block_list().prop_map(Operation::PutBlockList).boxed(),
        pages.prop_map(Operation::GetPageRanges).boxed(),
    ]
}

/// Boxed, as the others here: the strategies are large, and the stacks of threads that run tests are not.
fn write_of_content() -> impl Strategy<Value = Call> {
    let append = (path(), piece(), option::of(0u64..9), option::of(0u64..9), preconditions(), encryption())
        .prop_map(|(blob, piece, position, max_bytes, preconditions, encryption)| AppendBlock {
            blob,
            piece,
            append: AppendConditions { position, max_bytes },
            preconditions,
            encryption,
        });
    let block = (path(), block_id(), piece(), lease_only(), encryption()).prop_map(
        |(blob, id, piece, preconditions, encryption)| PutBlock {
            blob,
            id,
            piece,
            preconditions,
            encryption,
        },
    );
    prop_oneof![
        put_blob().prop_map(UploadOperation::PutBlob).prop_map(Call::from).boxed(),
        put_from_url().prop_map(Call::from).boxed(),
        copy().prop_map(Call::from).boxed(),
        block.prop_map(UploadOperation::PutBlock).prop_map(Call::from).boxed(),
        append.prop_map(UploadOperation::AppendBlock).prop_map(Call::from).boxed(),
        write_pages().boxed(),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        6 => operation().prop_map(Call::Operation).boxed(),
        3 => write_of_content().boxed(),
        1 => list_blobs().prop_map(Call::List).boxed(),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        operation_of_container().boxed(),
        operation_of_blob().boxed(),
        operation_with_fields().boxed(),
        operation_with_fields().boxed()
    ]
}

/// Without what the server says by itself: the most that can be sent, and the sums of a list.
fn without_limits(mut call: Call) -> Call {
    let of_piece = |piece: &mut Piece| match piece {
        Piece::Sent(upload) => upload.max_bytes = ANY_MAX,
        Piece::FromUrl(from) => from.max_bytes = ANY_MAX,
    };
    match &mut call {
        Call::Upload(UploadOperation::PutBlob(put)) => put.upload.max_bytes = ANY_MAX,
        Call::Upload(UploadOperation::PutBlock(put)) => of_piece(&mut put.piece),
        Call::Upload(UploadOperation::AppendBlock(append)) => of_piece(&mut append.piece),
        Call::Upload(UploadOperation::PutPages(put)) => of_piece(&mut put.piece),
        Call::Operation(Operation::PutBlockList(put)) => put.list_checksums = Checksums::default(),
        _ => {}
    }
    call
}

proptest! {
    #[test]
    fn operations_are_read_as_they_were_written(
        remote in any_remote(Service::Blob),
        call in call(),
        signed in any_signed(),
    ) {
        let arrived = Arrived::new(&remote, write(&remote, &call, &Options::default()).unwrap(), signed);
        let head = arrived.head(Service::Blob);
        let request = Request::read(&head, &arrived.rules).unwrap();
        let read = request.prepare().and_then(|prepared| prepared.decode(&arrived.body, &tepui_digest::Algorithms));
        prop_assert_eq!(read.map(without_limits), Ok(call), "{:?}", arrived);
    }
}
