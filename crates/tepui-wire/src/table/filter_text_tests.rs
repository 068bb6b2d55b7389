use super::*;
use proptest::prelude::*;
use tepui_model::Timestamp;
use tepui_model::table::Guid;

/// The filter as it prints, or the error's status, stage and message.
fn outcome(text: &str) -> String {
    match parse(text) {
        Ok(None) => "none".to_owned(),
        Ok(Some(filter)) => print(&filter),
        Err(error) => format!("{} {:?} {}", error.code.status(), error.stage, error.message()),
    }
}

fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(outcome(text), *expected, "{text}");
    }
}

#[test]
fn logic() {
    check(&[
        ("", "none"),
        (" \t ", "none"),
        ("true", "true"),
        ("False", "false"),
        ("Done", "Done"),
        ("_x eq 1", "_x eq 1"),
        ("ä大 eq 1", "ä大 eq 1"),
        ("a eq 1", "a eq 1"),
        ("((a eq 1))", "a eq 1"),
        ("  a  eq\t1 ", "a eq 1"),
        ("(a) eq (1)", "a eq 1"),
        ("(a eq 1)and(b eq 2)", "a eq 1 and b eq 2"),
        ("(a eq 1)or(b eq 2)or not(c)", "a eq 1 or b eq 2 or not (c)"),
        ("a eq 1 or b eq 2 and c eq 3", "a eq 1 or (b eq 2 and c eq 3)"),
        ("(a eq 1 or b eq 2) and c eq 3", "(a eq 1 or b eq 2) and c eq 3"),
        ("a and b and c and d", "a and b and c and d"),
        ("a and (b and (c and d))", "a and b and c and d"),
        ("(a or b) or (c or d)", "a or b or c or d"),
        ("not a eq 1", "not (a eq 1)"),
        ("not not a", "not (not (a))"),
        ("not a and b", "not (a) and b"),
        ("not (a and b)", "not (a and b)"),
        ("Qty gt 3 and not (Note eq 'x')", "Qty gt 3 and not (Note eq 'x')"),
        ("true and false or a", "(true and false) or a"),
        ("add eq 1", "add eq 1"),
        ("And eq 1", "And eq 1"),
        ("TableName ge 'ord' and TableName lt 'ord{'", "TableName ge 'ord' and TableName lt 'ord{'"),
    ]);
}

#[test]
fn comparisons_have_a_constant_on_either_side() {
    check(&[
        ("'p1' eq PartitionKey", "PartitionKey eq 'p1'"),
        ("1 ne a", "a ne 1"),
        ("1 lt a", "a gt 1"),
        ("1 le a", "a ge 1"),
        ("1 gt a", "a lt 1"),
        ("1 ge a", "a le 1"),
        ("true eq a", "a eq true"),
    ]);
}

#[test]
fn literals() {
    check(&[
        ("a eq ''", "a eq ''"),
        ("a eq 'it''s'", "a eq 'it''s'"),
        ("a eq ''''", "a eq ''''"),
        ("a eq 'x and `y` (\"z\") \\ ä'", "a eq 'x and `y` (\"z\") \\ ä'"),
        ("a eq 123", "a eq 123"),
        ("a eq -5", "a eq -5"),
        ("a eq 2147483647", "a eq 2147483647"),
        ("a eq -2147483648", "a eq -2147483648"),
        ("a eq 2147483648", "a eq 2147483648L"),
        ("a eq 9007199254740993L", "a eq 9007199254740993L"),
        ("a eq -1l", "a eq -1L"),
        ("a eq 1.5", "a eq 1.5"),
        ("a eq 5.0", "a eq 5.0"),
        ("a eq 1e10", "a eq 10000000000.0"),
        ("a eq 1E+20", "a eq 1E+20"),
        ("a eq 1.5e-7", "a eq 1.5E-07"),
        ("a eq 5D", "a eq 5.0"),
        ("a eq 2.5d", "a eq 2.5"),
        ("a eq INF", "a eq INF"),
        ("a eq -INF", "a eq -INF"),
        ("a eq NaN", "a eq NaN"),
        ("a eq TRUE", "a eq true"),
        ("a ge datetime'2026-03-10T08:15:30.1234567Z'", "a ge datetime'2026-03-10T08:15:30.1234567Z'"),
        ("a ge datetime'2026-03-10T08:15:30'", "a ge datetime'2026-03-10T08:15:30Z'"),
        ("a ge datetime'2026-03-10T10:15:30+02:00'", "a ge datetime'2026-03-10T08:15:30Z'"),
        (
            "a eq guid'8C1BAC20-4ED1-4f3b-9a0e-0123456789ab'",
            "a eq guid'8c1bac20-4ed1-4f3b-9a0e-0123456789ab'",
        ),
        ("a eq X'0102fF'", "a eq X'0102ff'"),
        ("a eq binary'0a1f'", "a eq X'0a1f'"),
        ("a eq X''", "a eq X''"),
    ]);
}

