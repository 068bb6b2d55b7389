//! The service against a plain model: random operations and moves of the clock get the same answers. Where the store leaves the
//! outcome of a request open, the model is a set of states, and each answer has to be explained by one of them.

use super::*;
use crate::engine::TestEngine;
use crate::possible::Possible;
use crate::store::repeat_unless_open;
use proptest::prelude::*;
use tepui_local::{DiskEngine, EngineOptions};

#[derive(Debug, Clone)]
enum Step {
    Put {
        visibility: u64,
        lifetime: Option<u64>,
    },
    Get {
        count: usize,
        visibility: u64,
    },
    Peek {
        count: usize,
    },
    /// Of one of the receipts that were ever handed out.
    Update {
        receipt: usize,
        visibility: u64,
        text: bool,
    },
    Delete {
        receipt: usize,
    },
    Clear,
    Sweep,
    Recreate,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..4u64, prop::option::of(4..12u64))
            .prop_map(|(visibility, lifetime)| Step::Put { visibility, lifetime }),
        5 => (1..5usize, 1..8u64).prop_map(|(count, visibility)| Step::Get { count, visibility }),
        2 => (1..5usize).prop_map(|count| Step::Peek { count }),
        3 => (0..8usize, 0..8u64, any::<bool>())
            .prop_map(|(receipt, visibility, text)| Step::Update { receipt, visibility, text }),
        3 => (0..8usize).prop_map(|receipt| Step::Delete { receipt }),
        1 => Just(Step::Clear),
        1 => Just(Step::Sweep),
        1 => Just(Step::Recreate),
        4 => (0..5u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..80)
}

/// A message of the model.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    /// `None` as long as no answer has told it.
    id: Option<MessageId>,
    receipt: Option<PopReceipt>,
    /// As the receipt says, or else a few ticks earlier, which is before everything that was begun later.
    visible: Timestamp,
    expires: Timestamp,
    /// In the order of insertion.
    number: usize,
    dequeue_count: u32,
    text: String,
}

/// The messages of a queue.
type Messages = Vec<Known>;

/// In the order of delivery.
fn visible(messages: &Messages, now: Timestamp, count: usize) -> Vec<usize> {
    let is_visible = |m: &Known| m.visible <= now && now < m.expires;
    let mut visible: Vec<usize> = (0..messages.len()).filter(|at| is_visible(&messages[*at])).collect();
    visible.sort_by_key(|at| (messages[*at].visible, messages[*at].number));
    visible.truncate(count);
    visible
}

/// The message that a receipt is good for.
fn held(messages: &Messages, (id, receipt): (MessageId, PopReceipt), now: Timestamp) -> Option<usize> {
    messages.iter().position(|m| m.id == Some(id) && m.receipt == Some(receipt) && now < m.expires)
}

fn with_message(messages: &Messages, at: usize, change: impl FnOnce(&mut Known)) -> Messages {
    let mut messages = messages.clone();
    change(&mut messages[at]);
    messages
}

fn without_message(messages: &Messages, at: usize) -> Messages {
    let mut messages = messages.clone();
    messages.remove(at);
    messages
}

struct World<E: Engine> {
    bench: Bench<E>,
    possible: Possible<Messages>,
    /// All that were ever handed out.
    receipts: Vec<(MessageId, PopReceipt)>,
}

impl<E: Engine> World<E> {
    /// The answer to one request. `None` if it leaves open what became of it.
    async fn ask(&self, call: impl Into<Call>) -> Option<Result<Reply, ErrorCode>> {
        let call = call.into();
        match repeat_unless_open(|| self.bench.try_run(&call)).await {
            Err(error) if store::is_open(&error) => None,
            answer => Some(answer.map_err(|error| error.code)),
        }
    }

