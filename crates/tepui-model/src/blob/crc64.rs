//! CRC-64 as Azure Storage computes it: the reflected polynomial of CRC-64/NVME, all bits inverted before
//! and after. Sixteen bytes at a step, by tables.

const POLYNOMIAL: u64 = 0x9A6C_9329_AC4B_C9B5;
const LANES: usize = 16;

/// What a byte does to the sum, and what it does when 1 to 15 further bytes follow.
static TABLES: [[u64; 256]; LANES] = tables();

const fn tables() -> [[u64; 256]; LANES] {
    let mut tables = [[0; 256]; LANES];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut lane = 1;
    while lane < LANES {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[lane - 1][byte];
            tables[lane][byte] = before >> 8 ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        lane += 1;
    }
    tables
}

/// The sum of bytes that come piece by piece.
///
/// ```
/// use tepui_model::blob::crc64::Crc64;
/// let mut sum = Crc64::new();
/// sum.update(b"Hello ");
/// sum.update(b"World");
/// assert_eq!(sum.finish(), 0x6596_32CB_7E4B_E261);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crc64(u64);

impl Crc64 {
    pub fn new() -> Self {
        Self(!0)
    }

    pub fn update(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<LANES>();
        let mut sum = self.0;
        for chunk in chunks {
            let mut mixed = *chunk;
            for (byte, of_sum) in mixed.iter_mut().zip(sum.to_le_bytes()) {
                *byte ^= of_sum;
            }
            sum = mixed
                .iter()
                .enumerate()
                .fold(0, |sum, (at, byte)| sum ^ TABLES[LANES - 1 - at][usize::from(*byte)]);
        }
        for byte in rest {
            sum = sum >> 8 ^ TABLES[0][usize::from(sum as u8 ^ byte)];
        }
        self.0 = sum;
    }

    pub fn finish(self) -> u64 {
        !self.0
    }
}

impl Default for Crc64 {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: bit by bit.
    fn slow(bytes: &[u8]) -> u64 {
        !bytes.iter().fold(!0u64, |sum, byte| {
            (0..8).fold(
                sum ^ u64::from(*byte),
                |sum, _| {
                    if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 }
                },
            )
        })
    }

    #[test]
    fn the_check_value_of_the_catalogues() {
        let mut sum = Crc64::new();
        sum.update(b"123456789");
        assert_eq!(sum.finish(), 0xAE8B_1486_0A79_9888);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200
        ) {
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            let mut sum = Crc64::new();
            sum.update(head);
            sum.update(tail);
            prop_assert_eq!(sum.finish(), slow(&bytes));
        }
    }
}
