use super::*;
use crate::address::Service;
use crate::head::sent::Sent;
use ErrorCode::*;
use proptest::prelude::*;
use tepui_model::Timestamp;
use tepui_model::access_policy::AccessPolicy;
use tepui_model::metadata::Metadata;

const ID: &str = "5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11";
const TEXT: &str = "<QueueMessage><MessageText>x</MessageText></QueueMessage>";

/// Decodes a request of one line, `METHOD /path?query`.
fn decoded(line: &str, version: &str, body: &str) -> Result<Call, ServiceError> {
    let sent = Sent::parse(&format!("{line}\nx-ms-meta-team: core"));
    let request = Request::read(&sent.head(Service::Queue, version))?;
    let prepared = request.prepare()?;
    assert_eq!(prepared.queue().map(QueueName::as_str), request.queue());
    prepared.decode(body.as_bytes())
}

fn newest(line: &str, body: &str) -> Result<Call, ServiceError> {
    decoded(line, ServiceVersion::NEWEST.text(), body)
}

fn jobs() -> QueueName {
    QueueName::parse("jobs").unwrap()
}

#[test]
fn requests_become_operations() {
    let metadata = Metadata::new(vec![("team".to_owned(), "core".to_owned())]).unwrap();
    for (line, expected) in [
        ("PUT /jobs", Call::from(Operation::CreateQueue { queue: jobs(), metadata: metadata.clone() })),
        ("DELETE /jobs", Call::from(SequencedOperation::DeleteQueue { queue: jobs() })),
        ("HEAD /jobs?comp=metadata", Call::from(Operation::GetMetadata { queue: jobs() })),
        ("PUT /jobs?comp=metadata", Call::from(Operation::SetMetadata { queue: jobs(), metadata })),
        ("GET /jobs?comp=acl", Call::from(Operation::GetAcl { queue: jobs() })),
        ("PUT /jobs?comp=acl", Call::from(Operation::SetAcl { queue: jobs(), identifiers: vec![] })),
        ("DELETE /jobs/messages", Call::from(SequencedOperation::ClearMessages { queue: jobs() })),
        ("GET /?restype=service&comp=properties", Call::from(Operation::GetServiceProperties)),
        ("GET /?restype=service&comp=stats", Call::from(Operation::GetServiceStats)),
    ] {
        assert_eq!(newest(line, ""), Ok(expected), "{line}");
    }
}

#[test]
fn lists() {
    let list = |prefix: &str, from: Option<&str>, page_size, with_metadata| {
        let (prefix, from) = (prefix.to_owned(), from.map(str::to_owned));
        Operation::ListQueues(ListQueues { prefix, from, page_size, with_metadata })
    };
    for (query, expected) in [
        ("", list("", None, 5000, false)),
        ("&prefix=jo&maxresults=1&include=metadata", list("jo", None, 1, true)),
        ("&Prefix=&marker=&maxresults=&include=", list("", None, 5000, false)),
        ("&maxresults=5001&INCLUDE=Metadata", list("", None, 5000, true)),
        ("&maxresults=2147483647", list("", None, 5000, false)),
        ("&marker=%2Facct%2Fjobs-low", list("", Some("jobs-low"), 5000, false)),
    ] {
        assert_eq!(newest(&format!("GET /?comp=list{query}"), ""), Ok(expected.into()), "{query}");
    }
}

#[test]
fn messages_are_put() {
    let put = |visible, lifetime: Option<u64>| SequencedOperation::PutMessage {
        queue: jobs(),
        text: Bytes::from_static(b"x"),
        visibility: Duration::from_secs(visible),
        lifetime: lifetime.map(Duration::from_secs),
    };
    for (query, expected) in [
        ("", put(0, Some(604_800))),
        ("?visibilitytimeout=&messagettl=", put(0, Some(604_800))),
        ("?visibilitytimeout=60&messagettl=-1", put(60, None)),
        ("?visibilitytimeout=604800&messagettl=-1", put(604_800, None)),
        ("?VisibilityTimeout=29&messagettl=30", put(29, Some(30))),
        ("?messagettl=1073741824", put(0, Some(1_073_741_824))),
        ("?messagettl=922337203685", put(0, Some(922_337_203_685))),
        ("?messagettl=99999999999999999999", put(0, Some(i64::MAX as u64))),
    ] {
        assert_eq!(newest(&format!("POST /jobs/messages{query}"), TEXT), Ok(expected.into()), "{query}");
    }
}

