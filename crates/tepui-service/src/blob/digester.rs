//! The MD5 of uploads: off the threads that serve requests, and several at once.

use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tepui_model::blob::Md5Sum;
use tepui_model::blob::md5::{Lane, Lanes, Md5};
use tepui_model::{ErrorCode, ServiceError};
use tokio::sync::oneshot;

/// So much of a stream is handed over at once.
const STEP_BYTES: usize = 256 * 1024;
/// So much is not worth handing over.
const SMALL_BYTES: usize = 32 * 1024;
/// One thread sums up more than a gigabyte a second. It is one in so many cores.
const CORES_PER_THREAD: usize = 4;

type Job = Lane<oneshot::Sender<Md5>>;

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
    jobs: VecDeque<Job>,
    is_closed: bool,
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
        let queue = Arc::clone(&self.queue);
        StreamSum { queue, sum: Place::Here(Md5::new()), pieces: VecDeque::new(), bytes: 0 }
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
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut lanes = Lanes::new();
        loop {
            let is_idle = |waiting: &mut Waiting| waiting.jobs.is_empty() && !waiting.is_closed;
            let mut waiting = self.waiting();
            if lanes.is_empty() {
                waiting = self.changed.wait_while(waiting, is_idle).unwrap_or_else(PoisonError::into_inner);
            }
            while !lanes.is_full()
                && let Some(job) = waiting.jobs.pop_front()
            {
                lanes.add(job);
            }
            drop(waiting);
            match lanes.run() {
                // Nobody waits for it if the upload was given up.
                Some(done) => drop(done.owner.send(done.sum)),
                None => return,
            }
        }
    }
}

/// The MD5 of one upload.
pub(super) struct StreamSum {
    queue: Arc<Queue>,
    sum: Place,
    /// Not yet handed over.
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

enum Place {
    Here(Md5),
    Away(oneshot::Receiver<Md5>),
}

impl StreamSum {
    /// Adds the next bytes. Waits if those before them are not summed up yet.
    pub(super) async fn update(&mut self, bytes: Bytes) -> Result<(), ServiceError> {
        self.bytes += bytes.len();
        self.pieces.push_back(bytes);
        if self.bytes < STEP_BYTES {
            return Ok(());
        }
        self.hand_over().await
    }

    pub(super) async fn finish(mut self) -> Result<Md5Sum, ServiceError> {
        if self.bytes > SMALL_BYTES {
            self.hand_over().await?;
        }
        let mut sum = self.take().await?;
        self.pieces.iter().for_each(|piece| sum.update(piece));
        Ok(Md5Sum(sum.finish()))
    }

    async fn hand_over(&mut self) -> Result<(), ServiceError> {
        let mut sum = self.take().await?;
        let pieces = std::mem::take(&mut self.pieces);
        self.bytes = 0;
        let mut waiting = self.queue.waiting();
        if waiting.is_closed {
            drop(waiting);
            pieces.iter().for_each(|piece| sum.update(piece));
            self.sum = Place::Here(sum);
            return Ok(());
        }
        let (owner, done) = oneshot::channel();
        waiting.jobs.push_back(Lane { sum, pieces, owner });
        drop(waiting);
        self.queue.changed.notify_one();
        self.sum = Place::Away(done);
        Ok(())
    }

    async fn take(&mut self) -> Result<Md5, ServiceError> {
        match &mut self.sum {
            Place::Here(sum) => Ok(std::mem::take(sum)),
            Place::Away(done) => done.await.map_err(|_| {
                ServiceError::new(ErrorCode::InternalError).with_cause("nobody computes checksums any more")
            }),
        }
    }
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
                    sum.update(Bytes::copy_from_slice(piece)).await.unwrap();
                }
                assert_eq!(sum.finish().await.unwrap(), Md5Sum::of(&whole), "{stream}");
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    }
}
