//! Requests of the Blob service, read in three steps, so that others can be asked in between: what the head names
//! ([`Request::read`]), what it asks for without a body ([`Request::prepare`]), and the operation ([`Prepared::decode`]).
//! The bytes of uploads do not pass here: [`Request::body`] tells them from bodies that are read as a whole.
//!
//! | | |
//! | --- | --- |
//! | `resource.rs` | what the path names |
//! | `classify.rs` | which operation it is |
//! | `writes.rs`, `new_blob.rs`, `pieces.rs` | content: what is written, what is said of it, which bytes |
//! | `lists.rs`, `lease.rs` | parameters of lists and leases |
//! | `write.rs` | the other direction: operations as requests of a client |

mod classify;
mod lease;
mod lists;
mod new_blob;
mod pieces;
pub mod resource;
pub mod write;
mod writes;

pub use pieces::too_large;

use self::resource::Resource;
use super::headers as header;
use super::{block_list_xml, conditions, source, structured, tags_text};
use crate::access;
use crate::address::AddressRules;
use crate::head::{BodyUse, Head};
use crate::parameters::{given, invalid_value, missing};
use crate::query::Query;
use crate::request_headers::RequestHeaders;
use crate::version::ServiceVersion;
use crate::xml;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{
    BlobPath, BlockListType, Call, ChecksumAlgorithms, Checksums, ContainerEncryption, ContainerName,
    DeleteBlob, DeleteSnapshots, Detail, GetPageRanges, ImmutabilityMode, NotImplemented, Operation,
    OperationKind, PreviousSnapshot, PublicAccess, Revision, SequenceNumberAction, SetBlobProperties, Tags,
    TierConditions,
};
use tepui_model::grant::Grant;
use tepui_model::{ErrorCode, ServiceError};

/// What a stored access policy of a container can allow.
const PERMISSIONS: &str = "racwdxyltmeopfi";
const MAX_XML_BYTES: usize = 256 * 1024;
pub const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;
const MAX_PAGE_RANGES: i64 = 10_000;

/// What a request asks for, as far as its head tells.
#[derive(Debug)]
pub struct Request<'a> {
    head: Head<'a>,
    headers: RequestHeaders<'a>,
    kind: OperationKind,
    resource: Resource,
    /// How addresses are read: sources of copies are compared with the target of the request.
    rules: &'a AddressRules,
}

/// What is done with the body of an operation of this kind.
fn body_of(kind: OperationKind) -> BodyUse {
    use OperationKind::*;
    match kind {
        SetServiceProperties | GetUserDelegationKey | SetContainerAcl | SetBlobTags => {
            BodyUse::Whole { max_bytes: MAX_XML_BYTES, required: true }
        }
        PutBlockList => BodyUse::Whole { max_bytes: block_list_xml::MAX_BODY_BYTES, required: true },
        Batch | ContainerBatch => BodyUse::Whole { max_bytes: MAX_BATCH_BYTES, required: true },
        PutBlob | PutBlock | AppendBlock | PutPages => BodyUse::Streamed,
        _ => BodyUse::Nothing,
    }
}

/// A request that is good as far as one can tell without its body.
#[derive(Debug)]
pub struct Prepared {
    /// Without what the body says.
    call: Call,
    version: ServiceVersion,
    /// What the caller says of a body that is read whole.
    checksums: Checksums,
    /// Whether tags are asked for or set, beside what else is done: by a condition, in a list, with a new blob, with those of its source.
    pub asks_for_tags: bool,
}

impl<'a> Request<'a> {
    pub fn read(head: &Head<'a>, rules: &'a AddressRules) -> Result<Self, ServiceError> {
        let resource = Resource::parse(head.path, head.query)?;
        let headers = RequestHeaders::with_case(head.headers, head.case);
        let kind = classify::classify(head.method, &resource, head.query, &headers)?;
        if kind == OperationKind::GetUserDelegationKey && !head.version.has_user_delegation_keys() {
            return Err(invalid_value("comp", "userdelegationkey", ""));
        }
        Ok(Self { head: *head, headers, kind, resource, rules })
    }

