// Decodes and replays in parallel: a second thread reads and merges, the calling thread gets the batches in order.
// The result does not depend on the timing of the threads.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "analyzer/trace/merged_reader.h"

namespace heapprof::replay {

/// Traces with fewer bytes of frames are read by the calling thread, since starting another would take longer.
inline constexpr std::uint64_t kMinBytesForThread = 256 << 10;

/// Calls consume(batch) with each batch of `reader` until it returns false. `frame_bytes`: of the whole trace.
/// Rethrows an exception of either thread after both have ended.
template <typename Consume>
void pump(trace::MergedReader& reader, std::uint64_t frame_bytes, Consume&& consume) {
  const auto run_here = [&] {
    trace::Batch batch;
    while (reader.next(batch) && consume(batch)) {
    }
  };
  if (frame_bytes < kMinBytesForThread) return run_here();

  constexpr std::size_t kSlots = 4;
  struct {
    std::array<trace::Batch, kSlots> batches;
    std::size_t filled = 0;   // batches put in, in total
    std::size_t emptied = 0;  // batches taken out, in total
    bool ended = false;       // no more will be put in
    bool abandoned = false;   // no more will be taken out
    std::exception_ptr failure;
    std::mutex mutex;
    std::condition_variable changed;
  } ring;

  std::thread producer;
  try {
    producer = std::thread([&] {
      std::exception_ptr failure;
      try {
        for (;;) {
          std::size_t slot;
          {
            std::unique_lock lock(ring.mutex);
            ring.changed.wait(lock, [&] { return ring.filled - ring.emptied < kSlots || ring.abandoned; });
            if (ring.abandoned) break;
            slot = ring.filled % kSlots;
          }
          if (!reader.next(ring.batches[slot])) break;
          const std::lock_guard lock(ring.mutex);
          ++ring.filled;
          ring.changed.notify_all();
        }
      } catch (...) {
        failure = std::current_exception();
      }
      const std::lock_guard lock(ring.mutex);
      ring.failure = failure;
      ring.ended = true;
      ring.changed.notify_all();
    });
  } catch (const std::system_error&) {
    return run_here();  // no thread could be started
  }

  std::exception_ptr failure;
  try {
    for (;;) {
      std::size_t slot;
      {
        std::unique_lock lock(ring.mutex);
        ring.changed.wait(lock, [&] { return ring.filled != ring.emptied || ring.ended; });
        if (ring.filled == ring.emptied) break;
        slot = ring.emptied % kSlots;
      }
      if (!consume(ring.batches[slot])) break;
      const std::lock_guard lock(ring.mutex);
      ++ring.emptied;
      ring.changed.notify_all();
    }
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(ring.mutex);
    ring.abandoned = true;
    ring.changed.notify_all();
  }
  producer.join();
  if (failure != nullptr) std::rethrow_exception(failure);
  if (ring.failure != nullptr) std::rethrow_exception(ring.failure);
}

}  // namespace heapprof::replay
