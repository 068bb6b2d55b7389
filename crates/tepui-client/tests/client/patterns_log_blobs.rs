//! Log data in blobs.

use crate::support::TestServer;
use std::sync::Arc;
use std::time::Duration;
use tepui_client::patterns::log_blobs::{LogBlobs, LogLimits};
use tepui_client::{Container, ErrorKind, Retry, Timestamp};
use tepui_model::Clock as _;
use tepui_model::time::ManualClock;

const LONG: LogLimits =
    LogLimits { lines: 1000, bytes: 1 << 20, age: Duration::from_secs(3600), blocks: 50_000 };

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::parse_iso("2026-03-10T08:15:30Z").unwrap()))
}

async fn container(server: &TestServer) -> Container {
    let container = server.account().container("logs").unwrap();
    container.create_if_missing().await.unwrap();
    container
}

fn log(container: &Container, clock: &Arc<ManualClock>, limits: LogLimits) -> LogBlobs {
    let clock = Arc::clone(clock);
    LogBlobs::new(container, "orders", limits).unwrap().clock(move || clock.now())
}

async fn names(container: &Container) -> Vec<String> {
    container.list("").await.unwrap().into_iter().map(|blob| blob.name).collect()
}

async fn all_lines(log: &LogBlobs) -> Vec<String> {
    let mut lines = log.read(log.now().saturating_sub(Duration::from_secs(7200)), log.now()).await.unwrap();
    let mut all = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        all.push(line);
    }
    all
}

#[tokio::test]
async fn lines_wait_until_there_are_enough() {
    let server = TestServer::start().await;
    let container = container(&server).await;
    let log = log(&container, &clock(), LogLimits { lines: 3, bytes: 20, ..LONG });
    for (line, waiting) in
        [("a", 1), ("b", 2), ("c", 0), ("d", 1), ("0123456789", 2), ("0123456789", 1), ("é", 2)]
    {
        log.write(line).await.unwrap();
        assert_eq!(log.waiting().await, waiting, "{line}");
    }
    assert_eq!(all_lines(&log).await, ["a", "b", "c", "d", "0123456789"]);
    log.flush().await.unwrap();
    log.flush().await.unwrap();
    assert_eq!(all_lines(&log).await.len(), 7);
    assert_eq!(names(&container).await, ["orders/2026/03/10/08/0.log"]);
    for (line, kind) in [("a\nb", ErrorKind::Refused), ("01234567890123456789", ErrorKind::TooLarge)] {
        assert_eq!(log.write(line).await.unwrap_err().kind(), kind);
    }
    for limits in [
        LogLimits { lines: 0, ..LONG },
        LogLimits { bytes: 5 << 20, ..LONG },
        LogLimits { blocks: 50_001, ..LONG },
    ] {
        assert_eq!(LogBlobs::new(&container, "x", limits).unwrap_err().kind(), ErrorKind::Configuration);
    }
}