    pub fn head(&self) -> &Head<'a> {
        &self.head
    }

    pub fn kind(&self) -> OperationKind {
        self.kind
    }

    /// The container that the request is about or in, as the caller spells it.
    pub fn container(&self) -> Option<&str> {
        self.resource.container()
    }

    /// The same, if it can be the name of one.
    pub fn container_name(&self) -> Result<ContainerName, ServiceError> {
        self.resource.container_name()
    }

    /// How far the caller may go with this.
    pub fn check_access(&self, grant: &Grant) -> Result<Allowed, ServiceError> {
        access::blob::check_request(grant, self)
    }

    /// What is done with the body.
    pub fn body(&self) -> BodyUse {
        body_of(self.kind)
    }

    /// Looks at everything but the body: first the names, then the parameters and headers.
    pub fn prepare(&self) -> Result<Prepared, ServiceError> {
        let call = without_body(self)?;
        let checksums = match self.body() {
            BodyUse::Whole { .. } => pieces::transfer_checksums(&self.headers)?,
            BodyUse::Nothing | BodyUse::Streamed => Checksums::default(),
        };
        let asks_for_tags = match (&call, &self.resource) {
            (Call::List(list), _) => list.include.tags,
            (_, resource) => {
                let names = [header::IF_TAGS, header::TAGS];
                matches!(resource, Resource::Blob(..))
                    && (names.into_iter().any(|name| header::is_given(&self.headers, name))
                        || call.copies_tags())
            }
        };
        Ok(Prepared { call, version: self.head.version, checksums, asks_for_tags })
    }
}

fn without_body(request: &Request<'_>) -> Result<Call, ServiceError> {
    match &request.resource {
        Resource::Service => of_service(request),
        Resource::Container(_) => of_container(request),
        Resource::Blob(..) => of_blob(request),
    }
}

fn of_service(request: &Request<'_>) -> Result<Call, ServiceError> {
    use OperationKind::*;
    Ok(Call::Operation(match request.kind {
        GetServiceProperties => Operation::GetServiceProperties,
        SetServiceProperties => Operation::SetServiceProperties(Default::default()),
        GetServiceStats => Operation::GetServiceStats,
        GetAccountInformation => Operation::GetAccountInformation,
        ListContainers => Operation::ListContainers(lists::containers(request.head.query)?),
        FindBlobsByTags => Operation::FindBlobsByTags(lists::found(request.head.query, None)?),
        Batch => return Ok(Call::Batch { container: None }),
        _ => return Err(ErrorCode::InvalidUri.into()),
    }))
}

fn of_container(request: &Request<'_>) -> Result<Call, ServiceError> {
    use OperationKind::*;
    let (query, headers) = (request.head.query, &request.headers);
    let container = request.resource.container_name()?;
    Ok(Call::Operation(match request.kind {
        GetAccountInformation => Operation::GetAccountInformation,
        FindBlobsByTagsInContainer => Operation::FindBlobsByTags(lists::found(query, Some(container))?),
        ContainerBatch => return Ok(Call::Batch { container: Some(container) }),
        CreateContainer => {
            conditions::of_lease_only(headers)?;
            Operation::CreateContainer {
                container,
                metadata: new_blob::metadata(headers)?,
                public_access: public_access(headers)?,
                encryption: container_encryption(headers)?,
            }
        }
        GetContainerProperties | GetContainerMetadata => Operation::GetContainer {
            container,
            preconditions: conditions::ignored(headers)?,
            detail: match request.kind {
                GetContainerMetadata => Detail::Metadata,
                _ => Detail::Properties,
            },
        },
        SetContainerMetadata => Operation::SetContainerMetadata {
            container,
            metadata: new_blob::metadata(headers)?,
            preconditions: conditions::of_container_metadata(headers)?,
        },
        GetContainerAcl => {
            Operation::GetContainerAcl { container, preconditions: conditions::ignored(headers)? }
        }
        SetContainerAcl => Operation::SetContainerAcl {
            container,
            public_access: public_access(headers)?,
            identifiers: Vec::new(),
            preconditions: conditions::of_container(headers)?,
        },
        LeaseContainer | BreakContainerLease => Operation::LeaseContainer {
            container,
            action: lease::action(headers)?,
            conditions: conditions::of_container(headers)?.conditions,
        },
        DeleteContainer => {
            Operation::DeleteContainer { container, preconditions: conditions::of_container(headers)? }
        }
        RestoreContainer => Operation::RestoreContainer {
            container,
            deleted: ContainerName::parse(header::required(headers, header::DELETED_CONTAINER_NAME)?)?,
            deleted_version: header::required(headers, header::DELETED_CONTAINER_VERSION)?.to_owned(),
        },
        RenameContainer => Operation::NotImplemented(NotImplemented::RenameContainer),
        ListBlobs => return Ok(Call::List(lists::blobs(query, container)?)),
        _ => return Err(ErrorCode::InvalidUri.into()),
    }))
}

