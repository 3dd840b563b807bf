//! Shared by the programs of this directory: an allocator that counts the calls that it forwards, and a workload.
//!
//! A recording is compared with the counts. Each program prints them last, and allocates nothing afterwards.
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub struct Counting<A>(pub A);

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static ALLOCATED_BYTES: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);
static FREED_BYTES: AtomicU64 = AtomicU64::new(0);

fn allocated(size: usize) {
    ALLOCATIONS.fetch_add(1, Relaxed);
    ALLOCATED_BYTES.fetch_add(size as u64, Relaxed);
}

fn freed(size: usize) {
    FREES.fetch_add(1, Relaxed);
    FREED_BYTES.fetch_add(size as u64, Relaxed);
}

unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        self.0.alloc(layout)
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        self.0.alloc_zeroed(layout)
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        freed(layout.size());
        self.0.dealloc(block, layout)
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        freed(layout.size());
        allocated(size);
        self.0.realloc(block, layout, size)
    }
}

#[repr(align(128))]
struct Aligned(#[allow(dead_code)] [u8; 256]);

#[inline(never)]
pub fn site_leak(size: usize) {
    let mut block = Vec::<u8>::with_capacity(size);
    block.push(1);
    std::mem::forget(std::hint::black_box(block));
}

#[inline(never)]
fn site_work(round: usize) -> usize {
    let mut grown: Vec<usize> = Vec::new();
    for i in 0..(round % 50) {
        grown.push(i);
    }
    let zeroed = vec![0u8; 100 + round];
    let aligned = Box::new(Aligned([round as u8; 256]));
    std::hint::black_box((&grown, &zeroed, &aligned));
    grown.len() + zeroed.len()
}

/// Work in `threads` threads; each leaks a hundred blocks of 1000 bytes when there is work.
pub fn run() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<usize>().unwrap());
    let work = arguments.next().unwrap_or(1000);
    let threads = arguments.next().unwrap_or(1);
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            std::thread::spawn(move || {
                for round in 0..work {
                    std::hint::black_box(site_work(round));
                    if round < 100 {
                        site_leak(1000);
                    }
                }
            })
        })
        .collect();
    for handle in handles {
        handle.join().unwrap();
    }
    let counts = [&ALLOCATIONS, &ALLOCATED_BYTES, &FREES, &FREED_BYTES].map(|count| count.load(Relaxed));
    eprintln!("{} {} {} {}", counts[0], counts[1], counts[2], counts[3]);
    std::process::exit(0);
}
