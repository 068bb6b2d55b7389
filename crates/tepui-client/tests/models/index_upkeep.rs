//! An index in another partition, kept up by messages of a queue: two authors change the same entity, two workers
//! bring the copies that the index consists of up to date.
//!
//! An author reads the entity, puts a message with the keys of the copies concerned, old and new, and then commits its change, if
//! the entity is still the one it read. A worker takes a message, reads the entity, makes each copy what the entity says,
//! and deletes the message. Every request is a step of its own. Authors and workers may crash before any of them, and the
//! lease of a message may run out while its worker goes on.
//!
//! What the recipe lacks is added part by part, to see that no part can be left out:
//! - The worker reads the entity again, until it has not changed.
//! - A marker, committed with the change, tells that the author came to it. A worker that finds none writes one that
//!   says "aborted", after which the author cannot commit any more.
//! - Copies are written only over the version that was read, and what was a copy becomes a tombstone. Both carry the
//!   version of the entity they were made from, and never replace those of a later one.

use crate::explorer::{Exploration, Model, explore};

/// Which parts of the protocol are in use.
#[derive(Debug, Clone, Copy)]
struct Protocol {
    reads_again: bool,
    has_markers: bool,
    has_conditions: bool,
    has_tombstones: bool,
}

/// What the guide's recipe says, used for an index.
const RECIPE: Protocol =
    Protocol { reads_again: false, has_markers: false, has_conditions: false, has_tombstones: false };
const READS_AGAIN: Protocol = Protocol { reads_again: true, ..RECIPE };
const WITHOUT_TOMBSTONES: Protocol = Protocol { has_markers: true, has_conditions: true, ..READS_AGAIN };
/// What the client does.
const WHOLE: Protocol = Protocol { has_tombstones: true, ..WITHOUT_TOMBSTONES };

const ACTORS: usize = 2;
/// How many values the indexed property can have.
const KEYS: usize = 3;

/// What the indexed property becomes, which is also the key of the copy. `None`: the entity is deleted; a row stays to
/// carry its version.
type Email = Option<u8>;
const A: Email = Some(0);
const B: Email = Some(1);
const C: Email = Some(2);

