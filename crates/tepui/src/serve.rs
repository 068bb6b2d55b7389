//! `tepui serve`: starts a server, prints where it listens, and stops it on a signal.

use crate::options::Options;
use crate::{FAILED, USAGE, ready, storage};
use std::io::{self, Write};
use std::sync::Arc;
use tepui_server::log::{self, LogGuard};
use tepui_server::new_file::Readers;
use tepui_server::{Config, Server, StartError};
use tokio::task::JoinHandle;

/// Why the command ends without success.
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) code: u8,
}

pub(crate) fn serve(options: &Options) -> Result<(), Failure> {
    let usage = |message| Failure { message, code: USAGE };
    let mut config = options.config(|name| std::env::var(name).ok()).map_err(usage)?;
    let log = log::start(&config).map_err(|error| match &config.log_file {
        Some(path) => usage(format!("cannot write the log ({error}): {}", path.display())),
        None => usage(format!("cannot start the log: {error}")),
    })?;
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for warning in options.warnings(&config, variables) {
        eprintln!("tepui: {warning}");
    }
    fit_open_files(&mut config);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(format!("cannot start threads: {error}")))?;
    let outcome = runtime.block_on(run(options, config, &log));
    drop(log);
    outcome
}

async fn run(options: &Options, config: Config, log: &LogGuard) -> Result<(), Failure> {
    // From here on a signal means an orderly end, even if it comes before the server is up.
    let mut signals = Signals::new().map_err(|error| failed(format!("cannot watch for signals: {error}")))?;
    let config = Config { build: crate::build(), ..config };
    let opened = tokio::select! {
        opened = storage::open(&config) => opened?,
        name = stop_signal(&mut signals) => {
            tracing::info!(signal = name, "stopped before storage could be reached");
            return Ok(());
        }
    };
    let started = match opened {
        None => Server::start(config.clone()).await,
        Some(storage) => Server::start_on(config.clone(), storage).await,
    };
    let server = started.map_err(explain)?;
    let addresses = server.addresses();
    let tls = server.tls().cloned();
    let reach = ready::Reach::of(&config, tls.as_deref());
    let admin = server.admin_address().map(|address| (address, server.new_admin_token()));
    if let Some(path) = &options.ports_file {
        let readers = match server.new_admin_token() {
            Some(_) => Readers::Owner,
            None => Readers::Everybody,
        };
        ready::write_atomically(path, &ready::ports(&addresses, admin, &reach), readers)
            .map_err(|error| failed(format!("cannot write the ports ({error}): {}", path.display())))?;
    }
    // Standard output may be closed, which is no reason to stop.
    let accounts = server.configured_accounts();
    let greeting = ready::greeting(&config, &reach, &accounts, &addresses, admin, options.show_keys);
    let _ = io::stdout().write_all(greeting.as_bytes());
    let _ = io::stdout().flush();
    if let Some(warning) = ready::open_to_everybody(&config, &accounts, &addresses) {
        // Also to those who want no log, and in the log to those who read nothing else.
        let _ = io::stderr().write_all(warning.as_bytes());
        tracing::warn!("an account with the public development key can be reached from other machines");
    }
    if config.oauth.is_some() {
        let _ = io::stderr().write_all(
            b"tepui: --oauth basic: signatures of tokens are not checked. Every program on this machine can be anybody, with all roles.\n",
        );
        tracing::warn!("signatures of tokens are not checked (--oauth basic): everybody can be anybody");
    }
    for (service, address) in &addresses {
        tracing::info!(service = service.name(), %address, "listening");
    }
    ready::notify_service_manager("READY=1");

    server
        .run(async {
            let mut reloading: Option<JoinHandle<bool>> = None;
            let name = loop {
                match signals.next().await {
                    SignalAction::Stop(name) => break name,
                    SignalAction::Reload => {
                        reload(options, log);
                        // Files may hang, and the next signal may ask for an end. What changes while they are read is
                        // noticed without a signal.
                        if let Some(tls) = &tls
                            && reloading.as_ref().is_none_or(JoinHandle::is_finished)
                        {
                            let tls = Arc::clone(tls);
                            reloading = Some(tokio::spawn(async move { tls.reload().await }));
                        }
                    }
                }
            };
            tracing::info!(signal = name, "stopping");
            ready::notify_service_manager("STOPPING=1");
            tokio::spawn(async move {
                while !matches!(signals.next().await, SignalAction::Stop(_)) {}
                std::process::exit(i32::from(FAILED));
            });
        })
        .await;
    tracing::info!("stopped");
    Ok(())
}

/// The next signal that asks for an end. There is nothing to reload yet.
async fn stop_signal(signals: &mut Signals) -> &'static str {
    loop {
        if let SignalAction::Stop(name) = signals.next().await {
            return name;
        }
    }
}

/// Reads the configuration again, for as much of it as can change while the server runs: that of the log, whose file is
/// opened anew. The certificate is read again whatever it says. What is wrong with it is logged, and nothing changes.
fn reload(options: &Options, log: &LogGuard) {
    match options.config(|name| std::env::var(name).ok()) {
        Ok(config) => {
            log.reload(&config);
            tracing::info!(log_level = config.log_level.name(), "reloaded: the log is opened anew");
        }
        Err(error) => tracing::error!(error, "cannot reload the configuration: nothing has changed"),
    }
}

fn failed(message: String) -> Failure {
    Failure { message, code: FAILED }
}

fn explain(error: StartError) -> Failure {
    match &error {
        StartError::Config(_) => Failure { message: error.to_string(), code: USAGE },
        StartError::Listen(name, _, cause) if cause.kind() == io::ErrorKind::AddrInUse => {
            failed(format!("{error} (--{name}-port chooses another, 0 any free one)"))
        }
        StartError::Listen(..)
        | StartError::Tls(_)
        | StartError::Data(_)
        | StartError::Extents(_)
        | StartError::Node(_)
        | StartError::Accounts(_)
        | StartError::Seed(_)
        | StartError::Identity(_) => failed(error.to_string()),
    }
}

/// Files that the engine and the rest of the process need beside the connections.
#[cfg(unix)]
const OTHER_FILES: u64 = 512;

/// Lets the process open as many files as the system allows it, and no more connections than that:
/// an engine that runs out of files cannot write.
#[cfg(unix)]
fn fit_open_files(config: &mut Config) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let granted = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    let Some(files) = granted else { return };
    let room = files.saturating_sub(OTHER_FILES).max(files / 2).max(1);
    if (config.limits.max_connections as u64) > room {
        tracing::warn!(
            max_connections = room,
            open_files = files,
            "fewer connections, for want of open files"
        );
        config.limits.max_connections = room as usize;
    }
}

#[cfg(not(unix))]
fn fit_open_files(_config: &mut Config) {}

/// What a signal asks for.
enum SignalAction {
    /// By the signal of this name.
    Stop(&'static str),
    #[cfg_attr(not(unix), expect(dead_code, reason = "other systems have no signal for it"))]
    Reload,
}

/// The signals that the server knows.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        // Others would end the process. They mean nothing here, and watching them once is enough to take that from them.
        for ignored in [SignalKind::user_defined1(), SignalKind::user_defined2(), SignalKind::alarm()] {
            drop(signal(ignored)?);
        }
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.interrupt.recv() => SignalAction::Stop("SIGINT"),
            _ = self.terminate.recv() => SignalAction::Stop("SIGTERM"),
            _ = self.hang_up.recv() => SignalAction::Reload,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> SignalAction {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        SignalAction::Stop("Ctrl-C")
    }
}
