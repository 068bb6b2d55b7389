use super::*;
use proptest::prelude::*;

/// 2015-12-11 and later.
const NEW: VersionGates = VersionGates { json: true, atom: false };
/// 2013-08-15 to 2015-07-08.
const BOTH: VersionGates = VersionGates { json: true, atom: true };
/// Before 2013-08-15.
const OLD: VersionGates = VersionGates { json: false, atom: true };

/// The format as a word: the level of JSON, `atom`, or the error's code.
fn negotiated(
    accept: Option<&str>,
    format: Option<&str>,
    version: DataServiceVersion,
    gates: VersionGates,
) -> &'static str {
    match negotiate_response(accept, format, version, gates) {
        Ok(Format::Json(MetadataLevel::None)) => "none",
        Ok(Format::Json(MetadataLevel::Minimal)) => "minimal",
        Ok(Format::Json(MetadataLevel::Full)) => "full",
        Ok(Format::Atom) => "atom",
        Err(error) => {
            assert_eq!(error.code.status(), 415);
            error.code.name()
        }
    }
}

#[test]
fn accepted_formats() {
    const ATOM: &str = "AtomFormatNotSupported";
    const JSON: &str = "JsonFormatNotSupported";
    const MEDIA: &str = "MediaTypeNotSupported";
    for (accept, new, both, old) in [
        (None, ATOM, "atom", "atom"),
        (Some(""), ATOM, "atom", "atom"),
        (Some("application/json;odata=nometadata"), "none", "none", JSON),
        (Some("application/json;odata=minimalmetadata"), "minimal", "minimal", JSON),
        (Some("application/json;odata=fullmetadata"), "full", "full", JSON),
        (Some("application/json; odata=nometadata; charset=utf-8"), "none", "none", JSON),
        (Some("Application/JSON;OData=FullMetadata;streaming=true"), "full", "full", JSON),
        (Some("application/json"), "minimal", "minimal", JSON),
        (Some("application/json;odata=verbose"), JSON, JSON, JSON),
        (Some("*/*"), "minimal", "atom", "atom"),
        (Some("application/*"), "minimal", "atom", "atom"),
        (Some("application/atom+xml"), ATOM, "atom", "atom"),
        (Some("application/atom+xml,application/xml"), ATOM, "atom", "atom"),
        (Some("application/xml"), ATOM, "atom", "atom"),
        (Some("text/plain"), MEDIA, MEDIA, MEDIA),
        (Some("application/atom+xml,application/json;odata=nometadata"), "none", "atom", "atom"),
        (Some("application/json;q=0.5,application/json;odata=fullmetadata;q=0.9"), "full", "full", JSON),
        (Some("application/xml;q=0.9, application/json;odata=nometadata"), "none", "none", "atom"),
        (Some("application/json;q=0,*/*;q=0.1"), "minimal", "atom", "atom"),
        (Some("text/html, */*;q=0.1"), "minimal", "atom", "atom"),
        (Some(",,"), MEDIA, MEDIA, MEDIA),
    ] {
        for (gates, expected) in [(NEW, new), (BOTH, both), (OLD, old)] {
            assert_eq!(
                negotiated(accept, None, DataServiceVersion::V3, gates),
                expected,
                "{accept:?} {gates:?}"
            );
        }
    }
}

#[test]
fn the_format_parameter_wins() {
    for (format, expected) in [
        ("application/json;odata=fullmetadata", "full"),
        ("application/json;odata=minimalmetadata", "minimal"),
        ("json", "minimal"),
        ("atom", "AtomFormatNotSupported"),
        ("application/atom xml", "AtomFormatNotSupported"),
        ("xyz", "MediaTypeNotSupported"),
        ("", "none"),
    ] {
        let accept = Some("application/json;odata=nometadata");
        assert_eq!(negotiated(accept, Some(format), DataServiceVersion::V3, NEW), expected, "{format}");
    }
    assert_eq!(negotiated(None, Some("json"), DataServiceVersion::V3, NEW), "minimal");
}

#[test]
fn json_needs_data_service_version_3() {
    let json = Some("application/json");
    assert_eq!(negotiated(json, None, DataServiceVersion::V2, BOTH), "JsonFormatNotSupported");
    assert_eq!(negotiated(None, None, DataServiceVersion::V1, BOTH), "atom");
    assert_eq!(
        negotiated(Some("application/json,application/xml"), None, DataServiceVersion::V2, BOTH),
        "atom"
    );
    // Where there is nothing but JSON, the header does not matter.
    assert_eq!(negotiated(json, None, DataServiceVersion::V1, NEW), "minimal");
}

