//! Values of properties.

use tepui_model::Timestamp;
use tepui_model::table::{EdmType, Guid, Literal, TextRef, ValueRef};

/// A value of a property, with its exact type: `Int32` and `Int64` are two.
///
/// ```
/// use tepui_client::{EdmType, Value};
/// assert_eq!(Value::from(42).edm_type(), EdmType::Int32);
/// assert_eq!(Value::from(42_i64).edm_type(), EdmType::Int64);
/// assert_eq!(Value::from("Sales").as_str(), Some("Sales"));
/// assert_eq!(Value::from("Sales").as_i32(), None);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    String(String),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Boolean(bool),
    DateTime(Timestamp),
    Guid(Guid),
    Binary(Vec<u8>),
}

impl Value {
    pub fn edm_type(&self) -> EdmType {
        self.as_ref().edm_type()
    }

    /// The value, borrowed.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::String(text) => ValueRef::String(TextRef::new(text)),
            Self::Int32(number) => ValueRef::Int32(*number),
            Self::Int64(number) => ValueRef::Int64(*number),
            Self::Double(number) => ValueRef::Double(*number),
            Self::Boolean(truth) => ValueRef::Boolean(*truth),
            Self::DateTime(time) => ValueRef::DateTime(*time),
            Self::Guid(guid) => ValueRef::Guid(*guid),
            Self::Binary(bytes) => ValueRef::Binary(bytes),
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    pub fn as_i32(&self) -> Option<i32> {
        if let Self::Int32(number) = self { Some(*number) } else { None }
    }

    pub fn as_i64(&self) -> Option<i64> {
        if let Self::Int64(number) = self { Some(*number) } else { None }
    }

    pub fn as_f64(&self) -> Option<f64> {
        if let Self::Double(number) = self { Some(*number) } else { None }
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Boolean(truth) = self { Some(*truth) } else { None }
    }

    pub fn as_date_time(&self) -> Option<Timestamp> {
        if let Self::DateTime(time) = self { Some(*time) } else { None }
    }

    pub fn as_guid(&self) -> Option<Guid> {
        if let Self::Guid(guid) = self { Some(*guid) } else { None }
    }

    pub fn as_bytes(&self) -> Option<&[u8]> {
        if let Self::Binary(bytes) = self { Some(bytes) } else { None }
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::String(text) => Self::String(text.as_str().to_owned()),
            ValueRef::Int32(number) => Self::Int32(number),
            ValueRef::Int64(number) => Self::Int64(number),
            ValueRef::Double(number) => Self::Double(number),
            ValueRef::Boolean(truth) => Self::Boolean(truth),
            ValueRef::DateTime(time) => Self::DateTime(time),
            ValueRef::Guid(guid) => Self::Guid(guid),
            ValueRef::Binary(bytes) => Self::Binary(bytes.to_vec()),
        }
    }
}

/// As a constant of a filter.
impl From<Value> for Literal {
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => Self::String(text),
            Value::Int32(number) => Self::Int32(number),
            Value::Int64(number) => Self::Int64(number),
            Value::Double(number) => Self::Double(number),
            Value::Boolean(truth) => Self::Boolean(truth),
            Value::DateTime(time) => Self::DateTime(time),
            Value::Guid(guid) => Self::Guid(guid),
            Value::Binary(bytes) => Self::Binary(bytes),
        }
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident;)*) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

// Not from u64, which no type of a table can hold.
value_from! {
    &str => String;
    String => String;
    i8 => Int32;
    i16 => Int32;
    i32 => Int32;
    u8 => Int32;
    u16 => Int32;
    u32 => Int64;
    i64 => Int64;
    f64 => Double;
    bool => Boolean;
    Timestamp => DateTime;
    Guid => Guid;
    &[u8] => Binary;
    Vec<u8> => Binary;
}
