//! Comparing an answer with what the scenario expects of it.

use crate::http::Response;
use crate::json::{Found, Json};
use crate::scenario::{ErrorDress, Expectation, Nth, Service, Step, Subject};
use crate::template::Scope;
use crate::{multipart, pattern, xml};

/// An expectation that was not met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) line: usize,
    pub(crate) expected: String,
    pub(crate) actual: String,
}

/// How much of an answer must be as expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rigour {
    Exact,
    /// Codes and values, not the dress: for servers that are known to differ in it.
    Loose,
}

/// Checks everything that a step expects, and keeps what it captures in the scope.
pub(crate) fn check(
    service: Service,
    step: &Step,
    response: &Response,
    scope: &mut Scope,
    rigour: Rigour,
) -> Vec<Mismatch> {
    let mut mismatches = Vec::new();
    let status = response.status.to_string();
    match scope.text(&step.status) {
        Ok(expected) if expected.split(" or ").any(|choice| choice.trim() == status) => {}
        Ok(expected) => mismatches.push(Mismatch {
            line: step.line,
            expected: format!("status {expected}"),
            actual: format!("status {status}"),
        }),
        Err(error) => mismatches.push(Mismatch { line: step.line, expected: error, actual: status }),
    }
    for expectation in &step.expectations {
        if let Err((expected, actual)) = expect(service, expectation, response, scope)
            && !(rigour == Rigour::Loose && forgiven(expectation, response, scope))
        {
            mismatches.push(Mismatch { line: expectation.line, expected, actual });
        }
    }
    mismatches
}

/// Whether a difference is one of dress only.
fn forgiven(expectation: &Expectation, response: &Response, scope: &Scope) -> bool {
    let body = String::from_utf8_lossy(&response.body);
    let value = scope.text(&expectation.value).unwrap_or_default();
    match &expectation.subject {
        Subject::Family | Subject::Message | Subject::Connection => true,
        Subject::Error(_) => value.split(" <or> ").any(|code| body.contains(code)),
        Subject::Header(name) => {
            ["Content-Length", "Content-Type", "x-ms-error-code"].contains(&name.as_str())
        }
        Subject::Body => match (Json::parse(&value), Json::parse(&body)) {
            (Ok(expected), Ok(actual)) => json_matches(&expected, &actual),
            _ => value == "<empty>",
        },
        _ => false,
    }
}

/// What was expected, and what came.
type Difference = (String, String);

