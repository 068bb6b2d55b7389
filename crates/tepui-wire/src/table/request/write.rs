//! Operations as requests of a client: the mirror of [`Request::read`](super::Request::read) and of what follows it.
//!
//! All operations of the Table service, in JSON. Entity group transactions are in
//! [`batch::write_request`](crate::table::batch::write_request). A query as the only part of a batch is not written: it
//! says nothing that the query alone does not.

use super::presentation::Prefer;
use crate::address::Service;
use crate::remote::{InvalidRequest, Outgoing, OutgoingRequest, RemoteService};
use crate::table::format::MetadataLevel;
use crate::table::links::TableLinks;
use crate::table::token::PageToken;
use crate::table::{filter_text, json};
use crate::{percent, xml};
use http::Method;
use tepui_model::condition::Condition;
use tepui_model::etag;
use tepui_model::table::{Action, Call, Change, EntityKey, Operation, PageSize, Properties};

/// What a client wants of a reply, and what services have told it before, in their own words.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    pub metadata: MetadataLevel,
    /// Whether an insert is answered with what was inserted.
    pub prefer: Prefer,
    /// The properties that are wanted. Empty: all.
    pub select: &'a [&'a str],
    /// The ETag that a write depends on, as the service spelled it. Takes the place of the operation's condition, which
    /// knows only the timestamp inside.
    pub etag: Option<&'a str>,
    /// Where a query goes on, as the service said. Takes the place of what the operation says.
    pub from: Option<&'a PageToken>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        let prefer = Prefer::ReturnNoContent;
        Self { metadata: MetadataLevel::Minimal, prefer, select: &[], etag: None, from: None }
    }
}

/// The request for what is asked of a service.
pub fn write(
    to: &RemoteService,
    call: &Call,
    options: &Options<'_>,
) -> Result<OutgoingRequest, InvalidRequest> {
    match call {
        Call::Operation(operation) => write_operation(to, operation, options),
        Call::Change { table, change } => write_change(to, table, change, options),
        Call::Query(query) => {
            let mut path = encoded(&query.table);
            path.push_str("()");
            let mut out = reading(to, &path, options);
            push_query(&mut out, query.filter.as_ref().map(filter_text::print), query.page_size);
            push_select(&mut out, options);
            let from = query.from.as_ref().map(PageToken::of_entity);
            push_token(&mut out, options.from.or(from.as_ref()));
            out.empty()
        }
    }
}

fn write_operation(
    to: &RemoteService,
    operation: &Operation,
    options: &Options<'_>,
) -> Result<OutgoingRequest, InvalidRequest> {
    match operation {
        Operation::QueryTables(query) => {
            let mut out = reading(to, "Tables", options);
            push_query(&mut out, query.filter.as_ref().map(filter_text::print), query.page_size);
            let from = query.from.as_deref().map(PageToken::of_table);
            push_token(&mut out, options.from.or(from.as_ref()));
            out.empty()
        }
        Operation::GetTable { table } => reading(to, &path_of_table(table), options).empty(),
        Operation::CreateTable { name } => {
            let mut out = written(to, Method::POST, "Tables", options);
            out.header_if("prefer", options.prefer.applied());
            out.whole(JSON, json::table_request(name.as_str()))
        }
        Operation::DeleteTable { table } => {
            written(to, Method::DELETE, &path_of_table(table), options).empty()
        }
        Operation::GetEntity { table, key } => {
            let mut out = reading(to, &path_of_entity(table, key), options);
            push_select(&mut out, options);
            out.empty()
        }
        Operation::GetTableAcl { table } => {
            let mut out = Outgoing::new(to, Method::GET, &encoded(table));
            out.parameter("comp", "acl");
            out.empty()
        }
        Operation::SetTableAcl { table, identifiers } => {
            let mut out = Outgoing::new(to, Method::PUT, &encoded(table));
            out.parameter("comp", "acl");
            out.whole(XML, xml::print_signed_identifiers(identifiers, WITHOUT_MARK))
        }
        Operation::GetServiceProperties => service(to, Method::GET, "properties").empty(),
        Operation::SetServiceProperties(change) => {
            let body = xml::print_service_properties_change(change, to.version());
            service(to, Method::PUT, "properties").whole(XML, body)
        }
        Operation::GetServiceStats => service(to, Method::GET, "stats").empty(),
    }
}

