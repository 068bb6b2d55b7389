//! The Blob service of all accounts of a server.

use super::containers;
use crate::catalogue::Catalogue;
use crate::record::StoredContainer;
use crate::settings::Settings;
use crate::transact::{Attempt, Outcome, commit, engine_error};
use std::sync::Arc;
use std::time::Duration;
use tepui_engine::{Engine, EngineError};
use tepui_extents::Extents;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{BlobServiceProperties, Changed, ContainerName, Operation, PublicAccess, Reply};
use tepui_model::{Clock, ErrorCode, ServiceError, Timestamp};

/// How the Blob service behaves where there is a choice.
#[derive(Debug, Clone, Default)]
pub struct BlobOptions {
    /// How long the name of a deleted container cannot be used again. Azure takes some 30 s; here it is at once.
    pub deleted_name_rests: Duration,
    /// How long deleted containers can be restored. `None`: deleted is deleted.
    pub container_retention: Option<Duration>,
}

/// Who asks, and what they may do.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    pub account: &'a str,
    /// How far the permission for the operation goes.
    pub allowed: Allowed,
}

/// Numbers that nobody can guess: ids of leases and copies.
pub type Chance = Arc<dyn Fn() -> u128 + Send + Sync>;

/// How often an operation is decided again before the caller is told that the server is busy. Each time
/// something that it rests on has changed.
const MAX_ATTEMPTS: u32 = 1000;

pub struct BlobService<E, X> {
    engine: Arc<E>,
    #[expect(dead_code, reason = "contents come with the next step")]
    extents: Arc<X>,
    clock: Arc<dyn Clock>,
    chance: Chance,
    options: BlobOptions,
    catalogue: Catalogue,
    settings: Settings<BlobServiceProperties>,
}

