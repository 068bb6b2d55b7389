//! Writes lines to append blobs of its own.

use super::{LogLimits, names};
use crate::table::{MAX_TRIES, wait_after_conflict};
use crate::{Blob, Container, Error, ErrorKind, WriteIf};
use bytes::Bytes;

/// How many numbers of an hour are tried at a time when others take them, too.
const MAX_NUMBERS: u32 = 16;

/// What waits to be written, and where.
#[derive(Default)]
pub(super) struct Writer {
    text: String,
    lines: usize,
    /// What the names of the hour begin with that the lines are of.
    hour: String,
    /// What is being written. It stays as it is until it is known to be there, so that it can be recognised.
    block: Option<Block>,
    open: Option<OpenBlob>,
    /// Whether a task writes what waits when it is old enough.
    pub(super) has_timer: bool,
}

/// Lines that are written together.
struct Block {
    bytes: Bytes,
    lines: usize,
    hour: String,
}

/// A blob that only this writer appends to.
struct OpenBlob {
    blob: Blob,
    hour: String,
    /// How long it is.
    position: u64,
    blocks: u32,
}

/// What became of an append.
enum Appended {
    Whole,
    /// The blob takes no more, or has something else in it: the lines are not there.
    No,
}

impl Writer {
    pub(super) fn waiting(&self) -> usize {
        self.lines + self.block.as_ref().map_or(0, |block| block.lines)
    }

    fn waiting_bytes(&self) -> usize {
        self.text.len() + self.block.as_ref().map_or(0, |block| block.bytes.len())
    }

    /// Whether a line can wait together with the others.
    pub(super) fn fits(&self, line: &str, hour: &str, limits: &LogLimits) -> bool {
        let is_same_hour = self.lines == 0 || self.hour == hour;
        is_same_hour && self.waiting() < limits.lines && self.waiting_bytes() + line.len() < limits.bytes
    }

    pub(super) fn add(&mut self, line: &str, hour: String) {
        self.text.push_str(line);
        self.text.push('\n');
        self.lines += 1;
        self.hour = hour;
    }

    pub(super) fn is_full(&self, limits: &LogLimits) -> bool {
        self.waiting() >= limits.lines || self.waiting_bytes() >= limits.bytes
    }

    /// Writes what waits. After an error it still does. To drop the future is harmless, too: what it has changed is true.
    pub(super) async fn flush(&mut self, container: &Container, limits: &LogLimits) -> Result<(), Error> {
        while self.waiting() > 0 {
            let block = self.block.get_or_insert_with(|| Block {
                bytes: std::mem::take(&mut self.text).into(),
                lines: std::mem::take(&mut self.lines),
                hour: self.hour.clone(),
            });
            write_block(block, &mut self.open, container, limits).await?;
            self.block = None;
        }
        Ok(())
    }
}

/// Writes lines to the open blob, or to a new one if they do not belong there.
async fn write_block(
    block: &Block,
    open: &mut Option<OpenBlob>,
    container: &Container,
    limits: &LogLimits,
) -> Result<(), Error> {
    for _ in 0..MAX_TRIES {
        let is_usable = |open: &OpenBlob| open.hour == block.hour && open.blocks < limits.blocks;
        if !open.as_ref().is_some_and(is_usable) {
            *open = Some(OpenBlob::create(container, &block.hour).await?);
        }
        let Some(blob) = open else { continue };
        match blob.append(container, &block.bytes).await? {
            Appended::Whole => return Ok(()),
            Appended::No => *open = None,
        }
    }
    Err(Error::new(ErrorKind::Contended, "others have written to each blob of the log"))
}

impl OpenBlob {
    /// A new blob of the hour, which nobody else has.
    async fn create(container: &Container, hour: &str) -> Result<Self, Error> {
        let mut number = 0;
        for attempt in 0..MAX_NUMBERS {
            let blob = container.blob(&names::blob_name(hour, number))?;
            match blob.create_append("text/plain", WriteIf::Absent).await {
                Ok(_) => return Ok(Self { blob, hour: hour.to_owned(), position: 0, blocks: 0 }),
                // Whose it is cannot be told if the answer was lost: an empty blob may stay.
                Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Unknown) => {
                    number = free_number(container, hour).await?;
                    wait_after_conflict(attempt.min(MAX_TRIES)).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Contended, "others took each number for a blob of the log"))
    }

    /// Appends at the known position. An append whose answer was lost is looked for there.
    async fn append(&mut self, container: &Container, bytes: &Bytes) -> Result<Appended, Error> {
        let mut last_error = None;
        for attempt in 0..MAX_TRIES {
            let error = match self.blob.append(bytes.clone(), Some(self.position)).await {
                Ok(_) => return Ok(self.appended(bytes)),
                Err(error) => error,
            };
            match error.kind() {
                // The blob was deleted: nobody has these lines.
                ErrorKind::NotFound if error.code() != Some("ContainerNotFound") => return Ok(Appended::No),
                ErrorKind::Conflict | ErrorKind::Unknown => {}
                _ => return Err(error),
            }
            let length = length(container, &self.blob).await?;
            if length == Some(self.position) && error.kind() == ErrorKind::Unknown {
                // Not there yet. If it still comes, the next attempt is refused.
                last_error = Some(error);
                wait_after_conflict(attempt).await;
                continue;
            }
            let end = self.position + bytes.len() as u64;
            if length.is_none_or(|length| length < end) {
                return Ok(Appended::No);
            }
            let found = self.blob.get_range(self.position..end).await?;
            return Ok(if found.bytes == *bytes { self.appended(bytes) } else { Appended::No });
        }
        Err(last_error.unwrap_or_else(|| Error::new(ErrorKind::Unknown, "the lines may have been written")))
    }

    fn appended(&mut self, bytes: &Bytes) -> Appended {
        self.position += bytes.len() as u64;
        self.blocks += 1;
        Appended::Whole
    }
}

/// How long a blob is; `None` if it is not there.
async fn length(container: &Container, blob: &Blob) -> Result<Option<u64>, Error> {
    let page = container.list_page(blob.name(), None).await?;
    Ok(page.blobs.iter().find(|listed| listed.name == blob.name()).map(|listed| listed.total_bytes))
}

/// The first number after all that an hour has.
async fn free_number(container: &Container, hour: &str) -> Result<u32, Error> {
    let listed = container.list(hour).await?;
    let number = |name: &str| name.strip_prefix(hour)?.strip_suffix(".log")?.parse::<u32>().ok();
    let last = listed.iter().filter_map(|blob| number(&blob.name)).max();
    last.map_or(Ok(0), |last| {
        last.checked_add(1)
            .ok_or_else(|| Error::new(ErrorKind::Refused, "an hour has no more numbers for blobs"))
    })
}
