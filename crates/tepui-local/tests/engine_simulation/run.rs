//! One run: random steps on one engine, checked against the model.

use crate::model::{Commit, Model, Outcome, Rows};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tepui_files::{CrashOutcome, DirectWrites, Failure, SimulatedFiles, TracedCall};
use tepui_local::{DiskEngine, DiskTransaction, EngineOptions, Stepper};
use tepui_storage::{
    Commit as EngineCommit, CommitError, Engine, Key, KeyRange, ScanLimit, Snapshot, StorageError,
    StorageErrorKind, Transaction, Value, Write,
};

pub(crate) const DIRECTORY: &str = "/data";
/// The reserve of free space.
pub(crate) const RESERVE: u64 = 1 << 20;
const KEYS: u64 = 120;

/// What a run is made of. The same setup makes the same run.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) steps: usize,
    pub(crate) direct: DirectWrites,
    pub(crate) failures: Vec<(u64, Failure)>,
    pub(crate) crash_at: Option<u64>,
}

impl Setup {
    pub(crate) fn new(seed: u64) -> Self {
        let direct = match seed % 5 {
            0 => DirectWrites::RefusedAtWrite,
            1 => DirectWrites::RefusedAtOpen,
            _ => DirectWrites::Taken,
        };
        Self { seed, steps: 250, direct, failures: Vec::new(), crash_at: None }
    }
}

type Pending = Pin<Box<dyn Future<Output = Result<(), CommitError>>>>;

struct Waiting {
    number: usize,
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    outcome: Pending,
}

pub(crate) struct Run {
    pub(crate) setup: Setup,
    pub(crate) files: SimulatedFiles,
    pub(crate) model: Model,
    random: fastrand::Rng,
    store: Option<Open>,
    waiting: Vec<Waiting>,
    held: Vec<(DiskTransaction, Rows)>,
    numbers: usize,
    /// For people: what was done.
    pub(crate) log: Vec<String>,
}

struct Open {
    // Dropped first.
    engine: DiskEngine,
    stepper: Stepper,
}

pub(crate) fn options(files: &SimulatedFiles) -> EngineOptions {
    let mut options = EngineOptions::new(DIRECTORY);
    options.files = Arc::new(files.clone());
    options.memtable_bytes = 12 << 10;
    options.block_bytes = 512;
    options.wal_bytes = 96 << 10;
    options.free_space_reserve_bytes = RESERVE;
    options.commit_wait = Duration::from_secs(3600);
    options.max_open_tables = 4;
    options
}

/// Waits for something, and does the work that it waits for.
pub(crate) async fn drive<T>(files: &SimulatedFiles, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        loop {
            match future.as_mut().poll(context) {
                Poll::Pending if files.run_blocking() => {}
                polled => return polled,
            }
        }
    })
    .await
}

/// Runs something in a runtime with a manual clock.
pub(crate) fn simulated<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime can be built");
    // The runtime must not make anything wait for the sake of others: there are none.
    runtime.block_on(tokio::task::unconstrained(future))
}

impl Run {
    pub(crate) fn new(setup: Setup) -> Self {
        let files = SimulatedFiles::new(setup.seed);
        files.set_direct_writes(setup.direct);
        files.set_cached_percent([100, 70, 0][(setup.seed % 3) as usize]);
        // Few tables are open at once, however many there are.
        files.set_max_open_files(40);
        files.start_trace();
        for (call, failure) in &setup.failures {
            files.fail(*call, *failure);
        }
        if let Some(call) = setup.crash_at {
            files.crash_at(call);
        }
        let random = fastrand::Rng::with_seed(setup.seed);
        Self {
            setup,
            files,
            model: Model::default(),
            random,
            store: None,
            waiting: Vec::new(),
            held: Vec::new(),
            numbers: 0,
            log: Vec::new(),
        }
    }

    /// The calls of a whole run.
    pub(crate) fn trace(mut self) -> Vec<TracedCall> {
        let _ = simulated(self.work());
        self.files.trace()
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        let calls = self.files.calls();
        self.log.push(format!("{calls}: {}", what()));
    }

