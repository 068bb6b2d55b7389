//! Entities and tables from JSON.

use super::reader::{Malformed, Reader, Value};
use crate::table::number::parse_digits;
use crate::table::value::parse_value;
use std::borrow::Cow;
use tepui_model::table::entity::{check_key_characters, check_key_lengths};
use tepui_model::table::properties::MAX_PROPERTIES;
use tepui_model::table::{EdmType, Properties, PropertiesBuilder, ValueRef};
use tepui_model::{ErrorCode, ServiceError};

/// Annotations that stand apart from their values are kept up to this number.
const MAX_DISTANT_ANNOTATIONS: usize = 1024;
/// Names without a value are kept up to this number, to find those that are said twice.
const MAX_NULLS: usize = 8192;

/// An entity as a request has it: the keys may be missing, the address may have them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecodedEntity {
    pub partition_key: Option<String>,
    pub row_key: Option<String>,
    pub properties: Properties,
}

/// Where the keys of an entity are said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeysIn {
    /// In the body: an insert, which needs them both.
    Body,
    /// In the address; those in the body, if any, do not matter.
    Address,
}

/// The entity that a body holds.
///
/// Bodies that are not JSON, or hold values that do not fit their annotations, come before all other
/// errors. Of the others a name said twice is told first, then a key or a date out of range, then what
/// the store refuses: missing keys, too large values, then names, then the number of properties.
pub fn decode_entity(body: &[u8], keys: KeysIn) -> Result<DecodedEntity, ServiceError> {
    let mut reader = Reader::open(body)?;
    let mut members = Members::default();
    while let Some((name, value)) = reader.next()? {
        members.add(name, value, keys)?;
    }
    members.into_entity(body.len(), keys)
}

/// The name in `{"TableName":"T"}`; `None` if there is none.
pub fn decode_table_name(body: &[u8]) -> Result<Option<String>, ServiceError> {
    let mut reader = Reader::open(body)?;
    let mut table_name = Key::default();
    let mut refusal = Refusal::default();
    while let Some((name, value)) = reader.next()? {
        if name == "TableName" {
            table_name.set(value, &mut refusal)?;
        }
    }
    refusal.into_result()?;
    Ok(table_name.text)
}

/// The answer to every body that cannot be read.
pub(in crate::table) fn unreadable_body() -> ServiceError {
    ServiceError::new(ErrorCode::InvalidInput)
        .with_message("An error occurred while processing this request.")
}

impl From<Malformed> for ServiceError {
    fn from(_: Malformed) -> Self {
        unreadable_body()
    }
}

/// A property whose value has not been looked at, because its annotation may still come.
struct Member<'a> {
    name: Cow<'a, str>,
    kind: Option<EdmType>,
    value: Value<'a>,
}

