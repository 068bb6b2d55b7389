use super::*;
use crate::scenario::Subject;

fn one(text: &str) -> Scenario {
    let mut scenarios = parse("x.http", text).unwrap();
    assert_eq!(scenarios.len(), 1);
    scenarios.remove(0)
}

fn steps(scenario: &Scenario) -> Vec<&Step> {
    scenario
        .items
        .iter()
        .filter_map(|item| if let Item::Step(step) = item { Some(&**step) } else { None })
        .collect()
}

#[test]
fn reads_the_sample() {
    let scenario = one("# a file\n\n## insert-twice: the second is refused\ntable People\nPOST /People\n\
        Prefer: return-no-content\n-Accept\n{\"PartitionKey\": \"smith\"}\n\
        => 204, Preference-Applied: return-no-content, ETag: <any> as tag\n\
        POST /People\n{\"a\": 1}\n=> 409\n   error: EntityAlreadyExists\n   body.a: <absent>\n");
    assert_eq!((scenario.name.as_str(), scenario.line, scenario.serial), ("insert-twice", 3, false));
    let steps = steps(&scenario);
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0].line, 5);
    assert_eq!(steps[0].headers, [("Prefer".to_owned(), "return-no-content".to_owned())]);
    assert_eq!(steps[0].without, ["Accept"]);
    assert!(matches!(&steps[0].body, Body::Text(text) if text == "{\"PartitionKey\": \"smith\"}"));
    assert_eq!(steps[0].expectations[1].capture.as_deref(), Some("tag"));
    assert_eq!((steps[1].status.as_str(), steps[1].expectations.len()), ("409", 2));
    assert_eq!(steps[1].expectations[1].subject, Subject::Path("a".to_owned()));
}

#[test]
fn reads_loops_over_one_item_or_to_their_end() {
    let scenario = one("## loops: both\nfor i in 1..3\ninsert T {\"RowKey\": \"{i}\"}\n\
        each filter | rows\n| A eq 1 | a b\n| B eq 2 | \nGET /T()?$filter={filter}\n=> 200, rows: {rows}\n\
        GET /T\n=> 200\nfor i in 1..2\nGET /A\n=> 200\nGET /B\n=> 200\nend\nGET /C\n=> 200\n");
    let sizes: Vec<_> = scenario
        .items
        .iter()
        .map(
            |item| if let Item::Loop { rows, items, .. } = item { (rows.len(), items.len()) } else { (0, 0) },
        )
        .collect();
    assert_eq!(sizes, [(3, 1), (2, 1), (0, 0), (2, 2), (0, 0)]);
    let Item::Loop { rows, .. } = &scenario.items[1] else { panic!("a loop") };
    assert_eq!(rows[0][1], ("rows".to_owned(), "a b".to_owned()));
    assert_eq!(rows[1][1], ("rows".to_owned(), String::new()));
}

#[test]
fn reads_batches_and_raw_lines() {
    let scenario = one(
        "## batch: parts\nPOST /$batch\nchangeset\n  mime Content-ID: 0\n  POST /T\n  Prefer: x\n\
        \x20 {\"a\":1}\n\n  for i in 1..2\n  DELETE /T(x)\n  If-Match: *\nquery lf\n  GET /T()\n=> 202, parts: 204\n\
        POST /$batch\nContent-Type: x\ncrlf\n| --a\n|\n| end\\\n=> 202\n",
    );
    let steps = steps(&scenario);
    let Body::Batch(sections) = &steps[0].body else { panic!("a batch") };
    assert_eq!((sections.len(), sections[0].operations.len()), (2, 2));
    assert_eq!((sections[1].kind, sections[1].end), (SectionKind::Query, "\n"));
    let operation = &sections[0].operations[0];
    assert_eq!(operation.mime, ["Content-ID: 0"]);
    assert_eq!((operation.headers.len(), operation.body.as_str()), (1, "{\"a\":1}"));
    assert_eq!(sections[0].operations[1].repeat, Some(("i".to_owned(), 1, 2)));
    assert!(matches!(&steps[1].body, Body::Lines { end: "\r\n", lines } if lines.len() == 3));
}

#[test]
fn says_where_a_file_is_wrong() {
    for (text, problem) in [
        ("## no title\n", "x.http:1"),
        ("## Upper: t\n", "small letters"),
        ("## a: t\nhello\n", "not a request"),
        ("## a: t\nGET /x\n\n## b: t\n", "=> status"),
        ("## a: t\neach x\nGET /x\n=> 200\n", "no rows"),
    ] {
        let error = parse("x.http", text).unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
}
