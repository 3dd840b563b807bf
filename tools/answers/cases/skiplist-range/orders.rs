//! An order book: orders come and go; now and then somebody looks at the next few.
use crossbeam_skiplist::SkipMap;
use std::sync::Arc;

const ORDERS: u64 = 150_000;
const OPEN: u64 = 5_000;

#[inline(never)]
fn add_order(book: &SkipMap<u64, String>, number: u64) {
    book.insert(number, format!("order {number} of customer {}", number % 977));
}

#[inline(never)]
fn next_orders(book: &SkipMap<u64, String>, from: u64) -> usize {
    book.range(from..from + 8).map(|entry| entry.value().len()).sum()
}

fn main() {
    let book = Arc::new(SkipMap::new());
    let threads: Vec<_> = (0..2u64)
        .map(|thread| {
            let book = Arc::clone(&book);
            std::thread::spawn(move || {
                let base = thread << 40;
                let mut length = 0;
                for number in 0..ORDERS {
                    add_order(&book, base + number);
                    if number % 20 == 0 {
                        length += next_orders(&book, base + number.saturating_sub(100));
                    }
                    if number >= OPEN {
                        book.remove(&(base + number - OPEN));
                    }
                }
                length
            })
        })
        .collect();
    let length: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    println!("{length}");
}
