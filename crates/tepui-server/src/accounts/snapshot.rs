//! Accounts and roles at one moment. Never changed: a change makes another one.

use std::collections::{HashMap, HashSet};
use std::fmt;
use tepui_model::Timestamp;
use tepui_model::account::{Account, AccountKey, KeySlot, is_account_name};
use tepui_model::role::{AssignedRoles, Principal, PrincipalName, RoleAssignment};
use tepui_wire::auth::SigningKeys;
use tepui_wire::crypto::MacKey;

/// All accounts and role assignments.
pub struct AccountsSnapshot {
    version: u64,
    /// The last one may be that of all names that are not listed.
    accounts: Vec<ServedAccount>,
    by_name: HashMap<String, AccountNumber>,
    /// Of every other name that an account can have.
    others: Option<AccountNumber>,
    /// When each account was marked that is being deleted.
    deleting: HashMap<String, Timestamp>,
    /// When each account was deleted whose name is not forgotten yet.
    deleted: HashMap<String, Timestamp>,
    has_server_secret: bool,
    assignments: Vec<ListedAssignment>,
    by_principal: HashMap<PrincipalName, Vec<usize>>,
}

/// The number of an account in one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountNumber(usize);

/// Where something comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Configuration,
    Api,
}

/// A key that is good.
#[derive(Debug, Clone)]
pub struct EffectiveKey {
    pub key: AccountKey,
    /// `None`: it is configured.
    pub created: Option<Timestamp>,
}

/// An account that requests can be for.
#[derive(Debug)]
pub struct ServedAccount {
    /// Empty for that of all names that are not listed.
    pub name: String,
    pub source: Source,
    /// When the API has made it.
    pub created: Option<Timestamp>,
    pub is_disabled: bool,
    /// Whether its keys, and what is signed with them, are accepted.
    pub allows_shared_keys: bool,
    pub keys: [Option<EffectiveKey>; 2],
    /// When all user delegation keys were revoked.
    pub delegation_since: Option<Timestamp>,
    pub(super) delegation: Option<AccountKey>,
    pub(super) signing: SigningKeys,
}

impl ServedAccount {
    pub(super) fn new(name: &str, source: Source, keys: [Option<EffectiveKey>; 2]) -> Self {
        Self {
            name: name.to_owned(),
            source,
            created: None,
            is_disabled: false,
            allows_shared_keys: true,
            keys,
            delegation_since: None,
            delegation: None,
            signing: SigningKeys::new(&Account { name: name.to_owned(), keys: Vec::new() }),
        }
    }

    /// Makes ready what is signed with, when all else is known. `server_secret`: what secrets of accounts are made of that have none of
    /// their own.
    fn prepare_keys(&mut self, server_secret: Option<&MacKey>) {
        let keys = SigningKeys::new(&self.account());
        let keys = if self.is_disabled { keys.disabled() } else { keys };
        let keys = if self.allows_shared_keys { keys } else { keys.without_shared_keys() };
        // No string to sign begins like this.
        let derive = |secret: &MacKey| secret.sign([&b"user delegation secret\0"[..], self.name.as_bytes()]);
        self.signing = match (&self.delegation, server_secret.map(derive)) {
            (Some(own), _) => keys.with_delegation_secret(own.bytes()),
            (None, Some(derived)) => keys.with_delegation_secret(&derived),
            // Nobody has a role yet.
            (None, None) => keys,
        };
    }

    pub fn signing_keys(&self) -> &SigningKeys {
        &self.signing
    }

    /// Whether this is the account that another snapshot had under the name, not one that was made when that was deleted.
    pub fn is_still(&self, before: &Self) -> bool {
        (self.source, self.created) == (before.source, before.created)
    }

    pub fn key(&self, slot: KeySlot) -> Option<&EffectiveKey> {
        self.keys[slot.index()].as_ref()
    }

    /// Its name and all keys that are good.
    pub fn account(&self) -> Account {
        Account {
            name: self.name.clone(),
            keys: self.keys.iter().flatten().map(|key| key.key.clone()).collect(),
        }
    }
}

/// A role assignment and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedAssignment {
    pub id: u128,
    pub assignment: RoleAssignment,
    pub source: Source,
    /// `None`: it is configured.
    pub created: Option<Timestamp>,
}

/// What a snapshot is made of.
pub(super) struct Parts {
    pub(super) version: u64,
    pub(super) accounts: Vec<ServedAccount>,
    pub(super) others: Option<ServedAccount>,
    pub(super) deleting: HashMap<String, Timestamp>,
    pub(super) deleted: HashMap<String, Timestamp>,
    pub(super) server_secret: Option<AccountKey>,
    pub(super) assignments: Vec<ListedAssignment>,
}

