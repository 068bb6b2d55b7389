//! Makes new inputs of old ones: a few small changes at a time.

use crate::random::Random;
use std::ops::Range;

/// The longest input, save for the rare ones that are blown up.
pub const USUAL_BYTES: usize = 64 * 1024;
/// How rare those are.
const BLOWN_UP_ONE_IN: usize = 4096;
/// Bytes at which parsers turn, for every target.
const TURNING_POINTS: &[u8] = b"\0\t\n\r \"#$%&'()*+,-./09:;<=>?@AZ[\\]_az{|}~\x7F\x80\xBF\xC2\xED\xEF\xFF";

/// An input made of one of the seeds. `max_bytes`: how long a blown-up one may be.
pub fn mutated(random: &mut Random, seeds: &[Vec<u8>], words: &[&str], max_bytes: usize) -> Vec<u8> {
    let mut input = random.pick(seeds).cloned().unwrap_or_default();
    // Most have one or two changes: more rarely leave anything that can be read.
    let changes = 1 + (random.number() | 1 << 5).trailing_zeros();
    for _ in 0..changes {
        change(random, &mut input, seeds, words);
    }
    input.truncate(USUAL_BYTES);
    if random.one_in(BLOWN_UP_ONE_IN) {
        blow_up(random, &mut input, max_bytes);
    }
    input
}

fn change(random: &mut Random, input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
    let at = random.below(input.len() + 1);
    match random.below(12) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.byte();
            }
        }
        2 | 3 => {
            let byte = random.pick(TURNING_POINTS).copied().unwrap_or_default();
            match input.get_mut(at).filter(|_| random.one_in(2)) {
                Some(old) => *old = byte,
                None => input.insert(at, byte),
            }
        }
        4 | 5 => {
            let word = random.pick(words).copied().unwrap_or_default().as_bytes();
            let replaced = if random.one_in(2) { 0 } else { word.len().min(input.len() - at) };
            input.splice(at..at + replaced, word.iter().copied());
        }
        6 | 7 => {
            let range = chunk(random, input.len());
            input.drain(range);
        }
        8 => {
            let copy = input[chunk(random, input.len())].to_vec();
            input.splice(at..at, copy);
        }
        9 => {
            // Over and over: what has a limit has one for this.
            let piece = input[chunk(random, input.len())].to_vec();
            let count = 1 << random.below(9);
            if piece.len() * count + input.len() <= USUAL_BYTES {
                input.splice(at..at, piece.repeat(count));
            }
        }
        10 => {
            let other = random.pick(seeds).cloned().unwrap_or_default();
            let from = random.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => {
            let other = random.pick(seeds).cloned().unwrap_or_default();
            let piece = other[chunk(random, other.len())].to_vec();
            input.splice(at..at, piece);
        }
    }
}

/// Repeats a piece until the input is as long as the server would take: shows what is more than linear.
fn blow_up(random: &mut Random, input: &mut Vec<u8>, max_bytes: usize) {
    let range = chunk(random, input.len());
    let piece = input[range.clone()].to_vec();
    if !piece.is_empty() && input.len() < max_bytes {
        let count = (max_bytes - input.len()) / piece.len();
        input.splice(range.end..range.end, piece.repeat(count));
    }
}

/// A part of an input, more often a short one.
fn chunk(random: &mut Random, length: usize) -> Range<usize> {
    let start = random.below(length + 1);
    let longest = if random.one_in(4) { length - start } else { (length - start).min(16) };
    start..start + random.below(longest + 1)
}

/// A smaller input that still fails, found by leaving out pieces as long as `fails` says so.
pub fn shrunk(input: &[u8], mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut best = input.to_vec();
    let mut piece = (best.len() / 2).max(1);
    loop {
        let mut at = 0;
        while at < best.len() {
            let end = (at + piece).min(best.len());
            let without = [&best[..at], &best[end..]].concat();
            if fails(&without) {
                best = without;
            } else {
                at = end;
            }
        }
        if piece == 1 {
            return best;
        }
        piece /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs() {
        let seeds = [b"A eq 1".to_vec(), b"not (B)".to_vec(), Vec::new()];
        let inputs = |seed| {
            let mut random = Random::new(seed, "filter");
            (0..500).map(|_| mutated(&mut random, &seeds, &["and"], 1 << 20)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(3).iter().all(|input| input.len() <= 1 << 20));
    }

    #[test]
    fn what_does_not_matter_is_left_out() {
        let fails = |input: &[u8]| input.contains(&b'x') && input.contains(&b'y');
        assert_eq!(shrunk(b"a long text with x and, later, y in it", fails), b"xy");
    }
}
