//! The reference: plain Rust.

use super::{FOUR, Group, IntegerProducts, IntegerWeights, Integers};
use crate::lanes::LANES;
use crate::lanes::portable::Portable;

impl IntegerProducts for Portable {
    type I = [i32; LANES];
    type B = Group;

    fn bytes(self, from: &Group, _: usize) -> Group {
        *from
    }

    fn field(self, x: Group, shift: i32, mask: u8) -> Group {
        x.map(|byte| mask & if shift < 0 { byte << -shift } else { byte >> shift })
    }

    fn join(self, a: Group, b: Group) -> Group {
        std::array::from_fn(|i| a[i] | b[i])
    }

    fn look_up(self, table: &[u8; 16], x: Group) -> Group {
        x.map(|byte| table[usize::from(byte)])
    }

    fn dot_groups<W: IntegerWeights, const COUNT: usize, const M: usize>(
        self,
        (w, offset): (&W, i32),
        first: usize,
        x: [&Integers; M],
    ) -> [[i32; LANES]; M] {
        let mut sums = [[0; LANES]; M];
        for group in first..first + COUNT {
            for (i, weight) in w.group(self, 0, group).into_iter().enumerate() {
                for (sums, x) in sums.iter_mut().zip(x) {
                    let value = i32::from(x.quants[group][i % FOUR]);
                    sums[i / FOUR] += (i32::from(weight) - offset) * value;
                }
            }
        }
        sums
    }
}
