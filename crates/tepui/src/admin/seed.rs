//! `tepui admin seed`: puts tables, queues and containers from files into a test bench.

use super::Output;
use super::client::{AdminClient, encoded};
use crate::FAILED;
use crate::serve::Failure;
use clap::Args;
use std::path::PathBuf;

/// Puts tables, queues and containers into a test bench, from a directory or a tar archive: see docs/seed.md.
#[derive(Args)]
pub(crate) struct SeedOptions {
    /// The directory or the archive
    path: PathBuf,

    /// For what is in no folder of an account [default: the first account of the server]
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
}

pub(crate) fn seed(client: &AdminClient, options: &SeedOptions, output: Output) -> Result<(), Failure> {
    let path = &options.path;
    let archive = if path.is_dir() { pack(path) } else { std::fs::read(path) };
    let archive = archive.map_err(|error| Failure {
        message: format!("cannot read the seed ({error}): {}", path.display()),
        code: FAILED,
    })?;
    let account = options.account.as_ref();
    let account = account.map(|name| format!("?account={}", encoded(name))).unwrap_or_default();
    let answer = client.upload(&format!("/seed{account}"), &archive)?;
    output.print(&answer, |counts| {
        let count = |name: &str| counts[name].as_u64().unwrap_or_default();
        format!(
            "{} tables with {} entities ({} written), {} queues with {} messages ({} written), {} containers with {} \
             blobs ({} written)",
            count("tables"),
            count("entities"),
            count("entitiesWritten"),
            count("queues"),
            count("messages"),
            count("messagesWritten"),
            count("containers"),
            count("blobs"),
            count("blobsWritten"),
        )
    });
    Ok(())
}

/// A directory as an archive.
fn pack(directory: &std::path::Path) -> std::io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all("", directory)?;
    builder.into_inner()
}
