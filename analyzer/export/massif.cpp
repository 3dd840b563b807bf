#include "analyzer/export/massif.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heapprof::exporter {
namespace {

constexpr std::size_t kMaxSnapshots = 100;  // massif's default
constexpr std::size_t kDetailedEvery = 10;  // every tenth snapshot has a tree: massif's default
constexpr std::uint64_t kThreshold = 100;   // 1/100: massif's default
constexpr std::size_t kMaxDepth = 200;      // both readers are recursive

/// ms_print reads `#` as the start of a comment, so U+FF03 replaces it.
std::string without_hash_signs(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '#') out += "\xef\xbc\x83";
    else out += c;
  }
  return out;
}

/// The live bytes of a stack at one moment, more than 0.
struct LiveStack {
  std::uint32_t node;
  std::uint64_t bytes;
};
using Composition = std::vector<LiveStack>;

class TreeWriter {
 public:
  TreeWriter(const StackTable& table, const Composition& composition, Sink& output) : table_(table), output_(output) {
    for (const LiveStack& stack : composition) {
      stacks_.push_back({stack.node, 0, stack.bytes});
      total_ += stack.bytes;
    }
    min_bytes_ = std::max<std::uint64_t>(total_ / kThreshold, 1);
  }

  void write() { write_node(stacks_, "(heap allocation functions) malloc/new/new[], --alloc-fns, etc.", 0); }

 private:
  /// A stack and its next frame: line `line` of the location of `node`.
  struct Cursor {
    std::uint32_t node;
    std::uint32_t line;
    std::uint64_t bytes;
  };
  using Group = std::vector<Cursor>;

  std::uint64_t frame_of(Cursor& cursor) const {
    const auto& parents = table_.profile->nodes;
    while (cursor.node != 0 && table_.location_of_node[cursor.node] == model::kNoIndex)
      cursor.node = parents[cursor.node].parent;
    const std::uint32_t location = table_.location_of_node[cursor.node];
    return std::uint64_t{location} << 32 | cursor.line;
  }
  /// Moves to the caller. False: the frame was the outermost.
  bool step(Cursor& cursor) const {
    const StackTable::Location& location = table_.locations[table_.location_of_node[cursor.node]];
    if (++cursor.line < location.lines.size()) return true;
    cursor.line = 0;
    cursor.node = table_.profile->nodes[cursor.node].parent;
    return cursor.node != 0;
  }

  void write_node(Group& stacks, const std::string& label, std::size_t depth) {
    std::map<std::uint64_t, Group> by_frame;
    std::uint64_t bytes = ended_;
    ended_ = 0;
    for (Cursor& cursor : stacks) {
      bytes += cursor.bytes;
      if (depth < kMaxDepth) by_frame[frame_of(cursor)].push_back(cursor);
    }
    Group().swap(stacks);  // else each level of the tree would keep a copy

    struct Child {
      std::uint64_t frame;
      std::uint64_t bytes;
    };
    std::vector<Child> children;
    std::uint64_t small_bytes = 0;
    std::size_t small = 0;
    for (const auto& [frame, group] : by_frame) {
      std::uint64_t sum = 0;
      for (const Cursor& cursor : group) sum += cursor.bytes;
      if (sum >= min_bytes_) {
        children.push_back({frame, sum});
      } else {
        small_bytes += sum;
        ++small;
      }
    }
    std::stable_sort(children.begin(), children.end(),
                     [](const Child& a, const Child& b) { return a.bytes > b.bytes; });
    const std::string indent(depth, ' ');
    output_.write(indent + "n" + std::to_string(children.size() + (small != 0)) + ": " + std::to_string(bytes) + " " +
                  label + "\n");
    for (const Child& child : children) {
      Group group = std::move(by_frame[child.frame]);
      const std::string name = label_of(child.frame);
      for (auto cursor = group.begin(); cursor != group.end();) {
        if (step(*cursor)) {
          ++cursor;
          continue;
        }
        ended_ += cursor->bytes;
        cursor = group.erase(cursor);
      }
      write_node(group, name, depth + 1);
    }
    if (small != 0)
      output_.write(indent + " n0: " + std::to_string(small_bytes) + " in " + std::to_string(small) +
                    (small == 1 ? " place" : " places") + ", all below massif's threshold (1.00%)\n");
  }

  std::string label_of(std::uint64_t frame) const {
    return without_hash_signs(
        frame_label(table_, static_cast<std::uint32_t>(frame >> 32), static_cast<std::uint32_t>(frame)));
  }