/// The members of an entity's object, sorted by what they mean.
#[derive(Default)]
pub(super) struct Members<'a> {
    partition_key: Key,
    row_key: Key,
    properties: Vec<Member<'a>>,
    /// The names of the properties that are null.
    nulls: Vec<Cow<'a, str>>,
    /// The annotation before this member, whose value probably follows.
    announced: Option<(Cow<'a, str>, EdmType)>,
    /// Annotations that are not next to their values.
    distant: Vec<(Cow<'a, str>, EdmType)>,
    refusal: Refusal,
}

impl<'a> Members<'a> {
    pub(super) fn add(
        &mut self,
        name: Cow<'a, str>,
        value: Value<'a>,
        keys: KeysIn,
    ) -> Result<(), ServiceError> {
        match &*name {
            "PartitionKey" => self.partition_key.set(value, &mut self.refusal)?,
            "RowKey" => self.row_key.set(value, &mut self.refusal)?,
            // Fidelity: whatever the caller says about it. scenario: insert-timestamp-ignored
            "Timestamp" => {}
            other if other.starts_with("odata.") => {}
            // Any other `@` makes a property of it, with a name that is refused.
            other => match memchr::memchr(b'@', other.as_bytes()).map(|at| (at, &other[at..])) {
                Some((at, "@odata.type")) => self.add_annotation(cut(name, at), &value, keys)?,
                Some((_, annotation)) if annotation.starts_with("@odata.") => {}
                _ => self.add_property(name, value)?,
            },
        }
        Ok(())
    }

    fn add_property(&mut self, name: Cow<'a, str>, value: Value<'a>) -> Result<(), ServiceError> {
        if value == Value::Nested {
            return Err(unreadable_body());
        }
        // An annotation usually stands right before its value.
        let kind = match self.announced.take() {
            Some((announced, kind)) if announced == name => Some(kind),
            Some(other) => {
                self.keep_distant(other);
                None
            }
            None => None,
        };
        if value == Value::Null {
            if self.nulls.len() < MAX_NULLS {
                self.nulls.push(name);
            } else {
                self.refusal.note(ErrorCode::TooManyProperties.into());
            }
        } else if self.properties.len() < MAX_PROPERTIES {
            if self.properties.is_empty() {
                self.properties.reserve(16);
            }
            self.properties.push(Member { name, kind, value });
        } else {
            // From here on only the syntax matters.
            self.refusal.note(ErrorCode::TooManyProperties.into());
        }
        Ok(())
    }

    fn add_annotation(
        &mut self,
        name: Cow<'a, str>,
        value: &Value<'a>,
        keys: KeysIn,
    ) -> Result<(), ServiceError> {
        if name == "Timestamp" {
            return Ok(());
        }
        let Value::Text(kind) = value else { return Err(unreadable_body()) };
        let kind = EdmType::parse(kind).ok_or_else(unreadable_body)?;
        if name == "PartitionKey" || name == "RowKey" {
            // Fidelity: a key that does not count may have any type. scenario: upsert-typed-keys-in-body
            return match keys {
                KeysIn::Body if kind != EdmType::String => Err(unreadable_body()),
                _ => Ok(()),
            };
        }
        // Some clients write the annotation right behind its value.
        match self.properties.last_mut() {
            Some(last) if last.kind.is_none() && last.name == name => last.kind = Some(kind),
            _ => {
                if let Some(other) = self.announced.replace((name, kind)) {
                    self.keep_distant(other);
                }
            }
        }
        Ok(())
    }

    fn keep_distant(&mut self, annotation: (Cow<'a, str>, EdmType)) {
        if self.distant.len() < MAX_DISTANT_ANNOTATIONS {
            self.distant.push(annotation);
        } else {
            self.refusal.note(ErrorCode::TooManyProperties.into());
        }
    }

    pub(super) fn into_entity(
        mut self,
        body_bytes: usize,
        keys: KeysIn,
    ) -> Result<DecodedEntity, ServiceError> {
        if keys == KeysIn::Body {
            self.refusal.note_keys(self.partition_key.text.as_deref(), self.row_key.text.as_deref());
        }
        for (name, kind) in self.distant.drain(..).chain(self.announced.take()) {
            if let Some(member) = self.properties.iter_mut().find(|member| member.name == name) {
                member.kind.get_or_insert(kind);
            }
        }
        if !self.nulls.is_empty() {
            self.check_names_of_nulls();
        }
        let mut builder = PropertiesBuilder::with_capacity(body_bytes);
        let mut scratch = Vec::new();
        for Member { name, kind, value } in &self.properties {
            let value = typed(*kind, value, &mut scratch).ok_or_else(unreadable_body)?;
            if let Err(error) = builder.push(name, value) {
                self.refusal.note(error);
            }
        }
        self.refusal.into_result()?;
        Ok(DecodedEntity {
            partition_key: self.partition_key.text,
            row_key: self.row_key.text,
            properties: builder.finish(),
        })
    }

    /// A property that is null is not kept, but its name still counts as said.
    fn check_names_of_nulls(&mut self) {
        let named = self.properties.iter().map(|member| &*member.name);
        let mut names: Vec<&str> = self.nulls.iter().map(|name| &**name).chain(named).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            self.refusal.note(ErrorCode::DuplicatePropertiesSpecified.into());
        }
    }
}

/// The value of a member as the annotation, or else its form, says; `None` if it does not fit.
pub(super) fn typed<'v>(
    kind: Option<EdmType>,
    value: &'v Value<'_>,
    scratch: &'v mut Vec<u8>,
) -> Option<ValueRef<'v>> {
    // Fidelity: JSON has no negative zero. scenario: values-negative-zero
    let double = |number: f64| ValueRef::Double(number + 0.0);
    Some(match (value, kind) {
        (Value::Text(text), None | Some(EdmType::String)) => ValueRef::string(text),
        (Value::Text(text), Some(kind)) => match parse_value(kind, text, scratch)? {
            ValueRef::Double(number) => double(number),
            other => other,
        },
        (Value::Integer(digits), None) => match digits.parse() {
            Ok(number) => ValueRef::Int32(number),
            // Fidelity: whole numbers beyond Int32 are Doubles. scenario: values-large-integer
            Err(_) => double(parse_digits(digits)?),
        },
        (Value::Integer(digits), Some(EdmType::Int32)) => ValueRef::Int32(digits.parse().ok()?),
        (Value::Integer(digits), Some(EdmType::Int64)) => ValueRef::Int64(digits.parse().ok()?),
        (Value::Number(digits), None) => double(parse_digits(digits)?),
        (Value::Integer(digits) | Value::Number(digits), Some(EdmType::Double)) => {
            double(parse_digits(digits)?)
        }
        (Value::Boolean(answer), None | Some(EdmType::Boolean)) => ValueRef::Boolean(*answer),
        _ => return None,
    })
}

