//! Values of properties from text, as Atom has all of them and JSON those with an annotation.

use super::number::parse_double;
use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use tepui_model::Timestamp;
use tepui_model::table::{EdmType, Guid, ValueRef};

/// Base64 with its padding. Bits that the last character has too many do not matter.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The value of the given type that a text stands for; `None` if it stands for none.
/// What must be decoded goes to `scratch`.
pub(super) fn parse_value<'a>(
    kind: EdmType,
    text: &'a str,
    scratch: &'a mut Vec<u8>,
) -> Option<ValueRef<'a>> {
    Some(match kind {
        EdmType::String => ValueRef::string(text),
        EdmType::Int32 => ValueRef::Int32(text.parse().ok()?),
        EdmType::Int64 => ValueRef::Int64(text.parse().ok()?),
        EdmType::Double => ValueRef::Double(parse_double(text)?),
        EdmType::Boolean => ValueRef::Boolean(parse_boolean(text)?),
        EdmType::DateTime => ValueRef::DateTime(Timestamp::parse_iso(text)?),
        EdmType::Guid => ValueRef::Guid(Guid::parse(text)?),
        EdmType::Binary => {
            scratch.clear();
            BASE64.decode_vec(text, scratch).ok()?;
            ValueRef::Binary(scratch)
        }
    })
}

fn parse_boolean(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// Appends binary as base64.
pub(super) fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written =
        BASE64.encode_slice(bytes, &mut out[start..]).expect("four characters for each three bytes");
    out.truncate(start + written);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_each_type() {
        let when = Timestamp::parse_iso("2026-01-02T03:04:05.1Z").unwrap();
        let guid = Guid::parse("8c1bac20-4ed1-4f3b-9a0e-0123456789ab").unwrap();
        for (kind, text, expected) in [
            (EdmType::String, " x ", Some(ValueRef::string(" x "))),
            (EdmType::Int32, "-5", Some(ValueRef::Int32(-5))),
            (EdmType::Int32, "2147483648", None),
            (EdmType::Int32, "3.0", None),
            (EdmType::Int32, "", None),
            (EdmType::Int64, "9007199254740993", Some(ValueRef::Int64(9_007_199_254_740_993))),
            (EdmType::Int64, "9223372036854775808", None),
            (EdmType::Double, "3", Some(ValueRef::Double(3.0))),
            (EdmType::Double, "-INF", Some(ValueRef::Double(f64::NEG_INFINITY))),
            (EdmType::Double, "three", None),
            (EdmType::Boolean, "True", Some(ValueRef::Boolean(true))),
            (EdmType::Boolean, "0", Some(ValueRef::Boolean(false))),
            (EdmType::Boolean, "yes", None),
            (EdmType::DateTime, "2026-01-02T03:04:05.1000000Z", Some(ValueRef::DateTime(when))),
            (EdmType::DateTime, "2026-01-02T05:04:05.1+02:00", Some(ValueRef::DateTime(when))),
            (EdmType::DateTime, "2026-01-02T03:04:05.1", Some(ValueRef::DateTime(when))),
            (EdmType::DateTime, "soon", None),
            (EdmType::Guid, "8C1BAC20-4ED1-4F3B-9A0E-0123456789AB", Some(ValueRef::Guid(guid))),
            (EdmType::Guid, "{8c1bac20-4ed1-4f3b-9a0e-0123456789ab}", None),
            (EdmType::Binary, "AQL/", Some(ValueRef::Binary(&[1, 2, 255]))),
            (EdmType::Binary, "AQ==", Some(ValueRef::Binary(&[1]))),
            (EdmType::Binary, "", Some(ValueRef::Binary(&[]))),
            (EdmType::Binary, "AQ", None),
            (EdmType::Binary, "A_-=", None),
        ] {
            assert_eq!(parse_value(kind, text, &mut Vec::new()), expected, "{kind:?} {text}");
        }
    }

    #[test]
    fn base64_is_padded() {
        for (bytes, expected) in [(&[][..], ""), (&[1], "AQ=="), (&[1, 2], "AQI="), (&[1, 2, 255], "AQL/")] {
            let mut out = b"x".to_vec();
            write_base64(&mut out, bytes);
            assert_eq!(out, format!("x{expected}").into_bytes());
        }
    }
}
