//! Operations as analytics names them, and the classes by which logging is switched on.

use crate::pipeline::{FinishedExchange, OperationKind};
use hyper::http::Method;
use tepui_model::{blob, queue};
use tepui_wire::address::Service;
use tepui_wire::query::Query;

/// What is logged is chosen by these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    Read,
    Write,
    Delete,
}

/// The name of an operation that was refused before it was known.
pub(crate) const UNKNOWN: &str = "Unknown";

/// The name of the operation in logs and metrics. Unlike [`OperationKind::name`] it has the verb of a lease, tells one message
/// from several, and has no names that Azure's list has not, where another fits.
pub(crate) fn name(exchange: &FinishedExchange) -> &'static str {
    let Some(operation) = exchange.operation else {
        return match exchange.service {
            _ if exchange.request.method != Method::OPTIONS => UNKNOWN,
            Service::Blob => "BlobPreflightRequest",
            Service::Queue => "QueuePreflightRequest",
            Service::Table => "TablePreflightRequest",
        };
    };
    match operation {
        OperationKind::Blob(kind) => match kind {
            blob::OperationKind::LeaseBlob => lease(exchange, &BLOB_LEASES),
            blob::OperationKind::LeaseContainer => lease(exchange, &CONTAINER_LEASES),
            blob::OperationKind::DeleteBlobVersion | blob::OperationKind::DeleteBlobPermanently => {
                "DeleteBlob"
            }
            blob::OperationKind::FindBlobsByTagsInContainer => "FindBlobsByTags",
            blob::OperationKind::GetPageRangesDiff => "GetPageRanges",
            blob::OperationKind::ContainerBatch => "BlobBatch",
            _ => operation.name(),
        },
        OperationKind::Queue(queue::OperationKind::GetMessages) if !asks_for_several(exchange) => {
            "GetMessage"
        }
        OperationKind::Queue(queue::OperationKind::PeekMessages) if !asks_for_several(exchange) => {
            "PeekMessage"
        }
        OperationKind::Queue(_) | OperationKind::Table(_) => operation.name(),
    }
}

type Leases = [(&'static str, &'static str); 5];

const BLOB_LEASES: Leases = [
    ("acquire", "AcquireBlobLease"),
    ("renew", "RenewBlobLease"),
    ("change", "ChangeBlobLease"),
    ("release", "ReleaseBlobLease"),
    ("break", "BreakBlobLease"),
];
const CONTAINER_LEASES: Leases = [
    ("acquire", "AcquireContainerLease"),
    ("renew", "RenewContainerLease"),
    ("change", "ChangeContainerLease"),
    ("release", "ReleaseContainerLease"),
    ("break", "BreakContainerLease"),
];

fn lease(exchange: &FinishedExchange, names: &Leases) -> &'static str {
    let action = exchange.request.headers.get("x-ms-lease-action").map_or(&b""[..], |value| value.as_bytes());
    let found = names.iter().find(|(verb, _)| verb.as_bytes().eq_ignore_ascii_case(action));
    found.map_or(UNKNOWN, |(_, name)| name)
}

fn asks_for_several(exchange: &FinishedExchange) -> bool {
    let query = Query::parse(exchange.request.uri.query());
    query
        .get_ignore_case("numofmessages")
        .and_then(|text| text.parse().ok())
        .is_some_and(|count: u32| count > 1)
}

