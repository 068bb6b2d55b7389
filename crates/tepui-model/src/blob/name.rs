//! Names of containers and blobs, and what tells the states of one blob apart.

use crate::text::utf16_len;
use crate::{ErrorCode, ServiceError, Timestamp, label};
use std::fmt;

/// The container of blobs that are addressed without one.
pub const ROOT: &str = "$root";
/// The container of analytics logs.
pub const LOGS: &str = "$logs";
/// Names that the rules for names would not allow.
const WEB: &str = "$web";
const SPECIAL: [&str; 4] = [ROOT, LOGS, WEB, "$blobchangefeed"];
const MAX_BLOB_NAME_UNITS: usize = 1024;
const MAX_SEGMENTS: usize = 254;

/// The name of a container: 3 to 63 lower-case letters, digits and single hyphens between them, or one of
/// the few that begin with a dollar sign.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerName(String);

impl ContainerName {
    /// ```
    /// use tepui_model::blob::ContainerName;
    /// assert!(ContainerName::parse("backups-2026").is_ok());
    /// assert!(ContainerName::parse("$web").is_ok());
    /// assert!(ContainerName::parse("Backups").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        if SPECIAL.contains(&text) {
            return Ok(Self(text.to_owned()));
        }
        label::check(text)?;
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The container that holds the website of an account.
    pub fn web() -> Self {
        Self(WEB.to_owned())
    }

    pub fn is_root(&self) -> bool {
        self.0 == ROOT
    }

    /// Whether it is where the service itself would write: always there, and read-only for clients.
    pub fn is_logs(&self) -> bool {
        self.0 == LOGS
    }

    /// Whether lists leave it out unless they are asked for what belongs to the system.
    pub fn is_system(&self) -> bool {
        matches!(self.0.as_str(), "$logs" | "$blobchangefeed")
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a blob: 1 to 1024 characters of any kind. Slashes are part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobName(String);

impl BlobName {
    /// ```
    /// use tepui_model::blob::BlobName;
    /// assert_eq!(BlobName::parse("a//b/../c/").unwrap().as_str(), "a//b/../c/");
    /// assert!(BlobName::parse("").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        if text.is_empty() {
            return Err(ErrorCode::InvalidUri.into());
        }
        let segments = text.bytes().filter(|byte| *byte == b'/').count() + 1;
        if utf16_len(text.as_bytes()) > MAX_BLOB_NAME_UNITS || segments > MAX_SEGMENTS {
            return Err(ErrorCode::OutOfRangeInput.into());
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a blob is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobPath {
    pub container: ContainerName,
    pub blob: BlobName,
}

impl fmt::Display for BlobPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.container, self.blob)
    }
}

/// Which state of a blob is meant. Snapshots and versions are named by the time they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Revision {
    /// The blob as it is now.
    #[default]
    Base,
    Snapshot(Timestamp),
    Version(Timestamp),
}

impl Revision {
    /// The time in the text of a snapshot or version, `2026-03-04T05:06:07.0201905Z`.
    ///
    /// ```
    /// use tepui_model::blob::Revision;
    /// assert!(Revision::parse_moment("2026-03-04T05:06:07.0201905Z").is_some());
    /// assert!(Revision::parse_moment("2026-03-04").is_none());
    /// ```
    pub fn parse_moment(text: &str) -> Option<Timestamp> {
        // A time has one text: no offsets, no shorter fractions.
        Timestamp::parse_iso(text).filter(|time| time.to_iso_7() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_names() {
        use ErrorCode::*;
        let (long, too_long) = ("a".repeat(63), "a".repeat(64));
        for (text, expected) in [
            ("abc", Ok(())),
            ("0-9", Ok(())),
            (&long, Ok(())),
            ("$root", Ok(())),
            ("$logs", Ok(())),
            ("$web", Ok(())),
            ("$blobchangefeed", Ok(())),
            (&too_long, Err(OutOfRangeInput)),
            ("ab", Err(OutOfRangeInput)),
            ("", Err(OutOfRangeInput)),
            ("$other", Err(InvalidResourceName)),
            ("$Root", Err(InvalidResourceName)),
            ("Abc", Err(InvalidResourceName)),
            ("a--b", Err(InvalidResourceName)),
            ("-abc", Err(InvalidResourceName)),
            ("abc-", Err(InvalidResourceName)),
            ("Bad_Name", Err(InvalidResourceName)),
        ] {
            assert_eq!(ContainerName::parse(text).map(drop).map_err(|e| e.code), expected, "{text}");
        }
    }

    #[test]
    fn blob_names() {
        use ErrorCode::*;
        for (text, expected) in [
            ("a", Ok(())),
            ("/a", Ok(())),
            ("a//b/./../c/", Ok(())),
            ("dir1/file\u{FFFF}", Ok(())),
            (&"x".repeat(1024), Ok(())),
            (&"😀".repeat(512), Ok(())),
            (&"😀".repeat(513), Err(OutOfRangeInput)),
            (&"x".repeat(1025), Err(OutOfRangeInput)),
            (&"a/".repeat(253), Ok(())),
            (&"a/".repeat(254), Err(OutOfRangeInput)),
            ("", Err(InvalidUri)),
        ] {
            assert_eq!(BlobName::parse(text).map(drop).map_err(|e| e.code), expected, "{text:.40}");
        }
    }

    #[test]
    fn moments_have_one_text() {
        for (text, good) in [
            ("2026-03-04T05:06:07.0201905Z", true),
            ("2026-03-04T05:06:07.0000000Z", true),
            ("2026-03-04T05:06:07Z", false),
            ("2026-03-04T05:06:07.0201905", false),
            ("2026-03-04T05:06:07.0201905+00:00", false),
            ("soon", false),
            ("", false),
        ] {
            assert_eq!(Revision::parse_moment(text).is_some(), good, "{text}");
        }
    }
}