#[test]
fn data_service_versions() {
    use DataServiceVersion::*;
    for (version, max, expected) in [
        (None, None, Some(V3)),
        (Some("3.0"), None, Some(V3)),
        (Some("3.0;"), Some("3.0;NetFx"), Some(V3)),
        (Some("1.0;NetFx"), Some("2.0;NetFx"), Some(V2)),
        (Some("3.0"), Some("1.0"), Some(V1)),
        (Some("1.0"), None, Some(V1)),
        (Some("4.0"), None, None),
        (Some("3.0"), Some("4.0"), None),
        (Some("new"), None, None),
    ] {
        let parsed = DataServiceVersion::parse(version, max);
        assert_eq!(parsed.as_ref().ok(), expected.as_ref(), "{version:?} {max:?}");
    }
}

#[test]
fn formats_of_bodies() {
    for (content_type, new, old) in [
        (Some("application/json"), "Ok(Json)", "JsonFormatNotSupported"),
        (Some("application/json;odata=nometadata"), "Ok(Json)", "JsonFormatNotSupported"),
        (
            Some("application/json; odata=verbose; charset=utf-8; type=entry"),
            "Ok(Json)",
            "JsonFormatNotSupported",
        ),
        (Some("application/atom+xml"), "AtomFormatNotSupported", "Ok(Atom)"),
        (Some("application/atom+xml;type=entry"), "AtomFormatNotSupported", "Ok(Atom)"),
        (Some("multipart/mixed; boundary=batch_x"), "MediaTypeNotSupported", "MediaTypeNotSupported"),
        (Some("text/plain"), "MediaTypeNotSupported", "MediaTypeNotSupported"),
        (Some(""), "MediaTypeNotSupported", "MediaTypeNotSupported"),
        (None, "MediaTypeNotSupported", "MediaTypeNotSupported"),
    ] {
        for (gates, expected) in [(NEW, new), (OLD, old)] {
            let found = match request_format(content_type, gates) {
                Ok(format) => format!("Ok({format:?})"),
                Err(error) => error.code.name().to_owned(),
            };
            assert_eq!(found, expected, "{content_type:?}");
        }
    }
}

#[test]
fn formats_of_errors() {
    for (accept, format, gates, expected) in [
        (None, None, NEW, None),
        (Some("application/atom+xml"), None, NEW, None),
        (Some("text/html"), None, NEW, None),
        (Some("application/json"), None, NEW, Some(MetadataLevel::Minimal)),
        (Some("application/json;odata=nometadata"), None, NEW, Some(MetadataLevel::None)),
        (Some("application/json;odata=fullmetadata"), None, BOTH, Some(MetadataLevel::Full)),
        (Some("application/json;odata=verbose"), None, NEW, Some(MetadataLevel::Minimal)),
        (Some("*/*"), None, NEW, Some(MetadataLevel::Minimal)),
        (Some("*/*"), None, BOTH, None),
        (None, Some("application/json;odata=nometadata"), NEW, Some(MetadataLevel::None)),
        (Some("application/json"), Some("atom"), NEW, None),
        (Some("application/json"), None, OLD, None),
    ] {
        assert_eq!(error_level(accept, format, gates), expected, "{accept:?} {format:?}");
    }
}

#[test]
fn content_types() {
    for (format, shape, expected) in [
        (
            Format::Json(MetadataLevel::None),
            Shape::Feed,
            "application/json;odata=nometadata;streaming=true;charset=utf-8",
        ),
        (
            Format::Json(MetadataLevel::Minimal),
            Shape::Entry,
            "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
        ),
        (
            Format::Json(MetadataLevel::Full),
            Shape::Entry,
            "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
        ),
        (Format::Atom, Shape::Entry, "application/atom+xml;type=entry;charset=utf-8"),
        (Format::Atom, Shape::Feed, "application/atom+xml;type=feed;charset=utf-8"),
    ] {
        assert_eq!(format.content_type(shape), expected);
    }
}

proptest! {
    #[test]
    fn any_header_is_judged(accept in "[a-z/*;=,. q0-9]{0,60}", format in any::<Option<String>>()) {
        let _ = negotiate_response(Some(&accept), format.as_deref(), DataServiceVersion::V3, NEW);
        let _ = request_format(Some(&accept), BOTH);
        let _ = error_level(Some(&accept), format.as_deref(), BOTH);
    }
}