/// The class of the operation, by its name. Getting messages is a read if there were none: then nothing was changed.
pub(crate) fn class(exchange: &FinishedExchange) -> Class {
    let name = name(exchange);
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    match exchange.operation {
        Some(OperationKind::Queue(queue::OperationKind::GetMessages)) => {
            match exchange.cost.is_some_and(|cost| cost.returned > 0) {
                true => Class::Write,
                false => Class::Read,
            }
        }
        Some(_) if begins(&["Get", "List", "Query", "Peek", "Find"]) => Class::Read,
        Some(_) if begins(&["Delete", "ClearMessages"]) => Class::Delete,
        Some(_) => Class::Write,
        None => match exchange.request.method {
            Method::GET | Method::HEAD | Method::OPTIONS => Class::Read,
            Method::DELETE => Class::Delete,
            _ => Class::Write,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_model::cost::Cost;
    use tepui_model::table;

    #[test]
    fn names_and_classes() {
        use OperationKind::{Blob, Queue, Table};
        use blob::OperationKind as B;
        use queue::OperationKind as Q;
        let leased = |action| [("x-ms-lease-action", action)];
        for (operation, url, headers, returned, name_expected, class_expected) in [
            (
                Some(Blob(B::LeaseBlob)),
                "/a/c/b?comp=lease",
                &leased("acquire")[..],
                0,
                "AcquireBlobLease",
                Class::Write,
            ),
            (
                Some(Blob(B::LeaseBlob)),
                "/a/c/b?comp=lease",
                &leased("Renew"),
                0,
                "RenewBlobLease",
                Class::Write,
            ),
            (
                Some(Blob(B::BreakBlobLease)),
                "/a/c/b?comp=lease",
                &leased("break"),
                0,
                "BreakBlobLease",
                Class::Write,
            ),
            (
                Some(Blob(B::LeaseContainer)),
                "/a/c?comp=lease",
                &leased("change"),
                0,
                "ChangeContainerLease",
                Class::Write,
            ),
            (Some(Blob(B::LeaseContainer)), "/a/c?comp=lease", &leased("what"), 0, "Unknown", Class::Write),
            (Some(Blob(B::CopyBlob)), "/a/c/b", &[], 0, "CopyBlob", Class::Write),
            (Some(Blob(B::DeleteBlobVersion)), "/a/c/b", &[], 0, "DeleteBlob", Class::Delete),
            (Some(Blob(B::GetBlob)), "/a/c/b", &[], 0, "GetBlob", Class::Read),
            (Some(Blob(B::UndeleteBlob)), "/a/c/b", &[], 0, "UndeleteBlob", Class::Write),
            (Some(Blob(B::QueryBlobContents)), "/a/c/b", &[], 0, "QueryBlobContents", Class::Read),
            (Some(Queue(Q::GetMessages)), "/a/q/messages", &[], 0, "GetMessage", Class::Read),
            (
                Some(Queue(Q::GetMessages)),
                "/a/q/messages?numofmessages=1",
                &[],
                1,
                "GetMessage",
                Class::Write,
            ),
            (
                Some(Queue(Q::GetMessages)),
                "/a/q/messages?numofmessages=32",
                &[],
                1,
                "GetMessages",
                Class::Write,
            ),
            (Some(Queue(Q::PeekMessages)), "/a/q/messages?peekonly=true", &[], 1, "PeekMessage", Class::Read),
            (
                Some(Queue(Q::PeekMessages)),
                "/a/q/messages?numofmessages=2",
                &[],
                1,
                "PeekMessages",
                Class::Read,
            ),
            (Some(Queue(Q::ClearMessages)), "/a/q/messages", &[], 0, "ClearMessages", Class::Delete),
            (
                Some(Table(table::OperationKind::EntityGroupTransaction)),
                "/a/$batch",
                &[],
                0,
                "EntityGroupTransaction",
                Class::Write,
            ),
            (
                Some(Table(table::OperationKind::GetTable)),
                "/a/Tables('T')",
                &[],
                0,
                "QueryTable",
                Class::Read,
            ),
            (None, "/a/c/b", &[], 0, "Unknown", Class::Read),
        ] {
            let mut exchange = FinishedExchange::example("GET", url, headers);
            exchange.operation = operation;
            exchange.cost = Some(Cost { returned, ..Cost::default() });
            let found = (name(&exchange), class(&exchange));
            assert_eq!(found, (name_expected, class_expected), "{operation:?} {url}");
        }
        for (method, expected) in [("PUT", Class::Write), ("DELETE", Class::Delete), ("HEAD", Class::Read)] {
            assert_eq!(class(&FinishedExchange::example(method, "/a/c", &[])), expected, "{method}");
        }
        let preflight = FinishedExchange::example("OPTIONS", "/a/T", &[]);
        assert_eq!((name(&preflight), class(&preflight)), ("TablePreflightRequest", Class::Read));
    }
}
