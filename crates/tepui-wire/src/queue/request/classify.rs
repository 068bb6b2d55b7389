//! Which operation a request is: method, resource and parameters, one row each.

use super::resource::Resource;
use crate::parameters::invalid_value;
use crate::query::Query;
use http::Method;
use tepui_model::queue::OperationKind;
use tepui_model::{ErrorCode, ServiceError};

/// The verbs of the Queue service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Other,
}

impl Verb {
    fn of(method: &Method) -> Self {
        match method.as_str() {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            _ => Self::Other,
        }
    }
}

/// What the query string makes of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Component {
    Itself,
    List,
    Metadata,
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
) -> Result<OperationKind, ServiceError> {
    use OperationKind::*;
    Ok(match (resource, component(query)?, Verb::of(method)) {
        (Resource::Messages(_), Component::Itself, Verb::Post) => PutMessage,
        (Resource::Messages(_), Component::Itself, Verb::Get) if peeks(query) => PeekMessages,
        (Resource::Messages(_), Component::Itself, Verb::Get) => GetMessages,
        (Resource::Messages(_), Component::Itself, Verb::Delete) => ClearMessages,
        (Resource::Message(..), Component::Itself, Verb::Put) => UpdateMessage,
        (Resource::Message(..), Component::Itself, Verb::Delete) => DeleteMessage,
        (Resource::Queue(_), Component::Itself, Verb::Put) => CreateQueue,
        (Resource::Queue(_), Component::Itself, Verb::Delete) => DeleteQueue,
        (Resource::Queue(_), Component::Metadata, Verb::Get | Verb::Head) => GetMetadata,
        (Resource::Queue(_), Component::Metadata, Verb::Put) => SetMetadata,
        (Resource::Queue(_), Component::Acl, Verb::Get | Verb::Head) => GetAcl,
        (Resource::Queue(_), Component::Acl, Verb::Put) => SetAcl,
        (Resource::Service, Component::List, Verb::Get) => ListQueues,
        (Resource::Service, Component::Properties, Verb::Get) => GetServiceProperties,
        (Resource::Service, Component::Properties, Verb::Put) => SetServiceProperties,
        (Resource::Service, Component::Stats, Verb::Get) => GetServiceStats,
        (Resource::Service, Component::UserDelegationKey, Verb::Post) => GetUserDelegationKey,
        (Resource::Messages(_) | Resource::Message(..) | Resource::Queue(_), Component::Itself, _)
        | (Resource::Queue(_), Component::Metadata | Component::Acl, _)
        | (
            Resource::Service,
            Component::List | Component::Properties | Component::Stats | Component::UserDelegationKey,
            _,
        ) => return Err(ErrorCode::UnsupportedHttpVerb.into()),
        _ => return Err(ErrorCode::InvalidUri.into()),
    })
}

