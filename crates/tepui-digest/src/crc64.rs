//! The CRC-64 of Azure Storage, which is CRC-64/NVME.

/// The CRC-64 of a stream.
///
/// ```
/// use tepui_digest::Crc64;
/// let mut sum = Crc64::new();
/// sum.update(b"Hello ");
/// sum.update(b"World");
/// assert_eq!(sum.finish(), 0x6596_32CB_7E4B_E261);
/// ```
#[derive(Clone, Default)]
pub struct Crc64(crc64fast_nvme::Digest);

impl Crc64 {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub fn finish(&self) -> u64 {
        self.0.sum64()
    }
}

/// The CRC-64 of this many zero bytes, in logarithmic time.
///
/// ```
/// use tepui_digest::{Crc64, crc64_of_zeros};
/// let mut sum = Crc64::new();
/// sum.update(&[0; 1000]);
/// assert_eq!(crc64_of_zeros(1000), sum.finish());
/// ```
pub fn crc64_of_zeros(bytes: u64) -> u64 {
    // The effect of a zero byte on each bit of the sum. CRCs are linear: the effect on several bits is their XOR.
    let mut step: [u64; 64] = std::array::from_fn(|bit| (0..8).fold(1 << bit, |sum, _| shifted(sum)));
    let (mut sum, mut left) = (!0, bytes);
    while left > 0 {
        if left & 1 == 1 {
            sum = apply(&step, sum);
        }
        // Twice as many bytes as before.
        step = step.map(|done| apply(&step, done));
        left >>= 1;
    }
    !sum
}

fn shifted(sum: u64) -> u64 {
    const POLYNOMIAL: u64 = 0x9A6C_9329_AC4B_C9B5;
    if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 }
}

fn apply(step: &[u64; 64], sum: u64) -> u64 {
    (0..64).filter(|bit| sum >> bit & 1 == 1).fold(0, |done, bit| done ^ step[bit])
}

impl std::fmt::Debug for Crc64 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Crc64({:#018x})", self.0.sum64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, bit by bit: reflected, all bits inverted before and after.
    fn slow(bytes: &[u8]) -> u64 {
        let step = |sum, _| shifted(sum);
        !bytes.iter().fold(!0u64, |sum, byte| (0..8).fold(sum ^ u64::from(*byte), step))
    }

    #[test]
    fn the_check_value_of_the_catalogues() {
        let mut sum = Crc64::new();
        sum.update(b"123456789");
        assert_eq!(sum.finish(), 0xAE8B_1486_0A79_9888);
    }

    proptest! {
        #[test]
        fn zeros_need_not_be_looked_at(count in 0usize..5000) {
            prop_assert_eq!(crc64_of_zeros(count as u64), slow(&vec![0; count]));
        }

        #[test]
        fn pieces_do_not_matter(
            bytes in proptest::collection::vec(any::<u8>(), 0..900), cut in 0usize..900
        ) {
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            let mut sum = Crc64::new();
            sum.update(head);
            sum.update(tail);
            prop_assert_eq!(sum.finish(), slow(&bytes));
        }
    }
}
