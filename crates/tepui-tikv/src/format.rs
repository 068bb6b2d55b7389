//! What a store remembers of how it is laid out: all nodes have to agree on which rows have copies, and on how many.

use crate::TikvOptions;
use crate::engine::Store;
use crate::keys;
use std::sync::Arc;
use tepui_storage::StorageError;

/// The version of the layout of keys.
const VERSION: u8 = 1;

/// How often it is tried to write it, if others do so at the same time.
const ATTEMPTS: usize = 10;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Format(Vec<u8>);

impl Format {
    pub(crate) fn of(options: &TikvOptions) -> Result<Self, StorageError> {
        if options.shared_copies == 0 {
            return Err(StorageError::failed("a row that is shared has at least one copy"));
        }
        let mut bytes = vec![VERSION, options.shared_copies];
        let history = u64::try_from(options.history.as_millis()).unwrap_or(u64::MAX);
        bytes.extend_from_slice(&history.to_be_bytes());
        for range in &options.shared_ranges {
            for bound in [&range.start, &range.end] {
                let length = u16::try_from(bound.len()).map_err(|_| {
                    StorageError::failed("a range of shared keys has bounds that are too long")
                })?;
                bytes.extend_from_slice(&length.to_be_bytes());
                bytes.extend_from_slice(bound);
            }
        }
        Ok(Self(bytes))
    }

    /// Writes it, if there is none yet, and refuses another one.
    pub(crate) async fn settle(&self, store: &Arc<Store>) -> Result<(), StorageError> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let mut begun = store.begin().await?;
            let key = store.keys.own(keys::FORMAT);
            let found = store.connection.read(begun.transaction.get(key.clone())).await?;
            if let Some(found) = found {
                return self.check(&found);
            }
            let written = async {
                begun.transaction.put(key, self.0.clone()).await?;
                begun.transaction.commit().await.map(drop)
            };
            match store.connection.call(store.connection.timeout(), written).await {
                Ok(()) => return Ok(()),
                // Another node was first, or the outcome is unknown: see what is there now.
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| StorageError::unavailable("the format cannot be written")))
    }

    fn check(&self, found: &[u8]) -> Result<(), StorageError> {
        if found == self.0 {
            return Ok(());
        }
        let message = match found.first() {
            Some(&VERSION) => {
                "other settings of shared guards were used when this store was first opened".to_owned()
            }
            Some(version) => {
                format!("keys in this store have format {version}, and this program knows {VERSION}")
            }
            None => "the format of keys in this store is unknown".to_owned(),
        };
        Err(StorageError::failed(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_storage::KeyRange;

    #[test]
    fn another_format_is_refused() {
        let options = |copies| TikvOptions { shared_copies: copies, ..TikvOptions::new(Vec::new()) };
        let ours = Format::of(&options(128)).unwrap();
        assert_eq!(ours.check(&ours.0), Ok(()));
        let with_ranges = TikvOptions { shared_ranges: vec![KeyRange::default()], ..options(128) };
        for (theirs, why) in [
            (Format::of(&options(64)).unwrap().0, "other settings"),
            (Format::of(&with_ranges).unwrap().0, "other settings"),
            (vec![VERSION + 1, 128], "format 2"),
            (Vec::new(), "unknown"),
        ] {
            let error = ours.check(&theirs).unwrap_err();
            assert!(error.message().contains(why), "{error}");
        }
        assert!(Format::of(&options(0)).is_err());
    }
}
