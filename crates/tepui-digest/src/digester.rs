//! Threads that compute the MD5 of uploads, several at once, so that the threads of the runtime do not.

use crate::md5::{LANES, Md5, Md5Lane, Md5Lanes};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_model::blob::Md5Sum;
use tokio::sync::Notify;

/// The bytes of a stream that are submitted at once.
const SUBMIT_BYTES: usize = 256 * 1024;
/// Streams up to this length are computed locally.
const SMALL_BYTES: usize = 32 * 1024;
/// Backpressure: a stream with more pending bytes than this waits.
const MAX_PENDING_BYTES: usize = 1024 * 1024;
/// How long a thread waits for other streams to fill its lanes, and how long it does not wait after a timeout.
const BATCH_WAIT: Duration = Duration::from_millis(1);
const BATCH_BACKOFF: Duration = Duration::from_millis(20);
/// With free lanes, a thread checks for other streams after this much of each.
const CHECK_BYTES: usize = 32 * 1024;
/// One thread processes more than a gigabyte a second. There is one for this many cores.
const CORES_PER_THREAD: usize = 4;

/// The threads. They end when it is dropped.
pub struct Digester {
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Streams with pending bytes that no thread has taken.
    streams: VecDeque<Arc<Stream>>,
    /// Streams that use the threads.
    open: usize,
    is_closed: bool,
}

/// The state that an upload and a thread share.
#[derive(Default)]
struct Stream {
    state: Mutex<State>,
    /// Signals that bytes were taken or processed.
    progress: Notify,
}

#[derive(Default)]
struct State {
    /// `None` while a thread has it.
    sum: Option<Md5>,
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl Digester {
    pub fn start() -> Self {
        let queue = Arc::new(Queue::default());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores.div_ceil(CORES_PER_THREAD) {
            let work = Arc::clone(&queue);
            let started = std::thread::Builder::new().name("md5".into()).spawn(move || work.run());
            if let Err(error) = started {
                tracing::warn!(%error, "cannot start a thread for checksums: uploads compute their own");
                queue.waiting.lock().is_closed = true;
            }
        }
        Self { queue }
    }

    pub fn begin(&self) -> StreamMd5 {
        let computation = Computation::Local(Md5::new());
        StreamMd5 { queue: Arc::clone(&self.queue), computation, pieces: VecDeque::new(), bytes: 0 }
    }
}

impl Drop for Digester {
    fn drop(&mut self) {
        self.queue.waiting.lock().is_closed = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn run(&self) {
        let mut lanes = Md5Lanes::new();
        let mut backoff_until = Instant::now();
        loop {
            self.fill(&mut lanes, &mut backoff_until);
            if lanes.is_empty() {
                return;
            }
            let max_bytes = if lanes.is_full() { usize::MAX } else { CHECK_BYTES };
            if let Some(done) = lanes.run(max_bytes)
                && let Some(more) = Stream::resume(done)
            {
                lanes.add(more);
            }
        }
    }

    /// Fills the lanes with streams. They stay empty only when the digester is closed and all is done.
    fn fill(&self, lanes: &mut Md5Lanes<Arc<Stream>>, backoff_until: &mut Instant) {
        let mut waiting = self.waiting.lock();
        if lanes.is_empty() {
            let idle = |waiting: &mut Waiting| waiting.streams.is_empty() && !waiting.is_closed;
            self.changed.wait_while(&mut waiting, idle);
        }
        // Four streams take hardly longer than one, so wait for others.
        let taken = lanes.len();
        let few = |waiting: &mut Waiting| {
            taken + waiting.streams.len() < LANES.min(waiting.open) && !waiting.is_closed
        };
        if few(&mut waiting)
            && Instant::now() >= *backoff_until
            && self.changed.wait_while_for(&mut waiting, few, BATCH_WAIT).timed_out()
        {
            *backoff_until = Instant::now() + BATCH_BACKOFF;
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
    fn into_lane(self: Arc<Self>) -> Option<Md5Lane<Arc<Self>>> {
        let mut state = self.state.lock();
        let sum = state.sum.take()?;
        let pieces = state.take_pieces();
        drop(state);
        self.progress.notify_one();
        Some(Md5Lane { sum, pieces, owner: self })
    }

    /// Returns the sum to the stream, or takes the pieces that were submitted meanwhile.
    fn resume(mut lane: Md5Lane<Arc<Self>>) -> Option<Md5Lane<Arc<Self>>> {
        let mut state = lane.owner.state.lock();
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
        while !holds(&self.state.lock()) {
            self.progress.notified().await;
        }
    }
}

impl State {
    fn take_pieces(&mut self) -> VecDeque<Bytes> {
        self.bytes = 0;
        std::mem::take(&mut self.pieces)
    }

    fn is_idle(&self) -> bool {
        self.sum.is_some() && self.pieces.is_empty()
    }
}

/// The MD5 of one upload.
pub struct StreamMd5 {
    queue: Arc<Queue>,
    computation: Computation,
    /// Not submitted yet.
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

enum Computation {
    /// For short streams.
    Local(Md5),
    Shared(Arc<Stream>),
}

impl StreamMd5 {
    /// Adds the next bytes. Waits while too many are pending.
    pub async fn update(&mut self, bytes: Bytes) {
        self.bytes += bytes.len();
        self.pieces.push_back(bytes);
        if self.bytes >= SUBMIT_BYTES {
            self.submit().until(|state| state.bytes <= MAX_PENDING_BYTES).await;
        }
    }

    pub async fn finish(mut self) -> Md5Sum {
        if self.bytes > SMALL_BYTES {
            self.submit();
        }
        let mut sum = match &mut self.computation {
            Computation::Local(sum) => std::mem::take(sum),
            Computation::Shared(stream) => {
                stream.until(State::is_idle).await;
                stream.state.lock().sum.take().unwrap_or_default()
            }
        };
        self.pieces.iter().for_each(|piece| sum.update(piece));
        Md5Sum(sum.finish())
    }

    fn submit(&mut self) -> Arc<Stream> {
        let pieces = std::mem::take(&mut self.pieces);
        let bytes = std::mem::take(&mut self.bytes);
        let mut waiting = self.queue.waiting.lock();
        let stream = match &mut self.computation {
            Computation::Shared(stream) => Arc::clone(stream),
            Computation::Local(sum) => {
                let state = State { sum: Some(std::mem::take(sum)), ..State::default() };
                let stream = Arc::new(Stream { state: Mutex::new(state), ..Stream::default() });
                waiting.open += 1;
                self.computation = Computation::Shared(Arc::clone(&stream));
                stream
            }
        };
        let mut state = stream.state.lock();
        let is_new = state.is_idle();
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

impl Drop for StreamMd5 {
    fn drop(&mut self) {
        if matches!(self.computation, Computation::Shared(_)) {
            self.queue.waiting.lock().open -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checksum as _;

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

    /// The threads end before, between and after submissions.
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
