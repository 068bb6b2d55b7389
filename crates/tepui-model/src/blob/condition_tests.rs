use super::*;

const SECOND: u64 = 10_000_000;

fn at(seconds: u64, ticks: u64) -> Timestamp {
    Timestamp::from_ticks(seconds * SECOND + ticks).unwrap()
}

/// A blob that was changed within second 100.
fn check<T>(conditions: &Conditions, how: impl Fn(&Conditions, &Validators<'_>) -> T) -> T {
    let tags = Tags::new(vec![("k".to_owned(), "v".to_owned())]).unwrap();
    how(conditions, &Validators { changed: at(100, 5), container: "c", tags: &tags })
}

fn is(changed: Timestamp) -> Option<EtagMatch> {
    Some(EtagMatch::OneOf(vec![None, Some(changed)]))
}

#[test]
fn reads() {
    let (same, other) = (is(at(100, 5)), is(at(100, 6)));
    let none = Conditions::default();
    for (case, conditions, expected) in [
        ("none", none.clone(), Ok(())),
        ("match", Conditions { if_match: same.clone(), ..none.clone() }, Ok(())),
        ("match any", Conditions { if_match: Some(EtagMatch::Any), ..none.clone() }, Ok(())),
        ("match another", Conditions { if_match: other.clone(), ..none.clone() }, Err(Unmet::Failed)),
        ("none match", Conditions { if_none_match: same.clone(), ..none.clone() }, Err(Unmet::NotModified)),
        ("none match another", Conditions { if_none_match: other.clone(), ..none.clone() }, Ok(())),
        ("modified", Conditions { modified_since: Some(at(99, 0)), ..none.clone() }, Ok(())),
        (
            "modified in that second",
            Conditions { modified_since: Some(at(100, 0)), ..none.clone() },
            Err(Unmet::NotModified),
        ),
        (
            "unmodified since that second",
            Conditions { unmodified_since: Some(at(100, 0)), ..none.clone() },
            Ok(()),
        ),
        ("unmodified", Conditions { unmodified_since: Some(at(99, 9)), ..none.clone() }, Err(Unmet::Failed)),
        (
            "either of two will do",
            Conditions { if_none_match: same.clone(), modified_since: Some(at(99, 0)), ..none.clone() },
            Ok(()),
        ),
        (
            "both of these count",
            Conditions { if_match: same, unmodified_since: Some(at(99, 0)), ..none },
            Err(Unmet::Failed),
        ),
    ] {
        assert_eq!(check(&conditions, Conditions::check_read), expected, "{case}");
    }
}

#[test]
fn writes() {
    let failed = Err(ErrorCode::ConditionNotMet);
    let (same, other) = (is(at(100, 5)), is(at(100, 6)));
    let none = Conditions::default();
    let tagged = |value: &str| {
        Some(TagFilter::Compare {
            key: "k".to_owned(),
            how: crate::blob::TagComparison::Equal,
            value: value.to_owned(),
        })
    };
    for (case, conditions, expected) in [
        ("none", none.clone(), Ok(())),
        ("match", Conditions { if_match: same.clone(), ..none.clone() }, Ok(())),
        ("match another", Conditions { if_match: other.clone(), ..none.clone() }, failed),
        ("none match", Conditions { if_none_match: same.clone(), ..none.clone() }, failed),
        ("none match another", Conditions { if_none_match: other, ..none.clone() }, Ok(())),
        ("none match any", Conditions { if_none_match: Some(EtagMatch::Any), ..none.clone() }, Ok(())),
        (
            "the ETag decides",
            Conditions { if_match: same, unmodified_since: Some(at(1, 0)), ..none.clone() },
            Ok(()),
        ),
        ("unmodified", Conditions { unmodified_since: Some(at(99, 0)), ..none.clone() }, failed),
        ("modified", Conditions { modified_since: Some(at(100, 0)), ..none.clone() }, failed),
        ("tags", Conditions { tags: tagged("v"), ..none.clone() }, Ok(())),
        ("other tags", Conditions { tags: tagged("w"), ..none }, failed),
    ] {
        assert_eq!(check(&conditions, Conditions::check_write), expected, "{case}");
    }
}

#[test]
fn what_is_not_there() {
    let none = Conditions::default();
    for (conditions, expected) in [
        (none.clone(), Ok(())),
        (Conditions { if_match: Some(EtagMatch::Any), ..none.clone() }, Err(ErrorCode::ConditionNotMet)),
        (Conditions { if_none_match: Some(EtagMatch::Any), ..none.clone() }, Ok(())),
        (Conditions { unmodified_since: Some(at(1, 0)), ..none }, Ok(())),
    ] {
        assert_eq!(conditions.check_absent(), expected, "{conditions:?}");
    }
}

#[test]
fn positions_and_numbers() {
    let append = |position, max_bytes| AppendConditions { position, max_bytes }.check(5, 5);
    assert_eq!(append(Some(5), Some(10)), Ok(()));
    assert_eq!(append(Some(0), None), Err(ErrorCode::AppendPositionConditionNotMet));
    assert_eq!(append(None, Some(9)), Err(ErrorCode::MaxBlobSizeConditionNotMet));
    let sequence = |at_most, less_than, equal| SequenceConditions { at_most, less_than, equal }.check(1);
    assert_eq!(sequence(Some(1), Some(2), Some(1)), Ok(()));
    for unmet in [sequence(Some(0), None, None), sequence(None, Some(1), None), sequence(None, None, Some(2))]
    {
        assert_eq!(unmet, Err(ErrorCode::SequenceNumberConditionNotMet));
    }
}
