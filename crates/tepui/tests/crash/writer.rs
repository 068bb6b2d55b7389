//! A client that writes in a partition of its own, and knows what must be there afterwards.

use super::{Announced, TABLE, expect_killed};
use crate::support::Step;
use crate::support::http::Client;
use crate::support::random::Random;
use crate::support::table::{Applied, Change, Properties};
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicBool;

/// Entities that are changed one at a time.
const SINGLES: usize = 30;
/// Entities that are always changed together: each group by one batch.
pub(crate) const GROUPS: [usize; 3] = [2, 10, 99];

/// The entities that should be there, by row key. The ETag is among the properties.
type Rows = BTreeMap<String, Properties>;

pub(crate) struct Writer {
    partition: String,
    random: Random,
    announced: Announced,
    /// What must be there: acknowledged, or found after an earlier restart.
    rows: Rows,
    /// What becomes of entities if the request under way at the kill is carried out.
    under_way: Vec<(String, Option<Properties>)>,
    /// Number of the last write; each entity carries that of the write that made it what it is.
    sequence: u64,
    /// For each row key the number of the last deletion that was tried.
    deleted_at: BTreeMap<String, u64>,
    pub(crate) counts: Counts,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) singles: usize,
    pub(crate) batches: usize,
    pub(crate) batched: usize,
    pub(crate) deletions: usize,
    pub(crate) refused: usize,
}

/// How the request under way at the kill ended, if there was one.
pub(crate) struct Recovered {
    pub(crate) interrupted: bool,
    pub(crate) kept: bool,
}

