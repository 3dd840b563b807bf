#include "analyzer/cli/commands/compare/diff_processes.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "analyzer/base/base_name.h"
#include "analyzer/cli/commands/compare/diff_moments.h"
#include "analyzer/cli/text/processes_text.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/processes/process_pairs.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using model::ProcessFigures;
using model::Together;

struct Change {
  const ProcessFigures* before;  ///< null: only after
  const ProcessFigures* after;   ///< null: only before

  const ProcessFigures& any() const { return after != nullptr ? *after : *before; }
  std::int64_t of(std::uint64_t ProcessFigures::*figure) const {
    return static_cast<std::int64_t>((after == nullptr ? 0 : after->*figure) -
                                     (before == nullptr ? 0 : before->*figure));
  }
};

std::vector<Change> changes_of(const Together& before, const Together& after) {
  std::vector<Change> changes;
  for (const processes::ProcessPair& pair : processes::process_pairs(before.processes, after.processes))
    changes.push_back({pair.before ? &before.processes[*pair.before] : nullptr,
                       pair.after ? &after.processes[*pair.after] : nullptr});
  return changes;
}

Json figures_json(const ProcessFigures* process) {
  if (process == nullptr) return nullptr;
  return {{"pid", process->pid},
          {"peak_bytes", process->peak_bytes},
          {"leaked_bytes", process->leaked_bytes},
          {"events", process->events},
          {"trace", process->trace}};
}

}  // namespace

void write_process_changes(TextPage& text, const Together& before, const Together& after, std::size_t top) {
  std::vector<Change> changes = changes_of(before, after);
  std::size_t only_before = 0, only_after = 0;
  for (const Change& change : changes) {
    only_before += change.after == nullptr;
    only_after += change.before == nullptr;
  }
  std::erase_if(changes, [](const Change& change) {
    return change.of(&ProcessFigures::peak_bytes) == 0 && change.of(&ProcessFigures::leaked_bytes) == 0;
  });
  std::ranges::stable_sort(changes, std::ranges::greater(), [](const Change& change) {
    return std::pair(std::llabs(change.of(&ProcessFigures::peak_bytes)),
                     std::llabs(change.of(&ProcessFigures::leaked_bytes)));
  });
  const std::size_t shown = top == 0 ? changes.size() : std::min(top, changes.size());
  text.heading("Processes by change in peak (" + std::to_string(shown) + " of " +
               render::exact_number(changes.size()) + " changed ones)");
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < shown; ++i) {
    const Change& change = changes[i];
    const std::int64_t peak = change.of(&ProcessFigures::peak_bytes);
    const auto bytes = [](const ProcessFigures* process) {
      return process == nullptr ? std::string("-") : render::human_bytes(process->peak_bytes);
    };
    rows.push_back({{bytes(change.before)},
                    {bytes(change.after)},
                    {signed_bytes(peak), peak > 0 ? TextColour::kMore : TextColour::kLess},
                    {signed_bytes(change.of(&ProcessFigures::leaked_bytes))},
                    {short_command(change.any())}});
  }
  if (rows.empty()) text.line("  none");
  else
    write_columns(text,
                  {{"before", Column::Kind::kFigure, 2},
                   {"after", Column::Kind::kFigure, 1},
                   {"peak"},
                   {"leaked", Column::Kind::kFigure, 3},
                   {"process", Column::Kind::kText}},
                  rows);
  const auto only = [&](std::size_t count, const char* when) {
    if (count != 0)
      text.line("  " + render::exact_number(count) + (count == 1 ? " process is" : " processes are") + " only " +
                when);
  };
  only(only_before, "before");
  only(only_after, "after");
}

Json process_changes_json(const Together& before, const Together& after) {
  Json list = Json::array();
  for (const Change& change : changes_of(before, after))
    list.push_back({{"program", render::clean_utf8(base_name(change.any().program))},
                    {"command", change.any().command},
                    {"before", figures_json(change.before)},
                    {"after", figures_json(change.after)}});
  return list;
}

}  // namespace heapprof::cli
