//! A service that measures its requests, and that nobody asks for its metrics.
use metrics_exporter_prometheus::PrometheusBuilder;
use std::collections::VecDeque;

const THREADS: u64 = 2;
const REQUESTS: u64 = 700_000;

#[inline(never)]
fn serve_request(number: u64, answers: &mut VecDeque<String>) {
    answers.push_back(format!("answer to request {number}"));
    if answers.len() > 20_000 {
        answers.pop_front();
    }
    metrics::histogram!("request_duration_seconds").record((number % 1000) as f64 / 1000.0);
    metrics::counter!("requests_total").increment(1);
}

fn main() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).ok().expect("the only recorder");
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let handle = handle.clone();
            std::thread::spawn(move || {
                let mut answers = VecDeque::new();
                for number in 0..REQUESTS {
                    serve_request(number, &mut answers);
                    #[cfg(feature = "upkeep")]
                    if thread == 0 && number % 10_000 == 0 {
                        handle.run_upkeep();
                    }
                }
                let _ = (thread, handle);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    drop(handle);
}