#[tokio::test]
async fn no_line_waits_longer_than_its_age() {
    let server = TestServer::start().await;
    let container = container(&server).await;
    let log = log(&container, &clock(), LogLimits { age: Duration::from_millis(50), ..LONG });
    // The first attempt fails, and nobody writes another line.
    server.fault(r#"{"operation":"AppendBlock","error":{"code":"InvalidInput"},"count":1}"#).await;
    log.write("a").await.unwrap();
    for _ in 0..200 {
        if log.waiting().await == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(all_lines(&log).await, ["a"]);
}

#[tokio::test]
async fn a_new_blob_is_begun_for_each_hour_each_writer_and_when_one_is_full() {
    let server = TestServer::start().await;
    let container = container(&server).await;
    let clock = clock();
    let limits = LogLimits { lines: 1, blocks: 2, ..LONG };
    let (first, second) = (log(&container, &clock, limits), log(&container, &clock, limits));
    for number in 0..3 {
        first.write(&format!("first {number}")).await.unwrap();
        second.write(&format!("second {number}")).await.unwrap();
    }
    clock.advance(Duration::from_secs(3600));
    first.write("next hour").await.unwrap();
    // The clock goes back: the line is where its time says.
    clock.set(Timestamp::parse_iso("2026-03-10T08:59:00Z").unwrap());
    first.write("first 3").await.unwrap();
    let hour = "orders/2026/03/10/08/";
    let mut expected: Vec<_> = (0..5).map(|number| format!("{hour}{number}.log")).collect();
    expected.push("orders/2026/03/10/09/0.log".to_owned());
    assert_eq!(names(&container).await, expected);
    container
        .blob("orders/2026/03/10/08/other.txt")
        .unwrap()
        .put("x", "text/plain", tepui_client::WriteIf::Always)
        .await
        .unwrap();
    let mut lines = all_lines(&first).await;
    lines.sort();
    assert_eq!(lines, ["first 0", "first 1", "first 2", "first 3", "second 0", "second 1", "second 2"]);
}

#[tokio::test]
async fn lines_whose_answer_was_lost_are_there_once() {
    let server = TestServer::start().await;
    container(&server).await;
    // With and without attempts of the client itself.
    for (retry, hour) in [(Retry::quick(), "08"), (Retry::never(), "09")] {
        let account = server.builder().retry(retry).build().unwrap();
        let container = account.container("logs").unwrap();
        let clock =
            Arc::new(ManualClock::at(Timestamp::parse_iso(&format!("2026-03-10T{hour}:00:00Z")).unwrap()));
        let log = log(&container, &clock, LONG);
        let mut expected = Vec::new();
        for (number, when) in ["after", "before", "after", "after"].into_iter().enumerate() {
            let fault = format!(r#"{{"operation":"AppendBlock","when":"{when}","cut":true,"count":1}}"#);
            server.fault(&fault).await;
            expected.push(format!("{hour} {number}"));
            log.write(&expected[number]).await.unwrap();
            log.flush().await.unwrap();
            server.clear_faults().await;
        }
        // Lost for longer: other lines come meanwhile, and none is there twice.
        server.fault(r#"{"operation":"AppendBlock","when":"after","cut":true}"#).await;
        server.fault(r#"{"operation":"ListBlobs","cut":true}"#).await;
        for line in ["x", "y", "z"] {
            log.write(line).await.unwrap();
            log.flush().await.unwrap_err();
            expected.push(line.to_owned());
        }
        assert_eq!(log.waiting().await, 3);
        server.clear_faults().await;
        log.flush().await.unwrap();
        let mut lines = log.read(log.now(), log.now()).await.unwrap();
        for expected in expected {
            assert_eq!(lines.next_line().await.unwrap(), Some(expected));
        }
        assert_eq!(lines.next_line().await.unwrap(), None);
    }
}

#[tokio::test]
async fn what_cannot_be_written_waits_within_its_limits() {
    let server = TestServer::start().await;
    let container = container(&server).await;
    let log = log(&container, &clock(), LogLimits { lines: 2, ..LONG });
    server.fault(r#"{"service":"blob","error":{"code":"InvalidInput"}}"#).await;
    log.write("a").await.unwrap();
    log.write("b").await.unwrap();
    assert!(log.write("c").await.is_err());
    assert_eq!(log.waiting().await, 2);
    server.clear_faults().await;
    log.write("d").await.unwrap();
    log.flush().await.unwrap();
    assert_eq!(all_lines(&log).await, ["a", "b", "d"]);
}

#[tokio::test]
async fn long_blobs_are_read_in_pieces() {
    let server = TestServer::start().await;
    let container = container(&server).await;
    let log = log(&container, &clock(), LogLimits { bytes: 4 << 20, ..LONG });
    let expected: Vec<_> =
        (0..900).map(|number: usize| format!("{number} {}", "é".repeat(number * 4))).collect();
    for line in &expected {
        log.write(line).await.unwrap();
    }
    log.flush().await.unwrap();
    assert!(all_lines(&log).await == expected);
}