#[test]
fn what_is_not_implemented() {
    for text in [
        "a eq b",
        "a eq not b",
        "1 eq 1",
        "true eq true",
        "'x' lt 'y'",
        "(a eq 1) eq true",
        "startswith(Note,'x')",
        "startswith(Note,'x') eq true",
        "not startswith(Note,'x')",
        "a eq 1 and substringof('x',Note)",
        "tolower(a) eq 'x'",
        "year(a) eq 2026",
        "length(trim(a)) gt 3",
        "isof(a,'Edm.Int32')",
        "now() gt a",
        "a add 1 eq 2",
        "1 eq a mul 2 div 3",
        "a mod 2 eq 0",
    ] {
        let expected = "501 Store The requested operation is not implemented on the specified resource.";
        assert_eq!(outcome(text), expected, "{text}");
    }
}

#[test]
fn null() {
    let plain = "400 Store One of the request inputs is not valid.";
    let loud = |name| {
        format!(
            "400 FrontEnd The operator '{name}' is not supported for the 'null' literal; only equality checks are supported."
        )
    };
    check(&[
        ("Note eq null", plain),
        ("Note ne null", plain),
        ("null eq Note", plain),
        ("null eq null", plain),
        ("a eq 1 and Note eq null", plain),
        ("Note lt null", &loud("LessThan")),
        ("Note le null", &loud("LessThanOrEqual")),
        ("null gt Note", &loud("GreaterThan")),
        ("Note ge null", &loud("GreaterThanOrEqual")),
        ("Note eq null or Note lt null", &loud("LessThan")),
        ("startswith(a,'x') or Note lt null", &loud("LessThan")),
    ]);
}

#[test]
fn values_are_no_conditions() {
    for text in ["5", "'x'", "null", "a eq 1 and 5", "not 'x'", "'x' or a"] {
        assert_eq!(outcome(text), "400 FrontEnd One of the request inputs is not valid.", "{text}");
    }
}

#[test]
fn syntax_errors_name_the_end_of_the_token() {
    for (text, position) in [
        ("aaa bbb ccc", 7),
        ("and", 3),
        ("x eq 'test'error", 16),
        ("eq", 2),
        ("not", 3),
        ("a eq", 4),
        ("a eq ", 5),
        ("a and", 5),
        ("(a eq 1", 7),
        ("a eq 1)", 7),
        ("()", 2),
        ("a eq 1 eq 2", 9),
        ("a EQ 1", 4),
        ("a eq 1 AND b eq 2", 10),
        ("a = 1", 3),
        ("a eq 'x", 7),
        ("a eq 'x''", 9),
        ("a/b eq 1", 2),
        ("a.b eq 1", 2),
        ("a-b eq 1", 3),
        ("a eq 5and b", 9),
        ("a eq 1L2", 8),
        ("a eq 1.", 7),
        ("a eq .5", 6),
        ("a eq 1.e5", 9),
        ("a eq 1e400", 10),
        ("a eq 99999999999999999999", 25),
        ("a eq 9223372036854775808L", 25),
        ("a eq 1.5M", 9),
        ("a eq 1.5f", 9),
        ("a eq --5", 6),
        ("a eq -", 6),
        ("a eq x'00'", 10),
        ("a eq X'0'", 9),
        ("a eq X'zz'", 10),
        ("a eq guid'zz'", 13),
        ("a eq datetime'soon'", 19),
        ("a eq datetimeoffset'2026-03-10'", 31),
        ("a eq time'x'", 12),
        ("startswith(a,'x'", 16),
        ("startswith(a 'x')", 16),
        ("startswith(,a)", 12),
        ("ä eq 'ä' 😀", 11),
        ("😀 eq", 2),
        ("a eq 1 and bbb ccc or startswith(a)", 18),
        ("a eq null bbb", 13),
    ] {
        let length = text.encode_utf16().count();
        let expected = format!("400 FrontEnd Syntax error at position {} in '{text}'.", position.min(length));
        assert_eq!(outcome(text), expected, "{text}");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(outcome(&nested(100)), "a");
    let refused = "400 FrontEnd One of the request inputs is not valid.";
    assert_eq!(outcome(&nested(101)), refused);
    assert_eq!(outcome(&format!("{} a", "not ".repeat(101))), refused);
    assert_eq!(outcome(&"f(".repeat(200)), refused);
    for bomb in ["(", "not ", "a eq not ", "f(", "a or (b and ", "'", "a and "] {
        let error = parse(&bomb.repeat(1_000_000 / bomb.len())).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidInput);
        assert!(parse(&bomb.repeat(30_000 / bomb.len())).is_err());
    }
    let many = vec!["a eq 1"; 3000].join(" or ");
    assert!(matches!(parse(&many), Ok(Some(Filter::Or(any))) if any.len() == 3000));
}

