//! The files that were read last, which are kept open (LRU).

use std::collections::HashMap;
use std::sync::Arc;
use tepui_files::File;

/// How many files are kept open at most.
const MAX: usize = 256;

/// By the numbers of their volumes.
#[derive(Default)]
pub(crate) struct OpenFiles {
    files: HashMap<u64, OpenFile>,
    /// A logical clock: counts uses.
    now: u64,
}

struct OpenFile {
    file: Arc<dyn File>,
    last: u64,
}

impl OpenFiles {
    pub(crate) fn get(&mut self, number: u64) -> Option<Arc<dyn File>> {
        let used = self.files.get_mut(&number)?;
        self.now += 1;
        used.last = self.now;
        Some(Arc::clone(&used.file))
    }

    /// Keeps a file, and evicts the least recently used one if there are too many.
    pub(crate) fn insert(&mut self, number: u64, file: Arc<dyn File>) {
        self.now += 1;
        self.files.insert(number, OpenFile { file, last: self.now });
        if self.files.len() > MAX {
            // A linear search: it takes less than opening the file did.
            let oldest = self.files.iter().min_by_key(|(_, used)| used.last).map(|(number, _)| *number);
            oldest.and_then(|number| self.files.remove(&number));
        }
    }

    pub(crate) fn remove(&mut self, number: u64) {
        self.files.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_files::{Create, FileSystem as _, OpenOptions, SimulatedFiles};

    #[test]
    fn the_least_recently_used_file_is_closed() {
        let files = SimulatedFiles::new(1);
        let create = |number: u64| {
            let path = format!("/{number}");
            Arc::from(files.open(path.as_ref(), OpenOptions::create(Create::New)).unwrap())
        };
        let mut open = OpenFiles::default();
        for number in 0..MAX as u64 {
            open.insert(number, create(number));
        }
        assert!(open.get(0).is_some());
        for number in 1000..1010 {
            open.insert(number, create(number));
            assert_eq!(files.open_files(), MAX);
        }
        let is_open = |open: &mut OpenFiles, number| open.get(number).is_some();
        assert!(is_open(&mut open, 0), "it was used");
        assert!((1..11).all(|number| !is_open(&mut open, number)), "the oldest");
        assert!((11..MAX as u64).all(|number| is_open(&mut open, number)));
        open.remove(0);
        assert!(!is_open(&mut open, 0));
    }
}
