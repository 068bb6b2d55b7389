//! The record of the settings of the Blob service.

use super::{Kind, Reader, Writer, corrupt, read_service_properties, write_service_properties};
use bytes::Bytes;
use tepui_model::ServiceError;
use tepui_model::blob::{BlobServiceProperties, DeleteRetention, StaticWebsite};

pub(crate) fn encode_blob_settings(settings: &BlobServiceProperties) -> Bytes {
    let BlobServiceProperties { shared, default_version, delete_retention, static_website } = settings;
    let mut out = Writer::new(Kind::BlobServiceProperties);
    write_service_properties(&mut out, shared);
    out.optional(default_version.as_deref(), Writer::text);
    out.optional(delete_retention.days, |out, days| out.number(days.into()));
    out.flag(delete_retention.allow_permanent_delete);
    out.flag(static_website.enabled);
    for text in [
        &static_website.index_document,
        &static_website.error_document,
        &static_website.default_index_document,
    ] {
        out.optional(text.as_deref(), Writer::text);
    }
    out.finish()
}

pub(crate) fn decode_blob_settings(bytes: &[u8]) -> Result<BlobServiceProperties, ServiceError> {
    read(bytes).ok_or_else(|| corrupt(Kind::BlobServiceProperties))
}

fn read(bytes: &[u8]) -> Option<BlobServiceProperties> {
    let mut from = Reader::new(bytes, Kind::BlobServiceProperties)?;
    Some(BlobServiceProperties {
        shared: read_service_properties(&mut from)?,
        default_version: from.optional(Reader::text)?,
        delete_retention: DeleteRetention {
            days: from.optional(|from| u32::try_from(from.number()?).ok())?,
            allow_permanent_delete: from.flag()?,
        },
        static_website: StaticWebsite {
            enabled: from.flag()?,
            index_document: from.optional(Reader::text)?,
            error_document: from.optional(Reader::text)?,
            default_index_document: from.optional(Reader::text)?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn settings_are_read_back() {
        let mut settings = BlobServiceProperties {
            default_version: Some("2021-08-06".to_owned()),
            delete_retention: DeleteRetention { days: Some(7), allow_permanent_delete: true },
            ..Default::default()
        };
        settings.shared.logging.read = true;
        settings.static_website.error_document = Some("404.html".to_owned());
        assert_eq!(decode_blob_settings(&encode_blob_settings(&settings)), Ok(settings));
    }

    proptest! {
        #[test]
        fn foreign_records_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode_blob_settings(&bytes);
        }
    }
}
