//! The lines that the signature of a SAS is made over, for each kind, service and version.

use crate::address::Service;
use crate::blob::request::resource::Resource as BlobResource;
use crate::head::Head;
use crate::query::Query;
use crate::queue::request::resource::queue_of;
use crate::version::ServiceVersion;
use Line::{Account, Nothing, P, Resource, Snapshot};

/// One line of the string to sign.
#[derive(Debug, Clone, Copy)]
pub(super) enum Line {
    /// A parameter, decoded and otherwise as given. Empty if it is not given.
    P(&'static str),
    Account,
    Resource,
    /// The snapshot or version of a blob, if the SAS is for one only.
    Snapshot,
    Nothing,
}

/// What a SAS is signed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Account,
    Service,
    /// By a key that was handed out for a user.
    Delegated,
}

#[rustfmt::skip]
mod lines {
    use super::*;

    pub(super) const ACCOUNT_2020: &[Line] =
        &[Account, P("sp"), P("ss"), P("srt"), P("st"), P("se"), P("sip"), P("spr"), P("sv"), P("ses"), Nothing];
    pub(super) const ACCOUNT_2015: &[Line] =
        &[Account, P("sp"), P("ss"), P("srt"), P("st"), P("se"), P("sip"), P("spr"), P("sv"), Nothing];
    pub(super) const TABLE_2015: &[Line] =
        &[P("sp"), P("st"), P("se"), Resource, P("si"), P("sip"), P("spr"), P("sv"),
          P("spk"), P("srk"), P("epk"), P("erk")];
    pub(super) const TABLE_2012: &[Line] =
        &[P("sp"), P("st"), P("se"), Resource, P("si"), P("sv"), P("spk"), P("srk"), P("epk"), P("erk")];
    pub(super) const QUEUE_2015: &[Line] =
        &[P("sp"), P("st"), P("se"), Resource, P("si"), P("sip"), P("spr"), P("sv")];
    pub(super) const QUEUE_2012: &[Line] = &[P("sp"), P("st"), P("se"), Resource, P("si"), P("sv")];
    pub(super) const BLOB_2020: &[Line] =
        &[P("sp"), P("st"), P("se"), Resource, P("si"), P("sip"), P("spr"), P("sv"), P("sr"), Snapshot, P("ses"),
          P("rscc"), P("rscd"), P("rsce"), P("rscl"), P("rsct")];
    pub(super) const BLOB_2018: &[Line] =
        &[P("sp"), P("st"), P("se"), Resource, P("si"), P("sip"), P("spr"), P("sv"), P("sr"), Snapshot,
          P("rscc"), P("rscd"), P("rsce"), P("rscl"), P("rsct")];
    pub(super) const BLOB_2015: &[Line] =
        &[P("sp"), P("st"), P("se"), Resource, P("si"), P("sip"), P("spr"), P("sv"),
          P("rscc"), P("rscd"), P("rsce"), P("rscl"), P("rsct")];
    pub(super) const BLOB_2013: &[Line] =
        &[P("sp"), P("st"), P("se"), Resource, P("si"), P("sv"),
          P("rscc"), P("rscd"), P("rsce"), P("rscl"), P("rsct")];
    pub(super) const BLOB_2012: &[Line] = QUEUE_2012;
    pub(super) const DELEGATED_QUEUE: &[Line] =
        &[P("sp"), P("st"), P("se"), Resource,
          P("skoid"), P("sktid"), P("skt"), P("ske"), P("sks"), P("skv"), P("skdutid"), P("sduoid"),
          P("sip"), P("spr"), P("sv")];
    /// No client makes one yet. The range of keys is where it is in SAS by keys of the account.
    pub(super) const DELEGATED_TABLE: &[Line] =
        &[P("sp"), P("st"), P("se"), Resource,
          P("skoid"), P("sktid"), P("skt"), P("ske"), P("sks"), P("skv"), P("skdutid"), P("sduoid"),
          P("sip"), P("spr"), P("sv"), P("spk"), P("srk"), P("epk"), P("erk")];
    pub(super) const DELEGATED_2018: &[Line] =
        &[P("sp"), P("st"), P("se"), Resource,
          P("skoid"), P("sktid"), P("skt"), P("ske"), P("sks"), P("skv"),
          P("sip"), P("spr"), P("sv"), P("sr"), Snapshot,
          P("rscc"), P("rscd"), P("rsce"), P("rscl"), P("rsct")];
    pub(super) const DELEGATED_2020_02: &[Line] =
        &[P("sp"), P("st"), P("se"), Resource,
          P("skoid"), P("sktid"), P("skt"), P("ske"), P("sks"), P("skv"), P("saoid"), P("suoid"), P("scid"),
          P("sip"), P("spr"), P("sv"), P("sr"), Snapshot,
          P("rscc"), P("rscd"), P("rsce"), P("rscl"), P("rsct")];
    pub(super) const DELEGATED_2020_12: &[Line] =
        &[P("sp"), P("st"), P("se"), Resource,
          P("skoid"), P("sktid"), P("skt"), P("ske"), P("sks"), P("skv"), P("saoid"), P("suoid"), P("scid"),
          P("sip"), P("spr"), P("sv"), P("sr"), Snapshot, P("ses"),
          P("rscc"), P("rscd"), P("rsce"), P("rscl"), P("rsct")];
    pub(super) const DELEGATED_2025: &[Line] =
        &[P("sp"), P("st"), P("se"), Resource,
          P("skoid"), P("sktid"), P("skt"), P("ske"), P("sks"), P("skv"), P("saoid"), P("suoid"), P("scid"),
          P("skdutid"), P("sduoid"), P("sip"), P("spr"), P("sv"), P("sr"), Snapshot, P("ses"),
          P("rscc"), P("rscd"), P("rsce"), P("rscl"), P("rsct")];
    /// With two lines for headers and parameters that a request must have: of those there are none.
    pub(super) const DELEGATED_2026: &[Line] =
        &[P("sp"), P("st"), P("se"), Resource,
          P("skoid"), P("sktid"), P("skt"), P("ske"), P("sks"), P("skv"), P("saoid"), P("suoid"), P("scid"),
          P("skdutid"), P("sduoid"), P("sip"), P("spr"), P("sv"), P("sr"), Snapshot, P("ses"), Nothing, Nothing,
          P("rscc"), P("rscd"), P("rsce"), P("rscl"), P("rsct")];
}

