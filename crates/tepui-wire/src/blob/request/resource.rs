//! What the path of a request names: the account, a container, a blob.

use crate::percent;
use crate::query::Query;
use std::borrow::Cow;
use tepui_model::blob::name::ROOT;
use tepui_model::blob::{BlobName, BlobPath, ContainerName};
use tepui_model::{ErrorCode, ServiceError};

/// The resource of a request. Names are as the caller spelled them and may name nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// The account itself: its containers, service properties, stats.
    Service,
    Container(String),
    /// A container, and the name of a blob in it.
    Blob(String, String),
}

impl Resource {
    /// Reads a path after the account, percent-encoded, without a slash in front. A path of one segment is a
    /// container if the query says so, and else a blob in the root container.
    ///
    /// ```
    /// use tepui_wire::blob::request::resource::Resource;
    /// use tepui_wire::query::Query;
    /// let blob = |container: &str, blob: &str| Ok(Resource::Blob(container.to_owned(), blob.to_owned()));
    /// assert_eq!(Resource::parse("c/a%2Fb", &Query::parse(None)), blob("c", "a/b"));
    /// assert_eq!(Resource::parse("robots.txt", &Query::parse(None)), blob("$root", "robots.txt"));
    /// ```
    pub fn parse(path: &str, query: &Query) -> Result<Self, ServiceError> {
        let path = decoded(path)?;
        let is_container = query.get_ignore_case("restype").is_some_and(|restype| !restype.is_empty());
        Ok(match path.split_once('/') {
            _ if path.is_empty() => Self::Service,
            // Clients end the URL of a container with a slash, too.
            Some((container, "")) if is_container => Self::Container(container.to_owned()),
            Some(("", _)) => return Err(ErrorCode::InvalidUri.into()),
            Some((container, blob)) if !blob.is_empty() => Self::Blob(container.to_owned(), blob.to_owned()),
            Some((container, _)) => Self::Container(container.to_owned()),
            None if is_container => Self::Container(path.into_owned()),
            None => Self::Blob(ROOT.to_owned(), path.into_owned()),
        })
    }

    /// The container that the resource is or is in.
    pub fn container(&self) -> Option<&str> {
        match self {
            Self::Service => None,
            Self::Container(container) | Self::Blob(container, _) => Some(container),
        }
    }

    /// The container, by its rules.
    pub fn container_name(&self) -> Result<ContainerName, ServiceError> {
        ContainerName::parse(self.container().unwrap_or_default())
    }

    /// The blob, by its rules. Blobs in the root container have no slashes in their names.
    pub fn blob_path(&self) -> Result<BlobPath, ServiceError> {
        let Self::Blob(_, blob) = self else { return Err(ErrorCode::InvalidUri.into()) };
        let container = self.container_name()?;
        if container.is_root() && blob.contains('/') {
            return Err(ErrorCode::InvalidUri.into());
        }
        Ok(BlobPath { container, blob: BlobName::parse(blob)? })
    }
}

/// Decodes a path once. Fidelity: a backslash is a slash, escaped or not. scenario: put-blob-backslash
fn decoded(path: &str) -> Result<Cow<'_, str>, ServiceError> {
    let path = percent::decode(path).ok_or(ErrorCode::InvalidUri)?;
    Ok(if path.contains('\\') { Cow::Owned(path.replace('\\', "/")) } else { path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths() {
        let container = |name: &str| Ok(Resource::Container(name.to_owned()));
        let blob = |name: &str| Ok(Resource::Blob("c".to_owned(), name.to_owned()));
        let root = |name: &str| Ok(Resource::Blob("$root".to_owned(), name.to_owned()));
        let invalid = || Err(ErrorCode::InvalidUri);
        for (path, query, expected) in [
            ("", "comp=list", Ok(Resource::Service)),
            ("c", "restype=container", container("c")),
            ("c/", "restype=container", container("c")),
            ("C", "RESTYPE=container", container("C")),
            ("c", "restype=account&comp=properties", container("c")),
            ("c", "", root("c")),
            ("robots.txt", "", root("robots.txt")),
            ("$root/robots.txt", "", root("robots.txt")),
            ("c/", "", container("c")),
            ("c/a", "", blob("a")),
            ("c/a/b/", "", blob("a/b/")),
            ("c//x", "", blob("/x")),
            ("c/a%2Fb", "", blob("a/b")),
            ("c%2Fa", "", blob("a")),
            ("c/a%2520b", "", blob("a%20b")),
            ("c/a+b", "", blob("a+b")),
            ("c/a/../b/./", "", blob("a/../b/./")),
            ("c/a\\b%5Cc%5c%255C", "", blob("a/b/c/%5C")),
            ("c%5Ca", "", blob("a")),
            ("c/%EF%BF%BF", "", blob("\u{FFFF}")),
            ("/c", "", invalid()),
            ("c/%FF", "", invalid()),
        ] {
            let resource = Resource::parse(path, &Query::parse(Some(query)));
            assert_eq!(resource.map_err(|error| error.code), expected, "{path}?{query}");
        }
    }

    #[test]
    fn names_are_checked() {
        use ErrorCode::*;
        for (path, expected) in [
            ("c01/a", Ok(())),
            ("$web/index.html", Ok(())),
            ("$root/a", Ok(())),
            ("$root/a/b", Err(InvalidUri)),
            ("Bad_Name/a", Err(InvalidResourceName)),
            ("c/a", Err(OutOfRangeInput)),
        ] {
            let resource = Resource::parse(path, &Query::parse(None)).unwrap();
            assert_eq!(resource.blob_path().map(drop).map_err(|error| error.code), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_read_or_not(path in "[/a%2Ff\\\\.é]{0,12}", query in "(restype=container)?") {
            if let Ok(resource) = Resource::parse(&path, &Query::parse(Some(&query))) {
                let _ = resource.blob_path();
            }
        }
    }
}
