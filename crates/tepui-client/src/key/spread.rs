//! Prefixes of partition keys that spread load over partitions. What they are computed from is also in the key or in a property:
//! nothing can be read back from them, but they can be computed again. A range over what follows reads once for each prefix.

use super::number::write_padded;
use super::reader::unexpected;
use super::{KeyError, KeyReader, KeyWriter};
use tepui_model::Timestamp;
use tepui_wire::crypto::sha256;

/// How many different prefixes [`KeyWriter::seconds`] writes.
pub const SECONDS_PREFIXES: u64 = 60;
const SECOND_DIGITS: usize = 2;

/// A number of buckets, 2 to 1,000, that values are spread over by a hash.
///
/// The bucket of a text is the first 8 bytes of its SHA-256 as a big-endian number, modulo the number of buckets: the
/// same for every version and in every language. Another number of buckets moves nearly all entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buckets(u16);

impl Buckets {
    pub fn new(count: u16) -> Result<Self, KeyError> {
        if (2..=1000).contains(&count) { Ok(Self(count)) } else { Err(KeyError::Buckets { count }) }
    }

    /// The prefixes of all buckets, for a read of each.
    ///
    /// ```
    /// use tepui_client::key::Buckets;
    /// let prefixes: Vec<_> = Buckets::new(16).unwrap().prefixes().collect();
    /// assert_eq!((prefixes.len(), prefixes[0].as_str(), prefixes[15].as_str()), (16, "00", "15"));
    /// ```
    pub fn prefixes(self) -> impl Iterator<Item = String> {
        let digits = self.digits();
        (0..self.0).map(move |bucket| format!("{bucket:0digits$}"))
    }

    fn of(self, value: &str) -> u64 {
        let hash = sha256(value.as_bytes());
        let (first, _) = hash.split_first_chunk().expect("a SHA-256 has more than 8 bytes");
        u64::from_be_bytes(*first) % u64::from(self.0)
    }

    /// Of the highest bucket.
    fn digits(self) -> usize {
        match self.0 {
            ..=10 => 1,
            11..=100 => 2,
            _ => 3,
        }
    }
}

/// All prefixes that [`KeyWriter::seconds`] writes, for a read of each.
pub fn second_prefixes() -> impl Iterator<Item = String> {
    (0..SECONDS_PREFIXES).map(|second| format!("{second:0SECOND_DIGITS$}"))
}

impl KeyWriter {
    /// The bucket of a value, in as many digits as the highest one has.
    pub fn bucket(self, value: &str, buckets: Buckets) -> Self {
        self.with(|key| write_padded(key, buckets.of(value), buckets.digits()))
    }

    /// The second of the minute: what is written at one time goes to one of 60 partitions, the next second to another.
    pub fn seconds(self, at: Timestamp) -> Self {
        self.with(|key| write_padded(key, at.seconds() % SECONDS_PREFIXES, SECOND_DIGITS))
    }
}

impl KeyReader<'_> {
    /// Any bucket. Whether it is that of its value can be told once that is read, by writing the key again.
    pub fn bucket(&mut self, buckets: Buckets) -> Result<u64, KeyError> {
        let found = self.rest();
        let bucket = self.padded(buckets.digits())?;
        if bucket < u64::from(buckets.0) { Ok(bucket) } else { Err(unexpected("a bucket", found)) }
    }

    /// The second of a minute.
    pub fn seconds(&mut self) -> Result<u64, KeyError> {
        let found = self.rest();
        let second = self.padded(SECOND_DIGITS)?;
        if second < SECONDS_PREFIXES { Ok(second) } else { Err(unexpected("a second", found)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_never_change() {
        // Stored keys depend on these.
        for (value, count, bucket) in
            [("", 16, "04"), ("user1", 16, "03"), ("user1", 1000, "331"), ("é😀", 7, "4")]
        {
            let buckets = Buckets::new(count).unwrap();
            let key = KeyWriter::new().bucket(value, buckets).finish().unwrap();
            assert_eq!(key, bucket, "{value:?} {count}");
            assert!(KeyReader::new(&key).bucket(buckets).is_ok());
        }
        for count in [0, 1, 1001] {
            assert_eq!(Buckets::new(count), Err(KeyError::Buckets { count }));
        }
        assert!(KeyReader::new("16").bucket(Buckets::new(16).unwrap()).is_err());
    }

    #[test]
    fn buckets_are_about_equally_full() {
        for count in [2, 10, 16, 1000] {
            let buckets = Buckets::new(count).unwrap();
            let mut sizes = vec![0u32; usize::from(count)];
            for number in 0..u32::from(count) * 100 {
                sizes[buckets.of(&number.to_string()) as usize] += 1;
            }
            assert!(sizes.iter().all(|size| (50..=150).contains(size)), "{count}: {sizes:?}");
        }
    }

    #[test]
    fn seconds_of_the_minute() {
        for (at, second) in
            [("2026-03-10T08:15:30.9Z", "30"), ("2026-03-10T08:15:59Z", "59"), ("2026-03-10", "00")]
        {
            let key = KeyWriter::new().seconds(Timestamp::parse_iso(at).unwrap()).finish();
            assert_eq!(key.as_deref(), Ok(second), "{at}");
            assert_eq!(
                KeyReader::new(second).seconds().map(|read| read.to_string().parse()),
                Ok(second.parse::<u64>())
            );
        }
        assert!(KeyReader::new("60").seconds().is_err());
    }
}
