//! The requests of a table's client: entities one by one, in batches and in pages.

use super::http::{Client, Reply};
use serde_json::{Map, Value};
use std::io;

pub(crate) type Properties = Map<String, Value>;

const JSON: (&str, &str) = ("Content-Type", "application/json");
const ACCEPT: (&str, &str) = ("Accept", "application/json;odata=minimalmetadata");
const BRIEF: (&str, &str) = ("Prefer", "return-no-content");

/// One change of an entity, to be sent alone or with others in a batch.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// `POST` inserts, `PUT` replaces, `MERGE` merges, `DELETE` deletes.
    pub(crate) method: &'static str,
    pub(crate) row: String,
    pub(crate) if_match: Option<String>,
    pub(crate) properties: Properties,
}

impl Change {
    pub(crate) fn new(method: &'static str, row: impl Into<String>, properties: Properties) -> Self {
        Self { method, row: row.into(), if_match: None, properties }
    }

    pub(crate) fn if_match(self, etag: impl Into<String>) -> Self {
        Self { if_match: Some(etag.into()), ..self }
    }

    fn path(&self, table: &str, partition: &str) -> String {
        match self.method {
            "POST" => format!("/{table}"),
            _ => entity_path(table, partition, &self.row),
        }
    }

    fn body(&self, partition: &str) -> Vec<u8> {
        if self.method == "DELETE" {
            return Vec::new();
        }
        let mut properties = self.properties.clone();
        if self.method == "POST" {
            properties.insert("PartitionKey".to_owned(), partition.into());
            properties.insert("RowKey".to_owned(), self.row.as_str().into());
        }
        serde_json::to_vec(&properties).unwrap()
    }
}

pub(crate) fn entity_path(table: &str, partition: &str, row: &str) -> String {
    format!("/{table}(PartitionKey='{partition}',RowKey='{row}')")
}

/// The time in an ETag, as text that sorts like it: `12.1Z` is later than `12.05Z`.
pub(crate) fn time_of(etag: &str) -> String {
    let time = etag.strip_prefix("W/\"datetime'").and_then(|rest| rest.strip_suffix("Z'\""));
    let (whole, fraction) = time
        .map(|time| time.split_once('.').unwrap_or((time, "")))
        .unwrap_or_else(|| panic!("not an ETag: {etag}"));
    format!("{whole}.{fraction:0<7}")
}

/// Properties from a JSON object.
pub(crate) fn properties(value: Value) -> Properties {
    match value {
        Value::Object(properties) => properties,
        other => panic!("not an object: {other}"),
    }
}

/// What the server made of a batch.
#[derive(Debug)]
pub(crate) enum Applied {
    /// For each change the ETag it was given; none for deletions.
    All(Vec<Option<String>>),
    /// Refused with this status, and nothing of it was done.
    Refused(u16),
    /// The server failed, or has no time or no space for it.
    Failed(u16, String),
}

impl Client {
    pub(crate) fn create_table(&mut self, table: &str) {
        let body = format!(r#"{{"TableName":"{table}"}}"#);
        let reply = self.request("POST", "/Tables", &[JSON, ACCEPT, BRIEF], body.as_bytes()).unwrap();
        assert_eq!(reply.status, 204, "{}", reply.text());
    }

    /// Makes one change, as a request of its own.
    pub(crate) fn change(&mut self, table: &str, partition: &str, change: &Change) -> io::Result<Reply> {
        let mut headers = vec![JSON, ACCEPT];
        if change.method == "POST" {
            headers.push(BRIEF);
        }
        if let Some(etag) = &change.if_match {
            headers.push(("If-Match", etag));
        }
        self.request(change.method, &change.path(table, partition), &headers, &change.body(partition))
    }

    /// Makes several changes in one entity group transaction.
    pub(crate) fn batch(&mut self, table: &str, partition: &str, changes: &[Change]) -> io::Result<Applied> {
        let body = batch_body(table, partition, changes);
        let content_type = ("Content-Type", "multipart/mixed; boundary=batch_1");
        let reply = self.request("POST", "/$batch", &[content_type, ACCEPT], &body)?;
        let text = reply.text();
        if reply.status >= 500 {
            return Ok(Applied::Failed(reply.status, text));
        }
        assert_eq!(reply.status, 202, "{text}");
        let parts: Vec<&str> = text.split("\r\nHTTP/1.1 ").skip(1).collect();
        let status = |part: &str| part[..3].parse::<u16>().unwrap();
        match parts[..] {
            [part] if status(part) >= 500 => return Ok(Applied::Failed(status(part), text)),
            [part] if status(part) >= 400 => return Ok(Applied::Refused(status(part))),
            _ => {}
        }
        assert_eq!(parts.len(), changes.len(), "{text}");
        let etag = |part: &str| {
            part.lines().find_map(|line| line.strip_prefix("ETag: ")).map(|etag| etag.trim_end().to_owned())
        };
        assert!(parts.iter().all(|part| status(part) < 300), "{text}");
        Ok(Applied::All(parts.into_iter().map(etag).collect()))
    }

    /// Reads an entity; none if there is none.
    pub(crate) fn get(&mut self, table: &str, partition: &str, row: &str) -> io::Result<Option<Properties>> {
        let reply = self.request("GET", &entity_path(table, partition, row), &[ACCEPT], b"")?;
        match reply.status {
            200 => {
                let entity = properties(reply.json());
                assert_eq!(entity["odata.etag"], reply.etag(), "two ETags of one entity");
                Ok(Some(entity))
            }
            404 => Ok(None),
            _ => panic!("{reply:?}"),
        }
    }

    /// One page of a query, and the parameters that ask for the next one if there is one.
    pub(crate) fn page(
        &mut self,
        table: &str,
        options: &str,
        next: &str,
    ) -> io::Result<(Vec<Properties>, Option<String>)> {
        let reply = self.request("GET", &format!("/{table}()?{options}{next}"), &[ACCEPT], b"")?;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let Value::Array(values) = reply.json()["value"].take() else { panic!("{}", reply.text()) };
        let next = reply.header("x-ms-continuation-nextpartitionkey").map(|partition| {
            let row = reply.header("x-ms-continuation-nextrowkey").unwrap_or_default();
            format!("&NextPartitionKey={partition}&NextRowKey={row}")
        });
        Ok((values.into_iter().map(properties).collect(), next))
    }

    /// Every entity that a query finds, page by page.
    pub(crate) fn query(&mut self, table: &str, options: &str) -> io::Result<Vec<Properties>> {
        let (mut all, mut next) = self.page(table, options, "")?;
        while let Some(continuation) = next {
            let (entities, following) = self.page(table, options, &continuation)?;
            all.extend(entities);
            next = following;
        }
        Ok(all)
    }
}

/// The multipart body that [`Client::batch`] sends.
pub(crate) fn batch_body(table: &str, partition: &str, changes: &[Change]) -> Vec<u8> {
    let mut body = b"--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n".to_vec();
    for change in changes {
        body.extend_from_slice(
            b"--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n",
        );
        let path = change.path(table, partition);
        let mut head = format!("{} http://127.0.0.1/devstoreaccount1{path} HTTP/1.1\r\n", change.method);
        head += "Content-Type: application/json\r\nPrefer: return-no-content\r\n";
        if let Some(etag) = &change.if_match {
            head += &format!("If-Match: {etag}\r\n");
        }
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(b"\r\n");
        body.extend_from_slice(&change.body(partition));
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--changeset_1--\r\n--batch_1--\r\n");
    body
}
