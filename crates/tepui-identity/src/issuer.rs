//! One issuer: its keys, and when they are asked for again.
//!
//! There is one fetch at a time. It runs in a task of its own, so that a request that stops waiting does not end it, and no lock is
//! held meanwhile. Keys stay as they are while a fetch fails.

use crate::counters::Counters;
use crate::keys::{Key, KeySet};
use crate::settings::{InvalidIssuer, IssuerSettings, Rules};
use crate::source::{self, Source, Stamp};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// How long things take. The defaults are right; tests take less.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// A fetch is given up after this.
    pub fetch: Duration,
    /// A request waits for keys for so long at most.
    pub patience: Duration,
    /// Tokens with unknown keys cause one fetch in this time.
    pub between_demands: Duration,
    /// How long keys are kept that do not say how long they are good, and the least and the most that they may say.
    pub refresh: Duration,
    pub refresh_least: Duration,
    pub refresh_most: Duration,
    /// After a fetch that failed, the next one begins after this, then twice as much, up to the last.
    pub retry_first: Duration,
    pub retry_most: Duration,
    /// How often a file is looked at.
    pub file: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            fetch: Duration::from_secs(10),
            patience: Duration::from_secs(5),
            between_demands: Duration::from_secs(60),
            refresh: Duration::from_secs(3600),
            refresh_least: Duration::from_secs(300),
            refresh_most: Duration::from_secs(24 * 3600),
            retry_first: Duration::from_secs(1),
            retry_most: Duration::from_secs(30),
            file: Duration::from_secs(5),
        }
    }
}

pub(crate) struct Issuer {
    pub(crate) rules: Rules,
    source: Source,
    timing: Timing,
    counters: Arc<Counters>,
    keys: RwLock<Arc<KeySet>>,
    fetching: Mutex<Fetching>,
    /// Counts the fetches that ended.
    ended: watch::Sender<u64>,
    /// Groups that were left out are told once.
    told_of_groups: AtomicBool,
}

#[derive(Default)]
struct Fetching {
    under_way: bool,
    /// When a token with an unknown key caused a fetch.
    last_demand: Option<Instant>,
    /// How the last one ended: how long its keys are good, if it succeeded. `None` before the first.
    last: Option<Option<Duration>>,
}

impl Issuer {
    pub(crate) fn new(
        settings: &IssuerSettings,
        timing: Timing,
        counters: Arc<Counters>,
    ) -> Result<Self, InvalidIssuer> {
        Ok(Self::with_keys(settings.rules()?, settings.source()?, KeySet::default(), timing, counters))
    }

    /// One that never changes its keys.
    pub(crate) fn fixed(rules: Rules, keys: KeySet, counters: Arc<Counters>) -> Self {
        Self::with_keys(rules, Source::Fixed, keys, Timing::default(), counters)
    }

