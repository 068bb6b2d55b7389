//! Formats: vectors of old clients, round trips, and whatever somebody may do to what is stored.

use super::cipher::{EntityCipher, Place};
use super::metadata::{DETAILS, Details, IV_BYTES, LIST, Protocol};
use super::*;
use crate::entity::{PropertiesBuilder, ValueRef};
use crate::{DynamicEntity, EdmType, ErrorKind, Guid, Timestamp, Value};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;
use std::sync::Arc;

fn key(id: &str, byte: u8) -> AesKey {
    AesKey::new(id, &[byte; 32]).unwrap()
}

/// Encrypts whatever begins with `Secret`.
fn policy() -> Policy {
    Policy::new(key("k1", 1)).encrypt_if(|_, name| name.starts_with("Secret"))
}

fn at(entity: &DynamicEntity) -> Place<'_> {
    Place { table: "People", key: &entity.key }
}

async fn seal(policy: &Policy, entity: &DynamicEntity) -> Result<DynamicEntity, Error> {
    let sealed = policy.seal(at(entity), &Entity::to_properties(entity)?, &[]).await?;
    Ok(from(&entity.key, sealed))
}

async fn open(policy: &Policy, sealed: &DynamicEntity) -> Result<DynamicEntity, Error> {
    let opened = policy.open(at(sealed), &Entity::to_properties(sealed)?, None, &[]).await?;
    Ok(from(&sealed.key, opened))
}

fn from(key: &EntityKey, properties: Properties) -> DynamicEntity {
    let empty = DynamicEntity::new(&key.partition_key, &key.row_key);
    properties.iter().fold(empty, |entity, (name, value)| entity.with(name, Value::from(value)))
}

fn employee() -> DynamicEntity {
    DynamicEntity::new("Sales", "000223")
        .with("Name", "Jun Cao")
        .with("SecretText", "é大😀")
        .with("SecretEmpty", "")
        .with("SecretInt32", -1)
        .with("SecretInt64", i64::MIN)
        .with("SecretDouble", -0.0)
        .with("SecretBoolean", true)
        .with("SecretTime", Timestamp::from_ticks(637_000_000_000_000_001).unwrap())
        .with("SecretGuid", Guid([7; 16]))
        .with("SecretBinary", vec![0_u8, 255])
        .with("Age", 34)
}

fn is_undecryptable(outcome: Result<DynamicEntity, Error>) -> bool {
    outcome.is_err_and(|error| {
        error.kind() == ErrorKind::Decode && error.to_string() == "the entity cannot be decrypted"
    })
}

/// What .NET and Java have written, from the tests of their libraries (azure-storage-net and azure-storage-java, both
/// "cross platform").
#[tokio::test]
async fn what_old_clients_have_written_is_read() {
    let kek = STANDARD.decode("rFz7+tv4hRiWdWUJMFlxl1xxtU/qFUeTriGaxwEcxjU=").unwrap();
    let keys = || KeyRing::new().with(AesKey::new("key1", &kek).unwrap());
    for (case, row, values, wrapped, iv, rest, list) in [
        (
            ".NET",
            "netUp",
            ["27cLSlSFqy9C0xUCr57XAA==", "pZR6Ln/DwbwyyOCEezL/hg==", "JOix4N8eX/WuCtIvlD2QxQ=="],
            "pwSKxpJkwCS2zCaykh0m8e4OApeLuQ4FiahZ9zdwxaLL1HsWqQ4DSw==",
            "obTAQcYeFQ3IU7Jfcema7Q==",
            ",\"KeyWrappingMetadata\":{}",
            "MWA7LlvXSJnKhf8f7MVhfjWECkxrCyCXGIlYY6ucpr34IVDU7fN6IHvKxV15WiXp",
        ),
        (
            "Java",
            "javaUp",
            ["sa3bCvXq79ImSPveChS+cg==", "KXjuBNn9DesCmMcdVpamJw==", "wykVEni1rV+H6oNjoNml6A=="],
            "2F4rIuDmGPgEmhpvTtE7x6281BetKz80EsgRwGxTjL8rRt7Z7GrOgg==",
            "8st/uXffG+6DxBhw4D1URw==",
            "",
            "WznUoytxkvl9KhZ4mNlqkBvRTUHN/D5IgJmNl7kQBOtFBOSgZZrTfZXKH8GjmvKA",
        ),
    ] {
        let bytes = |text| STANDARD.decode(text).unwrap();
        let details = format!(
            "{{\"WrappedContentKey\":{{\"KeyId\":\"key1\",\"EncryptedKey\":\"{wrapped}\",\"Algorithm\":\"A256KW\"}},\
             \"EncryptionAgent\":{{\"Protocol\":\"1.0\",\"EncryptionAlgorithm\":\"AES_CBC_256\"}},\
             \"ContentEncryptionIV\":\"{iv}\"{rest}}}"
        );
        let stored = DynamicEntity::new("pk", row)
            .with("sampleProp", bytes(values[0]))
            .with("sampleProp2", bytes(values[1]))
            .with("sampleProp3", bytes(values[2]))
            .with(DETAILS, details.as_str())
            .with(LIST, bytes(list));
        let opened = open(&Policy::reader(keys()).require(), &stored).await.unwrap();
        let expected = ["sampleProp", "sampleProp2", "sampleProp3"]
            .into_iter()
            .fold(DynamicEntity::new("pk", row), |entity, name| entity.with(name, "sampleValue"));
        assert_eq!(opened, expected, "{case}");
        assert_eq!(Details::parse(&details).unwrap().to_text(), details, "{case}: written as it was read");
        assert!(open(&Policy::reader(keys()).refuse_legacy(), &stored).await.is_err(), "{case}");
    }
}

