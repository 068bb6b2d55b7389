//! `tepui check`: verifies a data directory that no server has open.

use crate::FAILED;
use crate::progress::Progress;
use crate::serve::Failure;
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::SystemFiles;
use tepui_local::check::{Damage, DirectoryCheck, FileCounts};
use tepui_local::{OfflineDirectory, OfflineError};
use tepui_service::check::{RowCheck, RowCounts, RowDamage};
use tepui_storage::Extent;

/// It could not be checked. Also the code of wrong arguments.
const NOT_CHECKED: u8 = 2;

/// No more findings are kept: there may be one for every row.
const MAX_FINDINGS: usize = 1000;

/// Verifies a data directory while no server runs on it.
///
/// Verifies every checksum and every reference, and counts what is stored. Nothing is changed.
/// Exit code 0: healthy, 1: damaged, 2: could not be checked.
#[derive(Args)]
pub(crate) struct CheckOptions {
    /// The data directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Something that is damaged.
struct Finding {
    file: Option<PathBuf>,
    offset: Option<u64>,
    what: String,
    /// Which tables or blobs are affected, in words; empty if all may be.
    affects: String,
}

#[derive(Default)]
struct Findings {
    kept: Vec<Finding>,
    /// All that were found.
    count: u64,
}

impl Findings {
    fn push(&mut self, finding: Finding) {
        self.count += 1;
        if self.kept.len() < MAX_FINDINGS {
            self.kept.push(finding);
        }
    }

    fn push_row(&mut self, RowDamage { what, affects }: RowDamage) {
        self.push(Finding { file: None, offset: None, what, affects });
    }

    fn push_file(&mut self, damage: Damage, affects: String) {
        let Damage { file, offset, what, .. } = damage;
        self.push(Finding { file: Some(file), offset, what, affects });
    }
}

pub(crate) fn check(options: &CheckOptions) -> Result<(), Failure> {
    let not_checked = |why: String| Failure { message: why, code: NOT_CHECKED };
    if tepui_server::config::is_storage_url(&options.directory) {
        let why = "only a data directory is checked: a store over a network checks itself";
        return Err(not_checked(why.to_owned()));
    }
    let mut findings = Findings::default();
    let counts = match OfflineDirectory::open(Arc::new(SystemFiles), &options.directory) {
        Ok(directory) => {
            let checked = run(directory, &mut findings);
            checked.map_err(|error| not_checked(format!("not all could be checked: {error}")))?
        }
        Err(OfflineError::Damaged(what)) => {
            findings.push(Finding { file: None, offset: None, what, affects: String::new() });
            Counts::default()
        }
        Err(error @ (OfflineError::InUse(_) | OfflineError::Unusable(_))) => {
            return Err(not_checked(error.to_string()));
        }
    };
    match options.json {
        true => println!("{}", as_json(&options.directory, &findings, &counts)),
        false => print!("{}", as_text(&options.directory, &findings, &counts)),
    }
    match findings.count {
        0 => Ok(()),
        count => {
            let message =
                format!("{count} damages were found: restore from a backup: {}", options.directory.display());
            Err(Failure { message, code: FAILED })
        }
    }
}

#[derive(Default)]
struct Counts {
    files: FileCounts,
    rows: RowCounts,
}

fn run(directory: OfflineDirectory, findings: &mut Findings) -> io::Result<Counts> {
    // Whose the keys are is known only after the catalogue was read.
    let mut of_files: Vec<Damage> = Vec::new();
    let mut uncounted = 0;
    let mut keep = |damage| match of_files.len() < MAX_FINDINGS {
        true => of_files.push(damage),
        false => uncounted += 1,
    };
    let mut check = DirectoryCheck::open(directory, &mut keep)?;
    let mut progress = Progress::new("checking", check.total_bytes());
    check.verify_tables(&mut |bytes| progress.add(bytes), &mut keep)?;
    findings.count += uncounted;

    let mut rows = RowCheck::default();
    let mut damaged: Vec<(Damage, Extent)> = Vec::new();
    check.rows(&mut |extents, key, value| {
        let extent = rows.row(&key, &value, &mut |damage| findings.push_row(damage));
        if let Some(extent) = extent
            && let Some(damage) = extents.verify(extent, &mut |bytes| progress.add(bytes))?
        {
            match damaged.len() < MAX_FINDINGS {
                true => damaged.push((damage, extent)),
                false => findings.count += 1,
            }
        }
        Ok(())
    })?;
    for damage in of_files {
        let affects = damage.keys.as_ref().map_or(String::new(), |keys| rows.describe(keys));
        findings.push_file(damage, affects);
    }
    let extents: Vec<Extent> = damaged.iter().map(|(_, extent)| *extent).collect();
    let (counts, mut trace) = rows.finish(&extents, &mut |damage| findings.push_row(damage));
    while trace.needs_pass() {
        check.rows(&mut |_, key, value| {
            trace.row(&key, &value);
            Ok(())
        })?;
        trace.end_of_pass(&mut |damage| findings.push_row(damage));
    }
    for (damage, extent) in damaged {
        findings.push_file(damage, trace.affected(extent));
    }
    Ok(Counts { files: check.finish()?, rows: counts })
}

fn as_text(directory: &Path, findings: &Findings, Counts { files, rows }: &Counts) -> String {
    let mut text = String::new();
    for Finding { file, offset, what, affects } in &findings.kept {
        let place = file.as_ref().map_or(String::new(), |file| {
            let name = file.strip_prefix(directory).unwrap_or(file).display().to_string();
            offset.map_or(format!("{name}: "), |offset| format!("{name} at {offset}: "))
        });
        let affects = if affects.is_empty() { String::new() } else { format!(" (affects {affects})") };
        let _ = writeln!(text, "damaged: {place}{what}{affects}");
    }
    if findings.count > findings.kept.len() as u64 {
        let _ = writeln!(text, "damaged: {} more", findings.count - findings.kept.len() as u64);
    }
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64);
    for line in [
        format!("tables      {} with {} entities ({})", rows.tables, rows.entities, mib(rows.entity_bytes)),
        format!("queues      {} with {} messages ({})", rows.queues, rows.messages, mib(rows.message_bytes)),
        format!("containers  {} with {} blobs ({})", rows.containers, rows.blobs, mib(rows.blob_bytes)),
        format!(
            "            {} snapshots, versions and deleted ones, {} uncommitted blocks",
            rows.other_revisions, rows.uncommitted_blocks
        ),
        format!(
            "on disk     {} sorted tables ({}), {} batches in the log, {} extents in {} volumes ({})",
            files.tables,
            mib(files.table_bytes),
            files.log_batches,
            rows.extents,
            files.volumes,
            mib(files.extent_bytes)
        ),
        format!(
            "garbage     {} tombstones, {} rows, {} extents to be freed, {} in volumes, {} orphaned files ({})",
            files.tombstones,
            rows.garbage_rows,
            rows.garbage_extents,
            mib(files.garbage_bytes),
            files.orphaned_tables + files.quarantined_tables,
            mib(files.orphaned_bytes + files.quarantined_bytes)
        ),
    ] {
        let _ = writeln!(text, "{line}");
    }
    text.push_str(if findings.count == 0 { "healthy\n" } else { "" });
    text
}

