//! The three services of an account.

use std::str::FromStr;

/// A service of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    Table,
    Queue,
    Blob,
}

impl Service {
    pub const ALL: [Self; 3] = [Self::Table, Self::Queue, Self::Blob];

    /// As in host names and in what a SAS signs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Queue => "queue",
            Self::Blob => "blob",
        }
    }
}

/// There is no service of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownService;

impl FromStr for Service {
    type Err = UnknownService;

    fn from_str(name: &str) -> Result<Self, UnknownService> {
        Self::ALL.into_iter().find(|service| service.name() == name).ok_or(UnknownService)
    }
}
