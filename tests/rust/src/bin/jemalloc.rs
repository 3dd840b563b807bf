#[path = "../counting_allocator.rs"]
mod counting_allocator;

#[global_allocator]
static ALLOCATOR: counting_allocator::Counting<tikv_jemallocator::Jemalloc> =
    counting_allocator::Counting(tikv_jemallocator::Jemalloc);

fn main() {
    counting_allocator::run();
}
