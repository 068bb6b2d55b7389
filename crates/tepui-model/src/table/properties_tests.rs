use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone, PartialEq)]
enum Owned {
    String(String),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Boolean(bool),
    DateTime(Timestamp),
    Guid([u8; 16]),
    Binary(Vec<u8>),
}

impl Owned {
    fn borrow(&self) -> ValueRef<'_> {
        match self {
            Self::String(text) => ValueRef::string(text),
            Self::Int32(number) => ValueRef::Int32(*number),
            Self::Int64(number) => ValueRef::Int64(*number),
            Self::Double(number) => ValueRef::Double(*number),
            Self::Boolean(flag) => ValueRef::Boolean(*flag),
            Self::DateTime(time) => ValueRef::DateTime(*time),
            Self::Guid(bytes) => ValueRef::Guid(Guid(*bytes)),
            Self::Binary(bytes) => ValueRef::Binary(bytes),
        }
    }
}

fn value() -> impl Strategy<Value = Owned> {
    let storable = Timestamp::EARLIEST_STORABLE.ticks()..=Timestamp::MAX.ticks();
    prop_oneof![
        "\\PC{0,200}".prop_map(Owned::String),
        any::<i32>().prop_map(Owned::Int32),
        any::<i64>().prop_map(Owned::Int64),
        any::<f64>().prop_filter("NaN is not equal to itself", |n| !n.is_nan()).prop_map(Owned::Double),
        any::<bool>().prop_map(Owned::Boolean),
        storable.prop_map(|ticks| Owned::DateTime(Timestamp::from_ticks(ticks).unwrap())),
        any::<[u8; 16]>().prop_map(Owned::Guid),
        prop::collection::vec(any::<u8>(), 0..200).prop_map(Owned::Binary),
    ]
}

fn bag() -> impl Strategy<Value = Vec<(String, Owned)>> {
    prop::collection::btree_map("[A-Za-z_é][A-Za-z0-9_é]{0,8}", value(), 0..12)
        .prop_map(|map| map.into_iter().collect::<Vec<_>>())
        .prop_shuffle()
}

fn pack(bag: &[(String, Owned)]) -> Properties {
    let mut builder = PropertiesBuilder::new();
    for (name, value) in bag {
        builder.push(name, value.borrow()).unwrap();
    }
    builder.finish()
}

proptest! {
    #[test]
    fn what_is_packed_comes_out_in_order(bag in bag()) {
        let packed = pack(&bag);
        let out: Vec<_> = packed.iter().collect();
        let expected: Vec<_> = bag.iter().map(|(name, value)| (name.as_str(), value.borrow())).collect();
        prop_assert_eq!(out, expected);
        for (name, value) in &bag {
            prop_assert_eq!(packed.get(name), Some(value.borrow()));
        }
        prop_assert_eq!(packed.get("Missing"), None);
    }

    #[test]
    fn merging_sets_and_appends(old in bag(), new in bag()) {
        let mut expected = old.clone();
        for (name, value) in &new {
            match expected.iter_mut().find(|(known, _)| known == name) {
                Some(slot) => slot.1 = value.clone(),
                None => expected.push((name.clone(), value.clone())),
            }
        }
        prop_assert_eq!(pack(&old).merged_with(&pack(&new)), pack(&expected));
    }

    #[test]
    fn foreign_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let properties = Properties::from_stored(bytes.into());
        prop_assert!(properties.iter().count() <= 64);
        let _ = properties.get("A");
    }
}

#[test]
fn limits_of_one_property() {
    use ErrorCode::*;
    let long = |count| "x".repeat(count);
    let before = Timestamp::from_ticks(Timestamp::EARLIEST_STORABLE.ticks() - 1).unwrap();
    for (case, name, value, expected) in [
        ("longest string", "A".to_owned(), Owned::String(long(32_768)), Ok(())),
        ("string too long", "A".to_owned(), Owned::String(long(32_769)), Err(PropertyValueTooLarge)),
        ("counted in UTF-16", "A".to_owned(), Owned::String("é".repeat(32_768)), Ok(())),
        (
            "surrogates count twice",
            "A".to_owned(),
            Owned::String("😀".repeat(16_385)),
            Err(PropertyValueTooLarge),
        ),
        ("longest binary", "A".to_owned(), Owned::Binary(vec![0; 65_536]), Ok(())),
        ("binary too long", "A".to_owned(), Owned::Binary(vec![0; 65_537]), Err(PropertyValueTooLarge)),
        ("longest name", long(255), Owned::Int32(1), Ok(())),
        ("name too long", long(256), Owned::Int32(1), Err(PropertyNameTooLong)),
        ("empty name", String::new(), Owned::Int32(1), Err(PropertyNameInvalid)),
        ("digit first", "1a".to_owned(), Owned::Int32(1), Err(PropertyNameInvalid)),
        ("dash", "a-b".to_owned(), Owned::Int32(1), Err(PropertyNameInvalid)),
        ("underscore", "_a".to_owned(), Owned::Int32(1), Ok(())),
        ("letters of all scripts", "größe大".to_owned(), Owned::Int32(1), Ok(())),
        ("first storable date", "A".to_owned(), Owned::DateTime(Timestamp::EARLIEST_STORABLE), Ok(())),
        ("too early", "A".to_owned(), Owned::DateTime(before), Err(OutOfRangeInput)),
    ] {
        let outcome = PropertiesBuilder::new().push(&name, value.borrow()).map_err(|error| error.code);
        assert_eq!(outcome, expected, "{case}");
    }
}

#[test]
fn limits_of_the_whole_entity() {
    let bag: Vec<_> = (0..253).map(|index| (format!("P{index}"), Owned::Int32(index))).collect();
    assert_eq!(pack(&bag[..252]).check_entity("p", "r"), Ok(()));
    assert_eq!(pack(&bag).check_entity("p", "r"), Err(ErrorCode::TooManyProperties));
    let large: Vec<_> = (0..16).map(|index| (format!("P{index}"), Owned::Binary(vec![0; 65_536]))).collect();
    assert_eq!(pack(&large[..15]).check_entity("p", "r"), Ok(()));
    assert_eq!(pack(&large).check_entity("p", "r"), Err(ErrorCode::EntityTooLarge));
}
