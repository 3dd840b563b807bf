#[path = "../own_allocators.rs"]
mod own_allocators;

#[global_allocator]
static ALLOCATOR: own_allocators::Counting<mimalloc::MiMalloc> = own_allocators::Counting(mimalloc::MiMalloc);

fn main() {
    own_allocators::run();
}
