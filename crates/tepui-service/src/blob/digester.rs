//! The MD5 of uploads: off the threads that serve requests, and several at once.

use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tepui_model::blob::Md5Sum;
use tepui_model::blob::md5::{LANES, Lane, Lanes, Md5};
use tokio::sync::Notify;

/// So much of a stream is handed over at once.
const STEP_BYTES: usize = 256 * 1024;
/// So much is not worth handing over.
const SMALL_BYTES: usize = 32 * 1024;
/// A stream with more than this to be summed up waits.
const MAX_WAITING_BYTES: usize = 1024 * 1024;
/// How long a thread waits for other streams to go along with those it has, and how long it goes on without
/// waiting after it waited in vain.
const PATIENCE: Duration = Duration::from_millis(1);
const IMPATIENCE: Duration = Duration::from_millis(20);
/// As long as others could go along, it looks for them after so much of each.
const LOOK_BYTES: usize = 32 * 1024;
/// One thread sums up more than a gigabyte a second. It is one in so many cores.
const CORES_PER_THREAD: usize = 4;

/// Threads that sum up. They end when it is dropped.
pub(super) struct Digester {
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Those with something to sum up that no thread has.
    streams: VecDeque<Arc<Stream>>,
    /// How many streams hand over what they have.
    open: usize,
    is_closed: bool,
}

/// What an upload and a thread share.
#[derive(Default)]
struct Stream {
    state: Mutex<State>,
    /// Something was taken or summed up.
    progress: Notify,
}

#[derive(Default)]
struct State {
    /// Not there while a thread has it.
    sum: Option<Md5>,
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl Digester {
    pub(super) fn start() -> Self {
        let queue = Arc::new(Queue::default());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores.div_ceil(CORES_PER_THREAD) {
            let work = Arc::clone(&queue);
            let started = std::thread::Builder::new().name("md5".into()).spawn(move || work.run());
            if let Err(error) = started {
                tracing::warn!(%error, "cannot start a thread for checksums: uploads compute their own");
                queue.waiting().is_closed = true;
            }
        }
        Self { queue }
    }

    pub(super) fn begin(&self) -> StreamSum {
        let place = Place::Here(Md5::new());
        StreamSum { queue: Arc::clone(&self.queue), place, pieces: VecDeque::new(), bytes: 0 }
    }
}

impl Drop for Digester {
    fn drop(&mut self) {
        self.queue.waiting().is_closed = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    fn run(&self) {
        let mut lanes = Lanes::new();
        let mut impatient_until = Instant::now();
        loop {
            self.fill(&mut lanes, &mut impatient_until);
            if lanes.is_empty() {
                return;
            }
            let max_bytes = if lanes.is_full() { usize::MAX } else { LOOK_BYTES };
            if let Some(done) = lanes.run(max_bytes)
                && let Some(more) = Stream::go_on(done)
            {
                lanes.add(more);
            }
        }
    }

    /// Takes as many streams as there are lanes for. There are none only when it is closed and all is done.
    fn fill(&self, lanes: &mut Lanes<Arc<Stream>>, impatient_until: &mut Instant) {
        let mut waiting = self.waiting();
        if lanes.is_empty() {
            let idle = |waiting: &mut Waiting| waiting.streams.is_empty() && !waiting.is_closed;
            waiting = self.changed.wait_while(waiting, idle).unwrap_or_else(PoisonError::into_inner);
        }
        // Together they take hardly longer than alone.
        let taken = lanes.len();
        let few = |waiting: &mut Waiting| {
            taken + waiting.streams.len() < LANES.min(waiting.open) && !waiting.is_closed
        };
        if few(&mut waiting) && Instant::now() >= *impatient_until {
            let waited = self.changed.wait_timeout_while(waiting, PATIENCE, few);
            let timeout;
            (waiting, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                *impatient_until = Instant::now() + IMPATIENCE;
            }
        }
        while !lanes.is_full()
            && let Some(stream) = waiting.streams.pop_front()
        {
            if let Some(lane) = stream.into_lane() {
                lanes.add(lane);
            }
        }
    }
}

impl Stream {
    fn into_lane(self: Arc<Self>) -> Option<Lane<Arc<Self>>> {
        let mut state = lock(&self.state);
        let sum = state.sum.take()?;
        let pieces = state.take_pieces();
        drop(state);
        self.progress.notify_one();
        Some(Lane { sum, pieces, owner: self })
    }

