//! Signatures for clients, made of the texts that [`super::Verifier`] checks: of requests, and of tokens for others.

use super::InvalidKey;
use super::sas_string_to_sign::{self, Kind};
use super::shared_key::Scheme;
use super::shared_key_string_to_sign::{self, Blanks};
use super::signing_keys::SigningKeys;
use crate::address::Service;
use crate::head::Head;
use crate::percent;
use crate::query::Query;
use crate::version::ServiceVersion;
use std::net::IpAddr;
use tepui_model::Timestamp;
use tepui_model::account::{Account, AccountKey};
use tepui_model::blob::HttpProperties;
use tepui_model::grant::KeyBounds;
use tepui_model::permissions::{Permissions, ResourceTypes, Services};

/// Signs with the key of an account.
#[derive(Debug, Clone)]
pub struct Signer {
    account: String,
    keys: SigningKeys,
}

/// What an account SAS allows.
#[derive(Debug, Clone)]
pub struct AccountSas {
    pub services: Services,
    pub resource_types: ResourceTypes,
    pub permissions: Permissions,
    pub limits: SasLimits,
}

/// What a SAS for one table, queue, container or blob allows. What it leaves out a stored access policy must say.
#[derive(Debug, Clone)]
pub struct ServiceSas<'a> {
    pub resource: SasResource<'a>,
    pub permissions: Permissions,
    /// The id of a stored access policy.
    pub policy_id: Option<&'a str>,
    pub limits: SasLimits,
}

/// When, from where and how a SAS can be used.
#[derive(Debug, Clone)]
pub struct SasLimits {
    pub version: ServiceVersion,
    pub start: Option<Timestamp>,
    pub expiry: Option<Timestamp>,
    /// The first and the last address of a range.
    pub addresses: Option<(IpAddr, IpAddr)>,
    pub https_only: bool,
}

impl SasLimits {
    pub fn until(expiry: Timestamp) -> Self {
        Self {
            version: ServiceVersion::NEWEST,
            start: None,
            expiry: Some(expiry),
            addresses: None,
            https_only: false,
        }
    }
}

/// What a service SAS is for.
#[derive(Debug, Clone, Copy)]
pub enum SasResource<'a> {
    Table {
        name: &'a str,
        bounds: &'a KeyBounds,
    },
    Queue {
        name: &'a str,
    },
    /// `says`: what reads say instead of what is stored.
    Container {
        name: &'a str,
        says: &'a HttpProperties,
    },
    Blob {
        container: &'a str,
        name: &'a str,
        says: &'a HttpProperties,
    },
    /// `moment`: as the parameter `snapshot` of the request has it.
    Snapshot {
        container: &'a str,
        name: &'a str,
        moment: &'a str,
        says: &'a HttpProperties,
    },
}

/// The orders in which Azure expects permissions to be written.
const ORDER_OF_ACCOUNT: &str = "rwdxylacuptfi";
const ORDER_OF_SERVICE: &str = "raucwdxyltfmeopi";

