//! What lists are asked for.

use crate::blob::{marker, tag_filter_text};
use crate::parameters::{given, invalid_value, missing, ranged};
use crate::query::Query;
use tepui_model::ServiceError;
use tepui_model::blob::list::MAX_PAGE_SIZE;
use tepui_model::blob::{
    BlobInclude, BlobMarker, ContainerMarker, ContainerName, FindBlobsByTags, ListBlobs, ListContainers,
};

pub(super) fn containers(query: &Query) -> Result<ListContainers, ServiceError> {
    let mut list = ListContainers {
        prefix: given(query, "prefix").unwrap_or_default().to_owned(),
        from: given(query, "marker").map(first_container).transpose()?,
        page_size: page_size(query)?,
        with_metadata: false,
        with_deleted: false,
        with_system: false,
    };
    include(
        query,
        &mut [
            ("metadata", &mut list.with_metadata),
            ("deleted", &mut list.with_deleted),
            ("system", &mut list.with_system),
        ],
    )?;
    Ok(list)
}

fn first_container(text: &str) -> Result<ContainerMarker, ServiceError> {
    marker::parse_containers(text).ok_or_else(|| invalid_value("marker", text, ""))
}

pub(super) fn blobs(query: &Query, container: ContainerName) -> Result<ListBlobs, ServiceError> {
    let from = match (given(query, "marker"), given(query, "startfrom")) {
        (Some(text), _) => Some(marker::parse_blobs(text).ok_or_else(|| invalid_value("marker", text, ""))?),
        (None, Some(name)) => Some(BlobMarker::AtName(name.to_owned())),
        (None, None) => None,
    };
    let mut included = BlobInclude::default();
    // What only a hierarchical namespace has is not there to be shown.
    let mut permissions = false;
    include(
        query,
        &mut [
            ("snapshots", &mut included.snapshots),
            ("metadata", &mut included.metadata),
            ("uncommittedblobs", &mut included.uncommitted),
            ("copy", &mut included.copy),
            ("deleted", &mut included.deleted),
            ("tags", &mut included.tags),
            ("versions", &mut included.versions),
            ("deletedwithversions", &mut included.deleted_with_versions),
            ("immutabilitypolicy", &mut included.immutability_policy),
            ("legalhold", &mut included.legal_hold),
            ("permissions", &mut permissions),
        ],
    )?;
    let delimiter = given(query, "delimiter").map(str::to_owned);
    if delimiter.is_some() && included.snapshots {
        let sent = given(query, "include").unwrap_or_default();
        return Err(invalid_value("include", sent, "Snapshots cannot be listed with a delimiter."));
    }
    Ok(ListBlobs {
        container,
        prefix: given(query, "prefix").unwrap_or_default().to_owned(),
        delimiter,
        from,
        page_size: page_size(query)?,
        include: included,
    })
}

pub(super) fn found(
    query: &Query,
    container: Option<ContainerName>,
) -> Result<FindBlobsByTags, ServiceError> {
    let text = given(query, "where").ok_or_else(|| missing("where"))?;
    let filter = tag_filter_text::parse_find(text).map_err(|error| {
        let message =
            format!("Error parsing query at or near character position {}: {}", error.position, error.reason);
        invalid_value("where", text, "").with_message(message)
    })?;
    let from = match given(query, "marker") {
        Some(text) => Some(marker::parse_found(text).ok_or_else(|| invalid_value("marker", text, ""))?),
        None => None,
    };
    let (mut with_deleted, mut with_versions) = (false, false);
    include(query, &mut [("deleted", &mut with_deleted), ("versions", &mut with_versions)])?;
    Ok(FindBlobsByTags { container, filter, from, page_size: page_size(query)?, with_deleted, with_versions })
}

fn page_size(query: &Query) -> Result<usize, ServiceError> {
    let asked = ranged(query, "maxresults", 1, i64::from(i32::MAX))?;
    Ok(asked.map_or(MAX_PAGE_SIZE, |size| (size as usize).min(MAX_PAGE_SIZE)))
}

/// Sets what the words of `include` stand for. Empty and repeated ones do no harm, unknown ones do.
fn include(query: &Query, known: &mut [(&str, &mut bool)]) -> Result<(), ServiceError> {
    let text = given(query, "include").unwrap_or_default();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match known.iter_mut().find(|(name, _)| word.eq_ignore_ascii_case(name)) {
            Some((_, flag)) => **flag = true,
            None => return Err(invalid_value("include", text, "")),
        }
    }
    Ok(())
}
