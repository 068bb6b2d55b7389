//! What the session does. Every request has a line here with what is to be logged about it.

use crate::client::{Auth, Request, Service};
use crate::logs::set_logging;
use crate::session::{Session, port, request};
use crate::support::blob::inside;

const LEASE: &str = "5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11";
const AGENT: &str = "an \"agent\"; 1.0 <it's & that>";

pub(crate) fn run(session: &mut Session<'_>, version: &str) {
    for service in [Service::Blob, Service::Queue, Service::Table] {
        let (name, version) = match service {
            Service::Blob => ("SetBlobServiceProperties", version),
            Service::Queue => ("SetQueueServiceProperties", version),
            // Tables know no other.
            Service::Table => ("SetTableServiceProperties", "1.0"),
        };
        session.logged(set_logging(service, version, true, true, true), 202, name, "Success", "");
    }
    blobs(session);
    queues(session);
    tables(session);
}

fn blob(method: &'static str, path: &str) -> Request {
    request(Service::Blob, method, path).with("User-Agent", AGENT)
}

fn blobs(session: &mut Session<'_>) {
    let create = || blob("PUT", "/pictures?restype=container").with("x-ms-blob-public-access", "blob");
    session.logged(create(), 201, "CreateContainer", "Success", "/pictures");
    session.logged(create(), 409, "CreateContainer", "ContainerAlreadyExists", "/pictures");
    let put = |path: &str, body: &str| blob("PUT", path).with("x-ms-blob-type", "BlockBlob").body(body);
    let md5 = "XUFAKrxLKna5cZ2REBfFkg==";
    session.logged(
        put("/pictures/a.txt", "hello").with("Content-MD5", md5),
        201,
        "PutBlob",
        "Success",
        "/pictures/a.txt",
    );
    let odd = "/pictures/%C3%A9%20%22%3B%3C%26%27.txt";
    session.logged(put(odd, "odd").by(Auth::Sas), 201, "PutBlob", "SASSuccess", "/pictures/é \";<&'.txt");
    session.logged(put("/none/a.txt", "x"), 404, "PutBlob", "ContainerNotFound", "/none/a.txt");
    let get = || blob("GET", "/pictures/a.txt");
    let etag = session.logged(get(), 200, "GetBlob", "Success", "/pictures/a.txt").header("etag").to_owned();
    session.logged(
        get().by(Auth::Sas).with("Referer", "http://page/x?y=1&z"),
        200,
        "GetBlob",
        "SASSuccess",
        "/pictures/a.txt",
    );
    session.logged(get().by(Auth::Nobody), 200, "GetBlob", "AnonymousSuccess", "/pictures/a.txt");
    session.logged(get().with("If-None-Match", &etag), 304, "GetBlob", "ConditionNotMet", "/pictures/a.txt");
    session.logged(get().with("If-Match", "\"0x0\""), 412, "GetBlob", "ConditionNotMet", "/pictures/a.txt");
    session.logged(get().by(Auth::WrongKey), 403, "Unknown", "AuthorizationError", "/pictures/a.txt");
    session.not_logged(blob("GET", "/pictures/none").by(Auth::Nobody), 404);
    session.not_logged(blob("PUT", "/pictures/none").by(Auth::Nobody), 404);
    session.logged(blob("GET", "/pictures/none"), 404, "GetBlob", "BlobNotFound", "/pictures/none");
    session.logged(blob("HEAD", "/pictures/a.txt"), 200, "GetBlobProperties", "Success", "/pictures/a.txt");
    session.logged(
        blob("HEAD", "/pictures/none"),
        404,
        "GetBlobProperties",
        "BlobNotFound",
        "/pictures/none",
    );
    let metadata = blob("PUT", "/pictures/a.txt?comp=metadata").with("x-ms-meta-color", "red");
    session.logged(metadata, 200, "SetBlobMetadata", "Success", "/pictures/a.txt");
    let lease = |path: &str, action: &str| blob("PUT", path).with("x-ms-lease-action", action);
    for (path, action, status, operation) in [
        ("/pictures/a.txt?comp=lease", "acquire", 201, "AcquireBlobLease"),
        ("/pictures/a.txt?comp=lease", "renew", 200, "RenewBlobLease"),
        ("/pictures/a.txt?comp=lease", "release", 200, "ReleaseBlobLease"),
    ] {
        let name = if action == "acquire" { "x-ms-proposed-lease-id" } else { "x-ms-lease-id" };
        let request = lease(path, action).with(name, LEASE);
        let request = if action == "acquire" { request.with("x-ms-lease-duration", "15") } else { request };
        session.logged(request, status, operation, "Success", "/pictures/a.txt");
    }
    let acquire =
        lease("/pictures?restype=container&comp=lease", "acquire").with("x-ms-lease-duration", "-1");
    session.logged(acquire, 201, "AcquireContainerLease", "Success", "/pictures");
    let broken =
        lease("/pictures?restype=container&comp=lease", "break").with("x-ms-lease-break-period", "0");
    session.logged(broken, 202, "BreakContainerLease", "Success", "/pictures");
    let source =
        format!("http://127.0.0.1:{}/devstoreaccount1/pictures/a.txt", port(session.server, Service::Blob));
    let copy = blob("PUT", "/pictures/copy.txt").with("x-ms-copy-source", &source);
    session.logged(copy, 202, "CopyBlob", "Success", "/pictures/copy.txt");
    let block = blob("PUT", "/pictures/blocks?comp=block&blockid=AAAA").body("block");
    session.logged(block, 201, "PutBlock", "Success", "/pictures/blocks");
    let list = "<BlockList><Latest>AAAA</Latest></BlockList>";
    session.logged(
        blob("PUT", "/pictures/blocks?comp=blocklist").body(list),
        201,
        "PutBlockList",
        "Success",
        "/pictures/blocks",
    );
    session.logged(
        blob("GET", "/pictures/blocks?comp=blocklist"),
        200,
        "GetBlockList",
        "Success",
        "/pictures/blocks",
    );
    session.logged(
        blob("GET", "/pictures?restype=container&comp=list&prefix=a%26"),
        200,
        "ListBlobs",
        "Success",
        "/pictures",
    );
    session.logged(blob("GET", "/?comp=list"), 200, "ListContainers", "Success", "");
    session.logged(
        blob("GET", "/?restype=service&comp=properties"),
        200,
        "GetBlobServiceProperties",
        "Success",
        "",
    );
    session.logged(
        blob("GET", "/pictures?restype=container&comp=acl"),
        200,
        "GetContainerACL",
        "Success",
        "/pictures",
    );
    session.logged(blob("DELETE", "/pictures/a.txt"), 202, "DeleteBlob", "Success", "/pictures/a.txt");
    session.logged(blob("GET", "/$logs?restype=container&comp=list"), 200, "ListBlobs", "Success", "/$logs");
    session.logged(
        blob("DELETE", "/$logs?restype=container"),
        403,
        "DeleteContainer",
        "AuthorizationError",
        "/$logs",
    );
    session.logged(
        blob("DELETE", "/pictures?restype=container"),
        202,
        "DeleteContainer",
        "Success",
        "/pictures",
    );
}

