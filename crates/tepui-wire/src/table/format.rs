//! Content negotiation: in which format a body comes and in which the answer goes.
//!
//! Follows the REST page "Payload format for Table service operations". JSON came with 2013-08-15,
//! Atom went with 2015-12-11.

use tepui_model::{ErrorCode, ServiceError};

/// How much a JSON answer says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataLevel {
    None,
    Minimal,
    Full,
}

/// The format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json(MetadataLevel),
    Atom,
}

/// The format of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFormat {
    Json,
    Atom,
}

/// Whether a body holds one thing or a set of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Entry,
    Feed,
}

/// What the version of the request allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionGates {
    /// Since 2013-08-15.
    pub json: bool,
    /// Before 2015-12-11.
    pub atom: bool,
}

/// The OData version that the caller understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataServiceVersion {
    V1,
    V2,
    V3,
}

impl DataServiceVersion {
    /// From the headers `DataServiceVersion` and `MaxDataServiceVersion`, of which the latter wins.
    pub fn parse(version: Option<&str>, max: Option<&str>) -> Result<Self, ServiceError> {
        let Some(text) = max.or(version) else { return Ok(Self::V3) };
        // Clients add who they are: `3.0;NetFx`, or nothing: `3.0;`.
        match text.split(';').next().unwrap_or_default().trim() {
            "" | "3.0" | "3" => Ok(Self::V3),
            "2.0" | "2" => Ok(Self::V2),
            "1.0" | "1" => Ok(Self::V1),
            _ => Err(ErrorCode::InvalidHeaderValue.into()),
        }
    }
}

impl MetadataLevel {
    /// The `Content-Type` of JSON at this level, of answers and of errors.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::None => "application/json;odata=nometadata;streaming=true;charset=utf-8",
            Self::Minimal => "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
            Self::Full => "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
        }
    }
}

impl Format {
    /// The `Content-Type` of an answer.
    pub fn content_type(self, shape: Shape) -> &'static str {
        match (self, shape) {
            (Self::Json(level), _) => level.content_type(),
            (Self::Atom, Shape::Entry) => "application/atom+xml;type=entry;charset=utf-8",
            (Self::Atom, Shape::Feed) => "application/atom+xml;type=feed;charset=utf-8",
        }
    }
}

/// The format of the answer. `$format` wins over `Accept`.
///
/// Only for operations whose answer has a body: the others succeed whatever is accepted.
pub fn negotiate_response(
    accept: Option<&str>,
    format_param: Option<&str>,
    understood: DataServiceVersion,
    gates: VersionGates,
) -> Result<Format, ServiceError> {
    // Versions that have both formats need to be told that the caller knows JSON.
    let json_allowed = gates.json && (!gates.atom || understood == DataServiceVersion::V3);
    let choose = |offer: Offer| match offer {
        Offer::Json(level) if json_allowed => Ok(Format::Json(level)),
        Offer::Json(_) | Offer::OtherJson => Err(ErrorCode::JsonFormatNotSupported),
        Offer::Atom if gates.atom => Ok(Format::Atom),
        Offer::Atom => Err(ErrorCode::AtomFormatNotSupported),
        Offer::Anything if gates.atom => Ok(Format::Atom),
        Offer::Anything => Ok(Format::Json(MetadataLevel::Minimal)),
        Offer::Unknown => Err(ErrorCode::MediaTypeNotSupported),
    };
    // Fidelity: no wish at all means Atom, also where Atom is refused. scenario: accept-absent
    let Some(wishes) = wishes(accept, format_param) else {
        return choose(Offer::Atom).map_err(Into::into);
    };
    let mut best: Option<(u32, Format)> = None;
    let mut refusal = None;
    for (offer, quality) in offers(wishes) {
        match choose(offer) {
            Ok(format) if best.is_none_or(|(than, _)| quality > than) => best = Some((quality, format)),
            Ok(_) => {}
            Err(code) => refusal = refusal.or(Some(code)),
        }
    }
    match best {
        Some((_, format)) => Ok(format),
        None => Err(refusal.unwrap_or(ErrorCode::MediaTypeNotSupported).into()),
    }
}

