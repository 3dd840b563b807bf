// heapprof histogram: allocation sizes and lifetimes of blocks.
#include <array>
#include <bit>
#include <map>
#include <span>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/second_pass.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/report_text.h"
#include "analyzer/model/lifetimes.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {
namespace {

using render::exact_number;
using render::human_bytes;
using render::percent;

/// Allocations of `from` to `to` bytes.
struct SizeClass {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;
};

/// The number of the class: 0, 1, 2, 3 to 4, 5 to 8, ...
unsigned class_of_size(std::uint64_t size) noexcept {
  return size == 0 ? 0 : static_cast<unsigned>(std::bit_width(size - 1)) + 1;
}
constexpr unsigned kSizeClasses = 66;

SizeClass empty_class(unsigned number) noexcept {
  SizeClass sizes;
  sizes.to = number == 0 ? 0 : std::uint64_t{1} << (number - 1);
  sizes.from = number <= 1 ? sizes.to : (sizes.to >> 1) + 1;
  return sizes;
}

/// By powers of two, with the empty classes in between. `exact` becomes false if the
/// profile counts some sizes by power of two only; their bytes are then counted as the largest of the class.
std::vector<SizeClass> size_classes(const model::Profile& profile, bool& exact) {
  std::map<unsigned, SizeClass> classes;
  exact = true;
  for (const model::SizeCount& count : profile.sizes) {
    SizeClass& sums = classes[class_of_size(count.size)];
    sums.allocations += count.allocations;
    sums.bytes += count.allocations * count.size;
    exact &= count.exact;
  }
  std::vector<SizeClass> result;
  if (classes.empty()) return result;
  for (unsigned number = classes.begin()->first; number <= classes.rbegin()->first; ++number) {
    SizeClass sums = empty_class(number);
    sums.allocations = classes[number].allocations;
    sums.bytes = classes[number].bytes;
    result.push_back(sums);
  }
  return result;
}

/// Blocks by size and lifetime, for a heat map.
class Cells {
 public:
  static constexpr std::size_t kNotFreed = model::Lifetimes::kClasses;

  void add(std::uint64_t size, std::size_t lifetime) noexcept {
    Cell& cell = cells_[class_of_size(size)][lifetime];
    ++cell.blocks;
    cell.bytes += size;
  }
  /// Those that have blocks.
  Json json(const model::Lifetimes& lifetimes) const {
    Json list = Json::array();
    for (unsigned number = 0; number < kSizeClasses; ++number) {
      const SizeClass sizes = empty_class(number);
      for (std::size_t lifetime = 0; lifetime <= kNotFreed; ++lifetime) {
        const Cell& cell = cells_[number][lifetime];
        if (cell.blocks == 0) continue;
        Json from_ns, below_ns;  // null
        if (lifetime != kNotFreed) {
          from_ns = lifetime == 0 ? 0 : lifetimes.classes()[lifetime - 1].below_ns;
          if (lifetime + 1 != kNotFreed) below_ns = lifetimes.classes()[lifetime].below_ns;
        }
        list.push_back({{"from_bytes", sizes.from},
                        {"to_bytes", sizes.to},
                        {"from_ns", from_ns},
                        {"below_ns", below_ns},
                        {"blocks", cell.blocks},
                        {"bytes", cell.bytes}});
      }
    }
    return list;
  }

