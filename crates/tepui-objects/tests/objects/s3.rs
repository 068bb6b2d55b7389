//! A real server that speaks the protocol of S3.
//!
//! It is installed by `conformance/s3/run`, or named by `TEPUI_TEST_S3_BIN`. `TEPUI_TEST_S3=skip` leaves these tests out.

use crate::subject::{Objects, options, stored};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_objects::{Environment, ObjectExtents, ObjectOptions, open_store};
use tepui_storage::contract::extents::{check, content};
use tepui_storage::{ExtentWriter, Extents, StorageErrorKind};

const BUCKET: &str = "tepui-tests";

/// A server, which is stopped when this is dropped.
struct Server {
    process: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The first of eight free ports. Somebody else may take one before the server does; then it is tried again.
fn free_ports() -> u16 {
    loop {
        let first = fastrand::u16(20_000..32_000);
        if (first..first + 8).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
}

/// `None` if it is to be skipped.
async fn server() -> Option<Server> {
    if std::env::var("TEPUI_TEST_S3").is_ok_and(|wish| wish == "skip") {
        return None;
    }
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/s3/run");
    let found = Command::new(&script).arg("bin").output().unwrap();
    assert!(
        found.status.success(),
        "there is no S3 server for tests: {} bin failed; name one with TEPUI_TEST_S3_BIN, or set TEPUI_TEST_S3=skip: {}",
        script.display(),
        String::from_utf8_lossy(&found.stderr)
    );
    for _ in 0..5 {
        let (dir, port) = (tempfile::tempdir().unwrap(), free_ports());
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        // It replaces itself with the server, so that killing it is killing the server.
        let process = Command::new(&script)
            .arg("start")
            .arg(dir.path().join("data"))
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Server { process, port, _dir: dir };
        if server.is_ready().await {
            return Some(server);
        }
    }
    panic!("the S3 server does not start")
}

impl Server {
    async fn is_ready(&mut self) -> bool {
        let give_up = Instant::now() + Duration::from_secs(60);
        while Instant::now() < give_up {
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            // A bucket is a directory of the filer: putting an object creates it, which works when all of the server is ready.
            let created = Command::new("curl")
                .args(["--silent", "--fail", "--output", "/dev/null", "--request", "PUT"])
                .args(["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", "tepui:tepui-secret"])
                .arg(format!("http://127.0.0.1:{}/{BUCKET}", self.port))
                .status()
                .unwrap();
            if created.success() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        false
    }

    fn options(&self, prefix: &str, secret: &str) -> ObjectOptions {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        let variables = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ACCESS_KEY_ID", "tepui"),
            ("AWS_SECRET_ACCESS_KEY", secret),
            ("AWS_REGION", "us-east-1"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let url = format!("s3://{BUCKET}/{prefix}");
        ObjectOptions { url, environment: Environment::of(variables), ..options() }
    }
}

async fn write(extents: &ObjectExtents, content: &[u8]) -> tepui_storage::Extent {
    let mut writer = extents.begin().await.unwrap();
    for part in content.chunks(256 << 10) {
        writer.write(part.to_vec().into()).await.unwrap();
    }
    let extent = writer.finish().await.unwrap();
    extents.unpin(extent);
    extent
}

#[tokio::test(flavor = "multi_thread")]
async fn an_s3_server_keeps_the_contract() {
    let Some(server) = server().await else { return };
    let options = server.options("some/prefix", "tepui-secret");
    let (store, prefix) = open_store(&options).unwrap();
    check(&mut Objects::open(Arc::clone(&store), prefix, options).await).await;

    // In parts.
    let extents = ObjectExtents::open(server.options("parts", "tepui-secret")).await.unwrap();
    let long = content(17_000_000, 1);
    let extent = write(&extents, &long).await;
    assert!(extents.read(extent, 0..extent.bytes).await.unwrap().concat() == long);
    assert!(extents.read(extent, 6_000_000..6_000_100).await.unwrap().concat() == long[6_000_000..6_000_100]);
    let mut dropped = extents.begin().await.unwrap();
    dropped.write(long.clone().into()).await.unwrap();
    drop(dropped);
    let parts = "parts".into();
    assert_eq!(stored(&store, &parts).await.len(), 1);
    extents.free(vec![extent, extent]).await.unwrap();
    assert_eq!(stored(&store, &parts).await, []);
    extents.close().await;

    let refused = ObjectExtents::open(server.options("some/prefix", "wrong")).await;
    let refused = refused.map(|extents| extents.store()).unwrap_err();
    assert_eq!(refused.kind(), StorageErrorKind::Failed, "{refused}");
    assert!(refused.message().contains("credentials"), "{refused}");
}

/// Killed, stopped and started again: errors say so, and what was acknowledged is there.
#[tokio::test(flavor = "multi_thread")]
async fn an_s3_server_that_is_away_is_unavailable() {
    let Some(mut server) = server().await else { return };
    let quick = ObjectOptions { timeout: Duration::from_secs(10), ..server.options("x", "tepui-secret") };
    let extents = ObjectExtents::open(quick).await.unwrap();
    let extent = write(&extents, b"some bytes").await;
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    let began = Instant::now();
    let read = extents.read(extent, 0..4).await.unwrap_err();
    assert_eq!(read.kind(), StorageErrorKind::Unavailable, "{read}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// How fast it is. Not a test: `cargo test --release -p tepui-objects -- --ignored --nocapture how_fast`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn how_fast() {
    let Some(server) = server().await else { return };
    let options = ObjectOptions { part_bytes: 8 << 20, ..server.options("x", "tepui-secret") };
    let extents = ObjectExtents::open(options).await.unwrap();
    for (bytes, times) in [(64 << 10, 200), (4 << 20, 30), (64 << 20, 4)] {
        let content = content(bytes, 1);
        let began = Instant::now();
        let mut written = Vec::new();
        for _ in 0..times {
            written.push(write(&extents, &content).await);
        }
        let put = began.elapsed() / times;
        let began = Instant::now();
        for extent in &written {
            let mut at = 0;
            while at < extent.bytes {
                let to = (at + (4 << 20)).min(extent.bytes);
                extents.read(*extent, at..to).await.unwrap();
                at = to;
            }
        }
        let get = began.elapsed() / times;
        extents.free(written).await.unwrap();
        println!("{bytes} bytes: put {put:?}, get {get:?}");
    }
}
