//! Instruction sets: operations on sixteen lanes of f32, with the same bits on each.
//!
//! A kernel is written once, over `Isa`, and compiled for each instruction set. Every
//! operation of the trait is defined to the last bit by IEEE 754 or by exact integer
//! arithmetic, so the result of a kernel does not depend on the instruction set; only
//! its speed does.

/// Declares that a value of a type is the proof that the processor has some instructions.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! proof {
    ($isa:ty, $features:tt, $has:expr) => {
        impl $isa {
            /// The proof, if the processor has these features.
            pub(super) fn detect() -> Option<Self> {
                $has.then_some(Self(Default::default()))
            }

            /// Compiles and runs a kernel with these instructions.
            pub(super) fn run<K: Kernel>(self, kernel: K) -> K::Output {
                #[target_feature(enable = $features)]
                fn inside<K: Kernel>(isa: $isa, kernel: K) -> K::Output {
                    kernel.run(isa)
                }
                // SAFETY: `self` exists only where the processor has these features.
                unsafe { inside(self, kernel) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod integers;
pub(crate) mod math;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
pub(crate) mod prefetch;

#[cfg(target_arch = "x86_64")]
use self::avx2::{Avx2, Vnni, Widening};
#[cfg(target_arch = "x86_64")]
use self::avx512::Avx512;
use self::integers::IntegerProducts;
#[cfg(target_arch = "aarch64")]
use self::neon::{DotProd, LongProducts, Neon};
use self::portable::Portable;

use std::env;
use std::sync::OnceLock;

use bytemuck::{Pod, Zeroable};

use crate::core::registry::named;

/// The environment variable that forces an instruction set, by name.
const VARIABLE: &str = "SPECDEC_ISA";
/// Lanes of a vector, and outputs of a weight tile.
pub const LANES: usize = 16;

/// An e4m3 divided by this is the f16 with its sign, exponent and fraction: the biases of their
/// exponents, 7 and 15, differ by 8. A subnormal number becomes a subnormal one.
pub(crate) const E4M3_STEP: f32 = 256.0;
/// The bits of this f16 in an e4m3 that is extended with its sign and shifted to the left by 7: all
/// but the second copy of the sign.
const E4M3_BITS: u16 = 0xbfff;

/// Thirty-two one-byte weights for each of sixteen lanes, placed by [`IsaKind::byte`].
pub(crate) type Bytes = [u8; BLOCK * LANES];
/// Weights per lane, and values per row, of a product of bytes.
pub(crate) const BLOCK: usize = 32;

/// A row's quantised values for a product of bytes, in the form that an instruction set
/// multiplies.
pub(crate) trait Quants: Pod {
    /// From the values, none of them −128, and their scale.
    fn new(quants: [i8; BLOCK], scale: f32) -> Self;
    /// The scale.
    fn scale(&self) -> f32;
}

/// Bytes, four at a time, with the term that cancels the 128 added to the weights.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Fours {
    quants: [[i8; 4]; BLOCK / 4],
    /// −128 times their sum; only the products of x86 need it.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    correction: i32,
    scale: f32,
}

impl Quants for Fours {
    #[inline(always)]
    fn new(quants: [i8; BLOCK], scale: f32) -> Self {
        let mut total = 0;
        for quant in quants {
            total += i32::from(quant);
        }
        Self { quants: bytemuck::cast(quants), correction: -128 * total, scale }
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.scale
    }
}

/// Operations on sixteen f32 or i32 lanes. A value of an implementing type is
/// the proof that the processor has the instructions.
pub(crate) trait Isa: IntegerProducts + Send + Sync {
    /// The instruction set.
    const KIND: IsaKind;
    /// Sixteen f32.
    type F: Copy;
    /// The values of a row for [`Isa::dot`].
    type Quants: Quants;

    /// The same number in every lane.
    fn splat(self, x: f32) -> Self::F;
    /// Lane `i` is `x[i]`.
    fn load(self, x: &[f32; LANES]) -> Self::F;
    /// Writes lane `i` to `to[i]`.
    fn store(self, x: Self::F, to: &mut [f32; LANES]);
    /// The value of the f16 `x[i]`; exact.
    fn load_f16(self, x: &[u16; LANES]) -> Self::F;
    /// The value of the e4m3 `x[i]` divided by [`E4M3_STEP`]; exact. The two bytes that stand for
    /// NaN give ±1.875, as if they were numbers.
    fn load_e4m3(self, x: &[u8; LANES]) -> Self::F;
    /// The integer `x[i]`.
    fn load_u8(self, x: &[u8; LANES]) -> Self::F;
    /// The integer `x[i]` with a sign.
    fn load_i8(self, x: &[u8; LANES]) -> Self::F;
    /// The values of the bf16 `x[i][0]`; exact.
    fn load_bf16_first(self, x: &[[u16; 2]; LANES]) -> Self::F;
    /// The values of the bf16 `x[i][1]`; exact.
    fn load_bf16_second(self, x: &[[u16; 2]; LANES]) -> Self::F;

    /// `a + b`.
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a − b`.
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a · b`.
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`.
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a · b + c`, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The larger of two numbers, neither of them NaN; either one of two zeros.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// The smaller of two numbers, neither of them NaN; either one of two zeros.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// `2ⁿ` for integers `n` from −126 to 127, and 0 for −127.
    fn exp2_integer(self, n: Self::F) -> Self::F;

    /// The integers as f32; exact up to 2²⁴.
    fn to_f32(self, x: Self::I) -> Self::F;
    /// For each row `m`, in each lane: the sum of the products of its weights with the
    /// values of the row; exact.
    fn dot<const M: usize>(self, w: &Bytes, x: [&Self::Quants; M]) -> [Self::I; M];
}

/// Code that is compiled for every instruction set.
pub(crate) trait Kernel {
    /// The result.
    type Output;
    /// Runs the kernel. Implementations, and every function that they call on lanes,
    /// must be `#[inline(always)]` functions: code that is not inlined is compiled
    /// without the instructions. Closures may fail to be inlined, so they must not be
    /// used on lanes.
    fn run<I: Isa>(self, isa: I) -> Self::Output;
}

/// An instruction set of this processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsaKind {
    /// Plain Rust: the reference for the bits, slow if it is compiled without the
    /// processor's fused multiply-add.
    Portable,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX2 with FMA, F16C and AVX-VNNI.
    AvxVnni,
    /// AVX-512 F, BW, VL and VNNI.
    Avx512,
    /// NEON of AArch64.
    Neon,
    /// NEON of AArch64 with dot products of bytes.
    NeonDot,
}

// The fastest last.
named!(IsaKind: Portable = "portable", Avx2 = "avx2", AvxVnni = "avxvnni", Avx512 = "avx512",
       Neon = "neon", NeonDot = "neondot");

impl IsaKind {
    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        /// The instruction set that a kernel really runs on.
        struct Used;
        impl Kernel for Used {
            type Output = IsaKind;
            #[inline(always)]
            fn run<I: Isa>(self, _: I) -> IsaKind {
                I::KIND
            }
        }
        self.run(Used) == self
    }

    /// The place of a lane's weight for one of the inputs of a block, and the bits in which the
    /// byte there differs from the signed weight.
    pub(crate) fn byte(self, lane: usize, input: usize) -> (usize, u8) {
        let (together, flipped) = match self {
            Self::Avx2 => (2, 0),
            // With its highest bit flipped, a byte holds the weight plus 128.
            _ => (4, 0x80),
        };
        ((input / together * LANES + lane) * together + input % together, flipped)
    }

    /// The fastest instruction set of this processor, or the one that `SPECDEC_ISA`
    /// names.
    ///
    /// # Errors
    /// If the variable names an unknown instruction set, or one that the processor
    /// lacks.
    pub fn choose() -> Result<Self, String> {
        let mut available = Self::ALL.into_iter().filter(|isa| isa.is_available());
        match env::var(VARIABLE) {
            Err(_) => Ok(available.next_back().unwrap_or(Self::Portable)),
            Ok(name) => {
                let names = available.clone().map(Self::name).collect::<Vec<_>>().join(", ");
                let found = available.into_iter().find(|isa| isa.name() == name);
                found.ok_or_else(|| format!("{VARIABLE}={name}: this processor has {names}"))
            }
        }
    }

    /// The instruction set that this process uses by default.
    pub fn active() -> Self {
        static ACTIVE: OnceLock<IsaKind> = OnceLock::new();
        // An invalid name is reported when a model is loaded.
        *ACTIVE.get_or_init(|| Self::choose().unwrap_or(Self::Portable))
    }

    /// Runs a kernel with these instructions, or with the portable ones if the processor lacks
    /// them.
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        /// Runs the kernel on an instruction set if the processor has it.
        macro_rules! run_on {
            ($isa:ty) => {
                if let Some(isa) = <$isa>::detect() {
                    return isa.run(kernel);
                }
            };
        }
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => run_on!(Avx512),
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => run_on!(Avx2::<Vnni>),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => run_on!(Avx2::<Widening>),
            #[cfg(target_arch = "aarch64")]
            Self::NeonDot => run_on!(Neon::<DotProd>),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => run_on!(Neon::<LongProducts>),
            _ => {}
        }
        kernel.run(Portable)
    }
}
