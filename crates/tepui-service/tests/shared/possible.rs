//! What a store may hold, as far as a client can tell whose answers leave outcomes open: a set of states. Each answer that is
//! definite leaves those that explain it.

#![allow(dead_code, reason = "not every suite needs all of it")]

use std::fmt::Debug;

/// The states that a store may be in. Each consists of parts: any change of one refuses those changes of it that were begun
/// before and have not happened yet.
pub(crate) struct Possible<P> {
    states: Vec<State<P>>,
}

#[derive(Debug, Clone, PartialEq)]
struct State<P> {
    parts: Vec<P>,
    /// Changes that may still happen: of which part, and what becomes of it.
    late: Vec<(usize, P)>,
}

impl<P: Clone + PartialEq> State<P> {
    fn with(&self, part: usize, new: P) -> Self {
        let mut parts = self.parts.clone();
        parts[part] = new;
        let late = self.late.iter().filter(|(of, _)| *of != part).cloned().collect();
        Self { parts, late }
    }
}

impl<P: Clone + PartialEq + Debug> Possible<P> {
    /// One state.
    pub(crate) fn new(parts: Vec<P>) -> Self {
        Self { states: vec![State { parts, late: Vec::new() }] }
    }

    /// A definite answer to a change of a part. `judge` says what becomes of it in a state, or `None` if the answer would have been
    /// another one.
    pub(crate) fn changed(&mut self, part: usize, judge: impl Fn(&[P]) -> Option<P>) {
        self.replace(|state| judge(&state.parts).map(|new| vec![state.with(part, new)]).unwrap_or_default());
    }

    /// An answer that leaves open whether a part was changed. `judge` says what becomes of it if so, or `None` if the answer would
    /// have been a refusal.
    pub(crate) fn left_open(&mut self, part: usize, judge: impl Fn(&[P]) -> Option<P>) {
        self.replace(|state| match judge(&state.parts) {
            None => Vec::new(),
            Some(new) => {
                let mut later = state.clone();
                later.late.push((part, new.clone()));
                vec![state.with(part, new), later]
            }
        });
    }

    /// A definite answer that changes nothing: `explains` says whether a state explains it.
    pub(crate) fn seen(&mut self, explains: impl Fn(&[P]) -> bool) {
        self.replace(|state| explains(&state.parts).then(|| state.clone()).into_iter().collect());
    }

    /// All that would happen later has happened, or never will.
    pub(crate) fn settled(&mut self) {
        self.replace(|state| vec![State { late: Vec::new(), ..state.clone() }]);
    }

    /// Whether a change of a part may still happen.
    pub(crate) fn has_late(&self, part: usize) -> bool {
        self.states.iter().any(|state| state.late.iter().any(|(of, _)| *of == part))
    }

    /// Whether something is so in every state.
    pub(crate) fn all(&mut self, is_so: impl Fn(&[P]) -> bool) -> bool {
        self.land();
        self.states.iter().all(|state| is_so(&state.parts))
    }

    /// The values of something in all states.
    pub(crate) fn each<T>(&mut self, value: impl Fn(&[P]) -> T) -> Vec<T> {
        self.land();
        self.states.iter().map(|state| value(&state.parts)).collect()
    }

    fn replace(&mut self, next: impl Fn(&State<P>) -> Vec<State<P>>) {
        self.land();
        let mut states: Vec<State<P>> = Vec::new();
        for state in self.states.iter().flat_map(next) {
            if !states.contains(&state) {
                states.push(state);
            }
        }
        if states.is_empty() {
            let explained = format!("{:?}", self.states);
            panic!("no state explains the answer: {}", explained.chars().take(2000).collect::<String>());
        }
        assert!(states.len() < 200, "too many states");
        self.states = states;
    }

    /// Adds the states in which some of the changes have happened by now that may happen later.
    fn land(&mut self) {
        let mut next = 0;
        while let Some(state) = self.states.get(next).cloned() {
            next += 1;
            for (part, new) in &state.late {
                let landed = state.with(*part, new.clone());
                if !self.states.contains(&landed) {
                    self.states.push(landed);
                }
            }
        }
    }
}
