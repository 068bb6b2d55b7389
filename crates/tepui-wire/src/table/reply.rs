//! Replies as responses. The other direction, for clients, is in `read.rs`.

pub mod read;

use super::atom::{self, FeedWriter};
use super::format::{Format, Shape};
use super::json::{self, EntityWriter};
use super::links::{TableLinks, table_path};
use super::request::Prepared;
use super::request::presentation::{Prefer, Presentation};
use super::token;
use crate::address::Service;
use crate::payload::Payload;
use crate::version::ServiceVersion;
use crate::xml::{self, GeoReplication};
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, LOCATION, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use tepui_model::table::{
    Action, Change, EntityKey, EntityPage, EntitySink, EntityView, Properties, Reply, TablePage, Written,
};
use tepui_model::{Timestamp, etag};

pub const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const DATA_SERVICE_ID: HeaderName = HeaderName::from_static("dataserviceid");
const NEXT_PARTITION_KEY: HeaderName = HeaderName::from_static("x-ms-continuation-nextpartitionkey");
const NEXT_ROW_KEY: HeaderName = HeaderName::from_static("x-ms-continuation-nextrowkey");
const NEXT_TABLE_NAME: HeaderName = HeaderName::from_static("x-ms-continuation-nexttablename");

/// As many as answers have, with those that every answer has: the map need not grow.
const USUAL_HEADERS: usize = 12;

/// What an answer needs to know of its request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    /// Scheme, host and, in path style, the account: what links start with.
    pub(super) base: &'a str,
    pub(super) account: &'a str,
    pub(super) presentation: &'a Presentation,
    pub(super) version: ServiceVersion,
    pub(super) now: Timestamp,
}

impl<'a> Context<'a> {
    pub(super) fn new(request: &'a Prepared<'a>, now: Timestamp) -> Self {
        let head = request.head();
        let (base, account) = (&head.target.base, &head.target.account);
        Self { base, account, presentation: request.presentation(), version: head.version, now }
    }

    pub(super) fn links(&self, table: &'a str) -> TableLinks<'a> {
        TableLinks { base: self.base, account: self.account, table }
    }
}

/// The answer to an operation that succeeded. Pages of entities come from [`PageWriter::finish`], those of batches from
/// [`super::batch`].
pub fn encode(request: &Prepared<'_>, now: Timestamp, reply: Reply) -> Response<Vec<u8>> {
    let context = &Context::new(request, now);
    match reply {
        Reply::Tables(page) => tables(context, page),
        Reply::Table { name } => {
            let format = context.presentation.format;
            with_body(StatusCode::OK, format, Shape::Entry, table_body(context, &name))
        }
        Reply::TableCreated { name } => table_created(context, name.as_str()),
        Reply::TableDeleted => no_content(),
        Reply::Entity(entity) => {
            let links = context.links(request.table().unwrap_or_default());
            let body = entity_body(context, &links, &entity.view());
            let mut response = with_body(StatusCode::OK, context.presentation.format, Shape::Entry, body);
            response.headers_mut().insert(ETAG, etag_value(entity.timestamp));
            response
        }
        Reply::Acl(identifiers) => {
            xml_body(StatusCode::OK, xml::print_signed_identifiers(&identifiers, Service::Table))
        }
        Reply::AclSet => empty(StatusCode::NO_CONTENT),
        Reply::ServiceProperties(properties) => {
            let body = xml::print_service_properties(&properties, context.version, Service::Table);
            xml_body(StatusCode::OK, body)
        }
        Reply::ServicePropertiesSet => empty(StatusCode::ACCEPTED),
        Reply::ServiceStats { last_sync } => {
            let body = xml::print_service_stats(GeoReplication::Live { last_sync }, Service::Table);
            xml_body(StatusCode::OK, body)
        }
    }
}

/// The answer to a change that was made alone.
pub fn encode_change(
    request: &Prepared<'_>,
    now: Timestamp,
    change: &Change,
    written: Written,
) -> Response<Vec<u8>> {
    let context = &Context::new(request, now);
    written_entity(context, &context.links(request.table().unwrap_or_default()), change, written)
}

/// Writes a page of entities while the query finds them.
pub struct PageWriter {
    writer: AnyWriter,
    content_type: &'static str,
}

enum AnyWriter {
    Json(EntityWriter),
    Atom(FeedWriter),
}

impl PageWriter {
    pub fn new(request: &Prepared<'_>, now: Timestamp, table: &str) -> Self {
        let context = Context::new(request, now);
        let links = context.links(table);
        let Presentation { format, select, .. } = context.presentation;
        let writer = match format {
            Format::Json(level) => AnyWriter::Json(EntityWriter::set(*level, &links, select.clone())),
            Format::Atom => AnyWriter::Atom(FeedWriter::feed(&links, select.clone(), now)),
        };
        Self { writer, content_type: format.content_type(Shape::Feed) }
    }