/// Anything but `true` is an ordinary Get.
fn peeks(query: &Query) -> bool {
    query.get_ignore_case("peekonly").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn component(query: &Query) -> Result<Component, ServiceError> {
    let given = |name| query.get_ignore_case(name).filter(|value| !value.is_empty());
    let named = |value: &str, rows: &[(&str, Component)]| {
        rows.iter().find(|(name, _)| value.eq_ignore_ascii_case(name)).map(|(_, component)| *component)
    };
    let (wrong, value, found) = match (given("restype"), given("comp")) {
        (None, None) => return Ok(Component::Itself),
        (None, Some(comp)) => {
            let rows =
                [("list", Component::List), ("metadata", Component::Metadata), ("acl", Component::Acl)];
            ("comp", comp, named(comp, &rows))
        }
        (Some(restype), comp) if restype.eq_ignore_ascii_case("service") => {
            let rows = [
                ("properties", Component::Properties),
                ("stats", Component::Stats),
                ("userdelegationkey", Component::UserDelegationKey),
            ];
            let comp = comp.unwrap_or_default();
            ("comp", comp, named(comp, &rows))
        }
        (Some(restype), _) => ("restype", restype, None),
    };
    found.ok_or_else(|| invalid_value(wrong, value, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(line: &str) -> Result<OperationKind, ErrorCode> {
        let (method, target) = line.split_once(' ').unwrap();
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let resource = Resource::parse(&path[1..]).map_err(|error| error.code)?;
        classify(&method.parse().unwrap(), &resource, &Query::parse(query)).map_err(|error| error.code)
    }

    #[test]
    fn requests_are_classified() {
        use OperationKind::*;
        for (line, expected) in [
            ("GET /?comp=list", ListQueues),
            ("GET /?Comp=LIST&prefix=a", ListQueues),
            ("GET /?restype=service&comp=properties", GetServiceProperties),
            ("PUT /?restype=Service&comp=Properties", SetServiceProperties),
            ("GET /?restype=service&comp=stats", GetServiceStats),
            ("POST /?restype=service&comp=userdelegationkey", GetUserDelegationKey),
            ("PUT /jobs", CreateQueue),
            ("PUT /jobs?comp=", CreateQueue),
            ("PUT /jobs?unknown=1&timeout=5", CreateQueue),
            ("DELETE /jobs/", DeleteQueue),
            ("GET /jobs?comp=metadata", GetMetadata),
            ("HEAD /jobs?comp=metadata", GetMetadata),
            ("PUT /jobs?comp=metadata", SetMetadata),
            ("GET /jobs?comp=acl", GetAcl),
            ("HEAD /jobs?comp=acl", GetAcl),
            ("PUT /jobs?comp=acl", SetAcl),
            ("POST /jobs/messages", PutMessage),
            ("GET /jobs/messages", GetMessages),
            ("GET /jobs/messages?peekonly=false", GetMessages),
            ("GET /jobs/messages?peekonly=true", PeekMessages),
            ("GET /jobs/messages?PeekOnly=True", PeekMessages),
            ("DELETE /jobs/messages", ClearMessages),
            ("PUT /jobs/messages/1", UpdateMessage),
            ("DELETE /jobs/messages/1", DeleteMessage),
        ] {
            assert_eq!(classified(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn requests_are_refused() {
        use ErrorCode::*;
        for (line, expected) in [
            ("PATCH /jobs", UnsupportedHttpVerb),
            ("GET /jobs", UnsupportedHttpVerb),
            ("DELETE /jobs?comp=metadata", UnsupportedHttpVerb),
            ("POST /jobs?comp=acl", UnsupportedHttpVerb),
            ("HEAD /jobs/messages", UnsupportedHttpVerb),
            ("PUT /jobs/messages", UnsupportedHttpVerb),
            ("GET /jobs/messages/1", UnsupportedHttpVerb),
            ("POST /?comp=list", UnsupportedHttpVerb),
            ("HEAD /?comp=list", UnsupportedHttpVerb),
            ("PUT /?restype=service&comp=stats", UnsupportedHttpVerb),
            ("GET /?restype=service&comp=userdelegationkey", UnsupportedHttpVerb),
            ("GET /", InvalidUri),
            ("PUT /", InvalidUri),
            ("GET /?comp=metadata", InvalidUri),
            ("GET /jobs?comp=list", InvalidUri),
            ("GET /jobs?restype=service&comp=properties", InvalidUri),
            ("GET /jobs/messages?comp=metadata", InvalidUri),
            ("PUT /jobs/messages/1?comp=acl", InvalidUri),
            ("GET /jobs/others", InvalidUri),
            ("GET /jobs?comp=other", InvalidQueryParameterValue),
            ("GET /?restype=service", InvalidQueryParameterValue),
            ("GET /?restype=service&comp=list", InvalidQueryParameterValue),
            ("GET /?restype=container&comp=list", InvalidQueryParameterValue),
        ] {
            assert_eq!(classified(line), Err(expected), "{line}");
        }
    }
}
