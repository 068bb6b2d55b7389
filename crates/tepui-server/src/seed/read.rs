//! The files of a seed as steps, in the order in which they are to be applied.

use super::csv::CsvReader;
use super::entity_csv::Columns;
use super::layout::{self, EntityFormat, MessageFormat, Place, PlaceKind};
use super::source::{Entry, SeedSource};
use super::{SeedError, content_type};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::time::Duration;
use tepui_model::blob::{BlobName, ContainerName};
use tepui_model::queue::QueueName;
use tepui_model::queue::message::MAX_TEXT_BYTES;
use tepui_model::table::{EntityKey, Properties, TableName};
use tepui_wire::table::json::{DecodedEntity, KeysIn, decode_entity};

/// How much one step holds.
const MAX_ENTITIES: usize = 1000;
const MAX_ENTITY_BYTES: usize = 2 << 20;
const MAX_MESSAGES: usize = 256;
const PART_BYTES: usize = 1 << 20;
/// The longest line. An entity has at most 1 MiB, and escapes in JSON six bytes for one.
const MAX_LINE_BYTES: u64 = 8 << 20;

/// A step, and where it comes from.
pub(super) struct Step {
    pub(super) account: Arc<str>,
    pub(super) file: Arc<str>,
    /// Where it begins.
    pub(super) line: Option<u64>,
    pub(super) what: StepKind,
}

pub(super) enum StepKind {
    Table(TableName),
    /// Of the table before.
    Entities(Vec<(EntityKey, Properties)>),
    Queue(QueueName),
    /// Of the queue before.
    Messages(Vec<SeedMessage>),
    Container(ContainerName),
    Blob(BlobBegin),
    /// Of the blob before.
    BlobPart(Bytes),
    BlobEnd,
}

pub(super) struct BlobBegin {
    pub(super) container: ContainerName,
    pub(super) name: BlobName,
    pub(super) content_type: Option<&'static str>,
}

pub(super) struct SeedMessage {
    pub(super) text: Bytes,
    pub(super) visibility: Duration,
    /// `None`: it never expires.
    pub(super) lifetime: Option<Duration>,
}

/// Reads all of a seed. Blocks.
pub(super) struct SeedReader<'a> {
    /// For files that are in no account's folder.
    pub(super) account: &'a str,
    pub(super) is_served: &'a dyn Fn(&str) -> bool,
    pub(super) take: &'a mut dyn FnMut(Step) -> Result<(), SeedError>,
}

impl SeedReader<'_> {
    pub(super) fn read(&mut self, source: &SeedSource) -> Result<(), SeedError> {
        source.visit(&mut |parts, entry| self.entry(parts, entry))
    }

    fn entry(&mut self, parts: &[String], entry: Entry<'_>) -> Result<(), SeedError> {
        let path: Arc<str> = parts.join("/").into();
        let place = match &entry {
            Entry::File(_) => layout::file(parts),
            Entry::Folder => layout::folder(parts),
        };
        let Place { account, kind } = place.map_err(|error| SeedError::new(&path, None, error))?;
        let account: Arc<str> = account.as_deref().unwrap_or(self.account).into();
        if kind != PlaceKind::Ignored && !(self.is_served)(&account) {
            let message = format!("this server has no such account: {account}");
            return Err(SeedError::new(&path, None, message));
        }
        let mut file = FileReader { account, path, take: self.take };
        match (kind, entry) {
            (PlaceKind::Ignored, _) => Ok(()),
            (PlaceKind::Container(container), _) => file.step(None, StepKind::Container(container)),
            (_, Entry::Folder) => Ok(()),
            (PlaceKind::Table(name, format), Entry::File(from)) => {
                file.step(None, StepKind::Table(name))?;
                match format {
                    EntityFormat::Csv => file.entities_of_csv(from),
                    EntityFormat::JsonLines => file.entities_of_lines(from),
                }
            }
            (PlaceKind::Queue(name, format), Entry::File(from)) => {
                file.step(None, StepKind::Queue(name))?;
                file.messages(from, format)
            }
            (PlaceKind::Blob(container, name), Entry::File(from)) => file.blob(container, name, from),
        }
    }
}

/// Reads one file.
struct FileReader<'a> {
    account: Arc<str>,
    path: Arc<str>,
    take: &'a mut dyn FnMut(Step) -> Result<(), SeedError>,
}

