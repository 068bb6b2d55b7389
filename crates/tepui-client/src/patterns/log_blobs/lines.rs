//! Reads the lines of a log back.

use crate::{Container, Error, ErrorKind, ListedBlob};
use std::collections::VecDeque;
use std::fmt;

/// How much of a blob is read at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// The lines of blobs, read piece by piece as they are needed.
#[must_use]
pub struct LogLines {
    container: Container,
    blobs: VecDeque<ListedBlob>,
    /// How much of the first blob was read.
    position: u64,
    lines: VecDeque<String>,
    /// The beginning of a line whose end was not read yet.
    unfinished: Vec<u8>,
}

impl LogLines {
    pub(super) fn new(container: Container, blobs: Vec<ListedBlob>) -> Self {
        Self { container, blobs: blobs.into(), position: 0, lines: VecDeque::new(), unfinished: Vec::new() }
    }

    /// The next line; `None` after the last. Lines that were written after the blobs were listed are not read.
    pub async fn next_line(&mut self) -> Result<Option<String>, Error> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(Some(line));
            }
            let Some(blob) = self.blobs.front() else { return Ok(None) };
            if self.position < blob.total_bytes {
                let end = blob.total_bytes.min(self.position + CHUNK_BYTES);
                let read = self.container.blob(&blob.name)?.get_range(self.position..end).await?;
                if read.bytes.is_empty() {
                    return Err(Error::new(ErrorKind::Decode, "the service sent an empty range"));
                }
                self.position += read.bytes.len() as u64;
                self.take(&read.bytes);
            } else {
                // Whole lines are written at a time, so nothing is left unless somebody else has written.
                if !self.unfinished.is_empty() {
                    let rest = std::mem::take(&mut self.unfinished);
                    self.lines.push_back(text(rest));
                }
                self.blobs.pop_front();
                self.position = 0;
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            self.unfinished.extend_from_slice(piece);
            if pieces.peek().is_some() {
                let line = std::mem::take(&mut self.unfinished);
                self.lines.push_back(text(line));
            }
        }
    }
}

/// What is not UTF-8 was written by somebody else.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

impl fmt::Debug for LogLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLines").field("blobs_left", &self.blobs.len()).finish_non_exhaustive()
    }
}