    /// All steps.
    pub(crate) async fn work(&mut self) -> Result<(), String> {
        for _ in 0..self.setup.steps {
            if self.files.has_crashed() {
                return Ok(());
            }
            self.step().await?;
        }
        Ok(())
    }

    /// Opens the engine if it is not open. `false`: that failed, as it may.
    pub(crate) async fn open(&mut self) -> Result<bool, String> {
        if self.store.is_some() {
            return Ok(true);
        }
        match DiskEngine::open_stepped(options(&self.files)) {
            Ok((engine, stepper)) => {
                self.note(|| "opened".into());
                self.store = Some(Open { engine, stepper });
                self.check_all().await.map(|()| true)
            }
            Err(error) => {
                self.note(|| format!("not opened: {error}"));
                match error {
                    error if error.kind() == StorageErrorKind::Corrupt && !self.files.has_crashed() => {
                        Err(format!("refused to open: {error}"))
                    }
                    _ => Ok(false),
                }
            }
        }
    }

    async fn step(&mut self) -> Result<(), String> {
        if !self.open().await? {
            tokio::time::advance(Duration::from_secs(1)).await;
            return Ok(());
        }
        match self.random.u32(..100) {
            0..45 => self.submit().await,
            45..68 => {
                self.stepper().commit();
                self.collect().await;
            }
            68..76 => drop(self.stepper().flush()),
            76..84 => {
                let is_idle = self.random.bool();
                self.stepper().compact(is_idle);
            }
            84..87 => self.stepper().remove_obsolete(),
            87..92 => self.read().await?,
            92..94 => self.check_all().await?,
            94..95 => self.hold().await,
            95..96 => self.let_go().await?,
            96..98 => {
                let milliseconds = self.random.u64(1..2000);
                tokio::time::advance(Duration::from_millis(milliseconds)).await;
            }
            98..99 if self.random.u8(..4) == 0 => self.reopen().await,
            _ => {}
        }
        Ok(())
    }

    fn stepper(&mut self) -> &mut Stepper {
        &mut self.store.as_mut().expect("only called while it is open").stepper
    }

    fn engine(&self) -> &DiskEngine {
        &self.store.as_ref().expect("only called while it is open").engine
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key {:03}", self.random.u64(..KEYS)).into_bytes()
    }

    async fn submit(&mut self) {
        let Ok(snapshot) = self.engine().begin().await else { return };
        let number = self.numbers;
        self.numbers += 1;
        let mut writes = BTreeMap::new();
        for _ in 0..self.random.usize(1..5) {
            let deletes = self.random.u8(..5) == 0;
            let size = self.random.usize(..600);
            let value = (!deletes).then(|| format!("{number}:{}", "x".repeat(size)).into_bytes());
            writes.insert(self.key(), value);
        }
        let puts = |(key, value): (&Vec<u8>, &Option<Vec<u8>>)| match value {
            Some(value) => Write::Put(Key::copy_from_slice(key), Value::copy_from_slice(value)),
            None => Write::Delete(Key::copy_from_slice(key)),
        };
        let batch: Vec<Write> = writes.iter().map(puts).collect();
        let outcome: Pending = Box::pin(snapshot.commit(batch.into()));
        self.waiting.push(Waiting { number, writes, outcome });
        // Queued by the first poll.
        self.collect().await;
    }

    /// Takes the answers that are there.
    async fn collect(&mut self) {
        let mut left = Vec::new();
        for mut waiting in std::mem::take(&mut self.waiting) {
            let polled = std::future::poll_fn(|context| Poll::Ready(waiting.outcome.as_mut().poll(context)));
            match polled.await {
                Poll::Pending => left.push(waiting),
                Poll::Ready(result) => {
                    let Waiting { number, writes, .. } = waiting;
                    self.note(|| format!("commit {number}: {result:?}"));
                    let outcome = match result {
                        Ok(()) => Outcome::Acknowledged,
                        Err(CommitError::Unknown(_)) => Outcome::Unknown,
                        Err(CommitError::Conflict | CommitError::Storage(_)) => continue,
                    };
                    self.model.add(Commit { number, outcome, writes });
                }
            }
        }
        self.waiting = left;
    }