#[tokio::test]
async fn all_types_are_read_as_they_were_written() {
    let sealed = seal(&policy(), &employee()).await.unwrap();
    assert_eq!(sealed.get("Name"), Some(&"Jun Cao".into()));
    for (name, value) in sealed.iter().filter(|(name, _)| name.starts_with("Secret")) {
        assert_eq!(value.edm_type(), EdmType::Binary, "{name}");
    }
    assert_eq!(open(&policy(), &sealed).await.unwrap(), employee());
    let again = seal(&policy(), &employee()).await.unwrap();
    assert_ne!(again.get("SecretText"), sealed.get("SecretText"), "another content key each time");
}

/// Any names, values and keys, in both formats.
#[tokio::test]
async fn random_entities_are_read_as_they_were_written() {
    let seed = std::env::var("TEPUI_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("TEPUI_TEST_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    for _ in 0..2_000 {
        let is_legacy = rng.bool();
        let format = if is_legacy { Format::LegacyV1 } else { Format::Tepui1 };
        let mut entity = DynamicEntity::new(text(&mut rng), text(&mut rng));
        for index in 0..rng.usize(0..8) {
            let value = if is_legacy { text(&mut rng).into() } else { value(&mut rng) };
            entity.set(format!("Secret{index}"), value);
            entity.set(format!("Plain{index}"), text(&mut rng));
        }
        let policy = policy().format(format).require();
        let sealed = seal(&policy, &entity).await.unwrap();
        let mut opened = open(&policy, &sealed).await.unwrap();
        for (name, value) in entity.iter() {
            // NaN is not equal to itself.
            let bits = |value: &Value| value.as_f64().map(f64::to_bits);
            assert_eq!(opened.get(name).and_then(bits), bits(value), "{name}");
            if let Some(Value::Double(number)) = opened.get(name)
                && number.is_nan()
            {
                opened.set(name, value.clone());
                continue;
            }
            assert_eq!(opened.get(name), Some(value), "{name}");
        }
        assert_eq!(opened.iter().count(), entity.iter().count());
    }
}

fn text(rng: &mut Rng) -> String {
    (0..rng.usize(0..40)).map(|_| rng.char(..)).collect()
}

fn value(rng: &mut Rng) -> Value {
    match rng.u8(0..8) {
        0 => text(rng).into(),
        1 => rng.i32(..).into(),
        2 => rng.i64(..).into(),
        3 => f64::from_bits(rng.u64(..)).into(),
        4 => rng.bool().into(),
        5 => Timestamp::from_ticks(rng.u64(Timestamp::EARLIEST_STORABLE.ticks()..=Timestamp::MAX.ticks()))
            .unwrap()
            .into(),
        6 => Guid(rng.u128(..).to_be_bytes()).into(),
        _ => (0..rng.usize(0..100)).map(|_| rng.u8(..)).collect::<Vec<_>>().into(),
    }
}

#[tokio::test]
async fn any_change_of_a_byte_is_noticed() {
    let sealed = seal(&policy(), &employee()).await.unwrap();
    let encrypted: Vec<_> =
        sealed.iter().filter_map(|(name, value)| Some((name, value.as_bytes()?))).collect();
    assert_eq!(encrypted.len(), 10, "nine properties and their list");
    for (name, bytes) in encrypted {
        for index in 0..bytes.len() {
            for flipped in [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF] {
                let mut changed = bytes.to_vec();
                changed[index] ^= flipped;
                let changed = sealed.clone().with(name, changed);
                assert!(is_undecryptable(open(&policy(), &changed).await), "{name} {index} {flipped}");
            }
        }
        for length in [0, bytes.len() - 1] {
            let shorter = sealed.clone().with(name, bytes[..length].to_vec());
            assert!(is_undecryptable(open(&policy(), &shorter).await), "{name} {length}");
        }
        let as_text = sealed.clone().with(name, "text");
        assert!(is_undecryptable(open(&policy(), &as_text).await), "{name}");
    }
}

#[tokio::test]
async fn any_change_of_the_details_is_noticed() {
    let sealed = seal(&policy(), &employee()).await.unwrap();
    let details = sealed.get(DETAILS).and_then(Value::as_str).unwrap().as_bytes().to_vec();
    let mut tried = 0;
    for index in 0..details.len() {
        for flipped in 1..=u8::MAX {
            let mut changed = details.clone();
            changed[index] ^= flipped;
            // Texts are UTF-8, or they are not stored.
            let Ok(changed) = String::from_utf8(changed) else { continue };
            let changed = sealed.clone().with(DETAILS, changed);
            assert!(is_undecryptable(open(&policy(), &changed).await), "{index} {flipped}");
            tried += 1;
        }
    }
    assert!(tried > 20_000, "{tried}");
}

#[tokio::test]
async fn what_is_moved_is_refused() {
    let sealed = seal(&policy(), &employee()).await.unwrap();
    let properties = Entity::to_properties(&sealed).unwrap();
    let elsewhere = |table, partition: &str, row: &str| {
        let (key, properties) = (EntityKey::new(partition, row), properties.clone());
        async move { policy().open(Place { table, key: &key }, &properties, None, &[]).await.is_ok() }
    };
    assert!(elsewhere("People", "Sales", "000223").await);
    assert!(elsewhere("peoplE", "Sales", "000223").await, "the same table");
    assert!(!elsewhere("People2", "Sales", "000223").await);
    assert!(!elsewhere("People", "Sales2", "000223").await);
    assert!(!elsewhere("People", "Sales", "000224").await);
    assert!(!elsewhere("People", "Sales0", "00223").await, "parts do not run into each other");

    let moved = |from: &str, to: &str| sealed.clone().with(to, sealed.get(from).unwrap().clone());
    assert!(is_undecryptable(open(&policy(), &moved("SecretInt32", "SecretText")).await));
    let other = seal(&policy(), &employee()).await.unwrap();
    for name in ["SecretText", LIST, DETAILS] {
        let mixed = sealed.clone().with(name, other.get(name).unwrap().clone());
        assert!(is_undecryptable(open(&policy(), &mixed).await), "{name} of another version");
    }
    for name in ["SecretText", LIST, DETAILS] {
        let mut without = sealed.clone();
        without.remove(name);
        assert!(is_undecryptable(open(&policy(), &without).await), "without {name}");
    }
}

#[test]
fn a_value_of_another_type_is_refused() {
    let (key, content_key) = (EntityKey::new("p", "r"), ContentKey::random().unwrap());
    let place = Place { table: "People", key: &key };
    let cipher = EntityCipher::new(Protocol::Tepui1, &content_key, [1; IV_BYTES], place).unwrap();
    let encrypted = cipher.encrypt("A", ValueRef::Int64(1)).unwrap();
    assert_eq!(cipher.decrypt("A", EdmType::Int64, &encrypted), Some(Value::Int64(1)));
    for other in [EdmType::Double, EdmType::DateTime, EdmType::Binary, EdmType::String] {
        assert_eq!(cipher.decrypt("A", other, &encrypted), None, "{other:?}");
    }
    assert_eq!(cipher.decrypt("B", EdmType::Int64, &encrypted), None);
    let other = EntityCipher::new(Protocol::Tepui1, &content_key, [2; IV_BYTES], place).unwrap();
    assert_eq!(other.decrypt("A", EdmType::Int64, &encrypted), None);
}

#[tokio::test]
async fn wrong_keys_look_like_wrong_bytes() {
    let sealed = seal(&policy(), &employee()).await.unwrap();
    let other_key = Policy::new(key("k1", 2)).encrypt_if(|_, _| true);
    assert!(is_undecryptable(open(&other_key, &sealed).await), "the same id, another key");
    let unknown = Policy::new(key("k2", 1)).encrypt_if(|_, _| true);
    assert!(is_undecryptable(open(&unknown, &sealed).await), "another id");
    let resolved = unknown.keys(KeyRing::new().with(key("k1", 1)));
    assert_eq!(open(&resolved, &sealed).await.unwrap(), employee());
    assert_eq!(open(&Policy::reader(KeyRing::new().with(key("k1", 1))), &sealed).await.unwrap(), employee());
}

/// Keys in a vault that is down.
struct Down;

impl KeyResolver for Down {
    fn key<'a>(&'a self, _: &'a str) -> KeyFuture<'a, Option<Arc<dyn KeyEncryptionKey>>> {
        Box::pin(async { Err(KeyFailure::unavailable("the vault is down")) })
    }
}

#[tokio::test]
async fn a_vault_that_is_down_is_no_wrong_key() {
    let sealed = seal(&policy(), &employee()).await.unwrap();
    let error = open(&Policy::reader(Down), &sealed).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(format!("{error:?}").contains("the vault is down"));
}

#[tokio::test]
async fn encryption_can_be_required() {
    let plain = employee();
    assert_eq!(open(&policy(), &plain).await.unwrap(), plain);
    assert!(open(&policy().require(), &plain).await.is_err());
    let sealed = seal(&policy(), &plain).await.unwrap();
    assert_eq!(open(&policy().require(), &sealed).await.unwrap(), plain);
    // A property in the clear beside encrypted ones.
    let added = sealed.with("SecretMore", "public");
    assert!(open(&policy(), &added).await.is_ok());
    assert!(is_undecryptable(open(&policy().require(), &added).await));
}

/// Else it would be written back for all to read.
#[tokio::test]
async fn what_would_not_be_encrypted_again_is_not_read() {
    let sealed = seal(&policy(), &employee()).await.unwrap();
    let forgetful = Policy::new(key("k1", 1)).encrypt(["SecretText"]);
    let error = open(&forgetful, &sealed).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("Secret"), "{error}");
}

