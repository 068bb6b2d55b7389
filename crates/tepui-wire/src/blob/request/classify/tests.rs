use super::*;

/// Classifies `METHOD /path?query`, and then `; name: value` for each header.
fn classified(line: &str) -> Result<OperationKind, ErrorCode> {
    let mut pieces = line.split("; ");
    let (method, target) = pieces.next().unwrap().split_once(' ').unwrap();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut headers = http::HeaderMap::new();
    for header in pieces {
        let (name, value) = header.split_once(": ").unwrap();
        headers.insert(http::HeaderName::try_from(name).unwrap(), value.parse().unwrap());
    }
    let query = Query::parse(query);
    let resource = Resource::parse(&path[1..], &query).map_err(|error| error.code)?;
    classify(&method.parse().unwrap(), &resource, &query, &RequestHeaders::new(&headers))
        .map_err(|error| error.code)
}

#[test]
fn requests_are_classified() {
    use OperationKind::*;
    for (line, expected) in [
        ("GET /?comp=list", ListContainers),
        ("GET /?Comp=List&include=", ListContainers),
        ("GET /?restype=service&comp=properties", GetServiceProperties),
        ("PUT /?restype=Service&comp=Properties", SetServiceProperties),
        ("GET /?restype=service&comp=stats", GetServiceStats),
        ("POST /?restype=service&comp=userdelegationkey", GetUserDelegationKey),
        ("GET /?restype=account&comp=properties", GetAccountInformation),
        ("HEAD /c?restype=account&comp=properties", GetAccountInformation),
        ("GET /c/b?restype=account&comp=properties", GetAccountInformation),
        ("POST /?comp=batch", Batch),
        ("POST /?restype=container&comp=batch", Batch),
        ("POST /c?restype=container&comp=batch", ContainerBatch),
        ("GET /?comp=blobs&where=a", FindBlobsByTags),
        ("GET /c?restype=container&comp=blobs&where=a", FindBlobsByTagsInContainer),
        ("PUT /c?restype=container", CreateContainer),
        ("HEAD /c?restype=container", GetContainerProperties),
        ("GET /c/?restype=container", GetContainerProperties),
        ("HEAD /c?restype=container&comp=metadata", GetContainerMetadata),
        ("PUT /c?restype=container&comp=metadata", SetContainerMetadata),
        ("GET /c?restype=container&comp=acl", GetContainerAcl),
        ("PUT /c?restype=container&comp=acl", SetContainerAcl),
        ("PUT /c?restype=container&comp=lease; x-ms-lease-action: acquire", LeaseContainer),
        ("PUT /c?restype=container&comp=lease; x-ms-lease-action: Break", BreakContainerLease),
        ("DELETE /c?restype=container", DeleteContainer),
        ("PUT /c?restype=container&comp=undelete", RestoreContainer),
        ("PUT /c?restype=container&comp=rename", RenameContainer),
        ("GET /c?restype=container&comp=list", ListBlobs),
        ("PUT /c/b; x-ms-blob-type: BlockBlob", PutBlob),
        ("PUT /c/b", PutBlob),
        ("PUT /robots.txt", PutBlob),
        ("PUT /c/b; x-ms-copy-source: u; x-ms-blob-type: BlockBlob", PutBlobFromUrl),
        ("PUT /c/b; x-ms-copy-source: u", CopyBlob),
        ("PUT /c/b; x-ms-copy-source: u; x-ms-requires-sync: true", CopyBlobFromUrl),
        ("PUT /c/b?comp=copy&copyid=1", AbortCopy),
        ("PUT /c/b?comp=incrementalcopy; x-ms-copy-source: u", IncrementalCopy),
        ("GET /c/b?snapshot=x", GetBlob),
        ("HEAD /c/b", GetBlobProperties),
        ("HEAD /c/b?comp=metadata", GetBlobMetadata),
        ("PUT /c/b?comp=metadata", SetBlobMetadata),
        ("PUT /c/b?comp=properties", SetBlobProperties),
        ("PUT /c/b?comp=lease", LeaseBlob),
        ("PUT /c/b?comp=lease; x-ms-lease-action: break", BreakBlobLease),
        ("PUT /c/b?comp=snapshot", SnapshotBlob),
        ("DELETE /c/b?snapshot=x", DeleteBlob),
        ("DELETE /c/b?versionid=x", DeleteBlobVersion),
        ("DELETE /c/b?versionid=x&deletetype=permanent", DeleteBlobPermanently),
        ("PUT /c/b?comp=undelete", UndeleteBlob),
        ("PUT /c/b?comp=tier", SetBlobTier),
        ("GET /c/b?comp=tags", GetBlobTags),
        ("PUT /c/b?comp=tags", SetBlobTags),
        ("PUT /c/b?comp=expiry", SetBlobExpiry),
        ("PUT /c/b?comp=immutabilityPolicies", SetImmutabilityPolicy),
        ("DELETE /c/b?comp=immutabilityPolicies", DeleteImmutabilityPolicy),
        ("PUT /c/b?comp=legalhold", SetLegalHold),
        ("POST /c/b?comp=query", QueryBlobContents),
        ("PUT /c/b?comp=block&blockid=x", PutBlock),
        ("PUT /c/b?comp=block&blockid=x; x-ms-copy-source: u", PutBlockFromUrl),
        ("PUT /c/b?comp=blocklist", PutBlockList),
        ("GET /c/b?comp=blocklist", GetBlockList),
        ("PUT /c/b?comp=appendblock", AppendBlock),
        ("PUT /c/b?comp=appendblock; x-ms-copy-source: u", AppendBlockFromUrl),
        ("PUT /c/b?comp=seal", SealBlob),
        ("PUT /c/b?comp=page; x-ms-page-write: update", PutPages),
        ("PUT /c/b?comp=page; x-ms-page-write: Clear", ClearPages),
        ("PUT /c/b?comp=page; x-ms-page-write: update; x-ms-copy-source: u", PutPagesFromUrl),
        ("GET /c/b?comp=pagelist", GetPageRanges),
        ("GET /c/b?comp=pagelist&prevsnapshot=x", GetPageRangesDiff),
        ("GET /c/b?comp=pagelist; x-ms-previous-snapshot-url: u", GetPageRangesDiff),
    ] {
        assert_eq!(classified(line), Ok(expected), "{line}");
    }
}

