//! Shared access signatures: what someone with a key has allowed someone without.

use super::Verifier;
use super::delegation_key::Delegation;
use super::sas_string_to_sign::{self, Kind};
use super::signing_keys::{Signature, SigningKeys};
use super::token::TokenText;
use crate::address::Service;
use crate::blob::request::resource::Resource;
use crate::head::Head;
use crate::query::Query;
use crate::queue::request::resource::queue_of;
use crate::version::ServiceVersion;
use std::net::IpAddr;
use std::time::Duration;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::grant::{AccountRoles, BlobReach, Delegator, Grant, KeyBounds};
use tepui_model::permissions::{Permissions, ResourceTypes, Services};
use tepui_model::role::AssignedRoles;
use tepui_model::{AuthFailure, ErrorCode, ServiceError, Timestamp};

/// A SAS whose signature is good.
#[derive(Debug)]
pub struct SasToken {
    reach: Reach,
    permissions: Option<Permissions>,
    start: Option<Timestamp>,
    expiry: Option<Timestamp>,
    addresses: Option<(IpAddr, IpAddr)>,
    https_only: bool,
    policy_id: Option<String>,
    /// `None`: it is signed with a key of the account.
    delegated: Option<Box<Delegated>>,
}

/// What a SAS says that is signed with the key of a user.
#[derive(Debug)]
struct Delegated {
    /// From when and until when the key is good.
    key_times: (Timestamp, Timestamp),
    /// Without roles: they are looked up when it is used.
    delegator: Delegator,
    required_user: Option<RequiredUser>,
    /// What came with it.
    bearer: Option<TokenText>,
}

/// The only user for whom a SAS is good: a token of theirs must come with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredUser {
    pub object_id: String,
    pub tenant_id: String,
}

impl RequiredUser {
    /// Whether this is who it was made for. GUIDs are the same in any case.
    pub fn is(&self, object_id: &str, tenant_id: &str) -> bool {
        self.object_id.eq_ignore_ascii_case(object_id) && self.tenant_id.eq_ignore_ascii_case(tenant_id)
    }

    /// The answer to everybody else.
    pub fn refusal(&self) -> ServiceError {
        failed("The SAS is good only together with a bearer token of the user that sduoid names.")
    }
}

#[derive(Debug)]
enum Reach {
    Account {
        services: Services,
        resource_types: ResourceTypes,
    },
    Table {
        name: String,
        bounds: KeyBounds,
        modern_errors: bool,
    },
    Queue {
        name: String,
        modern_errors: bool,
    },
    /// A SAS for a container or for what is in it.
    Blob {
        container: String,
        reach: BlobReach,
        modern_errors: bool,
    },
}

/// How early a SAS is good: the clock of whoever made it may be ahead.
const START_TOLERANCE: Duration = Duration::from_secs(5);

/// Fidelity: none of these may be there twice. scenario: sas-parameter-twice
#[rustfmt::skip]
const PARAMETERS: [&str; 38] = [
    "sv", "ss", "srt", "sp", "st", "se", "sip", "spr", "si", "sr", "tn", "spk", "srk", "epk", "erk", "sig",
    "ses", "rscc", "rscd", "rsce", "rscl", "rsct", "sdd", "skoid", "sktid", "skt", "ske", "sks", "skv", "saoid",
    "suoid", "scid", "sduoid", "skdutid", "srh", "srq", "snapshot", "versionid",
];

/// The version of the SAS of a head, if it has one: what [`crate::version::negotiate`] asks for.
pub fn sas_version(query: &Query) -> Option<ServiceVersion> {
    query.get("sig")?;
    ServiceVersion::floor(query.get("sv")?)
}

