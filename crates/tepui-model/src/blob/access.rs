//! How far a caller may go with an operation.

use super::properties::PublicAccess;

/// How far a permission goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    Fully,
    /// Unless there is such a blob already: that is [`crate::ErrorCode::UnauthorizedBlobOverwrite`].
    IfAbsent,
    /// If the container is public to this degree. If not: [`crate::ErrorCode::ResourceNotFound`].
    IfPublic(PublicAccess),
}

impl Allowed {
    /// Whether the caller has shown no credentials.
    pub fn is_anonymous(self) -> bool {
        matches!(self, Self::IfPublic(_))
    }
}