  const StackTable& table_;
  Sink& output_;
  Group stacks_;
  std::uint64_t total_ = 0;
  std::uint64_t min_bytes_ = 1;
  std::uint64_t ended_ = 0;  // bytes of the stacks that end at the next node
};

struct Snapshot {
  std::uint64_t time_ns;
  std::uint64_t bytes;
  const char* kind;
  Composition tree;  // of the kinds "detailed" and "peak"
};

std::vector<Snapshot> snapshots_of(const StackTable& table) {
  const model::Profile& profile = *table.profile;
  std::vector<Snapshot> snapshots{{0, 0, "empty", {}}};
  const std::vector<model::Timeline::Bucket>& buckets = profile.timeline.buckets;
  const std::size_t step = buckets.size() / (kMaxSnapshots - 3) + 1;
  // Blocks from before a slice have stacks that its profile does not have.
  const bool trees = profile.begin_ns() == 0;
  for (std::size_t i = step; i < buckets.size(); i += step)
    snapshots.push_back({buckets[i].start_ns,
                         buckets[i - 1].last_bytes,
                         trees && i / step % kDetailedEvery == 0 ? "detailed" : "empty",
                         {}});
  return snapshots;
}

/// Fills the trees, and sets the bytes of their snapshots to the sums of the trees.
void compose(const EventSource& source, std::size_t nodes, std::vector<Snapshot>& snapshots) {
  std::vector<std::uint64_t> live(nodes, 0);
  auto next = snapshots.begin();
  const auto take = [&] {
    if (std::string_view(next->kind) != "empty") {
      next->bytes = 0;
      for (std::uint32_t node = 0; node < live.size(); ++node) {
        if (live[node] == 0) continue;
        next->tree.push_back({node, live[node]});
        next->bytes += live[node];
      }
    }
    ++next;
  };
  source([&](std::span<const replay::ProfileEvent> events) {
    for (const replay::ProfileEvent& event : events) {
      while (next != snapshots.end() && event.time_ns >= next->time_ns) take();
      if (event.kind == replay::ResolvedKind::kAllocation) live[event.node] += event.size;
      else if (event.kind == replay::ResolvedKind::kFree) live[event.node] -= event.size;
    }
  });
  while (next != snapshots.end()) take();
}

/// Adds the peak and the end, whose trees the profile has.
void add_peak_and_end(const StackTable& table, std::vector<Snapshot>& snapshots) {
  const model::Profile& profile = *table.profile;
  const auto composition = [&](std::uint64_t model::Costs::*figure) {
    Composition tree;
    for (const std::uint32_t node : table.stacks)
      if (profile.nodes[node].costs.*figure != 0) tree.push_back({node, profile.nodes[node].costs.*figure});
    return tree;
  };
  Snapshot peak{profile.peak_time_ns, profile.totals.peak_bytes, "peak", composition(&model::Costs::peak_bytes)};
  const auto at = std::upper_bound(snapshots.begin(), snapshots.end(), peak,
                                   [](const Snapshot& a, const Snapshot& b) { return a.time_ns < b.time_ns; });
  snapshots.insert(at, std::move(peak));
  snapshots.push_back({std::max(profile.end_ns(), snapshots.back().time_ns), profile.totals.leaked_bytes, "detailed",
                       composition(&model::Costs::leaked_bytes)});
}

}  // namespace

void write_massif(const StackTable& table, const EventSource& source, Sink& output) {
  std::vector<Snapshot> snapshots = snapshots_of(table);
  const auto has_tree = [](const Snapshot& snapshot) { return std::string_view(snapshot.kind) != "empty"; };
  if (std::any_of(snapshots.begin(), snapshots.end(), has_tree))
    compose(source, table.profile->nodes.size(), snapshots);
  add_peak_and_end(table, snapshots);
  output.write("desc: heapprof\ncmd: " + without_hash_signs(table.command) + "\ntime_unit: ms\n");
  std::size_t number = 0;
  char time[32];
  for (const Snapshot& snapshot : snapshots) {
    std::snprintf(time, sizeof time, "%" PRIu64 ".%06" PRIu64, snapshot.time_ns / 1'000'000,
                  snapshot.time_ns % 1'000'000);
    output.write("#-----------\nsnapshot=" + std::to_string(number++) + "\n#-----------\ntime=" + time +
                 "\nmem_heap_B=" + std::to_string(snapshot.bytes) +
                 "\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=" + snapshot.kind + "\n");
    if (has_tree(snapshot)) TreeWriter(table, snapshot.tree, output).write();
  }
}

}  // namespace heapprof::exporter
