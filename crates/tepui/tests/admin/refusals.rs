//! Bad input to every call: a clear answer, and nothing has changed.

use crate::{Admin, test_bench};
use serde_json::json;

#[test]
fn what_means_nothing_is_refused_and_changes_nothing() {
    let server = test_bench();
    let mut admin = Admin::of(&server);
    admin.post("/clock/freeze", json!(null));
    let rule = admin.post("/faults", json!({"operation": "InsertEntity", "delayMs": 1}));
    server.client().create_table("Kept");
    crate::support::http::Client::connect(server.queue_port).unwrap().create_queue("kept");
    let state = |admin: &mut Admin| {
        let (mut clock, faults) = (admin.get("/clock"), admin.get("/faults"));
        clock["machine"].take();
        (clock, faults)
    };
    let before = state(&mut admin);
    let rule_path = format!("/faults/{}", rule["id"]);
    let long = format!(r#"{{"now":"{}"}}"#, "x".repeat(2 << 20));
    let cases = [
        ("no such call", "GET", "/nothing", "", 404, "GET /admin/v1 lists"),
        ("no such call below one", "GET", "/clock/nothing", "", 404, "GET /admin/v1 lists"),
        ("a slash too many", "GET", "/clock/", "", 404, "GET /admin/v1 lists"),
        ("a method of the index", "POST", "", "", 405, "This path is for GET"),
        ("a method of the clock", "POST", "/clock", "", 405, "GET, PUT, DELETE"),
        ("a method of freeze", "GET", "/clock/freeze", "", 405, "This path is for POST"),
        ("a method of faults", "PATCH", "/faults", "", 405, "GET, POST, DELETE"),
        ("a method of requests", "POST", "/requests", "", 405, "This path is for GET"),
        ("a method of messages", "DELETE", "/queues/devstoreaccount1/kept/messages", "", 405, "for GET"),
        ("a parameter", "GET", "/clock?format=unix", "", 400, "no such parameter: format"),
        ("a body that is not read", "POST", "/clock/freeze", r#"{"now":"2030-01-01"}"#, 400, "no body"),
        ("no body", "PUT", "/clock", "", 400, "JSON is needed"),
        ("no JSON", "PUT", "/clock", "now=2030", 400, "not as it should be"),
        ("half of it", "PUT", "/clock", r#"{"now":"2030-01-01"#, 400, "not as it should be"),
        ("another kind of JSON", "PUT", "/clock", r#"["2030-01-01"]"#, 400, "not as it should be"),
        ("another type", "PUT", "/clock", r#"{"now":2030}"#, 400, "expected a string"),
        (
            "a field too many",
            "PUT",
            "/clock",
            r#"{"now":"2030-01-01","zone":"UTC"}"#,
            400,
            "unknown field `zone`",
        ),
        (
            "a field twice",
            "PUT",
            "/clock",
            r#"{"now":"2030-01-01","now":"2031-01-01"}"#,
            400,
            "duplicate field",
        ),
        ("a field too few", "PUT", "/clock", "{}", 400, "missing field `now`"),
        ("no time", "PUT", "/clock", r#"{"now":"tomorrow"}"#, 400, "now is a time"),
        ("no such day", "PUT", "/clock", r#"{"now":"2030-02-30"}"#, 400, "now is a time"),
        ("too early", "PUT", "/clock", r#"{"now":"1969-12-31"}"#, 400, "years 1970 to 9000"),
        ("too late", "PUT", "/clock", r#"{"now":"9001-01-01"}"#, 400, "years 1970 to 9000"),
        ("too long", "PUT", "/clock", &long, 413, "too long"),
        ("back", "POST", "/clock/advance", r#"{"seconds":-1}"#, 400, "not negative"),
        ("far too far", "POST", "/clock/advance", r#"{"seconds":1e300}"#, 400, "not negative"),
        ("too far", "POST", "/clock/advance", r#"{"seconds":1e12}"#, 400, "beyond the year 9000"),
        ("no number", "POST", "/clock/advance", r#"{"seconds":"1"}"#, 400, "not as it should be"),
        ("no seconds", "POST", "/clock/advance", "{}", 400, "missing field `seconds`"),
        ("a rule that does nothing", "POST", "/faults", "{}", 400, "an error, cut, delayMs"),
        ("a rule of another kind", "POST", "/faults", r#"{"cut":"yes"}"#, 400, "not as it should be"),
        (
            "a rule with a field too many",
            "POST",
            "/faults",
            r#"{"cut":true,"table":"T"}"#,
            400,
            "unknown field `table`",
        ),
        (
            "a field of its error",
            "POST",
            "/faults",
            r#"{"error":{"code":"ServerBusy","text":""}}"#,
            400,
            "unknown field `text`",
        ),
        ("a code", "POST", "/faults", r#"{"error":{"code":"Busy"}}"#, 400, "no such error code: Busy"),
        ("a status", "POST", "/faults", r#"{"error":{"code":"ServerBusy","status":99}}"#, 400, "400 to 599"),
        (
            "an operation",
            "POST",
            "/faults",
            r#"{"cut":true,"operation":"Insert"}"#,
            400,
            "no such operation: Insert",
        ),
        ("when", "POST", "/faults", r#"{"cut":true,"when":"later"}"#, 400, "unknown variant `later`"),
        ("nth", "POST", "/faults", r#"{"cut":true,"nth":-1}"#, 400, "not as it should be"),
        ("share", "POST", "/faults", r#"{"cut":true,"share":2}"#, 400, "share is"),
        ("a delay", "POST", "/faults", r#"{"delayMs":1000000}"#, 400, "delayMs is"),
        ("a rule that is not there", "GET", "/faults/99", "", 404, "no such rule"),
        ("one to replace", "PUT", "/faults/99", r#"{"cut":true}"#, 404, "no such rule"),
        ("one to remove", "DELETE", "/faults/99", "", 404, "no such rule"),
        ("no number of a rule", "GET", "/faults/first", "", 404, "no such rule"),
        ("a number too large", "GET", "/faults/99999999999999999999", "", 404, "no such rule"),
        ("a bad replacement", "PUT", &rule_path, "{}", 400, "an error, cut, delayMs"),
        ("no replacement", "PUT", &rule_path, "", 400, "JSON is needed"),
        (
            "a queue that is not there",
            "GET",
            "/queues/devstoreaccount1/none/messages",
            "",
            404,
            "does not exist",
        ),
        ("an account that is not there", "GET", "/queues/nobody/kept/messages", "", 404, "does not exist"),
        (
            "no name of a queue",
            "GET",
            "/queues/devstoreaccount1/No_Queue/messages",
            "",
            400,
            "invalid characters",
        ),
        (
            "no messages",
            "GET",
            "/queues/devstoreaccount1/kept/messages?limit=0",
            "",
            400,
            "limit is a number from 1 to 1000",
        ),
        (
            "too many messages",
            "GET",
            "/queues/devstoreaccount1/kept/messages?limit=1001",
            "",
            400,
            "limit is",
        ),
        ("no limit", "GET", "/queues/devstoreaccount1/kept/messages?limit=all", "", 400, "limit is"),
        ("no cursor", "GET", "/queues/devstoreaccount1/kept/messages?after=first", "", 400, "after is"),
        (
            "a limit twice",
            "GET",
            "/queues/devstoreaccount1/kept/messages?limit=1&limit=2",
            "",
            400,
            "twice: limit",
        ),
        ("a filter", "GET", "/requests?table=T", "", 400, "no such parameter: table"),
        ("a filter by service", "GET", "/requests?service=file", "", 400, "table, queue or blob"),
        (
            "a filter by operation",
            "GET",
            "/requests?service=queue&operation=PutBlob",
            "",
            400,
            "no such operation",
        ),
        ("a filter by status", "GET", "/requests?status=9xx", "", 400, "status is"),
    ];
    for (case, method, path, body, status, says) in cases {
        let reply = admin.raw(method, path, body);
        assert_eq!(reply.status, status, "{case}: {}", reply.text());
        let message = reply.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(says), "{case}: {message}");
        assert_eq!(reply.header("allow").is_some(), status == 405, "{case}");
        assert_eq!(reply.header("content-type"), Some("application/json"), "{case}");
    }
    assert_eq!(state(&mut admin), before);
}

/// Every route has a section in the documentation, and an example for curl.
#[test]
fn the_documentation_has_every_call() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/admin.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let server = test_bench();
    let index = Admin::of(&server).get("");
    for call in index["calls"].as_array().unwrap() {
        let call = call.as_str().unwrap();
        // Parts of a path have names there.
        let pieces: Vec<&str> = call.split("{}").collect();
        let is_there = docs.lines().any(|line| {
            let mut rest = line;
            pieces.iter().all(|piece| match rest.find(piece) {
                Some(at) => {
                    rest = &rest[at + piece.len()..];
                    true
                }
                None => false,
            })
        });
        assert!(is_there, "not in docs/admin.md: {call}");
    }
}
