//! What an answer cost: what was read for it, and how much of it counts towards Azure's scalability targets.

use crate::queue;
use crate::table::{Change, Entity, EntityKey, PlanKind};
use std::fmt;
use std::time::Duration;

/// What one answer cost. Services count; the server reports it in a header, the log and metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// How a query for entities was carried out; a point read is a plan, too.
    pub plan: Option<PlanKind>,
    /// Separate ranges of keys that were read.
    pub ranges: u64,
    /// Entities, messages or names that were looked at.
    pub scanned: u64,
    /// How many of them are in the answer.
    pub returned: u64,
    /// Stored bytes that were read for it.
    pub bytes: u64,
    /// See [`units`].
    pub units: u64,
    /// How many operations a batch has.
    pub operations: Option<u64>,
    /// The answer says where to go on.
    pub has_more: bool,
}

/// The bytes of an entity or message that count as one.
const UNIT_BYTES: usize = 1024;

/// How often an entity or message of so many stored bytes counts: targets are for objects of 1 KiB. Rounded, so that keys
/// and names beside a value of 1 KiB do not make it count twice.
pub fn units(bytes: usize) -> u64 {
    ((bytes + UNIT_BYTES / 2) / UNIT_BYTES).max(1) as u64
}

fn key_bytes(key: &EntityKey) -> usize {
    key.partition_key.len() + key.row_key.len()
}

/// What could be better about a query that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostHint {
    /// A whole table was read, and it was not small.
    FullScan,
    /// The query names single entities by `or`: point reads of each answer at once, and cost no scan.
    UsePoint,
    /// A hundred times as many entities were read as returned.
    LowDensity,
    /// Ranges of partitions were read.
    RowKeyRange,
}

/// A scan of fewer entities is no reason for a hint.
const SMALL_SCAN: u64 = 1000;
/// More entities than this for each that is returned are worth a hint.
const LOW_DENSITY: u64 = 100;

impl Cost {
    /// Adds one thing of so many stored bytes that was looked at.
    pub fn scan(&mut self, bytes: usize) {
        self.scanned += 1;
        self.bytes += bytes as u64;
        self.units += units(bytes);
    }

    /// Of a page of a list, before anything is looked at. A page is one request, and counts once however many names it
    /// looks at.
    pub fn of_list(ranges: usize) -> Self {
        Self { ranges: ranges as u64, units: 1, ..Self::default() }
    }

    /// Adds a name of a list that was looked at, with so many stored bytes.
    pub fn look_at(&mut self, bytes: usize) {
        self.scanned += 1;
        self.bytes += bytes as u64;
    }

    /// The same at the end of a page.
    pub fn of_page(self, returned: usize, has_more: bool) -> Self {
        Self { returned: returned as u64, has_more, ..self }
    }

    /// Of a point read; `None`: there is no such entity.
    pub fn of_point_read(entity: Option<&Entity>) -> Self {
        let mut cost = Self { plan: Some(PlanKind::Point), ranges: 1, units: 1, ..Self::default() };
        if let Some(entity) = entity {
            cost.units = 0;
            cost.scan(key_bytes(&entity.key) + entity.properties.bytes().len());
            cost.returned = 1;
        }
        cost
    }

    /// Of a change of one entity.
    pub fn of_change(change: &Change) -> Self {
        let properties = change.action.properties().map_or(0, |properties| properties.bytes().len());
        Self { units: units(key_bytes(&change.key) + properties), ..Self::default() }
    }

    /// Of a batch of changes.
    pub fn of_changes(changes: &[Change]) -> Self {
        let units = changes.iter().map(|change| Self::of_change(change).units).sum();
        Self { units, operations: Some(changes.len() as u64), ..Self::default() }
    }

