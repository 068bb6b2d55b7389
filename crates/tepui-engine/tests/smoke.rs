use tepui_engine::*;
#[tokio::test]
async fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    let e = DiskEngine::open(DiskOptions::new(dir.path())).unwrap();
    for i in 0..100u32 {
        let s = e.snapshot().await.unwrap();
        e.commit(
            s.version(),
            vec![],
            vec![Write::Put(i.to_be_bytes().to_vec().into(), vec![1u8; 100].into())],
        )
        .await
        .unwrap();
    }
    let s = e.snapshot().await.unwrap();
    let p = s
        .scan(
            &KeyRange { start: vec![0].into(), end: vec![255].into() },
            ScanLimit { max_rows: 1000, max_bytes: 1 << 20 },
        )
        .await
        .unwrap();
    assert_eq!(p.rows.len(), 100);
    let at = s.version();
    e.commit(at, vec![], vec![Write::Delete(vec![0, 0, 0, 1].into())]).await.unwrap();
    assert_eq!(
        e.commit(at, vec![], vec![Write::Delete(vec![0, 0, 0, 1].into())]).await,
        Err(CommitError::Conflict)
    );
    drop(s);
    e.close();
    let e = DiskEngine::open(DiskOptions::new(dir.path())).unwrap();
    let s = e.snapshot().await.unwrap();
    let p = s
        .scan(
            &KeyRange { start: vec![0].into(), end: vec![255].into() },
            ScanLimit { max_rows: 1000, max_bytes: 1 << 20 },
        )
        .await
        .unwrap();
    assert_eq!(p.rows.len(), 99);
}
