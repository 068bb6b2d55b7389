//! The volumes that this process writes, and its leases on them.
//!
//! A volume is a random number that extents are named by, and an object that says until when a process writes to it. It is begun
//! when the first extent is, and retired after some time. A retired volume is sealed, by deleting that object, when nothing
//! is written to it and none of its extents is pinned. If something may have been left in it, its lease is not renewed any
//! more instead, so that it is swept.

use crate::identity::random;
use crate::lease;
use crate::names::Names;
use crate::objects::Objects;
use crate::options::{MachineClock, ObjectOptions, ms};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tepui_storage::StorageError;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How many times a lease is renewed while it lasts.
const RENEWALS: u32 = 4;

pub(crate) struct Volumes {
    objects: Objects,
    names: Names,
    clock: MachineClock,
    lease: Duration,
    rotate_after: Duration,
    patience: Duration,
    /// The one that new extents go to.
    current: tokio::sync::Mutex<Option<Arc<Volume>>>,
    /// All that are leased.
    held: Mutex<Vec<Arc<Volume>>>,
    /// Renewing and sealing are done by one at a time: a volume must not be leased again after it was sealed.
    maintaining: tokio::sync::Mutex<()>,
    /// There may be a volume to seal.
    drained: Arc<Notify>,
    is_closed: AtomicBool,
}

struct Volume {
    number: u64,
    begun: Instant,
    state: Mutex<State>,
}

struct State {
    lease: Lease,
    next_offset: u64,
    /// Extents that are being written, or deleted because nobody was told of them.
    writers: usize,
    /// Extents that were finished and may not be referenced yet.
    pins: usize,
    /// Takes no more writers.
    is_retired: bool,
    /// There may be an object that nobody knows of.
    is_tainted: bool,
}

/// Until when a volume is leased: by the clock that others compare with, and by one that nobody can set.
#[derive(Clone, Copy)]
struct Lease {
    until_ms: u64,
    deadline: Instant,
}

impl Volume {
    fn is_drained(&self) -> bool {
        let state = self.state.lock();
        state.writers == 0 && state.pins == 0
    }

    /// Its lease has ended, so that others may sweep it.
    fn lose(&self) -> Holding {
        tracing::warn!(volume = %format_args!("{:016x}", self.number), "lost the lease on a volume of the store of objects");
        self.state.lock().is_retired = true;
        Holding::Given
    }
}

