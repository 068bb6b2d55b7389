//! Tables.

use crate::arrived::{Arrived, Signed, answered, any_remote, any_signed, now};
use crate::some::{identifiers, second, service_properties_change, time};
use http::Response;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tepui_model::condition::Condition;
use tepui_model::cost::Cost;
use tepui_model::service_properties::ServiceProperties;
use tepui_model::table::{
    Action, Call, Change, ChangeSet, Comparison, Continuation, Entity, EntityKey, EntityPage, EntitySink,
    Filter, Guid, Literal, Operation, PageSize, Properties, PropertiesBuilder, QueryEntities, QueryTables,
    Reply, TableName, TablePage, ValueRef, Written,
};
use tepui_model::{ErrorCode, ServiceError, Timestamp, etag};
use tepui_wire::address::Service;
use tepui_wire::payload::Payload;
use tepui_wire::remote::{RemoteService, ReplyError};
use tepui_wire::table::batch::{self, Batch, Boundaries, ChangeAnswer};
use tepui_wire::table::format::MetadataLevel;
use tepui_wire::table::json::RemoteEntity;
use tepui_wire::table::reply::read::{RemoteReply, read};
use tepui_wire::table::reply::{PageWriter, encode, encode_change};
use tepui_wire::table::request::presentation::Prefer;
use tepui_wire::table::request::write::{Options, write};
use tepui_wire::table::request::{Prepared, Request};
use tepui_wire::table::token::{self, PageToken};
use tepui_wire::xml::GeoReplication;

fn table() -> impl Strategy<Value = String> {
    "[A-Za-z][A-Za-z0-9]{2,20}".prop_filter("a name of a table", |name| TableName::parse(name).is_ok())
}

fn key_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9]{0,8}", "[^/\\\\#?\u{0}-\u{1F}\u{7F}-\u{9F}]{0,12}", "['%+&=,;()@ \"]{0,8}"]
}

fn key() -> impl Strategy<Value = EntityKey> {
    (key_text(), key_text()).prop_map(|(partition_key, row_key)| EntityKey { partition_key, row_key })
}

#[derive(Debug, Clone)]
enum Owned {
    String(String),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Boolean(bool),
    DateTime(Timestamp),
    Guid([u8; 16]),
    Binary(Vec<u8>),
}

impl Owned {
    fn value(&self) -> ValueRef<'_> {
        match self {
            Self::String(text) => ValueRef::string(text),
            Self::Int32(number) => ValueRef::Int32(*number),
            Self::Int64(number) => ValueRef::Int64(*number),
            Self::Double(number) => ValueRef::Double(*number),
            Self::Boolean(answer) => ValueRef::Boolean(*answer),
            Self::DateTime(time) => ValueRef::DateTime(*time),
            Self::Guid(bytes) => ValueRef::Guid(Guid(*bytes)),
            Self::Binary(bytes) => ValueRef::Binary(bytes),
        }
    }
}

fn double() -> impl Strategy<Value = f64> {
    let number = proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO;
    // JSON has no negative zero: see the scenario `values-negative-zero`.
    let special = proptest::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3.0, -2e9]);
    prop_oneof![number.prop_map(|number| number + 0.0), special]
}

fn value() -> impl Strategy<Value = Owned> {
    prop_oneof![
        any::<String>().prop_map(Owned::String),
        any::<i32>().prop_map(Owned::Int32),
        any::<i64>().prop_map(Owned::Int64),
        double().prop_map(Owned::Double),
        any::<bool>().prop_map(Owned::Boolean),
        time().prop_map(Owned::DateTime),
        any::<[u8; 16]>().prop_map(Owned::Guid),
        vec(any::<u8>(), 0..20).prop_map(Owned::Binary),
    ]
}

fn properties() -> impl Strategy<Value = Properties> {
    vec(("[A-Za-z_äß大][A-Za-z0-9_é]{0,8}", value()), 0..8).prop_map(|found| {
        let mut builder = PropertiesBuilder::new();
        for (name, value) in &found {
            // A name that is there already is refused.
            let _ = builder.push(name, value.value());
        }
        builder.finish()
    })
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![Just(Condition::Any), time().prop_map(Condition::WrittenAt), Just(Condition::Never)]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        properties().prop_map(Action::Insert),
        (condition(), properties()).prop_map(|(condition, properties)| Action::Update(condition, properties)),
        (condition(), properties()).prop_map(|(condition, properties)| Action::Merge(condition, properties)),
        properties().prop_map(Action::InsertOrReplace),
        properties().prop_map(Action::InsertOrMerge),
        condition().prop_map(Action::Delete),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    (key(), action()).prop_map(|(key, action)| Change { key, action })
}