#[test]
fn messages_are_taken_and_changed() {
    let receipt = PopReceipt { visible: Timestamp::EARLIEST_STORABLE, sequence: 3, changes: 2 };
    let printed = String::from_utf8(pop_receipt::print(&receipt).to_vec()).unwrap().replace('+', "%2B");
    let (id, second) = (MessageId::parse(ID), Duration::from_secs(1));
    let update = |id, receipt, text: Option<&'static str>| {
        let text = text.map(|text| Bytes::from_static(text.as_bytes()));
        Call::from(SequencedOperation::UpdateMessage { queue: jobs(), id, receipt, visibility: second, text })
    };
    let empty_text = "<QueueMessage><MessageText/></QueueMessage>";
    for (line, body, expected) in [
        (
            "GET /jobs/messages".to_owned(),
            "",
            Call::from(SequencedOperation::GetMessages { queue: jobs(), count: 1, visibility: 30 * second }),
        ),
        (
            "GET /jobs/messages?numofmessages=32&visibilitytimeout=604800".to_owned(),
            "",
            Call::from(SequencedOperation::GetMessages {
                queue: jobs(),
                count: 32,
                visibility: 604_800 * second,
            }),
        ),
        (
            "GET /jobs/messages?peekonly=true&numofmessages=5&visibilitytimeout=0".to_owned(),
            "",
            Call::from(Operation::PeekMessages { queue: jobs(), count: 5 }),
        ),
        (
            format!("PUT /jobs/messages/{ID}?popreceipt={printed}&visibilitytimeout=1"),
            "",
            update(id, Some(receipt), None),
        ),
        (
            format!("PUT /jobs/messages/{ID}?popreceipt={printed}&visibilitytimeout=1"),
            empty_text,
            update(id, Some(receipt), Some("")),
        ),
        (
            "PUT /jobs/messages/no-such-id?popreceipt=invalid&visibilitytimeout=1".to_owned(),
            TEXT,
            update(None, None, Some("x")),
        ),
        (
            format!("DELETE /jobs/messages/{ID}?PopReceipt={printed}"),
            "",
            Call::from(SequencedOperation::DeleteMessage { queue: jobs(), id, receipt: Some(receipt) }),
        ),
        (
            format!("DELETE /jobs/messages/{ID}?popreceipt=invalid"),
            "",
            Call::from(SequencedOperation::DeleteMessage { queue: jobs(), id, receipt: None }),
        ),
    ] {
        assert_eq!(newest(&line, body), Ok(expected), "{line}");
    }
}

#[test]
fn parameters_are_refused() {
    let outside = |name: &'static str, value: &str, least: &str, most: &str| {
        ServiceError::new(OutOfRangeQueryParameterValue)
            .with_detail("QueryParameterName", name)
            .with_detail("QueryParameterValue", value)
            .with_detail("MinimumAllowed", least)
            .with_detail("MaximumAllowed", most)
    };
    let ordered = "messagettl must be greater than visibilitytimeout";
    let positive = "messagettl must be a positive number of seconds or -1";
    let update = format!("PUT /jobs/messages/{ID}");
    let delete = format!("DELETE /jobs/messages/{ID}");
    for (line, query, expected) in [
        ("GET /", "comp=list&maxresults=0", outside("maxresults", "0", "1", "2147483647")),
        ("GET /", "comp=list&maxresults=2147483648", outside("maxresults", "2147483648", "1", "2147483647")),
        ("GET /", "comp=list&maxresults=x", invalid_value("maxresults", "x", "not an integer")),
        ("GET /", "comp=list&include=all", invalid_value("include", "all", "")),
        ("GET /", "comp=list&marker=jobs", invalid_value("marker", "jobs", "")),
        ("GET /", "comp=list&marker=/acct/", invalid_value("marker", "/acct/", "")),
        ("GET /", "comp=list&prefix=%01", invalid_value("prefix", "\u{1}", "")),
        (
            "POST /jobs/messages",
            "visibilitytimeout=604801",
            outside("visibilitytimeout", "604801", "0", "604800"),
        ),
        ("POST /jobs/messages", "visibilitytimeout=-1", outside("visibilitytimeout", "-1", "0", "604800")),
        (
            "POST /jobs/messages",
            "visibilitytimeout=1.5",
            invalid_value("visibilitytimeout", "1.5", "not an integer"),
        ),
        (
            "POST /jobs/messages",
            "visibilitytimeout=%2B1",
            invalid_value("visibilitytimeout", "+1", "not an integer"),
        ),
        (
            "POST /jobs/messages",
            "visibilitytimeout=30&messagettl=30",
            invalid_value("visibilitytimeout", "30", ordered),
        ),
        (
            "POST /jobs/messages",
            "visibilitytimeout=604800",
            invalid_value("visibilitytimeout", "604800", ordered),
        ),
        ("POST /jobs/messages", "messagettl=0", invalid_value("messagettl", "0", positive)),
        ("POST /jobs/messages", "messagettl=-2", invalid_value("messagettl", "-2", positive)),
        ("POST /jobs/messages", "messagettl=soon", invalid_value("messagettl", "soon", "not an integer")),
        ("GET /jobs/messages", "numofmessages=0", outside("numofmessages", "0", "1", "32")),
        ("GET /jobs/messages", "numofmessages=33", outside("numofmessages", "33", "1", "32")),
        (
            "GET /jobs/messages",
            "numofmessages=99999999999999999999",
            outside("numofmessages", "99999999999999999999", "1", "32"),
        ),
        ("GET /jobs/messages", "visibilitytimeout=0", outside("visibilitytimeout", "0", "1", "604800")),
        ("GET /jobs/messages", "peekonly=true&numofmessages=33", outside("numofmessages", "33", "1", "32")),
        (&update, "visibilitytimeout=10", missing("popreceipt")),
        (&update, "", missing("popreceipt")),
        (&update, "popreceipt=x", missing("visibilitytimeout")),
        (
            &update,
            "popreceipt=x&visibilitytimeout=604801",
            outside("visibilitytimeout", "604801", "0", "604800"),
        ),
        (&delete, "popreceipt=", missing("popreceipt")),
    ] {
        // The body is worse, and is looked at last.
        assert_eq!(newest(&format!("{line}?{query}"), "plain"), Err(expected), "{line} {query}");
    }
}