/// The format of a request's body.
pub fn request_format(content_type: Option<&str>, gates: VersionGates) -> Result<BodyFormat, ServiceError> {
    match content_type.map(|text| offer(text).0) {
        Some(Offer::Json(_) | Offer::OtherJson) if gates.json => Ok(BodyFormat::Json),
        Some(Offer::Json(_) | Offer::OtherJson) => Err(ErrorCode::JsonFormatNotSupported.into()),
        Some(Offer::Atom) if gates.atom => Ok(BodyFormat::Atom),
        Some(Offer::Atom) => Err(ErrorCode::AtomFormatNotSupported.into()),
        Some(Offer::Anything | Offer::Unknown) | None => Err(ErrorCode::MediaTypeNotSupported.into()),
    }
}

/// The format of an error: JSON for those who accept it, at the level they ask for. `None`: XML.
pub fn error_level(
    accept: Option<&str>,
    format_param: Option<&str>,
    gates: VersionGates,
) -> Option<MetadataLevel> {
    if !gates.json {
        return None;
    }
    let mut best: Option<(u32, MetadataLevel)> = None;
    for (offer, quality) in wishes(accept, format_param).map(offers).into_iter().flatten() {
        let level = match offer {
            Offer::Json(level) => level,
            Offer::OtherJson => MetadataLevel::Minimal,
            Offer::Anything if !gates.atom => MetadataLevel::Minimal,
            Offer::Anything | Offer::Atom | Offer::Unknown => continue,
        };
        if best.is_none_or(|(than, _)| quality > than) {
            best = Some((quality, level));
        }
    }
    best.map(|(_, level)| level)
}

/// What one alternative of `Accept`, or a `Content-Type`, stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    Json(MetadataLevel),
    /// JSON at a level that does not exist, such as `odata=verbose`.
    OtherJson,
    Atom,
    Anything,
    Unknown,
}

fn wishes<'a>(accept: Option<&'a str>, format_param: Option<&'a str>) -> Option<&'a str> {
    let said = |text: &&str| !text.trim().is_empty();
    format_param.filter(said).or(accept.filter(said))
}

/// The alternatives with their q-values in thousandths; those that are refused with `q=0` left out.
fn offers(text: &str) -> impl Iterator<Item = (Offer, u32)> {
    text.split(',').filter(|part| !part.trim().is_empty()).map(offer).filter(|(_, quality)| *quality > 0)
}

fn offer(text: &str) -> (Offer, u32) {
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    let (mut level, mut quality) = (Some(MetadataLevel::Minimal), 1000);
    for parameter in parts {
        let Some((name, value)) = parameter.split_once('=') else { continue };
        let (name, value) = (name.trim(), value.trim().trim_matches('"'));
        if name.eq_ignore_ascii_case("odata") {
            level = parse_level(value);
        } else if name.eq_ignore_ascii_case("q") {
            quality = parse_quality(value);
        }
    }
    let is = |names: &[&str]| names.iter().any(|name| kind.eq_ignore_ascii_case(name));
    let offer = if is(&["application/json", "json"]) {
        level.map_or(Offer::OtherJson, Offer::Json)
    // A plus sign in `$format` may have been read as a blank.
    } else if is(&["application/atom+xml", "application/atom xml", "application/xml", "text/xml", "atom"]) {
        Offer::Atom
    } else if is(&["*/*", "application/*", "*"]) {
        Offer::Anything
    } else {
        Offer::Unknown
    };
    (offer, quality)
}

fn parse_level(value: &str) -> Option<MetadataLevel> {
    [
        ("nometadata", MetadataLevel::None),
        ("minimalmetadata", MetadataLevel::Minimal),
        ("fullmetadata", MetadataLevel::Full),
    ]
    .into_iter()
    .find(|(name, _)| value.eq_ignore_ascii_case(name))
    .map(|(_, level)| level)
}

fn parse_quality(value: &str) -> u32 {
    let quality = value.parse::<f64>().unwrap_or(1.0);
    (quality.clamp(0.0, 1.0) * 1000.0) as u32
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
