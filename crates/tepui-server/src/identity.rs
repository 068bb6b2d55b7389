//! Who asks: accounts and roles, the issuers whose tokens are taken, and the one that the server is itself.

use crate::StartError;
use crate::accounts::AccountDirectory;
use crate::config::{Config, ConfigError};
use crate::data::Data;
use crate::pipeline::{Directory, Verified};
use std::fmt;
use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;
use tepui_identity::{DevelopmentIssuer, Directory as Tokens};
use tepui_model::role::{AssignedRoles, Principal};
use tepui_model::{Clock, Service, TokenFailure};
use tepui_wire::auth::{Challenge, TokenText};

/// Where the development issuer keeps its key, below the data directory.
const KEY_FILE: &str = "identity/dev-issuer.p8";

/// What the server knows about those who ask.
pub(crate) struct Identity {
    pub(crate) accounts: Arc<AccountDirectory>,
    /// Verifies tokens. `None`: none are taken.
    pub(crate) tokens: Option<Arc<Tokens>>,
    /// Makes tokens for development.
    pub(crate) issuer: Option<Arc<DevelopmentIssuer>>,
}

impl Identity {
    /// Asks nobody yet: the server starts although an issuer is down.
    pub(crate) async fn open(
        config: &Config,
        data: &Data,
        accounts: Arc<AccountDirectory>,
    ) -> Result<Self, StartError> {
        let issuer = match config.dev_issuer {
            true => Some(Arc::new(open_issuer(data).await.map_err(StartError::Identity)?)),
            false => None,
        };
        let tokens = match config.oauth {
            _ if !config.takes_tokens() => None,
            Some(crate::config::Oauth::Basic) => Some(Tokens::basic()),
            None => {
                let tokens = Tokens::new(&config.issuers, issuer.as_deref());
                Some(tokens.map_err(|error| StartError::Config(ConfigError(error.to_string())))?)
            }
        };
        Ok(Self { accounts, tokens: tokens.map(Arc::new), issuer })
    }

    /// The same for requests.
    pub(crate) fn directory(&self, clock: &Arc<dyn Clock>) -> ServerDirectory {
        let tenant = self.tokens.as_ref().map(|tokens| tokens.challenge_tenant());
        let challenge = tenant.and_then(|tenant| Challenge::new(AUTHORITY, &tenant).ok()).unwrap_or_default();
        ServerDirectory {
            accounts: Arc::clone(&self.accounts),
            tokens: self.tokens.clone(),
            clock: Arc::clone(clock),
            challenge,
        }
    }
}

/// What challenges name. Clients take the tenant from it, and ask the authority that they were configured with.
const AUTHORITY: &str = "https://login.microsoftonline.com";

/// Tokens and roles, for requests.
pub(crate) struct ServerDirectory {
    accounts: Arc<AccountDirectory>,
    tokens: Option<Arc<Tokens>>,
    clock: Arc<dyn Clock>,
    challenge: Challenge,
}

impl ServerDirectory {
    /// Whether tokens are believed, and everybody who has one may do everything.
    fn believes_everybody(&self) -> bool {
        self.tokens.as_ref().is_some_and(|tokens| tokens.is_basic())
    }
}

impl Directory for ServerDirectory {
    fn verify<'a>(&'a self, token: &'a TokenText, service: Service, account: &'a str) -> Verified<'a> {
        match &self.tokens {
            // Issuers go by the clock of the machine, whatever that of a test bench says.
            Some(tokens) => {
                let now = self.clock.of_machine(self.clock.now());
                Box::pin(tokens.verify(token.as_str(), service, account, now))
            }
            None => Box::pin(ready(Err(TokenFailure::NotAccepted))),
        }
    }

    fn roles(&self, principal: &Principal, account: &str) -> AssignedRoles {
        match self.believes_everybody() {
            true => AssignedRoles::everything(),
            false => self.accounts.current().roles(principal, account),
        }
    }

    fn roles_of_object(&self, object_id: &str, tenant_id: &str, account: &str) -> AssignedRoles {
        match self.believes_everybody() {
            true => AssignedRoles::everything(),
            false => {
                let tokens = self.tokens.as_ref();
                let has_tenant =
                    |issuer: &str| tokens.is_some_and(|tokens| tokens.is_tenant_of(tenant_id, issuer));
                self.accounts.current().roles_of_object(object_id, account, has_tenant)
            }
        }
    }

    fn challenge(&self) -> &Challenge {
        &self.challenge
    }
}

impl fmt::Debug for ServerDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerDirectory")
    }
}

async fn open_issuer(data: &Data) -> std::io::Result<DevelopmentIssuer> {
    match data {
        // Shared storage is refused by `Config::check`; without a directory there is nowhere to keep a key.
        Data::Memory(..) | Data::Shared(_) => DevelopmentIssuer::new(),
        Data::Disk(_, _, directory) => {
            let path = directory.join(KEY_FILE);
            let opened = tokio::task::spawn_blocking(move || DevelopmentIssuer::open(&path)).await;
            opened.map_err(std::io::Error::other)?
        }
    }
}

