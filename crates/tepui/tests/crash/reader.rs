//! A client that reads what others are writing, and remembers what it saw.

use super::writer::{GROUPS, Writer, partition};
use super::{Announced, Found, TABLE, expect_killed};
use crate::support::http::Client;
use crate::support::random::Random;
use crate::support::table::{Properties, time_of};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicBool;

pub(crate) struct Reader {
    random: Random,
    seen: BTreeMap<(usize, String), Seen>,
    pub(crate) reads: usize,
}

/// The newest that was seen of an entity.
struct Seen {
    /// The number of the write that made it so.
    sequence: u64,
    etag: String,
    /// It was not there when it was looked for again.
    gone: bool,
}

impl Reader {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), seen: BTreeMap::new(), reads: 0 }
    }

    /// Reads until the server is killed.
    pub(crate) fn work(&mut self, port: u16, killed: &AtomicBool, announced: &[Announced]) {
        let mut client = match Client::connect(port) {
            Ok(client) => client,
            Err(error) => return expect_killed(&error, killed),
        };
        loop {
            let writer = self.random.below(announced.len());
            let outcome = match self.random.below(4) {
                0 => self.read_group(&mut client, writer),
                _ => self.read_entity(&mut client, writer, &announced[writer]),
            };
            match outcome {
                Ok(()) => self.reads += 1,
                Err(error) => return expect_killed(&error, killed),
            }
        }
    }

    /// What is there after a restart is at least as new as what was seen before.
    pub(crate) fn check(&self, found: &Found, writers: &[Writer]) -> Result<(), String> {
        for ((writer, row), seen) in &self.seen {
            let entity = found.get(writers[*writer].partition()).and_then(|rows| rows.get(row));
            let fine = match entity {
                Some(entity) if sequence(entity) == seen.sequence => {
                    !seen.gone && entity["odata.etag"] == seen.etag
                }
                Some(entity) => sequence(entity) > seen.sequence,
                None => seen.gone || writers[*writer].deleted_after(row, seen.sequence),
            };
            if !fine {
                return Err(format!(
                    "the crash undid what was read: {row} of writer {writer} was seen at {} (gone after: {}), \
                     now {entity:?}",
                    seen.sequence, seen.gone
                ));
            }
        }
        Ok(())
    }

    /// Reads what the writer is changing just now.
    fn read_entity(&mut self, client: &mut Client, writer: usize, announced: &Announced) -> io::Result<()> {
        let row = announced.lock().unwrap().clone();
        match client.get(TABLE, &partition(writer), &row)? {
            Some(entity) => self.saw(writer, &entity),
            None => {
                if let Some(seen) = self.seen.get_mut(&(writer, row)) {
                    seen.gone = true;
                }
            }
        }
        Ok(())
    }

    /// Reads a group in one query: no batch may be seen in part.
    fn read_group(&mut self, client: &mut Client, writer: usize) -> io::Result<()> {
        let group = self.random.below(GROUPS.len());
        let filter = format!(
            "$filter=PartitionKey%20eq%20'{}'%20and%20RowKey%20ge%20'g{group}-'%20and%20RowKey%20lt%20'g{group}.'",
            partition(writer)
        );
        let (entities, next) = client.page(TABLE, &filter, "")?;
        assert_eq!(next, None);
        let members = entities.iter().filter(|entity| entity["RowKey"] != format!("g{group}-guest"));
        let newest = entities.iter().map(sequence).max();
        assert!([0, GROUPS[group]].contains(&members.clone().count()), "a part of a batch");
        for member in members {
            assert_eq!(Some(sequence(member)), newest, "half a batch: {entities:?}");
        }
        for entity in &entities {
            self.saw(writer, entity);
        }
        Ok(())
    }

    fn saw(&mut self, writer: usize, entity: &Properties) {
        let row = entity["RowKey"].as_str().unwrap().to_owned();
        let etag = entity["odata.etag"].as_str().unwrap().to_owned();
        let now = Seen { sequence: sequence(entity), etag, gone: false };
        if let Some(before) = self.seen.get(&(writer, row.clone())) {
            assert!(now.sequence >= before.sequence, "an older state of {row} of writer {writer}");
            assert!(now.sequence > before.sequence || !before.gone, "{row} is back");
            assert!(time_of(&now.etag) >= time_of(&before.etag), "an older ETag: {row} of writer {writer}");
        }
        self.seen.insert((writer, row), now);
    }
}

fn sequence(entity: &Properties) -> u64 {
    entity["Sequence"].as_u64().unwrap()
}
