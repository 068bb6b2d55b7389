//! Entities there and back, for random values of all types up to their limits.
//!
//! `TEPUI_TEST_SEED` replays a seed that was printed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tepui_client::entity::Properties;
use tepui_client::{
    DynamicEntity, ETag, Entity, ErrorKind, Guid, Projection, PropertyEnum, StoredEntity, Timestamp,
};

#[derive(PropertyEnum, Debug, Clone, Copy, PartialEq)]
enum Status {
    Hired,
    Left,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Address {
    city: String,
    numbers: Vec<u64>,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Values", kind = "Values", rename_all = "PascalCase", entry_derive(Debug, Clone, PartialEq))]
#[key(
    partition = "{status}_{path:ordered} {level:signed}",
    row = "v_{at:desc}_{sequence:05}_{share:float}{guid}"
)]
#[index(by_name, row = "name_{name:ordered} {at:desc}{sequence:05}{share:float}{guid}")]
struct Values {
    status: Status,
    path: String,
    level: i64,
    at: Timestamp,
    sequence: u16,
    share: f64,
    guid: Guid,
    name: String,
    a: Option<i8>,
    b: Option<i16>,
    c: Option<i32>,
    d: Option<u8>,
    e: Option<u16>,
    f: Option<u32>,
    g: Option<i64>,
    h: Option<f64>,
    i: Option<bool>,
    j: Option<String>,
    k: Option<Timestamp>,
    l: Option<Guid>,
    m: Option<Vec<u8>>,
    n: Option<Status>,
    #[json]
    o: Option<Address>,
    #[property(as = "String")]
    p: Option<u64>,
    #[split]
    q: Option<String>,
    #[split]
    r: Option<Vec<u8>>,
    #[rest]
    others: Properties,
}

#[derive(Projection, Debug, PartialEq)]
#[projection(of = Values)]
struct Part {
    path: String,
    at: Timestamp,
    o: Option<Address>,
    q: Option<String>,
    g: Option<i64>,
}

#[test]
fn entities_there_and_back() {
    let seed = std::env::var("TEPUI_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("TEPUI_TEST_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let mut read = 0;
    for _ in 0..1_000 {
        let values = values(&mut rng);
        let (key, properties) = match (values.entity_key(), values.to_properties()) {
            (Ok(key), Ok(properties)) => (key, properties),
            (key, properties) => {
                // Only what is too large is not written.
                let error = key.err().or(properties.err()).unwrap();
                assert!(matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::KeyInvalid), "{error:?}");
                continue;
            }
        };
        let stored = StoredEntity { key, etag: ETag::new(""), timestamp: None, properties };
        assert_eq!(Values::from_stored(&stored).unwrap(), values);
        let other = DynamicEntity::from_stored(&stored).unwrap();
        assert_eq!(other.to_properties().unwrap(), stored.properties);

        let names = <Part as tepui_client::entity::typed::Projection>::properties();
        let mut selected = DynamicEntity::new("", "");
        for (name, value) in other.iter().filter(|(name, _)| names.contains(name)) {
            selected.set(name, value.clone());
        }
        let part = StoredEntity { properties: selected.to_properties().unwrap(), ..stored };
        let part = <Part as tepui_client::entity::ReadEntity>::read(&part).unwrap();
        let Values { path, at, o, q, g, .. } = values.clone();
        assert_eq!(part, Part { path, at, o, q, g });

        let copies = tepui_client::patterns::copies::Copies::copies(&values).unwrap();
        let copy = copies.into_iter().next().unwrap();
        let entry =
            StoredEntity { key: copy.key, properties: copy.properties, etag: ETag::new(""), timestamp: None };
        assert_eq!(Values::from(ValuesByName::from_stored(&entry).unwrap()), values);
        read += 1;
    }
    assert!(read > 500, "{read}");
}

fn values(rng: &mut Rng) -> Values {
    let others = DynamicEntity::new("", "").with("Other", text(rng, 3)).with("Number", rng.i64(..));
    let others = if rng.bool() { others.to_properties().unwrap() } else { Properties::default() };
    Values {
        status: status(rng),
        path: text(rng, 20),
        level: rng.i64(..),
        at: time(rng),
        sequence: rng.u16(..),
        share: float(rng),
        guid: Guid(rng.u128(..).to_be_bytes()),
        name: text(rng, 20),
        a: some(rng, |rng| rng.i8(..)),
        b: some(rng, |rng| rng.i16(..)),
        c: some(rng, |rng| rng.i32(..)),
        d: some(rng, |rng| rng.u8(..)),
        e: some(rng, |rng| rng.u16(..)),
        f: some(rng, |rng| rng.u32(..)),
        g: some(rng, |rng| rng.i64(..)),
        h: some(rng, float),
        i: some(rng, Rng::bool),
        j: some(rng, |rng| text(rng, 50)),
        k: some(rng, property_time),
        l: some(rng, |rng| Guid(rng.u128(..).to_be_bytes())),
        m: some(rng, |rng| bytes(rng, 70_000)),
        n: some(rng, status),
        o: some(rng, |rng| Address { city: text(rng, 9), numbers: vec![rng.u64(..), u64::MAX] }),
        p: some(rng, |rng| rng.u64(..)),
        q: some(rng, large_text),
        r: some(rng, |rng| bytes(rng, 200_000)),
        others,
    }
}

fn some<T>(rng: &mut Rng, value: impl Fn(&mut Rng) -> T) -> Option<T> {
    rng.bool().then(|| value(rng))
}

fn status(rng: &mut Rng) -> Status {
    if rng.bool() { Status::Hired } else { Status::Left }
}

fn time(rng: &mut Rng) -> Timestamp {
    Timestamp::from_ticks(rng.u64(0..=Timestamp::MAX.ticks())).unwrap()
}

/// Properties begin later than keys.
fn property_time(rng: &mut Rng) -> Timestamp {
    time(rng).max(Timestamp::parse_iso("1601-01-01").unwrap())
}

/// Any number: NaN has no place in a key.
fn float(rng: &mut Rng) -> f64 {
    let value = f64::from_bits(rng.u64(..));
    if value.is_nan() { -0.5 } else { value }
}

fn text(rng: &mut Rng, length: usize) -> String {
    (0..rng.usize(0..=length)).map(|_| if rng.bool() { rng.char(..) } else { rng.alphanumeric() }).collect()
}

/// Mostly about as long as one piece, or several.
fn large_text(rng: &mut Rng) -> String {
    let unit = ["x", "é", "😀", "大a"][rng.usize(0..4)];
    let length = [0, 1, 100, 32_767, 32_768, 32_769, 65_536, 100_000][rng.usize(0..8)];
    format!("{}{}", text(rng, 2), unit.repeat(length / unit.encode_utf16().count()))
}

fn bytes(rng: &mut Rng, length: usize) -> Vec<u8> {
    let length = if rng.u8(0..4) == 0 { rng.usize(0..=length) } else { rng.usize(0..=20) };
    (0..length).map(|_| rng.u8(..)).collect()
}
