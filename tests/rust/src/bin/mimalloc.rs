#[path = "../counting_allocator.rs"]
mod counting_allocator;

#[global_allocator]
static ALLOCATOR: counting_allocator::Counting<mimalloc::MiMalloc> =
    counting_allocator::Counting(mimalloc::MiMalloc);

fn main() {
    counting_allocator::run();
}