impl Writer {
    pub(crate) fn new(number: usize, seed: u64, announced: Announced) -> Self {
        let partition = partition(number);
        Self {
            partition,
            random: Random::new(seed),
            announced,
            rows: Rows::new(),
            under_way: Vec::new(),
            sequence: 0,
            deleted_at: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn partition(&self) -> &str {
        &self.partition
    }

    /// Whether a deletion of `row` was tried after the write numbered `sequence`.
    pub(crate) fn deleted_after(&self, row: &str, sequence: u64) -> bool {
        self.deleted_at.get(row).is_some_and(|deleted| *deleted > sequence)
    }

    /// Writes until the server is killed.
    pub(crate) fn work(&mut self, port: u16, killed: &AtomicBool) {
        let mut client = match Client::connect(port) {
            Ok(client) => client,
            Err(error) => return expect_killed(&error, killed),
        };
        loop {
            match self.step(&mut client) {
                Ok(step) => step.expect_done(),
                Err(error) => return expect_killed(&error, killed),
            }
        }
    }

    /// Makes one request.
    pub(crate) fn step(&mut self, client: &mut Client) -> io::Result<Step> {
        self.sequence += 1;
        match self.random.below(10) {
            0..4 => self.single(client),
            4..8 => self.group(client),
            8 => self.stale_update(client),
            _ => self.refused_batch(client),
        }
    }

    /// What must be there.
    #[allow(dead_code, reason = "another test needs it")]
    pub(crate) fn rows(&self) -> &BTreeMap<String, Properties> {
        &self.rows
    }

    /// Compares what is there after a restart with what must be; from then on that is what must be.
    pub(crate) fn verify(&mut self, found: Rows) -> Result<Recovered, String> {
        let under_way = std::mem::take(&mut self.under_way);
        let interrupted = !under_way.is_empty();
        let before = difference(&self.rows, &found);
        let mut after = self.rows.clone();
        for (row, properties) in under_way {
            match properties {
                Some(mut properties) => {
                    // Its ETag was not received.
                    let etag = found.get(&row).map_or(json!(null), |found| found["odata.etag"].clone());
                    properties.insert("odata.etag".to_owned(), etag);
                    after.insert(row, properties)
                }
                None => after.remove(&row),
            };
        }
        let kept = difference(&after, &found);
        if let (Some(before), Some(after)) = (&before, &kept) {
            return Err(format!(
                "{}: not what was acknowledged ({before}), nor with the request under way ({after})",
                self.partition
            ));
        }
        self.rows = found;
        Ok(Recovered { interrupted, kept: interrupted && kept.is_none() && before.is_some() })
    }

    fn single(&mut self, client: &mut Client) -> io::Result<Step> {
        let row = format!("s{:02}", self.random.below(SINGLES));
        let (change, after) = self.any_change(&row);
        self.announce(&row);
        self.under_way = vec![(row, after)];
        let reply = client.change(TABLE, &self.partition, &change)?;
        if let Some(step) = Step::failed(reply.status, &reply.text()) {
            return Ok(self.give_up(step));
        }
        assert_eq!(reply.status, 204, "{change:?}: {}", reply.text());
        let etag = (change.method != "DELETE").then(|| reply.etag());
        self.counts.singles += 1;
        self.acknowledge(vec![etag]);
        Ok(Step::Done)
    }

    fn group(&mut self, client: &mut Client) -> io::Result<Step> {
        let number = self.random.below(GROUPS.len());
        let (changes, after): (Vec<_>, Vec<_>) = self.group_changes(number).into_iter().unzip();
        self.announce(&changes[0].row);
        self.under_way = changes.iter().map(|change| change.row.clone()).zip(after).collect();
        match client.batch(TABLE, &self.partition, &changes)? {
            Applied::All(etags) => {
                self.counts.batches += 1;
                self.counts.batched += etags.len();
                self.acknowledge(etags);
                Ok(Step::Done)
            }
            Applied::Failed(status, text) => {
                let step = Step::failed(status, &text).unwrap_or_else(|| panic!("{status}: {text}"));
                Ok(self.give_up(step))
            }
            Applied::Refused(status) => panic!("a batch was refused with {status}: {changes:?}"),
        }
    }

    /// Changes every member of a group, and inserts or deletes the one that comes and goes.
    fn group_changes(&mut self, number: usize) -> Vec<(Change, Option<Properties>)> {
        let mut changes: Vec<_> = (0..GROUPS[number])
            .map(|member| {
                let row = format!("g{number}-{member:02}");
                let method = if self.random.once_in(2) { "PUT" } else { "MERGE" };
                self.write(method, &row)
            })
            .collect();
        let guest = format!("g{number}-guest");
        changes.push(match self.rows.contains_key(&guest) {
            true => self.delete(&guest),
            false => self.write("POST", &guest),
        });
        changes
    }

    /// A batch whose last change cannot be made: nothing of it may ever be seen.
    fn refused_batch(&mut self, client: &mut Client) -> io::Result<Step> {
        let Some(known) = self.rows.keys().find(|row| row.starts_with('s')).cloned() else {
            return Ok(Step::Done);
        };
        let mut changes: Vec<Change> = (0..5).map(|n| self.write("PUT", &format!("x{n}")).0).collect();
        changes.push(self.write("POST", &known).0);
        match client.batch(TABLE, &self.partition, &changes)? {
            Applied::Refused(status) => assert_eq!(status, 409),
            Applied::Failed(503, text) => return Ok(Step::Refused(text)),
            other => panic!("inserted an entity that was there: {known}: {other:?}"),
        }
        self.counts.refused += 1;
        Ok(Step::Done)
    }

    /// An update of an entity that has changed since: refused, and without effect.
    fn stale_update(&mut self, client: &mut Client) -> io::Result<Step> {
        let Some(row) = self.rows.keys().next().cloned() else { return Ok(Step::Done) };
        let change = self.write("PUT", &row).0.if_match("W/\"datetime'2001-01-01T00%3A00%3A00Z'\"");
        let reply = client.change(TABLE, &self.partition, &change)?;
        if reply.status == 503 {
            return Ok(Step::Refused(reply.text()));
        }
        assert_eq!(reply.status, 412, "{}", reply.text());
        self.counts.refused += 1;
        Ok(Step::Done)
    }

    /// A change that fits what is there, with or without a condition.
    fn any_change(&mut self, row: &str) -> (Change, Option<Properties>) {
        let Some(stored) = self.rows.get(row) else {
            let method = ["POST", "PUT", "MERGE"][self.random.below(3)];
            return self.write(method, row);
        };
        let etag = stored["odata.etag"].as_str().unwrap().to_owned();
        let (change, after) = match self.random.below(5) {
            0 => self.delete(row),
            1 | 2 => self.write("PUT", row),
            _ => self.write("MERGE", row),
        };
        match self.random.below(2) {
            0 => (change.if_match(etag), after),
            _ => (change, after),
        }
    }

    fn write(&mut self, method: &'static str, row: &str) -> (Change, Option<Properties>) {
        let mut written = Properties::new();
        written.insert("Sequence".to_owned(), self.sequence.into());
        written.insert("Text".to_owned(), "tepui ".repeat(self.random.below(60)).into());
        written.insert(format!("Extra{}", self.random.below(4)), self.sequence.into());
        let mut after = match self.rows.get(row) {
            Some(stored) if method == "MERGE" => stored.clone(),
            _ => Properties::new(),
        };
        after.extend(written.clone());
        after.insert("PartitionKey".to_owned(), self.partition.as_str().into());
        after.insert("RowKey".to_owned(), row.into());
        (Change::new(method, row, written), Some(after))
    }

    fn delete(&mut self, row: &str) -> (Change, Option<Properties>) {
        self.deleted_at.insert(row.to_owned(), self.sequence);
        (Change::new("DELETE", row, Properties::new()).if_match("*"), None)
    }

    fn announce(&self, row: &str) {
        row.clone_into(&mut self.announced.lock().unwrap());
    }

    /// The request under way was not carried out. If that is not certain, it stays under way.
    fn give_up(&mut self, step: Step) -> Step {
        if matches!(step, Step::Refused(_)) {
            self.under_way.clear();
        }
        step
    }

    /// The request under way was answered: with these ETags, for what it wrote.
    fn acknowledge(&mut self, etags: Vec<Option<String>>) {
        for ((row, properties), etag) in std::mem::take(&mut self.under_way).into_iter().zip(etags) {
            match properties {
                Some(mut properties) => {
                    properties.insert("odata.etag".to_owned(), etag.unwrap().into());
                    self.rows.insert(row, properties);
                }
                None => {
                    self.counts.deletions += 1;
                    self.rows.remove(&row);
                }
            }
        }
    }
}

pub(crate) fn partition(number: usize) -> String {
    format!("writer{number:02}")
}

/// The first difference between what is expected and what was found.
fn difference(expected: &Rows, found: &Rows) -> Option<String> {
    let rows: std::collections::BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    rows.into_iter().find_map(|row| {
        // The Timestamp says no more than the ETag.
        let plain = |rows: &Rows| {
            rows.get(row).cloned().map(|mut properties| {
                properties.remove("Timestamp");
                properties
            })
        };
        let (expected, found) = (plain(expected), plain(found));
        (expected != found).then(|| format!("{row}: expected {expected:?}, found {found:?}"))
    })
}
