//! The system's allocator with counters, for tests that show that a hot path allocates nothing.
//!
//! A test makes it its own: `#[global_allocator] static ALLOCATOR: CountingAllocator = CountingAllocator;`
#![allow(unsafe_code)] // a global allocator is unsafe by its interface

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static OF_THIS_THREAD: Cell<u64> = const { Cell::new(0) };
}
static OF_THE_PROCESS: AtomicU64 = AtomicU64::new(0);

/// Counts every allocation and every reallocation, and leaves the work to the system's allocator.
#[derive(Debug)]
pub struct CountingAllocator;

/// Allocations of the calling thread so far. The test harness's own threads are not in it.
pub fn of_this_thread() -> u64 {
    OF_THIS_THREAD.get()
}

/// Allocations of all threads so far, those of the test harness among them.
pub fn of_the_process() -> u64 {
    OF_THE_PROCESS.load(Ordering::Relaxed)
}

fn count() {
    OF_THIS_THREAD.set(OF_THIS_THREAD.get() + 1);
    OF_THE_PROCESS.fetch_add(1, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged; the counters are plain numbers that allocate nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `GlobalAlloc::realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::{of_the_process, of_this_thread, CountingAllocator};

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    /// A test that could not fail would prove nothing.
    #[test]
    fn an_allocation_is_counted_for_its_thread_and_for_the_process() {
        let (thread, process) = (of_this_thread(), of_the_process());
        std::hint::black_box(vec![1u8; 100]);
        assert_eq!(of_this_thread() - thread, 1);
        assert!(of_the_process() > process);
        let other = std::thread::spawn(|| {
            std::hint::black_box(vec![1u8; 100]);
        });
        let before = of_this_thread();
        other.join().unwrap();
        assert_eq!(
            of_this_thread(),
            before,
            "another thread's allocation is not this one's"
        );
    }
}
