//! Why storage failed: one error for the engine and for extents.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Why an operation failed. [`StorageError::kind`] says what to do about it; the message is for the log.
#[derive(Debug, Clone)]
pub struct StorageError {
    // Boxed: every read returns a result with it.
    details: Box<Details>,
}

#[derive(Debug, Clone)]
struct Details {
    kind: StorageErrorKind,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// What to do about a [`StorageError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageErrorKind {
    /// Retry later: storage waits for its disk or its network, or is shutting down.
    Unavailable,
    /// Retry later: more was asked of storage than it gets done.
    Busy,
    /// The disk is full, or nearly so: only writes that free space are accepted.
    NoSpace,
    /// Stored bytes are not what was written, or missing. Never serve them.
    Corrupt,
    /// The transaction can read no more, because its state is not kept any longer: begin a new one.
    TooOld,
    /// Any other failure.
    Failed,
}

impl StorageError {
    pub fn new(kind: StorageErrorKind, message: impl Into<String>) -> Self {
        Self { details: Box::new(Details { kind, message: message.into(), source: None }) }
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StorageErrorKind::Unavailable, message)
    }

    pub fn busy(message: impl Into<String>) -> Self {
        Self::new(StorageErrorKind::Busy, message)
    }

    pub fn no_space(message: impl Into<String>) -> Self {
        Self::new(StorageErrorKind::NoSpace, message)
    }

    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(StorageErrorKind::Corrupt, message)
    }

    pub fn too_old(message: impl Into<String>) -> Self {
        Self::new(StorageErrorKind::TooOld, message)
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(StorageErrorKind::Failed, message)
    }

    /// [`Extents::sweep`](crate::Extents::sweep) of a volume that is not in
    /// [`Extents::sweepable_volumes`](crate::Extents::sweepable_volumes).
    pub fn not_sweepable(volume: u64) -> Self {
        Self::failed(format!("not an unsealed volume of an earlier run: {volume}"))
    }

    /// Adds what caused it. The message should not repeat it.
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.details.source = Some(Arc::new(source));
        self
    }

    pub fn kind(&self) -> StorageErrorKind {
        self.details.kind
    }

    /// What happened, without the kind and the source.
    pub fn message(&self) -> &str {
        &self.details.message
    }
}

impl PartialEq for StorageError {
    /// Sources cannot be compared.
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.message() == other.message()
    }
}

impl Eq for StorageError {}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind() {
            StorageErrorKind::Unavailable => "storage is unavailable",
            StorageErrorKind::Busy => "storage is busy",
            StorageErrorKind::NoSpace => "no space",
            StorageErrorKind::Corrupt => "stored data is corrupt",
            StorageErrorKind::TooOld => "the state is not kept any longer",
            StorageErrorKind::Failed => "storage failed",
        };
        write!(f, "{what}: {}", self.message())?;
        match &self.details.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl Error for StorageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.details.source.as_ref().map(|source| &**source as &(dyn Error + 'static))
    }
}
