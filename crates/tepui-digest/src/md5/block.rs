//! The block function of MD5 (RFC 1321), for one stream or for the lanes of a vector.

use std::ops::{BitAnd, BitOr, BitXor, Not, Shl, Shr};
use wide::u32x4;

pub(super) const BYTES: usize = 64;

pub(super) type Block = [u8; BYTES];

pub(super) type State<W> = [W; 4];

pub(super) const START: State<u32> = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The constant of each step.
#[rustfmt::skip]
pub(super) const CONSTANTS: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// A word of 32 bits in each lane.
pub(super) trait Word:
    Copy
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    /// A sum that wraps around.
    fn plus(self, other: Self) -> Self;
}

impl Word for u32 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

impl Word for u32x4 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

#[inline(always)]
pub(super) fn words(block: &Block) -> [u32; 16] {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

/// The state after one more block. `k`: [`CONSTANTS`].
#[inline(always)]
pub(super) fn add<W: Word>(before: State<W>, m: [W; 16], k: &[W; 64]) -> State<W> {
    let [mut a, mut b, mut c, mut d] = before;
    /// One step: auxiliary function, registers, word of the block, rotation, constant.
    macro_rules! steps {
        ($mix:ident: $($a:ident $b:ident $c:ident $d:ident $word:literal $turn:literal $constant:literal)*) => {$(
            let sum = $mix($a.plus(m[$word].plus(k[$constant])), $b, $c, $d);
            $a = $b.plus(sum << $turn | sum >> (32 - $turn));
        )*};
    }
    steps! { choose:
        a b c d 0 7 0
        d a b c 1 12 1
        c d a b 2 17 2
        b c d a 3 22 3
        a b c d 4 7 4
        d a b c 5 12 5
        c d a b 6 17 6
        b c d a 7 22 7
        a b c d 8 7 8
        d a b c 9 12 9
        c d a b 10 17 10
        b c d a 11 22 11
        a b c d 12 7 12
        d a b c 13 12 13
        c d a b 14 17 14
        b c d a 15 22 15
    }
    steps! { choose_by_last:
        a b c d 1 5 16
        d a b c 6 9 17
        c d a b 11 14 18
        b c d a 0 20 19
        a b c d 5 5 20
        d a b c 10 9 21
        c d a b 15 14 22
        b c d a 4 20 23
        a b c d 9 5 24
        d a b c 14 9 25
        c d a b 3 14 26
        b c d a 8 20 27
        a b c d 13 5 28
        d a b c 2 9 29
        c d a b 7 14 30
        b c d a 12 20 31
    }
    steps! { parity:
        a b c d 5 4 32
        d a b c 8 11 33
        c d a b 11 16 34
        b c d a 14 23 35
        a b c d 1 4 36
        d a b c 4 11 37
        c d a b 7 16 38
        b c d a 10 23 39
        a b c d 13 4 40
        d a b c 0 11 41
        c d a b 3 16 42
        b c d a 6 23 43
        a b c d 9 4 44
        d a b c 12 11 45
        c d a b 15 16 46
        b c d a 2 23 47
    }
    steps! { blend:
        a b c d 0 6 48
        d a b c 7 10 49
        c d a b 14 15 50
        b c d a 5 21 51
        a b c d 12 6 52
        d a b c 3 10 53
        c d a b 10 15 54
        b c d a 1 21 55
        a b c d 8 6 56
        d a b c 15 10 57
        c d a b 6 15 58
        b c d a 13 21 59
        a b c d 4 6 60
        d a b c 11 10 61
        c d a b 2 15 62
        b c d a 9 21 63
    }
    [before[0].plus(a), before[1].plus(b), before[2].plus(c), before[3].plus(d)]
}

// The auxiliary functions, added to a sum. `x` is the result of the step before: what does not depend on it is computed
// first, to keep the critical path short.

#[inline(always)]
fn choose<W: Word>(sum: W, x: W, y: W, z: W) -> W {
    sum.plus(z ^ (x & (y ^ z)))
}

#[inline(always)]
fn choose_by_last<W: Word>(sum: W, x: W, y: W, z: W) -> W {
    // The operands have no bit in common, so that + is |.
    sum.plus(y & !z).plus(x & z)
}

#[inline(always)]
fn parity<W: Word>(sum: W, x: W, y: W, z: W) -> W {
    sum.plus(x ^ (y ^ z))
}

#[inline(always)]
fn blend<W: Word>(sum: W, x: W, y: W, z: W) -> W {
    sum.plus(y ^ (x | !z))
}
