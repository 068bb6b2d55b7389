//! All issuers that a server trusts, and the order in which a token is checked: form, issuer, key, signature, lifetime, tenant,
//! audience.

use crate::basic;
use crate::claims::{self, Lifetime};
use crate::counters::Counters;
use crate::development::DevelopmentIssuer;
use crate::guids;
use crate::issuer::{Issuer, NoKey, Timing};
use crate::jws::Jws;
use crate::settings::{InvalidIssuer, IssuerSettings};
use crate::token_cache::{TokenCache, Verified};
use std::sync::Arc;
use tepui_model::role::Principal;
use tepui_model::token::TokenFailure;
use tepui_model::{Service, Timestamp};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// As many tokens are remembered.
const MAX_CACHED: usize = 10_000;
/// Fewer, if what is known of them takes more than this.
const MAX_CACHED_BYTES: usize = 64 * 1024 * 1024;

/// Whose tokens are taken.
pub struct Directory {
    trusted: Trusted,
    counters: Arc<Counters>,
    timing: Timing,
    cache: TokenCache,
}

enum Trusted {
    Issuers(Vec<Arc<Issuer>>),
    /// Everybody who says the right things: see `basic.rs`.
    Everybody,
}

/// What a check ends with if the token is not good.
enum Stop<'a> {
    Refused(TokenFailure),
    /// The issuer may have got a new key.
    KeyUnknown(&'a Arc<Issuer>, Option<String>),
}

impl From<TokenFailure> for Stop<'_> {
    fn from(failure: TokenFailure) -> Self {
        Self::Refused(failure)
    }
}

impl Directory {
    /// Trusts these issuers, and the server's own if there is one. Their keys are asked for by [`keep_keys_fresh`](Self::keep_keys_fresh).
    pub fn new(
        issuers: &[IssuerSettings],
        development: Option<&DevelopmentIssuer>,
    ) -> Result<Self, InvalidIssuer> {
        Self::with_timing(issuers, development, Timing::default())
    }

    /// For tests.
    pub fn with_timing(
        issuers: &[IssuerSettings],
        development: Option<&DevelopmentIssuer>,
        timing: Timing,
    ) -> Result<Self, InvalidIssuer> {
        let counters = Arc::new(Counters::default());
        let mut trusted: Vec<Arc<Issuer>> = Vec::new();
        let configured = issuers.iter().map(|settings| Issuer::new(settings, timing, Arc::clone(&counters)));
        let own = development.map(|own| Ok(Issuer::fixed(own.rules(), own.keys(), Arc::clone(&counters))));
        for issuer in configured.chain(own) {
            let issuer = issuer?;
            let name = &issuer.rules.owner.issuer;
            if trusted.iter().any(|other| other.rules.owner.issuer == *name) {
                return Err(InvalidIssuer(format!("an issuer is given twice: {name}")));
            }
            trusted.push(Arc::new(issuer));
        }
        let cache = TokenCache::new(MAX_CACHED, MAX_CACHED_BYTES);
        Ok(Self { trusted: Trusted::Issuers(trusted), counters, timing, cache })
    }

    /// Believes what tokens say, without looking at their signatures. For the machine of a developer.
    pub fn basic() -> Self {
        Self {
            trusted: Trusted::Everybody,
            counters: Arc::default(),
            timing: Timing::default(),
            cache: TokenCache::new(0, 0),
        }
    }

    /// Whether signatures are not looked at, so that roles mean nothing.
    pub fn is_basic(&self) -> bool {
        matches!(self.trusted, Trusted::Everybody)
    }

    /// The tenant that challenges name: that of the first issuer. A GUID.
    pub fn challenge_tenant(&self) -> String {
        match self.issuers().first() {
            Some(issuer) => issuer.rules.owner.default_tenant(),
            None => guids::of_issuer(basic::ISSUER),
        }
    }

