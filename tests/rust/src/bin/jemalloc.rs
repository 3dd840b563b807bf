#[path = "../own_allocators.rs"]
mod own_allocators;

#[global_allocator]
static ALLOCATOR: own_allocators::Counting<tikv_jemallocator::Jemalloc> = own_allocators::Counting(tikv_jemallocator::Jemalloc);

fn main() {
    own_allocators::run();
}
