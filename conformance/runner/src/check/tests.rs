use super::*;
use crate::scenario::Item;

fn verdict(expected: &str, response: &Response) -> (Vec<Mismatch>, Scope) {
    let text = format!("## a: b\nGET /\n{expected}\n");
    let scenario = crate::parse::parse("x", &text).unwrap().remove(0);
    let Item::Step(step) = &scenario.items[0] else { panic!("a step") };
    let mut scope = Scope::new();
    (check(Service::Table, step, response, &mut scope, Rigour::Exact), scope)
}

fn json(body: &str) -> Response {
    Response { status: 200, body: body.into(), ..Response::default() }
}

#[test]
fn compares_values_with_their_types() {
    let response = json(
        r#"{"a":3,"b":"3","c":3.0,"d":null,"odata.x":{"y":true},"value":[{"RowKey":"r1"},{"RowKey":"r2"}]}"#,
    );
    for (expected, met) in [
        ("=> 200, body.a: 3, body.b: \"3\", body.c: 3.0", true),
        ("=> 200, body.a: \"3\"", false),
        ("=> 200, body.a: 3.0", false),
        ("=> 200, body.b: 3", false),
        ("=> 200, body.d: null, body.e: <absent>, body.odata.x.y: true", true),
        ("=> 200, body.d: <absent>", false),
        ("=> 200, rows: r1 r2", true),
        ("=> 200, rows: r2 r1", false),
        ("=> 200, body.value: <2 items>", true),
        ("=> 200, body.value[*].RowKey: [\"r1\", \"<any>\"]", true),
        ("=> 200\n   body contains: \"b\":\"3\"", true),
        ("=> 200\n   body lacks: \"b\":\"3\"", false),
        ("=> 404", false),
        ("=> 404 or 200", true),
    ] {
        let (mismatches, _) = verdict(expected, &response);
        assert_eq!(mismatches.is_empty(), met, "{expected}: {mismatches:?}");
    }
}

#[test]
fn captures_headers_and_values() {
    let mut response = json(r#"{"Timestamp":"2026-03-10T08:15:30.5Z"}"#);
    response.headers.push(("ETag".into(), "W/\"datetime'2026-03-10T08%3A15%3A30.5Z'\"".into()));
    let expected = "=> 200, body.Timestamp: <time> as t, ETag: {t|etag} as tag, X: <absent>";
    let (mismatches, scope) = verdict(expected, &response);
    assert_eq!(mismatches, []);
    assert_eq!(scope.text("{tag}").unwrap(), response.headers[0].1);
    let (mismatches, _) = verdict("=> 200, ETag: <not other>, X: <any>", &response);
    assert_eq!(mismatches.len(), 1);
}

#[test]
fn knows_the_dresses_of_errors() {
    let id = "0f8fad5b-d9cb-469f-a165-70867728950e";
    let tail = format!("RequestId:{id}\\nTime:2026-03-10T08:15:30.1234567Z");
    let mut response = Response {
        status: 404,
        headers: vec![
            ("Content-Type".into(), "application/json;odata=minimalmetadata;streaming=true;charset=utf-8".into()),
            ("x-ms-request-id".into(), id.into()),
        ],
        body: format!(
            "{{\"odata.error\":{{\"code\":\"TableNotFound\",\"message\":{{\"lang\":\"en-US\",\"value\":\"No.\\n{tail}\"}}}}}}"
        )
        .into(),
        ..Response::default()
    };
    assert_eq!(verdict("=> 404, error: TableNotFound, message: No.", &response).0, []);
    assert_eq!(verdict("=> 404, error: A <or> TableNotFound", &response).0, []);
    assert_eq!(verdict("=> 404, error: ResourceNotFound", &response).0.len(), 1);
    assert_eq!(verdict("=> 404, family: B", &response).0.len(), 1);
    response.headers[1].1 = "another".into();
    assert_eq!(verdict("=> 404, error: TableNotFound", &response).0.len(), 1);
}
