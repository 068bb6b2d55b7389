//! Whole answers of the Table service, as they go over the wire.

mod snapshot;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use snapshot::Snapshot;
use tepui_model::access_policy::{AccessPolicy, SignedIdentifier};
use tepui_model::table::{
    Action, Change, Continuation, Entity, EntityKey, EntityPage, EntitySink, Guid, Operation, OperationKind,
    PlanKind, PropertiesBuilder, QueryCost, Reply, TableName, TablePage, ValueRef, Written,
};
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_wire::payload::Payload;
use tepui_wire::query::Query;
use tepui_wire::table::batch::{self, Boundaries, ChangeAnswer};
use tepui_wire::table::encode::{Context, PageWriter, encode};
use tepui_wire::table::presentation::{Prefer, Presentation};
use tepui_wire::version::ServiceVersion;

const BASE: &str = "http://127.0.0.1:10002/devstoreaccount1";
const LEVELS: [&str; 3] = ["nometadata", "minimalmetadata", "fullmetadata"];

fn at(text: &str) -> Timestamp {
    Timestamp::parse_iso(text).expect("a time")
}

/// How a request with these headers, `Name: value`, wants its answer.
fn presentation(kind: OperationKind, query: &str, version: &str, lines: &[&str]) -> Presentation {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    for line in lines {
        let (name, value) = line.split_once(": ").expect("a header");
        headers.insert(
            HeaderName::from_bytes(name.as_bytes()).expect("a name"),
            HeaderValue::from_str(value).expect("a value"),
        );
    }
    let version = ServiceVersion::parse(version).expect("a version");
    Presentation::negotiate(kind, &Query::parse(Some(query)), &headers, version, None).expect("a format")
}

fn at_level(kind: OperationKind, level: &str) -> Presentation {
    presentation(kind, "", "2019-02-02", &[&format!("accept: application/json;odata={level}")])
}

fn context(presentation: &Presentation) -> Context<'_> {
    Context {
        base: BASE,
        account: "devstoreaccount1",
        presentation,
        version: ServiceVersion::parse("2019-02-02").expect("a version"),
        now: at("2026-03-10T08:15:31Z"),
    }
}

/// An entity with a value of every type.
fn entity() -> Entity {
    let mut properties = PropertiesBuilder::new();
    let guid = Guid::parse("8c1bac20-4ed1-4f3b-9a0e-0123456789ab").expect("a GUID");
    for (name, value) in [
        ("Text", ValueRef::string("a \"b\" \\ ü 😀 <&>\n")),
        ("Number", ValueRef::Int32(-3)),
        ("Large", ValueRef::Int64(9_007_199_254_740_993)),
        ("Whole", ValueRef::Double(2.0)),
        ("Huge", ValueRef::Double(1e20)),
        ("None", ValueRef::Double(f64::NAN)),
        ("Yes", ValueRef::Boolean(true)),
        ("When", ValueRef::DateTime(at("2026-01-02T03:04:05.100000Z"))),
        ("Id", ValueRef::Guid(guid)),
        ("Bytes", ValueRef::Binary(&[0, 1, 2, 255])),
    ] {
        properties.push(name, value).expect("within the limits");
    }
    Entity {
        key: EntityKey::new("o'k", "r %"),
        timestamp: at("2026-03-10T08:15:30.5Z"),
        properties: properties.finish(),
    }
}

fn answer(presentation: &Presentation, operation: &Operation, reply: Reply) -> Response<Vec<u8>> {
    encode(&context(presentation), operation, reply).expect("an answer")
}

