use super::*;
use proptest::prelude::*;

fn is(key: &str, how: TagComparison, value: &str) -> TagFilter {
    TagFilter::Compare { key: key.to_owned(), how, value: value.to_owned() }
}

fn and(left: TagFilter, right: TagFilter) -> TagFilter {
    TagFilter::And(Box::new(left), Box::new(right))
}

fn or(left: TagFilter, right: TagFilter) -> TagFilter {
    TagFilter::Or(Box::new(left), Box::new(right))
}

#[test]
fn searches_are_read() {
    use TagComparison::*;
    let env = || is("env", Equal, "prod");
    let container = || TagFilter::Container("c".to_owned());
    for (text, expected) in [
        ("env='prod'", env()),
        ("  \"env\"  =  'prod' ", env()),
        ("\"env\"='prod' AND @container='c'", and(env(), container())),
        ("@container = 'c' and env='prod'", and(container(), env())),
        ("(env='prod')", env()),
        ("a >= '1' AND a < '5'", and(is("a", GreaterOrEqual, "1"), is("a", Less, "5"))),
        ("a<='1'", is("a", LessOrEqual, "1")),
        ("a>'1'", is("a", Greater, "1")),
        ("\"a +-./:=_b\"='+-./:=_ '", is("a +-./:=_b", Equal, "+-./:=_ ")),
        ("@container='it''s'", TagFilter::Container("it's".to_owned())),
        ("a='' AND b='x' AND c='y'", and(and(is("a", Equal, ""), is("b", Equal, "x")), is("c", Equal, "y"))),
    ] {
        assert_eq!(parse_find(text), Ok(expected), "{text}");
    }
}

#[test]
fn conditions_have_more_words_and_no_containers() {
    use TagComparison::*;
    let (a, b, c) = (|| is("a", Equal, "1"), || is("b", NotEqual, "2"), || is("c", Equal, "3"));
    for (text, expected) in [
        ("a='1' OR b<>'2' AND c='3'", or(a(), and(b(), c()))),
        ("(a='1' or b<>'2') and c='3'", and(or(a(), b()), c())),
    ] {
        assert_eq!(parse_condition(text), Ok(expected), "{text}");
        assert!(parse_find(text).is_err(), "{text}");
    }
    assert!(parse_condition("@container='c'").is_err());
}

#[test]
fn expressions_are_refused() {
    let deep = format!("{}a='1'{}", "(".repeat(17), ")".repeat(17));
    let many = vec!["a='1'"; 65].join(" AND ");
    let keys = (0..11).map(|key| format!("k{key}='1'")).collect::<Vec<_>>().join(" AND ");
    let (long_key, long_value) = (format!("{}='1'", "k".repeat(129)), format!("a='{}'", "v".repeat(257)));
    for (text, position) in [
        ("", 1),
        ("a", 2),
        ("a=", 3),
        ("a=1", 3),
        ("a='1", 4),
        ("a='1' b='2'", 7),
        ("a='1' AND", 10),
        ("a='1' ANDb='2'", 7),
        ("é='1'", 1),
        ("a='é' x", 3),
        ("a='x;y'", 3),
        ("b='1' AND \"a;\"='1'", 11),
        ("\"\"='1'", 1),
        (&long_key, 1),
        (&long_value, 3),
        ("(a='1'", 7),
        ("a='1')", 6),
        (&deep, 18),
        (&many, many.rfind("a=").unwrap() + 1),
        (&keys, keys.len() + 1),
    ] {
        assert_eq!(parse_find(text).map_err(|error| error.position), Err(position), "{text}");
    }
}

#[test]
fn conditions_may_be_long() {
    let keys = (0..500).map(|key| format!("k{key}='1'")).collect::<Vec<_>>().join(" OR ");
    assert!(parse_condition(&keys).is_ok());
    for refused in
        [format!("a='{}'", "v".repeat(257)), "a='x;y'".to_owned(), vec!["a='1'"; 1001].join(" OR ")]
    {
        assert!(parse_condition(&refused).is_err(), "{refused}");
    }
}

fn filter() -> impl Strategy<Value = TagFilter> {
    use TagComparison::*;
    let how = prop::sample::select(vec![Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual]);
    let leaf = ("[a-c :=]{1,2}", how, "[a-z+/]{0,3}").prop_map(|(key, how, value)| is(&key, how, &value));
    leaf.prop_recursive(4, 16, 2, |inner| {
        (inner.clone(), inner, any::<bool>())
            .prop_map(|(left, right, both)| if both { and(left, right) } else { or(left, right) })
    })
}

proptest! {
    #[test]
    fn printed_expressions_are_read_as_themselves(filter in filter()) {
        prop_assert_eq!(parse_condition(&print(&filter)), Ok(filter));
    }

    #[test]
    fn any_text_is_read_or_not(text in "(a|=|'1'|\"b\"|<>|>=|\\(|\\)| |AND|OR|@container|é|'){0,12}") {
        let _ = parse_find(&text);
        let _ = parse_condition(&text);
    }
}
