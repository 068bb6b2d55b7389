//! The text of `$filter`.

use crate::checks::refused;
use crate::material::NOW;
use std::sync::LazyLock;
use tepui_model::table::{Entity, EntityKey, Filter, Guid, PropertiesBuilder, ValueRef};
use tepui_wire::table::filter_text::{parse, print};

pub(super) const WORDS: &[&str] = &[
    " and ",
    " or ",
    "not ",
    "(",
    ")",
    " eq ",
    " ne ",
    " gt ",
    " ge ",
    " lt ",
    " le ",
    ",",
    "'",
    "''",
    "null",
    "true",
    "False",
    "NaN",
    "INF",
    "-INF",
    "-",
    "1",
    "2147483648",
    "9223372036854775807",
    "5L",
    "1.5",
    "1e5d",
    "1E+20",
    ".",
    "e",
    "datetime'2026-03-10T08:15:30Z'",
    "guid'8c1bac20-4ed1-4f3b-9a0e-0123456789ab'",
    "X'00ff'",
    "binary'",
    " add ",
    "mod",
    "startswith(",
    "PartitionKey",
    "RowKey",
    "Timestamp",
    "A",
    "\u{E4}",
    "\u{1F600}",
    "\u{301}",
    "\t",
];

const MAX_BYTES: usize = 32 * 1024;
/// Printing writes each negation with parentheses: twice as deep as the text it came from.
const SURELY_PRINTABLE: usize = 48;
/// A hundred parentheses with an `or`, an `and` and a `not` in each.
const MAX_DEPTH: usize = 400;

static ENTITY: LazyLock<Entity> = LazyLock::new(|| {
    let mut builder = PropertiesBuilder::new();
    for (name, value) in [
        ("A", ValueRef::Int32(1)),
        ("B", ValueRef::Boolean(true)),
        ("D", ValueRef::Double(f64::NAN)),
        ("G", ValueRef::Guid(Guid([7; 16]))),
        ("S", ValueRef::string("text")),
    ] {
        builder.push(name, value).expect("good properties");
    }
    Entity { key: EntityKey::new("p", "r"), timestamp: *NOW, properties: builder.finish() }
});

/// A filter is the same once printed and read again, and matches the same.
pub fn filter(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let filter = match parse(text) {
        Ok(Some(filter)) => filter,
        Ok(None) => return assert!(text.trim().is_empty()),
        Err(error) => return refused(&error),
    };
    assert!(text.len() <= MAX_BYTES);
    let depth = depth(&filter);
    assert!(depth <= MAX_DEPTH, "{depth} deep");
    let matches = filter.matches(&ENTITY.view());
    let printed = print(&filter);
    match parse(&printed) {
        Ok(Some(again)) => {
            // As text, because NaN does not equal itself.
            assert_eq!(format!("{again:?}"), format!("{filter:?}"), "{printed}");
            assert_eq!(again.matches(&ENTITY.view()), matches, "{printed}");
        }
        other => assert!(printed.len() > MAX_BYTES || depth > SURELY_PRINTABLE, "{other:?}: {printed}"),
    }
}

fn depth(filter: &Filter) -> usize {
    match filter {
        Filter::And(inner) | Filter::Or(inner) => 1 + inner.iter().map(depth).max().unwrap_or(0),
        Filter::Not(inner) => 1 + depth(inner),
        Filter::Constant(_) | Filter::IsTrue(_) | Filter::Compare { .. } => 0,
    }
}