/// Reads the SAS of a request and checks its signature.
pub(super) fn authenticate(head: &Head<'_>, keys: &SigningKeys) -> Result<SasToken, ServiceError> {
    let query = head.query;
    if let Some(name) = PARAMETERS.iter().find(|name| query.count(name) > 1) {
        return Err(failed(format!("{name} is given more than once")));
    }
    // Each of them is a line of what is signed.
    let has_line_feed = |name: &&&str| query.get(name).is_some_and(|value| value.contains('\n'));
    if let Some(name) = PARAMETERS.iter().find(has_line_feed) {
        return Err(failed(format!("{name} has a line feed")));
    }
    let kind = match () {
        _ if query.get("ss").is_some() || query.get("srt").is_some() => Kind::Account,
        _ if query.get("skoid").is_some() => Kind::Delegated,
        _ => Kind::Service,
    };
    if kind == Kind::Delegated && given(query, "sks") != Some(service_letter(head.service)) {
        return Err(failed("the key is for another service"));
    }
    if kind == Kind::Delegated && (given(query, "srh").is_some() || given(query, "srq").is_some()) {
        // What would have to be compared with the request is not known well enough to be trusted.
        return Err(failed("signed request headers and parameters are not accepted"));
    }
    let version = sas_version(query).ok_or_else(|| failed("sv is mandatory and must be a version"))?;
    let lines = sas_string_to_sign::lines(kind, head.service, version)
        .ok_or_else(|| failed("this version has no such SAS"))?;
    // What restricts a SAS must be signed: who leaves it out would have more rights.
    let is_foreign = |name: &&&str| given(query, name).is_some() && !sas_string_to_sign::signs(lines, name);
    if kind == Kind::Delegated
        && let Some(name) = ["saoid", "suoid", "skdutid", "sduoid"].iter().find(is_foreign)
    {
        return Err(failed(format!("{name} is not of this version and service")));
    }
    let resource = match kind {
        Kind::Account => String::new(),
        Kind::Service | Kind::Delegated => sas_string_to_sign::resource(head, version)
            .ok_or_else(|| failed("the SAS does not say what it is for"))?,
    };
    // A plus that was not escaped has been read as a blank.
    let signature = given(query, "sig").unwrap_or_default().replace(' ', "+");
    let signature =
        Signature::decode(signature.as_bytes()).map_err(|_| failed("Signature size is invalid"))?;
    let text = sas_string_to_sign::text(lines, query, &head.target.account, &resource);
    let verified = match kind {
        Kind::Account | Kind::Service => keys.verify(&signature, &text),
        Kind::Delegated => keys.verify_delegated(&signature, &delegation(head), &text),
    };
    if !verified {
        let text = super::told(&text);
        return Err(failed(format!("Signature did not match. String to sign used was {text}"))
            .with_cause("the signature of the SAS does not match")
            .with_auth_failure(AuthFailure::Signature));
    }
    read(head, kind, version)
}

/// A fault of the token.
fn failed(detail: impl Into<String>) -> ServiceError {
    super::failed(detail).with_auth_failure(AuthFailure::Sas)
}

/// The key that a user was given, as the SAS tells it.
fn delegation<'a>(head: &Head<'a>) -> Delegation<'a> {
    let said = |name| head.query.get(name).unwrap_or_default();
    Delegation {
        account: &head.target.account,
        object_id: said("skoid"),
        tenant_id: said("sktid"),
        start: said("skt"),
        expiry: said("ske"),
        service: said("sks"),
        version: said("skv"),
        delegated_tenant: said("skdutid"),
    }
}

/// As in `sks`, and in the answer to whoever asks for a key.
pub fn service_letter(service: Service) -> &'static str {
    match service {
        Service::Table => "t",
        Service::Queue => "q",
        Service::Blob => "b",
    }
}

/// The value of a parameter. An empty one counts as absent: the signature does not tell them apart.
fn given<'a>(query: &'a Query, name: &str) -> Option<&'a str> {
    query.get(name).filter(|value| !value.is_empty())
}

fn mandatory(name: &str) -> ServiceError {
    failed(format!("{name} is mandatory. Cannot be empty"))
}

