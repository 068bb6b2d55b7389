//! Requests as operations: what is left of a request once it is clear which operation it is.

use super::format::BodyFormat;
use super::json::{DecodedEntity, KeysIn};
use super::presentation::Presentation;
use super::resource::Resource;
use super::{atom, filter_text, json, token};
use crate::query::Query;
use crate::version::ServiceVersion;
use crate::xml;
use http::HeaderMap;
use http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use tepui_model::condition::Condition;
use tepui_model::table::{
    Action, Change, EntityKey, Operation, OperationKind, PageSize, Properties, QueryEntities, QueryTables,
    TableName,
};
use tepui_model::{ErrorCode, ServiceError, Stage};

/// A request of which everything but its body has been looked at.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub kind: OperationKind,
    pub resource: &'a Resource,
    pub query: &'a Query,
    pub headers: &'a HeaderMap,
    pub version: ServiceVersion,
    pub presentation: &'a Presentation,
}

/// Turns a request into an operation. Batches are decoded by [`super::batch`].
pub fn decode(request: &Request<'_>, body: &[u8]) -> Result<Operation, ServiceError> {
    use OperationKind::*;
    let table = || request.resource.table().unwrap_or_default().to_owned();
    Ok(match request.kind {
        QueryTables => Operation::QueryTables(query_tables(request.query)?),
        GetTable => Operation::GetTable { table: table() },
        DeleteTable => Operation::DeleteTable { table: table() },
        CreateTable => Operation::CreateTable { name: table_name(request.presentation.body_format, body)? },
        QueryEntities => Operation::QueryEntities(query_entities(table(), request.query)?),
        GetEntity => {
            check_options(request.query)?;
            Operation::GetEntity { table: table(), key: addressed(request.resource)? }
        }
        InsertEntity
        | UpdateEntity
        | MergeEntity
        | InsertOrReplaceEntity
        | InsertOrMergeEntity
        | DeleteEntity => Operation::ChangeEntity { table: table(), change: decode_change(request, body)? },
        GetTableAcl => Operation::GetTableAcl { table: table() },
        SetTableAcl => {
            Operation::SetTableAcl { table: table(), identifiers: xml::parse_signed_identifiers(body)? }
        }
        GetServiceProperties => Operation::GetServiceProperties,
        SetServiceProperties => {
            Operation::SetServiceProperties(xml::parse_service_properties(body, request.version)?)
        }
        GetServiceStats => Operation::GetServiceStats,
        EntityGroupTransaction => return Err(ErrorCode::InvalidInput.into()),
    })
}

/// Whether an error in decoding is about the body. If not, it is told before anybody looks for the table.
pub fn is_about_body(request: &Request<'_>) -> bool {
    use OperationKind::*;
    match request.kind {
        InsertEntity | SetTableAcl => true,
        UpdateEntity | MergeEntity | InsertOrReplaceEntity | InsertOrMergeEntity => {
            condition(request).is_ok()
        }
        _ => false,
    }
}

/// Decodes one write of one entity, alone or in a batch.
pub fn decode_change(request: &Request<'_>, body: &[u8]) -> Result<Change, ServiceError> {
    use OperationKind::*;
    if request.kind == InsertEntity {
        return insert(request.presentation.body_format, body);
    }
    let key = addressed(request.resource)?;
    let condition = condition(request)?;
    if request.kind == DeleteEntity {
        return Ok(Change { key, action: Action::Delete(condition) });
    }
    let properties = properties(request.presentation.body_format, body)?;
    key.check_lengths()?;
    let action = match request.kind {
        UpdateEntity => Action::Update(condition, properties),
        MergeEntity => Action::Merge(condition, properties),
        InsertOrReplaceEntity => Action::InsertOrReplace(properties),
        InsertOrMergeEntity => Action::InsertOrMerge(properties),
        _ => return Err(ErrorCode::InvalidInput.into()),
    };
    Ok(Change { key, action })
}

fn insert(format: BodyFormat, body: &[u8]) -> Result<Change, ServiceError> {
    let entity = decode_entity(format, body, KeysIn::Body)?;
    let (Some(partition_key), Some(row_key)) = (entity.partition_key, entity.row_key) else {
        return Err(ErrorCode::PropertiesNeedValue.into());
    };
    Ok(Change { key: EntityKey { partition_key, row_key }, action: Action::Insert(entity.properties) })
}