    async fn step(&mut self, number: usize, step: &Step) {
        // Later than all ticks so far, and before any message of a whole second later.
        let now = self.bench.clock.tick();
        match step {
            Step::Wait(time) => self.bench.advance(seconds(*time)),
            Step::Put { visibility, lifetime } => self.put(number, now, *visibility, *lifetime).await,
            Step::Get { count, visibility } => self.get(now, *count, *visibility).await,
            Step::Peek { count } => {
                let told = self.bench.peek(*count).await;
                self.possible.seen(|parts| {
                    let expected = visible(&parts[0], now, *count);
                    let is_same = |(told, at): (&Peeked, &usize)| {
                        let known = &parts[0][*at];
                        known.id.is_none_or(|id| id == told.stamp.id)
                            && (&told.text[..], told.dequeue_count)
                                == (known.text.as_bytes(), known.dequeue_count)
                    };
                    told.len() == expected.len() && told.iter().zip(&expected).all(is_same)
                });
            }
            Step::Update { receipt, visibility, text } => {
                let text = text.then(|| number.to_string());
                self.update(now, *receipt, *visibility, text).await;
            }
            Step::Delete { receipt } => self.delete(now, *receipt).await,
            Step::Clear => match self.ask(SequencedOperation::ClearMessages { queue: name() }).await {
                Some(answer) => {
                    assert_eq!(answer, Ok(Reply::Cleared));
                    self.possible.changed(0, |_| Some(Messages::new()));
                }
                None => self.possible.left_open(0, |_| Some(Messages::new())),
            },
            Step::Sweep => self.bench.sweep().await,
            Step::Recreate => {
                self.bench.delete_queue().await;
                self.bench.create().await;
                // What was begun before is refused: it was for another queue.
                self.possible = Possible::new(vec![Messages::new()]);
            }
        }
        let now = self.bench.clock.tick();
        let count = self.bench.count().await;
        self.possible.seen(|parts| parts[0].iter().filter(|m| now < m.expires).count() as u64 == count);
    }

    async fn put(&mut self, number: usize, now: Timestamp, visibility: u64, lifetime: Option<u64>) {
        let (visibility, lifetime) = (seconds(visibility), lifetime.map(seconds));
        let text = Bytes::from(number.to_string());
        let put = SequencedOperation::PutMessage { queue: name(), text, visibility, lifetime };
        let known = Known {
            id: None,
            receipt: None,
            visible: now.saturating_add(visibility),
            expires: lifetime.map_or(Timestamp::MAX, |lifetime| now.saturating_add(lifetime)),
            number,
            dequeue_count: 0,
            text: number.to_string(),
        };
        let with =
            |messages: &Messages, known: &Known| Some([&messages[..], std::slice::from_ref(known)].concat());
        match self.ask(put).await {
            None => self.possible.left_open(0, |parts| with(&parts[0], &known)),
            Some(Ok(Reply::Put(put))) => {
                assert!(put.receipt.visible > known.visible);
                self.receipts.push((put.stamp.id, put.receipt));
                let (id, receipt) = (Some(put.stamp.id), Some(put.receipt));
                let (visible, expires) = (put.receipt.visible, put.stamp.expires);
                let known = Known { id, receipt, visible, expires, ..known };
                self.possible.changed(0, |parts| with(&parts[0], &known));
            }
            Some(other) => panic!("not put: {other:?}"),
        }
    }

    async fn get(&mut self, now: Timestamp, count: usize, visibility: u64) {
        let visibility = seconds(visibility);
        let taken = match self.ask(SequencedOperation::GetMessages { queue: name(), count, visibility }).await
        {
            None => None,
            Some(Ok(Reply::Messages(taken))) => Some(taken),
            Some(other) => panic!("not taken: {other:?}"),
        };
        let Some(taken) = taken else {
            let hidden = |parts: &[Messages]| {
                let mut messages = parts[0].clone();
                for at in visible(&parts[0], now, count) {
                    messages[at].dequeue_count += 1;
                    messages[at].receipt = None;
                    messages[at].visible = now.saturating_add(visibility);
                }
                Some(messages)
            };
            return self.possible.left_open(0, hidden);
        };
        self.receipts.extend(taken.iter().map(|message| (message.stamp.id, message.receipt)));
        let judge = |parts: &[Messages]| {
            let expected = visible(&parts[0], now, count);
            let mut messages = parts[0].clone();
            for (taken, at) in taken.iter().zip(&expected) {
                let known = &mut messages[*at];
                known.dequeue_count += 1;
                let is_same = known.id.is_none_or(|id| id == taken.stamp.id)
                    && (&taken.text[..], taken.dequeue_count) == (known.text.as_bytes(), known.dequeue_count);
                if !is_same {
                    return None;
                }
                (known.id, known.receipt) = (Some(taken.stamp.id), Some(taken.receipt));
                (known.visible, known.expires) = (taken.receipt.visible, taken.stamp.expires);
            }
            (taken.len() == expected.len()).then_some(messages)
        };
        match taken.is_empty() {
            // Nothing was written, perhaps.
            true => self.possible.seen(|parts| judge(parts).is_some()),
            false => self.possible.changed(0, judge),
        }
    }

