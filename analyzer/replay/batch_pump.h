// Reading and replaying side by side: one thread decodes and merges, the calling one gets the batches in
// order. What comes out does not depend on who is faster.
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

/// Below this, starting a thread costs more than it saves.
inline constexpr std::uint64_t kWorthAThread = 256 << 10;

/// Calls consume(batch) with every batch of `reader`, until it returns false. An exception on either side ends
/// both and comes out here.
template <typename Consume>
void pump(trace::MergedReader& reader, std::uint64_t frame_bytes, Consume&& consume) {
  const auto alone = [&] {
    trace::Batch batch;
    while (reader.next(batch) && consume(batch)) {}
  };
  if (frame_bytes < kWorthAThread) return alone();

  constexpr std::size_t kSlots = 4;
  struct {
    std::array<trace::Batch, kSlots> batches;
    std::size_t filled = 0;    // batches ever put in
    std::size_t emptied = 0;   // and taken out
    bool ended = false;        // no more will be put in
    bool abandoned = false;    // no more will be taken out
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
    return alone();  // no thread to be had
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