fn queues(session: &mut Session<'_>) {
    let queue = |method, path: &str| request(Service::Queue, method, path).with("User-Agent", AGENT);
    session.logged(queue("PUT", "/jobs"), 201, "CreateQueue", "Success", "/jobs");
    session.logged(
        queue("PUT", "/jobs?comp=metadata").with("x-ms-meta-a", "b"),
        204,
        "SetQueueMetadata",
        "Success",
        "/jobs",
    );
    session.logged(
        queue("GET", "/jobs?comp=metadata").by(Auth::Sas),
        200,
        "GetQueueMetadata",
        "SASSuccess",
        "/jobs",
    );
    let message = "<QueueMessage><MessageText>work</MessageText></QueueMessage>";
    for _ in 0..2 {
        session.logged(queue("POST", "/jobs/messages").body(message), 201, "PutMessage", "Success", "/jobs");
    }
    session.logged(queue("GET", "/jobs/messages?peekonly=true"), 200, "PeekMessage", "Success", "/jobs");
    session.logged(
        queue("GET", "/jobs/messages?peekonly=true&numofmessages=32"),
        200,
        "PeekMessages",
        "Success",
        "/jobs",
    );
    let got = session.logged(queue("GET", "/jobs/messages"), 200, "GetMessage", "Success", "/jobs").text();
    let (id, receipt) = (inside(&got, "MessageId").unwrap(), inside(&got, "PopReceipt").unwrap());
    let receipt = receipt.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    session.logged(queue("GET", "/jobs/messages?numofmessages=32"), 200, "GetMessages", "Success", "/jobs");
    session.logged(queue("GET", "/jobs/messages?numofmessages=32"), 200, "GetMessages", "Success", "/jobs");
    let delete = queue("DELETE", &format!("/jobs/messages/{id}?popreceipt={receipt}"));
    session.logged(delete.clone(), 204, "DeleteMessage", "Success", "/jobs");
    session.logged(delete, 404, "DeleteMessage", "MessageNotFound", "/jobs");
    session.logged(queue("DELETE", "/jobs/messages"), 204, "ClearMessages", "Success", "/jobs");
    session.logged(queue("GET", "/?comp=list"), 200, "ListQueues", "Success", "");
    session.logged(queue("DELETE", "/jobs"), 204, "DeleteQueue", "Success", "/jobs");
    session.logged(queue("GET", "/jobs?comp=metadata"), 404, "GetQueueMetadata", "QueueNotFound", "/jobs");
}

