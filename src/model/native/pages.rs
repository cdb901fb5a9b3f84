//! Memory in large pages. With pages of 4 KiB, reading all weights in sequence would
//! spend its time on page lookups.

use std::io;

use memmap2::MmapMut;

/// At least `bytes` bytes of zeros.
///
/// # Errors
/// If the system cannot provide the memory.
pub(crate) fn large_pages(bytes: usize) -> io::Result<MmapMut> {
    let map = MmapMut::map_anon(bytes.max(1))?;
    #[cfg(target_os = "linux")]
    // Without large pages everything works, only slower.
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(map)
}