 private:
  struct Cell {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
  };
  std::array<std::array<Cell, kNotFreed + 1>, kSizeClasses> cells_{};
};

/// The smallest size that `share` of all allocations do not exceed: 0.5 is the median.
std::uint64_t quantile(const model::Profile& profile, double share) {
  const double wanted = static_cast<double>(profile.heap.allocations) * share;
  std::uint64_t seen = 0;
  for (const model::SizeCount& count : profile.sizes) {
    seen += count.allocations;
    if (static_cast<double>(seen) >= wanted) return count.size;
  }
  return 0;
}

std::string range_of(const SizeClass& sizes) {
  return sizes.from == sizes.to ? human_bytes(sizes.to) : human_bytes(sizes.from) + " to " + human_bytes(sizes.to);
}

/// Prints a limit between classes, which is a power of ten and so needs no decimals.
std::string round_time(std::uint64_t ns) {
  if (ns >= 1'000'000'000) return std::to_string(ns / 1'000'000'000) + " s";
  if (ns >= 1'000'000) return std::to_string(ns / 1'000'000) + " ms";
  return std::to_string(ns / 1'000) + " µs";
}

struct HistogramSums {
  model::Lifetimes lifetimes;
  Cells cells;
  void add(const replay::ProfileEvent& event) noexcept {
    if (event.kind != replay::ResolvedKind::kFree) return;
    cells.add(event.size, lifetimes.freed(lifetime_of(event), event.size));
  }
  void add_left(const replay::LiveBlock& block) noexcept {
    cells.add(block.size, Cells::kNotFreed);
    lifetimes.left(block.size);
  }
};

void print_histogram(const TraceOptions& options, const replay::Analysis& analysis, const HistogramSums& sums) {
  const model::Profile& profile = analysis.profile();
  const model::Lifetimes& lifetimes = sums.lifetimes;
  bool exact = true;
  const std::vector<SizeClass> sizes = size_classes(profile, exact);
  std::uint64_t freed = 0;
  std::uint64_t freed_bytes = 0;
  for (const model::Lifetimes::Class& lives : lifetimes.classes()) {
    freed += lives.blocks;
    freed_bytes += lives.bytes;
  }
  if (options.json) {
    Json json = head_json(profile);
    json["allocations"] = profile.heap.allocations;
    json["allocated_bytes"] = profile.heap.allocated_bytes;
    json["sizes_exact"] = exact;
    Json& list = json["sizes"] = Json::array();
    for (const SizeClass& size : sizes)
      list.push_back({{"from_bytes", size.from},
                      {"to_bytes", size.to},
                      {"allocations", size.allocations},
                      {"bytes", size.bytes}});
    Json& common = json["common_sizes"] = Json::array();
    for (const model::SizeCount& count : profile.sizes)
      if (count.exact) common.push_back({{"size", count.size}, {"allocations", count.allocations}});
    Json& lives_json = json["lifetimes"] = Json::array();
    std::uint64_t from_ns = 0;
    for (const model::Lifetimes::Class& lives : lifetimes.classes()) {
      lives_json.push_back({{"from_ns", from_ns},
                            {"below_ns", lives.below_ns == 0 ? Json(nullptr) : Json(lives.below_ns)},
                            {"blocks", lives.blocks},
                            {"bytes", lives.bytes}});
      from_ns = lives.below_ns;
    }
    set_renamed(json, "not_freed", "not_released",
                {{"blocks", lifetimes.left().blocks}, {"bytes", lifetimes.left().bytes}});
    json["cells"] = sums.cells.json(lifetimes);
    return write_output(options.output, dump(json));
  }

  const TextStyle style = style_for(options.output);
  const std::size_t bar_columns = style.width < 90 ? 16 : 24;
  ReportText text(profile, style);
  text.title().line();
  const std::string at_most = exact ? "" : "<= ";
  text.row("median", at_most + human_bytes(quantile(profile, 0.5)), "half of all allocations are no larger");
  text.row("p99", at_most + human_bytes(quantile(profile, 0.99)), "99% of all allocations are no larger");
  text.row("mean",
           human_bytes(profile.heap.allocations == 0 ? 0 : profile.heap.allocated_bytes / profile.heap.allocations));
  text.heading("Allocation sizes");
  std::uint64_t largest = 0;
  for (const SizeClass& size : sizes) largest = std::max(largest, size.allocations);
  std::vector<std::vector<std::string>> rows;
  for (const SizeClass& size : sizes)
    rows.push_back({range_of(size), exact_number(size.allocations),
                    percent(size.allocations, profile.heap.allocations), human_bytes(size.bytes),
                    percent(size.bytes, profile.heap.allocated_bytes),
                    text.bar(size.allocations, largest, bar_columns)});
  text.table({"size", "allocations", "", "bytes", "", ""}, rows);
  if (!exact) text.paragraph("(too many different sizes: the largest are counted by power of two)");

  text.heading("Lifetimes of blocks");
  largest = lifetimes.left().blocks;
  for (const model::Lifetimes::Class& lives : lifetimes.classes()) largest = std::max(largest, lives.blocks);
  rows.clear();
  const std::uint64_t blocks = freed + lifetimes.left().blocks;
  const std::uint64_t bytes = freed_bytes + lifetimes.left().bytes;
  const auto add = [&](const std::string& label, const model::Lifetimes::Class& lives) {
    rows.push_back({label, exact_number(lives.blocks), percent(lives.blocks, blocks), human_bytes(lives.bytes),
                    percent(lives.bytes, bytes), text.bar(lives.blocks, largest, bar_columns)});
  };
  std::string before;
  std::size_t shown = lifetimes.classes().size();
  while (shown > 1 && lifetimes.classes()[shown - 1].blocks == 0) --shown;
  for (const model::Lifetimes::Class& lives : std::span(lifetimes.classes()).first(shown)) {
    const std::string limit = lives.below_ns == 0 ? "" : round_time(lives.below_ns);
    add(before.empty() ? "below " + limit : limit.empty() ? before + " or more" : before + " to " + limit, lives);
    before = limit;
  }
  add("not freed", lifetimes.left());
  text.table({"lifetime", "blocks", "", "bytes", "", ""}, rows);
  if (profile.threads.size() == 1)
    text.paragraph("(lifetimes are approximate: only some events of a single-threaded program are timestamped)");
  text.notes({});
  write_output(options.output, text.text());
}

}  // namespace

std::unique_ptr<FollowedSums> new_histogram_sums() {
  return std::make_unique<FollowedSumsOf<HistogramSums>>(HistogramSums{});
}

int run_histogram(const HistogramOptions& options) {
  return run_with_events<HistogramSums>(
      options.trace, {},
      [&](const replay::Analysis& analysis, HistogramSums& sums) { print_histogram(options.trace, analysis, sums); });
}

}  // namespace heapprof::cli
