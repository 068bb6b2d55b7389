//! Why requests are refused that are otherwise right, for metrics: what was too much, and what was wrong with credentials.
//! Callers are told less.

/// What was too much, where a request is refused for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttle {
    /// More commits wait than may.
    CommitQueue,
    /// Other requests have changed the same all the time.
    Conflicts,
    /// The disk is full, or nearly so.
    DiskFull,
    /// Storage takes no writes now, for another reason.
    Storage,
    /// Too many connections from one address.
    Connections,
    /// The memory for bodies or for answers is taken.
    Memory,
    /// More than the targets of the account allow.
    Account,
    /// More than the targets of a partition, a queue or a blob allow.
    Partition,
}

impl Throttle {
    pub const ALL: [Self; 8] = [
        Self::CommitQueue,
        Self::Conflicts,
        Self::DiskFull,
        Self::Storage,
        Self::Connections,
        Self::Memory,
        Self::Account,
        Self::Partition,
    ];

    /// As it is written in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::CommitQueue => "commit_queue",
            Self::Conflicts => "conflicts",
            Self::DiskFull => "disk_full",
            Self::Storage => "storage",
            Self::Connections => "connections",
            Self::Memory => "memory",
            Self::Account => "account",
            Self::Partition => "partition",
        }
    }
}

/// Why a caller was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthFailure {
    /// There are no credentials, and they are needed.
    Missing,
    /// The header cannot be read.
    Malformed,
    /// The signature is not that of the request, or of the token.
    Signature,
    /// The date of the request is too far off, or the token has expired or is not valid yet.
    Time,
    /// Another fault of a shared access signature: what it says, its policy, the address or protocol of the caller.
    Sas,
    /// The token of a directory is not accepted.
    Token,
    /// Who asks is known, and may not do this.
    Permission,
}

impl AuthFailure {
    pub const ALL: [Self; 7] = [
        Self::Missing,
        Self::Malformed,
        Self::Signature,
        Self::Time,
        Self::Sas,
        Self::Token,
        Self::Permission,
    ];

    /// As it is written in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Signature => "signature",
            Self::Time => "time",
            Self::Sas => "sas",
            Self::Token => "token",
            Self::Permission => "permission",
        }
    }
}