#[tokio::test]
async fn the_old_format_is_written_only_when_asked_for() {
    let details = |sealed: &DynamicEntity| sealed.get(DETAILS).unwrap().as_str().unwrap().to_owned();
    let sealed = seal(&policy(), &employee()).await.unwrap();
    assert!(details(&sealed).contains("\"Protocol\":\"tepui/1\""));
    let legacy = policy().format(Format::LegacyV1);
    let refused = seal(&legacy, &employee()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused, "numbers are no texts");
    let texts = DynamicEntity::new("p", "r").with("SecretA", "a").with("B", 1);
    let sealed = seal(&legacy, &texts).await.unwrap();
    assert!(details(&sealed).contains("\"Protocol\":\"1.0\""));
    assert!(details(&sealed).contains("\"EncryptionLibrary\":\"Tepui "));
    assert_eq!(open(&policy(), &sealed).await.unwrap(), texts);
    assert!(open(&policy().refuse_legacy(), &sealed).await.is_err());
}

/// With the other protocol, the same content key is another key.
#[tokio::test]
async fn an_entity_cannot_claim_to_be_of_the_old_format() {
    let sealed = seal(&policy(), &employee()).await.unwrap();
    let details = Details::parse(sealed.get(DETAILS).unwrap().as_str().unwrap()).unwrap();
    let claimed = Details { protocol: Protocol::V1, key_wrapping: Some(Details::library()), ..details };
    let claimed = sealed.with(DETAILS, claimed.to_text());
    assert!(is_undecryptable(open(&policy(), &claimed).await));
}

