// A trace of a random program with several threads, for the states that a replay keeps between events: blocks that
// other threads free, reallocs that end late or fail, mappings that are unmapped in parts, streams that new threads
// reuse, renamed threads.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/seed.h"
#include "tests/support/trace_builder.h"

namespace heapprof::test {

/// Fills `trace` with about `events` events, 1 to 5 ticks apart. Calls `after(i)` after the i-th step.
inline void random_program(TraceBuilder& trace, std::uint64_t seed, int events,
                           const std::function<void(int)>& after = {}) {
  std::mt19937_64 random(heapprof::test::seed(seed));
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint64_t>(random() % n); };
  const std::size_t threads = static_cast<std::size_t>(seed) % 4 + 1;
  constexpr std::uint32_t kNodes = 60;
  std::vector<TraceBuilder::Stream*> streams;
  for (std::size_t i = 0; i < threads; ++i) {
    streams.push_back(&trace.stream(40 + static_cast<std::uint32_t>(below(200))));
    streams.back()->thread(static_cast<std::uint32_t>(100 + i), i % 2 == 0 ? "even" : "odd");
  }
  streams[0]->module(2, "/bin/one", "\x01\x02", 0x1000, 0, 0x10000, true);
  streams[0]->module(3, "/lib/two.so", "\x03\x04", 0x7f0000001000, 0x7f0000000000);
  for (std::uint32_t node = 1; node <= kNodes; ++node)
    streams[below(threads)]->node(node * 3, node == 1 ? 0 : 3 * (1 + static_cast<std::uint32_t>(below(node - 1))),
                                  node % 7 == 0 ? 3 : 2, node);
  std::map<std::uint64_t, bool> live;                     // addresses
  std::vector<std::vector<std::uint64_t>> open(threads);  // reallocs in progress
  std::vector<std::uint64_t> mapped;
  std::uint64_t time = 1;
  std::uint32_t next_tid = 200;
  const auto any_live = [&] {
    auto at = live.lower_bound(0x10000 + 16 * below(3'000));
    return at == live.end() ? live.begin() : at;
  };
  for (int i = 0; i < events; ++i) {
    if (after && i != 0) after(i - 1);
    time += below(5) == 0 ? 1 + below(4'000) : 1 + below(5);
    const std::size_t thread = below(threads);
    TraceBuilder::Stream& stream = *streams[thread];
    const auto node = static_cast<std::uint32_t>(3 * below(kNodes + 1));
    const std::uint64_t size = below(10) == 0 ? below(100'000) : below(200);
    const bool grow = below(100) < ((i / (events / 8 + 1)) % 2 == 0 ? 65u : 40u);
    const std::uint64_t what = below(1'000);
    if (what < 5) {
      stream.sample(time, trace.header.start_monotonic_ns + time, 1'000'000 + below(1'000'000));
    } else if (what < 15) {
      const std::uint64_t address = 0x7000000 + 0x10000 * below(50);
      stream.add(Op::kMap, time, address, 4096 * (1 + below(30)), node, static_cast<std::uint32_t>(below(8)));
      mapped.push_back(address);
    } else if (what < 22 && !mapped.empty()) {
      const std::uint64_t address = mapped[below(mapped.size())] + 4096 * below(10);
      stream.add(Op::kUnmapBegin, time, address, 4096 * (1 + below(12)));
      stream.add(below(4) == 0 ? Op::kUnmapFailed : Op::kUnmapEnd, ++time);
    } else if (what < 24) {
      stream.alloc_failed(time, size);
    } else if (what < 25) {
      stream.free(time, 0x999999000 + 16 * below(1'000));  // of an unknown block
    } else if (what < 27) {
      stream.text(TextKind::kThreadName, 100 + thread, 0, below(2) == 0 ? "worker" : "even");
    } else if (what < 28 && open[thread].empty()) {
      stream.thread(next_tid++, "later");
    } else if (what < 29) {
      stream.text(TextKind::kMark, 0, time, "mark " + std::to_string(i));
    } else if (what < 34 && !live.empty()) {
      stream.alloc(time, any_live()->first, size, node);  // its free was not recorded
    } else if (!open[thread].empty() && below(3) == 0) {
      const std::uint64_t old = open[thread].back();
      open[thread].pop_back();
      const std::uint64_t end = below(5);
      if (end == 0 && live.count(old) == 0) {
        stream.realloc_failed(time, size);
        live[old] = true;
      } else if (end == 1) {
        stream.realloc_end(time, 0, 0, node);
      } else {
        std::uint64_t address;
        do address = 0x10000 + 16 * below(3'000);
        while (live.count(address) != 0);
        stream.realloc_end(time, address, size, node);
        live[address] = true;
      }
    } else if (live.empty() || (grow && live.size() < 2'000)) {
      std::uint64_t address;
      do address = 0x10000 + 16 * below(3'000);
      while (live.count(address) != 0);
      stream.alloc(time, address, size, node);
      live[address] = true;
      if (below(3) == 0) {
        stream.free(++time, address);
        live.erase(address);
      }
    } else {
      const auto at = any_live();
      if (below(8) == 0) {
        stream.realloc_begin(time, at->first);
        open[thread].push_back(at->first);
      } else {
        stream.free(time, at->first);
      }
      live.erase(at);
    }
  }
}

}  // namespace heapprof::test