impl Volumes {
    pub(crate) fn new(objects: Objects, names: Names, options: &ObjectOptions) -> Self {
        Self {
            objects,
            names,
            clock: options.clock.clone(),
            lease: options.lease,
            rotate_after: options.rotate_after,
            patience: options.timeout,
            current: tokio::sync::Mutex::default(),
            held: Mutex::default(),
            maintaining: tokio::sync::Mutex::default(),
            drained: Arc::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// A place for a new extent.
    pub(crate) async fn begin(self: &Arc<Self>) -> Result<WriterPin, StorageError> {
        // While the store does not answer, those who wait for a volume do not do so one after the other.
        let waiting = tokio::time::timeout(self.patience, self.current.lock()).await;
        let mut current =
            waiting.map_err(|_| StorageError::unavailable("no volume could be begun in time"))?;
        if self.is_closed.load(Ordering::Acquire) {
            return Err(StorageError::unavailable("the store is being closed"));
        }
        if let Some(volume) = &*current {
            if volume.begun.elapsed() >= self.rotate_after || !self.is_held(volume) {
                volume.state.lock().is_retired = true;
                self.drained.notify_one();
            } else if let Some(pin) = self.pin(volume) {
                return Ok(pin);
            }
        }
        let number = random()?;
        let lease = self.write_lease(number).await?;
        let volume = Arc::new(Volume {
            number,
            begun: Instant::now(),
            state: Mutex::new(State {
                lease,
                next_offset: 0,
                writers: 0,
                pins: 0,
                is_retired: false,
                is_tainted: false,
            }),
        });
        self.held.lock().push(Arc::clone(&volume));
        let pin = self.pin(&volume);
        *current = Some(volume);
        pin.ok_or_else(|| StorageError::failed("a new volume takes no extents"))
    }

    fn pin(self: &Arc<Self>, volume: &Arc<Volume>) -> Option<WriterPin> {
        let mut state = volume.state.lock();
        if state.is_retired {
            return None;
        }
        state.writers += 1;
        let offset = state.next_offset;
        state.next_offset += 1;
        Some(WriterPin { volumes: Arc::clone(self), volume: Arc::clone(volume), offset })
    }

    /// Takes or renews the lease on a volume.
    async fn write_lease(&self, volume: u64) -> Result<Lease, StorageError> {
        // Before the call, which may take long.
        let (now_ms, now) = (self.clock.now_ms(), Instant::now());
        let until_ms = now_ms.saturating_add(ms(self.lease));
        self.objects.put(&self.names.lease(volume), vec![lease::encode(until_ms)]).await?;
        Ok(Lease { until_ms, deadline: now + self.lease })
    }

    fn is_held(&self, volume: &Volume) -> bool {
        let Lease { until_ms, deadline } = volume.state.lock().lease;
        self.clock.now_ms() < until_ms && Instant::now() < deadline
    }

    /// Whether this process writes to a volume.
    pub(crate) fn is_own(&self, number: u64) -> bool {
        self.held.lock().iter().any(|volume| volume.number == number && self.is_held(volume))
    }

    /// Releases the pin on a finished extent.
    pub(crate) fn unpin(&self, number: u64) {
        // A volume whose lease was lost is forgotten.
        let Some(volume) = self.held.lock().iter().find(|volume| volume.number == number).cloned() else {
            return;
        };
        let mut state = volume.state.lock();
        state.pins = state.pins.saturating_sub(1);
        self.after_release(&state);
    }

    fn after_release(&self, state: &State) {
        if state.is_retired && state.writers == 0 && state.pins == 0 {
            self.drained.notify_one();
        }
    }

    /// Renews leases and seals volumes until all who use them are gone. For a task.
    pub(crate) fn maintain_always(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let (volumes, drained) = (Arc::downgrade(self), Arc::clone(&self.drained));
        let interval = self.lease / (2 * RENEWALS);
        async move {
            loop {
                let _ = tokio::time::timeout(interval, drained.notified()).await;
                let Some(volumes) = volumes.upgrade() else { return };
                volumes.maintain().await;
            }
        }
    }

    /// Renews leases, retires the current volume if it is old, and seals what can be.
    pub(crate) async fn maintain(&self) {
        let _one_at_a_time = self.maintaining.lock().await;
        self.retire_old().await;
        let held = self.held.lock().clone();
        for volume in held {
            if self.maintain_volume(&volume).await == Holding::Given {
                self.held.lock().retain(|other| other.number != volume.number);
            }
        }
    }

    async fn retire_old(&self) {
        let mut current = self.current.lock().await;
        let is_old = |volume: &Arc<Volume>| volume.begun.elapsed() >= self.rotate_after;
        if current.as_ref().is_some_and(|volume| is_old(volume) || !self.is_held(volume))
            && let Some(volume) = current.take()
        {
            volume.state.lock().is_retired = true;
        }
    }

    async fn maintain_volume(&self, volume: &Volume) -> Holding {
        let number = volume.number;
        if !self.is_held(volume) {
            return volume.lose();
        }
        let (is_retired, is_tainted) = {
            let state = volume.state.lock();
            (state.is_retired, state.is_tainted)
        };
        if is_retired && volume.is_drained() {
            if is_tainted {
                return Holding::Given;
            }
            match self.objects.delete(vec![self.names.lease(number)]).await {
                Ok(()) => return Holding::Given,
                Err(error) => tracing::warn!(error = %error.error, "cannot seal a volume yet"),
            }
        }
        let left = volume.state.lock().lease.deadline.saturating_duration_since(Instant::now());
        if left <= self.lease - self.lease / RENEWALS {
            match self.write_lease(number).await {
                // It took so long that the lease had ended before: others may have swept the volume, and refuse references to what
                // is in it. What was written now ends like any other lease.
                Ok(_) if !self.is_held(volume) => return volume.lose(),
                Ok(lease) => volume.state.lock().lease = lease,
                Err(error) => tracing::warn!(%error, "cannot renew the lease on a volume yet"),
            }
        }
        Holding::Kept
    }

    /// Takes no more writers, and seals what can be, until all is or the time is up. What is not sealed is swept when the
    /// leases have expired.
    pub(crate) async fn close(&self, patience: Duration) {
        self.is_closed.store(true, Ordering::Release);
        let give_up = Instant::now() + patience;
        loop {
            if let Some(volume) = self.current.lock().await.take() {
                volume.state.lock().is_retired = true;
            }
            self.maintain().await;
            let busy = self.held.lock().iter().any(|volume| volume.state.lock().writers > 0);
            if !busy || Instant::now() >= give_up {
                return;
            }
            let _ = tokio::time::timeout_at(give_up, self.drained.notified()).await;
        }
    }
}

#[derive(PartialEq, Eq)]
enum Holding {
    Kept,
    /// Sealed, lost, or left to be swept.
    Given,
}

/// Keeps a volume from being sealed while an extent is written to it.
pub(crate) struct WriterPin {
    volumes: Arc<Volumes>,
    volume: Arc<Volume>,
    offset: u64,
}

impl WriterPin {
    pub(crate) fn volume(&self) -> u64 {
        self.volume.number
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the volume is still leased to this process. If not, it may be swept.
    pub(crate) fn is_held(&self) -> bool {
        self.volumes.is_held(&self.volume)
    }

    /// There may be an object that nobody knows of, now or later.
    pub(crate) fn taint(&self) {
        self.volume.state.lock().is_tainted = true;
    }

    /// The extent is finished: it is pinned until [`Volumes::unpin`].
    pub(crate) fn keep(self) {
        self.volume.state.lock().pins += 1;
    }
}

impl Drop for WriterPin {
    fn drop(&mut self) {
        let mut state = self.volume.state.lock();
        state.writers = state.writers.saturating_sub(1);
        self.volumes.after_release(&state);
    }
}
