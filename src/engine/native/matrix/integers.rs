//! Weights of sixteen outputs for a block of 32 inputs, in a few bits each.
//!
//! The bytes of a group of four inputs are placed as the products of bytes read them: lane
//! by lane, the inputs of a lane side by side.

use bytemuck::{Pod, Zeroable};

use crate::core::lanes::BLOCK;
use crate::core::lanes::integers::{FOUR, GROUPS, GroupBytes, IntegerProducts, IntegerWeights};
use crate::engine::blocks::{NUMBERS, STEPS};

/// Groups whose weights are in the low, and in the high, halves of bytes.
const HALF: usize = GROUPS / 2;

/// Weights that can be written and read one lane at a time.
pub(super) trait LaneWeights: IntegerWeights + Pod {
    /// Sets the weights of a lane, which must be zero.
    fn put(&mut self, lane: usize, integers: &[u8; BLOCK]);

    /// A weight of a lane, as it was put.
    fn get(&self, lane: usize, input: usize) -> u8;
}

/// The group of an input, and the place of its byte there.
fn place(lane: usize, input: usize) -> (usize, usize) {
    (input / FOUR, lane * FOUR + input % FOUR)
}

/// The four inputs of each group as one number: packing works on four bytes at once.
fn words(integers: &[u8; BLOCK]) -> [u32; GROUPS] {
    std::array::from_fn(|group| {
        let bytes = &integers[group * FOUR..];
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    })
}

/// Adds bits to the bytes of a lane.
fn add(group: &mut GroupBytes, lane: usize, bits: u32) {
    let bytes = &mut group.as_chunks_mut::<FOUR>().0[lane];
    *bytes = (u32::from_ne_bytes(*bytes) | bits).to_ne_bytes();
}

/// The lowest bits of each of four bytes.
const ONES: u32 = 0x0101_0101;

/// Four bits: byte by byte the weights of the first sixteen inputs, and of the others.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Nibbles([GroupBytes; HALF]);

impl LaneWeights for Nibbles {
    fn put(&mut self, lane: usize, integers: &[u8; BLOCK]) {
        let words = words(integers).map(|word| word & (15 * ONES));
        for (group, bytes) in self.0.iter_mut().enumerate() {
            add(bytes, lane, words[group] | words[group + HALF] << 4);
        }
    }

    fn get(&self, lane: usize, input: usize) -> u8 {
        let (group, at) = place(lane, input);
        let byte = self.0[group % HALF][at];
        if group < HALF { byte & 15 } else { byte >> 4 }
    }
}

impl IntegerWeights for Nibbles {
    const MOST: i32 = 15;

    #[inline(always)]
    fn group<P: IntegerProducts>(&self, isa: P, part: usize, group: usize) -> P::B {
        let bytes = isa.bytes(&self.0[group % HALF], part);
        isa.field(bytes, if group < HALF { 0 } else { 4 }, 15)
    }
}

/// Three bits: two of each group in one of the pairs of bits of a byte, and bit g of a byte is the
/// third of group g.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Threes {
    low: [GroupBytes; 2],
    high: GroupBytes,
}

impl LaneWeights for Threes {
    fn put(&mut self, lane: usize, integers: &[u8; BLOCK]) {
        for (group, word) in words(integers).into_iter().enumerate() {
            let pairs = (word & (3 * ONES)) << (2 * (group % HALF));
            add(&mut self.low[group / HALF], lane, pairs);
            add(&mut self.high, lane, (word >> 2 & ONES) << group);
        }
    }

    fn get(&self, lane: usize, input: usize) -> u8 {
        let (group, at) = place(lane, input);
        let pair = self.low[group / HALF][at] >> (2 * (group % HALF)) & 3;
        pair | (self.high[at] >> group & 1) << 2
    }
}

impl IntegerWeights for Threes {
    const MOST: i32 = 7;

    #[inline(always)]
    fn group<P: IntegerProducts>(&self, isa: P, part: usize, group: usize) -> P::B {
        let pairs = isa.bytes(&self.low[group / HALF], part);
        let low = isa.field(pairs, 2 * (group % HALF) as i32, 3);
        let bits = isa.bytes(&self.high, part);
        isa.join(low, isa.field(bits, group as i32 - 2, 4))
    }
}

/// Five bits: four, and bit g of a byte is the fifth of group g.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Fives {
    low: Nibbles,
    high: GroupBytes,
}

