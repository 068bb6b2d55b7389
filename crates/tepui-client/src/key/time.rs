//! Points in time in keys: as ticks of 100 ns since the year 1, or until the end of the year 9999.

use super::number::write_padded;
use super::reader::unexpected;
use super::{KeyError, KeyReader, KeyWriter};
use tepui_model::Timestamp;

/// Of the ticks of any time.
const TICK_DIGITS: usize = 19;

impl KeyWriter {
    /// The oldest first.
    pub fn ascending(self, at: Timestamp) -> Self {
        self.with(|key| write_padded(key, at.ticks(), TICK_DIGITS))
    }

    /// The newest first: the log tail pattern reads the head of a partition.
    ///
    /// ```
    /// use tepui_client::key::KeyWriter;
    /// use tepui_model::Timestamp;
    /// let key = |text| KeyWriter::new().descending(Timestamp::parse_iso(text).unwrap()).finish().unwrap();
    /// assert!(key("2026-03-11") < key("2026-03-10"));
    /// assert_eq!(key("9999-12-31T23:59:59.9999999Z"), "0000000000000000000");
    /// ```
    pub fn descending(self, at: Timestamp) -> Self {
        self.with(|key| write_padded(key, Timestamp::MAX.ticks() - at.ticks(), TICK_DIGITS))
    }
}

impl KeyReader<'_> {
    /// The inverse of [`KeyWriter::ascending`].
    pub fn ascending(&mut self) -> Result<Timestamp, KeyError> {
        let found = self.rest();
        let ticks = self.padded(TICK_DIGITS)?;
        Timestamp::from_ticks(ticks).ok_or_else(|| unexpected("ticks of a time", found))
    }

    /// The inverse of [`KeyWriter::descending`].
    pub fn descending(&mut self) -> Result<Timestamp, KeyError> {
        let left = self.ascending()?.ticks();
        let ticks = Timestamp::MAX.ticks() - left;
        Timestamp::from_ticks(ticks).ok_or_else(|| unexpected("ticks of a time", ""))
    }
}