    /// What was not answered may or may not be there.
    pub(crate) fn give_up_waiting(&mut self) {
        for Waiting { number, writes, .. } in std::mem::take(&mut self.waiting) {
            self.model.add(Commit { number, outcome: Outcome::Unknown, writes });
        }
    }

    async fn read(&mut self) -> Result<(), String> {
        let key = self.key();
        let Ok(snapshot) = self.engine().begin().await else { return Ok(()) };
        let value = match drive(&self.files, snapshot.get(&key)).await {
            Ok(value) => value.map(|value| value.to_vec()),
            Err(error) if error.kind() == StorageErrorKind::Corrupt && !self.files.has_crashed() => {
                return Err(format!("read: {error}"));
            }
            Err(_) => return Ok(()),
        };
        let mut candidates = self.model.candidates(&key);
        candidates.extend(self.waiting.iter().filter_map(|waiting| waiting.writes.get(&key).cloned()));
        match candidates.contains(&value) {
            true => Ok(()),
            false => Err(format!("{}: read what was never written", String::from_utf8_lossy(&key))),
        }
    }

    /// Compares everything that can be read with the model.
    pub(crate) async fn check_all(&mut self) -> Result<(), String> {
        self.collect().await;
        match self.rows().await {
            Ok(found) => {
                let waiting: Vec<Waiting> = std::mem::take(&mut self.waiting);
                // A pending commit is not visible before it was acknowledged.
                let checked = self.model.check(&found);
                self.waiting = waiting;
                checked.map_err(|error| format!("compare: {error}"))
            }
            Err(error) if error.kind() == StorageErrorKind::Corrupt && !self.files.has_crashed() => {
                Err(format!("scan: {error}"))
            }
            Err(_) => Ok(()),
        }
    }

    async fn rows(&self) -> Result<Rows, StorageError> {
        rows_of(&self.files, &self.engine().begin().await?).await
    }

    async fn hold(&mut self) {
        let Ok(snapshot) = self.engine().begin().await else { return };
        if let Ok(rows) = rows_of(&self.files, &snapshot).await {
            self.held.push((snapshot, rows));
        }
    }

    async fn let_go(&mut self) -> Result<(), String> {
        let Some((snapshot, rows)) = self.held.pop() else { return Ok(()) };
        match rows_of(&self.files, &snapshot).await {
            Ok(now) if now != rows => Err("a snapshot has changed".into()),
            Err(error) if error.kind() == StorageErrorKind::Corrupt && !self.files.has_crashed() => {
                Err(format!("a snapshot cannot be read any more: {error}"))
            }
            _ => Ok(()),
        }
    }

    /// Closes the engine as a server that stops does. It is opened by the next step.
    async fn reopen(&mut self) {
        self.note(|| "closing".into());
        self.held.clear();
        let Some(Open { engine, mut stepper }) = self.store.take() else { return };
        engine.close();
        while stepper.commit() {}
        drop((engine, stepper));
        self.collect().await;
        self.give_up_waiting();
    }

    /// The process ends here.
    pub(crate) fn kill(&mut self) {
        self.files = self.files.kill();
        self.held.clear();
        self.store = None;
        self.give_up_waiting();
    }