    /// The answer, once the page is complete.
    pub fn finish(self, page: &EntityPage) -> Response<Payload> {
        let body = match self.writer {
            AnyWriter::Json(writer) => writer.finish(),
            AnyWriter::Atom(writer) => writer.finish().into(),
        };
        let mut response = body_of(StatusCode::OK, self.content_type, body);
        if let Some(next) = &page.next {
            let headers = response.headers_mut();
            headers.insert(NEXT_PARTITION_KEY, ascii(token::encode(&next.partition_key)));
            headers.insert(NEXT_ROW_KEY, ascii(token::encode(&next.row_key)));
        }
        response
    }
}

impl EntitySink for PageWriter {
    fn accept(&mut self, entity: &EntityView<'_>) {
        match &mut self.writer {
            AnyWriter::Json(writer) => writer.accept(entity),
            AnyWriter::Atom(writer) => writer.accept(entity),
        }
    }

    fn bytes(&self) -> usize {
        match &self.writer {
            AnyWriter::Json(writer) => writer.bytes(),
            AnyWriter::Atom(writer) => writer.bytes(),
        }
    }
}

fn tables(context: &Context<'_>, page: TablePage) -> Response<Vec<u8>> {
    let body = match context.presentation.format {
        Format::Json(level) => json::tables_body(level, context.base, context.account, &page.names),
        Format::Atom => atom::table_feed(context.base, context.account, &page.names, context.now),
    };
    let mut response = with_body(StatusCode::OK, context.presentation.format, Shape::Feed, body);
    if let Some(next) = page.next {
        response.headers_mut().insert(NEXT_TABLE_NAME, ascii(token::encode_table(&next)));
    }
    response
}

fn table_body(context: &Context<'_>, name: &str) -> Vec<u8> {
    match context.presentation.format {
        Format::Json(level) => json::table_body(level, context.base, context.account, name),
        Format::Atom => atom::table_entry(context.base, context.account, name, context.now),
    }
}

fn table_created(context: &Context<'_>, name: &str) -> Response<Vec<u8>> {
    let location = ascii(format!("{}/{}", context.base, table_path(name)));
    created(context, location, || table_body(context, name))
}

fn written_entity(
    context: &Context<'_>,
    links: &TableLinks<'_>,
    change: &Change,
    written: Written,
) -> Response<Vec<u8>> {
    let mut response = match &change.action {
        Action::Insert(properties) => {
            let EntityKey { partition_key, row_key } = &change.key;
            let location = ascii(links.entity_url(partition_key, row_key));
            created(context, location, || inserted_body(context, links, change, properties, written))
        }
        _ => no_content(),
    };
    if let Written::Stored(timestamp) = written {
        response.headers_mut().insert(ETAG, etag_value(timestamp));
    }
    response
}

/// 201 with what was made, or 204 for those who prefer it.
fn created(
    context: &Context<'_>,
    location: HeaderValue,
    body: impl FnOnce() -> Vec<u8>,
) -> Response<Vec<u8>> {
    let Presentation { prefer, format, .. } = context.presentation;
    let mut response = match prefer {
        Prefer::ReturnNoContent => no_content(),
        Prefer::Unsaid | Prefer::ReturnContent => {
            with_body(StatusCode::CREATED, *format, Shape::Entry, body())
        }
    };
    let headers = response.headers_mut();
    if *prefer == Prefer::ReturnNoContent {
        headers.insert(DATA_SERVICE_ID, location.clone());
    }
    headers.insert(LOCATION, location);
    if let Some(applied) = prefer.applied() {
        headers.insert(PREFERENCE_APPLIED, HeaderValue::from_static(applied));
    }
    response
}

/// The body of the answer to an insert: the entity as it is stored now.
pub(super) fn inserted_body(
    context: &Context<'_>,
    links: &TableLinks<'_>,
    change: &Change,
    properties: &Properties,
    written: Written,
) -> Vec<u8> {
    let timestamp = match written {
        Written::Stored(timestamp) => timestamp,
        Written::Deleted => context.now,
    };
    let EntityKey { partition_key, row_key } = &change.key;
    entity_body(context, links, &EntityView { partition_key, row_key, timestamp, packed: properties.bytes() })
}

fn entity_body(context: &Context<'_>, links: &TableLinks<'_>, entity: &EntityView<'_>) -> Vec<u8> {
    let select = &context.presentation.select;
    match context.presentation.format {
        Format::Json(level) => json::entity_body(level, links, select, entity),
        Format::Atom => atom::entity_entry(links, select, context.now, entity),
    }
}

fn with_body(status: StatusCode, format: Format, shape: Shape, body: Vec<u8>) -> Response<Vec<u8>> {
    body_of(status, format.content_type(shape), body)
}

fn body_of<B>(status: StatusCode, content_type: &'static str, body: B) -> Response<B> {
    let mut response = stored(status, body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn no_content() -> Response<Vec<u8>> {
    stored(StatusCode::NO_CONTENT, Vec::new())
}

/// An answer of the store: it is not to be cached and means what it says.
fn stored<B>(status: StatusCode, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    *headers = HeaderMap::with_capacity(USUAL_HEADERS);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn xml_body(status: StatusCode, body: Vec<u8>) -> Response<Vec<u8>> {
    let mut response = empty(status);
    *response.body_mut() = body;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response
}

fn empty(status: StatusCode) -> Response<Vec<u8>> {
    let mut response = Response::new(Vec::new());
    *response.status_mut() = status;
    response
}

fn etag_value(timestamp: Timestamp) -> HeaderValue {
    let mut text = Vec::with_capacity(52);
    etag::write(timestamp, &mut text);
    HeaderValue::from_maybe_shared(bytes::Bytes::from(text)).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// A header of text that was made here and is ASCII.
fn ascii(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}
