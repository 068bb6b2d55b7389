//! Changes of accounts and roles, and what runs in the background for them.

use super::{AccountDirectory, ListedAssignment, Source};
use crate::config::key_text;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::account::{AccountKey, KeySlot};
use tepui_model::role::RoleAssignment;
use tepui_model::{Clock, ServiceError, Timestamp};
use tepui_service::identity::{
    AccountRecord, DelegationSecret, IdentityError, IdentityStore, NewAccount, StoredKey, Switch,
};
use tepui_service::{MAX_CLOCK_SKEW, StoreAccess, Work, WorkLeases};
use tepui_storage::Engine;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often it is asked whether another node has changed something. With the time of the answer, less than 2 s.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The same where there are no others: only what became of a commit whose outcome was unknown can be news.
const POLL_INTERVAL_ALONE: Duration = Duration::from_secs(5);
/// How often it is looked for accounts to delete, without a word.
const DELETION_INTERVAL: Duration = Duration::from_secs(5);
/// After which other nodes serve a deleted account no more, so that its name is free when they know: their clocks may differ, too.
const NOTICED_AFTER: Duration = Duration::from_secs(3).saturating_add(MAX_CLOCK_SKEW);
/// How long a call waits for a deletion.
const DELETION_WAIT: Duration = Duration::from_secs(10);
/// How long the names of deleted accounts are kept: longer than any request takes to be decided.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// As many as Azure's keys have.
const KEY_BYTES: usize = 64;
const SECRET_BYTES: usize = 32;

/// Changes accounts and roles.
pub(crate) struct AccountEditor<E> {
    store: IdentityStore<E>,
    directory: Arc<AccountDirectory>,
    clock: Arc<dyn Clock>,
    access: StoreAccess,
    /// Lets services forget what they have cached, and collect what was dropped.
    after_change: Box<dyn Fn() + Send + Sync>,
    /// Forgets what is in memory of an account that is being deleted.
    forget: Box<dyn Fn(&str) + Send + Sync>,
    marked: Notify,
}

/// What is to be changed of an account. What is not said stays.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AccountChange {
    pub(crate) disabled: Option<bool>,
    pub(crate) allow_shared_keys: Option<bool>,
}

/// How far a deletion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deletion {
    Done,
    /// It goes on in the background.
    UnderWay,
}

/// Why something was not done.
#[derive(Debug)]
pub(crate) enum EditError {
    /// The configuration has it, and only there can it be deleted.
    Configured,
    Refused(IdentityError),
}

impl From<IdentityError> for EditError {
    fn from(error: IdentityError) -> Self {
        Self::Refused(error)
    }
}

impl From<ServiceError> for EditError {
    fn from(error: ServiceError) -> Self {
        Self::Refused(error.into())
    }
}

impl<E: Engine> AccountEditor<E> {
    pub(crate) fn new(
        engine: Arc<E>,
        clock: Arc<dyn Clock>,
        access: StoreAccess,
        directory: Arc<AccountDirectory>,
        after_change: Box<dyn Fn() + Send + Sync>,
        forget: Box<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        let store = IdentityStore::new(engine, Arc::clone(&clock));
        Self { store, directory, clock, access, after_change, forget, marked: Notify::new() }
    }

    pub(crate) fn directory(&self) -> &Arc<AccountDirectory> {
        &self.directory
    }

    /// Makes an account with two random keys.
    pub(crate) async fn create(&self, name: &str, change: AccountChange) -> Result<(), EditError> {
        if self.directory.is_configured(name) {
            return Err(EditError::Refused(IdentityError::AccountExists));
        }
        let new = NewAccount {
            keys: [random_secret(KEY_BYTES), random_secret(KEY_BYTES)],
            delegation: random_secret(SECRET_BYTES),
            disabled: change.disabled.unwrap_or(false),
            allow_shared_keys: change.allow_shared_keys.unwrap_or(true),
        };
        self.store.create(name, &new).await?;
        tracing::info!(account = name, "admin: account created");
        self.refresh().await?;
        Ok(())
    }

    /// Disables or enables an account, and allows or refuses its keys.
    pub(crate) async fn change(&self, name: &str, change: AccountChange) -> Result<(), EditError> {
        let configured = self.directory.configured().switches(name);
        let edit = |record: &mut AccountRecord, _: Timestamp| {
            if let Some(value) = change.disabled {
                record.disabled = Some(Switch { value, configured: configured.disabled });
            }
            if let Some(value) = change.allow_shared_keys {
                record.allow_shared_keys = Some(Switch { value, configured: configured.allow_shared_keys });
            }
        };
        self.edit(name, edit).await?;
        let AccountChange { disabled, allow_shared_keys } = change;
        tracing::info!(account = name, ?disabled, ?allow_shared_keys, "admin: account changed");
        Ok(())
    }

