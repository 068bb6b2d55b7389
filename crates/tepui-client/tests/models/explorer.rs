//! Explores all states that a model can reach, breadth first.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

pub(crate) trait Model {
    type State: Clone + Eq + Hash + Debug;

    fn start(&self) -> Self::State;

    /// Appends every state that one more step can lead to. A state without any is final.
    fn steps(&self, state: &Self::State, next: &mut Vec<Self::State>);

    /// Whether a final state is as it should be.
    fn is_right(&self, last: &Self::State) -> bool;
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Exploration<S> {
    pub(crate) states: usize,
    pub(crate) finals: usize,
    pub(crate) wrong: usize,
    /// The shortest way to a wrong final state.
    pub(crate) example: Vec<S>,
}

/// Beyond this the model is not what its author thought.
const MAX_STATES: usize = 4_000_000;

pub(crate) fn explore<M: Model>(model: &M) -> Exploration<M::State> {
    let start = model.start();
    // States in the order in which they were reached, each with the number of the one before it.
    let mut reached = vec![(start.clone(), 0)];
    let mut known = HashMap::from([(start, ())]);
    let (mut finals, mut wrong, mut example) = (0, 0, Vec::new());
    let mut next = Vec::new();
    let mut current = 0;
    while current < reached.len() {
        let state = reached[current].0.clone();
        model.steps(&state, &mut next);
        if next.is_empty() {
            finals += 1;
            if !model.is_right(&state) {
                wrong += 1;
                if wrong == 1 {
                    example = way_to(&reached, current);
                }
            }
        }
        for state in next.drain(..) {
            if known.insert(state.clone(), ()).is_none() {
                reached.push((state, current));
            }
        }
        assert!(reached.len() <= MAX_STATES, "more than {MAX_STATES} states");
        current += 1;
    }
    Exploration { states: reached.len(), finals, wrong, example }
}

fn way_to<S: Clone>(reached: &[(S, usize)], last: usize) -> Vec<S> {
    let mut at = last;
    let mut way = vec![reached[at].0.clone()];
    while at != 0 {
        at = reached[at].1;
        way.push(reached[at].0.clone());
    }
    way.reverse();
    way
}

/// A model small enough to be explored in the head: two counters, each raised by reading and then writing.
#[test]
fn lost_updates_are_found() {
    struct Raise;

    /// The number, and for each writer what it has read, or that it is done.
    type Writers = (u8, [Option<Option<u8>>; 2]);

    impl Model for Raise {
        type State = Writers;

        fn start(&self) -> Writers {
            (0, [None, None])
        }

        fn steps(&self, (number, writers): &Writers, next: &mut Vec<Writers>) {
            for (index, writer) in writers.iter().enumerate() {
                let (number, writer) = match writer {
                    None => (*number, Some(Some(*number))),
                    Some(Some(read)) => (read + 1, Some(None)),
                    Some(None) => continue,
                };
                let mut writers = *writers;
                writers[index] = writer;
                next.push((number, writers));
            }
        }

        fn is_right(&self, (number, _): &Writers) -> bool {
            *number == 2
        }
    }

    let found = explore(&Raise);
    assert_eq!((found.finals, found.wrong), (2, 1));
    assert_eq!(found.example.len(), 5, "two reads, then two writes: {:?}", found.example);
}
