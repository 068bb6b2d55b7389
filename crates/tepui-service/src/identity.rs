//! Accounts and role assignments that are stored: those that the admin API has made, and what it has changed of configured ones.
//!
//! | | |
//! | --- | --- |
//! | `identity.rs` | what is stored, read as a whole, and what other operations check of an account |
//! | `accounts.rs` | accounts: made, changed, marked as deleted |
//! | `assignments.rs` | role assignments |
//! | `deletion.rs` | deleting what is in an account |
//!
//! Every change raises one version, in the same commit, by which nodes that share a store notice each other's changes. What decides
//! about data does not rest on that: whoever makes a table, a queue, a container or service properties has the row of the account
//! as a guard, so that nothing comes into an account that is being deleted.

mod accounts;
mod assignments;
mod deletion;

pub use accounts::NewAccount;
pub use assignments::assignment_id;

use crate::keyspace;
use crate::record;
use crate::transact::{Restart, restart, storage_error};
use std::collections::BTreeMap;
use std::sync::Arc;
use tepui_model::account::AccountKey;
use tepui_model::role::RoleAssignment;
use tepui_model::{Clock, ErrorCode, ServiceError, Timestamp};
use tepui_storage::{Engine, Guard, Key, KeyRange, ScanLimit, Snapshot, Value, Write};

/// The most accounts that the API makes, and the most role assignments: all of them are in memory.
pub const MAX_ACCOUNTS: usize = 10_000;
pub const MAX_ASSIGNMENTS: usize = 10_000;

/// The rows that are read at a time.
const PAGE: ScanLimit = ScanLimit { max_rows: 1024, max_bytes: 1 << 20 };

/// What is stored of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRecord {
    pub stage: AccountStage,
    pub origin: AccountOrigin,
    pub created: Timestamp,
    /// Different in every write.
    pub changed: Timestamp,
    /// Of a configured account only those that were renewed.
    pub keys: [Option<StoredKey>; 2],
    /// `None`: as configured.
    pub disabled: Option<Switch>,
    /// `None`: as configured.
    pub allow_shared_keys: Option<Switch>,
    /// `None`: it follows from the secret of the server.
    pub delegation: Option<DelegationSecret>,
}

/// How far the deletion of an account is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountStage {
    Live,
    /// Nobody is served any more, and what is in it is being deleted.
    Deleting,
    /// Nothing is left. The row stays for some time, for requests that began before.
    Deleted,
}

/// Where an account comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountOrigin {
    /// From the admin API.
    Created,
    /// From the configuration, and this is what was changed since.
    Configured,
}

/// A key that was made here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    pub key: AccountKey,
    pub created: Timestamp,
    /// The SHA-256 of the configured key in whose place it is. If another key is configured later, that one counts.
    pub replaces: Option<[u8; 32]>,
}

/// A setting of an account that was changed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    pub value: bool,
    /// What was configured then. If something else is configured later, that counts.
    pub configured: bool,
}

impl Switch {
    /// What counts if this is configured now.
    pub fn effective(switch: Option<Self>, configured: bool) -> bool {
        switch.filter(|switch| switch.configured == configured).map_or(configured, |switch| switch.value)
    }
}

/// The secret that user delegation keys are made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationSecret {
    pub secret: AccountKey,
    pub since: Timestamp,
}

impl AccountRecord {
    /// Of a configured account of which nothing was changed yet.
    pub fn configured(now: Timestamp) -> Self {
        Self {
            stage: AccountStage::Live,
            origin: AccountOrigin::Configured,
            created: now,
            changed: now,
            keys: [None, None],
            disabled: None,
            allow_shared_keys: None,
            delegation: None,
        }
    }
}

/// A role assignment that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAssignment {
    /// See [`assignment_id`].
    pub id: u128,
    pub assignment: RoleAssignment,
    pub created: Timestamp,
}

