"""How long the arithmetic of a pass takes at least, by instruction set.

Counted are the vector instructions of specdec's kernels (`src/core/lanes`, `src/engine/native/matrix`)
for a block of 32 inputs and one vector of outputs. Loads, address arithmetic and loops are left
out, so the time is a lower bound.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kernel:
    """The instructions of a kernel for one block."""

    # Per row: those that only the multipliers execute, and all.
    multiplies: int
    instructions: int
    # Per group of rows, for any number of rows: preparing the weights.
    shared: int
    # The most rows of a single group, and the rows of each if there are several; with 0, the
    # fewest groups of equal sizes.
    most: int
    several: int

    def slots(self, rows: int) -> float:
        """The time of a block, in units in which the multipliers execute one instruction.

        Of the vector units of current x86 processors, two multiply, and at most two others
        execute the rest, so all instructions together pass at most twice as fast.
        """
        return sum(
            max(self.multiplies * size, (self.instructions * size + self.shared) / 2)
            for size in self._groups(rows)
        )

    def _groups(self, rows: int) -> list[int]:
        """The numbers of rows of the groups, as in `src/engine/native/matrix/groups.rs`."""
        size = self.several or -(-rows // -(-rows // self.most))
        if rows <= self.most:
            size = rows
        return [min(size, rows - first) for first in range(0, rows, size)]


# Inputs of a block.
BLOCK = 32
# f32: a multiply-add per input.
# bf16: the same, and per group a shift and a mask for every two inputs, which turn them into f32.
# q8_0 with AVX2: per two inputs and row, `madd` and an addition, of which the first multiplies;
# per two inputs and group, a conversion to 16 bits.
# q8_0 with VNNI: per four inputs and row, `dpbusd`.
# q8_0 on all: per block and row, a conversion to f32, a multiplication and a multiply-add; per
# block and group, the conversion of the scales.
KERNELS = {
    "avx2": {
        "f32": Kernel(multiplies=32, instructions=32, shared=0, most=6, several=6),
        "bf16": Kernel(multiplies=32, instructions=32, shared=32, most=5, several=0),
        "q8_0": Kernel(multiplies=18, instructions=35, shared=17, most=6, several=0),
    },
    "avxvnni": {
        "f32": Kernel(multiplies=32, instructions=32, shared=0, most=6, several=6),
        "bf16": Kernel(multiplies=32, instructions=32, shared=32, most=5, several=0),
        "q8_0": Kernel(multiplies=10, instructions=11, shared=1, most=8, several=0),
    },
    "avx512": {
        "f32": Kernel(multiplies=32, instructions=32, shared=0, most=16, several=12),
        "bf16": Kernel(multiplies=32, instructions=32, shared=32, most=16, several=12),
        "q8_0": Kernel(multiplies=10, instructions=11, shared=1, most=16, several=12),
    },
}
