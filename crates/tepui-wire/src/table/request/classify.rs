//! Which operation a request is: method, resource and parameters, one row each.

use super::resource::Resource;
use crate::query::Query;
use http::{HeaderMap, Method};
use tepui_model::table::OperationKind;
use tepui_model::{ErrorCode, ServiceError};

/// The verbs of the Table service, MERGE and PATCH being the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Get,
    Post,
    Put,
    Merge,
    Delete,
}

impl Verb {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "GET" => Self::Get,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "MERGE" | "PATCH" => Self::Merge,
            "DELETE" => Self::Delete,
            _ => return None,
        })
    }
}

/// What the query string makes of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Component {
    Itself,
    Acl,
    Properties,
    Stats,
    UserDelegationKey,
}

/// The operation that a request asks for.
pub(super) fn classify(
    method: &Method,
    resource: &Resource,
    query: &Query,
    headers: &HeaderMap,
) -> Result<OperationKind, ServiceError> {
    use OperationKind::*;
    let verb = verb(method, headers)?;
    let conditional = headers.contains_key(http::header::IF_MATCH);
    Ok(match (verb, resource, component(query)?) {
        (Verb::Get, Resource::Tables, Component::Itself) => QueryTables,
        (Verb::Post, Resource::Tables, Component::Itself) => CreateTable,
        (Verb::Get, Resource::Table(_), Component::Itself) => GetTable,
        (Verb::Delete, Resource::Table(_), Component::Itself) => DeleteTable,
        (Verb::Get, Resource::Entities(_), Component::Itself) => QueryEntities,
        (Verb::Post, Resource::Entities(_), Component::Itself) => InsertEntity,
        (Verb::Get, Resource::Entity(..), Component::Itself) => GetEntity,
        (Verb::Put, Resource::Entity(..), Component::Itself) if conditional => UpdateEntity,
        (Verb::Put, Resource::Entity(..), Component::Itself) => InsertOrReplaceEntity,
        (Verb::Merge, Resource::Entity(..), Component::Itself) if conditional => MergeEntity,
        (Verb::Merge, Resource::Entity(..), Component::Itself) => InsertOrMergeEntity,
        (Verb::Delete, Resource::Entity(..), Component::Itself) => DeleteEntity,
        (Verb::Post, Resource::Batch, Component::Itself) => EntityGroupTransaction,
        (Verb::Get, Resource::Entities(_), Component::Acl) => GetTableAcl,
        (Verb::Put, Resource::Entities(_), Component::Acl) => SetTableAcl,
        (Verb::Get, Resource::Service, Component::Properties) => GetServiceProperties,
        (Verb::Put, Resource::Service, Component::Properties) => SetServiceProperties,
        (Verb::Get, Resource::Service, Component::Stats) => GetServiceStats,
        (Verb::Post, Resource::Service, Component::UserDelegationKey) => GetUserDelegationKey,
        // The service document and the model of the data: nobody asks for them.
        (Verb::Get, Resource::Service | Resource::Metadata, Component::Itself) => {
            return Err(ErrorCode::NotImplemented.into());
        }
        (_, Resource::Service, Component::Properties | Component::Stats | Component::UserDelegationKey) => {
            return Err(ErrorCode::MethodNotAllowed.into());
        }
        // Fidelity: only the service has them, and clients search the message. scenario: properties-path
        (_, _, Component::Properties | Component::Stats | Component::UserDelegationKey) => {
            return Err(ErrorCode::InvalidQueryParameterValue.into());
        }
        (_, Resource::Service, Component::Acl)
        | (
            _,
            Resource::Tables
            | Resource::Table(_)
            | Resource::Entity(..)
            | Resource::Batch
            | Resource::Metadata,
            Component::Acl,
        ) => {
            return Err(ErrorCode::InvalidUri.into());
        }
        _ => return Err(ErrorCode::MethodNotAllowed.into()),
    })
}

/// Whether an operation answers in XML, its errors too.
pub(super) fn answers_xml(kind: OperationKind) -> bool {
    use OperationKind::*;
    matches!(
        kind,
        GetTableAcl
            | SetTableAcl
            | GetServiceProperties
            | SetServiceProperties
            | GetServiceStats
            | GetUserDelegationKey
    )
}

/// Whether a query string asks for one of these operations, or for one like them that does not exist.
pub(super) fn names_xml(query: &Query) -> bool {
    ["restype", "comp"].iter().any(|name| query.get_ignore_case(name).is_some())
}

/// The verb, also when it is carried in a header of a POST.
fn verb(method: &Method, headers: &HeaderMap) -> Result<Verb, ServiceError> {
    let mut tunnelled = headers.get_all("x-http-method").into_iter();
    let verb = match (tunnelled.next(), tunnelled.next()) {
        (None, _) => Verb::parse(method.as_str()).ok_or(ErrorCode::MethodNotAllowed)?,
        (Some(_), Some(_)) => return Err(ErrorCode::XMethodIncorrectCount.into()),
        (Some(_), None) if method != Method::POST => return Err(ErrorCode::XMethodNotUsingPost.into()),
        (Some(value), None) => match value.to_str().map(|text| text.trim().to_ascii_uppercase()).as_deref() {
            Ok("MERGE" | "PATCH") => Verb::Merge,
            Ok("PUT") => Verb::Put,
            Ok("DELETE") => Verb::Delete,
            Ok(list) if list.contains(',') => return Err(ErrorCode::XMethodIncorrectCount.into()),
            _ => return Err(ErrorCode::XMethodIncorrectValue.into()),
        },
    };
    Ok(verb)
}