#[test]
fn errors_of_the_service_quote_the_parameter_that_they_are_about() {
    let sent = Sent::parse(&format!("DELETE /jobs/messages/{ID}?PopReceipt=a%20b&visibilitytimeout=010"));
    let request = Request::read(&sent.head(Service::Queue, ServiceVersion::NEWEST.text())).unwrap();
    let unreadable = ServiceError::new(InvalidQueryParameterValue)
        .with_detail("QueryParameterName", "popreceipt")
        .with_detail("Reason", "unreadable");
    let late = invalid_value("visibilitytimeout", "10", "late");
    for (error, expected) in [
        (unreadable, invalid_value("popreceipt", "a b", "unreadable")),
        (late.clone(), late),
        (MessageNotFound.into(), MessageNotFound.into()),
    ] {
        assert_eq!(request.quoted(error), expected);
    }
}

#[test]
fn names_come_first_and_bodies_last() {
    for (line, body, expected) in [
        ("PUT /Jobs", "", InvalidResourceName),
        ("PUT /jo", "", OutOfRangeInput),
        ("POST /a--b/messages?visibilitytimeout=-1", "plain", InvalidResourceName),
        ("GET /jo/messages?numofmessages=33", "", OutOfRangeInput),
        ("DELETE /Jobs/messages/1", "", InvalidResourceName),
        ("POST /jobs/messages?visibilitytimeout=-1", "plain", OutOfRangeQueryParameterValue),
        ("POST /jobs/messages", "plain", InvalidXmlDocument),
        ("POST /jobs/messages", "", InvalidXmlDocument),
        ("PUT /jobs/messages/1?popreceipt=x&visibilitytimeout=1", "plain", InvalidXmlDocument),
        ("PUT /?restype=service&comp=properties", "plain", InvalidXmlDocument),
        ("PUT /jobs?comp=acl", "plain", InvalidXmlDocument),
    ] {
        assert_eq!(newest(line, body).map_err(|error| error.code), Err(expected), "{line}");
    }
}

#[test]
fn policies_have_the_letters_of_queues() {
    let set = |letters: &str| {
        let policy = format!("<AccessPolicy><Permission>{letters}</Permission></AccessPolicy>");
        let body = format!(
            "<SignedIdentifiers><SignedIdentifier><Id>p1</Id>{policy}</SignedIdentifier></SignedIdentifiers>"
        );
        newest("PUT /jobs?comp=acl", &body)
    };
    for letters in ["raup", "p", "ua"] {
        let policy = AccessPolicy { start: None, expiry: None, permission: Some(letters.to_owned()) };
        let identifiers = vec![SignedIdentifier { id: "p1".to_owned(), policy: Some(policy) }];
        assert_eq!(set(letters), Ok(Operation::SetAcl { queue: jobs(), identifiers }.into()), "{letters}");
    }
    for letters in ["rwdl", "R", "raud", "r a"] {
        let error = set(letters).unwrap_err();
        let details = [("LineNumber", "0"), ("LinePosition", "0"), ("Reason", "")];
        assert_eq!(error.code, InvalidXmlDocument, "{letters}");
        assert_eq!(error.details, details.map(|(name, text)| (name, text.to_owned())), "{letters}");
    }
}

#[test]
fn older_versions_have_narrower_limits() {
    let long = format!("<QueueMessage><MessageText>{}</MessageText></QueueMessage>", "x".repeat(8193));
    for (line, body, since) in [
        ("POST /jobs/messages?messagettl=604801", TEXT, "2017-07-29"),
        ("POST /jobs/messages?messagettl=-1", TEXT, "2017-07-29"),
        ("POST /jobs/messages", &long, "2011-08-18"),
        ("GET /jobs/messages?visibilitytimeout=7201", "", "2011-08-18"),
    ] {
        let before = if since == "2017-07-29" { "2017-04-17" } else { "2009-09-19" };
        assert!(decoded(line, since, body).is_ok(), "{line}");
        assert!(decoded(line, before, body).is_err(), "{line}");
    }
}

proptest! {
    #[test]
    fn any_parameters_are_read_or_not(
        verb in "(GET|PUT|POST|DELETE)",
        path in "(/jobs|/jobs/messages|/jobs/messages/1|/)",
        query in "((comp=list|comp=acl|visibilitytimeout=|messagettl=|numofmessages=|popreceipt=|marker=|-|/|[0-9]{1,20}|[a-z%é])&?){0,6}",
    ) {
        let _ = newest(&format!("{verb} {path}?{query}"), TEXT);
    }
}