fn read(head: &Head<'_>, kind: Kind, version: ServiceVersion) -> Result<SasToken, ServiceError> {
    let query = head.query;
    let owned = |name: &str| given(query, name).map(str::to_owned);
    let reach = match (kind, head.service) {
        (Kind::Account, _) => Reach::Account {
            services: given(query, "ss").map(Services::parse).ok_or_else(|| mandatory("ss"))?,
            resource_types: given(query, "srt").map(ResourceTypes::parse).ok_or_else(|| mandatory("srt"))?,
        },
        (Kind::Service | Kind::Delegated, Service::Table) => Reach::Table {
            name: owned("tn").ok_or_else(|| mandatory("tn"))?,
            bounds: bounds(query)?,
            modern_errors: version.has_sas_mismatch_errors(),
        },
        // The path says which queue, and the signature covers that.
        (Kind::Service | Kind::Delegated, Service::Queue) => Reach::Queue {
            name: queue_of(&head.target.path)
                .ok_or_else(|| failed("the SAS does not say what it is for"))?
                .into_owned(),
            modern_errors: version.has_sas_mismatch_errors(),
        },
        (Kind::Service | Kind::Delegated, Service::Blob) => blob_reach(head, version)?,
    };
    let time = |name: &str| match given(query, name) {
        Some(text) => {
            Timestamp::parse_iso(text).map(Some).ok_or_else(|| failed(format!("{name} is not a time")))
        }
        None => Ok(None),
    };
    let restricts = version.signs_ip_and_protocol();
    Ok(SasToken {
        reach,
        permissions: given(query, "sp").map(Permissions::parse),
        start: time("st")?,
        expiry: time("se")?,
        addresses: given(query, "sip").filter(|_| restricts).map(parse_addresses).transpose()?,
        https_only: given(query, "spr")
            .filter(|_| restricts)
            .map(parse_protocols)
            .transpose()?
            .unwrap_or(false),
        policy_id: owned("si").filter(|_| kind == Kind::Service),
        delegated: match kind {
            Kind::Delegated => {
                let start = time("skt")?.ok_or_else(|| mandatory("skt"))?;
                let expiry = time("ske")?.ok_or_else(|| mandatory("ske"))?;
                Some(Box::new(delegated(head, (start, expiry))?))
            }
            Kind::Account | Kind::Service => None,
        },
    })
}

/// Who has signed a SAS with their own key, and for whom.
fn delegated(head: &Head<'_>, key_times: (Timestamp, Timestamp)) -> Result<Delegated, ServiceError> {
    let query = head.query;
    let owned = |name: &str| given(query, name).map(str::to_owned);
    if given(query, "si").is_some() {
        let error = ServiceError::new(ErrorCode::AuthorizationFailure);
        return Err(error.with_cause("a user delegation SAS has no stored access policy"));
    }
    if given(query, "suoid").is_some() {
        return Err(failed("suoid is for accounts with a hierarchical namespace"));
    }
    let object_id = owned("skoid").ok_or_else(|| mandatory("skoid"))?;
    let tenant_id = owned("sktid").ok_or_else(|| mandatory("sktid"))?;
    let required_user = owned("sduoid").map(|object_id| RequiredUser {
        object_id,
        tenant_id: owned("skdutid").unwrap_or_else(|| tenant_id.clone()),
    });
    let account = head.target.account.clone();
    let roles = AccountRoles { account, assigned: AssignedRoles::default() };
    let delegator = Delegator { object_id, tenant_id, authorized_object_id: owned("saoid"), roles };
    Ok(Delegated { key_times, delegator, required_user, bearer: None })
}

/// A SAS by the key of a user is good as long as the key is, and cannot claim more.
fn check_key_times(
    (key_start, key_expiry): (Timestamp, Timestamp),
    start: Option<Timestamp>,
    expiry: Timestamp,
    now: Timestamp,
) -> Result<(), ServiceError> {
    let is_good = key_start <= now.saturating_add(START_TOLERANCE) && key_expiry > now;
    let is_within = start.is_none_or(|start| start >= key_start) && expiry <= key_expiry;
    if is_good && is_within {
        return Ok(());
    }
    Err(failed(format!(
        "Signature not valid in the specified key time frame: Key start [{}] - Key expiry [{}] - Current [{}]",
        key_start.to_http(),
        key_expiry.to_http(),
        now.to_http()
    ))
    .with_auth_failure(AuthFailure::Time))
}