    fn with_keys(
        rules: Rules,
        source: Source,
        keys: KeySet,
        timing: Timing,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            rules,
            source,
            timing,
            counters,
            keys: RwLock::new(Arc::new(keys)),
            fetching: Mutex::default(),
            ended: watch::Sender::new(0),
            told_of_groups: AtomicBool::new(false),
        }
    }

    pub(crate) fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.keys.read())
    }

    /// Whether the last fetch brought keys. Also for keys that need none.
    pub(crate) fn tells_its_keys(&self) -> bool {
        matches!(self.source, Source::Fixed) || self.fetching.lock().last.flatten().is_some()
    }

    /// Asks for the keys because of a token whose key is unknown, unless that was done lately, and waits for the end of it. A fetch
    /// that is under way is waited for instead. Whether the keys may be others now.
    pub(crate) async fn demand_keys(self: &Arc<Self>, key: Option<&str>) -> bool {
        if matches!(self.source, Source::Fixed) {
            return false;
        }
        let mut ended = {
            let mut fetching = self.fetching.lock();
            if !fetching.under_way {
                let is_recent = |at: Instant| at.elapsed() < self.timing.between_demands;
                if fetching.last_demand.is_some_and(is_recent) {
                    return false;
                }
                fetching.last_demand = Some(Instant::now());
                // Others write what is in it, so no more than its beginning is told, escaped.
                let key = key.map(|key| key.chars().take(64).collect::<String>());
                tracing::info!(
                    issuer = self.rules.name,
                    ?key,
                    "a token has an unknown key: asking its issuer for keys"
                );
                self.begin(&mut fetching)
            } else {
                self.ended.subscribe()
            }
        };
        // An error means that the fetch has ended with the issuer itself.
        ended.changed().await.is_ok()
    }

    /// Begins a fetch. Whoever waits for what is returned is told of its end.
    fn begin(self: &Arc<Self>, fetching: &mut Fetching) -> watch::Receiver<u64> {
        let ended = self.ended.subscribe();
        fetching.under_way = true;
        let fetch = Fetch { issuer: Arc::clone(self), brought: None };
        tokio::spawn(fetch.run());
        ended
    }

    /// Asks for the keys, or waits for the fetch that is under way. How long they are good, or `None` if it failed.
    async fn renew(self: &Arc<Self>) -> Option<Duration> {
        let mut ended = {
            let mut fetching = self.fetching.lock();
            if fetching.under_way { self.ended.subscribe() } else { self.begin(&mut fetching) }
        };
        let _ = ended.changed().await;
        self.fetching.lock().last.flatten()
    }

    /// Keeps the keys fresh. Does not end.
    pub(crate) async fn keep_fresh(self: Arc<Self>) {
        match &self.source {
            Source::Fixed => std::future::pending().await,
            Source::File(path) => {
                let mut seen: Option<Stamp> = None;
                loop {
                    let stamp = source::stamp(path.clone()).await;
                    // A file that is wrong is told once, and read again when it has changed.
                    if seen != Some(stamp) {
                        self.renew().await;
                        seen = Some(stamp);
                    }
                    sleep(self.timing.file).await;
                }
            }
            Source::Discovery { .. } | Source::Keys { .. } => {
                let mut retry = self.timing.retry_first;
                loop {
                    match self.renew().await {
                        Some(good_for) => {
                            retry = self.timing.retry_first;
                            sleep(good_for).await;
                        }
                        None => {
                            sleep(retry).await;
                            retry = (retry * 2).min(self.timing.retry_most);
                        }
                    }
                }
            }
        }
    }

    /// Takes keys that were fetched. How long they are good.
    fn take(&self, keys: KeySet, max_age: Option<Duration>) -> Duration {
        let good_for = max_age.map_or(self.timing.refresh, |age| {
            age.clamp(self.timing.refresh_least, self.timing.refresh_most)
        });
        if keys.is_empty() {
            tracing::warn!(issuer = self.rules.name, "an issuer has no keys: all its tokens are refused");
        }
        let mut known = self.keys.write();
        let keys = keys.keeping(&known);
        tracing::debug!(issuer = self.rules.name, keys = keys.len(), "keys of an issuer");
        *known = Arc::new(keys);
        good_for
    }

    /// Tells once that groups were left out of a token, and so do not count.
    pub(crate) fn tell_of_groups(&self) {
        if !self.told_of_groups.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                issuer = self.rules.name,
                "a token has too many groups to name them: roles of groups do not count for its owner"
            );
        }
    }

    /// The key that a signature was made with, among those of its name that are for its algorithm.
    pub(crate) fn verifying_key(&self, token: &crate::jws::Jws<'_>) -> Result<Arc<Key>, NoKey> {
        let keys = self.keys();
        let mut named = keys.named(token.key.as_deref()).peekable();
        if named.peek().is_none() {
            return Err(NoKey::Unknown);
        }
        let is_it = |key: &&Arc<Key>| {
            key.algorithm == token.algorithm && key.verifies(token.signed, &token.signature)
        };
        named.find(is_it).cloned().ok_or(NoKey::BadSignature)
    }
}

/// Why no key verifies a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoKey {
    /// There is none of this name.
    Unknown,
    BadSignature,
}

/// A fetch. However it ends, those who wait are told.
struct Fetch {
    issuer: Arc<Issuer>,
    brought: Option<Duration>,
}

impl Fetch {
    async fn run(mut self) {
        let issuer = Arc::clone(&self.issuer);
        let read = timeout(issuer.timing.fetch, issuer.source.read()).await;
        let read = read.unwrap_or_else(|_| Err("it took too long".to_owned()));
        issuer.counters.count_fetch(read.is_ok());
        match read {
            Ok(Some((keys, max_age))) => self.brought = Some(issuer.take(keys, max_age)),
            Ok(None) => {}
            Err(error) => {
                let known = issuer.keys().len();
                tracing::warn!(
                    issuer = issuer.rules.name,
                    error,
                    known,
                    "the keys of an issuer cannot be read"
                );
            }
        }
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        let mut fetching = self.issuer.fetching.lock();
        fetching.under_way = false;
        fetching.last = Some(self.brought);
        drop(fetching);
        self.issuer.ended.send_modify(|ended| *ended = ended.wrapping_add(1));
    }
}
