//! Accounts: listed, made, changed, deleted; their keys, and what those were handed out for.

use super::call::{self, AdminError, AnswerFuture, Area, Call, Route};
use crate::accounts::{
    AccountChange, AccountEditor, AccountsSnapshot, Deletion, EditError, EffectiveKey, ServedAccount, Source,
};
use crate::config::{ServiceName, key_text};
use crate::net::body::ReplyBody;
use hyper::http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tepui_model::Timestamp;
use tepui_model::account::{KeySlot, is_account_name};
use tepui_service::identity::{IdentityError, MAX_ACCOUNTS, MAX_ASSIGNMENTS};
use tepui_storage::Engine;

pub(crate) struct AccountsArea<E> {
    editor: Arc<AccountEditor<E>>,
    /// Where the services listen.
    scheme: &'static str,
    addresses: Vec<(ServiceName, SocketAddr)>,
}

/// What may be said of an account. What is not said stays, or is the default.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Switches {
    disabled: Option<bool>,
    allow_shared_keys: Option<bool>,
}

impl<E: Engine> AccountsArea<E> {
    /// `scheme`: `https` where there is TLS, or else `http`.
    pub(crate) fn new(
        editor: Arc<AccountEditor<E>>,
        scheme: &'static str,
        addresses: Vec<(ServiceName, SocketAddr)>,
    ) -> Self {
        Self { editor, scheme, addresses }
    }

    async fn call(&self, call: &Call) -> Result<Response<ReplyBody>, AdminError> {
        call.only_parameters(&[])?;
        if !matches!(call.route, ("PUT" | "PATCH", _)) {
            call.no_body()?;
        }
        let Some(name) = call.parts.first() else { return self.list() };
        match call.route {
            ("PUT", _) => self.create(name, call).await,
            ("PATCH", _) => self.change(name, call).await,
            ("DELETE", _) => {
                self.find(name)?;
                let deletion = self.editor.delete(name).await.map_err(|error| refusal(error, name))?;
                match deletion {
                    Deletion::Done => call::nothing(),
                    Deletion::UnderWay => {
                        call::json(StatusCode::ACCEPTED, &json!({"name": name, "state": "deleting"}))
                    }
                }
            }
            ("GET", "/accounts/{}/keys") => {
                let current = self.current();
                let account = served(&current, name).ok_or_else(|| no_account(name))?;
                call::ok(&json!({"keys": keys(account)}))
            }
            ("GET", _) => {
                let current = self.current();
                let account = served(&current, name).ok_or_else(|| no_account(name))?;
                call::ok(&self.shown(account))
            }
            (_, "/accounts/{}/keys/{}/renew") => {
                self.find(name)?;
                let asked = call.parts.get(1).map(String::as_str).unwrap_or_default();
                let slot = KeySlot::find(asked).ok_or_else(|| {
                    AdminError::invalid(format!("A key is key1 or key2: {}.", short(asked)))
                })?;
                let renewed = self.editor.renew_key(name, slot).await;
                let (value, created) = renewed.map_err(|error| refusal(error, name))?;
                let mut answer = shown_key(slot, &value, Some(created));
                answer.insert("endpoints".to_owned(), self.endpoints(name));
                call::ok(&answer)
            }
            (_, _) => {
                self.find(name)?;
                let revoked = self.editor.revoke_delegation_keys(name).await;
                let revoked = revoked.map_err(|error| refusal(error, name))?;
                call::ok(&json!({"name": name, "delegationKeysRevoked": revoked.to_iso_7()}))
            }
        }
    }

    fn current(&self) -> Arc<AccountsSnapshot> {
        self.editor.directory().current()
    }

    /// Fails unless there is an account that has this name for itself.
    fn find(&self, name: &str) -> Result<(), AdminError> {
        let current = self.current();
        let is_there = served(&current, name).is_some() || current.is_deleting(name);
        is_there.then_some(()).ok_or_else(|| no_account(name))
    }