/// What decisions rest on beside the operation.
pub(super) struct Context<'a, S> {
    pub(super) snapshot: &'a S,
    pub(super) catalogue: &'a Catalogue,
    pub(super) account: &'a str,
    pub(super) allowed: Allowed,
    /// Later than every moment that a decision was given before.
    pub(super) now: Timestamp,
    pub(super) chance: &'a (dyn Fn() -> u128 + Send + Sync),
    pub(super) options: &'a BlobOptions,
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    pub fn new(
        engine: Arc<E>,
        extents: Arc<X>,
        clock: Arc<dyn Clock>,
        chance: Chance,
        options: BlobOptions,
    ) -> Self {
        let (catalogue, settings) = (Catalogue::default(), Settings::of_service("blob"));
        Self { engine, extents, clock, chance, options, catalogue, settings }
    }

    pub async fn execute(&self, caller: Caller<'_>, operation: &Operation) -> Result<Reply, ServiceError> {
        for _ in 0..MAX_ATTEMPTS {
            let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
            let context = self.context(&snapshot, caller);
            let outcome = self.decide(&context, operation).await?;
            match commit(&*self.engine, &snapshot, outcome).await? {
                Attempt::Done(reply) => {
                    if matches!(operation, Operation::SetServiceProperties(_)) {
                        self.settings.forget(caller.account);
                    }
                    return Ok(reply);
                }
                Attempt::Again => {}
            }
        }
        Err(ErrorCode::ServerBusy.into())
    }

    fn context<'a>(&'a self, snapshot: &'a E::Snapshot, caller: Caller<'a>) -> Context<'a, E::Snapshot> {
        Context {
            snapshot,
            catalogue: &self.catalogue,
            account: caller.account,
            allowed: caller.allowed,
            now: self.clock.tick(),
            chance: &*self.chance,
            options: &self.options,
        }
    }

    async fn decide(
        &self,
        context: &Context<'_, E::Snapshot>,
        operation: &Operation,
    ) -> Result<Outcome<Reply>, ServiceError> {
        match operation {
            Operation::GetServiceProperties => {
                let properties = self.settings.read(context.snapshot, context.account).await?;
                Ok(Outcome::read(Reply::ServiceProperties(Box::new(properties))))
            }
            Operation::SetServiceProperties(change) => {
                let writes = vec![self.settings.change(context.snapshot, context.account, change).await?];
                Ok(Outcome { reply: Reply::ServicePropertiesSet, guards: Vec::new(), writes })
            }
            Operation::GetServiceStats => Ok(Outcome::read(Reply::ServiceStats { last_sync: context.now })),
            Operation::GetAccountInformation => Ok(Outcome::read(Reply::AccountInformation)),
            Operation::ListContainers(query) => {
                containers::list(context, query).await.map(Reply::Containers).map(Outcome::read)
            }
            Operation::CreateContainer { container, metadata, public_access, encryption } => {
                containers::create(context, container, metadata, *public_access, encryption).await
            }
            Operation::GetContainer { container, preconditions, .. } => {
                let container = containers::get(context, container, preconditions).await?;
                require_public(&container, context.allowed)?;
                let properties = containers::view(&container, context.now);
                Ok(Outcome::read(Reply::Container(Box::new(properties))))
            }
            Operation::SetContainerMetadata { container, metadata, preconditions } => {
                let set = |stored: &mut StoredContainer| stored.metadata = metadata.clone();
                let reply = Reply::ContainerMetadataSet;
                containers::change(context, container, preconditions, reply, set).await
            }
            Operation::GetContainerAcl { container, preconditions } => {
                let container = containers::get(context, container, preconditions).await?;
                Ok(Outcome::read(Reply::ContainerAcl {
                    changed: Changed(container.changed),
                    public_access: container.public_access,
                    identifiers: container.acl,
                }))
            }
            Operation::SetContainerAcl { container, public_access, identifiers, preconditions } => {
                let set = containers::set_acl(*public_access, identifiers);
                containers::change(context, container, preconditions, Reply::ContainerAclSet, set).await
            }
            Operation::LeaseContainer { container, action, conditions } => {
                containers::lease(context, container, *action, conditions).await
            }
            Operation::DeleteContainer { container, preconditions } => {
                containers::delete(context, container, preconditions).await
            }
            Operation::RestoreContainer { container, deleted, deleted_version } => {
                containers::restore(context, container, deleted, deleted_version).await
            }
            Operation::NotImplemented(what) => Err(what.code().into()),
            // What this service does not do yet.
            _ => Err(ErrorCode::NotImplemented.into()),
        }
    }

    /// Fails if there is no such container.
    pub async fn require_container(
        &self,
        account: &str,
        container: &ContainerName,
    ) -> Result<(), ServiceError> {
        self.container(account, container).await.map(drop)
    }

    /// The stored access policy `id` of a container, if there is one.
    pub async fn signed_identifier(
        &self,
        account: &str,
        container: &ContainerName,
        id: &str,
    ) -> Result<Option<SignedIdentifier>, ServiceError> {
        match self.container(account, container).await {
            Ok(container) => Ok(container.acl.into_iter().find(|identifier| identifier.id == id)),
            Err(error) if error.code == ErrorCode::ContainerNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn container(
        &self,
        account: &str,
        container: &ContainerName,
    ) -> Result<StoredContainer, ServiceError> {
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
        let context = self.context(&snapshot, Caller { account, allowed: Allowed::Fully });
        containers::find(&context, container).await.map(|(_, container)| container)
    }

    /// The service properties of an account, as they are asked for with every request: changes made
    /// by this process hold at once, those of another after a few seconds.
    pub async fn service_properties(
        &self,
        account: &str,
    ) -> Result<Arc<BlobServiceProperties>, ServiceError> {
        self.settings.of_account(&*self.engine, account).await
    }

    /// Whether the engine takes writes now.
    pub fn health(&self) -> Result<(), EngineError> {
        self.engine.health()
    }
}

/// Fails if the caller may only use what is open to everybody, and the container is not.
pub(super) fn require_public(container: &StoredContainer, allowed: Allowed) -> Result<(), ErrorCode> {
    let open = match (allowed, container.public_access) {
        (Allowed::IfPublic(PublicAccess::Blob), access) => access.is_some(),
        (Allowed::IfPublic(PublicAccess::Container), access) => access == Some(PublicAccess::Container),
        (Allowed::Fully | Allowed::IfAbsent, _) => true,
    };
    if open { Ok(()) } else { Err(ErrorCode::ResourceNotFound) }
}
