//! Page blobs, against a plain array of bytes.

use super::*;
use PageState::{Cleared, Written as Put};

pub(crate) async fn create<E: Engine, X: Extents + Clone>(bench: &Bench<E, X>, bytes: u64) {
    let content = EmptyContent::Page { bytes, sequence_number: 0 };
    bench.run(Bench::put_empty("disk", content, NewBlob::default())).await.unwrap();
}

fn range(pages: std::ops::Range<u64>) -> ByteRange {
    ByteRange { first: pages.start * 512, last: Some(pages.end * 512 - 1) }
}

fn page_write(pages: std::ops::Range<u64>) -> PageWrite {
    PageWrite {
        blob: path("disk"),
        pages: PageRange::new(range(pages)).unwrap(),
        sequence: SequenceConditions::default(),
        preconditions: Preconditions::default(),
        encryption: Encryption::default(),
    }
}

pub(crate) async fn write<E: Engine, X: Extents + Clone>(
    bench: &Bench<E, X>,
    pages: std::ops::Range<u64>,
    seed: u8,
) -> Result<Reply, ErrorCode> {
    let content = bytes(((pages.end - pages.start) * 512) as usize, seed);
    let put = PutPages { write: page_write(pages), piece: Piece::Sent(upload()) };
    bench.send(UploadOperation::PutPages(put), &content).await.map_err(|error| error.code)
}

pub(crate) async fn clear(bench: &Bench, pages: std::ops::Range<u64>) {
    bench.run(Operation::ClearPages(page_write(pages))).await.unwrap();
}

async fn ranges(
    bench: &Bench,
    since: Option<Timestamp>,
    page_size: usize,
) -> Result<Vec<(PageState, u64, u64)>, ErrorCode> {
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let operation = Operation::GetPageRanges(GetPageRanges {
            blob: path("disk"),
            revision: Revision::Base,
            since: since.map(PreviousSnapshot::At),
            range: None,
            from,
            page_size: Some(page_size),
            preconditions: Preconditions::default(),
        });
        let Reply::PageRanges(page) = bench.run(operation).await? else { panic!("no ranges") };
        let pages = |(state, range): &(PageState, ByteRange)| {
            (*state, range.first / 512, range.last.unwrap().div_ceil(512))
        };
        found.extend(page.ranges.iter().map(pages));
        from = page.next;
        if from.is_none() {
            return Ok(found);
        }
    }
}

#[tokio::test]
async fn pages_and_what_has_changed() {
    let bench = Bench::new().await;
    create(&bench, 100 * 512).await;
    assert!(bench.get("disk").await.unwrap() == [0; 100 * 512]);
    write(&bench, 0..3, 1).await.unwrap();
    clear(&bench, 1..2).await;
    assert_eq!(ranges(&bench, None, 9).await.unwrap(), [(Put, 0, 1), (Put, 2, 3)]);
    assert_eq!(write(&bench, 100..101, 1).await, Err(ErrorCode::InvalidPageRange));
    write(&bench, 10..60, 2).await.unwrap();
    let taken = bench.snapshot("disk").await;
    let before = bench.get("disk").await.unwrap();
    write(&bench, 20..21, 3).await.unwrap();
    clear(&bench, 50..70).await;
    write(&bench, 80..82, 4).await.unwrap();
    let changes = [(Put, 20, 21), (Cleared, 50, 60), (Put, 80, 82)];
    for page_size in [1, 2, 9] {
        assert_eq!(ranges(&bench, Some(taken), page_size).await.unwrap(), changes, "{page_size}");
        let all = [(Put, 0, 1), (Put, 2, 3), (Put, 10, 50), (Put, 80, 82)];
        assert_eq!(ranges(&bench, None, page_size).await.unwrap(), all, "{page_size}");
    }
    assert!(bench.get_revision("disk", Revision::Snapshot(taken)).await.unwrap() == before);
    create(&bench, 512).await;
    assert_eq!(ranges(&bench, Some(taken), 9).await, Err(ErrorCode::BlobOverwritten));
}

#[tokio::test]
async fn pages_are_what_was_written_last() {
    let bench = Bench::new().await;
    const PAGES: u64 = 200;
    create(&bench, PAGES * 512).await;
    let mut plain = vec![0; PAGES as usize * 512];
    let mut kept: Vec<(Timestamp, Vec<u8>)> = Vec::new();
    let mut seed = 12345u64;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    for round in 0..300u64 {
        let start = next(PAGES);
        let end = (start + 1 + next(60)).min(PAGES);
        let within = start as usize * 512..end as usize * 512;
        match next(8) {
            0..=4 => {
                plain[within.clone()].copy_from_slice(&bytes(within.len(), round as u8));
                write(&bench, start..end, round as u8).await.unwrap();
            }
            5 | 6 => {
                plain[within].fill(0);
                clear(&bench, start..end).await;
            }
            _ if next(3) == 0 && kept.len() < 12 => {
                kept.push((bench.snapshot("disk").await, plain.clone()));
            }
            _ => {
                let operation = |pages| {
                    Operation::SetBlobProperties(SetBlobProperties {
                        blob: path("disk"),
                        http: None,
                        resize: Some(pages * 512),
                        sequence_number: None,
                        preconditions: Preconditions::default(),
                        encryption: Encryption::default(),
                    })
                };
                bench.run(operation(end)).await.unwrap();
                bench.run(operation(PAGES)).await.unwrap();
                plain[within.end..].fill(0);
            }
        }
        if round % 10 == 0 {
            bench.collect_garbage().await;
            assert!(bench.get("disk").await.unwrap() == plain, "{round}");
        }
    }
    for (taken, plain) in &kept {
        assert!(bench.get_revision("disk", Revision::Snapshot(*taken)).await.unwrap() == *plain);
    }
    bench.delete("disk", Revision::Base, Some(DeleteSnapshots::Include)).await.unwrap();
    bench.collect_garbage().await;
    assert_eq!(bench.count_extents().await, 0);
}
