//! Faults for tests: rules that make requests fail, take long, or lose their connection.
//!
//! A server without a test bench has none, and one without rules asks one atomic number for each request.

use crate::ids::mix;
use crate::pipeline::OperationKind;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tepui_model::operation::Kind;
use tepui_model::{ErrorCode, ServiceError, blob, queue, table};
use tepui_wire::address::{Service, Target};
use tepui_wire::percent;

/// What a rule says, as the admin API has it. Requests have to match all that is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct FaultRule {
    /// `table`, `queue` or `blob`.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    /// A name of Storage Analytics.
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    /// The table, queue or container.
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    /// How the path after the account begins, with a slash.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The first call that is hit, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    nth: Option<u64>,
    /// How many calls are hit at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// The share of calls that is hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    /// Chooses which calls those are.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(default)]
    when: When,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FaultError>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

/// Whether a fault comes before the work of a request or after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum When {
    #[default]
    Before,
    After,
}

/// An error of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultError {
    code: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// What hits one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) when: When,
    pub(crate) delay: Duration,
    pub(crate) error: Option<ServiceError>,
    pub(crate) cut: bool,
}

const MAX_DELAY_MS: u64 = 10 * 60 * 1000;
const MAX_TEXT_BYTES: usize = 2048;

impl FaultRule {
    /// Fails if the rule could never hit, or would do nothing. The message is for people.
    fn check(&self) -> Result<Fault, String> {
        let texts = [&self.service, &self.operation, &self.account, &self.resource, &self.path];
        if texts.into_iter().flatten().any(|text| text.is_empty() || text.len() > MAX_TEXT_BYTES) {
            return Err(format!("What a request has to match has 1 to {MAX_TEXT_BYTES} bytes."));
        }
        let service = self.service.as_deref();
        if service.is_some_and(|name| !["table", "queue", "blob"].contains(&name)) {
            return Err(format!("service is table, queue or blob: {}.", service.unwrap_or_default()));
        }
        if let Some(operation) = &self.operation {
            check_operation(service, operation)?;
        }
        if self.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            return Err("path begins with a slash: it is what comes after the account.".to_owned());
        }
        if self.nth == Some(0) || self.count == Some(0) {
            return Err("nth and count are 1 or more.".to_owned());
        }
        if self.share.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
            return Err("share is more than 0 and not more than 1.".to_owned());
        }
        if self.seed.is_some() && self.share.is_none() {
            return Err("seed is for share, which is not given.".to_owned());
        }
        if self.delay_ms.is_some_and(|delay| !(1..=MAX_DELAY_MS).contains(&delay)) {
            return Err(format!("delayMs is 1 to {MAX_DELAY_MS}."));
        }
        match (&self.error, self.cut, self.delay_ms) {
            (Some(_), true, _) => return Err("A request has an error or is cut, not both.".to_owned()),
            (None, false, None) => {
                return Err("A rule has an error, cut, delayMs, or delayMs and one of these.".to_owned());
            }
            _ => {}
        }
        Ok(Fault {
            when: self.when,
            delay: Duration::from_millis(self.delay_ms.unwrap_or(0)),
            error: self.error.as_ref().map(FaultError::check).transpose()?,
            cut: self.cut,
        })
    }

    fn matches(&self, request: &Request<'_>) -> bool {
        let is = |wanted: &Option<String>, given: &str| wanted.as_ref().is_none_or(|wanted| wanted == given);
        is(&self.service, request.service.name())
            && is(&self.operation, request.operation)
            && is(&self.account, request.account)
            && is(&self.resource, resource_of(&request.path))
            && self.path.as_ref().is_none_or(|prefix| request.path.starts_with(prefix.as_str()))
    }

    /// Whether it hits a call that matches, the first being 1, after so many hits.
    fn hits(&self, call: u64, hits: u64) -> bool {
        // The nth call means that one.
        let count = self.count.unwrap_or(if self.nth.is_some() { 1 } else { u64::MAX });
        let is_chosen = self.share.is_none_or(|share| {
            let random = mix(self.seed.unwrap_or(0) ^ mix(call));
            (random >> 11) as f64 / ((1u64 << 53) as f64) < share
        });
        call >= self.nth.unwrap_or(1) && hits < count && is_chosen
    }
}

