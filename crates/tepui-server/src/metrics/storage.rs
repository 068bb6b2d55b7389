//! Storage: commits, write-ahead log, tables, extents, the disk. Read from what storage counts of itself.

use super::collected::{self, Families, Unit};
use crate::data::Data;
use prometheus::Registry;
use std::sync::Arc;
use tepui_local::{DiskEngine, DiskExtents, EngineStats, ExtentStats};
use tepui_service::{BlobStats, TransactStats, transact_stats};
use tepui_storage::stats::RemoteStats;

pub(super) fn register(registry: &Registry, data: Data, blobs: Arc<BlobStats>) {
    collected::register(registry, transactions);
    collected::register(registry, move |families| match &data {
        Data::Memory(engine, extents) => {
            let commits = engine.commits();
            commits_total(
                families,
                [&commits.ok, &commits.conflict, &commits.unknown, &commits.failed].map(|count| count.get()),
            );
            extent_bytes(families, extents.bytes());
        }
        Data::Disk(engine, extents, _) => disk(families, engine, extents, &blobs),
        Data::Shared(shared) => remote(families, &shared.stats, &blobs),
    });
}

/// A store over a network.
fn remote(families: &mut Families, stats: &RemoteStats, blobs: &BlobStats) {
    let RemoteStats { round_trips, read, commit, commits, connects, unavailable, in_use } = stats;
    commits_total(
        families,
        [&commits.ok, &commits.conflict, &commits.unknown, &commits.failed].map(|count| count.get()),
    );
    families.counter(
        "tepui_storage_round_trips_total",
        "Times that an answer of the store was waited for.",
        &[(&[], round_trips.get() as f64)],
    );
    families.histogram(
        "tepui_storage_read_seconds",
        "How long reads of the store took.",
        Unit::Nanoseconds,
        &read.snapshot(),
    );
    families.histogram(
        "tepui_storage_commit_seconds",
        "How long commits took, whatever became of them.",
        Unit::Nanoseconds,
        &commit.snapshot(),
    );
    families.counter(
        "tepui_storage_connects_total",
        "Connections to the store that were opened.",
        &[(&[], connects.get() as f64)],
    );
    families.gauge(
        "tepui_storage_connections_in_use",
        "Connections to the store that are in use now.",
        &[(&[], in_use.get() as f64)],
    );
    families.counter(
        "tepui_storage_unavailable_total",
        "Calls that failed because the store could not be reached or did not answer in time.",
        &[(&[], unavailable.get() as f64)],
    );
    families.gauge(
        "tepui_reclaim_backlog_bytes",
        "Bytes that are deleted and still take space: extents that are to be freed.",
        &[(&[("kind", "extents")], blobs.free_backlog_bytes.get() as f64)],
    );
    families.counter(
        "tepui_corrupt_reads_total",
        "Reads that met bytes that are not what was written.",
        &[(&[("part", "extents")], blobs.corrupt_reads.get() as f64)],
    );
}

/// What services did about commits that conflicted or whose outcome was unknown.
fn transactions(families: &mut Families) {
    let TransactStats { conflicts, given_up, unknown_settled, unknown_open } = transact_stats();
    families.counter(
        "tepui_transaction_conflicts_total",
        "Conflicts after which a request or background work was decided again (retried), and requests that met too many (given_up).",
        &[
            (&[("end", "retried")], conflicts.get() as f64),
            (&[("end", "given_up")], given_up.get() as f64),
        ],
    );
    families.counter(
        "tepui_unknown_commits_total",
        "Commits of unknown outcome that were found to have happened (settled), and those that were not (open).",
        &[
            (&[("found", "settled")], unknown_settled.get() as f64),
            (&[("found", "open")], unknown_open.get() as f64),
        ],
    );
}