fn tables(session: &mut Session<'_>) {
    let table = |method, path: &str| {
        let request = request(Service::Table, method, path).with("User-Agent", AGENT);
        request.with("Accept", "application/json;odata=nometadata")
    };
    let json = |method, path: &str, body: &str| {
        table(method, path).with("Content-Type", "application/json").body(body)
    };
    session.logged(
        json("POST", "/Tables", r#"{"TableName":"People"}"#),
        201,
        "CreateTable",
        "Success",
        "/People",
    );
    session.logged(
        json("POST", "/Tables", r#"{"TableName":"People"}"#),
        409,
        "CreateTable",
        "TableAlreadyExists",
        "/People",
    );
    let insert = || json("POST", "/People", r#"{"PartitionKey":"smith","RowKey":"1","Age":44}"#);
    session.logged(insert(), 201, "InsertEntity", "Success", "/People");
    session.logged(insert().by(Auth::Sas), 409, "InsertEntity", "EntityAlreadyExists", "/People");
    let path = "/People(PartitionKey='smith',RowKey='1')";
    session.logged(json("PUT", path, r#"{"Age":45}"#), 204, "InsertOrReplaceEntity", "Success", "/People");
    session.logged(json("MERGE", path, r#"{"Age":46}"#), 204, "InsertOrMergeEntity", "Success", "/People");
    session.logged(
        json("PUT", path, r#"{"Age":47}"#).with("If-Match", "*"),
        204,
        "UpdateEntity",
        "Success",
        "/People",
    );
    session.logged(
        json("MERGE", path, r#"{"Age":48}"#).with("If-Match", "*"),
        204,
        "MergeEntity",
        "Success",
        "/People",
    );
    session.logged(table("GET", path).by(Auth::Sas), 200, "QueryEntity", "SASSuccess", "/People");
    let query = "/People()?$filter=Age%20gt%201%20and%20PartitionKey%20eq%20'smith'";
    session.logged(table("GET", query), 200, "QueryEntities", "Success", "/People");
    session.logged(table("GET", "/Missing()"), 404, "QueryEntities", "TableNotFound", "/Missing");
    session.logged(table("GET", "/Tables"), 200, "QueryTables", "Success", "/Tables");
    session.logged(table("GET", "/Tables('People')"), 200, "QueryTable", "Success", "/People");
    let batch = "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n--changeset_1\r\n\
        Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
        POST /devstoreaccount1/People HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json\r\n\r\n\
        {\"PartitionKey\":\"smith\",\"RowKey\":\"2\"}\r\n--changeset_1--\r\n--batch_1--\r\n";
    let batch =
        table("POST", "/$batch").with("Content-Type", "multipart/mixed; boundary=batch_1").body(batch);
    session.logged(batch, 202, "EntityGroupTransaction", "Success", "/People");
    session.logged(table("DELETE", path).with("If-Match", "*"), 204, "DeleteEntity", "Success", "/People");
    session.logged(
        table("GET", "/?restype=service&comp=properties"),
        200,
        "GetTableServiceProperties",
        "Success",
        "",
    );
    let preflight = table("OPTIONS", "/People").by(Auth::Nobody).with("Origin", "http://page");
    session.not_logged(preflight.with("Access-Control-Request-Method", "GET"), 403);
    session.logged(table("DELETE", "/Tables('People')"), 204, "DeleteTable", "Success", "/People");
}