fn component(query: &Query) -> Result<Component, ServiceError> {
    let invalid = || ServiceError::from(ErrorCode::InvalidQueryParameterValue);
    match (query.get_ignore_case("restype"), query.get_ignore_case("comp")) {
        (None, None) => Ok(Component::Itself),
        (None, Some(comp)) if comp.eq_ignore_ascii_case("acl") => Ok(Component::Acl),
        (Some(restype), Some(comp)) if restype.eq_ignore_ascii_case("service") => {
            if comp.eq_ignore_ascii_case("properties") {
                Ok(Component::Properties)
            } else if comp.eq_ignore_ascii_case("stats") {
                Ok(Component::Stats)
            } else if comp.eq_ignore_ascii_case("userdelegationkey") {
                Ok(Component::UserDelegationKey)
            } else {
                Err(invalid())
            }
        }
        _ => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_model::table::EntityKey;

    fn classified(line: &str, headers: &[(&'static str, &'static str)]) -> Result<OperationKind, ErrorCode> {
        let (method, target) = line.split_once(' ').unwrap();
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let resource = match path {
            "E" => Resource::Entity("T".to_owned(), EntityKey::new("p", "r")),
            path => Resource::parse(path, "d1").unwrap(),
        };
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        classify(&method, &resource, &Query::parse(query), &map).map_err(|error| error.code)
    }

    #[test]
    fn routes() {
        use OperationKind::*;
        let any = [("if-match", "*")];
        for (line, headers, expected) in [
            ("GET Tables", &[][..], Ok(QueryTables)),
            ("POST Tables", &[], Ok(CreateTable)),
            ("GET Tables('T')", &[], Ok(GetTable)),
            ("DELETE Tables('T')", &[], Ok(DeleteTable)),
            ("PUT Tables('T')", &[], Err(ErrorCode::MethodNotAllowed)),
            ("GET T()", &[], Ok(QueryEntities)),
            ("POST T", &any, Ok(InsertEntity)),
            ("GET E", &[], Ok(GetEntity)),
            ("PUT E", &any, Ok(UpdateEntity)),
            ("PUT E", &[], Ok(InsertOrReplaceEntity)),
            ("MERGE E", &any, Ok(MergeEntity)),
            ("PATCH E", &[], Ok(InsertOrMergeEntity)),
            ("DELETE E", &any, Ok(DeleteEntity)),
            ("POST E", &[], Err(ErrorCode::MethodNotAllowed)),
            ("OPTIONS E", &[], Err(ErrorCode::MethodNotAllowed)),
            ("POST $batch", &[], Ok(EntityGroupTransaction)),
            ("GET T?comp=acl", &[], Ok(GetTableAcl)),
            ("PUT T?comp=acl", &[], Ok(SetTableAcl)),
            ("PUT T?comp=other", &[], Err(ErrorCode::InvalidQueryParameterValue)),
            ("GET ?restype=service&comp=properties", &[], Ok(GetServiceProperties)),
            ("PUT ?restype=service&comp=properties", &[], Ok(SetServiceProperties)),
            ("GET ?restype=service&comp=stats", &[], Ok(GetServiceStats)),
            ("POST ?restype=service&comp=UserDelegationKey", &[], Ok(GetUserDelegationKey)),
            ("GET ?restype=service&comp=userdelegationkey", &[], Err(ErrorCode::MethodNotAllowed)),
            ("GET T?restype=service&comp=properties", &[], Err(ErrorCode::InvalidQueryParameterValue)),
            ("PUT T/?restype=service&comp=properties", &[], Err(ErrorCode::InvalidQueryParameterValue)),
            ("GET Tables?restype=service&comp=stats", &[], Err(ErrorCode::InvalidQueryParameterValue)),
            ("DELETE ?restype=service&comp=properties", &[], Err(ErrorCode::MethodNotAllowed)),
            ("PUT ?restype=service&comp=stats", &[], Err(ErrorCode::MethodNotAllowed)),
            ("GET Tables?comp=acl", &[], Err(ErrorCode::InvalidUri)),
            ("GET $metadata", &[], Err(ErrorCode::NotImplemented)),
            ("GET ", &[], Err(ErrorCode::NotImplemented)),
            ("POST E", &[("x-http-method", "MERGE")], Ok(InsertOrMergeEntity)),
            ("POST E", &[("x-http-method", "PUT"), ("if-match", "*")], Ok(UpdateEntity)),
            ("POST E", &[("x-http-method", "delete"), ("if-match", "*")], Ok(DeleteEntity)),
            ("POST E", &[("x-http-method", "GET")], Err(ErrorCode::XMethodIncorrectValue)),
            (
                "POST E",
                &[("x-http-method", "PUT"), ("x-http-method", "PUT")],
                Err(ErrorCode::XMethodIncorrectCount),
            ),
            ("PUT E", &[("x-http-method", "MERGE")], Err(ErrorCode::XMethodNotUsingPost)),
        ] {
            assert_eq!(classified(line, headers), expected, "{line} {headers:?}");
        }
    }
}
