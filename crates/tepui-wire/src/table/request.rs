//! Requests of the Table service, read in three steps, so that others can be asked in between: what the head names
//! ([`Request::read`]), the formats it settles ([`Request::prepare`]), and the operation ([`Prepared::decode`]).
//!
//! | | |
//! | --- | --- |
//! | `resource.rs` | what the path names |
//! | `classify.rs` | which operation it is |
//! | `presentation.rs` | the formats of the request and of its reply |
//! | `write.rs` | the other direction: operations as requests of a client |

mod classify;
pub mod presentation;
pub mod resource;
pub mod write;

use self::presentation::Presentation;
use self::resource::Resource;
use super::format::BodyFormat;
use super::json::{DecodedEntity, KeysIn};
use super::{atom, filter_text, json, token};
use crate::access;
use crate::head::{BodyUse, Head};
use crate::query::Query;
use crate::xml;
use http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use tepui_model::condition::Condition;
use tepui_model::grant::Grant;
use tepui_model::table::{
    Action, Call, Change, EntityKey, Operation, OperationKind, PageSize, Properties, QueryEntities,
    QueryTables, TableName,
};
use tepui_model::{ErrorCode, ServiceError, Stage};

const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// What a request asks for, as far as its head tells.
#[derive(Debug)]
pub struct Request<'a> {
    head: Head<'a>,
    kind: OperationKind,
    resource: Resource,
}

/// What the body of an operation holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Nothing,
    /// An entity or the name of a table, in the format that `Content-Type` names.
    OData,
    Xml,
    Batch,
}

fn content(kind: OperationKind) -> Content {
    use OperationKind::*;
    match kind {
        CreateTable
        | InsertEntity
        | UpdateEntity
        | MergeEntity
        | InsertOrReplaceEntity
        | InsertOrMergeEntity => Content::OData,
        SetTableAcl | SetServiceProperties | GetUserDelegationKey => Content::Xml,
        EntityGroupTransaction => Content::Batch,
        QueryTables | GetTable | DeleteTable | QueryEntities | GetEntity | DeleteEntity | GetTableAcl
        | GetServiceProperties | GetServiceStats => Content::Nothing,
    }
}

impl<'a> Request<'a> {
    pub fn read(head: &Head<'a>) -> Result<Self, ServiceError> {
        let resource = Resource::parse(head.path, &head.target.account)?;
        let kind = classify::classify(head.method, &resource, head.query, head.headers)?;
        if kind == OperationKind::GetUserDelegationKey && !head.version.has_tokens_for_everything() {
            return Err(ErrorCode::InvalidQueryParameterValue.into());
        }
        Ok(Self { head: *head, kind, resource })
    }

    pub fn kind(&self) -> OperationKind {
        self.kind
    }

    /// The table that the request is about, as the caller spells it.
    pub fn table(&self) -> Option<&str> {
        self.resource.table()
    }

    /// Whether the caller may do this at all.
    pub fn check_access(&self, grant: &Grant) -> Result<(), ServiceError> {
        access::table::check_request(grant, self.kind, self.table(), self.head.version)
    }

    /// Refuses the name of a table that no table can have: see [`Resource::check_name`].
    pub fn check_name(&self) -> Result<(), ServiceError> {
        self.resource.check_name()
    }

    /// What is done with the body. Those of operations that have none are read, too, and then ignored.
    pub fn body(&self) -> BodyUse {
        BodyUse::Whole { max_bytes: MAX_BODY_BYTES, required: content(self.kind) != Content::Nothing }
    }

    /// Settles the formats.
    pub fn prepare(self) -> Result<Prepared<'a>, ServiceError> {
        self.settle(None)
    }

    /// Settles the formats of a part of a batch. `accept` counts where the part itself says nothing. What the part
    /// `before` has settled about the same headers is not settled again.
    pub fn prepare_part(
        self,
        accept: &str,
        before: Option<&Prepared<'_>>,
    ) -> Result<Prepared<'a>, ServiceError> {
        match before {
            Some(Prepared { request, presentation })
                if request.kind == self.kind
                    && request.head.query == self.head.query
                    && std::ptr::eq(request.head.headers, self.head.headers) =>
            {
                Ok(Prepared { request: self, presentation: presentation.clone() })
            }
            _ => self.settle(Some(accept)),
        }
    }

    fn settle(self, outer_accept: Option<&str>) -> Result<Prepared<'a>, ServiceError> {
        let Head { query, headers, version, .. } = self.head;
        let presentation = Presentation::negotiate(self.kind, query, headers, version, outer_accept)?;
        Ok(Prepared { request: self, presentation })
    }
}

