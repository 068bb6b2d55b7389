//! The `tepui` command.

mod account;
mod admin;
mod backup;
mod check;
#[cfg_attr(not(unix), allow(dead_code, unused_imports, reason = "other systems have no control socket"))]
mod control_client;
mod explain;
mod health;
mod options;
mod progress;
mod ready;
mod restore;
mod role;
mod serve;
mod storage;
mod storage_copy;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;
use tepui_server::config::Build;

/// Azure Storage that you can run yourself.
///
/// Without a command, `tepui` is `tepui serve`: it serves the development account on the ports that
/// Azure's tools expect. Options of `serve` may follow at once: `tepui --table-port 0`.
#[derive(Parser)]
#[command(version = version(), arg_required_else_help = false)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Serve(Box<options::Options>),
    /// Asks a running server whether it is healthy: exit code 0, or 1 and why not.
    ///
    /// Takes the options, environment and configuration file of `tepui serve`, to know where the server listens.
    Health(Box<options::Options>),
    Check(check::CheckOptions),
    Backup(backup::BackupOptions),
    Restore(restore::RestoreOptions),
    Storage(storage::StorageOptions),
    Explain(explain::ExplainOptions),
    Admin(admin::AdminOptions),
    Account(account::AccountOptions),
    Role(role::RoleOptions),
}

/// Requests make many small allocations on several threads; the system's allocator costs a tenth of
/// the whole more (see `docs/decisions/0004-mimalloc.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Something went wrong while running.
const FAILED: u8 = 1;
/// What was asked for makes no sense. Also clap's code for wrong arguments.
const USAGE: u8 = 2;

/// The version, and the commit if it is known.
pub(crate) fn version() -> &'static str {
    match env!("TEPUI_COMMIT") {
        "" => env!("CARGO_PKG_VERSION"),
        _ => concat!(env!("CARGO_PKG_VERSION"), " (", env!("TEPUI_COMMIT"), ")"),
    }
}

/// Which build this is.
pub(crate) fn build() -> Build {
    Build { version: env!("CARGO_PKG_VERSION"), revision: env!("TEPUI_COMMIT") }
}

fn main() -> ExitCode {
    let command = match Command::try_parse_from(with_serve(std::env::args_os())) {
        Ok(command) => command,
        Err(error) => match options::bad_variable(&error) {
            Some(message) => {
                eprintln!("tepui: {message}");
                return ExitCode::from(USAGE);
            }
            None => error.exit(),
        },
    };
    let outcome = match command.what {
        What::Serve(options) => serve::serve(&options),
        What::Health(options) => health::health(&options),
        What::Check(options) => check::check(&options),
        What::Backup(options) => backup::backup(&options),
        What::Restore(options) => restore::restore(&options),
        What::Storage(options) => storage::storage(&options),
        What::Explain(options) => explain::explain(&options),
        What::Admin(options) => admin::admin(&options),
        What::Account(options) => account::account(&options),
        What::Role(options) => role::role(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("tepui: {}", failure.message);
            ExitCode::from(failure.code)
        }
    }
}

/// Puts the word `serve` in front of options that stand alone.
fn with_serve(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = arguments.collect();
    match all.get(1).and_then(|first| first.to_str()) {
        Some("-h" | "--help" | "-V" | "--version") => {}
        // As Azurite has it.
        Some("-v") => all[1] = "--version".into(),
        Some(first) if !first.starts_with('-') => {}
        _ => all.insert(all.len().min(1), "serve".into()),
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_alone_mean_serve() {
        for (case, given, expected) in [
            ("nothing", vec!["tepui"], vec!["tepui", "serve"]),
            ("options", vec!["tepui", "-l", "x"], vec!["tepui", "serve", "-l", "x"]),
            ("a command", vec!["tepui", "serve", "-s"], vec!["tepui", "serve", "-s"]),
            ("help", vec!["tepui", "--help"], vec!["tepui", "--help"]),
            ("the version", vec!["tepui", "-v"], vec!["tepui", "--version"]),
        ] {
            let all = with_serve(given.into_iter().map(OsString::from));
            assert_eq!(all, expected, "{case}");
        }
    }

    #[test]
    fn clap_agrees_with_the_declarations() {
        use clap::CommandFactory;
        Command::command().debug_assert();
    }
}
