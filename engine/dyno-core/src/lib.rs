//! What every program of the engine shares: clock, schedule, random streams, histogram, wire format.

pub mod clock;
pub mod distribution;
pub mod histogram;
pub mod local_ports;
pub mod queue;
pub mod random;
pub mod schedule;
pub mod streams;
pub mod wire;

/// Starts to load all of `what` into the processor's caches; does nothing where the processor has no such instruction that
/// we know.
///
/// Worth it for what the kernel's work has driven out of the caches since, when something else can be done meanwhile.
#[inline]
#[allow(unsafe_code)]
pub fn prefetch<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..size_of::<T>()).step_by(CACHE_LINE) {
        let at = std::ptr::from_ref(what).cast::<i8>().wrapping_add(line);
        // SAFETY: prefetching is a hint without effect on what the program sees, whatever the address (SDM, PREFETCHh);
        // this one lies inside `what`.
        unsafe { core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}

#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;
