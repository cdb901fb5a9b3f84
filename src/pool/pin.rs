//! Pinning workers to cores.

/// Pins a worker to a core of its own, where its caches stay warm, if there are enough
/// cores.
#[cfg(target_os = "linux")]
pub(super) fn pin(index: usize, threads: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect::<Vec<_>>();
    if cores.len() >= threads {
        let mut own = CpuSet::new();
        own.set(cores[index]);
        // Without pinning everything works, only with less even times.
        let _ = sched_setaffinity(None, &own);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn pin(_: usize, _: usize) {}
