//! Ids of messages: the incarnation of the messages and the sequence, permuted so that they look like any GUID.
//! The permutation can be inverted, so an id identifies its message without an index.

use crate::keyspace::Incarnation;
use tepui_model::queue::MessageId;

const ROUNDS: [u64; 4] =
    [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03, 0xA24B_AED4_963E_E407, 0x8CB9_2BA7_2F3D_8DD7];

pub(super) fn id_of(messages: Incarnation, sequence: u64) -> MessageId {
    let (mut left, mut right) = (messages.0, sequence);
    for view in ROUNDS {
        (left, right) = (right, left ^ scatter(right.wrapping_add(view)));
    }
    MessageId(u128::from(left) << 64 | u128::from(right))
}

/// The inverse of [`id_of`].
pub(super) fn message_of(id: MessageId) -> (Incarnation, u64) {
    let (mut left, mut right) = ((id.0 >> 64) as u64, id.0 as u64);
    for view in ROUNDS.into_iter().rev() {
        (left, right) = (right ^ scatter(left.wrapping_add(view)), left);
    }
    (Incarnation(left), right)
}

/// Every bit affects all others: the finalizer of SplitMix64.
fn scatter(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ids_lead_back(messages: u64, sequence: u64) {
            let id = id_of(Incarnation(messages), sequence);
            prop_assert_eq!(message_of(id), (Incarnation(messages), sequence));
            prop_assert_eq!(MessageId::parse(&id.to_string()), Some(id));
        }
    }
}
