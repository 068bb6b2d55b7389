//! Queries for entities: scan the planned ranges, filter, and end the page.

use super::key_ranges::Plan;
use crate::coop::{BYTES_PER_COST, CoopBudget, ROW_COST};
use crate::keyspace;
use crate::record;
use crate::transact::storage_error;
use std::collections::VecDeque;
use std::time::Duration;
use tepui_model::cost::Cost;
use tepui_model::table::{Continuation, EntityPage, EntitySink, EntityView, Filter};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Key, KeyRange, ScanLimit, ScanPage, Snapshot, Value};

/// When a page of a query ends even though it is not full.
#[derive(Debug, Clone, Copy)]
pub struct QueryBudget {
    pub max_time: Duration,
    /// Of the reply; the last entity may exceed it.
    pub max_bytes: usize,
}

impl QueryBudget {
    /// Reserves a part of the request's time for sending what was found.
    pub(super) fn within(self, time: Duration) -> Self {
        Self { max_time: self.max_time.min(time / 4 * 3), ..self }
    }
}

impl Default for QueryBudget {
    fn default() -> Self {
        Self { max_time: Duration::from_secs(5), max_bytes: 4 * 1024 * 1024 }
    }
}

/// The most rows of one scan, which bounds its time.
const MAX_STEP_ROWS: usize = 1024;
const MAX_STEP_BYTES: usize = 2 * 1024 * 1024;

/// A query for one page. If a transaction becomes too old, it goes on in another.
pub(super) struct PageQuery<'a> {
    /// What was not read yet.
    ranges: VecDeque<KeyRange>,
    /// The first rows of the first range, if they were read before their turn.
    ahead: Option<ScanPage>,
    step_rows: usize,
    work_per_row: usize,
    max_time: Duration,
    coop: CoopBudget,
    page: PageCutter<'a>,
}

impl<'a> PageQuery<'a> {
    pub(super) fn new(
        plan: Plan,
        filter: Option<&'a Filter>,
        page_size: usize,
        from: Option<Key>,
        budget: QueryBudget,
        sink: &'a mut dyn EntitySink,
    ) -> Self {
        let filter = filter.filter(|_| !plan.exact);
        let cost = Cost { plan: Some(plan.kind), ranges: plan.ranges.len() as u64, ..Cost::default() };
        let unread = |mut range: KeyRange| {
            if let Some(from) = &from {
                range.start = range.start.max(from.clone());
            }
            (range.start < range.end).then_some(range)
        };
        Self {
            ranges: plan.ranges.into_iter().filter_map(unread).filter(|_| page_size > 0).collect(),
            ahead: None,
            step_rows: (page_size + 1).min(MAX_STEP_ROWS),
            work_per_row: ROW_COST + filter.map_or(0, Filter::comparisons),
            max_time: budget.max_time,
            coop: CoopBudget::default(),
            page: PageCutter { filter, page_size, max_bytes: budget.max_bytes, sink, cost, last: None },
        }
    }

    /// Reads the first rows, and leaves them to [`PageQuery::run`].
    pub(super) async fn read_ahead<S: Snapshot>(&mut self, snapshot: &S) -> Result<(), ServiceError> {
        if let Some(range) = self.ranges.front() {
            self.ahead = Some(read_step(snapshot, range, self.step_rows).await?);
        }
        Ok(())
    }

    /// Reads the page, or what is left of it after a failure.
    pub(super) async fn run<S: Snapshot>(&mut self, snapshot: &S) -> Result<EntityPage, ServiceError> {
        let next = self.read(snapshot).await?;
        // A query that finds nothing is a request nevertheless.
        let cost = self.page.cost;
        let cost = Cost { has_more: next.is_some(), units: cost.units.max(1), ..cost };
        Ok(EntityPage { cost, next })
    }

    async fn read<S: Snapshot>(&mut self, snapshot: &S) -> Result<Option<Continuation>, ServiceError> {
        while let Some(range) = self.ranges.front() {
            let rows = match self.ahead.take() {
                Some(rows) => rows,
                None => read_step(snapshot, range, self.step_rows).await?,
            };
            for (key, value) in rows.rows {
                if let Some(next) = self.page.take(key, &value)? {
                    return Ok(Some(next));
                }
                if self.coop.charge(self.work_per_row + value.len() / BYTES_PER_COST)
                    && self.coop.yield_if_due().await >= self.max_time
                    && let Some(next) = self.page.after_last()
                {
                    return Ok(Some(next));
                }
            }
            if self.coop.yield_if_due().await >= self.max_time
                && let Some(next) = self.page.after_last()
            {
                return Ok(Some(next));
            }
            match (rows.next, self.ranges.front_mut()) {
                (Some(next), Some(range)) => {
                    range.start = next;
                    self.step_rows = (self.step_rows * 2).min(MAX_STEP_ROWS);
                }
                _ => drop(self.ranges.pop_front()),
            }
        }
        Ok(None)
    }
}

async fn read_step<S: Snapshot>(
    snapshot: &S,
    range: &KeyRange,
    max_rows: usize,
) -> Result<ScanPage, ServiceError> {
    if let Some(key) = single_key(range) {
        let value = snapshot.get(key).await.map_err(storage_error)?;
        let rows = value.into_iter().map(|value| (key.clone(), value)).collect();
        return Ok(ScanPage { rows, next: None });
    }
    let limit = ScanLimit { max_rows, max_bytes: MAX_STEP_BYTES };
    snapshot.scan(range, limit).await.map_err(storage_error)
}