fn expect(
    service: Service,
    expectation: &Expectation,
    response: &Response,
    scope: &mut Scope,
) -> Result<(), Difference> {
    let value = scope.text(&expectation.value).map_err(|error| (error, String::new()))?;
    let name = subject_name(expectation);
    let wanted = || format!("{name}: {value}");
    let part;
    let (response, is_part) = match expectation.part {
        None => (response, false),
        Some(index) => {
            let parts = multipart::parts(response).map_err(|error| (wanted(), error))?;
            let count = parts.len();
            part = parts.into_iter().nth(index).ok_or_else(|| (wanted(), format!("{count} parts")))?;
            (&part, true)
        }
    };
    let body = String::from_utf8_lossy(&response.body).into_owned();
    let differs = |actual: Option<&str>| {
        (wanted(), actual.map_or("<absent>".to_owned(), |text| format!("{name}: {text}")))
    };
    let text = |actual: Option<String>, scope: &mut Scope| {
        let captured = text_matches(&value, actual.as_deref()).ok_or_else(|| differs(actual.as_deref()))?;
        for (name, text) in captured {
            scope.set(&name, text);
        }
        if let Some(name) = &expectation.capture {
            scope.set(name, actual.unwrap_or_default());
        }
        Ok(())
    };
    match &expectation.subject {
        Subject::Header(name) => text(response.header(name), scope),
        Subject::Body => text(Some(body), scope),
        Subject::Reason => text(Some(response.reason.clone()), scope),
        Subject::Interim => text(response.interim.map(|status| status.to_string()), scope),
        Subject::Connection => text(Some(if response.closed { "closed" } else { "kept" }.to_owned()), scope),
        Subject::Message => text(message(&body), scope),
        Subject::BodyContains if pattern::matches(&format!("<any>{value}<any>"), &body).is_some() => Ok(()),
        Subject::BodyLacks if !body.contains(&value) => Ok(()),
        Subject::BodyContains | Subject::BodyLacks => Err(differs(Some(&body))),
        Subject::Family => family(&value, response).map_err(|actual| (wanted(), actual)),
        Subject::Parts => {
            let parts = multipart::parts(response).map_err(|error| (wanted(), error))?;
            let statuses: Vec<String> = parts.iter().map(|part| part.status.to_string()).collect();
            text(Some(statuses.join(" ")), scope)
        }
        Subject::Xml(name, which) => {
            let texts = xml::texts(&body, name);
            text(
                match which {
                    Nth::Element(index) => texts.into_iter().nth(*index),
                    Nth::All => Some(texts.join(" ")),
                },
                scope,
            )
        }
        Subject::Rows => {
            let json = Json::parse(&body).map_err(|error| (wanted(), error))?;
            let rows = rows(&json).ok_or_else(|| differs(Some(&body)))?;
            if rows == value.split_whitespace().collect::<Vec<_>>() {
                Ok(())
            } else {
                Err(differs(Some(&rows.join(" "))))
            }
        }
        Subject::Json => {
            let json = Json::parse(&body).map_err(|error| (wanted(), error))?;
            let expected = Json::parse(&value).map_err(|error| (error, String::new()))?;
            if json_matches(&expected, &json) { Ok(()) } else { Err(differs(Some(&body))) }
        }
        Subject::Path(path) => {
            let path = scope.text(path).map_err(|error| (error, String::new()))?;
            let json = Json::parse(&body).map_err(|error| (wanted(), error))?;
            let found = json.find(&path);
            if path_matches(&value, &found) {
                if let (Some(name), Found::One(found)) = (&expectation.capture, &found) {
                    scope.set(
                        name,
                        if let Json::Text(text) = found { text.clone() } else { found.to_string() },
                    );
                }
                return Ok(());
            }
            Err(differs(
                match &found {
                    Found::Nothing => None,
                    Found::One(found) => Some(found.to_string()),
                    Found::Many(found) => Some(many(found)),
                }
                .as_deref(),
            ))
        }
        Subject::Error(ErrorDress::Own) if service != Service::Table => {
            storage_error(&value, &body, response)
                .map_err(|(expected, actual)| (format!("{}\n{expected}", wanted()), actual))
        }
        Subject::Error(dress) => error_body(*dress, &value, &body, response, is_part)
            .map_err(|(expected, actual)| (format!("{}\n{expected}", wanted()), actual)),
    }
}

fn subject_name(expectation: &Expectation) -> String {
    let part = expectation.part.map(|index| format!("part[{index}].")).unwrap_or_default();
    let name = match &expectation.subject {
        Subject::Header(name) => name,
        Subject::Body => "body",
        Subject::BodyContains => "body contains",
        Subject::BodyLacks => "body lacks",
        Subject::Json => "json",
        Subject::Path(path) => return format!("{part}body.{path}"),
        Subject::Xml(name, Nth::Element(index)) => return format!("{part}xml.{name}[{index}]"),
        Subject::Xml(name, Nth::All) => return format!("{part}xml.{name}[*]"),
        Subject::Rows => "rows",
        Subject::Parts => "parts",
        Subject::Error(ErrorDress::Own) => "error",
        Subject::Error(ErrorDress::Prefixed) => "xml-error",
        Subject::Error(ErrorDress::Plain) => "plain-error",
        Subject::Message => "message",
        Subject::Family => "family",
        Subject::Reason => "reason",
        Subject::Interim => "interim",
        Subject::Connection => "connection",
    };
    format!("{part}{name}")
}

/// Matches a whole text, or its absence.
fn text_matches(expected: &str, actual: Option<&str>) -> Option<pattern::Captures> {
    let nothing = pattern::Captures::new;
    match (expected, actual) {
        ("<absent>", None) => Some(nothing()),
        ("<absent>", Some(_)) | (_, None) => None,
        ("<empty>", Some(actual)) => actual.is_empty().then(nothing),
        (_, Some(actual)) => match expected.strip_prefix("<not ").and_then(|rest| rest.strip_suffix('>')) {
            Some(other) => (other != actual).then(nothing),
            None => pattern::matches(expected, actual),
        },
    }
}

