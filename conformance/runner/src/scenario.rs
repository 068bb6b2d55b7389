//! A scenario as it was written: what [`crate::parse`] makes and [`crate::run`] walks through.
//! Texts are kept as templates; variables and names of tables, queues and containers are filled in when a step runs.

use std::path::Path;

/// The service that a scenario speaks to. Its folder says which.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Service {
    #[default]
    Table,
    Queue,
    Blob,
}

impl Service {
    pub(crate) const ALL: [Self; 3] = [Self::Table, Self::Queue, Self::Blob];

    /// The name of its folder, and of its part in host names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Queue => "queue",
            Self::Blob => "blob",
        }
    }

    /// The option that says where it is.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Table => "--endpoint",
            Self::Queue => "--queue-endpoint",
            Self::Blob => "--blob-endpoint",
        }
    }

    /// The nearest folder with a service's name; the table service if there is none.
    pub(crate) fn of_file(file: &Path) -> Self {
        let mut folders = file.ancestors().skip(1).filter_map(|folder| folder.file_name()?.to_str());
        folders
            .find_map(|folder| Self::ALL.into_iter().find(|service| service.name() == folder))
            .unwrap_or_default()
    }
}

/// One `## name: title` section of a file.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) file: String,
    pub(crate) service: Service,
    pub(crate) line: usize,
    /// Runs alone, after all others: it touches what the whole account shares.
    pub(crate) serial: bool,
    pub(crate) items: Vec<Item>,
}

/// One thing that a scenario does.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// `table People`: a fresh table under this name.
    Table { line: usize, name: String },
    /// `queue jobs`: a fresh queue under this name.
    Queue { line: usize, name: String },
    /// `put jobs text`: a message is in the queue.
    Put { line: usize, queue: String, text: String },
    /// `container pictures`: a fresh container under this name.
    Container { line: usize, name: String },
    /// `blob pictures/cat text`: a block blob with this content.
    Blob { line: usize, path: String, text: String },
    /// `name People`: a fresh name, with nothing behind it yet.
    Name { name: String },
    /// `insert People {…}`: an entity is there.
    Insert { line: usize, table: String, body: String },
    /// `let x = text`.
    Let { line: usize, name: String, value: String },
    /// `wait 50ms`.
    Wait { milliseconds: u64 },
    /// A request and what is expected of its answer.
    Step(Box<Step>),
    /// `for i in 1..3` or `each a | b`: the inner items, once per row.
    Loop { line: usize, rows: Vec<Row>, items: Vec<Item> },
}

/// One round of a loop: variables and their values.
pub(crate) type Row = Vec<(String, String)>;

#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    pub(crate) line: usize,
    /// Empty for a `raw` step, whose body is the whole request.
    pub(crate) verb: String,
    pub(crate) target: String,
    /// Headers to send, over the defaults.
    pub(crate) headers: Vec<(String, String)>,
    /// `with:`: more headers to send, on one line, as cells of a table have them.
    pub(crate) more_headers: String,
    /// Default headers to leave out.
    pub(crate) without: Vec<String>,
    pub(crate) auth: String,
    pub(crate) send: String,
    pub(crate) address: String,
    pub(crate) body: Body,
    pub(crate) status: String,
    pub(crate) expectations: Vec<Expectation>,
}

#[derive(Debug, Clone, Default)]
pub(crate) enum Body {
    #[default]
    None,
    Text(String),
    /// Lines, each followed by `end`. A line that ends with `\` has no end.
    Lines {
        end: &'static str,
        lines: Vec<String>,
    },
    Batch(Vec<Section>),
}

/// A part of a batch: a change set, one query, or the requests of a batch of blobs.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) kind: SectionKind,
    pub(crate) end: &'static str,
    pub(crate) operations: Vec<Operation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SectionKind {
    ChangeSet,
    Query,
    /// Requests to the blob service: numbered, with paths as they are written, each with credentials of its own.
    Parts,
}

/// A request inside a batch, perhaps several times.
#[derive(Debug, Clone, Default)]
pub(crate) struct Operation {
    pub(crate) repeat: Option<(String, u64, u64)>,
    /// Headers of the part around the request.
    pub(crate) mime: Vec<String>,
    pub(crate) request: String,
    pub(crate) headers: Vec<String>,
    /// Credentials of its own, in [`SectionKind::Parts`].
    pub(crate) auth: Option<String>,
    pub(crate) body: String,
}

/// One line of what is expected: `subject: value as capture`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expectation {
    pub(crate) line: usize,
    /// Speaks of this part of a batch answer.
    pub(crate) part: Option<usize>,
    pub(crate) subject: Subject,
    pub(crate) value: String,
    pub(crate) capture: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    Header(String),
    /// The whole body, as text.
    Body,
    BodyContains,
    BodyLacks,
    /// The whole body, as JSON.
    Json,
    /// A value within the JSON body.
    Path(String),
    /// The text of an element of the XML body: the first of its name, another, or all.
    Xml(String, Nth),
    /// The RowKeys of the entities in the body.
    Rows,
    /// The statuses of the parts of a batch answer.
    Parts,
    /// An error body: the service's own form, `<m:error>`, `<error>`.
    Error(ErrorDress),
    /// The message of the error body, without its RequestId and Time.
    Message,
    /// Which of the four sets of response headers.
    Family,
    Reason,
    /// The interim answer before the final one.
    Interim,
    /// Whether the server ended the connection.
    Connection,
}

/// Which of the elements of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nth {
    Element(usize),
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorDress {
    /// JSON of the table service, `<Error>` of the others.
    Own,
    Prefixed,
    Plain,
}
