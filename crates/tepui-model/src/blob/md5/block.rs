//! A block of MD5 (RFC 1321), for one word or for as many as a vector has.

use std::ops::{BitAnd, BitOr, BitXor, Not, Shl, Shr};
use wide::u32x4;

pub(super) const BYTES: usize = 64;

pub(super) type Block = [u8; BYTES];

pub(super) type State<W> = [W; 4];

pub(super) const START: State<u32> = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

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
    /// The same in all lanes.
    fn of(word: u32) -> Self;

    /// A sum that wraps around.
    fn plus(self, other: Self) -> Self;
}

impl Word for u32 {
    #[inline(always)]
    fn of(word: u32) -> Self {
        word
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

impl Word for u32x4 {
    #[inline(always)]
    fn of(word: u32) -> Self {
        Self::splat(word)
    }

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

/// The state after one more block.
#[inline(always)]
pub(super) fn add<W: Word>(before: State<W>, m: [W; 16]) -> State<W> {
    let [mut a, mut b, mut c, mut d] = before;
    /// One step: which mixes what, with which word, by how much it is turned, and its constant.
    macro_rules! steps {
        ($mix:ident: $($a:ident $b:ident $c:ident $d:ident $word:literal $turn:literal $constant:literal)*) => {$(
            let sum = $mix($a.plus(m[$word]).plus(W::of($constant)), $b, $c, $d);
            $a = $b.plus(sum << $turn | sum >> (32 - $turn));
        )*};
    }
    steps! { choose:
        a b c d 0 7 0xd76a_a478
        d a b c 1 12 0xe8c7_b756
        c d a b 2 17 0x2420_70db
        b c d a 3 22 0xc1bd_ceee
        a b c d 4 7 0xf57c_0faf
        d a b c 5 12 0x4787_c62a
        c d a b 6 17 0xa830_4613
        b c d a 7 22 0xfd46_9501
        a b c d 8 7 0x6980_98d8
        d a b c 9 12 0x8b44_f7af
        c d a b 10 17 0xffff_5bb1
        b c d a 11 22 0x895c_d7be
        a b c d 12 7 0x6b90_1122
        d a b c 13 12 0xfd98_7193
        c d a b 14 17 0xa679_438e
        b c d a 15 22 0x49b4_0821
    }
    steps! { choose_by_last:
        a b c d 1 5 0xf61e_2562
        d a b c 6 9 0xc040_b340
        c d a b 11 14 0x265e_5a51
        b c d a 0 20 0xe9b6_c7aa
        a b c d 5 5 0xd62f_105d
        d a b c 10 9 0x0244_1453
        c d a b 15 14 0xd8a1_e681
        b c d a 4 20 0xe7d3_fbc8
        a b c d 9 5 0x21e1_cde6
        d a b c 14 9 0xc337_07d6
        c d a b 3 14 0xf4d5_0d87
        b c d a 8 20 0x455a_14ed
        a b c d 13 5 0xa9e3_e905
        d a b c 2 9 0xfcef_a3f8
        c d a b 7 14 0x676f_02d9
        b c d a 12 20 0x8d2a_4c8a
    }
    steps! { parity:
        a b c d 5 4 0xfffa_3942
        d a b c 8 11 0x8771_f681
        c d a b 11 16 0x6d9d_6122
        b c d a 14 23 0xfde5_380c
        a b c d 1 4 0xa4be_ea44
        d a b c 4 11 0x4bde_cfa9
        c d a b 7 16 0xf6bb_4b60
        b c d a 10 23 0xbebf_bc70
        a b c d 13 4 0x289b_7ec6
        d a b c 0 11 0xeaa1_27fa
        c d a b 3 16 0xd4ef_3085
        b c d a 6 23 0x0488_1d05
        a b c d 9 4 0xd9d4_d039
        d a b c 12 11 0xe6db_99e5
        c d a b 15 16 0x1fa2_7cf8
        b c d a 2 23 0xc4ac_5665
    }
    steps! { blend:
        a b c d 0 6 0xf429_2244
        d a b c 7 10 0x432a_ff97
        c d a b 14 15 0xab94_23a7
        b c d a 5 21 0xfc93_a039
        a b c d 12 6 0x655b_59c3
        d a b c 3 10 0x8f0c_cc92
        c d a b 10 15 0xffef_f47d
        b c d a 1 21 0x8584_5dd1
        a b c d 8 6 0x6fa8_7e4f
        d a b c 15 10 0xfe2c_e6e0
        c d a b 6 15 0xa301_4314
        b c d a 13 21 0x4e08_11a1
        a b c d 4 6 0xf753_7e82
        d a b c 11 10 0xbd3a_f235
        c d a b 2 15 0x2ad7_d2bb
        b c d a 9 21 0xeb86_d391
    }
    [before[0].plus(a), before[1].plus(b), before[2].plus(c), before[3].plus(d)]
}

// Each adds to a sum what it makes of three words. `x` is what the step before has changed: what does not depend on it
// is done first, so that as little as possible waits.

#[inline(always)]
fn choose<W: Word>(sum: W, x: W, y: W, z: W) -> W {
    sum.plus(z ^ (x & (y ^ z)))
}

#[inline(always)]
fn choose_by_last<W: Word>(sum: W, x: W, y: W, z: W) -> W {
    // No bit is in both.
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
