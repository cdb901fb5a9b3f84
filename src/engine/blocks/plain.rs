//! Weights that are stored one by one.

use half::slice::HalfFloatSliceExt;

/// Number of f16 weights that are turned into f32 at once.
const GROUP: usize = 64;

pub(super) fn f32(bytes: &[u8], to: &mut Vec<f32>) {
    to.extend(bytes.as_chunks().0.iter().map(|&weight| f32::from_le_bytes(weight)));
}

pub(super) fn f16(bytes: &[u8], to: &mut Vec<f32>) {
    for group in bytes.as_chunks::<2>().0.chunks(GROUP) {
        let (mut weights, mut wide) = ([half::f16::ZERO; GROUP], [0.0; GROUP]);
        let weights = &mut weights[..group.len()];
        let wide = &mut wide[..group.len()];
        for (weight, &bytes) in weights.iter_mut().zip(group) {
            *weight = half::f16::from_le_bytes(bytes);
        }
        weights.convert_to_f32_slice(wide);
        to.extend_from_slice(wide);
    }
}

pub(super) fn bf16(bytes: &[u8], to: &mut Vec<f32>) {
    let weights = bytes.as_chunks().0.iter();
    to.extend(weights.map(|&weight| half::bf16::from_le_bytes(weight).to_f32()));
}

/// Whether something is true of all numbers of N bytes. It looks at all of them, which is
/// faster than to stop at the first of which it is not.
pub(super) fn all<const N: usize>(bytes: &[u8], is_true: impl Fn([u8; N]) -> bool) -> bool {
    bytes.as_chunks().0.iter().fold(true, |all, &number| all & is_true(number))
}

/// The bits of the f16 number at a place of a block.
pub(super) fn bits_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}
