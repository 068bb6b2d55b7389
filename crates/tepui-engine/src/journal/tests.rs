//! Journals made by hand, damaged in every way that should be told apart.

use super::*;

fn made(number: u64, value: &[u8]) -> Vec<u8> {
    let mut items = vec![ITEM, 0, 0];
    items.extend(1u64.to_le_bytes());
    items.extend(3u16.to_le_bytes());
    items.extend((value.len() as u32).to_le_bytes());
    items.extend((value.len() as u32).to_le_bytes());
    items.extend(b"key");
    items.extend(value);
    let mut bytes = vec![START];
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.extend(&items);
    bytes.push(END);
    bytes.extend(xxh3_64(&items).to_le_bytes());
    bytes.extend(MAGIC);
    bytes
}

fn trimmed(mut bytes: Vec<u8>) -> Vec<u8> {
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}

fn run(bytes: &[u8], is_last: bool) -> Result<usize, &'static str> {
    check(bytes, &mut None, is_last)
}

#[test]
fn whole_batches_are_accepted() {
    let journal = [made(1, b"one"), made(2, &[0; 5000]), made(9, b"")].concat();
    assert_eq!(run(&journal, true), Ok(journal.len()));
    assert_eq!(run(&journal, false), Ok(journal.len()));
    assert_eq!(run(&[], true), Ok(0));
}

#[test]
fn a_batch_that_a_kill_interrupted_is_cut_at_every_length() {
    let first = made(1, b"one");
    let second = made(2, &[7; 300]);
    for length in 0..second.len() {
        let journal = trimmed([&first[..], &second[..length]].concat());
        assert_eq!(run(&journal, true), Ok(first.len()), "{length} bytes of it");
        if length > 0 {
            assert!(run(&journal, false).is_err(), "a sealed journal has no unfinished batch: {length}");
        }
    }
}

#[test]
fn every_flipped_bit_before_the_last_batch_is_found() {
    let journal = [made(1, b"first"), made(2, &[7; 40]), made(3, b"last")].concat();
    let last = journal.len() - made(3, b"last").len();
    for index in 0..last {
        for bit in 0..8 {
            let mut damaged = journal.clone();
            damaged[index] ^= 1 << bit;
            let start = made(1, b"first").len();
            // The sequence number itself has no checksum: what counts is that the order holds.
            let number = (5..13).contains(&index) || (start + 5..start + 13).contains(&index);
            if !number {
                assert!(run(&damaged, true).is_err(), "byte {index}, bit {bit}");
            }
        }
    }
}

#[test]
fn a_flipped_bit_in_the_last_batch_is_not_mistaken_for_an_unfinished_one() {
    let first = made(1, b"first");
    let journal = [&first[..], &made(2, &[7; 40])].concat();
    for index in
        (first.len()..journal.len()).filter(|index| !(first.len() + 5..first.len() + 13).contains(index))
    {
        for bit in 0..8 {
            let mut damaged = journal.clone();
            damaged[index] ^= 1 << bit;
            assert!(run(&trimmed(damaged), true).is_err(), "byte {index}, bit {bit}");
        }
    }
}

#[test]
fn pages_that_a_power_cut_lost_are_told_from_damage() {
    let first = made(1, &[1; 100]);
    let journal = [&first[..], &made(2, &[7; 5 * PAGE])].concat();
    for page in 0..5 {
        let mut torn = journal.clone();
        let from = (page * PAGE).max(first.len());
        torn[from..(page + 1) * PAGE].fill(0);
        assert_eq!(run(&torn, true), Ok(first.len()), "page {page}");
        assert!(run(&torn, false).is_err(), "page {page}");
        let followed = [torn, made(3, b"later")].concat();
        assert!(run(&followed, true).is_err(), "a later batch was acknowledged after page {page}");
    }
}

#[test]
fn order_matters() {
    assert!(run(&[made(2, b""), made(1, b"")].concat(), true).is_err());
    assert!(run(&[made(2, b""), made(2, b"")].concat(), true).is_err());
    assert!(run(&[made(2, b""), made(2 + MAX_LEAP, b"")].concat(), true).is_err());
}
