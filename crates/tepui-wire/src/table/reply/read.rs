//! Replies as a client reads them: the mirror of [`encode`](super::encode) and [`PageWriter`](super::PageWriter).
//! Only JSON, which is what [`write`](crate::table::request::write) asks for.

use super::{NEXT_PARTITION_KEY, NEXT_ROW_KEY, NEXT_TABLE_NAME};
use crate::remote::{ReplyError, check, text};
use crate::table::json::{self, RemoteEntity};
use crate::table::token::PageToken;
use crate::version::ServiceVersion;
use crate::xml::{self, GeoReplication};
use http::Response;
use http::header::ETAG;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::service_properties::ServiceProperties;
use tepui_model::table::{Call, Operation};

/// What a service replies to an operation. Tokens and ETags are as the service spells them.
#[derive(Debug, Clone, PartialEq)]
pub enum RemoteReply {
    Tables {
        names: Vec<String>,
        next: Option<PageToken>,
    },
    Table {
        name: String,
    },
    TableCreated,
    TableDeleted,
    /// A page may be empty and still have a next one.
    Entities {
        entities: Vec<RemoteEntity>,
        next: Option<PageToken>,
    },
    Entity(RemoteEntity),
    /// `None`: the entity was deleted.
    Written {
        etag: Option<String>,
    },
    Acl(Vec<SignedIdentifier>),
    AclSet,
    ServiceProperties(ServiceProperties),
    ServicePropertiesSet,
    ServiceStats(GeoReplication),
}

/// The reply in a response to the request of [`write`](crate::table::request::write::write). Those to transactions are
/// read by [`batch::read_reply`](crate::table::batch::read_reply).
pub fn read(
    call: &Call,
    version: ServiceVersion,
    response: &Response<impl AsRef<[u8]>>,
) -> Result<RemoteReply, ReplyError> {
    check(response)?;
    match call {
        Call::Operation(operation) => read_operation(operation, version, response),
        Call::Change { .. } => Ok(RemoteReply::Written { etag: text(response, ETAG).map(str::to_owned) }),
        Call::Query(_) => {
            let mut entities = Vec::new();
            let next = read_page(response, |entity| entities.push(entity))?;
            Ok(RemoteReply::Entities { entities, next })
        }
    }
}

/// The reply to a query for entities, each of which is handed over as soon as it is read: whoever makes something else of
/// them does it while they are in the caches of the processor, and needs no memory for all of them. After an error
/// those that have been handed over do not count.
pub fn read_page(
    response: &Response<impl AsRef<[u8]>>,
    take: impl FnMut(RemoteEntity),
) -> Result<Option<PageToken>, ReplyError> {
    check(response)?;
    json::receive_entities(response.body().as_ref(), take)
        .ok_or(ReplyError::Unreadable("a page of entities"))?;
    Ok(text(response, NEXT_PARTITION_KEY).map(|partition| PageToken::Entity {
        partition: partition.to_owned(),
        row: text(response, NEXT_ROW_KEY).map(str::to_owned),
    }))
}

fn read_operation(
    operation: &Operation,
    version: ServiceVersion,
    response: &Response<impl AsRef<[u8]>>,
) -> Result<RemoteReply, ReplyError> {
    let body = response.body().as_ref();
    let unreadable = ReplyError::Unreadable;
    Ok(match operation {
        Operation::QueryTables(_) => RemoteReply::Tables {
            names: json::receive_tables(body).ok_or(unreadable("a list of tables"))?,
            next: text(response, NEXT_TABLE_NAME).map(|name| PageToken::Table(name.to_owned())),
        },
        Operation::GetTable { .. } => {
            let name = json::decode_table_name(body).ok().flatten();
            RemoteReply::Table { name: name.ok_or(unreadable("the name of a table"))? }
        }
        Operation::CreateTable { .. } => RemoteReply::TableCreated,
        Operation::DeleteTable { .. } => RemoteReply::TableDeleted,
        Operation::GetEntity { .. } => {
            let mut entity = json::receive_entity(body).ok_or(unreadable("an entity"))?;
            if entity.etag.is_none() {
                entity.etag = text(response, ETAG).map(str::to_owned);
            }
            RemoteReply::Entity(entity)
        }
        Operation::GetTableAcl { .. } => RemoteReply::Acl(
            xml::parse_signed_identifiers(body).map_err(|_| unreadable("stored access policies"))?,
        ),
        Operation::SetTableAcl { .. } => RemoteReply::AclSet,
        Operation::GetServiceProperties => RemoteReply::ServiceProperties(
            xml::receive_service_properties(body, version).ok_or(unreadable("service properties"))?,
        ),
        Operation::SetServiceProperties(_) => RemoteReply::ServicePropertiesSet,
        Operation::GetServiceStats => {
            RemoteReply::ServiceStats(xml::receive_service_stats(body).ok_or(unreadable("service stats"))?)
        }
    })
}