fn of_blob(request: &Request<'_>) -> Result<Call, ServiceError> {
    use OperationKind::*;
    let (kind, query, headers) = (request.kind, request.head.query, &request.headers);
    let blob = request.resource.blob_path()?;
    let revision = revision(query)?;
    // Also where it is of no use: whoever asks for it counts on it.
    structured::asks(headers)?;
    Ok(Call::Operation(match kind {
        GetAccountInformation => Operation::GetAccountInformation,
        QueryBlobContents => Operation::NotImplemented(NotImplemented::QueryBlobContents),
        SetBlobExpiry => Operation::NotImplemented(NotImplemented::SetBlobExpiry),
        GetBlob => Operation::GetBlob(pieces::get(request, blob, revision)?),
        GetBlobProperties | GetBlobMetadata => Operation::GetBlobProperties {
            blob,
            revision,
            detail: if kind == GetBlobMetadata { Detail::Metadata } else { Detail::Properties },
            preconditions: conditions::of_read(headers)?,
            encryption: new_blob::encryption(headers)?,
        },
        GetBlockList => Operation::GetBlockList {
            blob,
            revision,
            list: match given(query, "blocklisttype") {
                Some(text) => {
                    BlockListType::parse(text).ok_or_else(|| invalid_value("blocklisttype", text, ""))?
                }
                None => BlockListType::default(),
            },
            preconditions: conditions::of_lease_only(headers)?,
        },
        GetPageRanges | GetPageRangesDiff => Operation::GetPageRanges(page_ranges(request, blob, revision)?),
        GetBlobTags => {
            Operation::GetBlobTags { blob, revision, preconditions: conditions::of_tags(headers)? }
        }
        SetBlobTags => {
            no_snapshot(query)?;
            let preconditions = conditions::of_tags(headers)?;
            Operation::SetBlobTags { blob, revision, tags: Tags::default(), preconditions }
        }
        SetBlobTier => Operation::SetBlobTier {
            blob,
            revision,
            tier: new_blob::tier(headers, request.head.version)?
                .ok_or_else(|| header::missing(header::ACCESS_TIER))?,
            priority: new_blob::priority(headers)?,
            preconditions: conditions::of_lease_only(headers)?,
        },
        SetImmutabilityPolicy => Operation::SetImmutabilityPolicy {
            blob,
            revision,
            policy: new_blob::immutability(headers, Some(ImmutabilityMode::Unlocked))?
                .ok_or_else(|| header::missing(header::IMMUTABILITY_UNTIL))?,
            unmodified_since: header::date(headers, header::IF_UNMODIFIED_SINCE)?,
        },
        DeleteImmutabilityPolicy => Operation::DeleteImmutabilityPolicy { blob, revision },
        SetLegalHold => Operation::SetLegalHold {
            blob,
            revision,
            hold: header::flag(headers, header::LEGAL_HOLD)?
                .ok_or_else(|| header::missing(header::LEGAL_HOLD))?,
        },
        DeleteBlob | DeleteBlobVersion | DeleteBlobPermanently => {
            Operation::DeleteBlob(delete(request, blob, revision)?)
        }
        _ => {
            no_revision(query)?;
            return of_base_blob(request, blob);
        }
    }))
}

