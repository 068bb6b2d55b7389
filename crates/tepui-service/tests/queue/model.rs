//! The service against a plain model: random operations and moves of the clock get the same answers.

use super::*;
use crate::engine::TestEngine;
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

/// A message of the model. Its times are those of the replies.
#[derive(Debug, Clone)]
struct Known {
    id: MessageId,
    receipt: PopReceipt,
    expires: Timestamp,
    dequeue_count: u32,
    text: String,
}

#[derive(Default)]
struct Model {
    messages: Vec<Known>,
    receipts: Vec<(MessageId, PopReceipt)>,
}

impl Model {
    /// In the order of delivery.
    fn visible(&self, now: Timestamp, count: usize) -> Vec<Known> {
        let mut visible: Vec<_> =
            self.messages.iter().filter(|m| m.receipt.visible <= now && now < m.expires).cloned().collect();
        visible.sort_by_key(|m| (m.receipt.visible, m.receipt.sequence));
        visible.truncate(count);
        visible
    }

    /// The message that a receipt is good for.
    fn held(&self, (id, receipt): (MessageId, PopReceipt), now: Timestamp) -> Option<usize> {
        self.messages.iter().position(|m| m.id == id && m.receipt == receipt && now < m.expires)
    }

    /// One of the last receipts.
    fn receipt(&self, back: usize) -> Option<(MessageId, PopReceipt)> {
        self.receipts.iter().rev().nth(back).copied()
    }
}

async fn check<E: Engine>(engine: E, steps: &[Step]) {
    let bench =
        Bench::of_nodes(engine, QueueOptions::default(), ManualClock::at(clock_start()), store::nodes());
    bench.create().await;
    let mut model = Model::default();
    for (number, step) in steps.iter().enumerate() {
        // Later than all ticks so far, and before any message of a whole second later.
        let now = bench.clock.tick();
        match step {
            Step::Wait(time) => bench.advance(seconds(*time)),
            Step::Put { visibility, lifetime } => {
                let text = number.to_string();
                let put = bench.put_with(&text, *visibility, lifetime.map(seconds)).await;
                assert!(put.receipt.visible > now.saturating_add(seconds(*visibility)));
                model.receipts.push((put.stamp.id, put.receipt));
                let (id, expires) = (put.stamp.id, put.stamp.expires);
                model.messages.push(Known { id, receipt: put.receipt, expires, dequeue_count: 0, text });
            }
            Step::Get { count, visibility } => {
                let expected = model.visible(now, *count);
                let taken = bench.get(*count, *visibility).await;
                assert_eq!(taken.len(), expected.len(), "step {number}");
                for (taken, expected) in taken.iter().zip(expected) {
                    assert_eq!((taken.stamp.id, &taken.text[..]), (expected.id, expected.text.as_bytes()));
                    let known = model.messages.iter_mut().find(|m| m.id == expected.id).unwrap();
                    known.dequeue_count += 1;
                    known.receipt = taken.receipt;
                    assert_eq!(
                        (taken.dequeue_count, taken.stamp.expires),
                        (known.dequeue_count, known.expires)
                    );
                    model.receipts.push((known.id, taken.receipt));
                }
            }
            Step::Peek { count } => {
                let told: Vec<_> = bench.peek(*count).await;
                let told: Vec<_> = told.iter().map(|m| (m.stamp.id, m.dequeue_count)).collect();
                let expected = model.visible(now, *count);
                assert_eq!(told, expected.iter().map(|m| (m.id, m.dequeue_count)).collect::<Vec<_>>());
            }
            Step::Update { receipt, visibility, text } => {
                let Some((id, receipt)) = model.receipt(*receipt) else { continue };
                let text = text.then(|| number.to_string());
                let told = bench.update(Some(id), Some(receipt), *visibility, text.as_deref()).await;
                match model.held((id, receipt), now) {
                    None => assert_eq!(told.unwrap_err().code, ErrorCode::MessageNotFound),
                    Some(at) if now.saturating_add(seconds(*visibility)) >= model.messages[at].expires => {
                        assert_eq!(told.unwrap_err().code, ErrorCode::InvalidQueryParameterValue);
                    }
                    Some(at) => {
                        let told = told.unwrap();
                        model.receipts.push((id, told));
                        model.messages[at].receipt = told;
                        if let Some(text) = text {
                            model.messages[at].text = text;
                        }
                    }
                }
            }
            Step::Delete { receipt } => {
                let Some((id, receipt)) = model.receipt(*receipt) else { continue };
                let told = bench.delete(Some(id), Some(receipt)).await;
                match model.held((id, receipt), now) {
                    None => assert_eq!(told, Err(ErrorCode::MessageNotFound)),
                    Some(at) => {
                        assert_eq!(told, Ok(()));
                        model.messages.remove(at);
                    }
                }
            }
            Step::Clear => {
                bench.clear().await;
                model.messages.clear();
            }
            Step::Sweep => bench.sweep().await,
            Step::Recreate => {
                bench.delete_queue().await;
                bench.create().await;
                model.messages.clear();
            }
        }
        let now = bench.clock.tick();
        let alive = model.messages.iter().filter(|m| now < m.expires).count();
        assert_eq!(bench.count().await, alive as u64, "step {number}: {step:?}");
    }
}

fn run<E: Engine>(engine: E, steps: &[Step]) {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(check(engine, steps));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn in_memory(steps in steps()) {
        run(store::engine(), &steps);
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
        run(store::on(engine), &steps);
    }
}
