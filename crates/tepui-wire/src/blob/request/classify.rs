//! Which operation a request is: resource, parameters, method and a few headers, one row each.

use super::resource::Resource;
use crate::blob::headers::{
    BLOB_TYPE, COPY_SOURCE, LEASE_ACTION, PAGE_WRITE, PREVIOUS_SNAPSHOT_URL, REQUIRES_SYNC,
};
use crate::parameters;
use crate::query::Query;
use crate::request_headers::RequestHeaders;
use http::Method;
use tepui_model::blob::OperationKind;
use tepui_model::{ErrorCode, ServiceError};

/// The operation that a request asks for.
pub(super) fn classify(
    method: &Method,
    resource: &Resource,
    query: &Query,
    headers: &RequestHeaders<'_>,
) -> Result<OperationKind, ServiceError> {
    let word = |name| parameters::given(query, name).unwrap_or_default().to_ascii_lowercase();
    let (restype, comp) = (word("restype"), word("comp"));
    let found = match (restype.as_str(), resource) {
        ("account", _) if comp == "properties" => account_information(method),
        ("", Resource::Service) | ("service", Resource::Service) => service(method, &restype, &comp),
        ("container", Resource::Container(_)) => container(method, &comp, headers),
        // Fidelity: JavaScript's client takes an account in the path for a container when it sends a batch.
        ("container", Resource::Service) if comp == "batch" => service(method, "", &comp),
        ("", Resource::Blob(..)) => blob(method, &comp, query, headers),
        ("account" | "service" | "container" | "", _) => return Err(ErrorCode::InvalidUri.into()),
        _ => return Err(parameters::invalid_value("restype", given_as_sent(query, "restype"), "")),
    };
    match found {
        Found::Kind(kind) => Ok(kind),
        Found::OtherVerb => Err(ErrorCode::UnsupportedHttpVerb.into()),
        Found::Nothing if comp.is_empty() => Err(ErrorCode::InvalidUri.into()),
        Found::Nothing => Err(parameters::invalid_value("comp", given_as_sent(query, "comp"), "")),
    }
}

/// What a table of operations has for a request.
enum Found {
    Kind(OperationKind),
    /// Something, but not for this verb.
    OtherVerb,
    Nothing,
}

fn given_as_sent<'a>(query: &'a Query, name: &str) -> &'a str {
    query.get_ignore_case(name).unwrap_or_default()
}

fn account_information(method: &Method) -> Found {
    match method.as_str() {
        "GET" | "HEAD" => Found::Kind(OperationKind::GetAccountInformation),
        _ => Found::OtherVerb,
    }
}

fn service(method: &Method, restype: &str, comp: &str) -> Found {
    use OperationKind::*;
    Found::Kind(match (restype, comp, method.as_str()) {
        ("", "list", "GET") => ListContainers,
        ("", "batch", "POST") => Batch,
        ("", "blobs", "GET") => FindBlobsByTags,
        ("service", "properties", "GET") => GetServiceProperties,
        ("service", "properties", "PUT") => SetServiceProperties,
        ("service", "stats", "GET") => GetServiceStats,
        ("service", "userdelegationkey", "POST") => GetUserDelegationKey,
        ("", "list" | "batch" | "blobs", _)
        | ("service", "properties" | "stats" | "userdelegationkey", _) => return Found::OtherVerb,
        _ => return Found::Nothing,
    })
}

fn container(method: &Method, comp: &str, headers: &RequestHeaders<'_>) -> Found {
    use OperationKind::*;
    Found::Kind(match (comp, method.as_str()) {
        ("", "PUT") => CreateContainer,
        ("", "GET" | "HEAD") => GetContainerProperties,
        ("", "DELETE") => DeleteContainer,
        ("metadata", "GET" | "HEAD") => GetContainerMetadata,
        ("metadata", "PUT") => SetContainerMetadata,
        ("acl", "GET" | "HEAD") => GetContainerAcl,
        ("acl", "PUT") => SetContainerAcl,
        ("lease", "PUT") if says(headers, LEASE_ACTION, "break") => BreakContainerLease,
        ("lease", "PUT") => LeaseContainer,
        ("undelete", "PUT") => RestoreContainer,
        ("rename", "PUT") => RenameContainer,
        ("list", "GET") => ListBlobs,
        ("blobs", "GET") => FindBlobsByTagsInContainer,
        ("batch", "POST") => ContainerBatch,
        ("" | "metadata" | "acl" | "lease" | "undelete" | "rename" | "list" | "blobs" | "batch", _) => {
            return Found::OtherVerb;
        }
        _ => return Found::Nothing,
    })
}

