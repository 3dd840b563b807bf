// The threads of a replay: names, sums, and whether the selection matches them.
//
// A file can contain more threads than a report can show (trace/events/limits.h). All threads beyond max_threads()
// are one entry named "(other threads)".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/replay/selection.h"
#include "analyzer/trace/files/byte_stream.h"

namespace heapprof::replay {

class ThreadTable {
 public:
  struct alignas(64) Thread {
    std::uint32_t tid = 0;
    std::string name;
    std::uint64_t start_ticks = 0;
    std::uint64_t allocations = 0;
    std::uint64_t allocated_bytes = 0;
    std::uint64_t last_allocation = 0;  ///< address of its latest block; 0: it was freed
    bool selected = true;               ///< included, and not excluded
    bool included = false;              ///< one of its names, or its tid, matches the selection
    bool excluded = false;              ///< likewise, what the selection excludes
    bool started = false;               ///< it had an event
    bool renamed = false;
    bool name_left_out = false;  ///< one of its names exceeded max_name_bytes()
    bool is_others = false;      ///< all threads beyond max_threads()
    std::string first_name;
  };

  /// `file_bytes`: size of the trace, which limits the number of threads and the length of their names.
  ThreadTable(const Selection& selection, std::uint64_t file_bytes);

  std::size_t size() const noexcept { return threads_.size(); }
  Thread& operator[](std::uint32_t index) noexcept { return threads_[index]; }
  const Thread& operator[](std::uint32_t index) const noexcept { return threads_[index]; }
  const std::vector<Thread>& all() const noexcept { return threads_; }

  /// Adds a thread and returns its index, which is that of "(other threads)" when the limit is reached.
  std::uint32_t start(std::uint32_t tid, std::string name);
  /// The index of the latest thread with this tid.
  std::optional<std::uint32_t> find(std::uint32_t tid) const;
  void rename(std::uint32_t index, std::string name);
  /// Sets the sums of all threads to 0.
  void reset_sums() noexcept;

  void save(trace::ByteWriter& out) const;
  /// Replaces all threads; their sums are 0. Throws trace::FormatError.
  void restore(trace::ByteReader& in);
  /// False: a thread had several names, and whether the selection matches it depends on more than the first one, so
  /// it is unknown which of its blocks match. Precondition: restored, and no thread was renamed since.
  bool selection_is_unambiguous() const;

  /// How many threads find() compares at most, for tests.
  std::size_t max_compared() const { return max_bucket_size(index_of_tid_); }

 private:
  /// Compares `name`, which the thread has from now on, with the selection.
  void match(Thread& thread, const std::string& name) const;
  bool admit_name(const std::string& name) noexcept;
  std::uint32_t join_others(std::uint32_t tid);

  /// Threads by tid or by name.
  struct Listed {
    std::vector<std::uint32_t> ids;
    std::vector<std::string> names;
    bool empty() const noexcept { return ids.empty() && names.empty(); }
    bool has(std::uint32_t tid, const std::string& name) const;
  };

  const Listed selected_;
  const Listed excluded_;
  const std::uint64_t max_threads_;
  const std::uint64_t max_name_bytes_;
  std::vector<Thread> threads_;
  std::uint32_t others_;          // index of "(other threads)"; kNoThread: not needed yet
  std::uint64_t name_bytes_ = 0;  // of all names longer than trace::kUncountedNameBytes
  std::unordered_map<std::uint32_t, std::uint32_t, ChosenKeyHash> index_of_tid_;  // the latest thread with that tid
};

}  // namespace heapprof::replay
