//! Compares texts with those that were reviewed: one file each in `tests/snapshots`.
//!
//! After an intended change run the tests once with `UPDATE_SNAPSHOTS=1` and review the difference.

use http::Response;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A test's answers, printed one after the other under their titles.
#[derive(Default)]
pub(crate) struct Snapshot(String);

impl Snapshot {
    /// Adds a whole answer: its status, its headers by name, its body. What one would not see in the body
    /// is made visible: `<BOM>`, and `␍` for a carriage return.
    pub(crate) fn add(&mut self, title: &str, response: &Response<Vec<u8>>) -> &mut Self {
        let mut headers: Vec<String> = response
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        headers.sort();
        let body = String::from_utf8_lossy(response.body());
        let body = body.replace('\u{FEFF}', "<BOM>").replace('\r', "␍");
        let status = response.status();
        writeln!(self.0, "## {title}\n{status}\n{}\n\n{body}\n", headers.join("\n"))
            .expect("a String takes any text");
        self
    }

    /// Compares all that was added with the file of that name, or rewrites the file if asked to.
    pub(crate) fn check(&self, name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/{name}.txt"));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::write(&path, &self.0).expect("snapshots can be written");
        }
        let reviewed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            reviewed == self.0,
            "{} is no longer what the code prints (UPDATE_SNAPSHOTS=1 rewrites it). Now:\n{}",
            path.display(),
            self.0
        );
    }
}
