#include "analyzer/cli/text/figures.h"

#include <stdexcept>

namespace heapprof::cli {
namespace {

constexpr Figure kFigures[] = {
    {"peak", "peak_bytes", true, &model::Costs::peak_bytes},
    {"peak-blocks", "peak_blocks", false, &model::Costs::peak_blocks},
    {"leaked", "leaked_bytes", true, &model::Costs::leaked_bytes},
    {"leaked-blocks", "leaked_blocks", false, &model::Costs::leaked_blocks},
    {"allocated", "allocated_bytes", true, &model::Costs::allocated_bytes},
    {"allocations", "allocations", false, &model::Costs::allocations},
    {"temporary-bytes", "temporary_bytes", true, &model::Costs::temporary_bytes},
    {"temporary", "temporary_allocations", false, &model::Costs::temporary},
    {"live", "live_bytes", true, &model::Costs::live_bytes},
    {"live-blocks", "live_blocks", false, &model::Costs::live_blocks},
};
constexpr std::size_t kPeak = 0, kLeaked = 2, kAllocated = 4, kAllocations = 5, kTemporaryBytes = 6, kTemporary = 7,
                      kLive = 8;

}  // namespace

std::span<const Figure> all_figures() noexcept { return kFigures; }

const Figure& figure_of(Cost cost) noexcept {
  switch (cost) {
    case Cost::kPeak: break;
    case Cost::kLeaked: return kFigures[kLeaked];
    case Cost::kAllocated: return kFigures[kAllocated];
    case Cost::kAllocations: return kFigures[kAllocations];
    case Cost::kTemporary: return kFigures[kTemporary];
    case Cost::kLive: return kFigures[kLive];
  }
  return kFigures[kPeak];
}

const Figure& figure_beside(Cost cost) noexcept {
  switch (cost) {
    case Cost::kPeak: break;
    case Cost::kLeaked: return kFigures[kLeaked + 1];
    case Cost::kAllocated: return kFigures[kAllocations];
    case Cost::kAllocations: return kFigures[kAllocated];
    case Cost::kTemporary: return kFigures[kTemporaryBytes];
    case Cost::kLive: return kFigures[kLive + 1];
  }
  return kFigures[kPeak + 1];
}

RowColumn column_named(const std::string& name, Cost cost, const char* option) {
  if (name == "self") return {&figure_of(cost), false};
  if (name == "total") return {&figure_of(cost), true};
  std::string all;
  for (const Figure& figure : kFigures) {
    if (name == figure.name) return {&figure, false};
    if (name == std::string("total-") + figure.name) return {&figure, true};
    all += std::string(", ") + figure.name;
  }
  throw std::invalid_argument("invalid value '" + name + "' for " + option + "; expected self, total" + all +
                              ", total- before one of these, or in --columns over-time");
}

std::vector<std::string> column_names() {
  std::vector<std::string> names = {"self", "total"};
  for (const Figure& figure : kFigures) {
    names.emplace_back(figure.name);
    names.push_back(std::string("total-") + figure.name);
  }
  return names;
}

Json figures_json(const model::Costs& costs) {
  Json json;
  for (const Figure& figure : kFigures) json[figure.key] = figure.of(costs);
  return json;
}

}  // namespace heapprof::cli
