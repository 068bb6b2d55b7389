use super::*;
use proptest::prelude::*;
use tepui_model::Timestamp;
use tepui_model::table::{Comparison, EntityView, Literal};

const TABLE: Incarnation = Incarnation(7);

fn compare(property: &str, how: Comparison, text: &str) -> Filter {
    Filter::Compare { property: property.to_owned(), how, value: Literal::String(text.to_owned()) }
}

fn pk(text: &str) -> Filter {
    compare("PartitionKey", Comparison::Equal, text)
}

fn rk(how: Comparison, text: &str) -> Filter {
    compare("RowKey", how, text)
}

#[test]
fn kinds_and_numbers_of_ranges() {
    use Comparison::*;
    use Filter::*;
    let other = || Filter::Compare { property: "Age".to_owned(), how: Greater, value: Literal::Int32(3) };
    for (case, filter, kind, ranges, exact) in [
        ("none", None, PlanKind::Table, 1, true),
        ("point", Some(And(vec![pk("a"), rk(Equal, "1")])), PlanKind::Point, 1, true),
        ("partition", Some(pk("a")), PlanKind::Partition, 1, true),
        (
            "rows",
            Some(And(vec![pk("a"), rk(GreaterOrEqual, "1"), rk(Less, "5")])),
            PlanKind::RowRange,
            1,
            true,
        ),
        ("rows and more", Some(And(vec![pk("a"), rk(Less, "5"), other()])), PlanKind::RowRange, 1, false),
        ("partitions", Some(compare("PartitionKey", Greater, "a")), PlanKind::PartitionRange, 1, true),
        ("row of all partitions", Some(rk(Equal, "1")), PlanKind::Table, 1, false),
        (
            "row of some partitions",
            Some(And(vec![compare("PartitionKey", Less, "m"), rk(Equal, "1")])),
            PlanKind::PartitionRange,
            1,
            false,
        ),
        (
            "points",
            Some(And(vec![pk("a"), Or(vec![rk(Equal, "1"), rk(Equal, "2"), rk(Equal, "9")])])),
            PlanKind::Point,
            3,
            true,
        ),
        ("two partitions", Some(Or(vec![pk("a"), pk("c")])), PlanKind::Partition, 2, true),
        (
            "overlapping",
            Some(Or(vec![pk("a"), And(vec![pk("a"), rk(Less, "5")])])),
            PlanKind::Partition,
            1,
            true,
        ),
        ("contradiction", Some(And(vec![pk("a"), pk("b")])), PlanKind::Nothing, 0, true),
        ("constant", Some(Constant(false)), PlanKind::Nothing, 0, true),
        ("not equal", Some(Not(Box::new(pk("a")))), PlanKind::PartitionRange, 2, true),
        ("or with anything", Some(Or(vec![pk("a"), other()])), PlanKind::Table, 1, false),
        (
            "not a text",
            Some(Filter::Compare {
                property: "PartitionKey".to_owned(),
                how: Equal,
                value: Literal::Int32(1),
            }),
            PlanKind::Nothing,
            0,
            true,
        ),
    ] {
        let plan = entities(TABLE, filter.as_ref(), &KeyBounds::EVERYTHING);
        assert_eq!((plan.kind, plan.ranges.len(), plan.exact), (kind, ranges, exact), "{case}");
    }
}

#[test]
fn very_many_alternatives_fall_back_to_less_narrow_ranges() {
    let many = Filter::Or((0..2000).map(|number| pk(&number.to_string())).collect());
    let plan = entities(TABLE, Some(&many), &KeyBounds::EVERYTHING);
    assert_eq!((plan.kind, plan.ranges.len(), plan.exact), (PlanKind::Table, 1, false));
    let some = |property: &'static str| {
        Filter::Or((0..100).map(|number| compare(property, Comparison::Equal, &number.to_string())).collect())
    };
    let plan = entities(
        TABLE,
        Some(&Filter::And(vec![some("PartitionKey"), some("RowKey")])),
        &KeyBounds::EVERYTHING,
    );
    assert_eq!((plan.kind, plan.ranges.len(), plan.exact), (PlanKind::Partition, 100, false));
}

#[test]
fn bounds_of_a_sas_cut_the_ranges() {
    let bounds = KeyBounds {
        start_partition: Some("b".to_owned()),
        start_row: Some("3".to_owned()),
        end_partition: Some("d".to_owned()),
        end_row: None,
    };
    let plan = entities(TABLE, None, &bounds);
    let inside = |p: &str, r: &str| {
        let key = keyspace::entity(TABLE, p, r);
        plan.ranges.iter().any(|range| range.start <= key && key < range.end)
    };
    for (p, r, expected) in [
        ("a", "9", false),
        ("b", "2", false),
        ("b", "3", true),
        ("c", "", true),
        ("d", "z", true),
        ("e", "", false),
    ] {
        assert_eq!(inside(p, r), expected, "{p} {r}");
    }
    assert!(entities(TABLE, Some(&pk("a")), &bounds).ranges.is_empty());
}

#[test]
fn tables_by_prefix() {
    let prefix = Filter::And(vec![
        compare("TableName", Comparison::GreaterOrEqual, "ord"),
        compare("TableName", Comparison::Less, "ord{"),
    ]);
    let ranges = tables("acct", Some(&prefix));
    let inside = |name: &str| {
        let key = keyspace::table("acct", name);
        ranges.iter().any(|range| range.start <= key && key < range.end)
    };
    assert_eq!((inside("ord"), inside("orders"), inside("orc"), inside("ore")), (true, true, false, false));
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let text = || prop::sample::select(vec!["", "a", "aa", "b", "😀", "\u{E000}"]);
    let how = || {
        use Comparison::*;
        prop::sample::select(vec![Equal, NotEqual, Greater, GreaterOrEqual, Less, LessOrEqual])
    };
    let property = prop::sample::select(vec!["PartitionKey", "RowKey", "Other"]);
    let leaf = prop_oneof![
        8 => (property, how(), text()).prop_map(|(property, how, text)| compare(property, how, text)),
        1 => any::<bool>().prop_map(Filter::Constant),
        1 => how().prop_map(|how| Filter::Compare { property: "RowKey".to_owned(), how, value: Literal::Int64(4) }),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Filter::And),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Filter::Or),
            inner.prop_map(|filter| Filter::Not(Box::new(filter))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn ranges_hold_every_match_and_an_exact_plan_nothing_else(filter in any_filter()) {
        let plan = entities(TABLE, Some(&filter), &KeyBounds::EVERYTHING);
        for pair in plan.ranges.windows(2) {
            prop_assert!(pair[0].end < pair[1].start);
        }
        let explained = tepui_model::table::explain(Some(&filter));
        prop_assert_eq!((explained.plan, explained.ranges.len()), (plan.kind, plan.ranges.len()));
        for p in ["", "a", "aa", "ab", "b", "c", "😀", "\u{E000}"] {
            for r in ["", "a", "aa", "ab", "b", "c", "😀", "\u{E000}"] {
                let view = EntityView { partition_key: p, row_key: r, timestamp: Timestamp::MIN, packed: &[] };
                let key = keyspace::entity(TABLE, p, r);
                let inside = plan.ranges.iter().any(|range| range.start <= key && key < range.end);
                let matches = filter.matches(&view);
                prop_assert!(inside || !matches, "{p} {r} is missed");
                prop_assert!(!plan.exact || inside == matches, "{p} {r} is not exact");
            }
        }
    }
}