/// The parameters of a token.
type Pairs = Vec<(&'static str, String)>;

impl Signer {
    pub fn new(account: &str, key: AccountKey) -> Result<Self, InvalidKey> {
        let keys = SigningKeys::new(&Account { name: account.to_owned(), keys: vec![key] });
        keys.sign(b"").ok_or(InvalidKey)?;
        Ok(Self { account: account.to_owned(), keys })
    }

    /// The value of `Authorization` for a request. It is for the request as it is: the headers that are signed must
    /// be there already, first of all `x-ms-date` or `Date`, and `x-ms-version`.
    pub fn authorization(&self, head: &Head<'_>, scheme: Scheme) -> String {
        let text = shared_key_string_to_sign::text(head, scheme, &head.target.raw_path, Blanks::AsSent);
        [scheme.name(), " ", &self.account, ":", &self.sign(&text)].concat()
    }

    /// An account SAS, as it stands in a query string. `None` if its version had no such SAS.
    pub fn account_sas(&self, sas: &AccountSas) -> Option<String> {
        let AccountSas { services, resource_types, permissions, limits } = sas;
        let mut pairs = limits.pairs();
        pairs.push(("ss", services.in_order("bqtf")));
        pairs.push(("srt", resource_types.in_order("sco")));
        pairs.push(("sp", permissions.in_order(ORDER_OF_ACCOUNT)));
        // The lines of an account SAS are the same for all services.
        self.token(Kind::Account, Service::Table, limits.version, pairs, None, "")
    }

    /// A service SAS, as it stands in a query string. `None` if its version had no such SAS.
    pub fn service_sas(&self, sas: &ServiceSas<'_>) -> Option<String> {
        let ServiceSas { resource, permissions, policy_id, limits } = sas;
        let mut pairs = limits.pairs();
        if !permissions.is_empty() {
            pairs.push(("sp", permissions.in_order(ORDER_OF_SERVICE)));
        }
        pairs.extend(policy_id.map(|id| ("si", id.to_owned())));
        let (service, name, moment) = match *resource {
            SasResource::Table { name, bounds } => {
                pairs.push(("tn", name.to_owned()));
                for (parameter, key) in [
                    ("spk", &bounds.start_partition),
                    ("srk", &bounds.start_row),
                    ("epk", &bounds.end_partition),
                    ("erk", &bounds.end_row),
                ] {
                    pairs.extend(key.clone().map(|key| (parameter, key)));
                }
                (Service::Table, name.to_lowercase(), None)
            }
            SasResource::Queue { name } => (Service::Queue, name.to_owned(), None),
            SasResource::Container { name, says } => {
                push_blob(&mut pairs, "c", says);
                (Service::Blob, name.to_owned(), None)
            }
            SasResource::Blob { container, name, says } => {
                push_blob(&mut pairs, "b", says);
                (Service::Blob, format!("{container}/{name}"), None)
            }
            SasResource::Snapshot { container, name, moment, says } => {
                push_blob(&mut pairs, "bs", says);
                (Service::Blob, format!("{container}/{name}"), Some(moment))
            }
        };
        let resource = sas_string_to_sign::canonical_resource(service, &self.account, &name, limits.version);
        self.token(Kind::Service, service, limits.version, pairs, moment, &resource)
    }

    /// `moment` is signed, but it is the request that has it.
    fn token(
        &self,
        kind: Kind,
        service: Service,
        version: ServiceVersion,
        pairs: Pairs,
        moment: Option<&str>,
        resource: &str,
    ) -> Option<String> {
        let lines = sas_string_to_sign::lines(kind, service, version)?;
        let mut token = String::with_capacity(256);
        for (name, value) in pairs {
            push_pair(&mut token, name, &value);
        }
        let mut signed = token.clone();
        if let Some(moment) = moment {
            push_pair(&mut signed, "snapshot", moment);
        }
        let text = sas_string_to_sign::text(lines, &Query::parse(Some(&signed)), &self.account, resource);
        push_pair(&mut token, "sig", &self.sign(&text));
        Some(token)
    }

    fn sign(&self, text: &[u8]) -> String {
        // There is a key: see `new`.
        self.keys.sign(text).unwrap_or_default()
    }
}

impl SasLimits {
    fn pairs(&self) -> Pairs {
        let Self { version, start, expiry, addresses, https_only } = self;
        let mut pairs = vec![("sv", version.text().to_owned())];
        pairs.extend(start.map(|start| ("st", seconds(start))));
        pairs.extend(expiry.map(|expiry| ("se", seconds(expiry))));
        if version.signs_ip_and_protocol() {
            pairs.extend(addresses.map(|(first, last)| match first == last {
                true => ("sip", first.to_string()),
                false => ("sip", format!("{first}-{last}")),
            }));
            pairs.push(("spr", if *https_only { "https" } else { "https,http" }.to_owned()));
        }
        pairs
    }
}

/// Azure takes times with no fraction of a second, or with seven digits of it.
fn seconds(time: Timestamp) -> String {
    let text = time.to_iso_7();
    format!("{}Z", text.get(..19).unwrap_or(&text))
}

fn push_blob(pairs: &mut Pairs, resource: &str, says: &HttpProperties) {
    pairs.push(("sr", resource.to_owned()));
    for (name, value) in [
        ("rscc", &says.cache_control),
        ("rscd", &says.content_disposition),
        ("rsce", &says.content_encoding),
        ("rscl", &says.content_language),
        ("rsct", &says.content_type),
    ] {
        pairs.extend(value.clone().map(|value| (name, value)));
    }
}

fn push_pair(query: &mut String, name: &str, value: &str) {
    if !query.is_empty() {
        query.push('&');
    }
    query.push_str(name);
    query.push('=');
    percent::push_encoded(value, query);
}

#[cfg(test)]
mod tests;
