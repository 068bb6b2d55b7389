use super::*;
use tepui_model::blob::{
    self, BlobName, BlobPath, ContainerName, Encryption, GetBlob, Preconditions, Revision,
};
use tepui_model::grant::KeyBounds;
use tepui_model::queue::{self, QueueName};
use tepui_model::table::{self, EntityKey, Reply, ValueRef};
use tepui_service::blob::Caller;
use tepui_storage::{MemoryEngine, MemoryExtents};

type InMemory = Seeder<RewindableEngine<MemoryEngine>, MemoryExtents>;

const ACCOUNT: &str = "devstoreaccount1";

fn in_memory(config: &Config) -> InMemory {
    let engine = Arc::new(RewindableEngine::off(Arc::new(MemoryEngine::new())));
    let accounts = Arc::new(AccountDirectory::new(config, &tepui_service::identity::Identity::default()));
    seeder(&engine, &Arc::new(MemoryExtents::new()), &Node::alone(), config, &accounts)
}

/// Files, by their paths, as an archive.
fn archive(files: &[(&str, &[u8])]) -> SeedSource {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // Not by the builder, which refuses paths that lead out of the archive.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    SeedSource::Archive(builder.into_inner().unwrap().into())
}

async fn entity(seeder: &InMemory, table: &str, partition: &str, row: &str) -> Option<table::Entity> {
    let key = EntityKey::new(partition, row);
    let get = table::Operation::GetEntity { table: table.to_owned(), key };
    match seeder.tables.execute(ACCOUNT, &get, &KeyBounds::default()).await {
        Ok(Reply::Entity(entity)) => Some(entity),
        _ => None,
    }
}

async fn messages(seeder: &InMemory, queue: &str) -> Vec<String> {
    let peek = queue::Operation::PeekMessages { queue: QueueName::parse(queue).unwrap(), count: 32 };
    let Ok(queue::Reply::Peeked(messages)) = seeder.queues.execute(ACCOUNT, &peek.into()).await else {
        return vec!["no queue".to_owned()];
    };
    messages.into_iter().map(|message| String::from_utf8(message.text.to_vec()).unwrap()).collect()
}

/// The bytes, the content type and the time of the last change of a blob.
async fn blob(seeder: &InMemory, container: &str, name: &str) -> Option<(Vec<u8>, Option<String>, String)> {
    let get = blob::Operation::GetBlob(GetBlob {
        blob: BlobPath {
            container: ContainerName::parse(container).unwrap(),
            blob: BlobName::parse(name).unwrap(),
        },
        revision: Revision::Base,
        range: None,
        range_checksum: None,
        preconditions: Preconditions::default(),
        encryption: Encryption::default(),
    });
    let answer = seeder.blobs.execute(Caller::owner(ACCOUNT), &get).await.ok()?;
    let blob::Reply::Content(content) = answer.reply else { panic!() };
    let (mut bytes, mut download) = (Vec::new(), answer.content?);
    while let Some(pieces) = download.next().await.unwrap() {
        pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
    }
    let state = content.properties.state;
    Some((bytes, state.http.content_type, state.changed.to_iso_7()))
}

const PEOPLE: &str = "PartitionKey,RowKey,Name,Age:Int32,Born:DateTime,Id:Guid,Big:Edm.Int64,Ratio:Double,Ok:Boolean,Data:Binary\n\
    smith,1,\"Ann, \"\"A\"\"\",42,1984-02-29T12:00:00Z,c9da6455-213d-42c9-9a79-3e9149a57833,9007199254740993,0.5,true,AQID\n\
    smith,2,\"\",,,,,,,\n";

