//! `tepui-scenarios`: runs the texts of `conformance/scenarios` against any endpoint that speaks the
//! protocols. It shares no code with the server, so that a mistake cannot hide on both sides.

mod check;
mod clock;
mod credentials;
mod http;
mod json;
mod multipart;
mod parse;
mod parse_expect;
mod pattern;
mod request;
mod run;
mod scenario;
mod sign;
mod template;
mod xml;

use crate::check::Rigour;
use crate::request::Endpoint;
use crate::run::Failure;
use crate::scenario::{Scenario, Service};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const USAGE: &str = "\
usage: tepui-scenarios --endpoint URL --queue-endpoint URL --blob-endpoint URL [options] FILE-or-DIR...
  --endpoint URL         the table service, such as http://127.0.0.1:10002/devstoreaccount1
  --queue-endpoint URL   the queue service, such as http://127.0.0.1:10001/devstoreaccount1
  --blob-endpoint URL    the blob service, such as http://127.0.0.1:10000/devstoreaccount1
                         Scenarios of a service that is given no address are skipped.
  --account NAME         if the address does not say it
  --key BASE64           the account's key; the development account's by default
  --filter TEXT          only scenarios whose name or file contains it
  --jobs N               scenarios at a time, 4 by default
  --list                 name the scenarios and stop
  --loose                compare codes and values, not the dress of answers
  --brief                no traffic of failed steps
  --shared-store         the server shares its store with others: messages stay hidden, and leases last, a second longer";

const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

#[derive(Debug, Default)]
struct Options {
    endpoints: Vec<(Service, String)>,
    account: Option<String>,
    key: Option<String>,
    filter: String,
    jobs: usize,
    list: bool,
    loose: bool,
    brief: bool,
    shared_store: bool,
    paths: Vec<PathBuf>,
}

/// Runs what the arguments of the command ask for. True if all scenarios passed.
pub fn run(arguments: impl Iterator<Item = String>) -> Result<bool, String> {
    let options = options(arguments)?;
    let scenarios = load(&options)?;
    if options.list {
        for scenario in &scenarios {
            println!("{}:{} {}: {}", scenario.file, scenario.line, scenario.name, scenario.title);
        }
        return Ok(true);
    }
    if options.endpoints.is_empty() {
        return Err(USAGE.to_owned());
    }
    let key = options.key.as_deref().unwrap_or(DEVELOPMENT_KEY);
    let mut endpoints = Vec::new();
    for (service, url) in &options.endpoints {
        let endpoint = Endpoint::parse(*service, url, options.account.as_deref(), key)?;
        endpoints.push(Endpoint { shared_store: options.shared_store, ..endpoint });
    }
    let scenarios = reachable(scenarios, &endpoints);
    let (serial, parallel): (Vec<_>, Vec<_>) = scenarios.iter().partition(|scenario| scenario.serial);
    let rigour = if options.loose { Rigour::Loose } else { Rigour::Exact };
    let mut failed = run_all(&parallel, &endpoints, rigour, options.jobs);
    failed.extend(run_all(&serial, &endpoints, rigour, 1));
    for (scenario, failures) in &failed {
        report(scenario, failures, options.brief);
    }
    println!("scenarios: {} passed, {} failed", scenarios.len() - failed.len(), failed.len());
    Ok(failed.is_empty())
}

/// The scenarios whose service has an address; says how many have none.
fn reachable(scenarios: Vec<Scenario>, endpoints: &[Endpoint]) -> Vec<Scenario> {
    let known = |service: Service| endpoints.iter().any(|endpoint| endpoint.service == service);
    for service in Service::ALL.into_iter().filter(|service| !known(*service)) {
        let count = scenarios.iter().filter(|scenario| scenario.service == service).count();
        if count > 0 {
            println!("skipped {count} scenarios of the {} service: no {}", service.name(), service.option());
        }
    }
    scenarios.into_iter().filter(|scenario| known(scenario.service)).collect()
}

fn options(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { jobs: 4, ..Options::default() };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "--account" => options.account = Some(value()?),
            "--key" => options.key = Some(value()?),
            "--filter" => options.filter = value()?,
            "--jobs" => options.jobs = value()?.parse().map_err(|_| "--jobs needs a number".to_owned())?,
            "--list" => options.list = true,
            "--loose" => options.loose = true,
            "--brief" => options.brief = true,
            "--shared-store" => options.shared_store = true,
            "--help" => return Err(USAGE.to_owned()),
            other if Service::ALL.iter().any(|service| service.option() == other) => {
                let named = |service: &Service| service.option() == other;
                let service = Service::ALL.into_iter().find(named).unwrap_or_default();
                options.endpoints.push((service, value()?));
            }
            other if other.starts_with('-') => return Err(format!("unknown option: {other}\n{USAGE}")),
            path => options.paths.push(path.into()),
        }
    }
    if options.paths.is_empty() { Err(USAGE.to_owned()) } else { Ok(options) }
}

/// The wanted scenarios of all files. Names must be unique: code refers to them.
fn load(options: &Options) -> Result<Vec<Scenario>, String> {
    let mut files = Vec::new();
    for path in &options.paths {
        collect(path, &mut files)?;
    }
    let mut scenarios = Vec::new();
    let mut names = HashSet::new();
    for file in files {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(&file).map_err(|error| format!("cannot read {name}: {error}"))?;
        for scenario in parse::parse(&name, &text)? {
            if !names.insert(scenario.name.clone()) {
                return Err(format!("{name}:{}: a second scenario named {}", scenario.line, scenario.name));
            }
            if scenario.name.contains(&options.filter) || scenario.file.contains(&options.filter) {
                scenarios.push(scenario);
            }
        }
    }
    Ok(scenarios)
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries =
        std::fs::read_dir(path).map_err(|error| format!("cannot list {}: {error}", path.display()))?;
    let mut inside: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    inside.sort();
    for path in inside {
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "http") {
            collect(&path, files)?;
        }
    }
    Ok(())
}

/// Runs all, several at a time; gives those that failed, in the order of the files.
fn run_all<'a>(
    scenarios: &[&'a Scenario],
    endpoints: &[Endpoint],
    rigour: Rigour,
    jobs: usize,
) -> Vec<(&'a Scenario, Vec<Failure>)> {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for _ in 0..jobs.clamp(1, 64) {
            threads.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mine = |endpoint: &&Endpoint| endpoint.service == scenario.service;
                    let endpoint = endpoints.iter().find(mine).expect("only reachable scenarios are run");
                    let failures = run::run(scenario, endpoint, rigour);
                    if !failures.is_empty() {
                        failed.lock().expect("no thread panics with the list").push((*scenario, failures));
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().expect("no thread panics with the list");
    failed.sort_by(|(one, _), (other, _)| (&one.file, one.line).cmp(&(&other.file, other.line)));
    failed
}

fn report(scenario: &Scenario, failures: &[Failure], brief: bool) {
    println!("FAILED {}: {}", scenario.name, scenario.title);
    for failure in failures {
        println!("  {}:{}: {}", scenario.file, failure.line, failure.step);
        for mismatch in &failure.mismatches {
            println!("    line {}", mismatch.line);
            println!("      expected  {}", indented(&mismatch.expected));
            println!("      came      {}", indented(&mismatch.actual));
        }
        if !brief {
            print!("    the exchange\n{}", failure.exchange);
        }
    }
    println!();
}

fn indented(text: &str) -> String {
    run::shortened(text, 1500).replace('\n', "\n                ")
}
