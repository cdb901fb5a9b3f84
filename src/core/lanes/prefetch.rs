//! Prefetching.

#![allow(unsafe_code)] // instructions

/// Prefetches the memory `bytes` bytes after `from` into the nearest cache, or, if `far`, into
/// the next larger one. A prefetch never faults, for any address.
#[inline(always)]
pub(crate) fn prefetch<T>(from: &T, bytes: usize, far: bool) {
    let address = std::ptr::from_ref(from).cast::<i8>().wrapping_add(bytes);
    // SAFETY, here and below: every processor of the kind has the instruction, which changes
    // nothing.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        if far {
            _mm_prefetch::<_MM_HINT_T1>(address)
        } else {
            _mm_prefetch::<_MM_HINT_T0>(address)
        }
    }
    #[cfg(target_arch = "aarch64")]
    unsafe {
        use std::arch::asm;
        if far {
            asm!("prfm pldl2keep, [{}]", in(reg) address, options(nomem, nostack, preserves_flags));
        } else {
            asm!("prfm pldl1keep, [{}]", in(reg) address, options(nomem, nostack, preserves_flags));
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = (address, far);
}
