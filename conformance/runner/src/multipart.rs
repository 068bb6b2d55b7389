//! Batches: building their bodies from a scenario's operations, and taking answers apart. Answers are
//! read strictly, line end by line end, because clients do.

use crate::clock;
use crate::credentials::Credentials;
use crate::http::Response;
use crate::request::{Endpoint, encode_target};
use crate::scenario::{Operation, Section, SectionKind};
use crate::template::Scope;

/// The `boundary` of a Content-Type.
pub(crate) fn boundary(content_type: &str) -> Option<String> {
    let value = content_type.split(';').find_map(|part| part.trim().strip_prefix("boundary="))?;
    Some(value.trim_matches('"').to_owned())
}

/// The body of a batch request.
pub(crate) fn build(
    scope: &Scope,
    endpoint: &Endpoint,
    boundary: &str,
    sections: &[Section],
) -> Result<Vec<u8>, String> {
    let base = &endpoint.base();
    let mut out = Vec::new();
    let mut last_end = "\r\n";
    for section in sections {
        let end = section.end;
        last_end = end;
        match section.kind {
            SectionKind::Query => {
                for operation in &section.operations {
                    out.extend_from_slice(format!("--{boundary}{end}").as_bytes());
                    part(scope, base, operation, end, &mut out)?;
                }
            }
            SectionKind::ChangeSet => {
                let inner = scope.text("changeset_{guid}")?;
                let head =
                    format!("--{boundary}{end}Content-Type: multipart/mixed; boundary={inner}{end}{end}");
                out.extend_from_slice(head.as_bytes());
                for operation in &section.operations {
                    let (name, first, last) = operation.repeat.clone().unwrap_or_default();
                    for i in first..=last {
                        let mut scope = scope.clone();
                        scope.set(&name, i.to_string());
                        out.extend_from_slice(format!("--{inner}{end}").as_bytes());
                        part(&scope, base, operation, end, &mut out)?;
                    }
                }
                out.extend_from_slice(format!("--{inner}--{end}").as_bytes());
            }
            SectionKind::Parts => {
                let mut number = 0;
                for operation in &section.operations {
                    let (name, first, last) = operation.repeat.clone().unwrap_or_default();
                    for i in first..=last {
                        let mut scope = scope.clone();
                        scope.set(&name, i.to_string());
                        out.extend_from_slice(format!("--{boundary}{end}").as_bytes());
                        out.extend(numbered_part(&scope, endpoint, operation, number, end)?);
                        number += 1;
                    }
                }
            }
        }
    }
    out.extend_from_slice(format!("--{boundary}--{last_end}").as_bytes());
    Ok(out)
}

fn part(
    scope: &Scope,
    base: &str,
    operation: &Operation,
    end: &str,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let request = scope.text(&operation.request)?;
    let (verb, target) = request.split_once(' ').ok_or_else(|| format!("not a request: {request}"))?;
    let before = if target.starts_with('/') { base } else { "" };
    let mut lines =
        vec!["Content-Type: application/http".to_owned(), "Content-Transfer-Encoding: binary".to_owned()];
    for header in &operation.mime {
        lines.push(scope.text(header)?);
    }
    lines.push(String::new());
    lines.push(format!("{verb} {before}{} HTTP/1.1", encode_target(target)));
    let names: Vec<&str> = operation.headers.iter().filter_map(|header| header.split(':').next()).collect();
    if !operation.body.is_empty() && !names.iter().any(|name| name.eq_ignore_ascii_case("Content-Type")) {
        lines.push("Content-Type: application/json".to_owned());
    }
    for header in &operation.headers {
        lines.push(scope.text(header)?);
    }
    lines.push(String::new());
    for line in lines {
        out.extend_from_slice(format!("{line}{end}").as_bytes());
    }
    out.extend(scope.bytes(&operation.body)?);
    out.extend_from_slice(end.as_bytes());
    Ok(())
}