    /// Of an operation on messages, by its reply. `None` if it is about something else.
    pub fn of_messages(reply: &queue::Reply, put_bytes: usize) -> Option<Self> {
        let texts = |texts: &mut dyn Iterator<Item = usize>| {
            let mut cost = Self { ranges: 1, ..Self::default() };
            texts.for_each(|bytes| cost.scan(bytes));
            // Polling an empty queue counts, too.
            Self { returned: cost.scanned, units: cost.units.max(1), ..cost }
        };
        match reply {
            queue::Reply::Messages(messages) => Some(texts(&mut messages.iter().map(|m| m.text.len()))),
            queue::Reply::Peeked(messages) => Some(texts(&mut messages.iter().map(|m| m.text.len()))),
            queue::Reply::Put(_) | queue::Reply::Updated(_) => {
                Some(Self { units: units(put_bytes), ..Self::default() })
            }
            queue::Reply::MessageDeleted => Some(Self { units: 1, ..Self::default() }),
            _ => None,
        }
    }

    /// At most one: the most important.
    pub fn hint(&self) -> Option<CostHint> {
        let plan = self.plan?;
        if plan == PlanKind::Table && self.scanned > SMALL_SCAN {
            Some(CostHint::FullScan)
        } else if self.scanned >= LOW_DENSITY * self.returned.max(1) {
            Some(CostHint::LowDensity)
        } else if plan == PlanKind::PartitionRange && self.scanned > SMALL_SCAN {
            Some(CostHint::RowKeyRange)
        } else if plan == PlanKind::Point && self.ranges > 1 {
            Some(CostHint::UsePoint)
        } else {
            None
        }
    }
}

impl CostHint {
    pub const ALL: [Self; 4] = [Self::FullScan, Self::UsePoint, Self::LowDensity, Self::RowKeyRange];

    /// As it is written in a receipt.
    pub fn name(self) -> &'static str {
        match self {
            Self::FullScan => "full-scan",
            Self::UsePoint => "use-point",
            Self::LowDensity => "low-density",
            Self::RowKeyRange => "rowkey-range",
        }
    }

    pub fn message(self) -> &'static str {
        match self {
            Self::FullScan => {
                "The whole table is read. Give a PartitionKey, or keep a second copy of the entities with a key that is \
                 asked for."
            }
            Self::UsePoint => {
                "Single entities are asked for with `or`. Ask for each by its keys, several at a time."
            }
            Self::LowDensity => {
                "Most of what is read does not match. Put what the filter asks for into the RowKey, or keep an index."
            }
            Self::RowKeyRange => {
                "Whole partitions are read. One PartitionKey with a range of RowKey reads only what matches."
            }
        }
    }
}

impl Cost {
    /// Without the machinery of `fmt`, for it is done with every answer.
    fn to_text(self, time: Option<Duration>) -> String {
        let mut text = String::with_capacity(128);
        let Self { plan, ranges, scanned, returned, bytes, units, operations, has_more } = self;
        let mut number = itoa::Buffer::new();
        if let Some(plan) = plan {
            text.push_str("plan=");
            text.push_str(plan.name());
            text.push_str(", ");
        }
        for (key, count) in [
            ("ranges=", Some(ranges)),
            (", scanned=", Some(scanned)),
            (", returned=", Some(returned)),
            (", bytes=", Some(bytes)),
            (", units=", Some(units)),
            (", operations=", operations),
            (", ms=", time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))),
        ] {
            if let Some(count) = count {
                text.push_str(key);
                text.push_str(number.format(count));
            }
        }
        if let Some(time) = time {
            // A one before the digits keeps the zeros.
            let thousandths = 1000 + time.subsec_micros() % 1000;
            text.push('.');
            text.push_str(&number.format(thousandths)[1..]);
        }
        if has_more {
            text.push_str(", more");
        }
        if let Some(hint) = self.hint() {
            text.push_str(", hint=");
            text.push_str(hint.name());
        }
        text
    }
}

/// As in a receipt, without the time.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text(None))
    }
}

/// The receipt of an answer: its cost and the time that the server took. Displayed as the value of a header, a dictionary
/// of structured fields (RFC 9651).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Receipt {
    pub cost: Cost,
    /// From the head of the request until the answer was ready.
    pub time: Duration,
}

