//! GUIDs as text: what identifies messages, leases and copies.

/// Parses `5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11`, in any case.
pub fn parse(text: &str) -> Option<u128> {
    let bytes = text.as_bytes();
    if bytes.len() != 36 {
        return None;
    }
    let mut number = 0u128;
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if *byte != b'-' {
                return None;
            }
        } else {
            number = number << 4 | u128::from(char::from(*byte).to_digit(16)?);
        }
    }
    Some(number)
}

/// Parses any of the forms that clients write: with hyphens, without, in braces, in parentheses.
///
/// ```
/// use tepui_model::guid;
/// let plain = guid::parse_any("5b1f0b7e0a0e4a389f6c2f6f6f0d5a11");
/// assert_eq!(plain, guid::parse_any("{5B1F0B7E-0A0E-4A38-9F6C-2F6F6F0D5A11}"));
/// ```
pub fn parse_any(text: &str) -> Option<u128> {
    let inside = |open, close| text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    if let Some(inner) = inside('{', '}').or_else(|| inside('(', ')')) {
        return parse(inner);
    }
    if text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return u128::from_str_radix(text, 16).ok();
    }
    parse(text)
}

/// With hyphens and in lower case.
pub fn print(number: u128) -> String {
    let hex = format!("{number:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_texts_are_none() {
        for text in ["", "{}", "()", "{5b1f0b7e0a0e4a389f6c2f6f6f0d5a11}", "+b1f0b7e0a0e4a389f6c2f6f6f0d5a11"]
        {
            assert_eq!(parse_any(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_form_is_read(number: u128) {
            let text = print(number);
            for form in [text.clone(), text.to_uppercase(), text.replace('-', ""), format!("{{{text}}}"), format!("({text})")] {
                prop_assert_eq!(parse_any(&form), Some(number));
            }
            prop_assert_eq!(parse(&text), Some(number));
        }

        #[test]
        fn any_text_is_read_or_not(text in "[{(0-9a-f)}-]{30,40}|\\PC{0,40}") {
            let _ = parse_any(&text);
        }
    }
}