fn blob(method: &Method, comp: &str, query: &Query, headers: &RequestHeaders<'_>) -> Found {
    use OperationKind::*;
    let copies = headers.has(COPY_SOURCE);
    let has = |name| parameters::given(query, name).is_some();
    Found::Kind(match (comp, method.as_str()) {
        ("", "GET") => GetBlob,
        ("", "HEAD") => GetBlobProperties,
        ("", "PUT") if copies && headers.has(BLOB_TYPE) => PutBlobFromUrl,
        ("", "PUT") if copies && says(headers, REQUIRES_SYNC, "true") => CopyBlobFromUrl,
        ("", "PUT") if copies => CopyBlob,
        ("", "PUT") => PutBlob,
        ("", "DELETE") if has("deletetype") => DeleteBlobPermanently,
        ("", "DELETE") if has("versionid") => DeleteBlobVersion,
        ("", "DELETE") => DeleteBlob,
        ("metadata", "GET" | "HEAD") => GetBlobMetadata,
        ("metadata", "PUT") => SetBlobMetadata,
        ("properties", "PUT") => SetBlobProperties,
        ("lease", "PUT") if says(headers, LEASE_ACTION, "break") => BreakBlobLease,
        ("lease", "PUT") => LeaseBlob,
        ("snapshot", "PUT") => SnapshotBlob,
        ("undelete", "PUT") => UndeleteBlob,
        ("tier", "PUT") => SetBlobTier,
        ("tags", "GET") => GetBlobTags,
        ("tags", "PUT") => SetBlobTags,
        ("expiry", "PUT") => SetBlobExpiry,
        ("immutabilitypolicies", "PUT") => SetImmutabilityPolicy,
        ("immutabilitypolicies", "DELETE") => DeleteImmutabilityPolicy,
        ("legalhold", "PUT") => SetLegalHold,
        ("query", "POST") => QueryBlobContents,
        ("copy", "PUT") => AbortCopy,
        ("incrementalcopy", "PUT") => IncrementalCopy,
        ("block", "PUT") if copies => PutBlockFromUrl,
        ("block", "PUT") => PutBlock,
        ("blocklist", "PUT") => PutBlockList,
        ("blocklist", "GET") => GetBlockList,
        ("appendblock", "PUT") if copies => AppendBlockFromUrl,
        ("appendblock", "PUT") => AppendBlock,
        ("seal", "PUT") => SealBlob,
        ("page", "PUT") if copies => PutPagesFromUrl,
        ("page", "PUT") if says(headers, PAGE_WRITE, "clear") => ClearPages,
        ("page", "PUT") => PutPages,
        ("pagelist", "GET") if has("prevsnapshot") || headers.has(PREVIOUS_SNAPSHOT_URL) => GetPageRangesDiff,
        ("pagelist", "GET") => GetPageRanges,
        (
            ""
            | "metadata"
            | "properties"
            | "lease"
            | "snapshot"
            | "undelete"
            | "tier"
            | "tags"
            | "expiry"
            | "immutabilitypolicies"
            | "legalhold"
            | "query"
            | "copy"
            | "incrementalcopy"
            | "block"
            | "blocklist"
            | "appendblock"
            | "seal"
            | "page"
            | "pagelist",
            _,
        ) => return Found::OtherVerb,
        _ => return Found::Nothing,
    })
}

/// Whether a header says this. One that cannot be read is refused when the request is decoded.
fn says(headers: &RequestHeaders<'_>, name: &str, word: &str) -> bool {
    headers.get(name).is_some_and(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests;
