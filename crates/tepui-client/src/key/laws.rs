//! The laws of key parts, on random pairs of values: order in UTF-16, inverse, allowed characters, prefixes.
//!
//! Pairs are often equal but for their ends, because that is where orders go wrong. `TEPUI_TEST_SEED` replays a seed that was
//! printed.

use super::{Buckets, KeyError, KeyRange, KeyReader, KeyWriter, Until};
use fastrand::Rng;
use std::cmp::Ordering;
use std::fmt::Debug;
use tepui_model::Timestamp;
use tepui_model::table::entity::is_key_character;

/// For each law.
const PAIRS: usize = 1_000_000;

#[test]
fn padded_numbers() {
    let write = |value: &u64| KeyWriter::new().padded(*value, 20);
    check(whole_number, u64::cmp, write, |reader| reader.padded(20));
}

#[test]
fn numbers_are_padded_right_or_refused() {
    let mut rng = rng();
    for _ in 0..PAIRS {
        let (value, digits) = (whole_number(&mut rng), rng.usize(0..=21));
        let key = KeyWriter::new().padded(value, digits).finish();
        if value.to_string().len() <= digits {
            assert_eq!(KeyReader::new(&key.unwrap()).padded(digits), Ok(value));
        } else {
            assert_eq!(key, Err(KeyError::TooManyDigits { value, digits }));
        }
    }
}

#[test]
fn signed_numbers() {
    let values = |rng: &mut Rng| whole_number(rng).cast_signed().wrapping_mul([1, -1][rng.usize(0..2)]);
    check(values, i64::cmp, |value| KeyWriter::new().signed(*value), |reader| reader.signed());
}

#[test]
fn floats() {
    let compare = |a: &f64, b: &f64| a.partial_cmp(b).unwrap();
    check(float, compare, |value| KeyWriter::new().float(*value), |reader| reader.float());
}

#[test]
fn times() {
    let (ascending, descending) =
        (|at: &Timestamp| KeyWriter::new().ascending(*at), |at: &Timestamp| KeyWriter::new().descending(*at));
    check(time, Timestamp::cmp, ascending, |reader| reader.ascending());
    check(time, |a, b| b.cmp(a), descending, |reader| reader.descending());
}

#[test]
fn ordered_texts() {
    let write = |value: &String| KeyWriter::new().ordered(value);
    check(text, |a, b| utf16(a, b), write, |reader| reader.ordered());
}

#[test]
fn tuples_of_ordered_texts() {
    check(
        |rng| (text(rng), text(rng)),
        |a, b| utf16(&a.0, &b.0).then_with(|| utf16(&a.1, &b.1)),
        |(a, b)| KeyWriter::new().ordered(a).literal(" ").ordered(b),
        |reader| {
            let first = reader.ordered()?;
            reader.literal(" ")?;
            Ok((first, reader.ordered()?))
        },
    );
}

/// Numbers and times have a fixed length, so whatever follows keeps the order; ordered text ends at a blank.
#[test]
fn tuples_of_different_parts() {
    check(
        |rng| (whole_number(rng) % 100, text(rng), time(rng)),
        |a, b| a.0.cmp(&b.0).then_with(|| utf16(&a.1, &b.1)).then_with(|| b.2.cmp(&a.2)),
        |(number, text, at)| {
            KeyWriter::new().padded(*number, 2).literal("_").ordered(text).literal(" ").descending(*at)
        },
        |reader| {
            let number = reader.padded(2)?;
            reader.literal("_")?;
            let text = reader.ordered()?;
            reader.literal(" ")?;
            Ok((number, text, reader.descending()?))
        },
    );
}

/// Plain text and buckets do not sort, but no two tuples share a key.
#[test]
fn plain_texts_are_unique() {
    let mut rng = rng();
    let buckets = Buckets::new(16).unwrap();
    let plain = |rng: &mut Rng| -> String { text(rng).chars().filter(|c| is_key_character(*c)).collect() };
    for _ in 0..PAIRS {
        let tuple = (plain(&mut rng).replace('_', "-"), plain(&mut rng));
        let key = KeyWriter::new()
            .bucket(&tuple.1, buckets)
            .plain(&tuple.0, Until::Separator('_'))
            .literal("_")
            .plain(&tuple.1, Until::End)
            .finish()
            .unwrap();
        let mut reader = KeyReader::new(&key);
        reader.bucket(buckets).unwrap();
        let first = reader.plain(Until::Separator('_')).unwrap();
        reader.literal("_").unwrap();
        assert_eq!((first, reader.plain(Until::End).unwrap()), tuple, "{key:?}");
    }
}