#[test]
fn requests_are_refused() {
    use ErrorCode::*;
    for (line, expected) in [
        ("PATCH /c/b", UnsupportedHttpVerb),
        ("POST /c/b", UnsupportedHttpVerb),
        ("POST /c?restype=container", UnsupportedHttpVerb),
        ("PUT /?comp=list", UnsupportedHttpVerb),
        ("HEAD /c?restype=container&comp=list", UnsupportedHttpVerb),
        ("GET /?restype=service&comp=userdelegationkey", UnsupportedHttpVerb),
        ("PUT /c?restype=account&comp=properties", UnsupportedHttpVerb),
        ("GET /c/b?comp=block", UnsupportedHttpVerb),
        ("GET /c/b?comp=other", InvalidQueryParameterValue),
        ("GET /c?restype=container&comp=other", InvalidQueryParameterValue),
        ("GET /c?restype=other", InvalidQueryParameterValue),
        ("GET /?restype=service&comp=list", InvalidQueryParameterValue),
        ("GET /?restype=service", InvalidUri),
        ("GET /", InvalidUri),
        ("PUT /c/", InvalidUri),
        ("GET /c/b?restype=container", InvalidUri),
        ("GET /c?restype=service&comp=properties", InvalidUri),
        ("GET /?restype=container&comp=list", InvalidUri),
        ("GET /?restype=account", InvalidUri),
    ] {
        assert_eq!(classified(line), Err(expected), "{line}");
    }
}