fn disk(families: &mut Families, engine: &DiskEngine, extents: &DiskExtents, blobs: &BlobStats) {
    let stats = engine.stats();
    let EngineStats { commits_ok, commits_conflict, commits_unknown, commits_failed, .. } = stats;
    commits_total(families, [commits_ok, commits_conflict, commits_unknown, commits_failed]);
    commit_path(families, &stats);
    tables(families, &stats);
    let ExtentStats { bytes, free_bytes, sync } = extents.stats();
    extent_bytes(families, bytes);
    families.gauge(
        "tepui_extent_free_bytes",
        "Bytes inside of volumes that were freed and given back to the file system.",
        &[(&[], free_bytes as f64)],
    );
    families.histogram("tepui_extent_sync_seconds", "Syncs of extents.", Unit::Nanoseconds, &sync);
    families.gauge(
        "tepui_reclaim_backlog_bytes",
        "Bytes that are deleted and still take space: replaced tables that are read, and extents that are to be freed.",
        &[
            (&[("kind", "tables")], stats.obsolete_bytes as f64),
            (&[("kind", "extents")], blobs.free_backlog_bytes.get() as f64),
        ],
    );
    families.counter(
        "tepui_corrupt_reads_total",
        "Reads that met bytes that are not what was written.",
        &[
            (&[("part", "rows")], stats.corrupt_reads as f64),
            (&[("part", "extents")], blobs.corrupt_reads.get() as f64),
        ],
    );
    families.gauge(
        "tepui_engine_lost_ranges",
        "Ranges of keys whose rows were lost to damage.",
        &[(&[], stats.lost_ranges as f64)],
    );
    if let Some(space) = engine.disk_space() {
        families.gauge(
            "tepui_disk_free_bytes",
            "Free bytes of the disk of the data directory.",
            &[(&[], space.free_bytes as f64)],
        );
        families.gauge(
            "tepui_disk_total_bytes",
            "Bytes of the disk of the data directory.",
            &[(&[], space.total_bytes as f64)],
        );
    }
}

fn commit_path(families: &mut Families, stats: &EngineStats) {
    families.histogram(
        "tepui_commit_group_size",
        "Commits that were written and synced together.",
        Unit::Count,
        &stats.group_size,
    );
    families.gauge(
        "tepui_commit_queue_length",
        "Commits that wait for their group.",
        &[(&[], stats.queue_length as f64)],
    );
    families.histogram(
        "tepui_commit_wait_seconds",
        "How long commits waited for their group to begin.",
        Unit::Nanoseconds,
        &stats.commit_wait,
    );
    families.histogram(
        "tepui_commit_sync_seconds",
        "How long groups took to be written to the write-ahead log and synced.",
        Unit::Nanoseconds,
        &stats.sync,
    );
    let (stalls, slowdowns) = (stats.stalls, stats.slowdowns);
    families.counter(
        "tepui_engine_stalls_total",
        "How often writes waited for flushes or compactions (stop), or were slowed down for them (slowdown).",
        &[(&[("kind", "stop")], stalls.count as f64), (&[("kind", "slowdown")], slowdowns.count as f64)],
    );
    families.counter(
        "tepui_engine_stall_seconds_total",
        "How long writes waited for flushes or compactions (stop), or were slowed down for them (slowdown).",
        &[
            (&[("kind", "stop")], stalls.time.as_secs_f64()),
            (&[("kind", "slowdown")], slowdowns.time.as_secs_f64()),
        ],
    );
}

fn tables(families: &mut Families, stats: &EngineStats) {
    families.gauge(
        "tepui_engine_bytes",
        "Bytes of the write-ahead log and of tables on disk, and of memtables in memory.",
        &[
            (&[("kind", "wal")], stats.wal_bytes as f64),
            (&[("kind", "tables")], stats.table_bytes as f64),
            (&[("kind", "memtables")], stats.memtable_bytes as f64),
        ],
    );
    families.counter(
        "tepui_engine_compaction_bytes_total",
        "Bytes that compactions have read and written.",
        &[
            (&[("direction", "read")], stats.compaction_read_bytes as f64),
            (&[("direction", "written")], stats.compaction_written_bytes as f64),
        ],
    );
}

fn commits_total(families: &mut Families, [ok, conflict, unknown, failed]: [u64; 4]) {
    families.counter(
        "tepui_commits_total",
        "Commits by their outcome.",
        &[
            (&[("outcome", "ok")], ok as f64),
            (&[("outcome", "conflict")], conflict as f64),
            (&[("outcome", "unknown")], unknown as f64),
            (&[("outcome", "failed")], failed as f64),
        ],
    );
}

fn extent_bytes(families: &mut Families, bytes: u64) {
    families.gauge("tepui_extent_bytes", "Bytes that extents take.", &[(&[], bytes as f64)]);
}
