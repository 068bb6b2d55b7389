//! Scenario files as text → [`Scenario`]s. The format is described in `conformance/scenarios/README.md`.

use crate::parse_expect;
use crate::scenario::{Body, Item, Operation, Row, Scenario, Section, SectionKind, Service, Step};
use crate::template::range;
use std::path::Path;

/// All scenarios of a file.
pub(crate) fn parse(file: &str, text: &str) -> Result<Vec<Scenario>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut reader = Reader { file, lines: &lines, at: 0 };
    reader.file().map_err(|problem| format!("{file}:{}: {problem}", (reader.at + 1).min(lines.len())))
}

struct Reader<'a> {
    file: &'a str,
    lines: &'a [&'a str],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn skip_blanks_and_comments(&mut self) {
        while self.peek().is_some_and(|line| line.trim().is_empty() || is_comment(line)) {
            self.at += 1;
        }
    }

    fn file(&mut self) -> Result<Vec<Scenario>, String> {
        let mut scenarios = Vec::new();
        let mut all_serial = false;
        loop {
            self.skip_blanks_and_comments();
            let Some(line) = self.peek() else { return Ok(scenarios) };
            if line.trim() == "serial" {
                all_serial = true;
                self.at += 1;
            } else if let Some(heading) = line.strip_prefix("## ") {
                let (name, title) = heading.split_once(": ").ok_or("a heading reads '## name: title'")?;
                let spelled = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
                if !name.bytes().all(spelled) {
                    return Err(format!("a name has small letters, digits and dashes: {name}"));
                }
                let line = self.at + 1;
                self.at += 1;
                let mut serial = all_serial;
                self.skip_blanks_and_comments();
                if self.peek().is_some_and(|line| line.trim() == "serial") {
                    serial = true;
                    self.at += 1;
                }
                let items = self.items()?;
                let (name, title, file) = (name.to_owned(), title.to_owned(), self.file.to_owned());
                let service = Service::of_file(Path::new(self.file));
                scenarios.push(Scenario { name, title, file, service, line, serial, items });
            } else {
                return Err(format!("wanted '## name: title': {line}"));
            }
        }
    }

    /// Until the end of the scenario, or an `end`.
    fn items(&mut self) -> Result<Vec<Item>, String> {
        let mut items = Vec::new();
        loop {
            self.skip_blanks_and_comments();
            match self.peek() {
                None => return Ok(items),
                Some(line) if line.starts_with("## ") || line.trim() == "end" => return Ok(items),
                Some(_) => items.push(self.item()?),
            }
        }
    }

    fn item(&mut self) -> Result<Item, String> {
        self.skip_blanks_and_comments();
        let line = self.at + 1;
        let text = self.peek().ok_or("the scenario ends within a loop")?;
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        let item = match word {
            "table" => Item::Table { line, name: rest.to_owned() },
            "queue" => Item::Queue { line, name: rest.to_owned() },
            "container" => Item::Container { line, name: rest.to_owned() },
            "blob" => {
                let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
                Item::Blob { line, path: path.to_owned(), text: text.to_owned() }
            }
            "put" => {
                let (queue, text) = rest.split_once(' ').ok_or("put QUEUE TEXT")?;
                Item::Put { line, queue: queue.to_owned(), text: text.to_owned() }
            }
            "name" => Item::Name { name: rest.to_owned() },
            "insert" => {
                let (table, body) = rest.split_once(' ').ok_or("insert TABLE {…}")?;
                Item::Insert { line, table: table.to_owned(), body: body.to_owned() }
            }
            "let" => {
                let (name, value) = rest.split_once(" = ").ok_or("let NAME = TEXT")?;
                Item::Let { line, name: name.to_owned(), value: value.to_owned() }
            }
            "wait" => {
                let milliseconds = rest.strip_suffix("ms").and_then(|count| count.parse().ok());
                Item::Wait { milliseconds: milliseconds.ok_or("wait NUMBERms")? }
            }
            "for" => {
                let (name, first, last) = parse_for(rest)?;
                self.at += 1;
                let rows = (first..=last).map(|i| vec![(name.clone(), i.to_string())]).collect();
                return self.looped(line, rows);
            }
            "each" => {
                self.at += 1;
                let rows = self.rows(rest)?;
                return self.looped(line, rows);
            }
            _ => return self.step().map(|step| Item::Step(Box::new(step))),
        };
        self.at += 1;
        Ok(item)
    }

    /// The rows of an `each`: lines that start with `|`.
    fn rows(&mut self, names: &str) -> Result<Vec<Row>, String> {
        let names: Vec<&str> = names.split('|').map(str::trim).collect();
        let mut rows = Vec::new();
        loop {
            self.skip_blanks_and_comments();
            let Some(line) = self.peek().and_then(|line| line.strip_prefix('|')) else { break };
            // A bar at the end of the line opens an empty cell.
            let line = format!("{line} ");
            let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
            if cells.len() != names.len() {
                return Err(format!("{} cells for {} names", cells.len(), names.len()));
            }
            let pair = |(name, cell): (&&str, &&str)| ((*name).to_owned(), (*cell).to_owned());
            rows.push(names.iter().zip(&cells).map(pair).collect());
            self.at += 1;
        }
        if rows.is_empty() { Err("no rows, which start with '|'".to_owned()) } else { Ok(rows) }
    }

    /// A loop reaches to the next `end`; without one before the next loop or scenario, over one item.
    fn looped(&mut self, line: usize, rows: Vec<Row>) -> Result<Item, String> {
        let reaches = self.lines[self.at..]
            .iter()
            .find(|line| {
                ["## ", "for ", "each "].iter().any(|word| line.starts_with(word)) || line.trim() == "end"
            })
            .is_some_and(|line| line.trim() == "end");
        let items = if reaches { self.items()? } else { vec![self.item()?] };
        if reaches {
            self.at += 1;
        }
        Ok(Item::Loop { line, rows, items })
    }

    fn step(&mut self) -> Result<Step, String> {
        let mut step = Step { line: self.at + 1, auth: "sharedkey".to_owned(), ..Step::default() };
        let first = self.peek().unwrap_or_default();
        self.at += 1;
        if first.trim() != "raw" {
            let (verb, target) = first.split_once(' ').ok_or_else(|| format!("not a request: {first}"))?;
            let filled_in = verb.starts_with('{') && verb.ends_with('}') && target.starts_with(['/', '{']);
            if verb.is_empty() || !(filled_in || verb.bytes().all(|byte| byte.is_ascii_uppercase())) {
                self.at -= 1;
                return Err(format!("not a request: {first}"));
            }
            (step.verb, step.target) = (verb.to_owned(), target.trim().to_owned());
        }
        self.step_headers(&mut step)?;
        self.step_body(&mut step)?;
        let Some(expected) = self.peek().and_then(|line| line.strip_prefix("=>")) else {
            return Err("a request is followed by '=> status'".to_owned());
        };
        let mut wanted = vec![(self.at + 1, expected.trim().to_owned())];
        self.at += 1;
        while let Some(line) = self.peek() {
            if is_comment(line.trim_start()) {
                self.at += 1;
            } else if line.starts_with(' ') && !line.trim().is_empty() {
                wanted.push((self.at + 1, line.trim().to_owned()));
                self.at += 1;
            } else {
                break;
            }
        }
        (step.status, step.expectations) = parse_expect::parse(&wanted)?;
        Ok(step)
    }

    fn step_headers(&mut self, step: &mut Step) -> Result<(), String> {
        while let Some(line) = self.peek() {
            if is_comment(line) {
                self.at += 1;
                continue;
            }
            if let Some(name) = line.strip_prefix('-').filter(|name| is_header_name(name.trim())) {
                step.without.push(name.trim().to_owned());
            } else {
                let Some((name, value)) = line.split_once(':').filter(|(name, _)| is_header_name(name))
                else {
                    return Ok(());
                };
                let value = value.trim().to_owned();
                match name {
                    "auth" => step.auth = value,
                    "send" => step.send = value,
                    "address" => step.address = value,
                    "with" => step.more_headers = value,
                    _ => step.headers.push((name.to_owned(), value)),
                }
            }
            self.at += 1;
        }
        Ok(())
    }

    fn step_body(&mut self, step: &mut Step) -> Result<(), String> {
        let line = self.peek().unwrap_or_default();
        if line.starts_with("=>") {
            return Ok(());
        }
        let (word, end) = section_words(line);
        match word {
            "crlf" | "lf" => {
                self.at += 1;
                step.body =
                    Body::Lines { end: if word == "lf" { "\n" } else { "\r\n" }, lines: self.piped() };
            }
            "changeset" | "query" | "parts" => {
                let mut sections = Vec::new();
                while let (word @ ("changeset" | "query" | "parts"), end) =
                    section_words(self.peek().unwrap_or_default())
                {
                    self.at += 1;
                    let kind = match word {
                        "query" => SectionKind::Query,
                        "parts" => SectionKind::Parts,
                        _ => SectionKind::ChangeSet,
                    };
                    sections.push(Section { kind, end, operations: self.operations()? });
                }
                step.body = Body::Batch(sections);
            }
            _ if line.starts_with('|') => step.body = Body::Lines { end, lines: self.piped() },
            _ => {
                if line.trim().is_empty() {
                    self.at += 1;
                }
                let mut body = Vec::new();
                while let Some(line) = self.peek().filter(|line| !line.starts_with("=>")) {
                    body.push(line);
                    self.at += 1;
                }
                while body.last().is_some_and(|line| line.trim().is_empty()) {
                    body.pop();
                }
                step.body = Body::Text(body.join("\n"));
            }
        }
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
        Ok(())
    }

    /// Lines that start with `|`, without it and one blank after it.
    fn piped(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.peek().and_then(|line| line.strip_prefix('|')) {
            lines.push(line.strip_prefix(' ').unwrap_or(line).to_owned());
            self.at += 1;
        }
        lines
    }

    /// The indented operations of a batch section, with blank lines between them.
    fn operations(&mut self) -> Result<Vec<Operation>, String> {
        let mut operations = Vec::new();
        let mut current: Option<Operation> = None;
        while let Some(line) = self.peek().filter(|line| line.trim().is_empty() || line.starts_with("  ")) {
            self.at += 1;
            let Some(text) = line.strip_prefix("  ").filter(|text| !text.trim().is_empty()) else {
                operations.extend(current.take());
                continue;
            };
            let operation = current.get_or_insert_default();
            if let Some(rest) = text.strip_prefix("for ") {
                operation.repeat = Some(parse_for(rest)?);
            } else if let Some(header) = text.strip_prefix("mime ") {
                operation.mime.push(header.to_owned());
            } else if let Some(auth) = text.strip_prefix("auth: ") {
                operation.auth = Some(auth.to_owned());
            } else if operation.request.is_empty() {
                operation.request = text.to_owned();
            } else if operation.body.is_empty()
                && text.split_once(':').is_some_and(|(name, _)| is_header_name(name))
            {
                operation.headers.push(text.to_owned());
            } else {
                let line_end = if operation.body.is_empty() { "" } else { "\n" };
                operation.body += &format!("{line_end}{text}");
            }
        }
        operations.extend(current);
        Ok(operations)
    }
}

/// `changeset`, `changeset lf`, `query`, `crlf`, `lf`: the word, and the line end it asks for.
fn section_words(line: &str) -> (&str, &'static str) {
    match line.trim().split_once(' ') {
        Some((word, "lf")) => (word, "\n"),
        _ => (line.trim(), "\r\n"),
    }
}

fn parse_for(text: &str) -> Result<(String, u64, u64), String> {
    let (name, span) = text.split_once(" in ").ok_or("for NAME in 1..3")?;
    let (first, last) = range(span).ok_or("for NAME in 1..3")?;
    Ok((name.trim().to_owned(), first, last))
}

fn is_comment(line: &str) -> bool {
    line == "#" || line.starts_with("# ")
}

fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

#[cfg(test)]
mod tests;