impl FileReader<'_> {
    fn step(&mut self, line: Option<u64>, what: StepKind) -> Result<(), SeedError> {
        (self.take)(Step { account: Arc::clone(&self.account), file: Arc::clone(&self.path), line, what })
    }

    fn error(&self, line: u64, message: impl Into<String>) -> SeedError {
        SeedError::new(&self.path, Some(line), message)
    }

    fn entities_of_csv(&mut self, from: &mut dyn Read) -> Result<(), SeedError> {
        let mut records = CsvReader::new(BufReader::new(from));
        let mut fields = Vec::new();
        let next = |records: &mut CsvReader<_>, fields: &mut _, file: &Self| {
            records.next(fields).map_err(|error| file.error(records.line(), error))
        };
        if !next(&mut records, &mut fields, self)? {
            return Ok(());
        }
        let columns = Columns::parse(&fields).map_err(|error| self.error(records.line(), error))?;
        let mut batch = EntityBatch::default();
        while next(&mut records, &mut fields, self)? {
            let line = records.line();
            let entity = columns.entity(&fields).map_err(|error| self.error(line, error))?;
            self.add(&mut batch, line, entity)?;
        }
        self.flush(batch)
    }

    fn entities_of_lines(&mut self, from: &mut dyn Read) -> Result<(), SeedError> {
        let mut lines = Lines::new(from);
        let mut batch = EntityBatch::default();
        while let Some((number, line)) = lines.next().map_err(|(number, error)| self.error(number, error))? {
            let entity = decode(line).map_err(|error| self.error(number, error))?;
            self.add(&mut batch, number, entity)?;
        }
        self.flush(batch)
    }

    fn add(
        &mut self,
        batch: &mut EntityBatch,
        line: u64,
        entity: (EntityKey, Properties),
    ) -> Result<(), SeedError> {
        batch.line.get_or_insert(line);
        batch.bytes += entity.1.bytes().len() + entity.0.partition_key.len() + entity.0.row_key.len();
        batch.entities.push(entity);
        match batch.entities.len() >= MAX_ENTITIES || batch.bytes >= MAX_ENTITY_BYTES {
            true => self.flush(std::mem::take(batch)),
            false => Ok(()),
        }
    }

    fn flush(&mut self, batch: EntityBatch) -> Result<(), SeedError> {
        match batch.entities.is_empty() {
            true => Ok(()),
            false => self.step(batch.line, StepKind::Entities(batch.entities)),
        }
    }

    fn messages(&mut self, from: &mut dyn Read, format: MessageFormat) -> Result<(), SeedError> {
        let mut lines = Lines::new(from);
        let (mut messages, mut first) = (Vec::new(), None);
        while let Some((number, line)) = lines.next().map_err(|(number, error)| self.error(number, error))? {
            let message = match format {
                MessageFormat::Text => plain_message(line.to_owned()),
                MessageFormat::JsonLines => json_message(line),
            };
            messages.push(message.map_err(|error| self.error(number, error))?);
            first.get_or_insert(number);
            if messages.len() >= MAX_MESSAGES {
                self.step(first.take(), StepKind::Messages(std::mem::take(&mut messages)))?;
            }
        }
        match messages.is_empty() {
            true => Ok(()),
            false => self.step(first, StepKind::Messages(messages)),
        }
    }

    fn blob(
        &mut self,
        container: ContainerName,
        name: BlobName,
        from: &mut dyn Read,
    ) -> Result<(), SeedError> {
        self.step(None, StepKind::Container(container.clone()))?;
        let content_type = content_type::of(name.as_str());
        self.step(None, StepKind::Blob(BlobBegin { container, name, content_type }))?;
        loop {
            let mut part = Vec::new();
            let read = Read::take(&mut *from, PART_BYTES as u64).read_to_end(&mut part);
            read.map_err(|error| SeedError::new(&self.path, None, format!("cannot be read: {error}")))?;
            if part.is_empty() {
                return self.step(None, StepKind::BlobEnd);
            }
            self.step(None, StepKind::BlobPart(part.into()))?;
        }
    }
}