impl LaneWeights for Fives {
    fn put(&mut self, lane: usize, integers: &[u8; BLOCK]) {
        self.low.put(lane, integers);
        for (group, word) in words(integers).into_iter().enumerate() {
            add(&mut self.high, lane, (word >> 4 & ONES) << group);
        }
    }

    fn get(&self, lane: usize, input: usize) -> u8 {
        let (group, at) = place(lane, input);
        self.low.get(lane, input) | (self.high[at] >> group & 1) << 4
    }
}

impl IntegerWeights for Fives {
    const MOST: i32 = 31;

    #[inline(always)]
    fn group<P: IntegerProducts>(&self, isa: P, part: usize, group: usize) -> P::B {
        let bits = isa.bytes(&self.high, part);
        isa.join(self.low.group(isa, part, group), isa.field(bits, group as i32 - 4, 16))
    }
}

/// Six bits: four, and the other two of each group in one of the pairs of bits of a byte.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Sixes {
    low: Nibbles,
    high: [GroupBytes; 2],
}

impl LaneWeights for Sixes {
    fn put(&mut self, lane: usize, integers: &[u8; BLOCK]) {
        self.low.put(lane, integers);
        for (group, word) in words(integers).into_iter().enumerate() {
            let pairs = (word >> 4 & (3 * ONES)) << (2 * (group % HALF));
            add(&mut self.high[group / HALF], lane, pairs);
        }
    }

    fn get(&self, lane: usize, input: usize) -> u8 {
        let (group, at) = place(lane, input);
        let pair = self.high[group / HALF][at] >> (2 * (group % HALF)) & 3;
        self.low.get(lane, input) | pair << 4
    }
}

impl IntegerWeights for Sixes {
    const MOST: i32 = 63;

    #[inline(always)]
    fn group<P: IntegerProducts>(&self, isa: P, part: usize, group: usize) -> P::B {
        let pairs = isa.bytes(&self.high[group / HALF], part);
        let high = isa.field(pairs, 2 * (group % HALF) as i32 - 4, 48);
        isa.join(self.low.group(isa, part, group), high)
    }
}

/// Eight bits with a sign, kept as the sum with 128.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Eights([GroupBytes; GROUPS]);

/// The bit in which a byte with a sign differs from its sum with 128.
const SIGN: u8 = 0x80;

impl LaneWeights for Eights {
    fn put(&mut self, lane: usize, integers: &[u8; BLOCK]) {
        for (group, word) in words(integers).into_iter().enumerate() {
            add(&mut self.0[group], lane, word ^ (u32::from(SIGN) * ONES));
        }
    }

    fn get(&self, lane: usize, input: usize) -> u8 {
        let (group, at) = place(lane, input);
        self.0[group][at] ^ SIGN
    }
}

impl IntegerWeights for Eights {
    const MOST: i32 = 255;

    #[inline(always)]
    fn group<P: IntegerProducts>(&self, isa: P, part: usize, group: usize) -> P::B {
        isa.bytes(&self.0[group], part)
    }
}

/// Declares four bits that choose one of sixteen numbers.
macro_rules! choices {
    ($name:ident, $numbers:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, Pod, Zeroable)]
        #[repr(C)]
        pub(super) struct $name(Nibbles);

        impl LaneWeights for $name {
            fn put(&mut self, lane: usize, integers: &[u8; BLOCK]) {
                self.0.put(lane, integers);
            }

            fn get(&self, lane: usize, input: usize) -> u8 {
                self.0.get(lane, input)
            }
        }

        impl IntegerWeights for $name {
            const MOST: i32 = 255;

            #[inline(always)]
            fn group<P: IntegerProducts>(&self, isa: P, part: usize, group: usize) -> P::B {
                const TABLE: [u8; 16] = flipped($numbers);
                isa.look_up(&TABLE, self.0.group(isa, part, group))
            }
        }
    };
}

choices!(StepChoices, STEPS, "Four bits that choose one of the steps of IQ4_NL.");
choices!(NumberChoices, NUMBERS, "Four bits that choose one of the numbers of MXFP4.");

/// Numbers with a sign as their sums with 128.
const fn flipped(numbers: [i8; 16]) -> [u8; 16] {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        table[i] = numbers[i].cast_unsigned() ^ SIGN;
        i += 1;
    }
    table
}
