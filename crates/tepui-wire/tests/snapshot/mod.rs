//! Compares texts with those that were reviewed: one file each in `tests/snapshots`.
//!
//! After an intended change run the tests once with `INSTA_UPDATE=always` and review the difference.

use http::Response;
use std::fmt::Write as _;

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

    /// Compares all that was added with the reviewed file of that name.
    pub(crate) fn check(&self, name: &str) {
        let mut settings = insta::Settings::new();
        settings.set_snapshot_path("../snapshots");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name, self.0));
    }
}