    async fn update(&mut self, now: Timestamp, back: usize, visibility: u64, text: Option<String>) {
        let Some(&(id, receipt)) = self.receipts.iter().rev().nth(back) else { return };
        let visibility = seconds(visibility);
        let update = SequencedOperation::UpdateMessage {
            queue: name(),
            id: Some(id),
            receipt: Some(receipt),
            visibility,
            text: text.clone().map(Bytes::from),
        };
        let hidden_until = now.saturating_add(visibility);
        let changed = |parts: &[Messages], new: Option<PopReceipt>| {
            let at = held(&parts[0], (id, receipt), now)?;
            let change = |known: &mut Known| {
                known.receipt = new;
                known.visible = new.map_or(hidden_until, |new| new.visible);
                known.text = text.clone().unwrap_or(std::mem::take(&mut known.text));
            };
            (hidden_until < parts[0][at].expires).then(|| with_message(&parts[0], at, change))
        };
        match self.ask(update).await {
            None => self.possible.left_open(0, |parts| changed(parts, None)),
            Some(Ok(Reply::Updated(new))) => {
                self.receipts.push((id, new));
                self.possible.changed(0, |parts| changed(parts, Some(new)));
            }
            Some(Err(ErrorCode::MessageNotFound)) => {
                self.possible.seen(|parts| held(&parts[0], (id, receipt), now).is_none());
            }
            Some(Err(ErrorCode::InvalidQueryParameterValue)) => self.possible.seen(|parts| {
                held(&parts[0], (id, receipt), now).is_some_and(|at| hidden_until >= parts[0][at].expires)
            }),
            Some(other) => panic!("not updated: {other:?}"),
        }
    }

    async fn delete(&mut self, now: Timestamp, back: usize) {
        let Some(&held_by) = self.receipts.iter().rev().nth(back) else { return };
        let (id, receipt) = (Some(held_by.0), Some(held_by.1));
        let without =
            |parts: &[Messages]| held(&parts[0], held_by, now).map(|at| without_message(&parts[0], at));
        match self.ask(SequencedOperation::DeleteMessage { queue: name(), id, receipt }).await {
            None => self.possible.left_open(0, without),
            Some(Ok(Reply::MessageDeleted)) => self.possible.changed(0, without),
            Some(Err(ErrorCode::MessageNotFound)) => {
                self.possible.seen(|parts| held(&parts[0], held_by, now).is_none());
            }
            Some(other) => panic!("not deleted: {other:?}"),
        }
    }
}

async fn check<E: Engine>(engine: E, steps: &[Step]) {
    let bench =
        Bench::of_nodes(engine, QueueOptions::default(), ManualClock::at(clock_start()), store::nodes());
    bench.create().await;
    let possible = Possible::new(vec![Messages::new()]);
    let mut world = World { bench, possible, receipts: Vec::new() };
    for (number, step) in steps.iter().enumerate() {
        world.step(number, step).await;
    }
}

fn run<E: Engine>(engine: E, steps: &[Step]) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(check(engine, steps));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: store::cases(200), ..ProptestConfig::default() })]
    #[test]
    fn in_memory(steps in steps()) {
        run(store::with_open_outcomes(store::tested()), &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn on_an_engine_that_forgets(steps in steps(), seed in any::<u64>()) {
        run(TestEngine::forgetful(seed), &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]
    #[test]
    fn on_disk(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let engine = DiskEngine::open(EngineOptions::new(directory.path())).unwrap();
        run(store::with_open_outcomes(engine), &steps);
    }
}