#[tokio::test]
async fn a_seed_is_there_and_back_and_the_same_twice() {
    let seeder = in_memory(&Config::default());
    let large = vec![7; 3 << 20];
    let files: Vec<(&str, &[u8])> = vec![
        ("README.md", b"ignored"),
        ("tables/People.csv", PEOPLE.as_bytes()),
        ("tables/Empty.csv", b""),
        (
            "tables/Orders.jsonl",
            b"{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"N\":1,\"L@odata.type\":\"Edm.Int64\",\"L\":\"5\"}\r\n\n\
              {\"PartitionKey\":\"q\",\"RowKey\":\"\\u00e9\",\"T\":\"x\"}\n",
        ),
        ("tables/Export.csv", b"PartitionKey,RowKey,Timestamp,Age,Age@type\na,b,2020-01-01T00:00:00Z,7,Edm.Int32\n"),
        ("queues/jobs.jsonl", b"\"first\"\n{\"text\":\"second\",\"ttlSeconds\":60}\n{\"text\":\"hidden\",\"visibilitySeconds\":60}\n"),
        ("queues/mail.txt", b"one\ntwo\r\n\nthree"),
        ("blobs/photos/2026/a.jpg", b"jpeg"),
        ("blobs/photos/large", &large),
        ("blobs/photos/empty.txt", b""),
    ];
    let counts = seeder.apply(archive(&files), ACCOUNT).await.unwrap();
    let expected = SeedCounts {
        tables: 4,
        entities: 5,
        entities_written: 5,
        queues: 2,
        messages: 6,
        messages_written: 6,
        containers: 1,
        blobs: 3,
        blobs_written: 3,
    };
    assert_eq!(counts, expected);
    let ann = entity(&seeder, "People", "smith", "1").await.unwrap();
    let values: Vec<String> =
        ann.properties.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    assert_eq!(ann.properties.get("Age"), Some(ValueRef::Int32(42)), "{values:?}");
    assert_eq!(ann.properties.get("Name"), Some(ValueRef::string("Ann, \"A\"")));
    assert_eq!(ann.properties.get("Big"), Some(ValueRef::Int64(9_007_199_254_740_993)));
    assert_eq!(ann.properties.get("Ratio"), Some(ValueRef::Double(0.5)));
    assert_eq!(ann.properties.get("Ok"), Some(ValueRef::Boolean(true)));
    assert_eq!(ann.properties.get("Data"), Some(ValueRef::Binary(&[1, 2, 3])));
    assert!(matches!(ann.properties.get("Born"), Some(ValueRef::DateTime(_))));
    assert!(matches!(ann.properties.get("Id"), Some(ValueRef::Guid(_))));
    let blank = entity(&seeder, "People", "smith", "2").await.unwrap();
    assert_eq!(blank.properties.iter().count(), 1, "only what is quoted is a value");
    let exported = entity(&seeder, "Export", "a", "b").await.unwrap();
    assert_eq!(exported.properties.get("Age"), Some(ValueRef::Int32(7)));
    assert_eq!(exported.properties.iter().count(), 1);
    let order = entity(&seeder, "Orders", "p", "1").await.unwrap();
    assert_eq!(order.properties.get("L"), Some(ValueRef::Int64(5)));
    assert!(entity(&seeder, "Orders", "q", "é").await.is_some());
    assert_eq!(messages(&seeder, "jobs").await, ["first", "second"]);
    assert_eq!(messages(&seeder, "mail").await, ["one", "two", "three"]);
    let photo = blob(&seeder, "photos", "2026/a.jpg").await.unwrap();
    assert_eq!((photo.0.as_slice(), photo.1.as_deref()), (&b"jpeg"[..], Some("image/jpeg")));
    assert!(blob(&seeder, "photos", "large").await.unwrap().0 == large);
    assert_eq!(blob(&seeder, "photos", "empty.txt").await.unwrap().0, b"");

    // The same, packed, from a file and from a directory.
    let SeedSource::Archive(bytes) = archive(&files) else { unreachable!() };
    let directory = tempfile::tempdir().unwrap();
    let packed = directory.path().join("seed.tgz");
    let mut encoder =
        flate2::write::GzEncoder::new(std::fs::File::create(&packed).unwrap(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &bytes).unwrap();
    encoder.finish().unwrap();
    let folder = directory.path().join("seed");
    for (path, content) in &files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    for source in [SeedSource::Archive(bytes), SeedSource::Path(packed), SeedSource::Path(folder.clone())] {
        let again = seeder.apply(source.clone(), ACCOUNT).await.unwrap();
        let unchanged = SeedCounts { entities_written: 0, messages_written: 0, blobs_written: 0, ..expected };
        assert_eq!(again, unchanged, "{source:?}");
    }
    assert_eq!(entity(&seeder, "People", "smith", "1").await.unwrap().timestamp, ann.timestamp);
    assert_eq!(blob(&seeder, "photos", "2026/a.jpg").await.unwrap(), photo);
    assert_eq!(messages(&seeder, "mail").await.len(), 3);

    // What has changed is put back.
    std::fs::write(folder.join("tables/People.csv"), "PartitionKey,RowKey\nsmith,1\n").unwrap();
    std::fs::write(folder.join("blobs/photos/2026/a.jpg"), "other").unwrap();
    std::fs::create_dir(folder.join("blobs/no-blobs")).unwrap();
    let changed = seeder.apply(SeedSource::Path(folder), ACCOUNT).await.unwrap();
    assert_eq!((changed.entities_written, changed.blobs_written, changed.containers), (1, 1, 2));
    let ann_again = entity(&seeder, "People", "smith", "1").await.unwrap();
    assert!(ann_again.timestamp > ann.timestamp && ann_again.properties.iter().count() == 0);
    assert_eq!(blob(&seeder, "photos", "2026/a.jpg").await.unwrap().0, b"other");
}

#[tokio::test]
async fn seeds_of_accounts() {
    let seeder = in_memory(&Config { any_account: true, ..Config::default() });
    let file: &[u8] = b"PartitionKey,RowKey\na,b\n";
    let files = [("tenant1/tables/People.csv", file), ("tables/Mine.csv", file)];
    assert_eq!(seeder.apply(archive(&files), "tenant2").await.unwrap().tables, 2);
    for (account, table, is_there) in [
        ("tenant1", "People", true),
        ("tenant2", "Mine", true),
        ("tenant2", "People", false),
        (ACCOUNT, "Mine", false),
    ] {
        let found = seeder.tables.require_table(account, table).await;
        assert_eq!(found.is_ok(), is_there, "{account} {table}");
    }
    let strict = in_memory(&Config::default());
    let error = strict.apply(archive(&files), ACCOUNT).await.unwrap_err();
    assert_eq!(error.to_string(), "tenant1/tables/People.csv: this server has no such account: tenant1");
}

#[tokio::test]
async fn what_is_wrong_with_a_seed_is_told_with_file_and_line() {
    let long = format!("PartitionKey,RowKey,Text\na,b,{}\n", "x".repeat(70_000));
    let seeder = in_memory(&Config::default());
    for (path, content, says) in [
        ("tables/T.csv", "", "T.csv: a table cannot have this name"),
        (
            "tables/People.csv",
            "RowKey\n1\n",
            "People.csv, line 1: the first line names the columns, and one must be PartitionKey",
        ),
        ("tables/People.csv", "PartitionKey,RowKey,A:Int\n", "line 1: a type is String, Int32"),
        ("tables/People.csv", "PartitionKey,RowKey,A,A\n", "line 1: a column is there twice: A"),
        (
            "tables/People.csv",
            "PartitionKey,RowKey,A@type\n",
            "line 1: there is no column that this is the type of: A@type",
        ),
        (
            "tables/People.csv",
            "PartitionKey,RowKey,A:Int32\na,b,1\na,c,x1\n",
            "line 3: A is not of the type Int32: x1",
        ),
        ("tables/People.csv", "PartitionKey,RowKey,A:Int32\na,\"b\nc\",1\na,c,x1\n", "line 2: "),
        (
            "tables/People.csv",
            "PartitionKey,RowKey,A:DateTime\na,b,yesterday\n",
            "line 2: A is not of the type DateTime: yesterday",
        ),
        (
            "tables/People.csv",
            "PartitionKey,RowKey,A\na,b\n",
            "line 2: 3 fields are expected, as in the first line, not 2",
        ),
        ("tables/People.csv", "PartitionKey,RowKey,A b\na,b,c\n", "line 2: A b: "),
        ("tables/People.csv", "PartitionKey,RowKey\na/b,c\n", "line 2: "),
        ("tables/People.csv", "PartitionKey,RowKey\n\"a,c\n", "line 2: a quote is not closed"),
        ("tables/People.csv", &long, "line 2: Text: "),
        ("tables/People.jsonl", "{\"PartitionKey\":\"a\"}\n", "line 1: "),
        (
            "tables/People.jsonl",
            "{\"PartitionKey\":\"a\",\"RowKey\":\"b\"}\n{\"a\n",
            "line 2: this is not JSON: ",
        ),
        ("tables/People.xlsx", "", "People.xlsx: entities are in files that end in .csv or .jsonl"),
        ("queues/jobs.jsonl", "\"a\"\n{\"body\":1}\n", "jobs.jsonl, line 2: a message is a JSON string"),
        (
            "queues/jobs.jsonl",
            "{\"text\":\"a\",\"ttlSeconds\":5,\"visibilitySeconds\":5}\n",
            "must become visible before it expires",
        ),
        ("queues/jobs.jsonl", "\"\\u0001\"\n", "line 1: a message cannot hold control characters"),
        ("queues/Jobs.txt", "", "a queue cannot have this name"),
        ("blobs/Photos/a", "", "a container cannot have this name"),
        ("blobs/a", "", "blobs/a: a seed has tables/NAME.csv"),
        ("../tables/People.csv", "", "a path in an archive may not lead out of it"),
        ("/tables/People.csv", "", "a path in an archive may not lead out of it"),
    ] {
        let files = [("tables/Before.csv", &b"PartitionKey,RowKey\na,b\n"[..]), (path, content.as_bytes())];
        let error = seeder.check(archive(&files), ACCOUNT).await.unwrap_err();
        assert!(error.to_string().contains(says), "{path} {content:.60}: {error}");
        assert!(!error.is_internal);
        assert_eq!(seeder.apply(archive(&files), ACCOUNT).await.unwrap_err(), error, "{path}");
    }
    let nonsense =
        SeedSource::Archive("this is not an archive, and long enough to be taken for one".repeat(20).into());
    let error = seeder.check(nonsense, ACCOUNT).await.unwrap_err();
    assert!(error.to_string().contains("neither a directory nor a tar archive"), "{error}");
    let missing = SeedSource::Path("/does/not/exist".into());
    let error = seeder.check(missing, ACCOUNT).await.unwrap_err();
    assert!(error.to_string().contains("cannot open the seed"), "{error}");
}

/// How long a large one takes: a million entities with `TEPUI_TEST_LARGE=1`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_seed() {
    let is_large = std::env::var("TEPUI_TEST_LARGE").is_ok_and(|large| large == "1");
    let count = if is_large { 1_000_000 } else { 10_000 };
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("tables")).unwrap();
    std::fs::create_dir_all(directory.path().join("queues")).unwrap();
    let mut csv = String::from("PartitionKey,RowKey,Name,Age:Int32,Born:DateTime\n");
    let mut lines = String::new();
    for number in 0..count {
        csv += &format!("p{},{number:08},Name {number},{},2026-01-01T00:00:00Z\n", number % 97, number % 100);
        if number % 100 == 0 {
            lines += &format!("message {number}\n");
        }
    }
    std::fs::write(directory.path().join("tables/Large.csv"), csv).unwrap();
    std::fs::write(directory.path().join("queues/large.txt"), lines).unwrap();
    let seeder = in_memory(&Config::default());
    for written in [count, 0] {
        let began = std::time::Instant::now();
        let source = SeedSource::Path(directory.path().to_owned());
        let counts = seeder.apply(source, ACCOUNT).await.unwrap();
        println!("{count} entities, {} messages seeded in {:?}", counts.messages, began.elapsed());
        assert_eq!((counts.entities, counts.entities_written), (count, written));
        assert_eq!(counts.messages, count / 100);
    }
}
