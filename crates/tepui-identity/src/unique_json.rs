//! JSON in which no object has a name twice. Readers differ in which one they take, and whoever signed the text may have meant the
//! other.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Reads an object. `None` if the bytes are anything else.
pub(crate) fn parse_object(bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut text = serde_json::Deserializer::from_slice(bytes);
    let value = Unique.deserialize(&mut text).ok()?;
    text.end().ok()?;
    match value {
        Value::Object(members) => Some(members),
        _ => None,
    }
}

struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON in which no name is given twice")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom("a name is given twice"));
            }
            let value = members.next_value_seed(Self)?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_what_is_none() {
        let deep = format!("{}{}", r#"{"a":"#.repeat(1000), "}".repeat(1000));
        for (case, text, is_read) in [
            ("empty", r"{}", true),
            ("all kinds", r#"{"a":[1,-1,1.5,"x",true,null,{"b":{}}]}"#, true),
            ("spaces around", " {} \n", true),
            ("a name twice", r#"{"a":1,"a":1}"#, false),
            ("a name twice, escaped", r#"{"a":1,"\u0061":1}"#, false),
            ("a name twice inside", r#"{"b":[{"a":1,"a":2}]}"#, false),
            ("the same name elsewhere", r#"{"a":{"a":1}}"#, true),
            ("a list", "[]", false),
            ("text", r#""a""#, false),
            ("more behind it", "{}{}", false),
            ("unfinished", r#"{"a":1"#, false),
            ("very deep", &deep, false),
            ("nothing", "", false),
            ("a byte order mark", "\u{FEFF}{}", false),
            ("no number", r#"{"a":NaN}"#, false),
        ] {
            assert_eq!(parse_object(text.as_bytes()).is_some(), is_read, "{case}");
        }
        assert!(parse_object(b"{\"a\":\"\xFF\"}").is_none(), "not UTF-8");
    }

    #[test]
    fn what_is_read_is_what_serde_reads() {
        let text = r#"{"a":[1,-1,1.5,1e300,"x\n",true,null,{"b":{}}],"c":18446744073709551615}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(parse_object(text.as_bytes()).map(Value::Object), Some(expected));
    }
}