/// Refuses to believe everybody where others than this machine can ask.
pub(crate) fn check_addresses(
    config: &Config,
    mut addresses: impl Iterator<Item = SocketAddr>,
) -> Result<(), ConfigError> {
    let other = addresses.find(|address| !address.ip().to_canonical().is_loopback());
    match (config.oauth, other) {
        (Some(_), Some(address)) => Err(ConfigError(format!(
            "--oauth basic believes everybody, so that all services must listen on this machine itself (127.0.0.1), not on: {address}"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Oauth;
    use tepui_model::role::{PrincipalName, Role, RoleAssignment, Scope};

    #[test]
    fn everybody_is_believed_on_this_machine_only() {
        for (oauth, addresses, is_good) in [
            (Some(Oauth::Basic), &["127.0.0.1:1", "[::1]:1", "127.0.0.9:2"][..], true),
            (Some(Oauth::Basic), &["127.0.0.1:1", "0.0.0.0:1"], false),
            (Some(Oauth::Basic), &["[::]:1"], false),
            (Some(Oauth::Basic), &["10.0.0.7:1"], false),
            (None, &["0.0.0.0:1"], true),
        ] {
            let config = Config { oauth, ..Config::default() };
            let addresses = addresses.iter().map(|address| address.parse().unwrap());
            assert_eq!(check_addresses(&config, addresses).is_ok(), is_good, "{oauth:?}");
        }
    }

    #[tokio::test]
    async fn roles_for_the_tokens_of_an_issuer_count_for_sas_of_their_owners() {
        const ENTRA: &str = "https://sts.windows.net/72f988bf-86f1-41af-91ab-2d7cd011db47/";
        const TENANT: &str = "72f988bf-86f1-41af-91ab-2d7cd011db47";
        const FIXED: &str = "5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11";
        // As Python's uuid.uuid5(NAMESPACE_URL, …) has it.
        const OF_KEYCLOAK: &str = "20789c55-f750-5031-b072-56cd78940275";
        let settings = |issuer: &str, tenant: Option<&str>| tepui_identity::IssuerSettings {
            issuer: issuer.to_owned(),
            tenant: tenant.map(str::to_owned),
            ..Default::default()
        };
        let given = |name: &str, issuer: Option<&str>| RoleAssignment {
            principal: PrincipalName::Object(name.to_owned()),
            issuer: issuer.map(str::to_owned),
            role: Role::BlobDataReader,
            scope: Scope::Server,
        };
        let unknown = format!("https://unknown.example/{TENANT}/");
        let config = Config {
            issuers: vec![
                settings(ENTRA, None),
                settings("https://issuer.example", None),
                settings("https://dex.example/dex", Some(FIXED)),
            ],
            dev_issuer: true,
            in_memory: true,
            role_assignments: vec![
                given("entra", Some(ENTRA)),
                given("keycloak", Some("https://issuer.example")),
                given("dex", Some("https://dex.example/dex")),
                given("own", Some(DevelopmentIssuer::ISSUER)),
                given("unknown", Some(&unknown)),
                given("any", None),
            ],
            ..Config::default()
        };
        let data = Data::open(&config).await.unwrap();
        let accounts = data.open_accounts(&config).await.unwrap();
        let identity = Identity::open(&config, &data, accounts).await.unwrap();
        let clock: Arc<dyn Clock> = Arc::new(tepui_model::time::SystemClock::new());
        let directory = identity.directory(&clock);
        let own = DevelopmentIssuer::tenant();
        for (object_id, tenants) in [
            ("entra", &[TENANT][..]),
            ("keycloak", &[OF_KEYCLOAK]),
            ("dex", &[FIXED]),
            ("own", &[&own]),
            ("unknown", &[]),
            ("any", &[TENANT, OF_KEYCLOAK, FIXED, &own]),
        ] {
            for tenant in [TENANT, OF_KEYCLOAK, FIXED, &own] {
                let roles = directory.roles_of_object(object_id, tenant, "devstoreaccount1");
                assert_eq!(!roles.is_empty(), tenants.contains(&tenant), "{object_id} {tenant}");
            }
        }
    }

    #[tokio::test]
    async fn tokens_are_taken_only_if_somebody_is_trusted() {
        let data = Data::open(&Config { in_memory: true, ..Config::default() }).await.unwrap();
        let issuer =
            tepui_identity::IssuerSettings { issuer: "https://a.example".to_owned(), ..Default::default() };
        for (config, takes, is_basic, mints) in [
            (Config::default(), false, false, false),
            (Config { oauth: Some(Oauth::Basic), ..Config::default() }, true, true, false),
            (Config { issuers: vec![issuer], ..Config::default() }, true, false, false),
            (Config { dev_issuer: true, ..Config::default() }, true, false, true),
        ] {
            let accounts = data.open_accounts(&config).await.unwrap();
            let identity = Identity::open(&config, &data, accounts).await.unwrap();
            assert_eq!(identity.tokens.is_some(), takes);
            assert_eq!(identity.tokens.is_some_and(|tokens| tokens.is_basic()), is_basic);
            assert_eq!(identity.issuer.is_some(), mints);
        }
    }
}