#[test]
fn tables() {
    let create = Operation::CreateTable { name: TableName::parse("Orders").expect("a name") };
    let get = Operation::GetTable { table: "orders".to_owned() };
    let query = Operation::QueryTables(Default::default());
    let page =
        TablePage { names: vec!["Orders".to_owned(), "People".to_owned()], next: Some("zebras".to_owned()) };
    let mut snapshot = Snapshot::default();
    for level in LEVELS {
        let created = at_level(OperationKind::CreateTable, level);
        let listed = at_level(OperationKind::QueryTables, level);
        let name = "Orders".to_owned();
        snapshot
            .add(&format!("created, {level}"), &answer(&created, &create, Reply::TableCreated))
            .add(&format!("one, {level}"), &answer(&listed, &get, Reply::Table { name }))
            .add(&format!("page, {level}"), &answer(&listed, &query, Reply::Tables(page.clone())));
    }
    let quiet = presentation(OperationKind::CreateTable, "", "2019-02-02", &["prefer: return-no-content"]);
    let delete = Operation::DeleteTable { table: "orders".to_owned() };
    snapshot
        .add("created, no content", &answer(&quiet, &create, Reply::TableCreated))
        .add("deleted", &answer(&quiet, &delete, Reply::TableDeleted))
        .check("tables");
}

#[test]
fn entities() {
    let entity = entity();
    let get = Operation::GetEntity { table: "Orders".to_owned(), key: entity.key.clone() };
    let insert = Operation::ChangeEntity {
        table: "Orders".to_owned(),
        change: Change { key: entity.key.clone(), action: Action::Insert(entity.properties.clone()) },
    };
    let written = || Reply::Written(Written::Stored(entity.timestamp));
    let mut snapshot = Snapshot::default();
    for level in LEVELS {
        let read = at_level(OperationKind::GetEntity, level);
        let inserted = at_level(OperationKind::InsertEntity, level);
        snapshot
            .add(&format!("read, {level}"), &answer(&read, &get, Reply::Entity(entity.clone())))
            .add(&format!("inserted, {level}"), &answer(&inserted, &insert, written()));
    }
    let accept = "accept: application/json;odata=minimalmetadata";
    let selected = presentation(OperationKind::GetEntity, "$select=Number,%20Nope", "2019-02-02", &[accept]);
    let old = presentation(OperationKind::GetEntity, "", "2015-02-21", &["accept: application/atom+xml"]);
    let quiet = presentation(OperationKind::InsertEntity, "", "2019-02-02", &["prefer: return-no-content"]);
    let merge = Operation::ChangeEntity {
        table: "Orders".to_owned(),
        change: Change { key: entity.key.clone(), action: Action::InsertOrMerge(entity.properties.clone()) },
    };
    snapshot
        .add("read, selected", &answer(&selected, &get, Reply::Entity(entity.clone())))
        .add("read, Atom", &answer(&old, &get, Reply::Entity(entity.clone())))
        .add("inserted, no content", &answer(&quiet, &insert, written()))
        .add("merged", &answer(&quiet, &merge, written()))
        .add("deleted", &answer(&quiet, &merge, Reply::Written(Written::Deleted)))
        .check("entities");
}

#[test]
fn pages() {
    let cost = QueryCost { kind: PlanKind::Table, ranges: 1, entities_scanned: 2, entities_returned: 2 };
    let next = Continuation { partition_key: "p1".to_owned(), row_key: String::new() };
    let mut snapshot = Snapshot::default();
    for level in LEVELS {
        let presentation = at_level(OperationKind::QueryEntities, level);
        let mut writer = PageWriter::new(&context(&presentation), "Orders");
        writer.accept(&entity().view());
        writer.accept(&entity().view());
        let page = EntityPage { next: Some(next.clone()), cost };
        snapshot.add(level, &writer.finish(&page).map(Payload::into_whole));
    }
    let presentation = at_level(OperationKind::QueryEntities, "nometadata");
    let empty = PageWriter::new(&context(&presentation), "Orders");
    snapshot
        .add("empty", &empty.finish(&EntityPage { next: None, cost }).map(Payload::into_whole))
        .check("pages");
}

