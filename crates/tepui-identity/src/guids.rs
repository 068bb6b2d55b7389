//! GUIDs for those who have none: made of a name, always the same (version 5 of RFC 9562).

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use tepui_model::guid;

/// The namespace of URLs, as the RFC has it.
const URLS: u128 = 0x6ba7_b811_9dad_11d1_80b4_00c0_4fd4_30c8;

/// The GUID of a name in a namespace.
fn of_name(namespace: u128, name: &str) -> u128 {
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(&namespace.to_be_bytes());
    hash.update(name.as_bytes());
    let number =
        hash.finish().as_ref().iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte));
    number & !(0xF << 76 | 0b11 << 62) | 5 << 76 | 0b10 << 62
}

/// A GUID in lower case for what an issuer calls `name`: `name` itself if it is one.
pub(crate) fn of(issuer: &str, name: &str) -> String {
    let number = guid::parse(name).unwrap_or_else(|| of_name(of_name(URLS, issuer), name));
    guid::print(number)
}

/// The same for a name that its owner may have chosen. A GUID that is made of a name becomes another one: as a name it would
/// be the id of whoever has the name of which it is made.
pub(crate) fn of_chosen(issuer: &str, name: &str) -> String {
    let is_made = |number: u128| number >> 76 & 0xF == 5;
    match guid::parse(name) {
        Some(number) if is_made(number) => guid::print(of_name(of_name(URLS, issuer), name)),
        _ => of(issuer, name),
    }
}

/// A GUID in lower case for an issuer.
pub(crate) fn of_issuer(issuer: &str) -> String {
    guid::print(of_name(URLS, issuer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_guids() {
        // As Python's uuid.uuid5 has them.
        for (issuer, name, expected) in [
            ("https://issuer.example", "ada", "89c3e6ac-83a7-58e7-a8b0-8e7675c815b1"),
            ("https://other.example", "ada", "7e145902-6008-594d-b10d-2dd9dcd48ec4"),
            (
                "https://issuer.example",
                "5B1F0B7E-0A0E-4A38-9F6C-2F6F6F0D5A11",
                "5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11",
            ),
        ] {
            assert_eq!(of(issuer, name), expected, "{issuer} {name}");
        }
        let (issuer, made) = ("https://issuer.example", "89c3e6ac-83a7-58e7-a8b0-8e7675c815b1");
        assert_eq!(of(issuer, made), made);
        assert_ne!(of_chosen(issuer, made), made);
        assert_eq!(of_chosen(issuer, "ada"), made);
        assert_eq!(of_issuer("https://issuer.example"), "20789c55-f750-5031-b072-56cd78940275");
    }
}