/// The properties of an update. Fidelity: keys in the body do not count, the address does.
/// scenario: update-keys-in-body-ignored
fn properties(format: BodyFormat, body: &[u8]) -> Result<Properties, ServiceError> {
    Ok(decode_entity(format, body, KeysIn::Address)?.properties)
}

fn decode_entity(format: BodyFormat, body: &[u8], keys: KeysIn) -> Result<DecodedEntity, ServiceError> {
    match format {
        BodyFormat::Json => json::decode_entity(body, keys),
        BodyFormat::Atom => atom::decode_entry(body, keys),
    }
}

fn table_name(format: BodyFormat, body: &[u8]) -> Result<TableName, ServiceError> {
    let name = match format {
        BodyFormat::Json => json::decode_table_name(body)?,
        BodyFormat::Atom => atom::decode_table_entry(body)?,
    };
    TableName::parse(&name.ok_or(ErrorCode::PropertiesNeedValue)?)
}

fn addressed(resource: &Resource) -> Result<EntityKey, ServiceError> {
    match resource {
        Resource::Entity(_, key) => Ok(key.clone()),
        _ => Err(ErrorCode::InvalidInput.into()),
    }
}

/// The condition of a write; `Any` where it has none.
fn condition(request: &Request<'_>) -> Result<Condition, ServiceError> {
    let values = |name: &HeaderName| request.headers.get_all(name).into_iter().count();
    if values(&IF_NONE_MATCH) > 0 {
        let verb = if request.kind == OperationKind::DeleteEntity { "DELETE" } else { "PUT" };
        return Err(ServiceError::new(ErrorCode::InvalidInput)
            .with_message(format!("If-None-Match HTTP header cannot be specified for {verb} operations.")));
    }
    match (request.headers.get(IF_MATCH), request.kind) {
        (Some(value), _) if values(&IF_MATCH) == 1 => Condition::parse(value.to_str().unwrap_or_default()),
        (Some(_), _) => Condition::parse(""),
        (None, OperationKind::DeleteEntity) => Err(ErrorCode::MissingRequiredHeader.into()),
        (None, OperationKind::InsertOrReplaceEntity | OperationKind::InsertOrMergeEntity)
            if !request.version.has_upsert() =>
        {
            Err(ErrorCode::MissingRequiredHeader.into())
        }
        (None, _) => Ok(Condition::Any),
    }
}

fn query_tables(query: &Query) -> Result<QueryTables, ServiceError> {
    check_options(query)?;
    Ok(QueryTables {
        page_size: page_size(query)?,
        filter: filter_text::parse(query.get("$filter").unwrap_or_default())?,
        from: query
            .get("NextTableName")
            .filter(|token| !token.is_empty())
            .map(token::decode_table)
            .transpose()?,
    })
}

fn query_entities(table: String, query: &Query) -> Result<QueryEntities, ServiceError> {
    check_options(query)?;
    Ok(QueryEntities {
        table,
        page_size: page_size(query)?,
        filter: filter_text::parse(query.get("$filter").unwrap_or_default())?,
        from: token::decode_entity(query.get("NextPartitionKey"), query.get("NextRowKey"))?,
    })
}

/// Refuses options of OData that this service never had.
fn check_options(query: &Query) -> Result<(), ServiceError> {
    for (name, _) in query.iter().filter(|(name, _)| name.starts_with('$')) {
        match name {
            "$filter" | "$select" | "$top" | "$format" => {}
            "$orderby" | "$skip" | "$skiptoken" | "$expand" | "$inlinecount" | "$count" => {
                return Err(ErrorCode::NotImplemented.into());
            }
            _ => return Err(ErrorCode::InvalidInput.into()),
        }
    }
    Ok(())
}

fn page_size(query: &Query) -> Result<PageSize, ServiceError> {
    let Some(text) = query.get("$top") else { return Ok(PageSize::MAX) };
    let size = text.trim().parse().ok().and_then(PageSize::new);
    size.ok_or_else(|| ServiceError::new(ErrorCode::InvalidInput).at_stage(Stage::Store))
}
