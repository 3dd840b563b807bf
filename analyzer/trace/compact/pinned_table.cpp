#include "analyzer/trace/compact/pinned_table.h"

#include <algorithm>

namespace heapprof::trace {
namespace {

/// Sums of addresses and sizes stay below this: the user's address space, also with page tables of five levels.
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 57;
constexpr std::size_t kMaxTextBytes = 4096;

/// A number; its sum with those before, in `sum`, must not exceed `max`.
std::uint64_t number_within(ByteReader& in, std::uint64_t& sum, std::uint64_t max) {
  const std::uint64_t value = in.number_up_to(max - sum);
  sum += value;
  return value;
}

/// A number that is greater than `last`: the difference is stored. Below `end`.
std::uint64_t ascending(ByteReader& in, std::uint64_t last, std::uint64_t end) {
  const std::uint64_t difference = in.number();
  if (difference == 0 || difference > end - (last + 1)) throw FormatError("its pinned memory is not in order");
  return last + difference;
}

std::string short_text(ByteReader& in) {
  std::string text = in.text();
  if (text.size() > kMaxTextBytes) throw FormatError("a text is too long");
  return text;
}

}  // namespace

void save(const PinnedTable& table, ByteWriter& out) {
  out.text(table.allocator);
  out.text(table.note.substr(0, kMaxTextBytes));
  out.number(table.returnable_bytes);
  out.number(table.stacks.size());
  std::uint64_t last = ~std::uint64_t{0};
  for (const PinnedTable::Stack& stack : table.stacks) {
    out.number(stack.node - last);
    out.number(stack.requested_bytes);
    out.number(stack.usable_bytes);
    out.number(stack.blocks);
    last = stack.node;
  }
  out.number(table.sets.size());
  for (const PinnedTable::Set& set : table.sets) {
    out.number(set.count);
    out.number(set.pages);
    last = ~std::uint64_t{0};
    for (std::size_t i = set.first; i < set.first + set.count; ++i) {
      out.number(table.members[i] - last);
      last = table.members[i];
    }
  }
}

PinnedTable load_pinned_table(ByteReader& in, std::uint32_t node_count, std::uint64_t payload_bytes) {
  PinnedTable table;
  table.allocator = short_text(in);
  table.note = short_text(in);
  table.returnable_bytes = in.number_up_to(kMaxBytes);
  const std::size_t stacks = in.count();
  std::uint64_t last = ~std::uint64_t{0};
  std::uint64_t requested = 0, usable = 0, blocks = 0, pages = 0;
  for (std::size_t i = 0; i < stacks; ++i) {
    PinnedTable::Stack stack;
    last = ascending(in, last, node_count);
    stack.node = static_cast<std::uint32_t>(last);
    stack.requested_bytes = number_within(in, requested, kMaxBytes);
    stack.usable_bytes = number_within(in, usable, kMaxBytes);
    stack.blocks = number_within(in, blocks, kMaxBytes);
    table.stacks.push_back(stack);
  }
  const std::size_t sets = in.count();
  if (sets > max_pinned_sets(payload_bytes)) throw FormatError("it has more sets of stacks than the limit");
  for (std::size_t i = 0; i < sets; ++i) {
    PinnedTable::Set set;
    set.count = in.count();
    set.first = table.members.size();
    if (set.count == 0) throw FormatError("a set of stacks is empty");
    if (set.first + set.count > max_pinned_members(payload_bytes))
      throw FormatError("its sets of stacks have more members than the limit");
    set.pages = number_within(in, pages, kMaxBytes / kPinnedPageBytes);
    last = ~std::uint64_t{0};
    for (std::size_t member = 0; member < set.count; ++member) {
      last = ascending(in, last, stacks);
      table.members.push_back(static_cast<std::uint32_t>(last));
    }
    table.sets.push_back(set);
  }
  in.expect_end();
  return table;
}

}  // namespace heapprof::trace