/// The key of a range that contains only one.
fn single_key(range: &KeyRange) -> Option<&Key> {
    let rest = range.end.strip_prefix(range.start.as_ref())?;
    (rest == [0x00]).then_some(&range.start)
}

struct PageCutter<'a> {
    filter: Option<&'a Filter>,
    page_size: usize,
    max_bytes: usize,
    sink: &'a mut dyn EntitySink,
    cost: Cost,
    /// The last key that was examined.
    last: Option<Key>,
}

impl PageCutter<'_> {
    /// Examines one row. If it matches and no longer fits, the next page starts with it: so a page that
    /// is exactly full has no continuation.
    fn take(&mut self, key: Key, value: &Value) -> Result<Option<Continuation>, ServiceError> {
        let unreadable =
            || ServiceError::new(ErrorCode::InternalError).with_cause("an entity cannot be read");
        let (partition_key, row_key) = keyspace::entity_keys(&key).ok_or_else(unreadable)?;
        let (timestamp, packed) = record::entity_parts(value).ok_or_else(unreadable)?;
        let view = EntityView { partition_key: &partition_key, row_key: &row_key, timestamp, packed };
        self.cost.scan(key.len() + value.len());
        if self.filter.is_none_or(|filter| filter.matches(&view)) {
            if self.cost.returned == self.page_size as u64 || self.sink.bytes() >= self.max_bytes {
                return Ok(keyspace::continuation(&key));
            }
            self.sink.accept(&view);
            self.cost.returned += 1;
        }
        self.last = Some(key);
        Ok(None)
    }

    /// Right after the last row that was examined: no text lies between a row key and the same with a NUL appended.
    fn after_last(&self) -> Option<Continuation> {
        let mut next = keyspace::continuation(self.last.as_ref()?)?;
        next.row_key.push('\0');
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::key_ranges;
    use super::*;
    use crate::keyspace::Incarnation;
    use std::cell::Cell;
    use tepui_model::Timestamp;
    use tepui_model::grant::KeyBounds;
    use tepui_model::table::{Comparison, Literal, PropertiesBuilder, ValueRef};
    use tepui_storage::{Engine, MemoryEngine, Transaction, Write};

    const TABLE: Incarnation = Incarnation(7);

    /// A table of rows with two properties.
    async fn table(rows: usize) -> impl Snapshot {
        let engine = MemoryEngine::new();
        let mut builder = PropertiesBuilder::new();
        for name in ["A", "B"] {
            builder.push(name, ValueRef::Int32(-1)).expect("a property");
        }
        let value = record::StoredEntity::encode(Timestamp::MIN, &builder.finish());
        let put = |row| Write::Put(keyspace::entity(TABLE, "p", &format!("{row:04}")), value.clone());
        let transaction = engine.begin().await.expect("memory does not fail");
        let writes: Vec<Write> = (0..rows).map(put).collect();
        transaction.commit(writes.into()).await.expect("nobody else writes");
        engine.begin().await.expect("memory does not fail")
    }

    /// A long filter that matches nothing.
    fn heavy() -> Filter {
        let compare = |number: i32| Filter::Compare {
            property: if number % 2 == 0 { "A" } else { "B" }.to_owned(),
            how: Comparison::Equal,
            value: Literal::Int32(number),
        };
        Filter::Or((0..3000).map(compare).collect())
    }

    struct Nowhere;

    impl EntitySink for Nowhere {
        fn accept(&mut self, _: &EntityView<'_>) {}

        fn bytes(&self) -> usize {
            0
        }
    }

    async fn page(
        snapshot: &impl Snapshot,
        filter: &Filter,
        from: Option<&Continuation>,
        max_time: Duration,
    ) -> EntityPage {
        let plan = key_ranges::entities(TABLE, Some(filter), &KeyBounds::EVERYTHING);
        let from = from.map(|from| keyspace::continued_at(TABLE, from));
        let budget = QueryBudget { max_time, ..QueryBudget::default() };
        let mut sink = Nowhere;
        let mut query = PageQuery::new(plan, Some(filter), 1000, from, budget, &mut sink);
        query.run(snapshot).await.expect("rows can be read")
    }

    #[tokio::test]
    async fn a_page_ends_within_a_step_and_the_next_goes_on() {
        let (snapshot, filter) = (table(10).await, heavy());
        let mut next = None;
        for _ in 0..10 {
            let page = page(&snapshot, &filter, next.as_ref(), Duration::ZERO).await;
            assert_eq!(page.cost.scanned, 1);
            next = page.next;
            assert!(next.is_some());
        }
        let last = page(&snapshot, &filter, next.as_ref(), Duration::ZERO).await;
        assert_eq!((last.cost.scanned, last.next), (0, None));
    }

    #[tokio::test]
    async fn others_run_while_a_long_filter_is_matched() {
        let (snapshot, filter) = (table(300).await, heavy());
        let (done, turns) = (Cell::new(false), Cell::new(0));
        let query = async {
            page(&snapshot, &filter, None, Duration::from_secs(60)).await;
            done.set(true);
        };
        let others = async {
            while !done.get() {
                turns.set(turns.get() + 1);
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(query, others);
        assert!(turns.get() > 0);
    }

    #[test]
    fn pages_leave_their_caller_time_to_hear_of_them() {
        let second = Duration::from_secs(1);
        for (time, expected) in
            [(second, second * 3 / 4), (second * 4, second * 3), (second * 30, second * 5)]
        {
            assert_eq!(QueryBudget::default().within(time).max_time, expected);
        }
    }
}
