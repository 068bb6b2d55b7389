//! The bytes of blobs in S3, Azure Blob Storage or Google Cloud Storage, or what speaks their protocols.

use super::{Blobs, OpenError};
use tepui_server::Config;
use tepui_server::config::StorageUrl;
use tepui_storage::dynamic::DynEngine;

/// `engine` has the rows that refer to them.
#[cfg(feature = "objects")]
pub(super) async fn open(url: &StorageUrl, _: &Config, engine: &DynEngine) -> Result<Blobs, OpenError> {
    use tepui_objects::{ObjectExtents, ObjectOptions};
    let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0u8);
    let installation = tepui_service::installation_number(engine, random).await.map_err(|error| {
        tepui_storage::StorageError::unavailable(format!(
            "the number of the installation cannot be read: {error}"
        ))
    })?;
    let options = ObjectOptions { installation: Some(installation), ..ObjectOptions::new(url.reveal()) };
    let extents = std::sync::Arc::new(ObjectExtents::open(options).await?);
    let closed = std::sync::Arc::clone(&extents);
    Ok(Blobs {
        extents: tepui_storage::dynamic::DynExtents::from_arc(extents),
        close: Box::pin(async move { closed.close().await }),
    })
}

#[cfg(not(feature = "objects"))]
pub(super) async fn open(_: &StorageUrl, _: &Config, _: &DynEngine) -> Result<Blobs, OpenError> {
    Err(OpenError::NoSupport { feature: "objects" })
}
