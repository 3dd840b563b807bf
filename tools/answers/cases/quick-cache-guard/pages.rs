//! A cache of pages in front of a store that has only some of the pages it is asked for.
use quick_cache::sync::{Cache, GuardResult};
use std::time::Duration;

const REQUESTS: u64 = 600_000;

fn fetch(page: u64) -> Option<String> {
    (page % 3 == 0).then(|| format!("page {page}: {}", "text ".repeat(20)))
}

#[inline(never)]
fn load_page(cache: &Cache<u64, String>, page: u64) -> usize {
    match cache.get_value_or_guard(&page, Some(Duration::from_secs(1))) {
        GuardResult::Value(text) => text.len(),
        GuardResult::Guard(guard) => match fetch(page) {
            Some(text) => {
                let length = text.len();
                let _ = guard.insert(text);
                length
            }
            None => 0,
        },
        GuardResult::Timeout => 0,
    }
}

fn main() {
    let cache = Cache::new(10_000);
    let length: usize = (0..REQUESTS).map(|request| load_page(&cache, request * 7919 % 1_000_003)).sum();
    println!("{length}");
}
