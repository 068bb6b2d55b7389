//! Whole answers of the Table service, as they go over the wire.

mod snapshot;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use snapshot::Snapshot;
use tepui_model::access_policy::{AccessPolicy, SignedIdentifier};
use tepui_model::cost::Cost;
use tepui_model::table::{
    Action, Change, Continuation, Entity, EntityKey, EntityPage, EntitySink, Guid, PropertiesBuilder, Reply,
    TableName, TablePage, ValueRef, Written,
};
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_wire::address::{Service, Target};
use tepui_wire::head::Head;
use tepui_wire::payload::Payload;
use tepui_wire::query::Query;
use tepui_wire::table::batch::{self, Boundaries, ChangeAnswer};
use tepui_wire::table::reply::{PageWriter, encode, encode_change};
use tepui_wire::table::request::presentation::Prefer;
use tepui_wire::table::request::{Prepared, Request};
use tepui_wire::version::ServiceVersion;

const BASE: &str = "http://127.0.0.1:10002/devstoreaccount1";
const LEVELS: [&str; 3] = ["nometadata", "minimalmetadata", "fullmetadata"];

fn at(text: &str) -> Timestamp {
    Timestamp::parse_iso(text).expect("a time")
}

/// A request, up to its body.
struct Sent {
    method: Method,
    target: Target,
    query: Query,
    headers: HeaderMap,
    version: ServiceVersion,
}

impl Sent {
    fn prepared(&self) -> Prepared<'_> {
        let Self { method, target, query, headers, version } = self;
        let head = Head {
            service: Service::Table,
            method,
            target,
            path: &target.path,
            query,
            headers,
            case: None,
            version: *version,
        };
        let request = Request::read(&head).expect("an operation");
        request.prepare().expect("a format")
    }
}

const CREATE_TABLE: &str = "POST Tables";
const QUERY_TABLES: &str = "GET Tables";
const INSERT_ENTITY: &str = "POST Orders";
const GET_ENTITY: &str = "GET Orders(PartitionKey='p',RowKey='r')";
const QUERY_ENTITIES: &str = "GET Orders()";
const GET_ACL: &str = "GET Orders?comp=acl";

/// A request of one line, `METHOD path?query`, with these headers, `Name: value`.
fn sent(line: &str, version: &str, lines: &[&str]) -> Sent {
    let (method, path) = line.split_once(' ').expect("a method and a path");
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    for line in lines {
        let (name, value) = line.split_once(": ").expect("a header");
        headers.insert(
            HeaderName::from_bytes(name.as_bytes()).expect("a name"),
            HeaderValue::from_str(value).expect("a value"),
        );
    }
    Sent {
        method: method.parse().expect("a method"),
        target: Target {
            account: "devstoreaccount1".to_owned(),
            secondary: false,
            base: BASE.to_owned(),
            raw_path: format!("/devstoreaccount1/{path}"),
            path: path.to_owned(),
            host_style: false,
        },
        query: Query::parse(query),
        headers,
        version: ServiceVersion::parse(version).expect("a version"),
    }
}

fn at_level(line: &str, level: &str) -> Sent {
    sent(line, "2019-02-02", &[&format!("accept: application/json;odata={level}")])
}

