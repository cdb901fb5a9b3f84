//! Small integers that share bytes.

/// The low halves of N / 2 bytes, then their high halves.
pub(super) fn halves<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut integers = [0; N];
    let (low, high) = integers.split_at_mut(N / 2);
    for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
        (*low, *high) = (byte & 15, byte >> 4);
    }
    integers
}

/// Gives an integer of four bits a fifth one: the lowest of `bits`.
pub(super) fn add_bit(integer: &mut u8, bits: u8) {
    *integer |= (bits & 1) << 4;
}
