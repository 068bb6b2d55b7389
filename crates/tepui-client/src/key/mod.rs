//! Keys made of typed parts: PartitionKey and RowKey are texts, and their order is all the index that a table has.
//!
//! A [`KeyWriter`] puts parts together, and a [`KeyReader`] takes them apart again. For each kind of part holds:
//! reading is the inverse of writing, what is written holds only characters that keys may have, and, except for plain
//! text and prefixes that spread load, keys sort as the values do. The Table service compares UTF-16 code units, so that is the order meant.
//!
//! | part | written as | order | file |
//! |---|---|---|---|
//! | [`padded`](KeyWriter::padded) | decimal digits, refused if it has more | yes | `number.rs` |
//! | [`signed`](KeyWriter::signed), [`float`](KeyWriter::float) | 16 hexadecimal digits | yes | `number.rs` |
//! | [`ascending`](KeyWriter::ascending), [`descending`](KeyWriter::descending) | 19 digits of ticks, or of the ticks left | yes; newest first | `time.rs` |
//! | [`plain`](KeyWriter::plain) | as it is; refused if it holds the separator | no | `text.rs` |
//! | [`ordered`](KeyWriter::ordered) | any text, escaped; ends at a blank | yes | `text.rs` |
//! | [`bucket`](KeyWriter::bucket), [`seconds`](KeyWriter::seconds) | a few digits that spread load | no | `spread.rs` |
//!
//! ```
//! use tepui_client::key::{KeyRange, KeyReader, KeyWriter};
//!
//! // The review of employee 123 in 2012, as the compound key pattern has it.
//! let key = KeyWriter::new().literal("empid_").padded(123, 6).literal("_").padded(2012, 4).finish()?;
//! assert_eq!(key, "empid_000123_2012");
//!
//! // All reviews of that employee, and of no other.
//! let reviews = KeyRange::prefix(KeyWriter::new().literal("empid_").padded(123, 6).literal("_").finish()?);
//! assert!(reviews.contains(&key) && !reviews.contains("empid_000124_2012"));
//!
//! let mut reader = KeyReader::new(&key);
//! reader.literal("empid_")?;
//! assert_eq!(reader.padded(6)?, 123);
//! reader.literal("_")?;
//! assert_eq!(reader.padded(4)?, 2012);
//! reader.end()?;
//! # Ok::<(), tepui_client::key::KeyError>(())
//! ```

mod error;
mod number;
mod range;
mod reader;
mod spread;
mod text;
mod time;
mod writer;

#[cfg(test)]
mod laws;

pub use error::KeyError;
pub use range::KeyRange;
pub use reader::KeyReader;
pub use spread::{Buckets, SECONDS_PREFIXES, second_prefixes};
pub use text::Until;
pub use writer::KeyWriter;

/// The longest key that is valid everywhere, in UTF-16 code units: 1 KiB of them, which is the documented size of a key and what
/// Azurite holds to. Tepui takes 1,024 units; a key that was not made of parts may use them.
pub const MAX_UNITS_EVERYWHERE: usize = 512;