fn filter() -> impl Strategy<Value = Filter> {
    let literal = prop_oneof![
        any::<String>().prop_map(Literal::String),
        any::<i64>().prop_map(Literal::Int64),
        time().prop_map(Literal::DateTime),
        any::<[u8; 16]>().prop_map(|bytes| Literal::Guid(Guid(bytes))),
        vec(any::<u8>(), 0..9).prop_map(Literal::Binary),
    ];
    let compare = ("[A-Z][a-z0-9_]{0,8}", literal).prop_map(|(property, value)| Filter::Compare {
        property,
        how: Comparison::LessOrEqual,
        value,
    });
    let not = compare.clone().prop_map(|inner| Filter::Not(Box::new(inner)));
    prop_oneof![compare.clone(), not, vec(compare, 2..4).prop_map(Filter::Or)]
}

fn page_size() -> impl Strategy<Value = PageSize> {
    (0usize..=1000).prop_map(|size| PageSize::new(size).unwrap())
}

fn query() -> impl Strategy<Value = QueryEntities> {
    let from =
        (key_text(), key_text()).prop_map(|(partition_key, row_key)| Continuation { partition_key, row_key });
    (table(), option::of(filter()), page_size(), option::of(from))
        .prop_map(|(table, filter, page_size, from)| QueryEntities { table, filter, page_size, from })
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        3 => operation().prop_map(Call::Operation),
        2 => (table(), change()).prop_map(|(table, change)| Call::Change { table, change }),
        1 => query().prop_map(Call::Query),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let query_tables = (option::of(filter()), page_size(), option::of("[a-z][a-z0-9]{2,9}"))
        .prop_map(|(filter, page_size, from)| QueryTables { filter, page_size, from });
    prop_oneof![
        query_tables.prop_map(Operation::QueryTables),
        table().prop_map(|table| Operation::GetTable { table }),
        table().prop_map(|name| Operation::CreateTable { name: TableName::parse(&name).unwrap() }),
        table().prop_map(|table| Operation::DeleteTable { table }),
        (table(), key()).prop_map(|(table, key)| Operation::GetEntity { table, key }),
        table().prop_map(|table| Operation::GetTableAcl { table }),
        (table(), identifiers("[raud]{1,4}"))
            .prop_map(|(table, identifiers)| Operation::SetTableAcl { table, identifiers }),
        Just(Operation::GetServiceProperties),
        service_properties_change().prop_map(Operation::SetServiceProperties),
        Just(Operation::GetServiceStats),
    ]
}

fn level() -> impl Strategy<Value = MetadataLevel> {
    prop_oneof![Just(MetadataLevel::None), Just(MetadataLevel::Minimal), Just(MetadataLevel::Full)]
}

fn prefer() -> impl Strategy<Value = Prefer> {
    prop_oneof![Just(Prefer::Unsaid), Just(Prefer::ReturnContent), Just(Prefer::ReturnNoContent)]
}

