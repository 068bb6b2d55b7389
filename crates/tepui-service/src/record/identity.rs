//! Records of accounts and role assignments.

use super::{Kind, Reader, Writer, corrupt};
use crate::identity::{
    AccountOrigin, AccountRecord, AccountStage, DelegationSecret, StoredAssignment, StoredKey, Switch,
};
use bytes::Bytes;
use tepui_model::ServiceError;
use tepui_model::account::AccountKey;
use tepui_model::role::RoleAssignment;

impl AccountStage {
    fn number(self) -> u64 {
        match self {
            Self::Live => 0,
            Self::Deleting => 1,
            Self::Deleted => 2,
        }
    }

    fn of(number: u64) -> Option<Self> {
        [Self::Live, Self::Deleting, Self::Deleted].into_iter().find(|stage| stage.number() == number)
    }
}

impl AccountRecord {
    pub(crate) fn encode(&self) -> Bytes {
        let Self { stage, origin, created, changed, keys, disabled, allow_shared_keys, delegation } = self;
        let mut out = Writer::new(Kind::Account);
        out.number(stage.number());
        out.flag(*origin == AccountOrigin::Created);
        out.timestamp(*created);
        out.timestamp(*changed);
        for key in keys {
            out.optional(key.as_ref(), |out, StoredKey { key, created, replaces }| {
                out.bytes(key.bytes());
                out.timestamp(*created);
                out.optional(replaces.as_ref(), |out, sha256| out.bytes(sha256));
            });
        }
        for switch in [disabled, allow_shared_keys] {
            out.optional(switch.as_ref(), |out, Switch { value, configured }| {
                out.flag(*value);
                out.flag(*configured);
            });
        }
        out.optional(delegation.as_ref(), |out, DelegationSecret { secret, since }| {
            out.bytes(secret.bytes());
            out.timestamp(*since);
        });
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        Self::read(bytes).ok_or_else(|| corrupt(Kind::Account))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes, Kind::Account)?;
        let stage = AccountStage::of(from.number()?)?;
        let origin = if from.flag()? { AccountOrigin::Created } else { AccountOrigin::Configured };
        let (created, changed) = (from.timestamp()?, from.timestamp()?);
        let mut key = || {
            from.optional(|from| {
                let key = AccountKey::new(from.bytes()?.to_vec());
                let created = from.timestamp()?;
                let replaces = from.optional(|from| from.bytes()?.try_into().ok())?;
                Some(StoredKey { key, created, replaces })
            })
        };
        let keys = [key()?, key()?];
        let mut switch =
            || from.optional(|from| Some(Switch { value: from.flag()?, configured: from.flag()? }));
        let (disabled, allow_shared_keys) = (switch()?, switch()?);
        let delegation = from.optional(|from| {
            let secret = AccountKey::new(from.bytes()?.to_vec());
            Some(DelegationSecret { secret, since: from.timestamp()? })
        })?;
        Some(Self { stage, origin, created, changed, keys, disabled, allow_shared_keys, delegation })
    }
}

/// Only the stage of an account, which is all that other operations need.
pub(crate) fn account_stage(bytes: &[u8]) -> Result<AccountStage, ServiceError> {
    let stage = Reader::new(bytes, Kind::Account).and_then(|mut from| AccountStage::of(from.number()?));
    stage.ok_or_else(|| corrupt(Kind::Account))
}

impl StoredAssignment {
    pub(crate) fn encode(&self) -> Bytes {
        let Self { assignment, created, .. } = self;
        let mut out = Writer::new(Kind::RoleAssignment);
        out.timestamp(*created);
        out.text(&assignment.principal.to_string());
        out.text(assignment.role.id());
        out.text(&assignment.scope.to_string());
        out.optional(assignment.issuer.as_deref(), Writer::text);
        out.finish()
    }

    /// The id is in the key.
    pub(crate) fn decode(id: u128, bytes: &[u8]) -> Result<Self, ServiceError> {
        Self::read(id, bytes).ok_or_else(|| corrupt(Kind::RoleAssignment))
    }

    fn read(id: u128, bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes, Kind::RoleAssignment)?;
        let created = from.timestamp()?;
        let principal = from.str()?.parse().ok()?;
        let role = from.str()?.parse().ok()?;
        let scope = from.str()?.parse().ok()?;
        let issuer = from.optional(Reader::text)?;
        Some(Self { id, assignment: RoleAssignment { principal, issuer, role, scope }, created })
    }
}

pub(crate) fn encode_secret(secret: &AccountKey) -> Bytes {
    let mut out = Writer::new(Kind::Secret);
    out.bytes(secret.bytes());
    out.finish()
}

pub(crate) fn decode_secret(bytes: &[u8]) -> Result<AccountKey, ServiceError> {
    let secret = Reader::new(bytes, Kind::Secret).and_then(|mut from| Some(from.bytes()?.to_vec()));
    secret.map(AccountKey::new).ok_or_else(|| corrupt(Kind::Secret))
}
