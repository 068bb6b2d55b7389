//! Pop receipts as text: base64 of a tag and of the fields of a [`PopReceipt`], little-endian.
//!
//! Nothing in them is secret. The same receipt has one text only.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tepui_model::Timestamp;
use tepui_model::queue::PopReceipt;

/// Tells receipts from other base64, and this form of them from later ones.
const TAG: [u8; 4] = *b"pop1";
const BYTES: usize = TAG.len() + 8 + 8 + 4;
/// How long the text of every receipt is. The bytes are a multiple of three: there is no padding.
pub const TEXT_BYTES: usize = BYTES / 3 * 4;

/// The text of a receipt, all of it ASCII.
pub fn print(receipt: &PopReceipt) -> [u8; TEXT_BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..4].copy_from_slice(&TAG);
    bytes[4..12].copy_from_slice(&receipt.visible.ticks().to_le_bytes());
    bytes[12..20].copy_from_slice(&receipt.sequence.to_le_bytes());
    bytes[20..].copy_from_slice(&receipt.changes.to_le_bytes());
    let mut text = [0; TEXT_BYTES];
    STANDARD.encode_slice(bytes, &mut text).expect("the text is as long as these bytes need");
    text
}

/// Reads a receipt from a parameter. `None` if it is none.
pub fn parse(text: &str) -> Option<PopReceipt> {
    let mut encoded: [u8; TEXT_BYTES] = text.as_bytes().try_into().ok()?;
    // A plus that was not escaped has been read as a blank.
    encoded.iter_mut().filter(|byte| **byte == b' ').for_each(|byte| *byte = b'+');
    let mut bytes = [0; BYTES];
    STANDARD.decode_slice(encoded, &mut bytes).ok().filter(|length| *length == BYTES)?;
    let rest = bytes.strip_prefix(&TAG)?;
    let (visible, rest) = rest.split_first_chunk()?;
    let (sequence, rest) = rest.split_first_chunk()?;
    let (changes, _) = rest.split_first_chunk()?;
    Some(PopReceipt {
        visible: Timestamp::from_ticks(u64::from_le_bytes(*visible))?,
        sequence: u64::from_le_bytes(*sequence),
        changes: u32::from_le_bytes(*changes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Query;
    use proptest::prelude::*;

    fn printed(receipt: &PopReceipt) -> String {
        String::from_utf8(print(receipt).to_vec()).unwrap()
    }

    #[test]
    fn other_texts_are_none() {
        let receipt = PopReceipt { visible: Timestamp::MAX, sequence: 7, changes: 1 };
        let text = printed(&receipt);
        assert_eq!(parse(&text), Some(receipt));
        let mut late = [0xFF; BYTES];
        late[..4].copy_from_slice(&TAG);
        for bad in [
            "",
            "invalid",
            "AgAAAAMAAAAAAAAAQk0xc0aj2wE=",
            &text[1..],
            &format!("{text}="),
            &format!("{text}AAAA"),
            &text.replacen("cG9w", "cG9x", 1),
            &format!("{}====", &text[..28]),
            &format!("{}=", &text[..31]),
            &format!("{}é", &text[..30]),
            &STANDARD.encode(late),
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn printed_receipts_are_read_as_themselves(
            ticks in 0..=Timestamp::MAX.ticks(), sequence: u64, changes: u32
        ) {
            let receipt = PopReceipt { visible: Timestamp::from_ticks(ticks).unwrap(), sequence, changes };
            let text = printed(&receipt);
            prop_assert_eq!(parse(&text), Some(receipt));
            // Also where the caller has escaped nothing.
            let query = Query::parse(Some(&format!("popreceipt={text}")));
            prop_assert_eq!(query.get("popreceipt").and_then(parse), Some(receipt));
        }

        #[test]
        fn a_receipt_has_one_text(text in "cG9wM[A-Za-z0-9+/]{27}") {
            if let Some(receipt) = parse(&text) {
                prop_assert_eq!(printed(&receipt), text);
            }
        }
    }
}
