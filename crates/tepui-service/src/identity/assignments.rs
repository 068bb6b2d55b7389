//! Role assignments: made and taken away.

use super::{
    AccountStage, IdentityError, IdentityStore, MAX_ASSIGNMENTS, StoredAssignment, accounts, all_rows,
    next_version,
};
use crate::keyspace;
use crate::transact::{Attempt, Outcome, SpaceUse, commit, retry, storage_error};
use sha2::{Digest as _, Sha256};
use tepui_model::role::{RoleAssignment, Scope};
use tepui_model::{ErrorCode, Service, ServiceError};
use tepui_storage::{Engine, Guard, Snapshot, Write};

/// The id of an assignment, which follows from what it says: the same twice is one.
pub fn assignment_id(assignment: &RoleAssignment) -> u128 {
    let RoleAssignment { principal, issuer, role, scope } = assignment;
    let scope = match scope {
        // The names of tables are the same in any case.
        Scope::Resource(_, Service::Table, _) => scope.to_string().to_lowercase(),
        _ => scope.to_string(),
    };
    let account = match &assignment.scope {
        Scope::Server => "",
        Scope::Account(name) | Scope::Service(name, _) | Scope::Resource(name, _, _) => name,
    };
    let texts = [&principal.to_string(), role.id(), &scope, account, issuer.as_deref().unwrap_or_default()];
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    let hash: [u8; 32] = hash.finalize().into();
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    u128::from_be_bytes(id)
}

impl<E: Engine> IdentityStore<E> {
    /// Assigns a role, unless that was done before. Returns what is stored, and whether it is new.
    pub async fn assign(
        &self,
        assignment: &RoleAssignment,
    ) -> Result<(StoredAssignment, bool), IdentityError> {
        let id = assignment_id(assignment);
        let key = &keyspace::role_assignment(id);
        retry(|()| async move {
            let transaction = self.engine.begin().await.map_err(storage_error)?;
            if let Some(row) = transaction.get(key).await.map_err(storage_error)? {
                return Ok(Attempt::Done((StoredAssignment::decode(id, &row)?, false)));
            }
            let mut guards = Vec::new();
            if let Scope::Account(name) | Scope::Service(name, _) | Scope::Resource(name, _, _) =
                &assignment.scope
            {
                match accounts::account(&transaction, name).await?.map(|account| account.stage) {
                    None | Some(AccountStage::Live) => {}
                    Some(AccountStage::Deleting) => return Err(IdentityError::BeingDeleted),
                    Some(AccountStage::Deleted) => return Err(IdentityError::NoSuchAccount),
                }
                guards.push(Guard::Unchanged(keyspace::account(name)));
            }
            if all_rows(&transaction, keyspace::role_assignments()).await?.len() >= MAX_ASSIGNMENTS {
                return Err(IdentityError::TooMany);
            }
            let stored = StoredAssignment { id, assignment: assignment.clone(), created: self.clock.tick() };
            let row = Write::Put(key.clone(), stored.encode());
            let writes = vec![next_version(&transaction).await?, row];
            let outcome = Outcome { reply: (stored, true), guards, writes };
            let committed = commit(&*self.engine, transaction, outcome, SpaceUse::Consumes).await;
            Ok(committed.map_err(ServiceError::from)?)
        })
        .await
    }

    /// Takes a role away. Returns what was assigned. `None`: nothing was.
    pub async fn remove(&self, id: u128) -> Result<Option<StoredAssignment>, ServiceError> {
        let key = &keyspace::role_assignment(id);
        retry(|()| async move {
            let transaction = self.engine.begin().await.map_err(storage_error)?;
            let Some(row) = transaction.get(key).await.map_err(storage_error)? else {
                return Ok(Attempt::Done(None));
            };
            let stored = StoredAssignment::decode(id, &row)?;
            let writes = vec![next_version(&transaction).await?, Write::Delete(key.clone())];
            let outcome = Outcome { reply: Some(stored), guards: Vec::new(), writes };
            commit(&*self.engine, transaction, outcome, SpaceUse::Frees).await.map_err(ServiceError::from)
        })
        .await
    }
}

/// All of them.
pub(super) async fn read<S: Snapshot>(snapshot: &S) -> Result<Vec<StoredAssignment>, ServiceError> {
    let rows = all_rows(snapshot, keyspace::role_assignments()).await?;
    let decode = |(key, row): &(tepui_storage::Key, tepui_storage::Value)| {
        let id = keyspace::role_assignment_id(key).ok_or(ErrorCode::InternalError)?;
        StoredAssignment::decode(id, row)
    };
    rows.iter().map(decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_from_what_is_assigned() {
        let assigned = |who: &str, role: &str, scope: &str, issuer: Option<&str>| {
            assignment_id(&RoleAssignment {
                principal: who.parse().expect("a principal"),
                issuer: issuer.map(str::to_owned),
                role: role.parse().expect("a role"),
                scope: scope.parse().expect("a scope"),
            })
        };
        let reader = "Storage Table Data Reader";
        let one = assigned("oid:A", reader, "/a/table/Orders", None);
        for (case, other, is_same) in [
            ("the same", assigned("oid:A", reader, "/a/table/Orders", None), true),
            ("a table in another case", assigned("oid:a", reader, "/a/table/orders", None), true),
            ("another principal", assigned("sub:A", reader, "/a/table/Orders", None), false),
            ("another role", assigned("oid:A", "Storage Table Delegator", "/a/table/Orders", None), false),
            ("another account", assigned("oid:A", reader, "/A/table/Orders", None), false),
            ("all tables", assigned("oid:A", reader, "/a/table", None), false),
            ("an issuer", assigned("oid:A", reader, "/a/table/Orders", Some("https://i")), false),
        ] {
            assert_eq!(one == other, is_same, "{case}");
        }
    }
}
