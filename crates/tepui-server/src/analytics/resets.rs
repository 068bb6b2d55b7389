//! Which requests a reset of a test bench has made undone, so that nothing is written about them later.
//!
//! A restore of a snapshot is like a reset of everything, and the deletion of an account like a reset of that account.

use std::collections::HashMap;
use std::time::Instant;
use tepui_service::test_bench::{ResetScope, ServiceKind};
use tepui_wire::address::Service;

/// The most accounts whose last resets are known. Of those before, requests that are still under way are written down.
const MAX_ACCOUNTS: usize = 10_000;

/// What is written about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    LogLine,
    Metrics,
}

impl Written {
    /// The service that it is stored in, whichever the request was for.
    fn stored_in(self) -> Service {
        match self {
            Self::LogLine => Service::Blob,
            Self::Metrics => Service::Table,
        }
    }

    /// Whether a reset deletes what is written about the requests for a service of an account.
    pub(super) fn is_in(self, scope: &ResetScope, account: &str, service: Service) -> bool {
        scope.account.as_deref().is_none_or(|only| only == account)
            && (includes(scope, service) || includes(scope, self.stored_in()))
    }
}

/// When services were reset last, and accounts deleted.
#[derive(Debug, Default)]
pub(super) struct Resets {
    of_all: LastResets,
    of_accounts: HashMap<String, LastResets>,
}

type LastResets = [Option<Instant>; 3];

impl Resets {
    pub(super) fn note(&mut self, scope: &ResetScope, at: Instant) {
        let last = match &scope.account {
            None => &mut self.of_all,
            Some(account) => self.of_accounts.entry(account.clone()).or_default(),
        };
        for service in [Service::Blob, Service::Queue, Service::Table] {
            if includes(scope, service) {
                last[service as usize] = Some(at);
            }
        }
        if scope.account.is_none() && scope.service.is_none() {
            self.of_accounts.clear();
        }
        if self.of_accounts.len() > MAX_ACCOUNTS {
            let oldest = self.of_accounts.iter().min_by_key(|(_, last)| last.iter().max());
            if let Some(account) = oldest.map(|(account, _)| account.clone()) {
                self.of_accounts.remove(&account);
            }
        }
    }

    /// Whether something of this time was before a reset.
    pub(super) fn is_undone(&self, written: Written, account: &str, service: Service, at: Instant) -> bool {
        let last = [Some(&self.of_all), self.of_accounts.get(account)];
        let of_services = last
            .into_iter()
            .flatten()
            .flat_map(|last| [service, written.stored_in()].map(|service| last[service as usize]));
        of_services.flatten().any(|reset| at < reset)
    }
}

fn includes(scope: &ResetScope, service: Service) -> bool {
    let kind = match service {
        Service::Blob => ServiceKind::Blob,
        Service::Queue => ServiceKind::Queue,
        Service::Table => ServiceKind::Table,
    };
    scope.service.is_none_or(|only| only == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn scope(account: Option<&str>, service: Option<ServiceKind>) -> ResetScope {
        ResetScope { account: account.map(str::to_owned), service }
    }

    #[test]
    fn what_a_reset_undoes() {
        use Service::{Blob, Queue, Table};
        use Written::{LogLine, Metrics};
        let before = Instant::now();
        let (reset, after) = (before + Duration::from_secs(1), before + Duration::from_secs(2));
        let kinds = (Some(ServiceKind::Blob), Some(ServiceKind::Queue), Some(ServiceKind::Table));
        for (case, scope, written, account, service, expected) in [
            ("everything", scope(None, None), LogLine, "a", Queue, true),
            ("of the account", scope(Some("a"), None), Metrics, "a", Queue, true),
            ("of another account", scope(Some("b"), None), Metrics, "a", Queue, false),
            ("of the service", scope(None, kinds.1), LogLine, "a", Queue, true),
            ("of another service", scope(None, kinds.1), LogLine, "a", Table, false),
            ("of the one that has logs", scope(None, kinds.0), LogLine, "a", Table, true),
            ("of the one that has no metrics", scope(None, kinds.0), Metrics, "a", Table, false),
            ("of the one that has metrics", scope(Some("a"), kinds.2), Metrics, "a", Blob, true),
            ("of the one that has no logs", scope(Some("a"), kinds.2), LogLine, "a", Blob, false),
        ] {
            let mut resets = Resets::default();
            assert!(!resets.is_undone(written, account, service, before), "{case}");
            resets.note(&scope, reset);
            assert_eq!(written.is_in(&scope, account, service), expected, "{case}");
            assert_eq!(resets.is_undone(written, account, service, before), expected, "{case}");
            assert!(!resets.is_undone(written, account, service, after), "{case}");
        }
    }

    #[test]
    fn the_oldest_resets_are_forgotten() {
        let (mut resets, began) = (Resets::default(), Instant::now());
        for number in 0..=MAX_ACCOUNTS {
            let at = began + Duration::from_secs(1 + number as u64);
            resets.note(&scope(Some(&number.to_string()), None), at);
        }
        let is_undone = |account: &str| resets.is_undone(Written::LogLine, account, Service::Blob, began);
        assert!(!is_undone("0") && is_undone("1") && is_undone(&MAX_ACCOUNTS.to_string()));
        resets.note(&ResetScope::default(), began);
        assert!(resets.of_accounts.is_empty());
    }
}