#[tokio::test]
async fn properties_of_the_client_itself_are_refused() {
    for name in [DETAILS, LIST] {
        let entity = DynamicEntity::new("p", "r").with(name, "x");
        assert_eq!(seal(&policy(), &entity).await.unwrap_err().kind(), ErrorKind::Refused, "{name}");
    }
}

#[tokio::test]
async fn readers_do_not_write() {
    let reader = Policy::reader(KeyRing::new());
    assert_eq!(seal(&reader, &employee()).await.unwrap_err().kind(), ErrorKind::Configuration);
}

#[tokio::test]
async fn projections_need_only_what_they_ask_for() {
    let sealed = seal(&policy(), &employee()).await.unwrap();
    let mut few = PropertiesBuilder::new();
    for name in ["SecretText", DETAILS, LIST] {
        few.push(name, sealed.get(name).unwrap().as_ref()).unwrap();
    }
    let few = few.finish();
    let selected = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let (policy, place) = (policy(), at(&sealed));
    let opened = policy.open(place, &few, Some(&selected(&["SecretText", "Name"])), &[]).await.unwrap();
    assert_eq!(opened.get("SecretText"), Some(ValueRef::string("é大😀")));
    assert!(policy.open(place, &few, Some(&selected(&["SecretText", "SecretInt32"])), &[]).await.is_err());
}

#[test]
fn policies_print_no_keys() {
    let printed =
        format!("{:?}", Policy::new(key("name", 0x5A)).keys(KeyRing::new().with(key("other", 0x5A))));
    assert!(printed.contains("name") && !printed.contains("90") && !printed.contains("5A"), "{printed}");
}
