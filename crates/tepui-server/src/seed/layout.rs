//! What a file of a seed is for, by its path: `[ACCOUNT/]tables/NAME.csv`, `queues/NAME.jsonl`, `blobs/CONTAINER/…`.

use tepui_model::account::is_account_name;
use tepui_model::blob::{BlobName, ContainerName};
use tepui_model::queue::QueueName;
use tepui_model::table::TableName;

/// What a file or a folder is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// `None`: the account that seeds are for.
    pub(super) account: Option<String>,
    pub(super) kind: PlaceKind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PlaceKind {
    Ignored,
    Table(TableName, EntityFormat),
    Queue(QueueName, MessageFormat),
    Container(ContainerName),
    Blob(ContainerName, BlobName),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntityFormat {
    Csv,
    JsonLines,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageFormat {
    JsonLines,
    /// A message is a line.
    Text,
}

/// What is there for other reasons.
const IGNORED: [&str; 3] = [".gitkeep", ".DS_Store", "Thumbs.db"];
const AREAS: [&str; 3] = ["tables", "queues", "blobs"];

/// The place of a file. The message of an error does not repeat the path.
pub(super) fn file(parts: &[String]) -> Result<Place, String> {
    let name = parts.last().map_or("", String::as_str);
    if IGNORED.contains(&name) || parts.len() == 1 && name.ends_with(".md") {
        return Ok(Place { account: None, kind: PlaceKind::Ignored });
    }
    let (account, parts) = split_account(parts)?;
    let kind = match parts {
        [area, file] if area == "tables" => {
            let (name, format) = match file.rsplit_once('.') {
                Some((name, "csv")) => (name, EntityFormat::Csv),
                Some((name, "jsonl" | "ndjson")) => (name, EntityFormat::JsonLines),
                _ => return Err("entities are in files that end in .csv or .jsonl".to_owned()),
            };
            PlaceKind::Table(TableName::parse(name).map_err(|error| not_a("table", name, &error))?, format)
        }
        [area, file] if area == "queues" => {
            let (name, format) = match file.rsplit_once('.') {
                Some((name, "jsonl" | "ndjson")) => (name, MessageFormat::JsonLines),
                Some((name, "txt")) => (name, MessageFormat::Text),
                _ => return Err("messages are in files that end in .jsonl or .txt".to_owned()),
            };
            PlaceKind::Queue(QueueName::parse(name).map_err(|error| not_a("queue", name, &error))?, format)
        }
        [area, container, name @ ..] if area == "blobs" && !name.is_empty() => {
            let name = name.join("/");
            let blob = BlobName::parse(&name).map_err(|error| not_a("blob", &name, &error))?;
            PlaceKind::Blob(parse_container(container)?, blob)
        }
        _ => return Err(EXPECTED.to_owned()),
    };
    Ok(Place { account, kind })
}

/// The place of a folder.
pub(super) fn folder(parts: &[String]) -> Result<Place, String> {
    let ignored = Place { account: None, kind: PlaceKind::Ignored };
    if let [account] = parts
        && !AREAS.contains(&account.as_str())
    {
        return check_account(account).map(|()| ignored);
    }
    let (account, parts) = split_account(parts)?;
    match parts {
        [area, container] if area == "blobs" => {
            Ok(Place { account, kind: PlaceKind::Container(parse_container(container)?) })
        }
        [area, ..] if area == "blobs" => Ok(ignored),
        [_] => Ok(ignored),
        _ => Err(EXPECTED.to_owned()),
    }
}

const EXPECTED: &str = "a seed has tables/NAME.csv, tables/NAME.jsonl, queues/NAME.jsonl, queues/NAME.txt and \
                        blobs/CONTAINER/NAME, each perhaps below a folder with the name of an account";

/// The account that a path begins with, if it does, and the rest.
fn split_account(parts: &[String]) -> Result<(Option<String>, &[String]), String> {
    match parts {
        [first, rest @ ..] if !AREAS.contains(&first.as_str()) => {
            let is_area = rest.first().is_some_and(|area| AREAS.contains(&area.as_str()));
            if !is_area {
                return Err(EXPECTED.to_owned());
            }
            check_account(first)?;
            Ok((Some(first.clone()), rest))
        }
        parts => Ok((None, parts)),
    }
}

fn check_account(name: &str) -> Result<(), String> {
    match is_account_name(name) {
        true => Ok(()),
        false => Err(format!("this is neither tables, queues or blobs nor the name of an account: {name}")),
    }
}

fn parse_container(name: &str) -> Result<ContainerName, String> {
    match ContainerName::parse(name) {
        Ok(container) if container.is_logs() => Err("only the server writes to $logs".to_owned()),
        Ok(container) => Ok(container),
        Err(error) => Err(not_a("container", name, &error)),
    }
}

fn not_a(what: &str, name: &str, error: &dyn std::fmt::Display) -> String {
    format!("a {what} cannot have this name ({error}): {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let parts = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
        for (path, expected) in [
            ("tables/People.csv", Some("Table People")),
            ("tables/People.jsonl", Some("Table People")),
            ("tables/people.txt", None),
            ("tables/9.csv", None),
            ("tables/a/b.csv", None),
            ("queues/jobs.jsonl", Some("Queue jobs")),
            ("queues/jobs.txt", Some("Queue jobs")),
            ("queues/Jobs.txt", None),
            ("blobs/photos/2026/a.jpg", Some("Blob photos 2026/a.jpg")),
            ("blobs/photos/.hidden", Some("Blob photos .hidden")),
            ("blobs/a.jpg", None),
            ("blobs/$web/index.html", Some("Blob $web index.html")),
            ("blobs/$logs/a", None),
            ("tenant1/tables/People.csv", Some("tenant1 Table People")),
            ("tenant.1/tables/People.csv", None),
            ("tenant1/People.csv", None),
            ("README.md", Some("Ignored")),
            ("notes.txt", None),
            ("tables/.gitkeep", Some("Ignored")),
        ] {
            let told = file(&parts(path)).ok().map(|place| {
                let account = place.account.map(|account| account + " ").unwrap_or_default();
                account
                    + &match place.kind {
                        PlaceKind::Ignored => "Ignored".to_owned(),
                        PlaceKind::Table(name, _) => format!("Table {}", name.as_str()),
                        PlaceKind::Queue(name, _) => format!("Queue {}", name.as_str()),
                        PlaceKind::Container(name) => format!("Container {}", name.as_str()),
                        PlaceKind::Blob(container, name) => format!("Blob {} {name}", container.as_str()),
                    }
            });
            assert_eq!(told.as_deref(), expected, "{path}");
        }
    }
}