/// A request that is good as far as one can tell without its body.
#[derive(Debug)]
pub struct Prepared<'a> {
    request: Request<'a>,
    presentation: Presentation,
}

impl<'a> Prepared<'a> {
    pub fn kind(&self) -> OperationKind {
        self.request.kind
    }

    pub fn table(&self) -> Option<&str> {
        self.request.table()
    }

    pub(super) fn head(&self) -> &Head<'a> {
        &self.request.head
    }

    pub(super) fn presentation(&self) -> &Presentation {
        &self.presentation
    }

    /// What is asked for, with what the body says. Batches are decoded by [`super::batch`], requests for keys by
    /// [`crate::delegation_xml`].
    pub fn decode(&self, body: &[u8]) -> Result<Call, ServiceError> {
        use OperationKind::*;
        let Self { request, presentation } = self;
        let table = || request.table().unwrap_or_default().to_owned();
        Ok(Call::Operation(match request.kind {
            QueryTables => Operation::QueryTables(query_tables(request.head.query)?),
            GetTable => Operation::GetTable { table: table() },
            DeleteTable => Operation::DeleteTable { table: table() },
            CreateTable => Operation::CreateTable { name: table_name(presentation.body_format, body)? },
            QueryEntities => return Ok(Call::Query(query_entities(table(), request.head.query)?)),
            GetEntity => {
                check_options(request.head.query)?;
                Operation::GetEntity { table: table(), key: addressed(&request.resource)? }
            }
            InsertEntity
            | UpdateEntity
            | MergeEntity
            | InsertOrReplaceEntity
            | InsertOrMergeEntity
            | DeleteEntity => return Ok(Call::Change { table: table(), change: self.decode_change(body)? }),
            GetTableAcl => Operation::GetTableAcl { table: table() },
            SetTableAcl => {
                Operation::SetTableAcl { table: table(), identifiers: xml::parse_signed_identifiers(body)? }
            }
            GetServiceProperties => Operation::GetServiceProperties,
            SetServiceProperties => {
                let change = xml::parse_service_properties(body, request.head.version)?;
                // Fidelity: logs of version 2.0 are for the other services. scenario: table-logging-version
                if change.logging.as_ref().is_some_and(|logging| logging.version != "1.0") {
                    return Err(ErrorCode::InvalidXmlDocument.into());
                }
                Operation::SetServiceProperties(change)
            }
            GetServiceStats => Operation::GetServiceStats,
            EntityGroupTransaction | GetUserDelegationKey => return Err(ErrorCode::InvalidInput.into()),
        }))
    }

    /// Whether an error in decoding is about the body. If not, it is told before anybody looks for the table.
    pub fn is_about_body(&self) -> bool {
        use OperationKind::*;
        let request = &self.request;
        match request.kind {
            InsertEntity | SetTableAcl => true,
            UpdateEntity | MergeEntity | InsertOrReplaceEntity | InsertOrMergeEntity => {
                condition(request).is_ok()
            }
            _ => false,
        }
    }

    /// Decodes one write of one entity, alone or in a batch.
    pub fn decode_change(&self, body: &[u8]) -> Result<Change, ServiceError> {
        use OperationKind::*;
        let Self { request, presentation } = self;
        if request.kind == InsertEntity {
            return insert(presentation.body_format, body);
        }
        let key = addressed(&request.resource)?;
        let condition = condition(request)?;
        if request.kind == DeleteEntity {
            return Ok(Change { key, action: Action::Delete(condition) });
        }
        let properties = properties(presentation.body_format, body)?;
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
    let values = |name: &HeaderName| request.head.headers.get_all(name).into_iter().count();
    if values(&IF_NONE_MATCH) > 0 {
        let verb = if request.kind == OperationKind::DeleteEntity { "DELETE" } else { "PUT" };
        return Err(ServiceError::new(ErrorCode::InvalidInput)
            .with_message(format!("If-None-Match HTTP header cannot be specified for {verb} operations.")));
    }
    match (request.head.headers.get(IF_MATCH), request.kind) {
        (Some(value), _) if values(&IF_MATCH) == 1 => Condition::parse(value.to_str().unwrap_or_default()),
        (Some(_), _) => Condition::parse(""),
        (None, OperationKind::DeleteEntity) => Err(ErrorCode::MissingRequiredHeader.into()),
        (None, OperationKind::InsertOrReplaceEntity | OperationKind::InsertOrMergeEntity)
            if !request.head.version.has_upsert() =>
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
