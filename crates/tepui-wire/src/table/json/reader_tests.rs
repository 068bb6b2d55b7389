use super::*;
use proptest::prelude::*;

fn read(body: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
    let mut reader = Reader::open(body)?;
    let mut members = Vec::new();
    while let Some((name, value)) = reader.next()? {
        members.push((name.into_owned(), format!("{value:?}")));
    }
    Ok(members)
}

#[test]
fn members() {
    for (body, expected) in [
        ("{}", vec![]),
        (" \r\n{\t} \n", vec![]),
        ("\u{FEFF}{}", vec![]),
        (r#"{"a":1}"#, vec![("a", r#"Integer("1")"#)]),
        (
            r#"{ "a" : -0 , "b":1.50,"c":1E+2 }"#,
            vec![("a", r#"Integer("-0")"#), ("b", r#"Number("1.50")"#), ("c", r#"Number("1E+2")"#)],
        ),
        (
            r#"{"t":true,"f":false,"n":null}"#,
            vec![("t", "Boolean(true)"), ("f", "Boolean(false)"), ("n", "Null")],
        ),
        (
            r#"{"":"","a":"x","a":"ä"}"#,
            vec![("", r#"Text("")"#), ("a", r#"Text("x")"#), ("a", r#"Text("ä")"#)],
        ),
        (r#"{"\u0061b":"\"\\\/\b\f\n\r\t"}"#, vec![("ab", "Text(\"\\\"\\\\/\\u{8}\\u{c}\\n\\r\\t\")")]),
        (r#"{"a":"x\u00E4y\ud83d\ude00z"}"#, vec![("a", r#"Text("xäy😀z")"#)]),
        (
            r#"{"a":[],"b":{},"c":[1,[2,{"x":"]"}],{"y":[{}]}] ,"d":{"e":{"f":null},"g":[true , false]}}"#,
            vec![("a", "Nested"), ("b", "Nested"), ("c", "Nested"), ("d", "Nested")],
        ),
    ] {
        let expected =
            expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(read(body.as_bytes()), Ok(expected), "{body}");
    }
}

#[test]
fn malformed_bodies() {
    for body in [
        "",
        " ",
        "{",
        "}",
        "[]",
        "1",
        "null",
        r#""a""#,
        "{}x",
        "{}{}",
        "{,}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{"a":1 "b":2}"#,
        r#"{"a":1;"b":2}"#,
        r#"{a:1}"#,
        r#"{'a':1}"#,
        r#"{"a":'x'}"#,
        r#"{"a":1"#,
        r#"{"a":"x}"#,
        r#"{"a":tru}"#,
        r#"{"a":truee}"#,
        r#"{"a":True}"#,
        r#"{"a":NaN}"#,
        r#"{"a":Infinity}"#,
        r#"{"a":01}"#,
        r#"{"a":-}"#,
        r#"{"a":+1}"#,
        r#"{"a":.5}"#,
        r#"{"a":1.}"#,
        r#"{"a":1e}"#,
        r#"{"a":1e+}"#,
        r#"{"a":0x1}"#,
        r#"{"a":"\x"}"#,
        r#"{"a":"\u12"}"#,
        r#"{"a":"\u12g4"}"#,
        r#"{"a":"\ud83d"}"#,
        r#"{"a":"\ude00"}"#,
        r#"{"a":"\ud83d\u0061"}"#,
        r#"{"a":"\ud83dx"}"#,
        r#"{"a":"\"#,
        r#"{"a":"\u"#,
        "{\"a\":\"\n\"}",
        "{\"\u{1}\":1}",
        r#"{"a":[}"#,
        r#"{"a":[1,]}"#,
        r#"{"a":{1:2}}"#,
        r#"{"a":{"b"}}"#,
        r#"{"a":[1 2]}"#,
        r#"{"a":[1}}"#,
        r#"{"a":[[]}"#,
        r#"{"a":{"b":1]}"#,
        r#"{"a":{,}}"#,
        r#"{"a":1}//x"#,
    ] {
        assert_eq!(read(body.as_bytes()), Err(Malformed), "{body}");
    }
    assert_eq!(read(b"{\"a\":\"\xFF\"}"), Err(Malformed));
    assert_eq!(read(b"{\"a\":\"\xC3\"}"), Err(Malformed));
    assert_eq!(read(b"\xFF\xFE{\0}\0"), Err(Malformed));
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(read(nested(MAX_DEPTH).as_bytes()).is_ok());
    assert!(read(nested(MAX_DEPTH + 1).as_bytes()).is_err());
    assert!(read(nested(2_000_000).as_bytes()).is_err());
    assert!(read("{\"a\":".repeat(500_000).as_bytes()).is_err());
}

/// Any JSON, as text.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|answer| answer.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        (-1e300..1e300).prop_map(|number: f64| format!("{number:e}")),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|all| format!("[{}]", all.join(" , "))),
            proptest::collection::vec((any::<String>(), inner), 0..4).prop_map(object),
        ]
    })
}

fn object(members: Vec<(String, String)>) -> String {
    let members: Vec<_> = members
        .iter()
        .map(|(name, value)| format!("{} :{value}", serde_json::to_string(name).unwrap()))
        .collect();
    format!("{{{}}}", members.join(",\n"))
}

proptest! {
    #[test]
    fn objects_are_read_like_serde_json_reads_them(members in proptest::collection::vec((any::<String>(), json()), 0..5)) {
        let body = object(members.clone());
        let mut reader = Reader::open(body.as_bytes()).unwrap();
        for (name, value) in &members {
            let (found, parsed) = reader.next().unwrap().unwrap();
            prop_assert_eq!(&*found, name);
            match (parsed, serde_json::from_str(value).unwrap()) {
                (Value::Null, serde_json::Value::Null) => {}
                (Value::Boolean(a), serde_json::Value::Bool(b)) => prop_assert_eq!(a, b),
                (Value::Integer(a) | Value::Number(a), serde_json::Value::Number(_)) => prop_assert_eq!(a, value),
                (Value::Text(a), serde_json::Value::String(b)) => prop_assert_eq!(a, b),
                (Value::Nested, serde_json::Value::Array(_) | serde_json::Value::Object(_)) => {}
                (parsed, other) => prop_assert!(false, "{:?} for {}", parsed, other),
            }
        }
        prop_assert!(reader.next().unwrap().is_none());
    }

    #[test]
    fn damaged_objects_are_judged_like_serde_json_judges_them(
        members in proptest::collection::vec((any::<String>(), json()), 0..4),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut body = object(members).into_bytes();
        let at = at.index(body.len());
        if cut { let _ = body.remove(at); } else { body[at] = byte; }
        let accepted = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&body);
        // The one difference: numbers beyond the range of a double are judged later.
        let out_of_range = accepted.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
        prop_assert!(out_of_range || read(&body).is_ok() == accepted.is_ok(), "{:?}", String::from_utf8_lossy(&body));
    }

    #[test]
    fn any_bytes_are_read_or_not(body in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = read(&body);
    }
}