fn path_matches(expected: &str, found: &Found<'_>) -> bool {
    let found = match found {
        Found::Nothing => return expected == "<absent>",
        Found::Many(found) => {
            let Ok(Json::Array(expected)) = Json::parse(expected) else { return false };
            return expected.len() == found.len()
                && expected.iter().zip(found).all(|(expected, found)| {
                    found.map_or(expected == &Json::Text("<absent>".to_owned()), |found| {
                        json_matches(expected, found)
                    })
                });
        }
        Found::One(found) => *found,
    };
    if let Some(count) = expected.strip_prefix('<').and_then(|rest| rest.strip_suffix(" items>")) {
        return matches!(found, Json::Array(elements) if count == elements.len().to_string());
    }
    match (Json::parse(expected), found) {
        (Ok(expected), _) => json_matches(&expected, found),
        (Err(_), Json::Text(text)) => text_matches(expected, Some(text)).is_some(),
        (Err(_), _) => expected == "<any>",
    }
}

/// The same value; the order of members does not matter, and expected strings may have wildcards.
fn json_matches(expected: &Json, actual: &Json) -> bool {
    match (expected, actual) {
        (Json::Text(expected), Json::Text(actual)) => text_matches(expected, Some(actual)).is_some(),
        (Json::Text(expected), _) if expected == "<any>" => true,
        (Json::Array(expected), Json::Array(actual)) => {
            expected.len() == actual.len()
                && expected.iter().zip(actual).all(|(expected, actual)| json_matches(expected, actual))
        }
        (Json::Object(expected), Json::Object(members)) => {
            expected.len() == members.len()
                && expected.iter().all(|(name, value)| {
                    actual.member(name).is_some_and(|actual| json_matches(value, actual))
                })
        }
        (expected, actual) => expected == actual,
    }
}

fn rows(json: &Json) -> Option<Vec<String>> {
    let Found::Many(found) = json.find("value[*].RowKey") else { return None };
    found
        .into_iter()
        .map(|row| if let Some(Json::Text(row)) = row { Some(row.clone()) } else { None })
        .collect()
}

fn many(found: &[Option<&Json>]) -> String {
    let texts: Vec<String> =
        found.iter().map(|found| found.map_or("\"<absent>\"".to_owned(), Json::to_string)).collect();
    format!("[{}]", texts.join(","))
}

const METADATA: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata";

/// The whole shape of an error answer: Content-Type, body, and the id that both carry.
fn error_body(
    dress: ErrorDress,
    code: &str,
    body: &str,
    response: &Response,
    is_part: bool,
) -> Result<(), Difference> {
    let id = match response.header("x-ms-request-id") {
        Some(id) if !is_part => id,
        _ => "<guid>".to_owned(),
    };
    let declaration = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";
    let (content_type, shape) = match dress {
        ErrorDress::Own => (
            "application/json;odata=<any>;streaming=true;charset=utf-8",
            format!(
                "{{\"odata.error\":{{\"code\":\"CODE\",\"message\":{{\"lang\":\"en-US\",\"value\":\
                 \"<any>\\nRequestId:{id}\\nTime:<time7>\"}}}}}}"
            ),
        ),
        ErrorDress::Prefixed => (
            "application/xml",
            format!(
                "{declaration}<m:error xmlns:m=\"{METADATA}\"><m:code>CODE</m:code><m:message xml:lang=\"en-US\">\
                 <any>\nRequestId:{id}\nTime:<time7></m:message></m:error>"
            ),
        ),
        ErrorDress::Plain => (
            "application/xml;charset=utf-8",
            format!(
                "{declaration}<error xmlns=\"{METADATA}\"><code>CODE</code><message xml:lang=\"en-US\">\
                 <any>\nRequestId:{id}\nTime:<time7></message></error>"
            ),
        ),
    };
    let code = code
        .split(" <or> ")
        .find(|code| body.contains(&format!("{code}{}", if dress == ErrorDress::Own { "\"" } else { "<" })))
        .unwrap_or(code);
    let shape = shape.replace("CODE", code);
    let actual_type = response.header("Content-Type").unwrap_or_default();
    if pattern::matches(&shape, body).is_none() {
        return Err((shape, body.to_owned()));
    }
    if pattern::matches(content_type, &actual_type).is_none() {
        return Err((format!("Content-Type: {content_type}"), format!("Content-Type: {actual_type}")));
    }
    let header = response.header("x-ms-error-code");
    if dress == ErrorDress::Prefixed && header.as_deref() != Some(code) {
        return Err((format!("x-ms-error-code: {code}"), format!("x-ms-error-code: {header:?}")));
    }
    Ok(())
}

