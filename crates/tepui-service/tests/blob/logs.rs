//! The container of analytics logs, which the server writes and clients read.

use super::*;
use tepui_service::blob::NewLog;

fn log(name: &str, text: &'static str) -> NewLog {
    NewLog {
        name: BlobName::parse(name).unwrap(),
        metadata: Metadata::new(pairs("LogType", "read")).unwrap(),
        text: Bytes::from_static(text.as_bytes()),
    }
}

fn in_logs(name: &str) -> BlobPath {
    BlobPath { container: ContainerName::parse("$logs").unwrap(), ..path(name) }
}

/// The answer to Get Blob, `None` if there is none.
async fn read(bench: &Bench, name: &str) -> Option<Content> {
    let get = GetBlob { blob: in_logs(name), ..Bench::get_operation("a", Revision::Base) };
    match bench.run(Operation::GetBlob(get)).await {
        Ok(Reply::Content(content)) => Some(*content),
        Err(ErrorCode::BlobNotFound) => None,
        other => panic!("neither there nor not: {other:?}"),
    }
}

async fn names(
    bench: &Bench,
    account: &str,
    prefix: &str,
    from: Option<BlobMarker>,
    page_size: usize,
) -> (Vec<String>, Option<BlobMarker>) {
    let list = || async { bench.service().log_names(account, prefix, from.clone(), page_size).await };
    repeat_until_done(list).await
}

#[tokio::test]
async fn the_server_writes_what_clients_may_only_read_and_delete() {
    let bench = Bench::new().await;
    assert_eq!(names(&bench, ACCOUNT, "", None, 10).await.0, Vec::<String>::new());
    put(&bench, &log("table/1.log", "one\n")).await.unwrap();
    put(&bench, &log("table/2.log", "two\n")).await.unwrap();
    put(&bench, &log("blob/1.log", "three\n")).await.unwrap();
    let content = read(&bench, "table/1.log").await.unwrap();
    let (state, metadata) = (&content.properties.state, &content.properties.state.metadata);
    assert_eq!(state.http.content_type.as_deref(), Some("application/octet-stream"));
    assert_eq!(metadata.iter().collect::<Vec<_>>(), [("LogType", "read")]);
    assert_eq!(names(&bench, ACCOUNT, "table/", None, 10).await.0, ["table/1.log", "table/2.log"]);
    let (first, next) = names(&bench, ACCOUNT, "", None, 1).await;
    assert_eq!(first, ["blob/1.log"]);
    assert_eq!(names(&bench, ACCOUNT, "", next, 1).await.0, ["table/1.log"]);
    assert_eq!(names(&bench, "other", "", None, 10).await.0, Vec::<String>::new());

    let refused = bench
        .send(
            UploadOperation::PutBlob(PutBlob {
                blob: in_logs("table/3.log"),
                ..Bench::put_operation("a", Preconditions::default())
            }),
            b"x",
        )
        .await;
    assert_eq!(refused.map_err(|error| error.code), Err(ErrorCode::AuthorizationFailure));
    let preconditions = Preconditions::default();
    let container = in_logs("a").container;
    let delete =
        Operation::DeleteContainer { container: container.clone(), preconditions: preconditions.clone() };
    let metadata =
        Operation::SetContainerMetadata { container, metadata: Metadata::default(), preconditions };
    for operation in [delete, metadata] {
        assert_eq!(bench.run(operation).await, Err(ErrorCode::AuthorizationFailure));
    }
    let delete = DeleteBlob {
        blob: in_logs("table/1.log"),
        revision: Revision::Base,
        snapshots: None,
        tier_conditions: TierConditions::default(),
        permanently: false,
        preconditions: Preconditions::default(),
    };
    assert!(bench.run(Operation::DeleteBlob(delete)).await.is_ok());
    assert!(read(&bench, "table/1.log").await.is_none());
}

/// Writes a log, again where the store does not know what has become of it.
async fn put(bench: &Bench, log: &NewLog) -> Result<(), ErrorCode> {
    for _ in 0..20 {
        match bench.service().put_log(ACCOUNT, log).await {
            Err(error) if error.status() >= 500 => {}
            outcome => return outcome.map_err(|error| error.code),
        }
    }
    panic!("the store fails too often");
}

#[tokio::test]
async fn a_log_is_written_once() {
    let bench = Bench::new().await;
    for (case, text, expected) in [
        ("new", "one\n", Ok(())),
        ("the same", "one\n", Ok(())),
        ("another", "two\n", Err(ErrorCode::BlobAlreadyExists)),
    ] {
        assert_eq!(put(&bench, &log("table/1.log", text)).await, expected, "{case}");
    }
}

#[tokio::test]
async fn what_the_server_deletes_is_gone() {
    let options = BlobOptions { versioned_accounts: vec![ACCOUNT.to_owned()], ..BlobOptions::default() };
    for options in [BlobOptions::default(), options] {
        let bench = Bench::with(options).await;
        let retention = DeleteRetention { days: Some(7), allow_permanent_delete: false };
        let change = BlobServicePropertiesChange { delete_retention: Some(retention), ..Default::default() };
        bench.run(Operation::SetServiceProperties(change)).await.unwrap();
        put(&bench, &log("table/1.log", "one\n")).await.unwrap();
        for _ in 0..2 {
            repeat_until_done(|| async { bench.service().delete_log(ACCOUNT, "table/1.log").await }).await;
        }
        let include = BlobInclude { deleted: true, versions: true, ..BlobInclude::default() };
        let container = in_logs("a").container;
        let all = lists::page(&bench, ListBlobs { container, include, ..lists::query("", None, 10) }).await;
        assert!(all.blobs.is_empty(), "{:?}", all.blobs);
    }
}