impl AccountsSnapshot {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { version, mut accounts, others, deleting, deleted, server_secret, assignments } = parts;
        let by_name = accounts.iter().enumerate();
        let by_name =
            by_name.map(|(number, account)| (account.name.clone(), AccountNumber(number))).collect();
        let others = others.map(|account| {
            accounts.push(account);
            AccountNumber(accounts.len() - 1)
        });
        let mut by_principal: HashMap<PrincipalName, Vec<usize>> = HashMap::new();
        for (number, listed) in assignments.iter().enumerate() {
            by_principal.entry(listed.assignment.principal.clone()).or_default().push(number);
        }
        let server_secret = server_secret.map(|secret| MacKey::new(secret.bytes()));
        accounts.iter_mut().for_each(|account| account.prepare_keys(server_secret.as_ref()));
        let has_server_secret = server_secret.is_some();
        Self {
            version,
            accounts,
            by_name,
            others,
            deleting,
            deleted,
            has_server_secret,
            assignments,
            by_principal,
        }
    }

    /// Which state of the store it is.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The account of this name. `None` if there is none, or if it is being deleted.
    pub fn find(&self, name: &str) -> Option<AccountNumber> {
        let is_other =
            || is_account_name(name) && !self.deleting.contains_key(name) && !self.deleted.contains_key(name);
        self.by_name.get(name).copied().or_else(|| self.others.filter(|_| is_other()))
    }

    /// The account with a number of this snapshot.
    pub fn get(&self, number: AccountNumber) -> &ServedAccount {
        &self.accounts[number.0]
    }

    pub fn account(&self, name: &str) -> Option<&ServedAccount> {
        self.find(name).map(|number| self.get(number))
    }

    /// Whether there is an account of this name.
    pub fn serves(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The accounts that have names of their own, in the order of names.
    pub fn accounts(&self) -> Vec<&ServedAccount> {
        let mut all: Vec<&ServedAccount> = self.by_name.values().map(|number| self.get(*number)).collect();
        all.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// The name of an account in its own case.
    pub fn name_in_any_case(&self, name: &str) -> Option<String> {
        if self.by_name.contains_key(name) {
            return Some(name.to_owned());
        }
        self.by_name.keys().find(|known| known.eq_ignore_ascii_case(name)).cloned()
    }

    /// The accounts that are being deleted, and since when.
    pub fn deleting(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        self.deleting.iter().map(|(name, since)| (name.as_str(), *since))
    }

    pub fn is_deleting(&self, name: &str) -> bool {
        self.deleting.contains_key(name)
    }

    /// When the first of the accounts was deleted whose names are not forgotten.
    pub(super) fn first_deleted(&self) -> Option<Timestamp> {
        self.deleted.values().min().copied()
    }

    pub(super) fn deleted_names(&self) -> HashSet<&str> {
        self.deleted.keys().map(String::as_str).collect()
    }

    /// All role assignments, those of the configuration first.
    pub fn assignments(&self) -> &[ListedAssignment] {
        &self.assignments
    }

    /// The roles of a principal in an account.
    pub fn roles(&self, principal: &Principal, account: &str) -> AssignedRoles {
        let named = principal.names.iter().filter_map(|name| self.by_principal.get(name)).flatten();
        AssignedRoles::of(principal, account, named.map(|number| &self.assignments[*number].assignment))
    }

    /// The roles of somebody of whom only the object id and the tenant are known, as for a user delegation SAS: those that were
    /// assigned to the object id, not those of groups. `has_tenant`: whether tokens of an issuer are of the tenant. Assignments for
    /// the tokens of one issuer count if they are.
    pub fn roles_of_object(
        &self,
        object_id: &str,
        account: &str,
        has_tenant: impl Fn(&str) -> bool,
    ) -> AssignedRoles {
        let object_id = object_id.to_ascii_lowercase();
        let name = PrincipalName::Object(object_id.clone());
        let named = self.by_principal.get(&name).into_iter().flatten();
        let named = named.map(|number| &self.assignments[*number].assignment);
        let counting: Vec<RoleAssignment> = named
            .filter(|given| given.issuer.as_deref().is_none_or(&has_tenant))
            .map(|given| RoleAssignment { issuer: None, ..given.clone() })
            .collect();
        let principal =
            Principal { issuer: String::new(), object_id, tenant_id: String::new(), names: vec![name] };
        AssignedRoles::of(&principal, account, &counting)
    }

    /// Whether there is a secret for accounts that have none of their own. It comes to be with the first role, without which nobody
    /// gets a user delegation key.
    pub(super) fn has_server_secret(&self) -> bool {
        self.has_server_secret
    }
}

impl fmt::Debug for AccountsSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}