/// An error of the queue or the blob service: `<Error>`, perhaps with more elements than code and message.
fn storage_error(code: &str, body: &str, response: &Response) -> Result<(), Difference> {
    let id = response.header("x-ms-request-id").unwrap_or_else(|| "<guid>".to_owned());
    let code = code.split(" <or> ").find(|code| body.contains(&format!(">{code}<"))).unwrap_or(code);
    let shape = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{code}</Code><Message><any>\nRequestId:{id}\n\
         Time:<time7></Message><any></Error>"
    );
    // A byte order mark may come first: real servers send one, and clients take both.
    if pattern::matches(&shape, body.trim_start_matches('\u{feff}')).is_none() {
        return Err((shape, body.to_owned()));
    }
    for (name, expected) in [("Content-Type", "application/xml"), ("x-ms-error-code", code)] {
        let actual = response.header(name);
        if actual.as_deref() != Some(expected) {
            return Err((format!("{name}: {expected}"), format!("{name}: {actual:?}")));
        }
    }
    Ok(())
}

/// The message of an error body in any dress, without what is appended to it.
fn message(body: &str) -> Option<String> {
    let text = match Json::parse(body) {
        Ok(json) => match json.find("odata.error.message.value") {
            Found::One(Json::Text(text)) => text.clone(),
            _ => return None,
        },
        Err(_) => {
            let (_, rest) =
                body.split_once("message xml:lang=\"en-US\">").or_else(|| body.split_once("<Message>"))?;
            xml::unescaped(rest.split_once("</")?.0)
        }
    };
    Some(text.split("\nRequestId:").next().unwrap_or_default().to_owned())
}

/// The headers that the four kinds of answers of the table service have in common, and those of the queue
/// and blob services.
fn family(name: &str, response: &Response) -> Result<(), String> {
    let table_server = "Windows-Azure-Table/1.0 Microsoft-HTTPAPI/2.0";
    let (server, cache, sniff, version) = match name {
        "A" => (table_server, "no-cache", "nosniff", "<any>"),
        "B" => (table_server, "<absent>", "nosniff", "<any>"),
        "C" => (table_server, "<absent>", "<absent>", "<any>"),
        "D" => ("Microsoft-HTTPAPI/2.0", "<absent>", "<absent>", "<absent>"),
        "queue" => ("Windows-Azure-Queue/1.0 Microsoft-HTTPAPI/2.0", "<any>", "<any>", "<any>"),
        "blob" => ("Windows-Azure-Blob/1.0 Microsoft-HTTPAPI/2.0", "<any>", "<any>", "<any>"),
        other => return Err(format!("no such family: {other}")),
    };
    let mut wrong = Vec::new();
    for (header, expected) in [
        ("Server", server),
        ("Cache-Control", cache),
        ("X-Content-Type-Options", sniff),
        ("x-ms-version", version),
        ("x-ms-request-id", "<guid>"),
        ("Date", "<date>"),
    ] {
        let actual = response.header(header);
        let optional = ["queue", "blob"].contains(&name) && expected == "<any>" && header != "x-ms-version";
        if !optional && text_matches(expected, actual.as_deref()).is_none() {
            wrong.push(format!("{header}: {}, not {expected}", actual.as_deref().unwrap_or("<absent>")));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

#[cfg(test)]
mod tests;