/// Sends a request and has it prepared.
fn with_prepared<T>(
    remote: &RemoteService,
    call: &Call,
    options: &Options<'_>,
    signed: Signed,
    then: impl FnOnce(&Prepared<'_>, &[u8]) -> T,
) -> T {
    let arrived = Arrived::new(remote, write(remote, call, options).unwrap(), signed);
    let head = arrived.head(Service::Table);
    let request = Request::read(&head).unwrap();
    request.check_name().unwrap();
    then(&request.prepare().unwrap(), &arrived.body)
}

fn replied(
    remote: &RemoteService,
    operation: &Operation,
    options: &Options<'_>,
    reply: Reply,
) -> Result<RemoteReply, ReplyError> {
    let call = Call::Operation(operation.clone());
    let response =
        with_prepared(remote, &call, options, Signed::SharedKey, |request, _| encode(request, now(), reply));
    read(&call, remote.version(), &answered(response))
}

fn as_received(entity: &Entity) -> RemoteEntity {
    RemoteEntity {
        partition_key: Some(entity.key.partition_key.clone()),
        row_key: Some(entity.key.row_key.clone()),
        timestamp: Some(entity.timestamp),
        etag: Some(etag::to_text(entity.timestamp)),
        properties: entity.properties.clone(),
    }
}

fn entity() -> impl Strategy<Value = Entity> {
    (key(), time(), properties()).prop_map(|(key, timestamp, properties)| Entity {
        key,
        timestamp,
        properties,
    })
}

/// Without metadata clients cannot tell the types of some values, but nothing is lost.
fn check_entity(level: MetadataLevel, received: &RemoteEntity, entity: &Entity) -> Result<(), TestCaseError> {
    let expected = as_received(entity);
    if level != MetadataLevel::None {
        prop_assert_eq!(received, &expected);
        return Ok(());
    }
    let keys =
        |entity: &RemoteEntity| (entity.partition_key.clone(), entity.row_key.clone(), entity.timestamp);
    prop_assert_eq!(keys(received), keys(&expected));
    let names =
        |properties: &Properties| properties.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
    prop_assert_eq!(names(&received.properties), names(&expected.properties));
    Ok(())
}

proptest! {
    #[test]
    fn operations_are_read_as_they_were_written(
        remote in any_remote(Service::Table),
        call in call(),
        metadata in level(),
        prefer in prefer(),
        signed in any_signed(),
    ) {
        let options = Options { metadata, prefer, ..Options::default() };
        let read = with_prepared(&remote, &call, &options, signed, |request, body| request.decode(body));
        prop_assert_eq!(read, Ok(call));
    }

    #[test]
    fn transactions_are_read_as_they_were_written(
        remote in any_remote(Service::Table),
        table in table(),
        partition in key_text(),
        found in vec(change(), 1..9),
        signed in any_signed(),
    ) {
        let mut changes: Vec<(String, Change)> = Vec::new();
        for Change { key, action } in found {
            let key = EntityKey { partition_key: partition.clone(), ..key };
            if changes.iter().all(|(_, other)| other.key != key) {
                changes.push((table.clone(), Change { key, action }));
            }
        }
        let set = ChangeSet::new(changes).unwrap();
        let ids = Boundaries::of_request("1", "2");
        let request = batch::write_request(&remote, &table, &set, &[], &Options::default(), &ids).unwrap();
        let content_type = request.headers()["content-type"].to_str().unwrap().to_owned();
        let arrived = Arrived::new(&remote, request, signed);
        let head = arrived.head(Service::Table);
        let account = arrived.account_in_path();
        let Ok(Batch::ChangeSet(parts)) = batch::decode(Some(&content_type), &arrived.body, account) else {
            panic!("no change set");
        };
        let accept = batch::part_accept(&head);
        let prepared: Vec<Prepared<'_>> = parts
            .iter()
            .map(|part| part.read_change(&head).unwrap().prepare_part(&accept, None).unwrap())
            .collect();
        let decoded: Vec<(String, Change)> = prepared
            .iter()
            .zip(&parts)
            .map(|(request, part)| {
                let change = request.decode_change(&arrived.body[part.body.clone()]).unwrap();
                (request.table().unwrap().to_owned(), change)
            })
            .collect();
        prop_assert!(decoded.iter().all(|(spelled, _)| *spelled == table), "the name is not changed");
        prop_assert_eq!(ChangeSet::new(decoded), Ok(set.clone()));

        let written = |change: &Change| match change.action {
            Action::Delete(_) => Written::Deleted,
            _ => Written::Stored(now()),
        };
        let answers: Vec<ChangeAnswer<'_>> = set
            .changes()
            .iter()
            .zip(&prepared)
            .map(|(change, request)| ChangeAnswer { request, change, written: written(change), content_id: None })
            .collect();
        let ids = Boundaries::new("3", "4");
        let etags = set.changes().iter().map(|change| match written(change) {
            Written::Deleted => None,
            Written::Stored(at) => Some(etag::to_text(at)),
        });
        let response = answered(batch::encode_change_set(&ids, now(), &answers));
        prop_assert_eq!(batch::read_reply(&set, &response), Ok(etags.collect()));

        let last = set.changes().len() - 1;
        let error = ServiceError::new(ErrorCode::UpdateConditionNotSatisfied).at_change(last);
        let response = batch::encode_refusal(&ids, &error, None, Prefer::Unsaid, "id", now());
        let Err(ReplyError::Refused(refused)) = batch::read_reply(&set, &answered(response)) else {
            panic!("not refused");
        };
        prop_assert_eq!(refused.known_code(), Some(error.code));
        prop_assert_eq!((refused.status.as_u16(), refused.change), (412, Some(last)));
        prop_assert_eq!(refused.message, error.message());
    }

    #[test]
    fn pages_are_read_as_they_were_replied(
        remote in any_remote(Service::Table),
        query in query(),
        entities in vec(entity(), 0..4),
        next in option::of((key_text(), key_text())),
        metadata in level(),
    ) {
        let call = Call::Query(query.clone());
        let options = Options { metadata, ..Options::default() };
        let next = next.map(|(partition_key, row_key)| Continuation { partition_key, row_key });
        let page = EntityPage { next: next.clone(), cost: Cost::default() };
        let response = with_prepared(&remote, &call, &options, Signed::SharedKey, |request, _| {
            let mut writer = PageWriter::new(request, now(), &query.table);
            entities.iter().for_each(|entity| writer.accept(&entity.view()));
            writer.finish(&page)
        });
        let response: Response<Vec<u8>> = answered(response.map(Payload::into_whole));
        let Ok(RemoteReply::Entities { entities: received, next: token }) =
            read(&call, remote.version(), &response)
        else {
            panic!("no page");
        };
        prop_assert_eq!(received.len(), entities.len());
        for (received, entity) in received.iter().zip(&entities) {
            check_entity(metadata, received, entity)?;
        }
        let expected = next.as_ref().map(|next| PageToken::Entity {
            partition: token::encode(&next.partition_key),
            row: Some(token::encode(&next.row_key)),
        });
        prop_assert_eq!(&token, &expected);
        // Sent back as it came, the query goes on there.
        let options = Options { from: token.as_ref(), ..options };
        let again = Call::Query(QueryEntities { from: None, ..query.clone() });
        let read = with_prepared(&remote, &again, &options, Signed::SharedKey, |request, body| request.decode(body));
        prop_assert_eq!(read, Ok(Call::Query(QueryEntities { from: next, ..query })));
    }

    #[test]
    fn entities_are_read_as_they_were_replied(
        remote in any_remote(Service::Table),
        table in table(),
        entity in entity(),
        metadata in level(),
    ) {
        let operation = Operation::GetEntity { table, key: entity.key.clone() };
        let options = Options { metadata, ..Options::default() };
        match replied(&remote, &operation, &options, Reply::Entity(entity.clone())) {
            Ok(RemoteReply::Entity(received)) => {
                check_entity(metadata, &received, &entity)?;
                prop_assert_eq!(received.etag, Some(etag::to_text(entity.timestamp)));
            }
            other => panic!("{other:?}"),
        }
        // What is not selected is not there, and what is missing is not null.
        let options = Options { select: &["RowKey", "NoSuchName"], ..Options::default() };
        let expected = RemoteEntity {
            row_key: Some(entity.key.row_key.clone()),
            etag: Some(etag::to_text(entity.timestamp)),
            ..RemoteEntity::default()
        };
        let received = replied(&remote, &operation, &options, Reply::Entity(entity));
        prop_assert_eq!(received, Ok(RemoteReply::Entity(expected)));
    }

    #[test]
    fn other_replies_are_read(
        remote in any_remote(Service::Table),
        table in table(),
        names in vec(table(), 0..5),
        next in option::of("[a-z][a-z0-9]{2,9}"),
        change in change(),
        at in second(),
        identifiers in identifiers("[raud]{1,4}"),
        settings in service_properties_change(),
        prefer in prefer(),
    ) {
        let name = TableName::parse(&table).unwrap();
        let mut properties = ServiceProperties::default();
        settings.apply(&mut properties);
        let written = match change.action {
            Action::Delete(_) => Written::Deleted,
            _ => Written::Stored(at),
        };
        let etag = matches!(written, Written::Stored(_)).then(|| etag::to_text(at));
        let call = Call::Change { table: table.clone(), change: change.clone() };
        let options = Options { prefer, ..Options::default() };
        let response = with_prepared(&remote, &call, &options, Signed::SharedKey, |request, _| {
            encode_change(request, now(), &change, written)
        });
        let received = read(&call, remote.version(), &answered(response));
        prop_assert_eq!(received, Ok(RemoteReply::Written { etag }));
        let token = next.as_deref().map(|next| PageToken::Table(token::encode_table(next)));
        for (operation, reply, expected) in [
            (
                Operation::QueryTables(QueryTables::default()),
                Reply::Tables(TablePage { names: names.clone(), next, ..TablePage::default() }),
                RemoteReply::Tables { names, next: token },
            ),
            (
                Operation::GetTable { table: table.clone() },
                Reply::Table { name: table.clone() },
                RemoteReply::Table { name: table.clone() },
            ),
            (Operation::CreateTable { name: name.clone() }, Reply::TableCreated { name }, RemoteReply::TableCreated),
            (Operation::DeleteTable { table: table.clone() }, Reply::TableDeleted, RemoteReply::TableDeleted),
            (
                Operation::GetTableAcl { table: table.clone() },
                Reply::Acl(identifiers.clone()),
                RemoteReply::Acl(identifiers.clone()),
            ),
            (Operation::SetTableAcl { table, identifiers }, Reply::AclSet, RemoteReply::AclSet),
            (
                Operation::GetServiceProperties,
                Reply::ServiceProperties(properties.clone()),
                RemoteReply::ServiceProperties(properties),
            ),
            (
                Operation::SetServiceProperties(settings),
                Reply::ServicePropertiesSet,
                RemoteReply::ServicePropertiesSet,
            ),
            (
                Operation::GetServiceStats,
                Reply::ServiceStats { last_sync: at },
                RemoteReply::ServiceStats(GeoReplication::Live { last_sync: at }),
            ),
        ] {
            prop_assert_eq!(replied(&remote, &operation, &options, reply), Ok(expected));
        }
    }
}