    /// Whether tokens of an issuer are of a tenant, as far as its settings and its URL tell. Those of issuers that are not trusted
    /// are of none.
    pub fn is_tenant_of(&self, tenant_id: &str, issuer: &str) -> bool {
        let mut trusted = self.issuers().iter().map(|trusted| &trusted.rules.owner);
        trusted.any(|rules| rules.issuer == issuer && rules.has_tenant(tenant_id))
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Asks the issuers for their keys, at once and again and again. Does not end.
    pub async fn keep_keys_fresh(self: Arc<Self>) {
        let mut keepers = JoinSet::new();
        for issuer in self.issuers() {
            keepers.spawn(Arc::clone(issuer).keep_fresh());
        }
        // They end with this.
        while keepers.join_next().await.is_some() {}
        std::future::pending().await
    }

    /// Checks a token: that it is good now, and for this service of this account. Who its owner is.
    ///
    /// `now` is the time of the machine, by which issuers live, too. If the key of the token is not known, its issuer is asked; that takes
    /// some seconds at most.
    pub async fn verify(
        &self,
        token: &str,
        service: Service,
        account: &str,
        now: Timestamp,
    ) -> Result<Arc<Principal>, TokenFailure> {
        let verified = match self.check(token, now) {
            Err(Stop::KeyUnknown(issuer, key)) => {
                let again = self.check_with_new_keys(issuer, key, token, now);
                // Who waits long enough is told what is known until then.
                timeout(self.timing.patience, again).await.unwrap_or_else(|_| Err(no_key(issuer)))
            }
            Err(Stop::Refused(failure)) => Err(failure),
            Ok(verified) => Ok(verified),
        };
        self.decide(verified, service, account)
    }

    /// As [`verify`](Self::verify), with the keys that are known.
    pub fn verify_with_known_keys(
        &self,
        token: &str,
        service: Service,
        account: &str,
        now: Timestamp,
    ) -> Result<Arc<Principal>, TokenFailure> {
        let verified = self.check(token, now).map_err(|stop| match stop {
            Stop::Refused(failure) => failure,
            Stop::KeyUnknown(issuer, _) => no_key(issuer),
        });
        self.decide(verified, service, account)
    }

    async fn check_with_new_keys(
        &self,
        issuer: &Arc<Issuer>,
        key: Option<String>,
        token: &str,
        now: Timestamp,
    ) -> Result<Arc<Verified>, TokenFailure> {
        // Twice: a fetch that was under way may have asked before the key was there.
        for _ in 0..2 {
            if !issuer.demand_keys(key.as_deref()).await {
                break;
            }
            match self.check(token, now) {
                Err(Stop::KeyUnknown(..)) => {}
                Err(Stop::Refused(failure)) => return Err(failure),
                Ok(verified) => return Ok(verified),
            }
        }
        Err(no_key(issuer))
    }

    fn decide(
        &self,
        verified: Result<Arc<Verified>, TokenFailure>,
        service: Service,
        account: &str,
    ) -> Result<Arc<Principal>, TokenFailure> {
        let outcome = verified.and_then(|verified| match verified.allowed.is_for(service, account) {
            true => Ok(Arc::clone(&verified.owner)),
            false => Err(TokenFailure::Audience),
        });
        self.counters.count(&outcome);
        outcome
    }

    /// Everything but the audience, which is asked of tokens from the cache, too.
    fn check(&self, token: &str, now: Timestamp) -> Result<Arc<Verified>, Stop<'_>> {
        let now = now.unix_seconds();
        let Trusted::Issuers(issuers) = &self.trusted else {
            return Ok(Arc::new(basic::believe(token, now)?));
        };
        if token.len() > crate::MAX_TOKEN_BYTES {
            return Err(TokenFailure::Form.into());
        }
        let hash = TokenCache::hash(token);
        if let Some(known) = self.cache.get(&hash) {
            if let Err(failure) = known.lifetime.check(now) {
                self.cache.remove(&hash);
                return Err(failure.into());
            }
            self.counters.count_cache_hit();
            return Ok(known);
        }
        let token = Jws::parse(token)?;
        let named = token.claims.get("iss").and_then(serde_json::Value::as_str);
        let issuer = issuers.iter().find(|issuer| Some(issuer.rules.owner.issuer.as_str()) == named);
        let issuer = issuer.ok_or(TokenFailure::Issuer)?;
        let key = issuer.verifying_key(&token).map_err(|why| match why {
            NoKey::Unknown => Stop::KeyUnknown(issuer, token.key.clone()),
            NoKey::BadSignature => TokenFailure::Signature.into(),
        })?;
        let rules = &issuer.rules;
        let lifetime = Lifetime::of(&token.claims, rules.skew_seconds)?;
        lifetime.check(now)?;
        if claims::has_too_many_groups(&token.claims) {
            issuer.tell_of_groups();
        }
        let verified = Arc::new(Verified {
            owner: Arc::new(rules.owner.owner(&token.claims)?),
            allowed: rules.audiences.allowed_by(token.claims.get("aud")),
            lifetime,
            key: Arc::downgrade(&key),
        });
        self.cache.put(hash, Arc::clone(&verified));
        Ok(verified)
    }

    fn issuers(&self) -> &[Arc<Issuer>] {
        match &self.trusted {
            Trusted::Issuers(issuers) => issuers,
            Trusted::Everybody => &[],
        }
    }
}

/// What to say of a key that is not known.
fn no_key(issuer: &Issuer) -> TokenFailure {
    match issuer.tells_its_keys() {
        true => TokenFailure::UnknownKey,
        false => TokenFailure::KeysUnavailable,
    }
}
