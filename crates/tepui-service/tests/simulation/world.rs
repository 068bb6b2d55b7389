//! One run: a server that lives and dies on one disk, its clients, and what is compared.

use crate::client::{Done, Services, code};
use crate::model::{Found, Model, Object, Outcome};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tepui_files::{CrashOutcome, DirectWrites, Failure, SimulatedFiles};
use tepui_local::check::{Damage, DirectoryCheck};
use tepui_local::{DiskEngine, DiskExtents, EngineOptions, OfflineDirectory, OfflineError, Stepper};
use tepui_model::blob::Revision;
use tepui_model::time::ManualClock;
use tepui_model::{Clock, ErrorCode, Timestamp};
use tepui_service::check::RowCheck;
use tepui_service::{
    BlobOptions, BlobService, GarbageCollector, QueueOptions, QueueService, TableOptions, TableService,
};
use tepui_storage::StorageErrorKind;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

const DIRECTORY: &str = "/data";
pub(crate) const RESERVE: u64 = 2 << 20;
const ENTITIES: u8 = 18;
const BLOBS: u8 = 6;
/// How many clients are at it at once.
const CLIENTS: usize = 4;

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
        Self { seed, steps: 400, direct, failures: Vec::new(), crash_at: None }
    }
}

pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) files: SimulatedFiles,
    pub(crate) log: Vec<String>,
    clock: Arc<ManualClock>,
    model: Model,
    random: fastrand::Rng,
    ids: Arc<AtomicU64>,
    numbers: u32,
    openings: u64,
    life: Option<Life>,
}

/// A server from its start to its end.
struct Life {
    // Dropped first: whatever is under way ends with it.
    runtime: Option<Runtime>,
    running: Vec<Running>,
    services: Services,
    extents: Arc<DiskExtents>,
    engine: Arc<DiskEngine>,
    stepper: Stepper,
    /// Tables, queues and containers were made.
    is_ready: bool,
}