    /// Makes a new key. The one before is not good any more when this returns. Returns the new one as text, and its time.
    pub(crate) async fn renew_key(
        &self,
        name: &str,
        slot: KeySlot,
    ) -> Result<(String, Timestamp), EditError> {
        let key = random_secret(KEY_BYTES);
        let replaces = self.directory.configured().fingerprint(name, slot);
        let edit = |record: &mut AccountRecord, now: Timestamp| {
            let stored = StoredKey { key: key.clone(), created: now, replaces };
            record.keys[slot.index()] = Some(stored);
        };
        let record = self.edit(name, edit).await?;
        tracing::info!(account = name, key = slot.name(), "admin: key renewed");
        Ok((key_text(&key), record.changed))
    }

    /// Makes all user delegation keys of an account worthless.
    pub(crate) async fn revoke_delegation_keys(&self, name: &str) -> Result<Timestamp, EditError> {
        let secret = random_secret(SECRET_BYTES);
        let edit = |record: &mut AccountRecord, now: Timestamp| {
            record.delegation = Some(DelegationSecret { secret: secret.clone(), since: now });
        };
        let record = self.edit(name, edit).await?;
        tracing::info!(account = name, "admin: user delegation keys revoked");
        Ok(record.changed)
    }

    async fn edit(
        &self,
        name: &str,
        change: impl Fn(&mut AccountRecord, Timestamp),
    ) -> Result<AccountRecord, EditError> {
        let record = self.store.edit(name, self.directory.is_configured(name), change).await?;
        self.refresh().await?;
        Ok(record)
    }

