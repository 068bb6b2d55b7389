//! Azure's scalability targets, held by this server: requests beyond them are refused as Azure would.
//!
//! | | |
//! | --- | --- |
//! | `figures.rs` | the figures, and how they are given |
//! | `buckets.rs` | token buckets |
//! | `warm_up.rs` | new tables, which carry less |
//! | `heat.rs` | the partitions that cost most: `sketch.rs`, `sampler.rs`; keys that are added at one end: `growth.rs` |
//!
//! What a request costs is counted as in its receipt (`tepui-model/src/cost.rs`). Time is that of the machine, not the clock
//! that tests can set: a rate is about real seconds. How requests pass: `pipeline/admission.rs`.

mod buckets;
mod figures;
mod growth;
mod heat;
mod sampler;
mod sketch;
mod warm_up;

pub use figures::{AZURE_2026, Figures, SEED_2016, TargetSetting};
pub use growth::KeyGrowth;
pub use heat::{GrowingTable, Heat, HotPartition};

use buckets::{Buckets, InDebt, Limit};
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::{Duration, Instant};
use tepui_model::{ErrorCode, ServiceError, Stage, Throttle};
use warm_up::WarmUp;

/// The targets that are in force, and how much of them is used.
pub(crate) struct Targets {
    hasher: RandomState,
    /// Units, ingress, egress.
    accounts: Option<Buckets<3>>,
    partitions: Option<Buckets<1>>,
    queues: Option<Buckets<1>>,
    /// Requests, bytes.
    blobs: Option<Buckets<2>>,
    warm_up: Option<WarmUp>,
}

/// What a target beside those of the account is for. Names are as callers spell them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope<'a> {
    /// A table as a whole, or several of its partitions.
    Table(&'a str),
    Partition {
        table: &'a str,
        key: &'a str,
    },
    Queue(&'a str),
    Blob {
        container: &'a str,
        blob: &'a str,
    },
}

/// Where the rest of the cost of a request goes, once it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScopeKey {
    Table { table: u64 },
    Partition { partition: u64, table: u64 },
    Queue(u64),
    Blob(u64),
}

/// What a request has cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Spent {
    /// As in the receipt. Every request counts at least one.
    pub(crate) units: u64,
    /// Of the body of the request.
    pub(crate) bytes_in: u64,
    /// Of the answer's.
    pub(crate) bytes_out: u64,
}

/// A request that was let in, and what it has paid so far.
#[derive(Debug)]
pub(crate) struct Admission {
    account: u64,
    scope: Option<ScopeKey>,
    paid: Spent,
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Throttled {
    AccountUnits,
    AccountIngress,
    AccountEgress,
    /// A partition, a queue, a blob or a new table.
    Partition,
    /// The same, and it will be busy for longer than the request may take.
    PartitionTimeout,
}

impl From<Throttled> for ServiceError {
    fn from(throttled: Throttled) -> Self {
        let busy = Self::new(ErrorCode::ServerBusy);
        let of_account = |message| {
            busy.clone().with_message(message).at_stage(Stage::FrontEnd).with_throttle(Throttle::Account)
        };
        match throttled {
            Throttled::AccountUnits => of_account("Operations per second is over the account limit."),
            Throttled::AccountIngress => of_account("Ingress is over the account limit."),
            Throttled::AccountEgress => of_account("Egress is over the account limit."),
            Throttled::Partition => busy.with_throttle(Throttle::Partition),
            Throttled::PartitionTimeout => {
                Self::new(ErrorCode::OperationTimedOut).with_throttle(Throttle::Partition)
            }
        }
    }
}

impl Targets {
    pub(crate) fn new(figures: &Figures) -> Self {
        let limit = |rate: Option<f64>| {
            rate.map(|rate| Limit { per_second: rate, depth: rate * figures.burst_seconds })
        };
        let Figures { warm_up_seconds, warm_up_start, burst_seconds, .. } = *figures;
        let warm_up = figures.account_units.filter(|_| warm_up_seconds > 0.0);
        Self {
            hasher: RandomState::new(),
            accounts: Buckets::new([
                limit(figures.account_units),
                limit(figures.ingress_bytes),
                limit(figures.egress_bytes),
            ]),
            partitions: Buckets::new([limit(figures.partition_units)]),
            queues: Buckets::new([limit(figures.queue_units)]),
            blobs: Buckets::new([limit(figures.blob_requests), limit(figures.blob_bytes)]),
            warm_up: warm_up
                .map(|units| WarmUp::new(units * warm_up_start, units, warm_up_seconds, burst_seconds)),
        }
    }

    /// Lets a request of an account in, whatever it is about. It pays for one unit and for its body, if it says how long that is.
    pub(crate) fn admit(&self, account: &str, declared: u64, now: Instant) -> Result<Admission, Throttled> {
        let account = self.hasher.hash_one(account);
        if let Some(accounts) = &self.accounts {
            accounts.admit(account, [1.0, declared as f64, 0.0], now).map_err(|debt| match debt.target {
                0 => Throttled::AccountUnits,
                1 => Throttled::AccountIngress,
                _ => Throttled::AccountEgress,
            })?;
        }
        Ok(Admission { account, scope: None, paid: Spent { units: 1, bytes_in: declared, bytes_out: 0 } })
    }

