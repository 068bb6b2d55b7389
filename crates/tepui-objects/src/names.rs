//! The names of objects.

use object_store::path::Path;
use tepui_storage::Extent;

const EXTENTS: &str = "extents";
const LEASES: &str = "leases";
const SWEPT: &str = "swept";

/// Makes names below a prefix.
#[derive(Debug, Clone)]
pub(crate) struct Names(Path);

impl Names {
    pub(crate) fn below(prefix: Path) -> Self {
        Self(prefix)
    }

    pub(crate) fn prefix(&self) -> &Path {
        &self.0
    }

    /// What says that this is a store.
    pub(crate) fn identity(&self) -> Path {
        self.0.clone().join("tepui-store")
    }

    pub(crate) fn extent(&self, extent: Extent) -> Path {
        self.extents_of(extent.volume).join(number(extent.offset))
    }

    pub(crate) fn extents_of(&self, volume: u64) -> Path {
        self.0.clone().join(EXTENTS).join(number(volume))
    }

    pub(crate) fn lease(&self, volume: u64) -> Path {
        self.leases().join(number(volume))
    }

    pub(crate) fn leases(&self) -> Path {
        self.0.clone().join(LEASES)
    }

    pub(crate) fn swept(&self, volume: u64) -> Path {
        self.all_swept().join(number(volume))
    }

    pub(crate) fn all_swept(&self) -> Path {
        self.0.clone().join(SWEPT)
    }
}

/// Sixteen digits, so that names have the order of numbers.
fn number(number: u64) -> String {
    format!("{number:016x}")
}

/// The number at the end of a name: a volume, or the offset of an extent. `None` if the name is not one of ours.
pub(crate) fn last_number(name: &Path) -> Option<u64> {
    let digits = name.filename()?;
    let value = u64::from_str_radix(digits, 16).ok()?;
    (number(value) == digits).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_storage::StoreId;

    #[test]
    fn numbers_are_read_back_and_nothing_else_is_one() {
        let names = Names::below(Path::from("a/b"));
        let extent = Extent { store: StoreId(7), volume: 0xABC, offset: 17, bytes: 5 };
        let name = names.extent(extent);
        assert_eq!(name.as_ref(), "a/b/extents/0000000000000abc/0000000000000011");
        assert_eq!(last_number(&name), Some(17));
        assert_eq!(last_number(&names.extents_of(0xABC)), Some(0xABC));
        assert_eq!(last_number(&names.lease(u64::MAX)), Some(u64::MAX));
        for foreign in ["a/readme", "a/17", "a/+000000000000011", "a/0000000000000ABC", ""] {
            assert_eq!(last_number(&Path::from(foreign)), None, "{foreign}");
        }
        assert_eq!(Names::below(Path::default()).lease(1).as_ref(), "leases/0000000000000001");
    }
}
