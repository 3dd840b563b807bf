#include "analyzer/replay/thread_table.h"

#include <algorithm>
#include <utility>

#include "analyzer/replay/resolved_event.h"
#include "analyzer/trace/events/limits.h"

namespace heapprof::replay {

ThreadTable::ThreadTable(const Selection& selection, std::uint64_t file_bytes)
    : selected_{selection.thread_ids, selection.thread_names},
      excluded_{selection.excluded_thread_ids, selection.excluded_thread_names},
      max_threads_(trace::max_threads(file_bytes)), max_name_bytes_(trace::max_name_bytes(file_bytes)),
      others_(kNoThread) {}

bool ThreadTable::Listed::has(std::uint32_t tid, const std::string& name) const {
  return std::find(ids.begin(), ids.end(), tid) != ids.end() ||
         std::find(names.begin(), names.end(), name) != names.end();
}

void ThreadTable::match(Thread& thread, const std::string& name) const {
  thread.included |= selected_.empty() || selected_.has(thread.tid, name);
  thread.excluded |= excluded_.has(thread.tid, name);
  thread.selected = thread.included && !thread.excluded;
}

/// False: the names exceed what a file of this size can hold; the caller leaves this one empty.
bool ThreadTable::admit_name(const std::string& name) noexcept {
  if (name.size() <= trace::kUncountedNameBytes) return true;
  name_bytes_ += name.size();
  return name_bytes_ <= max_name_bytes_;
}

std::uint32_t ThreadTable::join_others(std::uint32_t tid) {
  if (others_ == kNoThread) {
    Thread thread;
    thread.name = thread.first_name = "(other threads)";
    match(thread, thread.name);
    thread.is_others = true;
    others_ = static_cast<std::uint32_t>(threads_.size());
    threads_.push_back(std::move(thread));
  }
  const auto known = index_of_tid_.find(tid);
  if (known != index_of_tid_.end()) known->second = others_;
  return others_;
}

std::uint32_t ThreadTable::start(std::uint32_t tid, std::string name) {
  if (threads_.size() >= max_threads_) return join_others(tid);
  Thread thread;
  thread.tid = tid;
  if (!admit_name(name)) {
    thread.name_left_out = true;
    name.clear();
    name.shrink_to_fit();
  }
  match(thread, name);
  thread.first_name = name;
  thread.name = std::move(name);
  const auto index = static_cast<std::uint32_t>(threads_.size());
  index_of_tid_[tid] = index;
  threads_.push_back(std::move(thread));
  return index;
}

std::optional<std::uint32_t> ThreadTable::find(std::uint32_t tid) const {
  const auto known = index_of_tid_.find(tid);
  if (known == index_of_tid_.end()) return std::nullopt;
  return known->second;
}

void ThreadTable::rename(std::uint32_t index, std::string name) {
  Thread& thread = threads_[index];
  if (thread.is_others) return;
  if (!admit_name(name)) {
    thread.name_left_out = true;
    return;
  }
  thread.renamed |= thread.name != name;
  thread.name = std::move(name);
  match(thread, thread.name);
}

void ThreadTable::reset_sums() noexcept {
  for (Thread& thread : threads_) thread.allocations = thread.allocated_bytes = 0;
}

void ThreadTable::save(trace::ByteWriter& out) const {
  out.number(threads_.size());
  for (const Thread& thread : threads_) {
    out.number(thread.tid);
    out.text(thread.name);
    out.text(thread.first_name);
    out.number(thread.start_ticks);
    out.number(thread.last_allocation);
    out.number((thread.started ? 1u : 0u) | (thread.renamed ? 2u : 0u) | (thread.name_left_out ? 4u : 0u) |
               (thread.is_others ? 8u : 0u));
  }
}

void ThreadTable::restore(trace::ByteReader& in) {
  threads_.clear();
  index_of_tid_.clear();
  others_ = kNoThread;
  name_bytes_ = 0;
  const std::size_t count = in.count();
  if (count > max_threads_ + 1) throw trace::FormatError("it has more threads than a file of this size can hold");
  for (std::size_t i = 0; i < count; ++i) {
    Thread thread;
    thread.tid = in.number32();
    thread.name = in.text();
    thread.first_name = in.text();
    thread.start_ticks = in.number();
    thread.last_allocation = in.number();
    const std::uint64_t flags = in.number();
    thread.started = (flags & 1) != 0;
    thread.renamed = (flags & 2) != 0;
    thread.name_left_out = (flags & 4) != 0;
    thread.is_others = (flags & 8) != 0;
    if (thread.is_others) others_ = static_cast<std::uint32_t>(threads_.size());
    admit_name(thread.first_name);
    match(thread, thread.first_name);
    if (!thread.is_others) index_of_tid_[thread.tid] = static_cast<std::uint32_t>(threads_.size());
    threads_.push_back(std::move(thread));
  }
}

bool ThreadTable::selection_is_unambiguous() const {
  // Later names can only include a thread, or exclude it.
  return std::all_of(threads_.begin(), threads_.end(), [&](const Thread& thread) {
    return !thread.renamed || thread.excluded ||
           (excluded_.names.empty() && (selected_.names.empty() || thread.included));
  });
}

}  // namespace heapprof::replay