    /// Lets it in where it belongs; `units`: what is known of its cost. A request that is refused pays nothing.
    pub(crate) fn admit_to(
        &self,
        admission: &mut Admission,
        scope: Scope<'_>,
        units: u64,
        time: Duration,
        now: Instant,
    ) -> Result<(), Throttled> {
        let key = self.key(admission.account, scope);
        let units = units.max(1);
        if let Err(debt) = self.take(key, units, admission.paid.bytes_in, now) {
            let Spent { units, bytes_in, .. } = std::mem::take(&mut admission.paid);
            self.charge_account(admission.account, [-(units as f64), -(bytes_in as f64), 0.0], now);
            return Err(if debt.time > time { Throttled::PartitionTimeout } else { Throttled::Partition });
        }
        let more = units.saturating_sub(admission.paid.units);
        self.charge_account(admission.account, [more as f64, 0.0, 0.0], now);
        admission.paid.units += more;
        admission.scope = Some(key);
        Ok(())
    }

    /// Charges the rest of what a request has cost.
    pub(crate) fn settle(&self, admission: &Admission, spent: Spent, now: Instant) {
        let paid = admission.paid;
        if paid == Spent::default() {
            return; // Refused.
        }
        let units = spent.units.saturating_sub(paid.units) as f64;
        let bytes_in = spent.bytes_in as f64 - paid.bytes_in as f64;
        let bytes_out = spent.bytes_out as f64;
        self.charge_account(admission.account, [units, bytes_in, bytes_out], now);
        match admission.scope {
            None => {}
            Some(ScopeKey::Table { table }) => self.charge_table(table, units, now),
            Some(ScopeKey::Partition { partition, table }) => {
                self.charge_table(table, units, now);
                charge(&self.partitions, partition, [units], now);
            }
            Some(ScopeKey::Queue(queue)) => charge(&self.queues, queue, [units], now),
            Some(ScopeKey::Blob(blob)) => charge(&self.blobs, blob, [0.0, bytes_in + bytes_out], now),
        }
    }

    /// A table was created: it carries less for a while.
    pub(crate) fn table_created(&self, admission: &Admission, table: &str, now: Instant) {
        if let Some(warm_up) = &self.warm_up {
            warm_up.begin(self.hash_table(admission.account, table), now);
        }
    }

    fn key(&self, account: u64, scope: Scope<'_>) -> ScopeKey {
        match scope {
            Scope::Table(table) => ScopeKey::Table { table: self.hash_table(account, table) },
            Scope::Partition { table, key } => {
                let table = self.hash_table(account, table);
                ScopeKey::Partition { partition: self.hasher.hash_one((table, key)), table }
            }
            Scope::Queue(queue) => ScopeKey::Queue(self.hasher.hash_one((account, queue))),
            Scope::Blob { container, blob } => {
                ScopeKey::Blob(self.hasher.hash_one((account, container, blob)))
            }
        }
    }

    /// The case of a table's name does not matter.
    fn hash_table(&self, account: u64, table: &str) -> u64 {
        struct IgnoringCase<'a>(&'a str);
        impl Hash for IgnoringCase<'_> {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.0.bytes().for_each(|byte| state.write_u8(byte.to_ascii_lowercase()));
            }
        }
        self.hasher.hash_one((account, IgnoringCase(table)))
    }

    fn take(&self, key: ScopeKey, units: u64, bytes: u64, now: Instant) -> Result<(), InDebt> {
        let (cost, warm_up) = (units as f64, self.warm_up.as_ref());
        let admit_table = |table| warm_up.map_or(Ok(()), |warm_up| warm_up.admit(table, cost, now));
        match key {
            ScopeKey::Table { table } => admit_table(table),
            ScopeKey::Partition { partition, table } => {
                admit_table(table)?;
                let taken = admit(&self.partitions, partition, [cost], now);
                taken.inspect_err(|_| self.charge_table(table, -cost, now))
            }
            ScopeKey::Queue(queue) => admit(&self.queues, queue, [cost], now),
            ScopeKey::Blob(blob) => admit(&self.blobs, blob, [1.0, bytes as f64], now),
        }
    }

    fn charge_account(&self, account: u64, costs: [f64; 3], now: Instant) {
        charge(&self.accounts, account, costs, now);
    }

    fn charge_table(&self, table: u64, cost: f64, now: Instant) {
        if let Some(warm_up) = &self.warm_up
            && cost != 0.0
        {
            warm_up.charge(table, cost, now);
        }
    }
}

fn admit<const N: usize>(
    buckets: &Option<Buckets<N>>,
    key: u64,
    costs: [f64; N],
    now: Instant,
) -> Result<(), InDebt> {
    buckets.as_ref().map_or(Ok(()), |buckets| buckets.admit(key, costs, now))
}

fn charge<const N: usize>(buckets: &Option<Buckets<N>>, key: u64, costs: [f64; N], now: Instant) {
    if let Some(buckets) = buckets {
        buckets.charge(key, costs, now);
    }
}

#[cfg(test)]
mod tests;