/// Operations that are about a blob as it is now.
fn of_base_blob(request: &Request<'_>, blob: BlobPath) -> Result<Call, ServiceError> {
    use OperationKind::*;
    let (query, headers) = (request.head.query, &request.headers);
    Ok(Call::Operation(match request.kind {
        PutBlob => return writes::put_blob(request, blob),
        PutBlobFromUrl => return writes::put_blob_from_url(request, blob).map(Call::from),
        CopyBlob | CopyBlobFromUrl => return writes::copy_blob(request, blob).map(Call::from),
        PutBlock | PutBlockFromUrl => return writes::put_block(request, blob).map(Call::from),
        AppendBlock | AppendBlockFromUrl => return writes::append_block(request, blob).map(Call::from),
        PutPages | ClearPages | PutPagesFromUrl => return writes::put_pages(request, blob),
        AbortCopy => {
            let copy_id = given(query, "copyid").ok_or_else(|| missing("copyid"))?.to_owned();
            let is_abort = |text: &str| text.eq_ignore_ascii_case("abort").then_some(());
            header::required_word(headers, header::COPY_ACTION, is_abort)?;
            Operation::AbortCopy { blob, copy_id, preconditions: conditions::of_lease_only(headers)? }
        }
        IncrementalCopy => Operation::IncrementalCopy {
            blob,
            source: source::decode(headers, request.head.target, request.rules)?,
            preconditions: conditions::of_write(headers)?,
        },
        SetBlobMetadata => Operation::SetBlobMetadata {
            blob,
            metadata: new_blob::metadata(headers)?,
            preconditions: conditions::of_write(headers)?,
            encryption: new_blob::encryption(headers)?,
        },
        SetBlobProperties => Operation::SetBlobProperties(set_properties(headers, blob)?),
        LeaseBlob | BreakBlobLease => Operation::LeaseBlob {
            blob,
            action: lease::action(headers)?,
            conditions: conditions::of_write(headers)?.conditions,
        },
        SnapshotBlob => Operation::SnapshotBlob {
            blob,
            metadata: new_blob::metadata(headers)?,
            preconditions: conditions::of_write(headers)?,
            encryption: new_blob::encryption(headers)?,
        },
        UndeleteBlob => Operation::UndeleteBlob { blob },
        PutBlockList => Operation::PutBlockList(writes::put_block_list(request, blob)?),
        SealBlob => Operation::SealBlob {
            blob,
            position: conditions::of_append(headers)?.position,
            preconditions: conditions::of_write(headers)?,
        },
        _ => return Err(ErrorCode::InvalidUri.into()),
    }))
}

impl Prepared {
    /// What is asked for, as far as it is known without the body.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// Adds what a body says that is read whole. The bodies of other operations are not looked at.
    pub fn decode(self, body: &[u8], sums: &impl ChecksumAlgorithms) -> Result<Call, ServiceError> {
        let mut decoding = self.begin(body, sums)?;
        loop {
            if let Some(call) = decoding.step()? {
                return Ok(call);
            }
        }
    }

    /// The same in steps, for a list of blocks may be long.
    pub fn begin<'a>(
        self,
        body: &'a [u8],
        sums: &impl ChecksumAlgorithms,
    ) -> Result<Decoding<'a>, ServiceError> {
        let Self { call, version, checksums, .. } = self;
        // Only where it is asked for: most are not.
        let computed = Checksums {
            md5: checksums.md5.map(|_| sums.md5(body)),
            crc64: checksums.crc64.map(|_| sums.crc64(body)),
        };
        checksums.check(&computed)?;
        let mut blocks = None;
        let operation = match call {
            Call::Operation(operation) => operation,
            whole @ (Call::Upload(_) | Call::List(_) | Call::Batch { .. }) => {
                return Ok(Decoding { call: Some(whole), blocks });
            }
        };
        let operation = match operation {
            Operation::SetServiceProperties(_) => {
                Operation::SetServiceProperties(xml::parse_blob_service_properties(body, version)?)
            }
            Operation::SetContainerAcl { container, public_access, preconditions, .. } => {
                let identifiers = identifiers(body)?;
                Operation::SetContainerAcl { container, public_access, identifiers, preconditions }
            }
            Operation::SetBlobTags { blob, revision, preconditions, .. } => {
                Operation::SetBlobTags { blob, revision, tags: tags_text::parse_xml(body)?, preconditions }
            }
            Operation::PutBlockList(mut put) => {
                blocks = Some(block_list_xml::Reading::new(body)?);
                put.list_checksums = match computed.md5 {
                    Some(_) => computed,
                    None => Checksums { md5: None, crc64: Some(sums.crc64(body)) },
                };
                Operation::PutBlockList(put)
            }
            whole => whole,
        };
        Ok(Decoding { call: Some(Call::Operation(operation)), blocks })
    }
}