/// The request for one change, alone or as a part of a batch.
pub(in crate::table) fn write_change(
    to: &RemoteService,
    table: &str,
    change: &Change,
    options: &Options<'_>,
) -> Result<OutgoingRequest, InvalidRequest> {
    let Change { key, action } = change;
    let path = match action {
        Action::Insert(_) => encoded(table),
        _ => path_of_entity(table, key),
    };
    let send = |method: Method, condition: Option<Condition>, properties: Option<&Properties>| {
        let mut out = written(to, method, &path, options);
        if let Some(condition) = condition {
            out.header("if-match", options.etag.map_or_else(|| if_match(condition), str::to_owned));
        }
        if matches!(action, Action::Insert(_)) {
            out.header_if("prefer", options.prefer.applied());
        }
        match properties {
            Some(properties) => out.whole(JSON, json::entity_request(key, properties)),
            None => out.empty(),
        }
    };
    match action {
        Action::Insert(properties) => send(Method::POST, None, Some(properties)),
        Action::Update(condition, properties) => send(Method::PUT, Some(*condition), Some(properties)),
        Action::Merge(condition, properties) => send(Method::PATCH, Some(*condition), Some(properties)),
        Action::InsertOrReplace(properties) => send(Method::PUT, None, Some(properties)),
        Action::InsertOrMerge(properties) => send(Method::PATCH, None, Some(properties)),
        Action::Delete(condition) => send(Method::DELETE, Some(*condition), None),
    }
}

const JSON: &str = "application/json";
const XML: &str = "application/xml";
/// Documents in requests have no byte order mark, which those of the Table service have in replies.
const WITHOUT_MARK: Service = Service::Blob;

fn accept(level: MetadataLevel) -> &'static str {
    match level {
        MetadataLevel::None => "application/json;odata=nometadata",
        MetadataLevel::Minimal => "application/json;odata=minimalmetadata",
        MetadataLevel::Full => "application/json;odata=fullmetadata",
    }
}

fn reading<'a>(to: &'a RemoteService, path: &str, options: &Options<'_>) -> Outgoing<'a> {
    written(to, Method::GET, path, options)
}

fn written<'a>(to: &'a RemoteService, method: Method, path: &str, options: &Options<'_>) -> Outgoing<'a> {
    let mut out = Outgoing::new(to, method, path);
    out.constant_header("accept", accept(options.metadata));
    out.constant_header("dataserviceversion", "3.0;");
    out.constant_header("maxdataserviceversion", "3.0;");
    out
}

fn service<'a>(to: &'a RemoteService, method: Method, comp: &str) -> Outgoing<'a> {
    let mut out = Outgoing::new(to, method, "");
    out.parameter("restype", "service");
    out.parameter("comp", comp);
    out
}

fn push_query(out: &mut Outgoing<'_>, filter: Option<String>, page_size: PageSize) {
    out.parameter_if("$filter", filter.as_deref());
    if page_size != PageSize::MAX {
        out.parameter("$top", &page_size.get().to_string());
    }
}

fn push_select(out: &mut Outgoing<'_>, options: &Options<'_>) {
    out.parameter_if("$select", Some(&options.select.join(",")));
}

fn push_token(out: &mut Outgoing<'_>, token: Option<&PageToken>) {
    match token {
        Some(PageToken::Table(name)) => out.parameter("NextTableName", name),
        Some(PageToken::Entity { partition, row }) => {
            out.parameter("NextPartitionKey", partition);
            out.parameter_if("NextRowKey", row.as_deref());
        }
        None => {}
    }
}

fn encoded(table: &str) -> String {
    let mut path = String::with_capacity(table.len());
    percent::push_encoded(table, &mut path);
    path
}

fn path_of_table(table: &str) -> String {
    let mut path = "Tables('".to_owned();
    percent::encode_key(table, &mut path);
    path.push_str("')");
    path
}

fn path_of_entity(table: &str, key: &EntityKey) -> String {
    let links = TableLinks { base: "", account: "", table: &encoded(table) };
    links.entity_path(&key.partition_key, &key.row_key)
}

fn if_match(condition: Condition) -> String {
    match condition {
        Condition::Any => "*".to_owned(),
        Condition::WrittenAt(timestamp) => etag::to_text(timestamp),
        // A good tag that no entity has.
        Condition::Never => "W/\"none\"".to_owned(),
    }
}