/// All that is stored, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// Raised by every change.
    pub version: u64,
    /// By name.
    pub accounts: BTreeMap<String, AccountRecord>,
    pub assignments: Vec<StoredAssignment>,
    /// See [`IdentityStore::make_server_secret`].
    pub server_secret: Option<AccountKey>,
}

/// Why something was not done. Nothing has changed, unless it is `Failed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityError {
    NoSuchAccount,
    AccountExists,
    /// What was in the account of this name is not deleted yet.
    BeingDeleted,
    /// There is data of an account of this name, which was configured before.
    HasData,
    /// As many as there may be.
    TooMany,
    Failed(ServiceError),
}

impl From<ServiceError> for IdentityError {
    fn from(error: ServiceError) -> Self {
        Self::Failed(error)
    }
}

impl Restart for IdentityError {
    fn is_outdated(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_outdated())
    }
}

/// The accounts and role assignments of one store.
pub struct IdentityStore<E> {
    engine: Arc<E>,
    clock: Arc<dyn Clock>,
}

impl<E: Engine> IdentityStore<E> {
    pub fn new(engine: Arc<E>, clock: Arc<dyn Clock>) -> Self {
        Self { engine, clock }
    }

    /// The version of what is stored: one read.
    pub async fn version(&self) -> Result<u64, ServiceError> {
        let rows = self.engine.get_many(&[keyspace::identity_version()]).await.map_err(storage_error)?;
        decode_version(rows.first().and_then(Option::as_ref))
    }

    /// All that is stored.
    pub async fn read(&self) -> Result<Identity, ServiceError> {
        restart(|| async {
            let snapshot = self.engine.begin().await.map_err(storage_error)?;
            let keys = [keyspace::identity_version(), keyspace::server_secret()];
            let mut rows = snapshot.get_many(&keys).await.map_err(storage_error)?.into_iter();
            let version = decode_version(rows.next().flatten().as_ref())?;
            let secret = rows.next().flatten();
            let mut identity = Identity { version, ..Identity::default() };
            identity.server_secret = secret.map(|row| record::decode_secret(&row)).transpose()?;
            for (key, row) in all_rows(&snapshot, keyspace::accounts()).await? {
                let name = keyspace::account_name(&key).ok_or(ErrorCode::InternalError)?;
                identity.accounts.insert(name.into_owned(), AccountRecord::decode(&row)?);
            }
            identity.assignments = assignments::read(&snapshot).await?;
            Ok(identity)
        })
        .await
    }
}

/// All rows of a range, of which there are not too many.
async fn all_rows<S: Snapshot>(snapshot: &S, range: KeyRange) -> Result<Vec<(Key, Value)>, ServiceError> {
    let (mut rows, mut left) = (Vec::new(), Some(range));
    while let Some(range) = left {
        let page = snapshot.scan_some(&range, PAGE).await.map_err(storage_error)?;
        rows.extend(page.rows);
        left = page.next.map(|start| KeyRange { start, end: range.end });
    }
    Ok(rows)
}

/// It is 0 before the first change.
fn decode_version(row: Option<&Value>) -> Result<u64, ServiceError> {
    row.map_or(Ok(0), |row| record::decode_number(row))
}

/// The write that tells others of a change.
async fn next_version<S: Snapshot>(snapshot: &S) -> Result<Write, ServiceError> {
    let key = keyspace::identity_version();
    let version = decode_version(snapshot.get(&key).await.map_err(storage_error)?.as_ref())?;
    Ok(Write::Put(key, record::encode_number(version + 1)))
}

/// What a commit rests on that adds something to an account, whose row this is. Fails if the account is deleted or being deleted;
/// one without a row is configured, and is not.
pub(crate) fn account_guard(account: &str, row: Option<&Value>) -> Result<Guard, ServiceError> {
    match row.map(|row| record::account_stage(row)).transpose()? {
        None | Some(AccountStage::Live) => Ok(Guard::Unchanged(keyspace::account(account))),
        Some(AccountStage::Deleting | AccountStage::Deleted) => Err(ErrorCode::ResourceNotFound.into()),
    }
}
