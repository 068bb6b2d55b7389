//! What follows `=>`: a status, and expectations, on the same line after commas or each on its own line.

use crate::scenario::{ErrorDress, Expectation, Nth, Subject};

/// The status, and the expectations of all lines.
pub(crate) fn parse(lines: &[(usize, String)]) -> Result<(String, Vec<Expectation>), String> {
    let (first_line, first) = lines.first().ok_or("no expectation")?;
    let (status, rest) = first.split_once(',').unwrap_or((first, ""));
    let known = |status: &str| status.starts_with('{') || status.parse::<u16>().is_ok();
    if !status.split(" or ").all(|status| known(status.trim())) {
        return Err(format!("not a status: {status}"));
    }
    let mut expectations = Vec::new();
    for piece in split_inline(rest.trim()) {
        expectations.push(expectation(*first_line, piece)?);
    }
    let mut rest = lines[1..].iter().peekable();
    while let Some((line, text)) = rest.next() {
        let mut expectation = expectation(*line, text)?;
        // A block of lines that start with '|' is a longer value.
        let end = if text.ends_with(" crlf:") { "\r\n" } else { "\n" };
        let mut block = Vec::new();
        while let Some((_, text)) = rest.next_if(|(_, text)| text.starts_with('|')) {
            let text = text.strip_prefix('|').unwrap_or(text);
            block.push(text.strip_prefix(' ').unwrap_or(text).to_owned());
        }
        if !block.is_empty() {
            expectation.value = block.join(end) + if end == "\n" { "" } else { end };
        }
        expectations.push(expectation);
    }
    Ok((status.trim().to_owned(), expectations))
}

/// Cuts at `, ` where a new `name: ` follows.
fn split_inline(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(", ") {
        let next = &text[at + 2..];
        let name = next.split_once(':').map(|(name, _)| name);
        let is_name = |name: &str| {
            !name.is_empty()
                && (name.starts_with("body ")
                    || name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@[]*{}/".contains(&byte)))
        };
        if name.is_some_and(is_name) && !name.is_some_and(|name| name.starts_with("http")) {
            pieces.push(&text[start..at]);
            start = at + 2;
        }
    }
    if !text[start..].trim().is_empty() {
        pieces.push(&text[start..]);
    }
    pieces
}

fn expectation(line: usize, text: &str) -> Result<Expectation, String> {
    let (name, value) = cut_name(text).ok_or_else(|| format!("not an expectation: {text}"))?;
    let (part, name) = match name.strip_prefix("part[").and_then(|rest| rest.split_once("].")) {
        Some((index, name)) => (Some(index.parse().map_err(|_| format!("not a part: {text}"))?), name),
        None => (None, name),
    };
    let (value, capture) = match value.rsplit_once(" as ") {
        Some((value, name)) if name.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            (value.trim(), Some(name.to_owned()))
        }
        _ => (value, None),
    };
    let subject = match name {
        "body" | "body crlf" => Subject::Body,
        "body contains" => Subject::BodyContains,
        "body lacks" => Subject::BodyLacks,
        "json" => Subject::Json,
        "rows" => Subject::Rows,
        "parts" => Subject::Parts,
        "error" => Subject::Error(ErrorDress::Own),
        "xml-error" => Subject::Error(ErrorDress::Prefixed),
        "plain-error" => Subject::Error(ErrorDress::Plain),
        "message" => Subject::Message,
        "family" => Subject::Family,
        "reason" => Subject::Reason,
        "interim" => Subject::Interim,
        "connection" => Subject::Connection,
        _ if name.starts_with("xml.") => xml_element(&name[4..]),
        _ => match name
            .strip_prefix("body.")
            .or_else(|| name.strip_prefix("body").filter(|p| p.starts_with('[')))
        {
            Some(path) => Subject::Path(path.to_owned()),
            None => Subject::Header(name.to_owned()),
        },
    };
    Ok(Expectation { line, part, subject, value: value.to_owned(), capture })
}

/// `PopReceipt`, `PopReceipt[1]` or `PopReceipt[*]`.
fn xml_element(text: &str) -> Subject {
    let (name, which) = text.strip_suffix(']').and_then(|text| text.split_once('[')).unwrap_or((text, "0"));
    Subject::Xml(name.to_owned(), which.parse().map_or(Nth::All, Nth::Element))
}

fn cut_name(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(": ").or_else(|| text.strip_suffix(':').map(|name| (name, "")))?;
    Some((name.trim(), value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (String, Vec<Expectation>) {
        let lines: Vec<_> = lines.iter().map(|line| (1, (*line).to_owned())).collect();
        parse(&lines).unwrap()
    }

    #[test]
    fn cuts_a_line_where_names_begin() {
        let (status, wanted) =
            read(&["201, Location: {base}/T(PartitionKey='p', RowKey='r'), ETag: <etag> as one"]);
        assert_eq!(status, "201");
        assert_eq!(wanted.len(), 2);
        assert_eq!(wanted[0].value, "{base}/T(PartitionKey='p', RowKey='r')");
        assert_eq!((wanted[1].value.as_str(), wanted[1].capture.as_deref()), ("<etag>", Some("one")));
    }

    #[test]
    fn reads_parts_paths_and_blocks() {
        let (_, wanted) = read(&[
            "202, parts: 204 201",
            "part[1].error: X",
            "body.value[0].A@odata.type: Edm.Int64",
            "body crlf:",
            "| a",
            "|",
            "message: One, two: three.",
        ]);
        assert_eq!(wanted[0].subject, Subject::Parts);
        assert_eq!((wanted[1].part, &wanted[1].subject), (Some(1), &Subject::Error(ErrorDress::Own)));
        assert_eq!(wanted[2].subject, Subject::Path("value[0].A@odata.type".to_owned()));
        assert_eq!(wanted[3].value, "a\r\n\r\n");
        assert_eq!(wanted[4].value, "One, two: three.");
    }
}
