// All results of an analysis as text, for comparisons.
#pragma once

#include <charconv>
#include <concepts>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::test {

/// As std::ostringstream for integers and texts, in a fraction of its time: the texts have a line for each event.
class TextWriter {
 public:
  TextWriter& operator<<(std::string_view text) {
    text_ += text;
    return *this;
  }
  TextWriter& operator<<(char c) {
    text_ += c;
    return *this;
  }
  TextWriter& operator<<(bool value) { return *this << (value ? '1' : '0'); }
  template <std::integral Number>
  TextWriter& operator<<(Number number) {
    char digits[24];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
    return *this;
  }
  std::string str() { return std::move(text_); }

 private:
  std::string text_;
};

/// `addresses` false: blocks are numbered in the order of their allocations instead.
inline std::string text_of(const replay::Analysis& analysis, bool addresses = true) {
  const model::Profile& p = analysis.profile();
  TextWriter out;
  const auto costs = [&](const model::Costs& c) {
    out << c.allocations << ' ' << c.allocated_bytes << ' ' << c.temporary << ' ' << c.temporary_bytes << ' '
        << c.leaked_bytes << ' ' << c.leaked_blocks << ' ' << c.peak_bytes << ' ' << c.peak_blocks << ' '
        << c.live_bytes << ' ' << c.live_blocks << ' ' << c.moved_bytes << ' ' << c.moved_blocks << '\n';
  };
  out << p.recording.program << ' ' << p.recording.duration_ns << '\n';
  out << p.integrity.complete << ' ' << p.integrity.ended_by << ' ' << p.integrity.bytes_damaged << ' '
      << (p.integrity.events_lost ? std::to_string(*p.integrity.events_lost) : "?") << '\n';
  for (const std::string& note : p.integrity.notes) out << "note " << note << '\n';
  const model::HeapTotals& h = p.heap;
  out << "heap " << h.allocations << ' ' << h.allocated_bytes << ' ' << h.frees << ' ' << h.failed << ' '
      << h.peak_bytes << ' ' << h.peak_time_ns << ' ' << h.peak_blocks << ' ' << h.leaked_bytes << ' '
      << h.leaked_blocks << ' ' << h.temporary_allocations << ' ' << h.unmatched_frees << ' ' << h.implied_frees
      << '\n';
  const model::MmapTotals& m = p.mmap;
  out << "mmap " << m.mappings << ' ' << m.mapped_bytes << ' ' << m.reserved_bytes << ' ' << m.from_allocator_bytes
      << ' ' << m.peak_bytes << ' ' << m.peak_time_ns << ' ' << m.live_bytes << '\n';
  costs(p.totals);
  for (const model::Module& module : p.modules)
    out << module.path << ' ' << module.build_id << ' ' << module.loads << '\n';
  for (const model::CallNode& node : p.nodes) {
    out << node.parent << ' ' << node.address << ' ';
    if (node.address != model::kNoIndex)
      out << p.addresses[node.address].module << '+' << p.addresses[node.address].offset << ' ';
    costs(node.costs);
  }
  for (std::uint32_t node = 0; node < p.nodes.size(); ++node) {
    const model::StackTotals whole = p.whole_of(node);
    out << "whole " << whole.allocations << ' ' << whole.allocated_bytes << ' ' << whole.moved_blocks << ' '
        << whole.left_blocks << '\n';
  }
  for (const model::Thread& thread : p.threads)
    out << "thread " << thread.tid << ' ' << thread.name << ' ' << thread.start_ns << ' ' << thread.allocations << ' '
        << thread.allocated_bytes << '\n';
  for (const model::SizeCount& size : p.sizes) out << size.size << ':' << size.allocations << ' ';
  out << '\n';
  for (const model::Timeline::Bucket& b : p.timeline.buckets)
    out << b.start_ns << ' ' << b.min_bytes << ' ' << b.max_bytes << ' ' << b.last_bytes << ' ' << b.last_blocks
        << ' ' << b.allocations << ' ' << b.allocated_bytes << ' ' << b.mapped_bytes << ' ' << b.rss_bytes << '\n';
  for (const auto& mark : p.timeline.marks) out << "mark " << mark.time_ns << ' ' << mark.text << '\n';
  out << p.timeline.samples << ' ' << p.timeline.peak_rss_bytes << '\n';

  std::unordered_map<std::uint64_t, std::uint64_t> numbers;
  std::uint64_t next = 0;
  analysis.for_each_event([&](std::span<const replay::ProfileEvent> events) {
    for (const replay::ProfileEvent& event : events) {
      std::uint64_t address = event.address;
      if (!addresses && event.kind == replay::ResolvedKind::kAllocation) numbers[address] = ++next;
      if (!addresses && event.kind != replay::ResolvedKind::kSample) address = numbers[address];
      out << static_cast<int>(event.kind) << ' ' << event.time_ns << ' ' << address << ' ' << event.size << ' '
          << event.node << ' ' << event.thread << ' ' << event.temporary << event.before_slice << '\n';
    }
  });
  std::vector<std::uint32_t> group_of_node(p.nodes.size());
  for (std::uint32_t node = 0; node < group_of_node.size(); ++node) group_of_node[node] = node % 3;
  for (const auto& group : analysis.live_by_group(group_of_node, 2))
    for (const std::uint64_t bytes : group) out << bytes << ' ';
  return out.str();
}

/// The first line that differs, from both texts; empty: they are equal.
inline std::string first_difference(const std::string& one, const std::string& other) {
  if (one == other) return {};
  std::istringstream a(one), b(other);
  for (std::size_t number = 1;; ++number) {
    std::string x, y;
    const bool has_x = static_cast<bool>(std::getline(a, x));
    const bool has_y = static_cast<bool>(std::getline(b, y));
    if (!has_x && !has_y) return {};
    if (x != y || has_x != has_y) return "line " + std::to_string(number) + "\n  " + x + "\n  " + y + "\n";
  }
}

}  // namespace heapprof::test
