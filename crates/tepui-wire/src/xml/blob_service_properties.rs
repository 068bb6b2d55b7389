//! The settings of the Blob service as XML: those of all services, and then those of its own.

use super::Printer;
use super::document::{self, Element, invalid};
use super::service_properties::{MAX_RETENTION_DAYS, ROOT, print_bool, print_shared, take_shared};
use crate::address::Service;
use crate::version::ServiceVersion;
use tepui_model::ServiceError;
use tepui_model::blob::{BlobServiceProperties, BlobServicePropertiesChange, DeleteRetention, StaticWebsite};

/// Reads the body of Set Blob Service Properties. Groups come in any order and may be left out, but not all.
pub fn parse_blob_service_properties(
    body: &[u8],
    version: ServiceVersion,
) -> Result<BlobServicePropertiesChange, ServiceError> {
    let mut root = document::parse(body, ROOT)?;
    let change = take_groups(&mut root, version)?;
    root.done()?;
    if change == BlobServicePropertiesChange::default() {
        return Err(invalid("no group at all"));
    }
    Ok(change)
}

/// What the body of Get Blob Service Properties says. Groups that are not known are passed over. `None` if it cannot be
/// read.
pub(crate) fn receive_blob_service_properties(
    body: &[u8],
    version: ServiceVersion,
) -> Option<BlobServiceProperties> {
    let mut root = document::parse(body, ROOT).ok()?;
    let mut properties = BlobServiceProperties::default();
    take_groups(&mut root, version).ok()?.apply(&mut properties);
    Some(properties)
}

fn take_groups(
    root: &mut Element,
    version: ServiceVersion,
) -> Result<BlobServicePropertiesChange, ServiceError> {
    let mut change = BlobServicePropertiesChange {
        shared: take_shared(root, version)?,
        default_version: root.take("DefaultServiceVersion").map(read_version).transpose()?.flatten(),
        ..Default::default()
    };
    if version.has_soft_delete() {
        change.delete_retention = root.take("DeleteRetentionPolicy").map(read_retention).transpose()?;
    }
    if version.has_static_website() {
        change.static_website = root.take("StaticWebsite").map(read_website).transpose()?;
    }
    Ok(change)
}

/// An empty element says as little as none.
fn read_version(element: Element) -> Result<Option<String>, ServiceError> {
    match element.into_text()?.trim() {
        "" => Ok(None),
        text if ServiceVersion::parse(text).is_some() => Ok(Some(text.to_owned())),
        _ => Err(invalid("not a version")),
    }
}

fn read_retention(mut element: Element) -> Result<DeleteRetention, ServiceError> {
    let enabled = element.require("Enabled")?.bool()?;
    let days = element.take("Days").map(Element::number).transpose()?;
    let permanent = element.take("AllowPermanentDelete").map(Element::bool).transpose()?;
    element.done()?;
    let days = match days {
        _ if !enabled => None,
        Some(days) if (1..=MAX_RETENTION_DAYS).contains(&days) => Some(days),
        _ => return Err(invalid("days are missing or out of range")),
    };
    Ok(DeleteRetention { days, allow_permanent_delete: permanent.unwrap_or(false) })
}

fn read_website(mut element: Element) -> Result<StaticWebsite, ServiceError> {
    let enabled = element.require("Enabled")?.bool()?;
    let mut document = |name| {
        let text = element.take(name).map(Element::into_text).transpose()?;
        Ok::<_, ServiceError>(text.filter(|text| !text.is_empty()))
    };
    let website = StaticWebsite {
        enabled,
        index_document: document("IndexDocument")?,
        error_document: document("ErrorDocument404Path")?,
        default_index_document: document("DefaultIndexDocumentPath")?,
    };
    element.done()?;
    Ok(website)
}

/// Prints the body of Get Blob Service Properties.
pub fn print_blob_service_properties(properties: &BlobServiceProperties, version: ServiceVersion) -> Vec<u8> {
    let mut body = Printer::new(Service::Blob);
    body.parent(ROOT, |body| {
        print_shared(body, &properties.shared, version);
        if let Some(version) = &properties.default_version {
            body.leaf("DefaultServiceVersion", version);
        }
        if version.has_soft_delete() {
            print_retention(body, &properties.delete_retention);
        }
        if version.has_static_website() {
            print_website(body, &properties.static_website);
        }
    });
    body.finish()
}

fn print_retention(body: &mut Printer, retention: &DeleteRetention) {
    body.parent("DeleteRetentionPolicy", |body| {
        body.leaf("Enabled", print_bool(retention.days.is_some()));
        if let Some(days) = retention.days {
            body.leaf("Days", &days.to_string());
        }
        if retention.allow_permanent_delete {
            body.leaf("AllowPermanentDelete", "true");
        }
    });
}

fn print_website(body: &mut Printer, website: &StaticWebsite) {
    body.parent("StaticWebsite", |body| {
        body.leaf("Enabled", print_bool(website.enabled));
        for (name, document) in [
            ("IndexDocument", &website.index_document),
            ("DefaultIndexDocumentPath", &website.default_index_document),
            ("ErrorDocument404Path", &website.error_document),
        ] {
            if let Some(document) = document {
                body.leaf(name, document);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(groups: &str, version: &str) -> Option<BlobServicePropertiesChange> {
        let body = format!("<{ROOT}>{groups}</{ROOT}>");
        parse_blob_service_properties(body.as_bytes(), ServiceVersion::parse(version).unwrap()).ok()
    }

    #[test]
    fn groups() {
        let retention =
            "<DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days></DeleteRetentionPolicy>";
        let website =
            "<StaticWebsite><Enabled>true</Enabled><IndexDocument>i.html</IndexDocument></StaticWebsite>";
        for (case, groups, version, good) in [
            ("one group", retention.to_owned(), "2026-02-06", true),
            ("two groups", [website, retention].concat(), "2026-02-06", true),
            (
                "a version",
                "<DefaultServiceVersion>2021-08-06</DefaultServiceVersion>".to_owned(),
                "2026-02-06",
                true,
            ),
            (
                "no version",
                "<DefaultServiceVersion>x</DefaultServiceVersion>".to_owned(),
                "2026-02-06",
                false,
            ),
            ("none", String::new(), "2026-02-06", false),
            ("empty rules", "<Cors />".to_owned(), "2026-02-06", true),
            ("no days", retention.replace("<Days>7</Days>", ""), "2026-02-06", false),
            ("too many days", retention.replace('7', "366"), "2026-02-06", false),
            ("not yet known", retention.to_owned(), "2017-04-17", false),
            ("unknown", "<Other />".to_owned(), "2026-02-06", false),
        ] {
            assert_eq!(parse(&groups, version).is_some(), good, "{case}");
        }
    }

    proptest! {
        #[test]
        fn printed_settings_are_read_as_themselves(
            days in proptest::option::of(1u32..=365),
            allow_permanent_delete: bool,
            enabled: bool,
            document in proptest::option::of("[a-z<&]{1,9}"),
        ) {
            let settings = BlobServiceProperties {
                default_version: Some("2021-08-06".to_owned()),
                delete_retention: DeleteRetention { days, allow_permanent_delete },
                static_website: StaticWebsite {
                    enabled,
                    index_document: document.clone(),
                    error_document: document,
                    default_index_document: None,
                },
                ..Default::default()
            };
            let body = print_blob_service_properties(&settings, ServiceVersion::NEWEST);
            let change = parse_blob_service_properties(&body, ServiceVersion::NEWEST).unwrap();
            let mut again = BlobServiceProperties::default();
            change.apply(&mut again);
            prop_assert_eq!(again, settings);
        }
    }
}