fn now() -> Timestamp {
    at("2026-03-10T08:15:31Z")
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

fn answer(sent: &Sent, reply: Reply) -> Response<Vec<u8>> {
    encode(&sent.prepared(), now(), reply)
}

#[test]
fn tables() {
    let page = TablePage {
        names: vec!["Orders".to_owned(), "People".to_owned()],
        next: Some("zebras".to_owned()),
        ..TablePage::default()
    };
    let mut snapshot = Snapshot::default();
    for level in LEVELS {
        let created = at_level(CREATE_TABLE, level);
        let listed = at_level(QUERY_TABLES, level);
        let name = "Orders".to_owned();
        snapshot
            .add(
                &format!("created, {level}"),
                &answer(&created, Reply::TableCreated { name: TableName::parse("Orders").expect("a name") }),
            )
            .add(&format!("one, {level}"), &answer(&listed, Reply::Table { name }))
            .add(&format!("page, {level}"), &answer(&listed, Reply::Tables(page.clone())));
    }
    let quiet = sent(CREATE_TABLE, "2019-02-02", &["prefer: return-no-content"]);
    snapshot
        .add(
            "created, no content",
            &answer(&quiet, Reply::TableCreated { name: TableName::parse("Orders").expect("a name") }),
        )
        .add("deleted", &answer(&quiet, Reply::TableDeleted))
        .check("tables");
}

#[test]
fn entities() {
    let entity = entity();
    let insert = Change { key: entity.key.clone(), action: Action::Insert(entity.properties.clone()) };
    let written = Written::Stored(entity.timestamp);
    let mut snapshot = Snapshot::default();
    for level in LEVELS {
        let read = at_level(GET_ENTITY, level);
        let inserted = at_level(INSERT_ENTITY, level);
        snapshot.add(&format!("read, {level}"), &answer(&read, Reply::Entity(entity.clone()))).add(
            &format!("inserted, {level}"),
            &encode_change(&inserted.prepared(), now(), &insert, written),
        );
    }
    let accept = "accept: application/json;odata=minimalmetadata";
    let selected = sent(&format!("{GET_ENTITY}?$select=Number,%20Nope"), "2019-02-02", &[accept]);
    let old = sent(GET_ENTITY, "2015-02-21", &["accept: application/atom+xml"]);
    let quiet = sent(INSERT_ENTITY, "2019-02-02", &["prefer: return-no-content"]);
    let merge = Change { key: entity.key.clone(), action: Action::InsertOrMerge(entity.properties.clone()) };
    snapshot
        .add("read, selected", &answer(&selected, Reply::Entity(entity.clone())))
        .add("read, Atom", &answer(&old, Reply::Entity(entity.clone())))
        .add("inserted, no content", &encode_change(&quiet.prepared(), now(), &insert, written))
        .add("merged", &encode_change(&quiet.prepared(), now(), &merge, written))
        .add("deleted", &encode_change(&quiet.prepared(), now(), &merge, Written::Deleted))
        .check("entities");
}

#[test]
fn pages() {
    let cost = Cost::default();
    let next = Continuation { partition_key: "p1".to_owned(), row_key: String::new() };
    let mut snapshot = Snapshot::default();
    for level in LEVELS {
        let sent = at_level(QUERY_ENTITIES, level);
        let mut writer = PageWriter::new(&sent.prepared(), now(), "Orders");
        writer.accept(&entity().view());
        writer.accept(&entity().view());
        let page = EntityPage { next: Some(next.clone()), cost };
        snapshot.add(level, &writer.finish(&page).map(Payload::into_whole));
    }
    let sent = at_level(QUERY_ENTITIES, "nometadata");
    let empty = PageWriter::new(&sent.prepared(), now(), "Orders");
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
    let sent = at_level(GET_ACL, "nometadata");
    Snapshot::default()
        .add("read", &answer(&sent, Reply::Acl(identifiers)))
        .add("set", &answer(&sent, Reply::AclSet))
        .check("policies");
}

#[test]
fn batches() {
    let ids = Boundaries::new("b0000000-0000-0000-0000-000000000001", "c0000000-0000-0000-0000-000000000002");
    let (request_id, now) = ("6f4e9f51-0002-0021-4c3b-c0b2d0000000", now());
    let quiet = sent(INSERT_ENTITY, "2019-02-02", &["prefer: return-no-content"]);
    let loud = at_level(INSERT_ENTITY, "nometadata");
    let entity = entity();
    let change = |action| Change { key: EntityKey::new("o'k", "1"), action };
    let (insert, delete) = (
        change(Action::Insert(entity.properties.clone())),
        change(Action::Delete(tepui_model::condition::Condition::Any)),
    );
    let stored = Written::Stored(entity.timestamp);
    let (quiet, loud) = (quiet.prepared(), loud.prepared());
    let part = |request, change, written, content_id| ChangeAnswer { request, change, written, content_id };
    let answers = [
        part(&quiet, &insert, stored, None),
        part(&loud, &insert, stored, Some("7")),
        part(&quiet, &delete, Written::Deleted, None),
    ];
    let conflict = ServiceError::new(ErrorCode::EntityAlreadyExists).at_change(3);
    let read = at_level(GET_ENTITY, "minimalmetadata");
    let missing = ServiceError::new(ErrorCode::ResourceNotFound).at_change(0);
    Snapshot::default()
        .add("change set", &batch::encode_change_set(&ids, now, &answers))
        .add(
            "refused",
            &batch::encode_refusal(&ids, &conflict, None, Prefer::ReturnNoContent, request_id, now),
        )
        .add("query", &batch::encode_query(&ids, &answer(&read, Reply::Entity(entity))))
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
        (part.path.as_str(), &part.query),
        ("T(PartitionKey='p',RowKey='r')", &Query::parse(Some("$format=x")))
    );
    assert_eq!((part.content_id.as_deref(), part.headers.len()), (None, 1));
    assert_eq!(&body[part.body.clone()], "{\"A\":1}");
}
