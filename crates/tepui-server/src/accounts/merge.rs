//! What counts, of what is configured and what is stored.
//!
//! What was changed by the API counts, as long as the configuration is the same as it was then. If somebody has configured something
//! else since, that counts: otherwise a key that an operator replaces in the file would go on being good.

use super::snapshot::{AccountsSnapshot, EffectiveKey, ListedAssignment, Parts, ServedAccount, Source};
use crate::config::{AccountSwitches, Config, development_account};
use std::collections::HashMap;
use tepui_model::account::{Account, AccountKey, KeySlot};
use tepui_model::role::RoleAssignment;
use tepui_service::identity::{
    AccountOrigin, AccountRecord, AccountStage, Identity, StoredKey, Switch, assignment_id,
};
use tepui_wire::crypto::sha256;

/// What the configuration says of accounts and roles.
pub(crate) struct Configured {
    accounts: Vec<Account>,
    switches: HashMap<String, AccountSwitches>,
    any_account: bool,
    assignments: Vec<RoleAssignment>,
}

impl Configured {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            accounts: config.effective_accounts(),
            switches: config.account_switches.clone(),
            any_account: config.any_account,
            assignments: config.role_assignments.clone(),
        }
    }

    pub(crate) fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| account.name == name)
    }

    /// What is configured besides keys; the defaults, if there is no such account.
    pub(crate) fn switches(&self, name: &str) -> AccountSwitches {
        self.switches.get(name).copied().unwrap_or_default()
    }

    /// The fingerprint of a configured key, for the one that takes its place.
    pub(crate) fn fingerprint(&self, name: &str, slot: KeySlot) -> Option<[u8; 32]> {
        self.account(name)?.keys.get(slot.index()).map(|key| sha256(key.bytes()))
    }

    /// The configured accounts that are deleted in the store, as accounts of the API: they are to be made again.
    pub(super) fn to_adopt(&self, snapshot: &AccountsSnapshot) -> Vec<String> {
        let deleted = snapshot.deleted_names();
        let names = self.accounts.iter().map(|account| account.name.clone());
        names.filter(|name| deleted.contains(name.as_str())).collect()
    }

    /// Says where the configuration has been changed since the API changed the same.
    pub(super) fn log_superseded(&self, identity: &Identity) {
        for account in &self.accounts {
            let Some(record) = identity.accounts.get(&account.name) else { continue };
            for slot in KeySlot::ALL {
                let stored = record.keys[slot.index()].as_ref();
                if stored.is_some_and(|stored| stored.replaces != self.fingerprint(&account.name, slot)) {
                    tracing::warn!(
                        account = account.name,
                        key = slot.name(),
                        "the configuration was changed since the key was renewed by the admin API: what is configured counts"
                    );
                }
            }
        }
    }

    pub(super) fn merge(&self, identity: &Identity) -> AccountsSnapshot {
        let mut accounts = Vec::new();
        let (mut deleting, mut deleted) = (HashMap::new(), HashMap::new());
        for (name, record) in &identity.accounts {
            match record.stage {
                AccountStage::Deleting => drop(deleting.insert(name.clone(), record.changed)),
                AccountStage::Deleted => drop(deleted.insert(name.clone(), record.changed)),
                AccountStage::Live => {
                    if record.origin == AccountOrigin::Created && self.account(name).is_none() {
                        accounts.push(self.served(name, &[], Some(record)));
                    }
                }
            }
        }
        let is_served = |account: &&Account| {
            !deleting.contains_key(&account.name) && !deleted.contains_key(&account.name)
        };
        for Account { name, keys } in self.accounts.iter().filter(is_served) {
            accounts.push(self.served(name, keys, identity.accounts.get(name)));
        }
        let others = self.any_account.then(|| self.served("", &development_account().keys, None));
        let server_secret = identity.server_secret.clone();
        let assignments = self.assignments(identity);
        AccountsSnapshot::new(Parts {
            version: identity.version,
            accounts,
            others,
            deleting,
            deleted,
            server_secret,
            assignments,
        })
    }

    fn served(&self, name: &str, configured: &[AccountKey], record: Option<&AccountRecord>) -> ServedAccount {
        let is_configured = !configured.is_empty();
        let source = if is_configured { Source::Configuration } else { Source::Api };
        let stored = |slot: KeySlot| record.and_then(|record| record.keys[slot.index()].as_ref());
        let keys = KeySlot::ALL.map(|slot| effective_key(configured.get(slot.index()), stored(slot)));
        let switches = self.switches(name);
        let delegation = record.and_then(|record| record.delegation.as_ref());
        ServedAccount {
            created: record.filter(|_| !is_configured).map(|record| record.created),
            is_disabled: Switch::effective(record.and_then(|record| record.disabled), switches.disabled),
            allows_shared_keys: Switch::effective(
                record.and_then(|record| record.allow_shared_keys),
                switches.allow_shared_keys,
            ),
            delegation_since: delegation.map(|delegation| delegation.since),
            delegation: delegation.map(|delegation| delegation.secret.clone()),
            ..ServedAccount::new(name, source, keys)
        }
    }

    fn assignments(&self, identity: &Identity) -> Vec<ListedAssignment> {
        let configured = self.assignments.iter().map(|assignment| ListedAssignment {
            id: assignment_id(assignment),
            assignment: assignment.clone(),
            source: Source::Configuration,
            created: None,
        });
        let mut all: Vec<ListedAssignment> = configured.collect();
        let known: std::collections::HashSet<u128> = all.iter().map(|listed| listed.id).collect();
        let stored = identity.assignments.iter().filter(|stored| !known.contains(&stored.id));
        all.extend(stored.map(|stored| ListedAssignment {
            id: stored.id,
            assignment: stored.assignment.clone(),
            source: Source::Api,
            created: Some(stored.created),
        }));
        all
    }
}