struct Running {
    what: &'static str,
    objects: Vec<Object>,
    /// The possible states of the objects if the operation is never acknowledged.
    unheard: Option<Done>,
    /// A message that is being deleted; 0: none.
    deleting: Arc<AtomicU32>,
    task: JoinHandle<Done>,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.running.clear();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let files = SimulatedFiles::new(setup.seed);
        files.set_direct_writes(setup.direct);
        files.set_cached_percent([100, 70, 0][(setup.seed % 3) as usize]);
        files.start_trace();
        for (call, failure) in &setup.failures {
            files.fail(*call, *failure);
        }
        if let Some(call) = setup.crash_at {
            files.crash_at(call);
        }
        let now = Timestamp::parse_iso("2026-03-10T08:00:00Z").unwrap();
        Self {
            random: fastrand::Rng::with_seed(setup.seed),
            setup,
            files,
            log: Vec::new(),
            clock: Arc::new(ManualClock::at(now)),
            model: Model::default(),
            ids: Arc::new(AtomicU64::new(1)),
            numbers: 0,
            openings: 0,
            life: None,
        }
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        let calls = self.files.calls();
        self.log.push(format!("{calls}: {}", what()));
    }

    /// All steps.
    pub(crate) fn work(&mut self) -> Result<(), String> {
        for _ in 0..self.setup.steps {
            if self.files.has_crashed() {
                return Ok(());
            }
            self.step()?;
        }
        Ok(())
    }

    /// Starts the server if it does not run. `false`: that failed, as it may.
    fn start(&mut self) -> Result<bool, String> {
        if self.life.is_some() {
            return Ok(true);
        }
        match self.begin() {
            Ok(life) => {
                self.life = Some(life);
                self.note(|| "started".into());
                Ok(true)
            }
            Err((is_corrupt, error)) => {
                self.note(|| format!("not started: {error}"));
                match is_corrupt && !self.files.has_crashed() {
                    true => Err(format!("refused to start: {error}")),
                    false => Ok(false),
                }
            }
        }
    }

    fn begin(&mut self) -> Result<Life, (bool, String)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.unwrap();
        let entered = runtime.enter();
        let mut options = EngineOptions::new(DIRECTORY);
        options.files = Arc::new(self.files.clone());
        options.memtable_bytes = 24 << 10;
        options.block_bytes = 512;
        options.wal_bytes = 256 << 10;
        options.free_space_reserve_bytes = RESERVE;
        options.commit_wait = Duration::from_secs(36_000);
        options.resident_range = tepui_service::catalogue_versions();
        let is_used = tepui_local::is_initialized(&self.files, std::path::Path::new(DIRECTORY));
        let mut kept = tepui_local::ExtentsOptions::new(format!("{DIRECTORY}/extents"));
        kept.files = Arc::new(self.files.clone());
        kept.volume_bytes = 128 << 10;
        kept.free_space_reserve_bytes = RESERVE;
        kept.must_exist = is_used.map_err(|error| (false, error.to_string()))?;
        self.openings += 1;
        kept.number_seed = Some(self.setup.seed << 16 | self.openings);
        let extents = DiskExtents::open(kept)
            .map_err(|error| (error.kind() == StorageErrorKind::Corrupt, error.to_string()))?;
        let (engine, stepper) = DiskEngine::open_stepped(options)
            .map_err(|error| (error.kind() == StorageErrorKind::Corrupt, error.to_string()))?;
        drop(entered);
        let (engine, extents) = (Arc::new(engine), Arc::new(extents));
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&self.clock);
        let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
        let ids = Arc::clone(&self.ids);
        let random_ids = Arc::new(move || u128::from(ids.fetch_add(1, Ordering::SeqCst)));
        let services = Services {
            tables: Arc::new(TableService::new(
                Arc::clone(&engine),
                Arc::clone(&clock),
                Arc::clone(&collector),
                TableOptions::default(),
            )),
            queues: Arc::new(QueueService::new(
                Arc::clone(&engine),
                Arc::clone(&clock),
                Arc::clone(&collector),
                QueueOptions::default(),
            )),
            blobs: Arc::new(BlobService::new(
                Arc::clone(&engine),
                Arc::clone(&extents),
                clock,
                random_ids,
                BlobOptions::default(),
            )),
        };
        let running = Vec::new();
        Ok(Life { runtime: Some(runtime), running, services, extents, engine, stepper, is_ready: false })
    }

    fn life(&mut self) -> &mut Life {
        self.life.as_mut().expect("only called while the server runs")
    }

    fn step(&mut self) -> Result<(), String> {
        if !self.start()? {
            self.clock.advance(Duration::from_secs(1));
            return Ok(());
        }
        if !self.life().is_ready {
            return self.prepare();
        }
        match self.random.u32(..100) {
            0..40 => self.begin_change(),
            40..60 => self.inside(|life| {
                life.stepper.commit();
            }),
            60..72 => {
                let files = self.files.clone();
                self.inside(|_| {
                    files.run_blocking();
                });
            }
            72..77 => self.inside(|life| {
                life.stepper.flush();
            }),
            77..82 => {
                let leisure = self.random.bool();
                self.inside(|life| {
                    life.stepper.compact(leisure);
                });
            }
            82..85 => self.inside(|life| life.stepper.remove_obsolete()),
            85..91 => self.begin_background(),
            91..95 => self.look()?,
            95..98 => {
                let milliseconds = self.random.u64(1..3000);
                self.advance(Duration::from_millis(milliseconds));
            }
            98 if self.random.u8(..3) == 0 => self.stop(),
            _ => {}
        }
        if self.life.is_some() {
            self.let_run();
            self.collect();
        }
        Ok(())
    }

    /// Makes what all clients use, and frees what the life before has left.
    fn prepare(&mut self) -> Result<(), String> {
        let services = self.life().services.clone();
        let blobs = Arc::clone(&services.blobs);
        let made = self.drive(async move {
            services.create().await?;
            blobs.free_orphaned_extents().await.map_err(|error| error.code)
        })?;
        self.note(|| format!("prepared: {made:?}"));
        match made {
            Some(Ok(())) => self.life().is_ready = true,
            _ => self.wait(),
        }
        Ok(())
    }

    /// An idle second. The committer maintains its store meanwhile.
    fn wait(&mut self) {
        self.advance(Duration::from_secs(1));
        self.inside(|life| {
            life.stepper.commit();
            life.stepper.flush();
        });
    }

    /// Does something that may ask for the time.
    fn inside(&mut self, act: impl FnOnce(&mut Life)) {
        let life = self.life();
        let runtime = life.runtime.take().expect("it is there as long as the server runs");
        // What waits is not woken meanwhile.
        let entered = runtime.enter();
        act(life);
        drop(entered);
        life.runtime = Some(runtime);
    }

    fn let_run(&mut self) {
        let runtime = self.life().runtime.as_ref().expect("it is there as long as the server runs");
        runtime.block_on(async {
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        });
    }

    fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        if let Some(life) = &self.life {
            let runtime = life.runtime.as_ref().expect("it is there as long as the server runs");
            runtime.block_on(tokio::time::advance(by));
        }
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    fn is_free(&mut self, object: Object) -> bool {
        !self.life().running.iter().any(|running| running.objects.contains(&object))
    }

    fn begin_change(&mut self) {
        let clients = self.life().running.iter().filter(|running| !running.objects.is_empty()).count();
        if clients >= CLIENTS {
            return;
        }
        let services = self.life().services.clone();
        let (entity, blob) = (self.random.u8(..ENTITIES), self.random.u8(..BLOBS));
        let number = self.number();
        let deletes = self.random.u8(..4) == 0;
        let unknown = |objects: &[Object], content| {
            Some(Done::Changed { objects: objects.to_vec(), content, outcome: Outcome::Unknown })
        };
        match self.random.u32(..100) {
            0..25 if self.is_free(Object::Entity(entity)) => {
                let content = (!deletes).then_some(number);
                let objects = vec![Object::Entity(entity)];
                let unheard = unknown(&objects, content);
                self.spawn("change an entity", objects, unheard, services.change_entity(entity, content));
            }
            25..40 => {
                // Of one partition.
                let entities: BTreeSet<u8> =
                    (0..3).map(|_| self.random.u8(..ENTITIES / 3) * 3 + entity % 3).collect();
                let objects: Vec<Object> = entities.iter().copied().map(Object::Entity).collect();
                if objects.iter().all(|object| self.is_free(*object)) {
                    let unheard = unknown(&objects, Some(number));
                    let entities = entities.into_iter().collect();
                    self.spawn(
                        "change entities",
                        objects,
                        unheard,
                        services.change_entities(entities, number),
                    );
                }
            }
            40..55 => {
                let unheard = Some(Done::Put { message: number, outcome: Outcome::Unknown });
                self.spawn("put a message", vec![], unheard, services.put_message(number));
            }
            55..65 => {
                let deleting = Arc::new(AtomicU32::new(0));
                self.spawn("consume", vec![], None, services.consume(Arc::clone(&deleting)));
                if let Some(running) = self.life().running.last_mut() {
                    running.deleting = deleting;
                }
            }
            65..95 if self.is_free(Object::Blob(blob)) => {
                let objects = vec![Object::Blob(blob)];
                if deletes {
                    let unheard = unknown(&objects, None);
                    self.spawn("delete a blob", objects, unheard, services.delete_blob(blob));
                } else {
                    let unheard = unknown(&objects, Some(number));
                    match self.random.bool() {
                        true => self.spawn("put a blob", objects, unheard, services.put_blob(blob, number)),
                        false => {
                            self.spawn("put blocks", objects, unheard, services.put_blocks(blob, number))
                        }
                    }
                }
            }
            95.. if self.is_free(Object::Blob(blob)) => {
                self.spawn("snapshot", vec![Object::Blob(blob)], None, services.snapshot_blob(blob));
            }
            _ => {}
        }
    }

    fn begin_background(&mut self) {
        let life = self.life();
        if life.running.iter().filter(|running| running.unheard.is_none()).count() > 3 {
            return;
        }
        let services = life.services.clone();
        match self.random.u8(..3) {
            0 => self.spawn("sweep", vec![], None, async move {
                Done::Background(services.queues.sweep_once().await.map_err(code))
            }),
            1 => self.spawn("expire", vec![], None, async move {
                Done::Background(services.blobs.expire_once().await.map_err(code))
            }),
            _ => self.spawn("reclaim", vec![], None, async move {
                Done::Background(services.blobs.collect_garbage_once().await.map_err(code))
            }),
        }
    }

    fn spawn(
        &mut self,
        what: &'static str,
        objects: Vec<Object>,
        unheard: Option<Done>,
        future: impl Future<Output = Done> + Send + 'static,
    ) {
        let life = self.life();
        let runtime = life.runtime.as_ref().expect("it is there as long as the server runs");
        let task = runtime.spawn(future);
        life.running.push(Running { what, objects, unheard, deleting: Arc::default(), task });
    }

    /// Takes the answers that are there.
    fn collect(&mut self) {
        let life = self.life();
        let finished: Vec<Running> =
            life.running.extract_if(.., |running| running.task.is_finished()).collect();
        let runtime = life.runtime.take().expect("it is there as long as the server runs");
        let answers: Vec<_> =
            finished.into_iter().map(|running| (runtime.block_on(running.task), running.unheard)).collect();
        life.runtime = Some(runtime);
        for (answer, unheard) in answers {
            match (answer, unheard) {
                (Ok(done), _) | (Err(_), Some(done)) => self.heard(done),
                (Err(_), None) => {}
            }
        }
    }

    fn heard(&mut self, done: Done) {
        self.note(|| format!("{done:?}"));
        match done {
            Done::Changed { objects, content, outcome } => self.model.changed(&objects, content, outcome),
            Done::Put { message, outcome } => self.model.put(message, outcome),
            Done::Consumed { message, outcome } => self.model.consumed(message, outcome),
            Done::Snapshot { blob, content, taken } => {
                self.model.snapshots.extend(taken.map(|taken| (blob, taken, content)));
            }
            Done::Background(Ok(()) | Err(_)) => {}
        }
    }

    /// Reads an object that no operation in flight changes.
    fn look(&mut self) -> Result<(), String> {
        let services = self.life().services.clone();
        let object = match self.random.bool() {
            true => Object::Entity(self.random.u8(..ENTITIES)),
            false => Object::Blob(self.random.u8(..BLOBS)),
        };
        if !self.is_free(object) {
            return Ok(());
        }
        let read = self.drive(read(services, object))?;
        match read {
            Some(Ok(content)) => self.model.allows(object, content),
            _ => Ok(()),
        }
    }

    /// Waits for something, and does the work that it waits for. `None`: it does not come to an end, as the disk is broken.
    fn drive<T: Send + 'static>(
        &mut self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<Option<T>, String> {
        let life = self.life();
        let runtime = life.runtime.as_ref().expect("it is there as long as the server runs");
        let mut task = runtime.spawn(future);
        for turn in 0..4000 {
            self.let_run();
            self.collect();
            if task.is_finished() {
                let life = self.life();
                let runtime = life.runtime.take().expect("it is there as long as the server runs");
                let ended = runtime.block_on(&mut task);
                life.runtime = Some(runtime);
                return ended.map(Some).map_err(|error| format!("a task has failed: {error}"));
            }
            let files = self.files.clone();
            let mut is_idle = false;
            self.inside(|life| is_idle = !files.run_blocking() & !life.stepper.commit());
            if is_idle {
                self.inside(|life| {
                    life.stepper.flush();
                    life.stepper.compact(true);
                    life.stepper.remove_obsolete();
                });
                self.advance(Duration::from_millis(if turn < 100 { 50 } else { 2000 }));
            }
        }
        task.abort();
        match self.files.has_crashed() {
            true => Ok(None),
            false => Err("something never comes to an end".into()),
        }
    }

    /// Reads everything and compares it with the model.
    pub(crate) fn compare(&mut self) -> Result<(), String> {
        if !self.start()? {
            return Ok(());
        }
        // Whatever is under way comes to an end.
        for _ in 0..3000 {
            if self.life().running.is_empty() {
                break;
            }
            self.drive(async {})?;
            let files = self.files.clone();
            self.inside(|life| {
                files.run_blocking();
                life.stepper.commit();
            });
            self.advance(Duration::from_millis(200));
        }
        if !self.life().running.is_empty() {
            let waiting: Vec<_> = self.life().running.iter().map(|running| running.what).collect();
            return Err(format!("some wait for ever: {waiting:?}"));
        }
        let mut found = Found::default();
        let objects = (0..ENTITIES).map(Object::Entity).chain((0..BLOBS).map(Object::Blob));
        for object in objects {
            let services = self.life().services.clone();
            match self.drive(read(services, object))? {
                Some(Ok(content)) => drop(found.objects.insert(object, content)),
                // Nothing was made yet.
                Some(Err(ErrorCode::TableNotFound | ErrorCode::ContainerNotFound)) => {}
                other => return Err(format!("{object:?} cannot be read: {other:?}")),
            }
        }
        for (blob, taken, content) in self.model.snapshots.clone() {
            let services = self.life().services.clone();
            let revision = Revision::Snapshot(taken);
            match self.drive(services.read_blob(blob, revision))? {
                Some(Ok(Some(number))) if number == content => {}
                other => return Err(format!("a snapshot of blob {blob} is {other:?}, not {content}")),
            }
        }
        // What others have taken shows again.
        self.advance(Duration::from_secs(60));
        let mut waits = 0;
        loop {
            let services = self.life().services.clone();
            match self.drive(services.take(32, Duration::from_secs(20)))? {
                Some(Ok(messages)) if messages.is_empty() => break,
                Some(Ok(messages)) => found.messages.extend(messages.into_iter().map(|(number, _)| number)),
                Some(Err(ErrorCode::QueueNotFound)) => break,
                // What failed is tried again in a while. A full disk takes nothing.
                Some(Err(ErrorCode::ServerBusy)) if waits < 10 => {
                    waits += 1;
                    self.wait();
                }
                Some(Err(ErrorCode::ServerBusy)) => return Ok(()),
                other => return Err(format!("messages cannot be taken: {other:?}")),
            }
        }
        self.advance(Duration::from_secs(30));
        self.model.settle(&found)
    }

    /// Continues without faults: everything works again, and everything acknowledged is readable, also after a restart.
    pub(crate) fn recover(&mut self) -> Result<(), String> {
        self.files.stop_failing();
        self.note(|| "nothing fails any more".into());
        for _ in 0..60 {
            if self.start()? && self.life().is_ready {
                break;
            }
            if self.life.is_some() {
                self.prepare()?;
            }
            self.advance(Duration::from_secs(1));
        }
        self.expect_writes()?;
        self.compare()?;
        match self.random.bool() {
            true => self.stop(),
            false => self.kill(),
        }
        self.check_offline()?;
        self.restarted()
    }

    /// The server takes writes in the end.
    fn expect_writes(&mut self) -> Result<(), String> {
        for _ in 0..60 {
            let services = self.life().services.clone();
            let number = self.number();
            match self.drive(services.put_message(number))? {
                Some(done @ Done::Put { outcome: Outcome::Done, .. }) => {
                    self.heard(done);
                    return Ok(());
                }
                Some(done) => self.heard(done),
                None => {}
            }
            self.wait();
        }
        Err("it takes no writes though nothing fails".into())
    }

    fn restarted(&mut self) -> Result<(), String> {
        for _ in 0..30 {
            if self.start()? {
                self.prepare()?;
                if self.life().is_ready {
                    return self.compare();
                }
            }
            self.advance(Duration::from_secs(1));
        }
        Err("it cannot be started again".into())
    }

    /// Ends the server in good order.
    fn stop(&mut self) {
        self.note(|| "stopping".into());
        // Clients are waited for, as a server does.
        for _ in 0..200 {
            if self.life().running.is_empty() {
                break;
            }
            let files = self.files.clone();
            self.inside(|life| {
                files.run_blocking();
                life.stepper.commit();
            });
            self.let_run();
            self.collect();
            self.advance(Duration::from_millis(100));
        }
        let files = self.files.clone();
        while files.run_blocking() {
            self.let_run();
        }
        self.give_up();
        if let Some(mut life) = self.life.take() {
            if let Some(runtime) = life.runtime.take() {
                runtime.shutdown_background();
            }
            while files.run_blocking() {}
            life.extents.close();
            life.engine.close();
            while life.stepper.commit() {}
            drop(life);
            while files.run_blocking() {}
        }
    }

    /// What was not answered may or may not be there.
    fn give_up(&mut self) {
        let running = std::mem::take(&mut self.life().running);
        for Running { unheard, deleting, .. } in running {
            let message = deleting.load(Ordering::SeqCst);
            let deleted = (message > 0).then_some(Done::Consumed { message, outcome: Outcome::Unknown });
            unheard.into_iter().chain(deleted).for_each(|done| self.heard(done));
        }
    }

    /// The process is killed.
    fn kill(&mut self) {
        self.files = self.files.kill();
        self.note(|| "killed".into());
        if self.life.is_some() {
            self.give_up();
            self.life = None;
        }
    }

    /// What `tepui check` does: nothing is wrong, whatever has failed.
    fn check_offline(&self) -> Result<(), String> {
        let files = Arc::new(self.files.copy());
        let directory = match OfflineDirectory::open(files, Path::new(DIRECTORY)) {
            Ok(directory) => directory,
            Err(OfflineError::Unusable(_)) => return Ok(()),
            Err(error) => return Err(format!("the offline check: {error}")),
        };
        let mut damages = Vec::new();
        let mut add = |damage: Damage| damages.push(format!("{damage:?}"));
        let mut check = DirectoryCheck::open(directory, &mut add).unwrap();
        check.verify_tables(&mut |_| {}, &mut add).unwrap();
        let mut rows = RowCheck::default();
        let read = check.rows(&mut |extents, key, value| {
            let extent = rows.row(&key, &value, &mut |damage| damages.push(format!("{damage:?}")));
            if let Some(extent) = extent {
                let damage = extents.verify(extent, &mut |_| {})?;
                damages.extend(damage.map(|damage| format!("{damage:?}")));
            }
            Ok(())
        });
        read.unwrap();
        let (_, mut trace) = rows.finish(&[], &mut |damage| damages.push(format!("{damage:?}")));
        while trace.needs_pass() {
            let read = check.rows(&mut |_, key, value| {
                trace.row(&key, &value);
                Ok(())
            });
            read.unwrap();
            trace.end_of_pass(&mut |damage| damages.push(format!("{damage:?}")));
        }
        match damages.is_empty() {
            true => Ok(()),
            false => Err(format!("the offline check finds {damages:#?}")),
        }
    }

    pub(crate) fn kill_and_restart(&mut self) -> Result<(), String> {
        self.kill();
        self.restarted()
    }

    /// The power fails, and comes back.
    pub(crate) fn crash_and_restart(&mut self, outcome: CrashOutcome) -> Result<(), String> {
        self.kill();
        self.files = self.files.crash(outcome);
        self.note(|| format!("crashed: {outcome:?}"));
        self.check_offline()?;
        self.restarted()
    }
}

async fn read(services: Services, object: Object) -> Result<Option<u32>, ErrorCode> {
    match object {
        Object::Entity(entity) => services.read_entity(entity).await,
        Object::Blob(blob) => services.read_blob(blob, Revision::Base).await,
    }
}