impl FaultError {
    fn check(&self) -> Result<ServiceError, String> {
        let code = ErrorCode::ALL.iter().find(|code| code.name() == self.code);
        let Some(code) = code else {
            return Err(format!("There is no such error code: {}. The case matters.", cut(&self.code)));
        };
        let mut error = ServiceError::new(*code);
        if let Some(status) = self.status {
            if !(400..=599).contains(&status) {
                return Err(format!("The status of an error is 400 to 599: {status}."));
            }
            error = error.with_status(status);
        }
        match &self.message {
            Some(message) if message.len() > MAX_TEXT_BYTES => {
                Err(format!("The message has {MAX_TEXT_BYTES} bytes at most."))
            }
            Some(message) => Ok(error.with_message(message)),
            None => Ok(error),
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Fails if a service, or all of them, have no operation of this name. The message is for people.
pub(crate) fn check_operation(service: Option<&str>, operation: &str) -> Result<(), String> {
    let known = operations_of(service);
    match known.contains(&operation) {
        true => Ok(()),
        false => {
            Err(format!("There is no such operation: {}. There is {}.", cut(operation), known.join(", ")))
        }
    }
}

/// The names of the operations of a service, or of all.
fn operations_of(service: Option<&str>) -> Vec<&'static str> {
    fn names<K: Kind + 'static>(kinds: &[K]) -> impl Iterator<Item = &'static str> {
        kinds.iter().map(|kind| kind.name())
    }
    let of = |name: &str| service.is_none_or(|service| service == name);
    let tables = of("table").then(|| names(table::OperationKind::ALL));
    let queues = of("queue").then(|| names(queue::OperationKind::ALL));
    let blobs = of("blob").then(|| names(blob::OperationKind::ALL));
    let mut all: Vec<&str> = tables.into_iter().flatten().collect();
    all.extend(queues.into_iter().flatten());
    all.extend(blobs.into_iter().flatten());
    all.sort_unstable();
    all.dedup();
    all
}

/// The first part of a path, without the keys of an entity.
fn resource_of(path: &str) -> &str {
    let part = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    part.split('(').next().unwrap_or_default()
}

/// What rules look at.
struct Request<'a> {
    service: Service,
    operation: &'static str,
    account: &'a str,
    /// After the account, decoded, with a slash in front.
    path: String,
}

/// The rules of a server.
#[derive(Default)]
pub(crate) struct Faults {
    count: AtomicUsize,
    rules: Mutex<Rules>,
}

#[derive(Default)]
struct Rules {
    last_id: u64,
    list: Vec<StoredRule>,
}

struct StoredRule {
    state: RuleState,
    fault: Fault,
}

/// A rule, and what has become of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RuleState {
    pub(crate) id: u64,
    #[serde(flatten)]
    rule: FaultRule,
    /// Requests that matched.
    calls: u64,
    /// Those that were hit.
    hits: u64,
}

/// Why a rule was not added or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RuleError {
    Invalid(String),
    NotFound,
    TooMany,
}

impl Faults {
    pub(crate) const MAX_RULES: usize = 1000;

    pub(crate) fn add(&self, rule: FaultRule) -> Result<RuleState, RuleError> {
        let fault = rule.check().map_err(RuleError::Invalid)?;
        let mut rules = self.rules.lock();
        if rules.list.len() == Self::MAX_RULES {
            return Err(RuleError::TooMany);
        }
        rules.last_id += 1;
        let state = RuleState { id: rules.last_id, rule, calls: 0, hits: 0 };
        rules.list.push(StoredRule { state: state.clone(), fault });
        self.count.store(rules.list.len(), Ordering::Release);
        Ok(state)
    }

    /// Puts another rule in the place of one, and counts from zero.
    pub(crate) fn replace(&self, id: u64, rule: FaultRule) -> Result<RuleState, RuleError> {
        let fault = rule.check().map_err(RuleError::Invalid)?;
        let mut rules = self.rules.lock();
        let stored = rules.list.iter_mut().find(|stored| stored.state.id == id).ok_or(RuleError::NotFound)?;
        let state = RuleState { id, rule, calls: 0, hits: 0 };
        *stored = StoredRule { state: state.clone(), fault };
        Ok(state)
    }