/// The key that is good: the one that was made here, if it stands for the one that is configured now.
fn effective_key(configured: Option<&AccountKey>, stored: Option<&StoredKey>) -> Option<EffectiveKey> {
    let fingerprint = configured.map(|key| sha256(key.bytes()));
    match stored.filter(|stored| stored.replaces == fingerprint) {
        Some(stored) => Some(EffectiveKey { key: stored.key.clone(), created: Some(stored.created) }),
        None => configured.map(|key| EffectiveKey { key: key.clone(), created: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_accounts;
    use tepui_model::Timestamp;
    use tepui_model::role::{Principal, Role};
    use tepui_model::{Service, role::AssignedRoles};
    use tepui_service::identity::{DelegationSecret, StoredAssignment};
    use tepui_wire::auth::{Delegation, SigningKeys};

    fn key(byte: u8) -> AccountKey {
        AccountKey::new(vec![byte; 64])
    }

    fn text(byte: u8) -> String {
        crate::config::key_text(&key(byte))
    }

    fn stored(byte: u8, replaces: Option<u8>) -> Option<StoredKey> {
        let replaces = replaces.map(|byte| sha256(key(byte).bytes()));
        Some(StoredKey { key: key(byte), created: Timestamp::MIN, replaces })
    }

    fn good(configured: &str, keys: [Option<StoredKey>; 2]) -> Vec<Option<u8>> {
        let config = Config { accounts: parse_accounts(configured).expect("accounts"), ..Config::default() };
        let record = AccountRecord { keys, ..AccountRecord::configured(Timestamp::MIN) };
        let mut identity = Identity::default();
        identity.accounts.insert("a".to_owned(), record);
        let snapshot = Configured::of(&config).merge(&identity);
        let account = snapshot.account("a").expect("it is served");
        account.keys.iter().map(|key| key.as_ref().map(|key| key.key.bytes()[0])).collect()
    }

    #[test]
    fn a_renewed_key_counts_until_another_is_configured() {
        let one = format!("a:{}", text(1));
        let two = format!("a:{}:{}", text(1), text(2));
        for (case, configured, keys, expected) in [
            ("nothing stored", &one, [None, None], [Some(1), None]),
            ("two configured", &two, [None, None], [Some(1), Some(2)]),
            ("the first renewed", &one, [stored(7, Some(1)), None], [Some(7), None]),
            ("a second one made", &one, [None, stored(8, None)], [Some(1), Some(8)]),
            ("both renewed", &two, [stored(7, Some(1)), stored(8, Some(2))], [Some(7), Some(8)]),
            ("another configured since", &one, [stored(7, Some(3)), None], [Some(1), None]),
            ("a second configured since", &two, [None, stored(8, None)], [Some(1), Some(2)]),
            ("the second taken away since", &one, [None, stored(8, Some(2))], [Some(1), None]),
        ] {
            assert_eq!(good(configured, keys), expected, "{case}");
        }
    }

    #[test]
    fn stages_decide_who_is_served() {
        let config = Config { any_account: true, ..Config::default() };
        let mut identity = Identity { version: 3, ..Identity::default() };
        let record = |stage, origin| AccountRecord {
            stage,
            origin,
            keys: [stored(7, None), stored(8, None)],
            ..AccountRecord::configured(Timestamp::MIN)
        };
        for (name, stage, origin) in [
            ("live", AccountStage::Live, AccountOrigin::Created),
            ("once-configured", AccountStage::Live, AccountOrigin::Configured),
            ("deleting", AccountStage::Deleting, AccountOrigin::Created),
            ("deleted", AccountStage::Deleted, AccountOrigin::Created),
            ("devstoreaccount1", AccountStage::Deleted, AccountOrigin::Created),
        ] {
            identity.accounts.insert(name.to_owned(), record(stage, origin));
        }
        let configured = Configured::of(&config);
        let open = configured.merge(&identity);
        for (name, is_listed, is_served) in [
            ("live", true, true),
            ("once-configured", false, true),
            ("deleting", false, false),
            ("deleted", false, false),
            ("devstoreaccount1", false, false),
            ("any-other", false, true),
            ("not a name", false, false),
        ] {
            let listed = open.accounts().iter().any(|account| account.name == name);
            assert_eq!((listed, open.serves(name)), (is_listed, is_served), "{name}");
        }
        assert_eq!(configured.to_adopt(&open), ["devstoreaccount1"]);
        assert_eq!(open.version(), 3);
        assert_eq!(open.name_in_any_case("LIVE").as_deref(), Some("live"));
        assert!(!format!("{open:?} {:?}", open.account("live")).contains("BwcH"), "a key is shown");
        let closed = Configured::of(&Config::default()).merge(&identity);
        assert!(!closed.serves("any-other") && !closed.serves("once-configured"));
    }

    #[test]
    fn switches_of_the_api_count_until_others_are_configured() {
        for (configured, switch, expected) in [
            (false, None, false),
            (true, None, true),
            (false, Some((true, false)), true),
            (true, Some((false, true)), false),
            (true, Some((false, false)), true),
        ] {
            let switch = switch.map(|(value, configured)| Switch { value, configured });
            assert_eq!(Switch::effective(switch, configured), expected, "{configured} {switch:?}");
        }
    }

    #[test]
    fn roles_and_secrets_are_found() {
        let given = |who: &str, scope: &str, issuer: Option<&str>| RoleAssignment {
            principal: who.parse().expect("a principal"),
            issuer: issuer.map(str::to_owned),
            role: Role::TableDataReader,
            scope: scope.parse().expect("a scope"),
        };
        let config = Config { role_assignments: vec![given("group:team", "/", None)], ..Config::default() };
        let of_issuer = given("oid:o", "/devstoreaccount1", Some("https://issuer.example"));
        let assignments = [of_issuer, given("group:team", "/", None)].map(|assignment| StoredAssignment {
            id: assignment_id(&assignment),
            assignment,
            created: Timestamp::MIN,
        });
        let mut identity = Identity {
            assignments: assignments.to_vec(),
            server_secret: Some(key(9)),
            ..Identity::default()
        };
        let own = AccountRecord {
            origin: AccountOrigin::Created,
            delegation: Some(DelegationSecret { secret: key(5), since: Timestamp::MIN }),
            ..AccountRecord::configured(Timestamp::MIN)
        };
        identity.accounts.insert("own".to_owned(), own);
        let snapshot = Configured::of(&config).merge(&identity);
        assert_eq!(snapshot.assignments().len(), 2, "the same twice is one");
        let account = "devstoreaccount1";
        let can = |roles: &AssignedRoles| !roles.actions(account, Service::Table, None).is_empty();
        let principal = |issuer: &str, names: &[&str]| Principal {
            issuer: issuer.to_owned(),
            object_id: "o".to_owned(),
            tenant_id: "t-1".to_owned(),
            names: names.iter().map(|name| name.parse().expect("a principal")).collect(),
        };
        for (case, roles, expected) in [
            ("a group", snapshot.roles(&principal("x", &["oid:p", "group:team"]), account), true),
            ("nobody", snapshot.roles(&principal("x", &["oid:p"]), account), false),
            ("another issuer", snapshot.roles(&principal("x", &["oid:o"]), account), false),
            ("an object", snapshot.roles_of_object("O", account, |of| of == "https://issuer.example"), true),
            ("of another tenant", snapshot.roles_of_object("o", account, |_| false), false),
            ("another object", snapshot.roles_of_object("p", account, |_| true), false),
        ] {
            assert_eq!(can(&roles), expected, "{case}");
        }
        let delegation = Delegation {
            account: "",
            object_id: "o",
            tenant_id: "t",
            start: "",
            expiry: "",
            service: "b",
            version: "",
            delegated_tenant: "",
        };
        let user_key = |name: &str| snapshot.account(name)?.signing_keys().delegate(&delegation);
        let own = SigningKeys::new(&development_account()).with_delegation_secret(key(5).bytes());
        assert_eq!(user_key("own"), own.delegate(&delegation));
        assert!(user_key(account).is_some() && user_key(account) != user_key("own"));
        assert_eq!(user_key("unknown"), None);
    }
}