fn as_json(directory: &Path, findings: &Findings, Counts { files, rows }: &Counts) -> Value {
    let finding = |finding: &Finding| {
        let file = finding
            .file
            .as_ref()
            .map(|file| file.strip_prefix(directory).unwrap_or(file).display().to_string());
        json!({"file": file, "offset": finding.offset, "what": finding.what, "affects": finding.affects})
    };
    json!({
        "healthy": findings.count == 0,
        "damages": findings.count,
        "findings": findings.kept.iter().map(finding).collect::<Vec<_>>(),
        "live": {
            "tables": rows.tables, "entities": rows.entities, "entity_bytes": rows.entity_bytes,
            "queues": rows.queues, "messages": rows.messages, "message_bytes": rows.message_bytes,
            "containers": rows.containers, "blobs": rows.blobs, "blob_bytes": rows.blob_bytes,
            "other_revisions": rows.other_revisions, "uncommitted_blocks": rows.uncommitted_blocks,
            "extents": rows.extents, "extent_bytes": files.extent_bytes,
        },
        "disk": {
            "sorted_tables": files.tables, "sorted_table_bytes": files.table_bytes, "rows": files.table_rows,
            "log_batches": files.log_batches, "volumes": files.volumes, "unsealed_volumes": files.unsealed_volumes,
        },
        "garbage": {
            "tombstones": files.tombstones, "rows": rows.garbage_rows, "extents": rows.garbage_extents,
            "volume_bytes": files.garbage_bytes, "orphaned_files": files.orphaned_tables,
            "orphaned_bytes": files.orphaned_bytes, "quarantined_files": files.quarantined_tables,
            "quarantined_bytes": files.quarantined_bytes,
        },
    })
}