fn name() -> impl Strategy<Value = String> {
    "[a-z_ä][A-Za-z0-9_]{0,6}".prop_filter("names that mean something else", |name| {
        !["and", "or", "not", "eq", "ne", "gt", "ge", "lt", "le", "null", "true", "false"].contains(&&**name)
    })
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        any::<String>().prop_map(Literal::String),
        any::<i32>().prop_map(Literal::Int32),
        any::<i64>().prop_map(Literal::Int64),
        any::<f64>().prop_filter("NaN equals nothing", |number| !number.is_nan()).prop_map(Literal::Double),
        any::<bool>().prop_map(Literal::Boolean),
        (0..=Timestamp::MAX.ticks())
            .prop_map(|ticks| Literal::DateTime(Timestamp::from_ticks(ticks).unwrap())),
        any::<[u8; 16]>().prop_map(|bytes| Literal::Guid(Guid(bytes))),
        proptest::collection::vec(any::<u8>(), 0..6).prop_map(Literal::Binary),
    ]
}

fn comparison() -> impl Strategy<Value = Comparison> {
    use Comparison::*;
    proptest::sample::select(vec![Equal, NotEqual, Greater, GreaterOrEqual, Less, LessOrEqual])
}

/// Filters as the parser makes them: no conjunction directly in another, nor a disjunction.
fn filter() -> impl Strategy<Value = Filter> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Filter::Constant),
        name().prop_map(Filter::IsTrue),
        (name(), comparison(), literal()).prop_map(|(property, how, value)| Filter::Compare {
            property,
            how,
            value
        }),
    ];
    leaf.prop_recursive(5, 24, 4, |inner| {
        let some = proptest::collection::vec(inner.clone(), 2..4);
        let flat = |filters: Vec<Filter>, and: bool| {
            let split = |filter| match filter {
                Filter::And(inner) if and => inner,
                Filter::Or(inner) if !and => inner,
                other => vec![other],
            };
            filters.into_iter().flat_map(split).collect()
        };
        prop_oneof![
            some.clone().prop_map(move |filters| Filter::And(flat(filters, true))),
            some.prop_map(move |filters| Filter::Or(flat(filters, false))),
            inner.prop_map(|filter| Filter::Not(Box::new(filter))),
        ]
    })
}

proptest! {
    #[test]
    fn printed_filters_parse_to_themselves(filter in filter()) {
        let text = print(&filter);
        prop_assert_eq!(parse(&text).unwrap(), Some(filter), "{}", text);
    }

    #[test]
    fn any_text_parses_or_not(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn any_words_parse_or_not(words in proptest::collection::vec(proptest::sample::select(vec![
        "a", "eq", "and", "or", "not", "(", ")", " ", "'", "'x'", "1", "-", "1L", "X'", "null", "true", ",", "add", "f(", "ä",
    ]), 0..24)) {
        let _ = parse(&words.concat());
        let _ = parse(&words.join(" "));
    }

    #[test]
    fn damaged_filters_parse_or_not(filter in filter(), at in any::<proptest::sample::Index>(), other in any::<char>()) {
        let mut text: Vec<char> = print(&filter).chars().collect();
        let at = at.index(text.len());
        text[at] = other;
        let _ = parse(&text.iter().collect::<String>());
        text.truncate(at);
        let _ = parse(&text.iter().collect::<String>());
    }
}