/// What a body says, as far as it was read.
pub struct Decoding<'a> {
    /// But for the blocks. `None`: it was handed over.
    call: Option<Call>,
    blocks: Option<block_list_xml::Reading<'a>>,
}

impl Decoding<'_> {
    /// Reads on. `None`: there is more. Not to be called after the end.
    pub fn step(&mut self) -> Result<Option<Call>, ServiceError> {
        let Some(reading) = &mut self.blocks else { return Ok(self.call.take()) };
        let Some(blocks) = reading.step()? else { return Ok(None) };
        let mut call = self.call.take();
        if let Some(Call::Operation(Operation::PutBlockList(put))) = &mut call {
            put.blocks = blocks;
        }
        Ok(call)
    }
}

fn identifiers(body: &[u8]) -> Result<Vec<SignedIdentifier>, ServiceError> {
    let identifiers = xml::parse_signed_identifiers(body)?;
    let known = identifiers
        .iter()
        .filter_map(|identifier| identifier.policy.as_ref()?.permission.as_deref())
        .all(|letters| letters.chars().all(|letter| PERMISSIONS.contains(letter)));
    if known {
        return Ok(identifiers);
    }
    Err(ServiceError::new(ErrorCode::InvalidXmlDocument).with_cause("a permission that containers have not"))
}

fn public_access(headers: &RequestHeaders<'_>) -> Result<Option<PublicAccess>, ServiceError> {
    header::word(headers, header::PUBLIC_ACCESS, PublicAccess::parse)
}

fn container_encryption(headers: &RequestHeaders<'_>) -> Result<ContainerEncryption, ServiceError> {
    let unsaid = ContainerEncryption::default();
    let scope = header::given(headers, header::DEFAULT_ENCRYPTION_SCOPE)?.map(str::to_owned);
    Ok(ContainerEncryption {
        default_scope: scope.unwrap_or(unsaid.default_scope),
        deny_override: header::flag(headers, header::DENY_SCOPE_OVERRIDE)?.unwrap_or(unsaid.deny_override),
    })
}

/// Which state of a blob the parameters name.
fn revision(query: &Query) -> Result<Revision, ServiceError> {
    let moment = |name| match given(query, name) {
        Some(text) => Revision::parse_moment(text).map(Some).ok_or_else(|| invalid_value(name, text, "")),
        None => Ok(None),
    };
    match (given(query, "snapshot"), given(query, "versionid")) {
        (Some(_), Some(_)) => Err(ErrorCode::MutuallyExclusiveQueryParameters.into()),
        _ => Ok(match (moment("snapshot")?, moment("versionid")?) {
            (Some(snapshot), _) => Revision::Snapshot(snapshot),
            (None, Some(version)) => Revision::Version(version),
            (None, None) => Revision::Base,
        }),
    }
}

fn no_snapshot(query: &Query) -> Result<(), ServiceError> {
    match given(query, "snapshot") {
        Some(text) => Err(invalid_value("snapshot", text, "This operation is not allowed on a snapshot.")),
        None => Ok(()),
    }
}

/// Only the blob as it is now can be written.
fn no_revision(query: &Query) -> Result<(), ServiceError> {
    no_snapshot(query)?;
    match given(query, "versionid") {
        Some(text) => {
            Err(invalid_value("versionid", text, "This operation is only allowed on the root blob."))
        }
        None => Ok(()),
    }
}

