//! What a request wants its answer to look like, apart from what it asks for.

use super::classify::{answers_xml, names_xml};
use super::{Content, content};
use crate::error_body::ErrorFormat;
use crate::query::Query;
use crate::table::format::{self, BodyFormat, DataServiceVersion, Format, MetadataLevel, VersionGates};
use crate::table::select::Select;
use crate::version::ServiceVersion;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use std::borrow::Cow;
use tepui_model::table::OperationKind;
use tepui_model::{ErrorCode, ServiceError};

/// What `Prefer` says about the body of an answer to an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefer {
    Unsaid,
    ReturnContent,
    ReturnNoContent,
}

impl Prefer {
    /// The value of `Preference-Applied`.
    pub fn applied(self) -> Option<&'static str> {
        match self {
            Self::Unsaid => None,
            Self::ReturnContent => Some("return-content"),
            Self::ReturnNoContent => Some("return-no-content"),
        }
    }
}

/// The formats of a request and of its answer.
#[derive(Debug, Clone)]
pub struct Presentation {
    /// Of the answer. Where it has no body, what errors would have.
    pub format: Format,
    /// Of the request's body, if the operation has one.
    pub body_format: BodyFormat,
    pub prefer: Prefer,
    pub select: Select,
}

impl Presentation {
    /// Settles the formats. `outer_accept` counts where the request itself says nothing: in a batch.
    pub fn negotiate(
        kind: OperationKind,
        query: &Query,
        headers: &HeaderMap,
        version: ServiceVersion,
        outer_accept: Option<&str>,
    ) -> Result<Self, ServiceError> {
        use OperationKind::*;
        let gates = gates(version);
        let understood = DataServiceVersion::parse(
            text(headers, &HeaderName::from_static("dataserviceversion"))?,
            text(headers, &HeaderName::from_static("maxdataserviceversion"))?,
        )?;
        check_readable(headers, &ACCEPT)?;
        check_readable(headers, &HeaderName::from_static("prefer"))?;
        let prefer = match kind {
            InsertEntity | CreateTable if version.has_prefer() && understood == DataServiceVersion::V3 => {
                prefer(headers)
            }
            _ => Prefer::Unsaid,
        };
        let answers_body = match kind {
            QueryTables | GetTable | QueryEntities | GetEntity => true,
            InsertEntity | CreateTable => prefer != Prefer::ReturnNoContent,
            _ => false,
        };
        let body_format = if content(kind) == Content::OData {
            format::request_format(text(headers, &CONTENT_TYPE)?, gates)?
        } else {
            BodyFormat::Json
        };
        let accept = accept(headers);
        let format = if answers_body {
            format::negotiate_response(
                accept.as_deref().or(outer_accept),
                query.get("$format"),
                understood,
                gates,
            )?
        } else {
            Format::Json(MetadataLevel::Minimal)
        };
        let select = match query.get("$select") {
            Some(list) if matches!(kind, QueryEntities | GetEntity) && version.has_upsert() => {
                Select::parse(list)?
            }
            _ => Select::everything(),
        };
        Ok(Self { format, body_format, prefer, select })
    }
}

/// The format in which the caller reads errors. `kind` is not known if the request could not be classified.
pub fn error_format(
    kind: Option<OperationKind>,
    query: &Query,
    headers: &HeaderMap,
    version: ServiceVersion,
) -> ErrorFormat {
    // Fidelity: what asks for an XML operation is refused in XML, even before it is one. scenario: error-xml-early
    if kind.map_or_else(|| names_xml(query), answers_xml) {
        return ErrorFormat::Xml;
    }
    match format::error_level(accept(headers).as_deref(), query.get("$format"), gates(version)) {
        Some(level) => ErrorFormat::OData { content_type: level.content_type() },
        None => ErrorFormat::ODataXml,
    }
}

/// What `Prefer` of an insert asks for, as far as its version knows it. Also for errors, which repeat it.
pub fn prefer(headers: &HeaderMap) -> Prefer {
    let mut wishes = headers.get_all("prefer").into_iter().filter_map(|value| value.to_str().ok());
    let is = |list: &str, wanted: &str| list.split(',').any(|wish| wish.trim().eq_ignore_ascii_case(wanted));
    wishes
        .find_map(|list| {
            if is(list, "return-no-content") {
                Some(Prefer::ReturnNoContent)
            } else {
                is(list, "return-content").then_some(Prefer::ReturnContent)
            }
        })
        .unwrap_or(Prefer::Unsaid)
}

/// What `Accept` says, in one list if there are several.
pub fn accept(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let mut lists = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let first = lists.next()?;
    Some(lists.fold(Cow::Borrowed(first), |all, list| Cow::Owned(format!("{all},{list}"))))
}

fn gates(version: ServiceVersion) -> VersionGates {
    VersionGates { json: version.has_json(), atom: !version.atom_removed() }
}

/// The value of a header that is no list. One that is given and cannot be read is refused.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ServiceError> {
    check_readable(headers, name)?;
    let mut lines = headers.get_all(name).into_iter();
    match (lines.next(), lines.next()) {
        (Some(_), Some(_)) => Err(unreadable(name)),
        (value, _) => Ok(value.and_then(|value| value.to_str().ok())),
    }
}

fn check_readable(headers: &HeaderMap, name: &HeaderName) -> Result<(), ServiceError> {
    let readable = headers.get_all(name).into_iter().all(|value| value.to_str().is_ok());
    if readable { Ok(()) } else { Err(unreadable(name)) }
}

fn unreadable(name: &HeaderName) -> ServiceError {
    ServiceError::new(ErrorCode::InvalidHeaderValue).with_detail("HeaderName", name.as_str())
}