/// The path and the signature say what it is for; `sr` says how much of that.
fn blob_reach(head: &Head<'_>, version: ServiceVersion) -> Result<Reach, ServiceError> {
    let unclear = || failed("the SAS does not say what it is for");
    let resource = Resource::parse(&head.target.path, head.query).map_err(|_| unclear())?;
    let names = |what| head.query.get_ignore_case(what).is_some_and(|value| !value.is_empty());
    let reach = match given(head.query, "sr") {
        Some("c") => BlobReach::Container,
        Some("b") => BlobReach::Blob,
        Some("bs") if version.signs_snapshot() && names("snapshot") => BlobReach::Snapshot,
        Some("bv") if version.has_tags_and_versions() && names("versionid") => BlobReach::Version,
        Some("d") if version.signs_authorized_ids() => BlobReach::Directory,
        _ => return Err(unclear()),
    };
    Ok(Reach::Blob {
        container: resource.container().ok_or_else(unclear)?.to_owned(),
        reach,
        modern_errors: version.has_sas_mismatch_errors(),
    })
}

fn bounds(query: &Query) -> Result<KeyBounds, ServiceError> {
    let owned = |name: &str| given(query, name).map(str::to_owned);
    let bounds = KeyBounds {
        start_partition: owned("spk"),
        start_row: owned("srk"),
        end_partition: owned("epk"),
        end_row: owned("erk"),
    };
    let row_alone = (bounds.start_partition.is_none() && bounds.start_row.is_some())
        || (bounds.end_partition.is_none() && bounds.end_row.is_some());
    if row_alone { Err(failed("a row key needs its partition key")) } else { Ok(bounds) }
}

/// One address, or the first and the last of a range.
fn parse_addresses(text: &str) -> Result<(IpAddr, IpAddr), ServiceError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) => Ok((first, last)),
        _ => Err(failed("sip is not an address or a range")),
    }
}

/// Whether only HTTPS will do.
fn parse_protocols(text: &str) -> Result<bool, ServiceError> {
    match text {
        "https" => Ok(true),
        "https,http" | "http,https" => Ok(false),
        _ => Err(failed("spr is neither https nor https,http")),
    }
}

impl SasToken {
    /// The stored access policy that it refers to.
    pub fn policy_id(&self) -> Option<&str> {
        self.policy_id.as_deref()
    }

    /// The table that it is for, as its maker wrote it: where the policy is stored.
    pub fn table(&self) -> Option<&str> {
        match &self.reach {
            Reach::Table { name, .. } => Some(name),
            Reach::Account { .. } | Reach::Queue { .. } | Reach::Blob { .. } => None,
        }
    }

    /// The queue that it is for, as the request spells it: where the policy is stored.
    pub fn queue(&self) -> Option<&str> {
        match &self.reach {
            Reach::Queue { name, .. } => Some(name),
            Reach::Account { .. } | Reach::Table { .. } | Reach::Blob { .. } => None,
        }
    }

    /// The container that it is for or in, as the request spells it: where the policy is stored.
    pub fn container(&self) -> Option<&str> {
        match &self.reach {
            Reach::Blob { container, .. } => Some(container),
            Reach::Account { .. } | Reach::Table { .. } | Reach::Queue { .. } => None,
        }
    }

    /// The object id and the tenant of who has signed it with their own key, if somebody has.
    pub fn delegator_id(&self) -> Option<(&str, &str)> {
        let delegator = &self.delegated.as_ref()?.delegator;
        Some((&delegator.object_id, &delegator.tenant_id))
    }

    /// For whom alone it is good, if it is so. Whoever resolves it must verify [`SasToken::bearer`] first.
    pub fn required_user(&self) -> Option<&RequiredUser> {
        self.delegated.as_ref()?.required_user.as_ref()
    }

    /// The token that came with it, if it is good only for one user.
    pub fn bearer(&self) -> Option<&TokenText> {
        self.delegated.as_ref()?.bearer.as_ref()
    }