#[test]
fn policies() {
    let policy = AccessPolicy {
        start: Some(at("2026-01-01T12:10:00Z")),
        expiry: None,
        permission: Some("raud".to_owned()),
    };
    let identifiers = vec![
        SignedIdentifier { id: "reader".to_owned(), policy: Some(policy) },
        SignedIdentifier { id: "empty".to_owned(), policy: None },
    ];
    let presentation = at_level(OperationKind::GetTableAcl, "nometadata");
    let get = Operation::GetTableAcl { table: "Orders".to_owned() };
    let set = Operation::SetTableAcl { table: "Orders".to_owned(), identifiers: Vec::new() };
    Snapshot::default()
        .add("read", &answer(&presentation, &get, Reply::Acl(identifiers)))
        .add("set", &answer(&presentation, &set, Reply::AclSet))
        .check("policies");
}

#[test]
fn batches() {
    let ids = Boundaries::new("b0000000-0000-0000-0000-000000000001", "c0000000-0000-0000-0000-000000000002");
    let (request_id, now) = ("6f4e9f51-0002-0021-4c3b-c0b2d0000000", at("2026-03-10T08:15:31Z"));
    let quiet = presentation(OperationKind::InsertEntity, "", "2019-02-02", &["prefer: return-no-content"]);
    let loud = at_level(OperationKind::InsertEntity, "nometadata");
    let entity = entity();
    let change = |action| Change { key: EntityKey::new("o'k", "1"), action };
    let (insert, delete) = (
        change(Action::Insert(entity.properties.clone())),
        change(Action::Delete(tepui_model::condition::Condition::Any)),
    );
    let stored = Written::Stored(entity.timestamp);
    let part = |presentation, change, written, content_id| ChangeAnswer {
        context: context(presentation),
        table: "Orders",
        change,
        written,
        content_id,
    };
    let answers = [
        part(&quiet, &insert, stored, None),
        part(&loud, &insert, stored, Some("7")),
        part(&quiet, &delete, Written::Deleted, None),
    ];
    let conflict = ServiceError::new(ErrorCode::EntityAlreadyExists).at_change(3);
    let read = at_level(OperationKind::GetEntity, "minimalmetadata");
    let get = Operation::GetEntity { table: "Orders".to_owned(), key: entity.key.clone() };
    let missing = ServiceError::new(ErrorCode::ResourceNotFound).at_change(0);
    Snapshot::default()
        .add("change set", &batch::encode_change_set(&ids, &answers))
        .add(
            "refused",
            &batch::encode_refusal(&ids, &conflict, None, Prefer::ReturnNoContent, request_id, now),
        )
        .add("query", &batch::encode_query(&ids, &answer(&read, &get, Reply::Entity(entity))))
        .add("query, missing", &batch::encode_query_refusal(&ids, &missing, request_id, now))
        .check("batches");
}

#[test]
fn a_batch_is_read_part_by_part() {
    let body = "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: application/http\nContent-ID: 4\n\n\
                MERGE http://h/devstoreaccount1/T(PartitionKey='p',RowKey='r')?$format=x HTTP/1.1\nIf-Match: *\n\
                Host: other\n\n{\"A\":1}\n--c--\n--b--";
    let decoded =
        batch::decode(Some("multipart/mixed; boundary=b"), body.as_bytes(), Some("devstoreaccount1"));
    let batch::Batch::ChangeSet(parts) = decoded.expect("a batch") else { panic!("a change set") };
    let [part] = &parts[..] else { panic!("one part") };
    assert_eq!(part.method, Method::from_bytes(b"MERGE").expect("a method"));
    assert_eq!(
        (part.path.as_str(), part.raw_query.as_deref()),
        ("T(PartitionKey='p',RowKey='r')", Some("$format=x"))
    );
    assert_eq!((part.content_id.as_deref(), part.headers.len()), (None, 1));
    assert_eq!(&body[part.body.clone()], "{\"A\":1}");
}