/// A range of a prefix holds exactly the keys that begin with it, and its end is the first key that does not.
#[test]
fn ranges_of_prefixes() {
    let mut rng = rng();
    let key = |rng: &mut Rng| -> String { text(rng).chars().filter(|c| is_key_character(*c)).collect() };
    for _ in 0..PAIRS {
        let (prefix, other) = (key(&mut rng), key(&mut rng));
        let range = KeyRange::prefix(prefix.as_str());
        for key in [other.clone(), format!("{prefix}{other}"), prefix.clone(), near(&mut rng, &prefix)] {
            if key.chars().all(is_key_character) {
                assert_eq!(range.contains(&key), key.starts_with(&prefix), "{prefix:?} {key:?}");
            }
        }
        if let Some(end) = range.end {
            assert!(end.chars().all(is_key_character), "{prefix:?}");
            assert!(!end.starts_with(&prefix), "{prefix:?}");
        }
    }
}

/// The prefix of an escaped text is the escaped prefix, so that ordered parts can be asked for by prefix.
#[test]
fn prefixes_of_ordered_texts() {
    let mut rng = rng();
    let write = |text: &str| KeyWriter::new().ordered(text).finish().unwrap();
    for _ in 0..PAIRS {
        let (prefix, other) = (text(&mut rng), text(&mut rng));
        let range = KeyRange::prefix(write(&prefix));
        for text in [other.clone(), format!("{prefix}{other}"), near(&mut rng, &prefix)] {
            assert_eq!(range.contains(&write(&text)), text.starts_with(&prefix), "{prefix:?} {text:?}");
        }
    }
}

/// Writes pairs of values and compares: keys sort as the values do, are equal only for equal ones, can be read back
/// and hold only what keys may.
fn check<T: PartialEq + Debug>(
    value: impl Fn(&mut Rng) -> T,
    compare: impl Fn(&T, &T) -> Ordering,
    write: impl Fn(&T) -> KeyWriter,
    read: impl Fn(&mut KeyReader<'_>) -> Result<T, KeyError>,
) {
    let mut rng = rng();
    let key = |value: &T| write(value).finish().unwrap();
    let mut before = value(&mut rng);
    let mut key_before = key(&before);
    // Each value makes a pair with the one before it.
    for _ in 0..PAIRS {
        let now = value(&mut rng);
        let key_now = key(&now);
        assert_eq!(utf16(&key_before, &key_now), compare(&before, &now), "{before:?} {now:?}");
        assert!(key_now.chars().all(is_key_character), "{now:?}: {key_now:?}");
        let mut reader = KeyReader::new(&key_now);
        assert_eq!(read(&mut reader).as_ref(), Ok(&now), "{key_now:?}");
        assert_eq!(reader.end(), Ok(()), "{key_now:?}");
        (before, key_before) = (now, key_now);
    }
}

fn rng() -> Rng {
    let seed = std::env::var("TEPUI_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("TEPUI_TEST_SEED={seed}");
    Rng::with_seed(seed)
}

/// The definition of the order, not the function that the code uses.
fn utf16(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

/// Of all magnitudes.
fn whole_number(rng: &mut Rng) -> u64 {
    match rng.u8(0..16) {
        0 => 0,
        1 => u64::MAX,
        2 => 10u64.pow(rng.u32(0..20)) - rng.u64(0..2),
        _ => rng.u64(..) >> rng.u32(0..64),
    }
}

fn float(rng: &mut Rng) -> f64 {
    let special =
        [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 5e-324, -5e-324, 1.0, -1.0];
    let value = match rng.u8(0..8) {
        0 => special[rng.usize(0..special.len())],
        1 | 2 => whole_number(rng) as f64 - whole_number(rng) as f64,
        _ => f64::from_bits(rng.u64(..)),
    };
    if value.is_nan() { 0.5 } else { value }
}

fn time(rng: &mut Rng) -> Timestamp {
    let ticks = Timestamp::MAX.ticks();
    let near = [Timestamp::UNIX_EPOCH.ticks(), ticks - 10, 0][rng.usize(0..3)];
    let ticks = if rng.bool() { rng.u64(0..=ticks) } else { (near + rng.u64(0..10)).min(ticks) };
    Timestamp::from_ticks(ticks).unwrap()
}

/// Short, and mostly of the characters that are escaped, their neighbours, and the ends of UTF-16's ranges.
fn text(rng: &mut Rng) -> String {
    (0..rng.usize(0..5)).map(|_| character(rng)).collect()
}

fn character(rng: &mut Rng) -> char {
    const ENDS: [char; 9] =
        ['é', '\u{D7FF}', '\u{E000}', '\u{FFFF}', '\u{FFFE}', '\u{10000}', '\u{10FFFF}', '😀', '大'];
    match rng.u8(0..8) {
        0..=3 => char::from(rng.u8(0..=0xA1)),
        4..=5 => [' ', '!', '0', 'X', '.', '/', '~', '_'][rng.usize(0..8)],
        6 => ENDS[rng.usize(0..ENDS.len())],
        _ => rng.char(..),
    }
}

/// A text that shares all but its end.
fn near(rng: &mut Rng, text: &str) -> String {
    let mut near = text.to_owned();
    near.pop();
    near.push(character(rng));
    if rng.bool() {
        near.push(character(rng));
    }
    near
}
