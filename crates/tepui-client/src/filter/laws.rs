//! Filters printed and parsed: whatever literals they hold, they come back as they were.
//!
//! `TEPUI_TEST_SEED` replays a seed that was printed.

use super::{all, any, check, not, property};
use crate::key::KeyRange;
use crate::{Guid, Timestamp, Value};
use fastrand::Rng;
use tepui_model::table::Filter;
use tepui_wire::table::filter_text::{parse, print};

#[test]
fn filters_there_and_back() {
    let seed = std::env::var("TEPUI_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("TEPUI_TEST_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    for _ in 0..20_000 {
        let filter = filter(&mut rng, 3);
        check(&filter).unwrap();
        let printed = print(&filter);
        let parsed = parse(&printed).unwrap_or_else(|error| panic!("{error:?}: {printed}")).unwrap();
        assert_eq!(flat(parsed), flat(filter), "{printed}");
    }
}

/// A range as a filter means what the range does.
#[test]
fn ranges_there_and_back() {
    let mut rng = Rng::new();
    for _ in 0..5_000 {
        let mut ends = [text(&mut rng), text(&mut rng)];
        ends.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
        let [start, end] = ends;
        let range = KeyRange { start, end: rng.bool().then_some(end) };
        let filter = range.filter("RowKey");
        let parsed = parse(&print(&filter)).unwrap().unwrap();
        assert_eq!(flat(parsed), flat(filter));
    }
}

/// Nested ones of the same kind are one: parentheses around them have no meaning.
fn flat(filter: Filter) -> Filter {
    let join = |filters: Vec<Filter>, is_and: bool| {
        let mut joined = Vec::new();
        for filter in filters.into_iter().map(flat) {
            match filter {
                Filter::And(inner) if is_and => joined.extend(inner),
                Filter::Or(inner) if !is_and => joined.extend(inner),
                other => joined.push(other),
            }
        }
        joined
    };
    match filter {
        Filter::And(filters) => all(join(filters, true)),
        Filter::Or(filters) => any(join(filters, false)),
        Filter::Not(inner) => not(flat(*inner)),
        other => other,
    }
}

fn filter(rng: &mut Rng, depth: u32) -> Filter {
    let several =
        |rng: &mut Rng| -> Vec<_> { (0..rng.usize(1..4)).map(|_| filter(rng, depth - 1)).collect() };
    match rng.u8(0..if depth == 0 { 6 } else { 10 }) {
        6 => all(several(rng)),
        7 => any(several(rng)),
        8 => not(filter(rng, depth - 1)),
        _ => {
            let property = property(["PartitionKey", "RowKey", "Age", "_x1", "Größe"][rng.usize(0..5)]);
            let value = value(rng);
            match rng.u8(0..6) {
                0 => property.eq(value),
                1 => property.ne(value),
                2 => property.gt(value),
                3 => property.ge(value),
                4 => property.lt(value),
                _ => property.le(value),
            }
        }
    }
}

fn value(rng: &mut Rng) -> Value {
    match rng.u8(0..8) {
        0 => Value::Int32(rng.i32(..)),
        1 => Value::Int64(rng.i64(..)),
        2 => {
            let number = f64::from_bits(rng.u64(..));
            Value::Double(if number.is_finite() { number } else { 0.5 })
        }
        3 => Value::Boolean(rng.bool()),
        4 => Value::DateTime(Timestamp::from_ticks(rng.u64(0..=Timestamp::MAX.ticks())).unwrap()),
        5 => Value::Guid(Guid(rng.u128(..).to_be_bytes())),
        6 => Value::Binary((0..rng.usize(0..9)).map(|_| rng.u8(..)).collect()),
        _ => Value::String(text(rng)),
    }
}

/// Mostly what has a meaning in the syntax.
fn text(rng: &mut Rng) -> String {
    const PARTS: [&str; 12] = ["'", "''", " or ", "true", "(", ")", "%27", "\\", "é", "😀", "guid'", "\u{1}"];
    (0..rng.usize(0..5))
        .map(
            |_| {
                if rng.bool() {
                    PARTS[rng.usize(0..PARTS.len())].to_owned()
                } else {
                    rng.char(..).to_string()
                }
            },
        )
        .collect()
}