/// A part of a batch of blobs: a path without a host, and credentials of its own.
fn numbered_part(
    scope: &Scope,
    endpoint: &Endpoint,
    operation: &Operation,
    number: usize,
    end: &str,
) -> Result<Vec<u8>, String> {
    let request = scope.text(&operation.request)?;
    let (verb, target) = request.split_once(' ').ok_or_else(|| format!("not a request: {request}"))?;
    let mut headers = vec![("x-ms-date".to_owned(), clock::rfc1123(clock::now()))];
    for header in &operation.headers {
        let header = scope.text(header)?;
        let (name, value) = header.split_once(':').ok_or_else(|| format!("not a header: {header}"))?;
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    headers.push(("Content-Length".to_owned(), "0".to_owned()));
    // A target that starts with two slashes is sent without the account.
    let target = match target.strip_prefix("//") {
        Some(rest) => format!("/{rest}"),
        None => format!("{}{target}", endpoint.path()),
    };
    let auth = scope.text(operation.auth.as_deref().unwrap_or("sharedkey"))?;
    let (target, authorization) =
        Credentials::parse(&auth, scope)?.apply(endpoint, verb, &encode_target(&target), &headers)?;
    headers.extend(authorization.map(|authorization| ("Authorization".to_owned(), authorization)));
    let mut lines = vec![
        "Content-Type: application/http".to_owned(),
        "Content-Transfer-Encoding: binary".to_owned(),
        format!("Content-ID: {number}"),
    ];
    for header in &operation.mime {
        lines.push(scope.text(header)?);
    }
    lines.extend([String::new(), format!("{verb} {target} HTTP/1.1")]);
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    lines.push(String::new());
    Ok(lines.iter().map(|line| format!("{line}{end}")).collect::<String>().into_bytes())
}

/// The answers inside a batch answer.
pub(crate) fn parts(response: &Response) -> Result<Vec<Response>, String> {
    let content_type = response.header("Content-Type").unwrap_or_default();
    let outer = boundary(&content_type).ok_or_else(|| format!("not multipart: {content_type}"))?;
    let body = std::str::from_utf8(&response.body).map_err(|_| "the batch answer is not text")?;
    let mut answers = Vec::new();
    for piece in pieces(body, &outer)? {
        let (head, rest) = piece.split_once("\r\n\r\n").ok_or("a part without a blank line")?;
        let kind = head.strip_prefix("Content-Type: ").unwrap_or(head);
        match boundary(kind.lines().next().unwrap_or("")) {
            Some(inner) => {
                // The end mark of the outer boundary follows the inner one's line end directly.
                for piece in pieces(&format!("{rest}\r\n"), &inner)? {
                    answers.push(answer(piece)?);
                }
            }
            None => answers.push(answer(piece)?),
        }
    }
    Ok(answers)
}

/// What stands between the boundaries, without the line ends that belong to them.
fn pieces<'a>(body: &'a str, boundary: &str) -> Result<Vec<&'a str>, String> {
    let delimiter = format!("--{boundary}");
    let mut rest =
        body.strip_prefix(delimiter.as_str()).ok_or_else(|| format!("does not start with {delimiter}"))?;
    let mut pieces = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix("--") {
            // The blob service ends there, the table service with a line end.
            return if ["\r\n", ""].contains(&after) {
                Ok(pieces)
            } else {
                Err(format!("after the last boundary: {after:?}"))
            };
        }
        rest = rest.strip_prefix("\r\n").ok_or("a boundary without a line end")?;
        let end = rest.find(&format!("\r\n{delimiter}")).ok_or("no closing boundary")?;
        pieces.push(&rest[..end]);
        rest = &rest[end + 2 + delimiter.len()..];
    }
}

