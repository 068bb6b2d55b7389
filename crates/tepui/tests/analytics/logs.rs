//! The logs of an account, as its owner reads them.

use crate::client::{Auth, Request, Service};
use crate::reader::{self, Record};
use crate::session::{port, request};
use crate::support::Server;
use crate::support::blob::inside;
use std::collections::BTreeSet;

/// All that is in `$logs`.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    pub(crate) names: Vec<String>,
    pub(crate) records: Vec<Record>,
}

fn get(server: &Server, path: &str) -> String {
    let traffic = request(Service::Blob, "GET", path).by(Auth::Sas).send(port(server, Service::Blob));
    assert_eq!(traffic.status, 200, "{path}: {}", traffic.text());
    traffic.text()
}

impl Logs {
    /// Reads all of it, and checks what names and metadata say about the lines.
    pub(crate) fn read(server: &Server) -> Self {
        let mut logs = Self::default();
        let list = get(server, "/$logs?restype=container&comp=list&include=metadata");
        assert!(list.contains("<NextMarker />") || list.contains("<NextMarker/>"), "{list}");
        for entry in list.split("<Blob>").skip(1) {
            let name = inside(entry, "Name").unwrap();
            let log = get(server, &format!("/$logs/{name}"));
            let records = reader::read(log.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
            check(name, entry, &records);
            logs.names.push(name.to_owned());
            logs.records.extend(records);
        }
        logs
    }
}

/// Compares what is said about a log with its lines.
fn check(name: &str, entry: &str, records: &[Record]) {
    assert_eq!(inside(entry, "Content-Type"), Some("application/octet-stream"));
    assert_eq!(inside(entry, "BlobType"), Some("BlockBlob"));
    let service = records[0].get("service-type");
    assert!(records.iter().all(|record| record.get("service-type") == service));
    let (folder, file) = name.rsplit_once('/').unwrap();
    let is_number =
        file.len() == 10 && file.ends_with(".log") && file[..6].bytes().all(|b| b.is_ascii_digit());
    assert!(is_number, "{name}");
    // A request may end an hour after it began, but here none takes more than a few seconds.
    let folder_of =
        |time: &str| format!("{service}/{}/{}/{}/{}00", &time[..4], &time[5..7], &time[8..10], &time[11..13]);
    let mut times: Vec<&str> = records.iter().map(|record| record.get("request-start-time")).collect();
    times.sort_unstable();
    let (first, last) = (times[0], times[times.len() - 1]);
    assert!(folder == folder_of(first) || folder > &*folder_of(first), "{name} {first}");
    assert_eq!(inside(entry, "StartTime"), Some(&*format!("{}Z", &first[..19])));
    assert_eq!(inside(entry, "EndTime"), Some(&*format!("{}Z", &last[..19])));
    assert_eq!(inside(entry, "LogVersion"), Some(records[0].get("version-number")));
    let classes: BTreeSet<_> = records.iter().map(class).collect();
    let classes: Vec<_> = classes.into_iter().map(|class| ["read", "write", "delete"][class]).collect();
    assert_eq!(inside(entry, "LogType"), Some(&*classes.join(",")), "{name}");
}

/// 0 for what reads, 1 for what writes, 2 for what deletes.
fn class(record: &Record) -> usize {
    match record.get("operation-type") {
        // Whether there was a message can be told by the length of the answer.
        "GetMessage" | "GetMessages" => usize::from(record.number("response-packet-size") > 100),
        // The session has one, a GET with a wrong signature.
        "Unknown" => 0,
        name if ["Get", "List", "Query", "Peek"].iter().any(|start| name.starts_with(start)) => 0,
        name if name.starts_with("Delete") || name == "ClearMessages" => 2,
        _ => 1,
    }
}

/// Switches logging of a service.
pub(crate) fn set_logging(service: Service, version: &str, read: bool, write: bool, delete: bool) -> Request {
    request(service, "PUT", "/?restype=service&comp=properties").body(&format!(
        "<StorageServiceProperties><Logging><Version>{version}</Version><Delete>{delete}</Delete><Read>{read}</Read>\
        <Write>{write}</Write><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging></StorageServiceProperties>"
    ))
}