    pub(super) fn set_bearer(&mut self, token: TokenText) {
        if let Some(delegated) = &mut self.delegated {
            delegated.bearer = Some(token);
        }
    }

    /// What the token allows now and to this caller, given the policy that it refers to. One by the key of a user allows
    /// nothing until their roles are known: see [`Grant::set_delegator_roles`].
    pub fn resolve(
        mut self,
        policy: Option<&SignedIdentifier>,
        verifier: &Verifier<'_>,
    ) -> Result<Grant, ServiceError> {
        self.merge(policy)?;
        let permissions = self.permissions.ok_or_else(|| mandatory("sp"))?;
        self.check_lifetime(verifier.now)?;
        self.check_caller(verifier)?;
        let delegator = self.delegated.map(|delegated| Box::new(delegated.delegator));
        match self.reach {
            Reach::Account { services, resource_types } => {
                Ok(Grant::AccountSas { services, resource_types, permissions })
            }
            Reach::Table { name, bounds, modern_errors } => {
                Ok(Grant::TableSas { table: name, permissions, bounds, modern_errors, delegator })
            }
            Reach::Queue { name, modern_errors } => {
                Ok(Grant::QueueSas { queue: name, permissions, modern_errors, delegator })
            }
            Reach::Blob { container, reach, modern_errors } => {
                Ok(Grant::BlobSas { container, reach, permissions, modern_errors, delegator })
            }
        }
    }

    /// Takes from the policy what the token leaves open. Nothing may be said by both.
    fn merge(&mut self, policy: Option<&SignedIdentifier>) -> Result<(), ServiceError> {
        let Some(id) = &self.policy_id else { return Ok(()) };
        let identifier = policy.filter(|policy| policy.id == *id).ok_or_else(|| failed("no such policy"))?;
        let Some(policy) = &identifier.policy else { return Ok(()) };
        // An empty permission is none.
        let permission = policy.permission.as_deref().filter(|letters| !letters.is_empty());
        let said_twice = (self.start.is_some() && policy.start.is_some())
            || (self.expiry.is_some() && policy.expiry.is_some())
            || (self.permissions.is_some() && permission.is_some());
        if said_twice {
            return Err(failed(
                "Access policy fields can be associated with signature or SAS identifier but not both",
            ));
        }
        self.start = self.start.or(policy.start);
        self.expiry = self.expiry.or(policy.expiry);
        self.permissions = self.permissions.or_else(|| permission.map(Permissions::parse));
        Ok(())
    }

    fn check_lifetime(&self, now: Timestamp) -> Result<(), ServiceError> {
        let expiry = self.expiry.ok_or_else(|| mandatory("se"))?;
        let start = self.start.unwrap_or(Timestamp::MIN);
        if expiry <= start {
            return Err(failed(format!(
                "Signed expiry time [{}] must be after signed start time [{}]",
                expiry.to_http(),
                start.to_http()
            )));
        }
        if start > now.saturating_add(START_TOLERANCE) || expiry <= now {
            return Err(failed(format!(
                "Signature not valid in the specified time frame: Start [{}] - Expiry [{}] - Current [{}]",
                self.start.map(Timestamp::to_http).unwrap_or_default(),
                expiry.to_http(),
                now.to_http()
            ))
            .with_auth_failure(AuthFailure::Time));
        }
        match &self.delegated {
            Some(delegated) => check_key_times(delegated.key_times, self.start, expiry, now),
            None => Ok(()),
        }
    }

    fn check_caller(&self, verifier: &Verifier<'_>) -> Result<(), ServiceError> {
        let peer = verifier.peer_ip.to_canonical();
        if self.addresses.is_some_and(|(first, last)| !(first..=last).contains(&peer)) {
            return Err(ServiceError::new(ErrorCode::AuthorizationSourceIPMismatch).with_message(format!(
                "This request is not authorized to perform this operation using this source IP {peer}."
            )));
        }
        if self.https_only && !verifier.secure {
            return Err(ErrorCode::AuthorizationProtocolMismatch.into());
        }
        Ok(())
    }
}