fn answer(piece: &str) -> Result<Response, String> {
    let (mime, http) = piece.split_once("\r\n\r\n").ok_or_else(|| format!("no blank line: {piece:?}"))?;
    let number = match mime {
        "Content-Type: application/http\r\nContent-Transfer-Encoding: binary" => None,
        // Of the blob service. The answer to a batch that cannot be read has no number.
        "Content-Type: application/http" => None,
        _ => Some(
            mime.strip_prefix("Content-Type: application/http\r\nContent-ID: ")
                .ok_or_else(|| format!("not an HTTP part: {piece:?}"))?,
        ),
    };
    // An empty body leaves its blank line to the delimiter's line end, with blobs altogether.
    let of_blobs = !mime.contains("Content-Transfer-Encoding");
    let without_body = http.strip_suffix("\r\n").filter(|_| of_blobs).map(|head| (head, ""));
    let (head, body) =
        http.split_once("\r\n\r\n").or(without_body).ok_or_else(|| format!("no blank line: {http:?}"))?;
    if head.replace("\r\n", "").contains(['\r', '\n']) {
        return Err(format!("a bare line end: {head:?}"));
    }
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or("");
    let mut words = first.splitn(3, ' ');
    let status = words.nth(1).and_then(|status| status.parse().ok());
    let mut headers = Vec::new();
    headers.extend(number.map(|number| ("Content-ID".to_owned(), number.to_owned())));
    for line in lines {
        let (name, value) = line.split_once(": ").ok_or_else(|| format!("not a header: {line:?}"))?;
        headers.push((name.to_owned(), value.to_owned()));
    }
    Ok(Response {
        status: status.ok_or_else(|| format!("not a status line: {first:?}"))?,
        reason: words.next().unwrap_or("").to_owned(),
        headers,
        body: body.as_bytes().to_vec(),
        ..Response::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Service;

    fn response(body: &str) -> Response {
        Response {
            headers: vec![("Content-Type".into(), "multipart/mixed; boundary=b".into())],
            body: body.into(),
            ..Response::default()
        }
    }

    const HTTP: &str = "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";

    #[test]
    fn takes_a_change_set_apart() {
        let body = format!(
            "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n{HTTP}HTTP/1.1 204 No Content\r\n\
             ETag: x\r\n\r\n\r\n--c\r\n{HTTP}HTTP/1.1 201 Created\r\nA: b\r\n\r\n{{}}\r\n--c--\r\n--b--\r\n"
        );
        let parts = parts(&response(&body)).unwrap();
        assert_eq!(parts.iter().map(|part| part.status).collect::<Vec<_>>(), [204, 201]);
        assert_eq!((parts[0].body.as_slice(), parts[1].body.as_slice()), (&b""[..], &b"{}"[..]));
        assert_eq!(parts[0].header("etag").as_deref(), Some("x"));
    }

    #[test]
    fn refuses_wrong_line_ends() {
        let good = format!("--b\r\n{HTTP}HTTP/1.1 200 OK\r\nA: b\r\n\r\n{{}}\r\n--b--\r\n");
        assert_eq!(parts(&response(&good)).unwrap().len(), 1);
        for bad in
            [good.replace("\r\n", "\n"), good.replace("--b--\r\n", "--b--\n"), good.replace("OK\r\n", "OK\n")]
        {
            assert!(parts(&response(&bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn builds_a_change_set() {
        let operation = Operation {
            repeat: Some(("i".into(), 1, 2)),
            request: "POST /T".into(),
            body: "{\"RowKey\":\"{i}\"}".into(),
            ..Operation::default()
        };
        let section = Section { kind: SectionKind::ChangeSet, end: "\r\n", operations: vec![operation] };
        let endpoint = Endpoint::parse(Service::Table, "http://h:1/a", None, "AAAA").unwrap();
        let body = build(&Scope::new(), &endpoint, "b", &[section]).unwrap();
        let text = String::from_utf8(body).unwrap();
        assert_eq!(
            text.matches("POST http://h:1/a/T HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{").count(),
            2
        );
        assert!(
            text.contains("{\"RowKey\":\"2\"}\r\n--changeset_") && text.ends_with("--\r\n--b--\r\n"),
            "{text}"
        );
    }
}