    /// Continues without failures: the engine accepts writes again, and everything is there.
    pub(crate) async fn recover(&mut self) -> Result<(), String> {
        self.files.stop_failing();
        self.note(|| "nothing fails any more".into());
        // A live snapshot does not keep the engine from recovering.
        for _ in 0..60 {
            if self.open().await? {
                self.stepper().commit();
                while self.stepper().flush() {}
                self.stepper().compact(true);
                self.stepper().remove_obsolete();
                self.collect().await;
                if self.engine().health().await.is_ok() && self.put_marker().await? {
                    self.check_all().await?;
                    while !self.held.is_empty() {
                        self.let_go().await?;
                    }
                    return self.restart().await;
                }
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let health = match &self.store {
            Some(open) => open.engine.health().await,
            None => Ok(()),
        };
        Err(format!("does not recover: {health:?}"))
    }

    /// Commits something and waits for it.
    async fn put_marker(&mut self) -> Result<bool, String> {
        let before = self.waiting.len();
        self.submit().await;
        self.stepper().commit();
        self.collect().await;
        Ok(self.waiting.len() <= before && self.engine().health().await.is_ok())
    }

    /// Ends the process, cleanly or not, and starts it again.
    pub(crate) async fn restart(&mut self) -> Result<(), String> {
        if self.random.bool() {
            self.reopen().await;
        }
        self.kill();
        for _ in 0..10 {
            if self.open().await? {
                let found = self.rows().await.map_err(|error| format!("after a restart: {error}"))?;
                self.model.check(&found).map_err(|error| format!("after a restart: {error}"))?;
                self.model.settle(found);
                return Ok(());
            }
        }
        Err("cannot be started again".into())
    }

    /// The power fails, and comes back.
    pub(crate) async fn crash(&mut self, outcome: CrashOutcome) -> Result<(), String> {
        self.kill();
        self.files = self.files.crash(outcome);
        self.note(|| format!("crashed: {outcome:?}"));
        self.restart().await
    }

    /// Closes it and says what must be there.
    pub(crate) async fn close(&mut self) -> Result<Rows, String> {
        self.recover().await?;
        let found = self.rows().await.map_err(|error| error.to_string())?;
        self.reopen().await;
        Ok(found)
    }

    /// Steps in which nothing is asked of the engine.
    pub(crate) async fn idle(&mut self, steps: usize) {
        self.held.clear();
        for _ in 0..steps {
            if self.store.is_none() {
                return;
            }
            self.stepper().commit();
            self.stepper().flush();
            self.stepper().compact(true);
            self.stepper().remove_obsolete();
            self.collect().await;
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    }

    /// Deletes everything, as far as deletes are accepted. Returns whether all were.
    pub(crate) async fn delete_all(&mut self) -> Result<bool, String> {
        for key in self.model.keys() {
            let Ok(snapshot) = self.engine().begin().await else { return Ok(false) };
            let writes = vec![Write::Delete(Key::copy_from_slice(&key))];
            let delete = EngineCommit::from(writes).with_frees_space(true);
            let number = self.numbers;
            self.numbers += 1;
            let outcome: Pending = Box::pin(snapshot.commit(delete));
            let before = self.model.candidates(&key).len();
            self.waiting.push(Waiting { number, writes: BTreeMap::from([(key.clone(), None)]), outcome });
            self.collect().await;
            self.stepper().commit();
            self.stepper().flush();
            self.stepper().compact(true);
            self.stepper().remove_obsolete();
            tokio::time::advance(Duration::from_millis(300)).await;
            self.collect().await;
            let candidates = self.model.candidates(&key);
            if candidates.len() != 1 || !candidates.contains(&None) {
                self.note(|| format!("a delete was refused ({before} candidates before)"));
                return Ok(false);
            }
        }
        Ok(true)
    }
}

pub(crate) async fn rows_of(
    files: &SimulatedFiles,
    snapshot: &DiskTransaction,
) -> Result<Rows, StorageError> {
    let mut range = KeyRange { start: Key::new(), end: Key::from_static(&[0xff]) };
    let mut rows = Rows::new();
    loop {
        let limit = ScanLimit { max_rows: 50, max_bytes: 1 << 20 };
        let page = drive(files, snapshot.scan(&range, limit)).await?;
        rows.extend(page.rows.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
        let Some(next) = page.next else { return Ok(rows) };
        range.start = next;
    }
}