    /// Gives back the sum, or takes the pieces that have come meanwhile.
    fn go_on(mut lane: Lane<Arc<Self>>) -> Option<Lane<Arc<Self>>> {
        let mut state = lock(&lane.owner.state);
        lane.pieces = state.take_pieces();
        let is_done = lane.pieces.is_empty();
        if is_done {
            state.sum = Some(std::mem::take(&mut lane.sum));
        }
        drop(state);
        lane.owner.progress.notify_one();
        (!is_done).then_some(lane)
    }

    async fn until(&self, holds: impl Fn(&State) -> bool) {
        while !holds(&lock(&self.state)) {
            self.progress.notified().await;
        }
    }
}

impl State {
    fn take_pieces(&mut self) -> VecDeque<Bytes> {
        self.bytes = 0;
        std::mem::take(&mut self.pieces)
    }

    fn is_summed_up(&self) -> bool {
        self.sum.is_some() && self.pieces.is_empty()
    }
}

/// The MD5 of one upload.
pub(super) struct StreamSum {
    queue: Arc<Queue>,
    place: Place,
    /// Not yet handed over.
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

enum Place {
    /// Little has come so far.
    Here(Md5),
    Shared(Arc<Stream>),
}

impl StreamSum {
    /// Adds the next bytes. Waits if many of those before them are not summed up yet.
    pub(super) async fn update(&mut self, bytes: Bytes) {
        self.bytes += bytes.len();
        self.pieces.push_back(bytes);
        if self.bytes >= STEP_BYTES {
            self.hand_over().until(|state| state.bytes <= MAX_WAITING_BYTES).await;
        }
    }

    pub(super) async fn finish(mut self) -> Md5Sum {
        if self.bytes > SMALL_BYTES {
            self.hand_over();
        }
        let mut sum = match &mut self.place {
            Place::Here(sum) => std::mem::take(sum),
            Place::Shared(stream) => {
                stream.until(State::is_summed_up).await;
                lock(&stream.state).sum.take().unwrap_or_default()
            }
        };
        self.pieces.iter().for_each(|piece| sum.update(piece));
        Md5Sum(sum.finish())
    }

    fn hand_over(&mut self) -> Arc<Stream> {
        let pieces = std::mem::take(&mut self.pieces);
        let bytes = std::mem::take(&mut self.bytes);
        let mut waiting = self.queue.waiting();
        let stream = match &mut self.place {
            Place::Shared(stream) => Arc::clone(stream),
            Place::Here(sum) => {
                let state = State { sum: Some(std::mem::take(sum)), ..State::default() };
                let stream = Arc::new(Stream { state: Mutex::new(state), ..Stream::default() });
                waiting.open += 1;
                self.place = Place::Shared(Arc::clone(&stream));
                stream
            }
        };
        let mut state = lock(&stream.state);
        let is_new = state.is_summed_up();
        match &mut state.sum {
            Some(sum) if is_new && waiting.is_closed => pieces.iter().for_each(|piece| sum.update(piece)),
            _ => {
                state.pieces.extend(pieces);
                state.bytes += bytes;
                if is_new {
                    waiting.streams.push_back(Arc::clone(&stream));
                    self.queue.changed.notify_all();
                }
            }
        }
        drop(state);
        stream
    }
}

impl Drop for StreamSum {
    fn drop(&mut self) {
        if matches!(self.place, Place::Shared(_)) {
            self.queue.waiting().open -= 1;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn streams_side_by_side() {
        let digester = Digester::start();
        let tasks = (0..13u32).map(|stream| {
            let mut sum = digester.begin();
            tokio::spawn(async move {
                let whole: Vec<u8> =
                    (0..stream * 77_777).map(|index| (index * (stream + 3) % 251) as u8).collect();
                for piece in whole.chunks(10_000 + stream as usize) {
                    sum.update(Bytes::copy_from_slice(piece)).await;
                }
                assert_eq!(sum.finish().await, Md5Sum::of(&whole), "{stream}");
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    }

    /// Before, between and after what is handed over, the threads end.
    #[tokio::test]
    async fn streams_that_outlive_the_threads() {
        let whole: Vec<u8> = (0..1_000_000u32).map(|index| (index % 251) as u8).collect();
        for end_at in [0, 3, 7, 9] {
            let mut digester = Some(Digester::start());
            let mut sum = digester.as_ref().unwrap().begin();
            for (number, piece) in whole.chunks(100_000).enumerate() {
                if number == end_at {
                    digester = None;
                }
                sum.update(Bytes::copy_from_slice(piece)).await;
            }
            assert_eq!(sum.finish().await, Md5Sum::of(&whole), "{end_at}");
            assert!(digester.is_none());
        }
    }
}