impl Receipt {
    /// The same as `to_string`, but faster.
    pub fn to_text(&self) -> String {
        self.cost.to_text(Some(self.time))
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// A receipt that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreadableReceipt;

impl std::str::FromStr for Receipt {
    type Err = UnreadableReceipt;

    /// Reads a receipt back. Keys that are not known are ignored; the hint follows from the rest.
    fn from_str(text: &str) -> Result<Self, UnreadableReceipt> {
        let mut receipt = Self { cost: Cost::default(), time: Duration::ZERO };
        let cost = &mut receipt.cost;
        for member in text.split(',').map(str::trim) {
            let (key, value) = member.split_once('=').unwrap_or((member, "?1"));
            let number = || value.parse::<u64>().map_err(|_| UnreadableReceipt);
            match key {
                "plan" => {
                    let plan = PlanKind::ALL.into_iter().find(|plan| plan.name() == value);
                    cost.plan = Some(plan.ok_or(UnreadableReceipt)?);
                }
                "ranges" => cost.ranges = number()?,
                "scanned" => cost.scanned = number()?,
                "returned" => cost.returned = number()?,
                "bytes" => cost.bytes = number()?,
                "units" => cost.units = number()?,
                "operations" => cost.operations = Some(number()?),
                "more" => cost.has_more = value == "?1",
                "ms" => {
                    let milliseconds: f64 = value.parse().map_err(|_| UnreadableReceipt)?;
                    let time = Duration::try_from_secs_f64(milliseconds / 1000.0);
                    receipt.time = time.map_err(|_| UnreadableReceipt)?;
                }
                _ => {}
            }
        }
        Ok(receipt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_a_dictionary_of_structured_fields() {
        let cost = Cost {
            plan: Some(PlanKind::Partition),
            ranges: 1,
            scanned: 1000,
            returned: 5,
            bytes: 512_000,
            units: 1000,
            operations: None,
            has_more: true,
        };
        let receipt = Receipt { cost, time: Duration::from_micros(3217) };
        let text = "plan=partition, ranges=1, scanned=1000, returned=5, bytes=512000, units=1000, ms=3.217, more, \
                    hint=low-density";
        assert_eq!(receipt.to_string(), text);
        assert_eq!(cost.to_string(), text.replace("ms=3.217, ", ""));
        assert_eq!(text.parse(), Ok(receipt));
        assert_eq!(format!("{text}, later=(1 2);x").parse(), Ok(receipt));
        assert_eq!("ranges=-1".parse::<Receipt>(), Err(UnreadableReceipt));
    }

    #[test]
    fn an_object_counts_once_for_each_kib() {
        for (bytes, expected) in [(0, 1), (1, 1), (1024, 1), (1535, 1), (1536, 2), (1 << 20, 1024)] {
            assert_eq!(units(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn hints_are_for_what_was_read() {
        let cost = |plan, ranges, scanned, returned| Cost {
            plan: Some(plan),
            ranges,
            scanned,
            returned,
            ..Cost::default()
        };
        for (cost, expected) in [
            (cost(PlanKind::Table, 1, 1001, 1001), Some(CostHint::FullScan)),
            (cost(PlanKind::Table, 1, 1000, 1000), None),
            (cost(PlanKind::Partition, 1, 100, 0), Some(CostHint::LowDensity)),
            (cost(PlanKind::Partition, 1, 99, 0), None),
            (cost(PlanKind::Partition, 1, 500, 5), Some(CostHint::LowDensity)),
            (cost(PlanKind::Partition, 1, 499, 5), None),
            (cost(PlanKind::PartitionRange, 1, 1001, 1000), Some(CostHint::RowKeyRange)),
            (cost(PlanKind::Point, 2, 2, 2), Some(CostHint::UsePoint)),
            (cost(PlanKind::Point, 1, 1, 1), None),
            (Cost { scanned: 1_000_000, ..Cost::default() }, None),
        ] {
            assert_eq!(cost.hint(), expected, "{cost:?}");
        }
    }
}
