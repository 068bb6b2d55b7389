//! Types that properties can have, and how fields become properties.

use crate::entity::is_own_property;
use crate::{EdmType, Error, Guid, Timestamp};
use serde_core::Serialize;
use serde_core::de::DeserializeOwned;
use std::fmt::Display;
use std::str::FromStr;
use tepui_model::table::{Properties, PropertiesBuilder, TextRef, ValueRef};

/// A type that is a type of properties, or can be kept in one without loss.
///
/// What is written has exactly [`TYPE`](Self::TYPE). Reading also takes an `Int32` for wider numbers, because some clients write
/// numbers without saying their type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the value of a property",
    label = "tables have no type for this",
    note = "properties are String, i8 to i64, u8 to u32, f64, bool, Timestamp, Guid and Vec<u8>, also as Option",
    note = "write #[json] for what serde can write, #[property(as = \"String\")] for what can be printed and parsed, or #[skip]"
)]
pub trait PropertyValue: Sized {
    const TYPE: EdmType;
    fn to_value(&self) -> ValueRef<'_>;
    /// `None` if it is of another type, or beyond the numbers of this one.
    fn from_value(value: ValueRef<'_>) -> Option<Self>;
}

macro_rules! properties {
    ($($rust:ty = $edm:ident, |$this:ident| $to:expr, { $($pattern:pat => $from:expr),* };)*) => {
        $(impl PropertyValue for $rust {
            const TYPE: EdmType = EdmType::$edm;
            fn to_value(&self) -> ValueRef<'_> {
                let $this = self;
                ValueRef::$edm($to)
            }
            fn from_value(value: ValueRef<'_>) -> Option<Self> {
                match value {
                    $($pattern => $from,)*
                    _ => None,
                }
            }
        })*
    };
}

properties! {
    i8 = Int32, |this| (*this).into(), { ValueRef::Int32(number) => number.try_into().ok() };
    i16 = Int32, |this| (*this).into(), { ValueRef::Int32(number) => number.try_into().ok() };
    i32 = Int32, |this| *this, { ValueRef::Int32(number) => Some(number) };
    u8 = Int32, |this| (*this).into(), { ValueRef::Int32(number) => number.try_into().ok() };
    u16 = Int32, |this| (*this).into(), { ValueRef::Int32(number) => number.try_into().ok() };
    u32 = Int64, |this| (*this).into(), {
        ValueRef::Int64(number) => number.try_into().ok(), ValueRef::Int32(number) => number.try_into().ok()
    };
    i64 = Int64, |this| *this, { ValueRef::Int64(number) => Some(number), ValueRef::Int32(number) => Some(number.into()) };
    f64 = Double, |this| *this, { ValueRef::Double(number) => Some(number), ValueRef::Int32(number) => Some(number.into()) };
    bool = Boolean, |this| *this, { ValueRef::Boolean(truth) => Some(truth) };
    String = String, |this| TextRef::new(this), { ValueRef::String(text) => Some(text.as_str().to_owned()) };
    Timestamp = DateTime, |this| *this, { ValueRef::DateTime(time) => Some(time) };
    Guid = Guid, |this| *this, { ValueRef::Guid(guid) => Some(guid) };
    Vec<u8> = Binary, |this| this, { ValueRef::Binary(bytes) => Some(bytes.to_vec()) };
}

#[doc(hidden)]
pub fn put<T: PropertyValue>(to: &mut PropertiesBuilder, name: &str, value: Option<&T>) -> Result<(), Error> {
    if let Some(value) = value {
        to.push(name, value.to_value())?;
    }
    Ok(())
}

#[doc(hidden)]
pub fn get<T: PropertyValue>(from: &Properties, name: &str) -> Result<Option<T>, Error> {
    let Some(value) = from.get(name) else { return Ok(None) };
    let other = || {
        let (found, expected) = (value.edm_type().name(), T::TYPE.name());
        Error::decode(format!("the property is of type {found}, or too large, and not of {expected}: {name}"))
    };
    T::from_value(value).map(Some).ok_or_else(other)
}

#[doc(hidden)]
pub fn put_text<T: Display>(to: &mut PropertiesBuilder, name: &str, value: Option<&T>) -> Result<(), Error> {
    put(to, name, value.map(ToString::to_string).as_ref())
}

#[doc(hidden)]
pub fn get_text<T: FromStr<Err: Display>>(from: &Properties, name: &str) -> Result<Option<T>, Error> {
    let Some(text) = get::<String>(from, name)? else { return Ok(None) };
    let other = |error| Error::decode(format!("the property cannot be parsed ({error}): {name}"));
    text.parse().map(Some).map_err(other)
}

#[doc(hidden)]
pub fn put_json<T: Serialize>(
    to: &mut PropertiesBuilder,
    name: &str,
    value: Option<&T>,
) -> Result<(), Error> {
    let Some(value) = value else { return Ok(()) };
    let refused = |error| {
        Error::new(crate::ErrorKind::Refused, format!("the field cannot be written as JSON: {name}"))
            .with_source(error)
    };
    let text = serde_json::to_string(value).map_err(|error| refused(Box::new(error)))?;
    put(to, name, Some(&text))
}

#[doc(hidden)]
pub fn get_json<T: DeserializeOwned>(from: &Properties, name: &str) -> Result<Option<T>, Error> {
    let Some(text) = get::<String>(from, name)? else { return Ok(None) };
    let other = |error| Error::decode(format!("the property is not the expected JSON ({error}): {name}"));
    serde_json::from_str(&text).map(Some).map_err(other)
}

#[doc(hidden)]
pub fn required<T>(name: &str, value: Option<T>) -> Result<T, Error> {
    value.ok_or_else(|| Error::decode(format!("the property is missing: {name}")))
}

/// All properties but the known ones.
#[doc(hidden)]
pub fn rest(from: &Properties, known: &[&str]) -> Result<Properties, Error> {
    let mut rest = PropertiesBuilder::new();
    for (name, value) in from.iter().filter(|(name, _)| is_unknown(name, known)) {
        rest.push(name, value)?;
    }
    Ok(rest.finish())
}

#[doc(hidden)]
pub fn put_rest(to: &mut PropertiesBuilder, rest: &Properties) -> Result<(), Error> {
    for (name, value) in rest.iter() {
        to.push(name, value)?;
    }
    Ok(())
}

/// A closed entity with more properties than are known is not read: writing it back would lose them.
#[doc(hidden)]
pub fn check_closed(properties: &Properties, known: &[&str]) -> Result<(), Error> {
    match properties.iter().find(|(name, _)| is_unknown(name, known)) {
        Some((name, _)) => {
            Err(Error::decode(format!("a closed entity has a property that its type does not know: {name}")))
        }
        None => Ok(()),
    }
}

fn is_unknown(name: &str, known: &[&str]) -> bool {
    !is_own_property(name) && !known.contains(&name)
}