    /// Deletes an account and everything in it. Nobody is served any more when this returns.
    pub(crate) async fn delete(&self, name: &str) -> Result<Deletion, EditError> {
        if self.directory.is_configured(name) {
            return Err(EditError::Configured);
        }
        self.store.begin_deletion(name).await?;
        tracing::info!(account = name, "admin: account deleted; what is in it follows");
        self.refresh().await?;
        self.marked.notify_one();
        let until = Instant::now() + DELETION_WAIT;
        while self.directory.current().is_deleting(name) {
            if Instant::now() >= until {
                return Ok(Deletion::UnderWay);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Deletion::Done)
    }

    /// Assigns a role. Returns what is stored, and whether it is new.
    pub(crate) async fn assign(
        &self,
        assignment: &RoleAssignment,
    ) -> Result<(ListedAssignment, bool), EditError> {
        let id = tepui_service::identity::assignment_id(assignment);
        let current = self.directory.current();
        if let Some(listed) = current
            .assignments()
            .iter()
            .find(|listed| listed.id == id && listed.source == Source::Configuration)
        {
            return Ok((listed.clone(), false));
        }
        if !current.has_server_secret() {
            self.store.make_server_secret(&random_secret(SECRET_BYTES)).await?;
        }
        let (stored, is_new) = self.store.assign(assignment).await?;
        if is_new {
            let RoleAssignment { principal, role, scope, .. } = assignment;
            tracing::info!(%principal, role = role.name(), %scope, "admin: role assigned");
        }
        self.refresh().await?;
        let listed = ListedAssignment {
            id: stored.id,
            assignment: stored.assignment,
            source: Source::Api,
            created: Some(stored.created),
        };
        Ok((listed, is_new))
    }

    /// Takes a role away. Returns whether it was assigned.
    pub(crate) async fn remove_assignment(&self, id: u128) -> Result<bool, EditError> {
        let current = self.directory.current();
        let is_configured =
            |listed: &&ListedAssignment| listed.id == id && listed.source == Source::Configuration;
        if current.assignments().iter().any(|listed| is_configured(&listed)) {
            return Err(EditError::Configured);
        }
        let removed = self.store.remove(id).await?;
        if let Some(stored) = &removed {
            let RoleAssignment { principal, role, scope, .. } = &stored.assignment;
            tracing::info!(%principal, role = role.name(), %scope, "admin: role taken away");
        }
        self.refresh().await?;
        Ok(removed.is_some())
    }

    /// Lets count what is stored now.
    pub(crate) async fn refresh(&self) -> Result<(), ServiceError> {
        let identity = self.store.read().await?;
        self.directory.replace(&identity);
        // It is not served any more.
        for (name, _) in self.directory.current().deleting() {
            (self.forget)(name);
        }
        Ok(())
    }

    /// The same after everything that is stored may have changed. Accounts may have to be deleted again.
    pub(crate) async fn restored(&self) -> Result<(), ServiceError> {
        self.refresh().await?;
        self.marked.notify_one();
        Ok(())
    }

    /// Notices changes of other nodes, and deletes what is in deleted accounts. Never returns.
    pub(crate) async fn run(&self, leases: &WorkLeases<E>) {
        tokio::join!(self.notice(), self.delete_marked(leases));
    }

    async fn notice(&self) {
        let interval = match self.access {
            StoreAccess::Exclusive => POLL_INTERVAL_ALONE,
            StoreAccess::Shared => POLL_INTERVAL,
        };
        loop {
            tokio::time::sleep(interval).await;
            if let Err(error) = self.notice_once().await {
                tracing::warn!(%error, "cannot ask whether accounts have changed");
            }
        }
    }

    async fn notice_once(&self) -> Result<(), ServiceError> {
        if self.store.version().await? != self.directory.current().version() {
            self.refresh().await?;
            (self.after_change)();
            self.marked.notify_one();
        }
        Ok(())
    }

    async fn delete_marked(&self, leases: &WorkLeases<E>) {
        loop {
            match self.delete_once(leases).await {
                Ok(()) => {}
                Err(error) => tracing::warn!(%error, "cannot delete what is in a deleted account yet"),
            }
            let waits = self.directory.current().deleting().next().is_some();
            let wait = if waits { POLL_INTERVAL } else { DELETION_INTERVAL };
            // A timeout is as good as a word.
            let _ = tokio::time::timeout(wait, self.marked.notified()).await;
        }
    }

    async fn delete_once(&self, leases: &WorkLeases<E>) -> Result<(), ServiceError> {
        self.adopt().await?;
        let current = self.directory.current();
        let now = self.clock.now();
        let is_due = |since: Timestamp| match self.access {
            StoreAccess::Exclusive => true,
            StoreAccess::Shared => now.since(since) >= NOTICED_AFTER,
        };
        let due: Vec<&str> =
            current.deleting().filter(|(_, since)| is_due(*since)).map(|(name, _)| name).collect();
        let forgets = current.first_deleted().is_some_and(|first| now.since(first) >= FORGET_AFTER);
        if due.is_empty() && !forgets {
            return Ok(());
        }
        let work = async {
            for name in due {
                let counts = self.store.finish_deletion(name).await?;
                tracing::info!(
                    account = name,
                    tables = counts.tables,
                    queues = counts.queues,
                    containers = counts.containers,
                    "what was in a deleted account is deleted"
                );
            }
            if forgets {
                let passed = u64::try_from(FORGET_AFTER.as_nanos() / 100).unwrap_or(u64::MAX);
                let before = Timestamp::from_ticks(now.ticks().saturating_sub(passed));
                self.store.forget_deleted(before.unwrap_or(Timestamp::MIN)).await?;
            }
            Ok::<_, ServiceError>(())
        };
        if let Some(done) = leases.run(Work::DeleteAccounts, work).await {
            done?;
            // Before the name can be used again.
            (self.after_change)();
            self.refresh().await?;
        }
        Ok(())
    }

    /// Accounts that were deleted here and are configured now are served again, and empty.
    async fn adopt(&self) -> Result<(), ServiceError> {
        for name in self.directory.configured().to_adopt(&self.directory.current()) {
            match self.store.edit(&name, true, |_, _| {}).await {
                Ok(_) | Err(IdentityError::NoSuchAccount) => {}
                Err(IdentityError::Failed(error)) => return Err(error),
                Err(error) => tracing::warn!(account = name, ?error, "cannot serve a configured account"),
            }
            self.refresh().await?;
        }
        Ok(())
    }
}

/// Bytes that nobody can guess.
pub(super) fn random_secret(bytes: usize) -> AccountKey {
    let mut secret = vec![0; bytes];
    getrandom::fill(&mut secret).expect("the operating system has random numbers");
    AccountKey::new(secret)
}

/// What is stored. With the secret of the server, if it is needed: it is made then if there is none.
pub(crate) async fn open<E: Engine>(
    engine: &Arc<E>,
    clock: &Arc<dyn Clock>,
    with_secret: bool,
) -> Result<tepui_service::identity::Identity, ServiceError> {
    let store = IdentityStore::new(Arc::clone(engine), Arc::clone(clock));
    let identity = store.read().await?;
    if identity.server_secret.is_some() || !with_secret {
        return Ok(identity);
    }
    match store.make_server_secret(&random_secret(SECRET_BYTES)).await {
        Ok(_) => store.read().await,
        Err(error) => {
            tracing::warn!(%error, "there is no secret for user delegation keys, and none can be stored");
            Ok(identity)
        }
    }
}