#[derive(Default)]
struct EntityBatch {
    entities: Vec<(EntityKey, Properties)>,
    bytes: usize,
    /// Of the first.
    line: Option<u64>,
}

/// An entity in JSON, as Insert Entity takes it.
fn decode(line: &str) -> Result<(EntityKey, Properties), String> {
    let decoded = decode_entity(line.as_bytes(), KeysIn::Body).map_err(|error| {
        // What is no JSON at all is told more exactly.
        match serde_json::from_str::<IgnoredAny>(line) {
            Err(error) => format!("this is not JSON: {error}"),
            Ok(_) => error.message().to_owned(),
        }
    })?;
    let DecodedEntity { partition_key: Some(partition_key), row_key: Some(row_key), properties } = decoded
    else {
        return Err("an entity has a PartitionKey and a RowKey".to_owned());
    };
    properties.check_entity(&partition_key, &row_key).map_err(|code| code.message().to_owned())?;
    Ok((EntityKey { partition_key, row_key }, properties))
}

/// A message in JSON: its text, or an object.
#[derive(Deserialize)]
#[serde(untagged)]
enum JsonMessage {
    Text(String),
    Object(JsonMessageObject),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct JsonMessageObject {
    text: String,
    #[serde(default)]
    visibility_seconds: u32,
    ttl_seconds: Option<u32>,
}

/// The longest time that a message can be hidden, as for Put Message.
const MAX_VISIBILITY_SECONDS: u32 = 7 * 24 * 60 * 60;

fn json_message(line: &str) -> Result<SeedMessage, String> {
    let message = serde_json::from_str(line).map_err(|_| {
        "a message is a JSON string, or an object with text, and perhaps visibilitySeconds and ttlSeconds"
            .to_owned()
    })?;
    let JsonMessageObject { text, visibility_seconds, ttl_seconds } = match message {
        JsonMessage::Text(text) => return plain_message(text),
        JsonMessage::Object(object) => object,
    };
    if visibility_seconds > MAX_VISIBILITY_SECONDS || ttl_seconds == Some(0) {
        return Err(format!(
            "visibilitySeconds is at most {MAX_VISIBILITY_SECONDS}, and ttlSeconds at least 1"
        ));
    }
    if ttl_seconds.is_some_and(|ttl| visibility_seconds >= ttl) {
        return Err("a message must become visible before it expires".to_owned());
    }
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let message = plain_message(text)?;
    Ok(SeedMessage { visibility: seconds(visibility_seconds), lifetime: ttl_seconds.map(seconds), ..message })
}

fn plain_message(text: String) -> Result<SeedMessage, String> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("a message has at most {MAX_TEXT_BYTES} bytes"));
    }
    // Answers are XML, which cannot say these.
    let is_sayable = |letter: char| {
        matches!(letter, '\t' | '\n' | '\r') || letter >= ' ' && !matches!(letter, '\u{FFFE}' | '\u{FFFF}')
    };
    if !text.chars().all(is_sayable) {
        return Err("a message cannot hold control characters".to_owned());
    }
    Ok(SeedMessage { text: text.into(), visibility: Duration::ZERO, lifetime: None })
}

/// The lines of a text that are not empty.
struct Lines<R> {
    from: BufReader<R>,
    number: u64,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    fn new(from: R) -> Self {
        Self { from: BufReader::new(from), number: 0, line: Vec::new() }
    }

    /// The next line and its number.
    fn next(&mut self) -> Result<Option<(u64, &str)>, (u64, String)> {
        loop {
            self.line.clear();
            self.number += 1;
            let failed = |message: String| (self.number, message);
            let read = self.from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut self.line);
            if read.map_err(|error| failed(format!("cannot be read: {error}")))? == 0 {
                return Ok(None);
            }
            if self.line.len() as u64 >= MAX_LINE_BYTES {
                return Err(failed(format!("a line is longer than {MAX_LINE_BYTES} bytes")));
            }
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
            }
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
            if self.number == 1 && self.line.starts_with("\u{FEFF}".as_bytes()) {
                self.line.drain(..3);
            }
            if !self.line.is_empty() {
                break;
            }
        }
        match std::str::from_utf8(&self.line) {
            Ok(line) => Ok(Some((self.number, line))),
            Err(_) => Err((self.number, "the text is not UTF-8".to_owned())),
        }
    }
}
