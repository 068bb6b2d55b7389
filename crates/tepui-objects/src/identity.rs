//! What says that a prefix is a store of ours, and which.

use crate::names::Names;
use crate::objects::Objects;
use tepui_storage::{StorageError, StoreId};

/// The format of all objects below a prefix.
const FORMAT: u64 = 1;

/// The object that is made once, when a prefix is first used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) store: StoreId,
    /// Whose rows refer to the extents.
    pub(crate) installation: Option<u64>,
}

impl Identity {
    /// Finds out what a prefix is, or makes it a store if it is empty. Any number of nodes may do so at once.
    pub(crate) async fn open(
        objects: &Objects,
        names: &Names,
        installation: Option<u64>,
    ) -> Result<Self, StorageError> {
        if let Some(identity) = Self::find(objects, names).await? {
            return identity.checked(installation);
        }
        let others = objects.list(names.prefix(), 1).await?;
        if let Some(other) = others.first() {
            // Unless another node has made it meanwhile.
            let made = Self::find(objects, names).await?.ok_or_else(|| {
                StorageError::failed(format!(
                    "there are other objects below this prefix; choose an empty one: {}",
                    other.location
                ))
            })?;
            return made.checked(installation);
        }
        let new = Self { store: StoreId(random()?), installation };
        match objects.create(&names.identity(), new.encode().into()).await {
            Err(error) if !error.is_there => return Err(error.into()),
            // What is there counts: it may be that of another node, or our own if its answer was lost.
            Ok(()) | Err(_) => {}
        }
        let made = Self::find(objects, names).await?;
        made.ok_or_else(|| StorageError::unavailable("what was just created is not there"))?
            .checked(installation)
    }

    async fn find(objects: &Objects, names: &Names) -> Result<Option<Self>, StorageError> {
        let found = objects.get(&names.identity()).await?;
        found.map(|content| Self::decode(&content)).transpose()
    }

    fn checked(self, installation: Option<u64>) -> Result<Self, StorageError> {
        match (self.installation, installation) {
            (Some(of_store), Some(ours)) if of_store != ours => Err(StorageError::failed(format!(
                "this store of objects belongs to another installation ({of_store:016x}), whose rows refer to it; \
                 this is {ours:016x}: choose another prefix"
            ))),
            _ => Ok(self),
        }
    }

    fn encode(self) -> String {
        let installation =
            self.installation.map_or_else(|| "any".to_owned(), |number| format!("{number:016x}"));
        format!("tepui store\nformat {FORMAT}\nstore {:016x}\ninstallation {installation}\n", self.store.0)
    }

    fn decode(content: &[u8]) -> Result<Self, StorageError> {
        let foreign = || StorageError::failed("tepui-store below this prefix is not what we write");
        let text = std::str::from_utf8(content).map_err(|_| foreign())?;
        let mut lines = text.lines();
        if lines.next() != Some("tepui store") {
            return Err(foreign());
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let format: u64 = field("format").and_then(|number| number.parse().ok()).ok_or_else(foreign)?;
        if format > FORMAT {
            return Err(StorageError::failed(format!(
                "the store of objects has format {format}, and this version knows {FORMAT}: it was used by a newer one"
            )));
        }
        let store = field("store").and_then(|number| u64::from_str_radix(number, 16).ok());
        let store = store.filter(|number| *number != 0).map(StoreId).ok_or_else(foreign)?;
        let installation = match field("installation").ok_or_else(foreign)? {
            "any" => None,
            number => Some(u64::from_str_radix(number, 16).map_err(|_| foreign())?),
        };
        Ok(Self { store, installation })
    }
}

/// A random number that is not 0.
pub(crate) fn random() -> Result<u64, StorageError> {
    loop {
        let number = getrandom::u64()
            .map_err(|error| StorageError::failed("the system has no random numbers").with_source(error))?;
        if number != 0 {
            return Ok(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_read_back_and_others_are_refused() {
        for installation in [None, Some(0), Some(u64::MAX)] {
            let identity = Identity { store: StoreId(17), installation };
            assert_eq!(Identity::decode(identity.encode().as_bytes()), Ok(identity));
        }
        for (content, expected) in [
            ("", "not what we write"),
            ("something else\n", "not what we write"),
            ("tepui store\nformat 2\nfuture\n", "newer one"),
            ("tepui store\nformat 1\nstore 0000000000000000\ninstallation any\n", "not what we write"),
            ("tepui store\nformat 1\nstore 0000000000000001\n", "not what we write"),
        ] {
            let error = Identity::decode(content.as_bytes()).unwrap_err();
            assert!(error.message().contains(expected), "{content:?}: {error}");
        }
    }

    #[test]
    fn another_installation_is_refused() {
        let of = |installation| Identity { store: StoreId(1), installation };
        assert!(of(Some(1)).checked(Some(1)).is_ok() && of(Some(1)).checked(None).is_ok());
        assert!(of(None).checked(Some(1)).is_ok());
        assert!(of(Some(1)).checked(Some(2)).unwrap_err().message().contains("another installation"));
    }
}