fn delete(request: &Request<'_>, blob: BlobPath, revision: Revision) -> Result<DeleteBlob, ServiceError> {
    let (query, headers) = (request.head.query, &request.headers);
    let snapshots = header::word(headers, header::DELETE_SNAPSHOTS, |text| match text {
        _ if text.eq_ignore_ascii_case("include") => Some(DeleteSnapshots::Include),
        _ if text.eq_ignore_ascii_case("only") => Some(DeleteSnapshots::Only),
        _ => None,
    })?;
    if snapshots.is_some() {
        let only_root = "This operation is only allowed on the root blob.";
        let without_version =
            "This operation is only allowed on the root blob. Version id should not be provided.";
        for (name, reason) in [("snapshot", only_root), ("versionid", without_version)] {
            if let Some(text) = given(query, name) {
                return Err(invalid_value(name, text, reason));
            }
        }
    }
    let permanently = match given(query, "deletetype") {
        Some(text) if text.eq_ignore_ascii_case("permanent") => true,
        Some(text) => return Err(invalid_value("deletetype", text, "")),
        None => false,
    };
    let tier_conditions = TierConditions {
        modified_since: header::date(headers, header::TIER_IF_MODIFIED_SINCE)?,
        unmodified_since: header::date(headers, header::TIER_IF_UNMODIFIED_SINCE)?,
    };
    let preconditions = conditions::of_write(headers)?;
    Ok(DeleteBlob { blob, revision, snapshots, tier_conditions, permanently, preconditions })
}

fn set_properties(headers: &RequestHeaders<'_>, blob: BlobPath) -> Result<SetBlobProperties, ServiceError> {
    let number = header::number(headers, header::BLOB_SEQUENCE_NUMBER)?;
    let required = || number.ok_or_else(|| header::missing(header::BLOB_SEQUENCE_NUMBER));
    let action = header::word(headers, header::SEQUENCE_NUMBER_ACTION, |text| {
        ["max", "update", "increment"].into_iter().find(|known| text.eq_ignore_ascii_case(known))
    })?;
    let sequence_number = match action {
        Some("max") => Some(SequenceNumberAction::Max(required()?)),
        Some("update") => Some(SequenceNumberAction::Update(required()?)),
        Some(_) if number.is_some() => return Err(header::invalid(headers, header::BLOB_SEQUENCE_NUMBER)),
        Some(_) => Some(SequenceNumberAction::Increment),
        None => None,
    };
    let resize = writes::page_blob_bytes(headers)?;
    let http = new_blob::http_properties_of_blob(headers)?;
    // One of the six sets them all; none of anything clears them.
    let only_pages = http == Default::default() && (resize.is_some() || sequence_number.is_some());
    Ok(SetBlobProperties {
        blob,
        http: (!only_pages).then_some(http),
        resize,
        sequence_number,
        preconditions: conditions::of_write(headers)?,
        encryption: new_blob::encryption(headers)?,
    })
}

fn page_ranges(
    request: &Request<'_>,
    blob: BlobPath,
    revision: Revision,
) -> Result<GetPageRanges, ServiceError> {
    let (query, headers) = (request.head.query, &request.headers);
    let since = match (given(query, "prevsnapshot"), header::given(headers, header::PREVIOUS_SNAPSHOT_URL)?) {
        (Some(text), _) => {
            let moment = Revision::parse_moment(text);
            Some(PreviousSnapshot::At(moment.ok_or_else(|| invalid_value("prevsnapshot", text, ""))?))
        }
        (None, Some(url)) => Some(PreviousSnapshot::Url(url.to_owned())),
        (None, None) => None,
    };
    let from = match given(query, "marker") {
        Some(text) => Some(text.parse().map_err(|_| invalid_value("marker", text, ""))?),
        None => None,
    };
    let page_size = crate::parameters::ranged(query, "maxresults", 1, i64::from(i32::MAX))?;
    Ok(GetPageRanges {
        blob,
        revision,
        since,
        range: pieces::range(headers)?,
        from,
        page_size: page_size.map(|size| size.min(MAX_PAGE_RANGES) as usize),
        preconditions: conditions::of_read(headers)?,
    })
}

#[cfg(test)]
mod tests;
