//! Seeds: tables, queues and containers from files, for tests and demonstrations to begin with.
//!
//! A seed is a directory, or a tar archive of one; `docs/seed.md` says what is in it. Seeding twice leaves the same.
//!
//! | | |
//! | --- | --- |
//! | `source.rs` | the files of a directory or an archive |
//! | `layout.rs` | what a file is for, by its path |
//! | `read.rs` | files as steps: entities, messages, bytes of blobs |
//! | `csv.rs` `entity_csv.rs` | CSV; entities with typed columns |
//! | `content_type.rs` | content types of blobs |
//! | `apply.rs` | what a step does to the services |
//!
//! Files are read on a thread for blocking work, some steps ahead of what is stored.

mod apply;
mod content_type;
mod csv;
mod entity_csv;
mod layout;
mod read;
mod source;

pub(crate) use apply::Seeder;
pub(crate) use source::SeedSource;

use crate::accounts::AccountDirectory;
use crate::config::Config;
use crate::ids;
use crate::node::Node;
use serde::Serialize;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tepui_service::{BlobService, GarbageCollector, QueueService, TableOptions, TableService};
use tepui_storage::rewindable::RewindableEngine;
use tepui_storage::{Engine, Extents};

/// What is wrong with a seed, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedError {
    /// As the seed names it. Empty: the seed itself.
    pub file: String,
    pub line: Option<u64>,
    pub message: String,
    /// Whether it is the server that has failed, and not the seed.
    pub is_internal: bool,
}

impl SeedError {
    fn new(file: &str, line: Option<u64>, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, message: message.into(), is_internal: false }
    }
}

impl fmt::Display for SeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.file.as_str(), self.line) {
            ("", _) => {}
            (file, None) => write!(f, "{file}: ")?,
            (file, Some(line)) => write!(f, "{file}, line {line}: ")?,
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for SeedError {}

/// What a seed holds, and how much of it was not there already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeedCounts {
    pub(crate) tables: u64,
    pub(crate) entities: u64,
    pub(crate) entities_written: u64,
    pub(crate) queues: u64,
    pub(crate) messages: u64,
    pub(crate) messages_written: u64,
    pub(crate) containers: u64,
    pub(crate) blobs: u64,
    pub(crate) blobs_written: u64,
}

/// Seeds a server that serves nobody yet.
pub(crate) async fn at_start<E: Engine, X: Extents>(
    engine: &Arc<E>,
    extents: &Arc<X>,
    node: &Node,
    (config, accounts): (&Config, &Arc<AccountDirectory>),
    path: &Path,
) -> Result<(), SeedError> {
    // Of the same types as those that serve, so that they are compiled once.
    let engine = Arc::new(RewindableEngine::off(Arc::clone(engine)));
    let seeder = seeder(&engine, extents, node, config, accounts);
    seeder.apply(SeedSource::Path(path.to_owned()), &config.default_account()).await.map(drop)
}

/// Services of its own, for as long as a seed takes.
fn seeder<E: Engine, X: Extents>(
    engine: &Arc<RewindableEngine<E>>,
    extents: &Arc<X>,
    node: &Node,
    config: &Config,
    accounts: &Arc<AccountDirectory>,
) -> Seeder<RewindableEngine<E>, X> {
    let clock = Arc::clone(&node.clock);
    let collector = Arc::new(GarbageCollector::new(Arc::clone(engine)));
    let (of_tables, of_queues) = (Arc::clone(&collector), collector);
    Seeder {
        tables: Arc::new(TableService::new(
            Arc::clone(engine),
            Arc::clone(&clock),
            of_tables,
            TableOptions::default(),
        )),
        queues: Arc::new(QueueService::new(
            Arc::clone(engine),
            Arc::clone(&clock),
            of_queues,
            node.queue_options(),
        )),
        blobs: Arc::new(BlobService::new(
            Arc::clone(engine),
            Arc::clone(extents),
            clock,
            ids::random_ids(),
            node.blob_options(config),
        )),
        accounts: Arc::clone(accounts),
        default_account: config.default_account(),
    }
}

#[cfg(test)]
mod tests;