struct IndexUpkeep {
    protocol: Protocol,
    /// What each author wants the property to be.
    authors: [Email; ACTORS],
    crashes: u8,
    expired_leases: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    entity: Entity,
    copies: [Option<Copy>; KEYS],
    /// By author.
    markers: [Option<Marker>; ACTORS],
    /// In the order in which they were put.
    messages: [Option<Message>; ACTORS],
    authors: [Author; ACTORS],
    workers: [Worker; ACTORS],
    crashes_left: u8,
    leases_left: u8,
    next_etag: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Entity {
    version: u8,
    email: Email,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Copy {
    is_tombstone: bool,
    /// Of the entity that it was made from.
    version: u8,
    etag: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Marker {
    Committed,
    Aborted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Message {
    author: usize,
    /// The keys of copies to look at, in order.
    keys: [Option<u8>; 2],
    lease: Lease,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Lease {
    Visible,
    HeldBy(usize),
    Deleted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Author {
    Read,
    PutMessage(Entity),
    Commit(Entity),
    Gone,
}

/// What a worker does next. The first number is that of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Worker {
    GetMessage,
    CheckMarker(usize),
    ReadEntity(usize),
    /// The copy of the key of this number, for the entity that was read.
    ReadCopy(usize, Entity, usize),
    /// As before, with the ETag of the copy; 0 if there is none.
    WriteCopy(usize, Entity, usize, u8),
    ReadAgain(usize, Entity),
    DeleteMarker(usize),
    DeleteMessage(usize),
}

impl Worker {
    fn message(self) -> Option<usize> {
        match self {
            Self::GetMessage => None,
            Self::CheckMarker(message)
            | Self::ReadEntity(message)
            | Self::ReadCopy(message, ..)
            | Self::WriteCopy(message, ..)
            | Self::ReadAgain(message, _)
            | Self::DeleteMarker(message)
            | Self::DeleteMessage(message) => Some(message),
        }
    }
}

impl Model for IndexUpkeep {
    type State = State;

    fn start(&self) -> State {
        let entity = Entity { version: 1, email: A };
        let copy = Copy { is_tombstone: false, version: 1, etag: 1 };
        State {
            entity,
            copies: [Some(copy), None, None],
            markers: [None; ACTORS],
            messages: [None; ACTORS],
            authors: [Author::Read; ACTORS],
            workers: [Worker::GetMessage; ACTORS],
            crashes_left: self.crashes,
            leases_left: self.expired_leases,
            next_etag: 2,
        }
    }

    fn steps(&self, state: &State, next: &mut Vec<State>) {
        for author in 0..ACTORS {
            self.step_author(state, author, next);
        }
        for worker in 0..ACTORS {
            self.step_worker(state, worker, next);
        }
    }

    /// There is one copy, that of the entity as it is, or none if it was deleted.
    fn is_right(&self, last: &State) -> bool {
        (0..KEYS).all(|key| {
            let copy = last.copies[key].filter(|copy| !copy.is_tombstone);
            let is_wanted = last.entity.email.is_some_and(|email| usize::from(email) == key);
            copy.map(|copy| copy.version) == is_wanted.then_some(last.entity.version)
        })
    }
}

impl IndexUpkeep {
    fn step_author(&self, state: &State, author: usize, next: &mut Vec<State>) {
        if state.authors[author] == Author::Gone {
            return;
        }
        if state.crashes_left > 0 {
            let mut crashed = *state;
            crashed.crashes_left -= 1;
            crashed.authors[author] = Author::Gone;
            next.push(crashed);
        }
        let mut after = *state;
        after.authors[author] = match state.authors[author] {
            Author::Read => Author::PutMessage(state.entity),
            Author::PutMessage(seen) => {
                let free = after.messages.iter_mut().find(|message| message.is_none());
                *free.expect("each author puts one message") = Some(Message {
                    author,
                    keys: keys_of(seen.email, self.authors[author]),
                    lease: Lease::Visible,
                });
                Author::Commit(seen)
            }
            Author::Commit(seen) => {
                // The marker is inserted in the transaction of the change, which fails if there is one.
                if state.entity.version == seen.version && state.markers[author].is_none() {
                    after.entity = Entity { version: seen.version + 1, email: self.authors[author] };
                    after.markers[author] = self.protocol.has_markers.then_some(Marker::Committed);
                }
                Author::Gone
            }
            Author::Gone => Author::Gone,
        };
        next.push(after);
    }

    fn step_worker(&self, state: &State, worker: usize, next: &mut Vec<State>) {
        let doing = state.workers[worker];
        let Some(index) = doing.message() else {
            self.get_message(state, worker, next);
            return;
        };
        let message = state.messages[index].expect("a worker's message was put");
        let holds_lease = message.lease == Lease::HeldBy(worker);
        let release = |state: &mut State, lease: Lease| {
            if holds_lease {
                state.messages[index] = Some(Message { lease, ..message });
            }
        };
        if state.crashes_left > 0 {
            let mut crashed = *state;
            crashed.crashes_left -= 1;
            crashed.workers[worker] = Worker::GetMessage;
            release(&mut crashed, Lease::Visible);
            next.push(crashed);
        }
        if state.leases_left > 0 && holds_lease {
            let mut expired = *state;
            expired.leases_left -= 1;
            release(&mut expired, Lease::Visible);
            next.push(expired);
        }
        let mut after = *state;
        after.workers[worker] = match doing {
            Worker::GetMessage => doing,
            Worker::CheckMarker(_) => match state.markers[message.author] {
                None => {
                    after.markers[message.author] = Some(Marker::Aborted);
                    Worker::DeleteMessage(index)
                }
                Some(Marker::Aborted) => Worker::DeleteMessage(index),
                Some(Marker::Committed) => Worker::ReadEntity(index),
            },
            Worker::ReadEntity(_) => Worker::ReadCopy(index, state.entity, 0),
            Worker::ReadCopy(_, seen, number) => match message.keys.get(number).copied().flatten() {
                Some(key) => {
                    let etag = state.copies[usize::from(key)].map_or(0, |copy| copy.etag);
                    Worker::WriteCopy(index, seen, number, etag)
                }
                None => Worker::ReadAgain(index, seen),
            },
            Worker::WriteCopy(_, seen, number, etag) => {
                let key = message.keys[number].expect("a key that was read");
                if self.write_copy(&mut after, key, seen, etag) {
                    Worker::ReadCopy(index, seen, number + 1)
                } else {
                    Worker::ReadEntity(index)
                }
            }
            Worker::ReadAgain(_, seen)
                if self.protocol.reads_again && seen.version != state.entity.version =>
            {
                Worker::ReadEntity(index)
            }
            Worker::ReadAgain(..) if !self.protocol.reads_again => Worker::DeleteMessage(index),
            Worker::ReadAgain(..) => Worker::DeleteMarker(index),
            Worker::DeleteMarker(_) => {
                after.markers[message.author] = None;
                Worker::DeleteMessage(index)
            }
            Worker::DeleteMessage(_) => {
                // Only with the receipt of the lease that is in force.
                release(&mut after, Lease::Deleted);
                Worker::GetMessage
            }
        };
        next.push(after);
    }

    fn get_message(&self, state: &State, worker: usize, next: &mut Vec<State>) {
        for (index, message) in state.messages.iter().enumerate() {
            if let Some(message) = message
                && message.lease == Lease::Visible
            {
                let mut after = *state;
                after.messages[index] = Some(Message { lease: Lease::HeldBy(worker), ..*message });
                after.workers[worker] = if self.protocol.has_markers {
                    Worker::CheckMarker(index)
                } else {
                    Worker::ReadEntity(index)
                };
                next.push(after);
            }
        }
    }

    /// Makes a copy what the entity says. `false`: not this time, the entity has to be read again.
    fn write_copy(&self, state: &mut State, key: u8, seen: Entity, etag: u8) -> bool {
        let copy = &mut state.copies[usize::from(key)];
        let is_wanted = seen.email == Some(key);
        if self.protocol.has_conditions && copy.map_or(0, |copy| copy.etag) != etag {
            return false;
        }
        if self.protocol.has_tombstones && copy.is_some_and(|copy| copy.version > seen.version) {
            return false;
        }
        let is_tombstone = !is_wanted;
        let is_same =
            copy.is_some_and(|copy| copy.version == seen.version && copy.is_tombstone == is_tombstone);
        if !is_wanted && !self.protocol.has_tombstones {
            *copy = None;
        } else if !is_same {
            *copy = Some(Copy { is_tombstone, version: seen.version, etag: state.next_etag });
            state.next_etag += 1;
        }
        true
    }
}

/// The keys of two values, each once and in order.
fn keys_of(old: Email, new: Email) -> [Option<u8>; 2] {
    match (old, new) {
        (Some(old), Some(new)) if old != new => [Some(old.min(new)), Some(old.max(new))],
        (old, new) => [old.or(new), None],
    }
}

struct Case {
    name: &'static str,
    model: IndexUpkeep,
    /// States, final states, wrong final states.
    expected: (usize, usize, usize),
}

fn check(cases: impl IntoIterator<Item = Case>) {
    for Case { name, model, expected } in cases {
        let Exploration { states, finals, wrong, example } = explore(&model);
        println!("{name}: {states} states, {finals} final, {wrong} wrong");
        let way = || example.iter().map(|state| format!("{state:?}\n")).collect::<String>();
        assert_eq!((states, finals, wrong), expected, "{name}, for example:\n{}", way());
    }
}

fn model(protocol: Protocol, authors: [Email; ACTORS], crashes: u8, expired_leases: u8) -> IndexUpkeep {
    IndexUpkeep { protocol, authors, crashes, expired_leases }
}

#[test]
fn the_recipe_and_parts_of_the_protocol_are_wrong() {
    check([
        Case {
            name: "the recipe, without any failure",
            model: model(RECIPE, [B, C], 0, 0),
            expected: (10_546, 42, 33),
        },
        Case {
            name: "reads again until nothing has changed, without any failure",
            model: model(READS_AGAIN, [B, C], 0, 0),
            expected: (18_208, 44, 22),
        },
        Case {
            name: "markers and conditions, but no tombstones; a lease expires, one crash",
            model: model(WITHOUT_TOMBSTONES, [B, C], 1, 1),
            expected: (155_491, 157, 12),
        },
    ]);
}

#[test]
fn the_whole_protocol_is_right() {
    check([
        Case { name: "two crashes", model: model(WHOLE, [B, C], 2, 0), expected: (57_951, 291, 0) },
        Case {
            name: "one author deletes; a lease expires, one crash",
            model: model(WHOLE, [None, B], 1, 1),
            expected: (137_235, 212, 0),
        },
        Case {
            name: "the key stays, other properties change; a lease expires, one crash",
            model: model(WHOLE, [A, A], 1, 1),
            expected: (68_324, 84, 0),
        },
    ]);
}

#[test]
fn the_whole_protocol_is_right_with_a_lease_and_two_crashes() {
    check([Case {
        name: "a lease expires, two crashes",
        model: model(WHOLE, [B, C], 2, 1),
        expected: (707_969, 726, 0),
    }]);
}

#[test]
fn the_whole_protocol_is_right_with_two_leases_and_a_crash() {
    check([Case {
        name: "two leases expire, one crash",
        model: model(WHOLE, [B, C], 1, 2),
        expected: (848_645, 716, 0),
    }]);
}

/// Deeper, with `TEPUI_TEST_LARGE=1`.
#[test]
fn the_whole_protocol_is_right_with_more_failures() {
    if std::env::var("TEPUI_TEST_LARGE").is_ok_and(|large| large == "1") {
        check([
            Case {
                name: "one author deletes; two leases expire, two crashes",
                model: model(WHOLE, [None, B], 2, 2),
                expected: (788_807, 600, 0),
            },
            Case {
                name: "two authors delete; two leases expire, two crashes",
                model: model(WHOLE, [None, None], 2, 2),
                expected: (333_567, 325, 0),
            },
            Case {
                name: "the key stays, other properties change; two leases expire, two crashes",
                model: model(WHOLE, [A, A], 2, 2),
                expected: (320_789, 229, 0),
            },
        ]);
    }
}
