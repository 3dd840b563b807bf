// Makes snapshots of resident pages, for tests of the analyzer.
//
//   SnapshotBuilder snapshot;
//   snapshot.mapping(0x10000, 0x20000, "rw-p", "[heap]");
//   snapshot.pages(kPresent, 0x10000, 0x14000);
//   trace::ResidencySnapshot read = snapshot.read();
//
// Mappings are added by address. Addresses and lengths are multiples of 4 KiB.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/trace/residency.h"
#include "common/residency_codec.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

namespace heapprof::test {

class SnapshotBuilder {
 public:
  SnapshotReason reason = SnapshotReason::kMark;
  SnapshotMethod method = SnapshotMethod::kPagemapScan;
  std::uint64_t begin_ns = 100;  ///< since the start of the recording
  std::uint64_t end_ns = 200;
  std::uint64_t statm_bytes = 0;
  std::uint64_t shared_bytes = 0;
  std::uint64_t page_bytes = 4096;
  bool complete = true;

  /// `access`: "rw-p", as in /proc/PID/maps. Mappings of files have names that begin with a slash.
  void mapping(std::uint64_t begin, std::uint64_t end, std::string_view access, std::string_view name = "",
               std::uint64_t device = 0) {
    std::uint32_t flags = 0;
    if (access[0] == 'r') flags |= kMappingReadable;
    if (access[1] == 'w') flags |= kMappingWritable;
    if (access[2] == 'x') flags |= kMappingExecutable;
    if (access[3] == 's') flags |= kMappingShared;
    mappings_.push_back({begin, end, flags, device, std::string(name)});
  }
  /// Sets a property of all pages of [begin, end).
  void pages(ResidencyPlane plane, std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t page = begin / page_bytes; page < end / page_bytes; ++page) {
      PageGroup& group = groups_[page / kGroupPages];
      group.number = page / kGroupPages;
      group.set(plane, page % kGroupPages, page % kGroupPages + 1);
    }
  }
  void recorder(std::uint64_t begin, std::uint64_t bytes) { recorder_.emplace_back(begin, bytes); }
  void stack(std::uint64_t thread, std::uint64_t stack_pointer, std::uint64_t end) {
    stacks_.push_back({thread, stack_pointer, end});
  }

  /// Adds the snapshot to a stream of `trace`, with this number.
  void add_to(TraceBuilder& trace, TraceBuilder::Stream& stream, std::uint64_t number = 1) const {
    std::vector<std::uint8_t> buffer(2 * kMaxResidencyItemBytes);
    ResidencyEncoder out(buffer.data());
    std::uint64_t pieces = 0;
    const auto next_piece = [&] {
      stream.text(TextKind::kResidency, number, pieces++,
                  {reinterpret_cast<const char*>(buffer.data()), out.bytes()});
      out.restart();
    };
    const std::uint64_t start = trace.header.start_monotonic_ns;
    out.begin({reason, method, start + begin_ns, statm_bytes, shared_bytes, page_bytes});
    for (const Mapping& one : mappings_) {
      next_piece();
      const bool is_file = one.name.starts_with('/');
      out.mapping({one.begin / page_bytes, (one.end - one.begin) / page_bytes, one.flags, one.device,
                   is_file ? 1u : 0u, 0, one.name.data(), one.name.size()});
    }
    for (const auto& [number_of_group, group] : groups_) {
      next_piece();
      out.group(group);
    }
    for (const auto& [begin, bytes] : recorder_) {
      next_piece();
      out.recorder(begin, bytes);
    }
    for (const ResidencyStack& one : stacks_) {
      next_piece();
      out.stack(one);
    }
    out.end({start + end_ns, 1000, complete});
    next_piece();
  }

  /// The snapshot as the analyzer reads it.
  trace::ResidencySnapshot read() const {
    TraceBuilder trace;
    add_to(trace, trace.stream());
    const TemporaryFile path;
    TraceBuilder::write_bytes(path.path(), trace.bytes());
    trace::ResidencySnapshot result;
    trace::for_each_snapshot(trace::TraceFile(path.path()),
                             [&](trace::ResidencySnapshot&& snapshot) { result = std::move(snapshot); });
    return result;
  }

 private:
  struct Mapping {
    std::uint64_t begin;
    std::uint64_t end;
    std::uint32_t flags;
    std::uint64_t device;
    std::string name;
  };
  std::vector<Mapping> mappings_;
  std::map<std::uint64_t, PageGroup> groups_;  // by number
  std::vector<std::pair<std::uint64_t, std::uint64_t>> recorder_;
  std::vector<ResidencyStack> stacks_;
};

}  // namespace heapprof::test
