//! Runs a scenario with a failure at each request of each of its processes, and checks what is left.

use crate::proxy::{FAILURES, Failure, Plan};
use crate::site::Site;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_client::patterns::outbox::Worker;
use tepui_client::{Account, Error};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Longer than any message is hidden or held here.
pub(crate) const LONG: Duration = Duration::from_secs(400);
const PARALLEL_RUNS: usize = 4;
/// Runs in which several processes fail at some request.
const RANDOM_RUNS: usize = 12;

/// Something that authors do, and workers end.
pub(crate) trait Scenario: 'static {
    const NAME: &'static str;

    /// Tables, queues, and whatever is there from the beginning.
    fn set_up(account: &Account) -> impl Future<Output = Result<(), Error>> + Send;

    /// All changes, one after the other. What follows is done by the author itself, or left to workers.
    fn author(account: &Account, leaves_it: bool) -> impl Future<Output = Result<(), Error>> + Send;

    fn worker(account: &Account) -> Worker;

    /// Panics unless everything that follows is as the primaries say.
    fn check(site: &Site) -> impl Future<Output = ()> + Send;
}

/// What a process of a scenario does.
pub(crate) async fn play<S: Scenario>(part: &str, account: &Account) {
    match part {
        "author" => S::author(account, false).await.unwrap(),
        "hasty author" => S::author(account, true).await.unwrap(),
        "worker" => {
            S::worker(account).drain().await.unwrap();
        }
        other => panic!("no such part: {other}"),
    }
}

/// To be killed before a request leaves the server as it was after the one before that, so the first is enough. Of lost answers,
/// every second one is tried. With `TEPUI_TEST_LARGE=1` all of them are.
fn is_worth_it(request: usize, failure: Failure) -> bool {
    is_large()
        || match failure {
            Failure::KillBefore => request == 1,
            Failure::KillAfter => true,
            Failure::LoseAnswer => request % 2 == 1,
        }
}

fn is_large() -> bool {
    std::env::var("TEPUI_TEST_LARGE").is_ok_and(|large| large == "1")
}

/// One run: the processes that fail, one after the other or all at once, and then a worker that does not.
struct Run {
    parts: Vec<(&'static str, Plan)>,
    at_once: bool,
}

/// A failure at each request of the author, of the worker, and a number of runs in which all fail at once.
pub(crate) async fn run_all<S: Scenario>() {
    let started = Instant::now();
    let requests = |part| async move {
        let site = Site::start().await;
        S::set_up(&site.account).await.unwrap();
        if part == "worker" {
            S::author(&site.account, true).await.unwrap();
            site.advance(LONG).await;
        }
        site.run(&format!("{}/{part}", S::NAME), None).await
    };
    let (of_author, of_worker) = (requests("author").await, requests("worker").await);
    let mut runs = vec![Run { parts: vec![("author", None)], at_once: false }];
    for failure in FAILURES {
        for request in (1..=of_author).filter(|request| is_worth_it(*request, failure)) {
            runs.push(Run { parts: vec![("author", Some((request, failure)))], at_once: false });
        }
        for request in (1..=of_worker).filter(|request| is_worth_it(*request, failure)) {
            let parts = vec![("hasty author", None), ("worker", Some((request, failure)))];
            runs.push(Run { parts, at_once: false });
        }
    }
    let mut random = fastrand::Rng::with_seed(7);
    for number in 0..RANDOM_RUNS {
        let mut plan = |of: usize| Some((random.usize(1..=of.max(1)), FAILURES[random.usize(0..3)]));
        let parts = vec![
            ("author", plan(of_author)),
            ("hasty author", plan(of_author)),
            ("worker", plan(of_worker)),
            ("worker", plan(of_worker)),
        ];
        runs.push(Run { parts, at_once: number % 2 == 0 });
    }
    let count = runs.len();
    let permits = Arc::new(Semaphore::new(PARALLEL_RUNS));
    let mut under_way = JoinSet::new();
    for run in runs {
        let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
        under_way.spawn(async move {
            run_one::<S>(run).await;
            drop(permit);
        });
        while let Some(ended) = under_way.try_join_next() {
            ended.unwrap();
        }
    }
    while let Some(ended) = under_way.join_next().await {
        ended.unwrap();
    }
    println!(
        "{}: {count} runs ({of_author} requests of the author, {of_worker} of the worker) in {:.1?}",
        S::NAME,
        started.elapsed()
    );
}

async fn run_one<S: Scenario>(Run { parts, at_once }: Run) {
    let site = Arc::new(Site::start().await);
    S::set_up(&site.account).await.unwrap();
    let told = format!("{}: {parts:?}", S::NAME);
    let mut under_way = JoinSet::new();
    for (part, plan) in parts {
        let role = format!("{}/{part}", S::NAME);
        if part == "hasty author" && plan.is_none() {
            // Nothing happens to it, so it need not be a process.
            S::author(&site.account, true).await.unwrap();
            site.advance(LONG).await;
        } else if at_once {
            let site = Arc::clone(&site);
            under_way.spawn(async move { site.run(&role, plan).await });
        } else {
            site.run(&role, plan).await;
            site.advance(LONG).await;
        }
    }
    while let Some(ended) = under_way.join_next().await {
        ended.unwrap();
    }
    drain::<S>(&site, &told).await;
    // Printed only if the check fails, or the tests are told to print everything.
    println!("{told}");
    S::check(&site).await;
}

/// Lets workers that do not fail work until there is nothing left.
async fn drain<S: Scenario>(site: &Site, told: &str) {
    let worker = S::worker(&site.account);
    for _ in 0..20 {
        site.advance(LONG).await;
        if worker.drain().await.unwrap().total() == 0 {
            return;
        }
    }
    panic!("there are messages that are never done: {told}");
}