/// A text without what comes from `at` on.
pub(super) fn cut(text: Cow<'_, str>, at: usize) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..at]),
        Cow::Owned(mut text) => {
            text.truncate(at);
            Cow::Owned(text)
        }
    }
}

/// A member that is a text, or null, or not there.
#[derive(Default)]
struct Key {
    said: bool,
    text: Option<String>,
}

impl Key {
    fn set(&mut self, value: Value<'_>, refusal: &mut Refusal) -> Result<(), ServiceError> {
        if std::mem::replace(&mut self.said, true) {
            refusal.note(ErrorCode::DuplicatePropertiesSpecified.into());
        }
        match value {
            Value::Text(text) => self.text = Some(text.into_owned()),
            Value::Null => {}
            _ => return Err(unreadable_body()),
        }
        Ok(())
    }
}

/// The foremost reason found so far for refusing a body that can be read.
#[derive(Default)]
pub(in crate::table) struct Refusal(Option<ServiceError>);

impl Refusal {
    #[cold]
    pub(in crate::table) fn note(&mut self, error: ServiceError) {
        let comes_first = |than: &ServiceError| rank(error.code) < rank(than.code);
        if self.0.as_ref().is_none_or(comes_first) {
            self.0 = Some(error);
        }
    }

    /// Notes what is wrong with the keys of an insert.
    pub(in crate::table) fn note_keys(&mut self, partition_key: Option<&str>, row_key: Option<&str>) {
        let (partition, row) = (partition_key.unwrap_or_default(), row_key.unwrap_or_default());
        // Fidelity: characters of a key are judged before a missing one. scenario: insert-order-of-key-checks
        if let Err(error) = check_key_characters(partition, row) {
            self.note(error);
        }
        if partition_key.is_none() || row_key.is_none() {
            self.note(ErrorCode::PropertiesNeedValue.into());
        }
        if let Err(code) = check_key_lengths(partition, row) {
            self.note(code.into());
        }
    }

    pub(in crate::table) fn into_result(self) -> Result<(), ServiceError> {
        self.0.map_or(Ok(()), Err)
    }
}

fn rank(code: ErrorCode) -> u8 {
    match code {
        ErrorCode::DuplicatePropertiesSpecified => 0,
        ErrorCode::OutOfRangeInput => 1,
        ErrorCode::PropertiesNeedValue => 2,
        ErrorCode::PropertyValueTooLarge => 3,
        ErrorCode::PropertyNameTooLong => 4,
        ErrorCode::PropertyNameInvalid => 5,
        _ => 6,
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