/// The lines of a SAS whose `sv` is the given version. `None` if that version had no such SAS.
pub(super) fn lines(kind: Kind, service: Service, version: ServiceVersion) -> Option<&'static [Line]> {
    if !version.has_sas() {
        return None;
    }
    let ip_and_protocol = version.signs_ip_and_protocol();
    Some(match (kind, service) {
        (Kind::Account, _) if version.signs_encryption_scope() => lines::ACCOUNT_2020,
        (Kind::Account, _) if version.has_account_sas() => lines::ACCOUNT_2015,
        (Kind::Account, _) => return None,
        (Kind::Service, Service::Table) if ip_and_protocol => lines::TABLE_2015,
        (Kind::Service, Service::Table) => lines::TABLE_2012,
        (Kind::Service, Service::Queue) if ip_and_protocol => lines::QUEUE_2015,
        (Kind::Service, Service::Queue) => lines::QUEUE_2012,
        (Kind::Service, Service::Blob) if version.signs_encryption_scope() => lines::BLOB_2020,
        (Kind::Service, Service::Blob) if version.signs_snapshot() => lines::BLOB_2018,
        (Kind::Service, Service::Blob) if ip_and_protocol => lines::BLOB_2015,
        (Kind::Service, Service::Blob) if version.has_json() => lines::BLOB_2013,
        (Kind::Service, Service::Blob) => lines::BLOB_2012,
        (Kind::Delegated, Service::Blob) => return delegated(version),
        (Kind::Delegated, Service::Queue) if version.has_tokens_for_everything() => lines::DELEGATED_QUEUE,
        (Kind::Delegated, Service::Table) if version.has_tokens_for_everything() => lines::DELEGATED_TABLE,
        (Kind::Delegated, Service::Queue | Service::Table) => return None,
    })
}

/// Whether a parameter is a line of its own.
pub(super) fn signs(lines: &[Line], parameter: &str) -> bool {
    lines.iter().any(|line| matches!(line, P(name) if *name == parameter))
}

fn delegated(version: ServiceVersion) -> Option<&'static [Line]> {
    Some(match version {
        _ if version.signs_required_headers() => lines::DELEGATED_2026,
        _ if version.signs_delegated_user() => lines::DELEGATED_2025,
        _ if version.signs_encryption_scope() => lines::DELEGATED_2020_12,
        _ if version.signs_authorized_ids() => lines::DELEGATED_2020_02,
        _ if version.signs_snapshot() => lines::DELEGATED_2018,
        _ => return None,
    })
}

/// The string to sign. Lines are joined, not ended, by a line feed.
pub(super) fn text(lines: &[Line], query: &Query, account: &str, resource: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            out.push(b'\n');
        }
        let text = match line {
            P(name) => query.get(name),
            Account => Some(account),
            Resource => Some(resource),
            Snapshot => match query.get("sr") {
                // In any case, as the operation reads them: what is signed is what is asked for.
                Some("bs") => query.get_ignore_case("snapshot"),
                Some("bv") => query.get_ignore_case("versionid"),
                _ => None,
            },
            Nothing => None,
        };
        out.extend_from_slice(text.unwrap_or_default().as_bytes());
    }
    out
}

/// The resource that a service SAS is signed for, as of the given version. `None` if the request does
/// not say which.
pub(super) fn resource(head: &Head<'_>, version: ServiceVersion) -> Option<String> {
    let path = &head.target.path;
    let name = match head.service {
        // Fidelity: table names are signed in lower case. scenario: sas-table-name-in-any-case
        Service::Table => head.query.get("tn")?.to_lowercase(),
        Service::Queue => queue_of(path)?.into_owned(),
        Service::Blob => blob_resource(head)?,
    };
    if name.is_empty() {
        return None;
    }
    Some(canonical_resource(head.service, &head.target.account, &name, version))
}

/// What is in a service, as it is signed as of the given version.
pub(super) fn canonical_resource(
    service: Service,
    account: &str,
    name: &str,
    version: ServiceVersion,
) -> String {
    match version.signs_service_name() {
        true => format!("/{}/{account}/{name}", service.name()),
        false => format!("/{account}/{name}"),
    }
}

fn blob_resource(head: &Head<'_>) -> Option<String> {
    let resource = BlobResource::parse(&head.target.path, head.query).ok()?;
    match (head.query.get("sr")?, resource) {
        ("c", resource) => resource.container().map(str::to_owned),
        ("b" | "bs" | "bv", BlobResource::Blob(container, blob)) => Some(format!("{container}/{blob}")),
        ("d", BlobResource::Blob(container, blob)) => {
            let depth = head.query.get("sdd")?.parse().ok()?;
            let directory: Vec<&str> = blob.split('/').take(depth).collect();
            Some(format!("{container}/{}", directory.join("/")))
        }
        _ => None,
    }
}