    pub(crate) fn get(&self, id: u64) -> Result<RuleState, RuleError> {
        self.all().into_iter().find(|state| state.id == id).ok_or(RuleError::NotFound)
    }

    pub(crate) fn all(&self) -> Vec<RuleState> {
        self.rules.lock().list.iter().map(|stored| stored.state.clone()).collect()
    }

    pub(crate) fn remove(&self, id: u64) -> Result<(), RuleError> {
        match self.retain(|state| state.id != id) {
            0 => Err(RuleError::NotFound),
            _ => Ok(()),
        }
    }

    pub(crate) fn clear(&self) {
        self.retain(|_| false);
    }

    /// Returns how many rules were removed.
    fn retain(&self, keep: impl Fn(&RuleState) -> bool) -> usize {
        let mut rules = self.rules.lock();
        let before = rules.list.len();
        rules.list.retain(|stored| keep(&stored.state));
        self.count.store(rules.list.len(), Ordering::Release);
        before - rules.list.len()
    }

    /// Whether there is any rule. All that it costs a request if there is none.
    pub(crate) fn exist(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// What hits a request: the first rule that does. Later ones do not see it.
    pub(crate) fn choose(
        &self,
        service: Service,
        operation: OperationKind,
        target: &Target,
    ) -> Option<Fault> {
        let path = percent::decode(&target.path).unwrap_or_default();
        let path = format!("/{path}");
        let request = Request { service, operation: operation.name(), account: &target.account, path };
        let mut rules = self.rules.lock();
        for StoredRule { state, fault } in &mut rules.list {
            if !state.rule.matches(&request) {
                continue;
            }
            state.calls += 1;
            if state.rule.hits(state.calls, state.hits) {
                state.hits += 1;
                return Some(fault.clone());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(json: &str) -> FaultRule {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        for (case, json, says) in [
            ("nothing to do", "{}", "an error, cut, delayMs"),
            ("two things", r#"{"cut":true,"error":{"code":"ServerBusy"}}"#, "not both"),
            ("a service", r#"{"cut":true,"service":"file"}"#, "table, queue or blob"),
            ("an operation", r#"{"cut":true,"operation":"PutEntity"}"#, "no such operation: PutEntity"),
            (
                "of another service",
                r#"{"cut":true,"service":"blob","operation":"PutMessage"}"#,
                "no such operation",
            ),
            ("a path", r#"{"cut":true,"path":"Orders"}"#, "begins with a slash"),
            ("an empty account", r#"{"cut":true,"account":""}"#, "has 1 to"),
            ("nth", r#"{"cut":true,"nth":0}"#, "1 or more"),
            ("count", r#"{"cut":true,"count":0}"#, "1 or more"),
            ("no share", r#"{"cut":true,"share":0}"#, "share is"),
            ("too much share", r#"{"cut":true,"share":1.1}"#, "share is"),
            ("a seed alone", r#"{"cut":true,"seed":1}"#, "seed is for share"),
            ("no delay", r#"{"delayMs":0}"#, "delayMs is"),
            ("too long a delay", r#"{"delayMs":600001}"#, "delayMs is"),
            ("a code", r#"{"error":{"code":"serverBusy"}}"#, "no such error code: serverBusy"),
            ("a status", r#"{"error":{"code":"ServerBusy","status":200}}"#, "400 to 599"),
        ] {
            let error = rule(json).check().unwrap_err();
            assert!(error.contains(says), "{case}: {error}");
        }
    }

    fn target(path: &str) -> Target {
        Target {
            account: "people".to_owned(),
            secondary: false,
            base: String::new(),
            raw_path: String::new(),
            path: path.to_owned(),
            host_style: false,
        }
    }

    /// Which of ten calls a rule hits, counted from 1.
    fn hits(json: &str) -> Vec<usize> {
        let faults = Faults::default();
        assert!(!faults.exist());
        let id = faults.add(rule(json)).unwrap().id;
        assert!(faults.exist());
        let operation = OperationKind::Table(table::OperationKind::InsertEntity);
        let call = |_: &usize| faults.choose(Service::Table, operation, &target("Orders")).is_some();
        let hits: Vec<usize> = (1..=10).filter(call).collect();
        let state = faults.get(id).unwrap();
        assert_eq!((state.calls, state.hits), (10, hits.len() as u64), "{json}");
        hits
    }

    #[test]
    fn which_calls_are_hit() {
        for (json, expected) in [
            (r#"{"cut":true}"#, vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
            (r#"{"cut":true,"count":2}"#, vec![1, 2]),
            (r#"{"cut":true,"nth":3}"#, vec![3]),
            (r#"{"cut":true,"nth":3,"count":2}"#, vec![3, 4]),
            (r#"{"cut":true,"share":1}"#, vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ] {
            assert_eq!(hits(json), expected, "{json}");
        }
        let half = r#"{"cut":true,"share":0.5,"seed":7}"#;
        assert_eq!(hits(half), hits(half), "the same seed, the same calls");
        assert_ne!(hits(half), hits(r#"{"cut":true,"share":0.5,"seed":8}"#));
        let rule = rule(r#"{"cut":true,"share":0.25}"#);
        let share = (1..=100_000).filter(|call| rule.hits(*call, 0)).count();
        assert!((24_000..26_000).contains(&share), "{share}");
    }

    #[test]
    fn which_requests_match() {
        let operation = OperationKind::Table(table::OperationKind::QueryEntities);
        let entity = "Orders(PartitionKey='a%20b',RowKey='1')";
        for (json, path, expected) in [
            (r#"{"cut":true,"service":"table"}"#, entity, true),
            (r#"{"cut":true,"service":"queue"}"#, entity, false),
            (r#"{"cut":true,"operation":"QueryEntities"}"#, entity, true),
            (r#"{"cut":true,"operation":"InsertEntity"}"#, entity, false),
            (r#"{"cut":true,"account":"people"}"#, entity, true),
            (r#"{"cut":true,"account":"other"}"#, entity, false),
            (r#"{"cut":true,"resource":"Orders"}"#, entity, true),
            (r#"{"cut":true,"resource":"Orders"}"#, "Orders()", true),
            (r#"{"cut":true,"resource":"Orders"}"#, "OrdersOld()", false),
            (r#"{"cut":true,"path":"/Orders"}"#, "OrdersOld()", true),
            (r#"{"cut":true,"path":"/Orders(PartitionKey='a b'"}"#, entity, true),
            (r#"{"cut":true,"path":"/pictures/2026/"}"#, "pictures/2026/a.png", true),
            (r#"{"cut":true,"resource":"pictures"}"#, "pictures/2026/a.png", true),
        ] {
            let faults = Faults::default();
            faults.add(rule(json)).unwrap();
            let hit = faults.choose(Service::Table, operation, &target(path)).is_some();
            assert_eq!(hit, expected, "{json} {path}");
        }
    }

    #[test]
    fn rules_come_and_go() {
        let faults = Faults::default();
        let first = faults.add(rule(r#"{"cut":true}"#)).unwrap();
        let second = faults.add(rule(r#"{"delayMs":5,"when":"after"}"#)).unwrap();
        assert_ne!(first.id, second.id);
        assert_eq!(faults.replace(99, rule(r#"{"cut":true}"#)), Err(RuleError::NotFound));
        assert!(matches!(faults.replace(first.id, rule("{}")), Err(RuleError::Invalid(_))));
        assert_eq!(faults.get(first.id), Ok(first.clone()), "nothing has changed");
        faults.replace(first.id, rule(r#"{"cut":true,"nth":2}"#)).unwrap();
        assert_eq!(faults.remove(second.id), Ok(()));
        assert_eq!(faults.remove(second.id), Err(RuleError::NotFound));
        assert_eq!(faults.all().len(), 1);
        faults.clear();
        assert!(!faults.exist());
        (0..Faults::MAX_RULES).for_each(|_| assert!(faults.add(rule(r#"{"cut":true}"#)).is_ok()));
        assert_eq!(faults.add(rule(r#"{"cut":true}"#)), Err(RuleError::TooMany));
    }
}