    fn list(&self) -> Result<Response<ReplyBody>, AdminError> {
        let current = self.current();
        let mut accounts: Vec<(&str, Value)> = current
            .accounts()
            .into_iter()
            .map(|account| (account.name.as_str(), self.shown(account)))
            .collect();
        let deleting = |(name, since): (&'_ str, Timestamp)| json!({"name": name, "state": "deleting", "since": since.to_iso_7()});
        accounts.extend(current.deleting().map(|(name, since)| (name, deleting((name, since)))));
        accounts.sort_unstable_by_key(|(name, _)| *name);
        let accounts: Vec<Value> = accounts.into_iter().map(|(_, shown)| shown).collect();
        call::ok(&json!({"accounts": accounts}))
    }

    async fn create(&self, name: &str, call: &Call) -> Result<Response<ReplyBody>, AdminError> {
        let change = switches(call)?;
        if !is_account_name(name) {
            return Err(AdminError::invalid(format!(
                "The name of an account has 1 to 63 letters, digits, hyphens and underscores, and does not end in -secondary: {}.",
                short(name)
            )));
        }
        self.editor.create(name, change).await.map_err(|error| refusal(error, name))?;
        let current = self.current();
        let account = served(&current, name).ok_or_else(|| no_account(name))?;
        let mut shown = self.shown(account);
        shown["keys"] = keys(account);
        call::json(StatusCode::CREATED, &shown)
    }

    async fn change(&self, name: &str, call: &Call) -> Result<Response<ReplyBody>, AdminError> {
        let change = switches(call)?;
        if change.disabled.is_none() && change.allow_shared_keys.is_none() {
            return Err(AdminError::invalid("Say disabled, allowSharedKeys or both: true or false."));
        }
        self.find(name)?;
        self.editor.change(name, change).await.map_err(|error| refusal(error, name))?;
        let current = self.current();
        call::ok(&self.shown(served(&current, name).ok_or_else(|| no_account(name))?))
    }

    /// An account without its keys.
    fn shown(&self, account: &ServedAccount) -> Value {
        let time = |time: Option<Timestamp>| time.map(Timestamp::to_iso_7);
        let keys = KeySlot::ALL.into_iter().filter_map(|slot| {
            let key = account.key(slot)?;
            Some(json!({"keyName": slot.name(), "creationTime": time(key.created)}))
        });
        json!({
            "name": account.name,
            "source": source_name(account.source),
            "state": if account.is_disabled { "disabled" } else { "enabled" },
            "allowSharedKeys": account.allows_shared_keys,
            "created": time(account.created),
            "delegationKeysRevoked": time(account.delegation_since.filter(|since| Some(*since) != account.created)),
            "keys": keys.collect::<Vec<_>>(),
            "endpoints": self.endpoints(&account.name),
        })
    }

    /// How the services of an account are reached.
    fn endpoints(&self, account: &str) -> Value {
        let endpoint = |(service, address): &(ServiceName, SocketAddr)| {
            (
                service.name().to_owned(),
                Value::from(format!("{}://{}/{account}", self.scheme, reachable(*address))),
            )
        };
        Value::Object(self.addresses.iter().map(endpoint).collect())
    }
}

/// The account that has this name for itself.
fn served<'a>(current: &'a AccountsSnapshot, name: &str) -> Option<&'a ServedAccount> {
    current.account(name).filter(|account| account.name == name)
}

fn switches(call: &Call) -> Result<AccountChange, AdminError> {
    let given: Switches = if call.body.is_empty() { Switches::default() } else { call.json()? };
    Ok(AccountChange { disabled: given.disabled, allow_shared_keys: given.allow_shared_keys })
}

pub(super) fn source_name(source: Source) -> &'static str {
    match source {
        Source::Configuration => "configuration",
        Source::Api => "api",
    }
}

/// The keys of an account, with the names of Azure's call "list keys".
fn keys(account: &ServedAccount) -> Value {
    let shown = KeySlot::ALL.into_iter().filter_map(|slot| {
        let EffectiveKey { key, created } = account.key(slot)?;
        Some(Value::Object(shown_key(slot, &key_text(key), *created)))
    });
    Value::Array(shown.collect())
}

fn shown_key(slot: KeySlot, value: &str, created: Option<Timestamp>) -> Map<String, Value> {
    let mut shown = Map::new();
    shown.insert("keyName".to_owned(), slot.name().into());
    shown.insert("value".to_owned(), value.into());
    shown.insert("permissions".to_owned(), "FULL".into());
    shown.insert("creationTime".to_owned(), created.map(Timestamp::to_iso_7).into());
    shown
}

/// A server that listens on every address is reached at this machine's own.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

/// As much of a text as is shown.
pub(super) fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

fn no_account(name: &str) -> AdminError {
    AdminError::not_found(format!("There is no such account: {}.", short(name)))
}

/// The answer to what is refused.
pub(super) fn refusal(error: EditError, name: &str) -> AdminError {
    let name = short(name);
    match error {
        EditError::Configured => AdminError::conflict(format!(
            "This is configured, and only there can it be deleted: {name}. An account can be disabled instead."
        )),
        EditError::Refused(error) => match error {
            IdentityError::NoSuchAccount => no_account(&name),
            IdentityError::AccountExists => {
                AdminError::conflict(format!("There is an account of this name already: {name}."))
            }
            IdentityError::BeingDeleted => AdminError::conflict(format!(
                "The account of this name is being deleted: {name}. Try again when that is done."
            )),
            IdentityError::HasData => AdminError::conflict(format!(
                "There is data under this name, of an account that was configured before: {name}. Configure it again, or choose \
                 another name."
            )),
            IdentityError::TooMany => AdminError::conflict(format!(
                "There are {MAX_ACCOUNTS} accounts or {MAX_ASSIGNMENTS} role assignments, which is as many as there may be."
            )),
            IdentityError::Failed(error) => error.into(),
        },
    }
}

impl<E: Engine> Area for AccountsArea<E> {
    fn routes(&self) -> &'static [Route] {
        &[
            ("GET", "/accounts"),
            ("GET", "/accounts/{}"),
            ("PUT", "/accounts/{}"),
            ("PATCH", "/accounts/{}"),
            ("DELETE", "/accounts/{}"),
            ("GET", "/accounts/{}/keys"),
            ("POST", "/accounts/{}/keys/{}/renew"),
            ("POST", "/accounts/{}/delegation-keys/revoke"),
        ]
    }

    fn is_for_test_bench(&self) -> bool {
        false
    }

    fn answer(&self, call: Call) -> AnswerFuture<'_> {
        Box::pin(async move { self.call(&call).await })
    }
}
