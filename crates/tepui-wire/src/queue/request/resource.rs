//! What the path of a request names: the service, a queue, its messages, one of them.

use crate::percent;
use std::borrow::Cow;
use tepui_model::{ErrorCode, ServiceError};

/// The resource of a request. Names and ids are as the caller spelled them and may name nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resource {
    /// The account itself: its queues, service properties, stats.
    Service,
    Queue(String),
    Messages(String),
    /// A queue, and the id of a message in it.
    Message(String, String),
}

impl Resource {
    /// Reads a path after the account, percent-encoded, without a slash in front. One at the end is forgiven.
    pub(crate) fn parse(path: &str) -> Result<Self, ServiceError> {
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut segments = path.split('/');
        let mut next = || segments.next().map(decoded).transpose();
        Ok(match (next()?, next()?, next()?, next()?) {
            (Some(queue), None, ..) if queue.is_empty() => Self::Service,
            (Some(queue), ..) if queue.is_empty() => return Err(ErrorCode::InvalidUri.into()),
            (Some(queue), None, ..) => Self::Queue(queue.into_owned()),
            (Some(queue), Some(messages), None, _) if messages == "messages" => {
                Self::Messages(queue.into_owned())
            }
            (Some(queue), Some(messages), Some(id), None) if messages == "messages" && !id.is_empty() => {
                Self::Message(queue.into_owned(), id.into_owned())
            }
            _ => return Err(ErrorCode::InvalidUri.into()),
        })
    }

    /// The queue that the resource belongs to, if it belongs to one.
    pub(crate) fn queue(&self) -> Option<&str> {
        match self {
            Self::Service => None,
            Self::Queue(queue) | Self::Messages(queue) | Self::Message(queue, _) => Some(queue),
        }
    }
}

/// The queue that a path belongs to, whatever follows: what a SAS is signed for.
pub(crate) fn queue_of(path: &str) -> Option<Cow<'_, str>> {
    percent::decode(path.split('/').next()?).filter(|queue| !queue.is_empty())
}

fn decoded(segment: &str) -> Result<Cow<'_, str>, ServiceError> {
    percent::decode(segment).ok_or_else(|| ErrorCode::InvalidUri.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths() {
        let queue = |name: &str| Ok(Resource::Queue(name.to_owned()));
        let messages = || Ok(Resource::Messages("jobs".to_owned()));
        let message = |id: &str| Ok(Resource::Message("jobs".to_owned(), id.to_owned()));
        let invalid = || Err(ErrorCode::InvalidUri);
        for (path, expected) in [
            ("", Ok(Resource::Service)),
            ("/", Ok(Resource::Service)),
            ("jobs", queue("jobs")),
            ("jobs/", queue("jobs")),
            ("/jobs", invalid()),
            ("j%6Fbs", queue("jobs")),
            ("Jobs", queue("Jobs")),
            ("a%2Fb", queue("a/b")),
            ("messages", queue("messages")),
            ("jobs/messages", messages()),
            ("jobs/messages/", messages()),
            ("jobs/messages/5b1f", message("5b1f")),
            ("jobs/messages/5b1f/", message("5b1f")),
            ("jobs/messages/a%20b", message("a b")),
            ("//jobs", invalid()),
            ("jobs//messages", invalid()),
            ("jobs//", invalid()),
            ("jobs/messages//", invalid()),
            ("jobs/other", invalid()),
            ("jobs/messages/5b1f/more", invalid()),
            ("%FF", invalid()),
        ] {
            assert_eq!(Resource::parse(path).map_err(|error| error.code), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn a_path_and_its_resource_have_the_same_queue(path in "(messages|[/a%2Ff]){0,8}") {
            if let Ok(resource) = Resource::parse(&path) {
                let queue = queue_of(&path);
                prop_assert_eq!(resource.queue(), queue.as_deref());
            }
        }
    }
}
