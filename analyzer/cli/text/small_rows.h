// Which rows of a table of call sites are worth a line.
#pragma once

#include "analyzer/cli/text/answer_text.h"

namespace heapprof::cli {

/// Removes rows from the end of the table that have less than a hundredth of what all stacks have. The first row
/// stays, and rows that grow, also with the load: a leak may be small for long.
inline void leave_out_small_rows(SiteRanking& ranking) {
  constexpr std::uint64_t kParts = 100;
  const bool by_blocks = ranks_by_blocks(ranking.cost);
  const std::uint64_t whole = by_blocks ? ranking.total.blocks : ranking.total.bytes;
  while (ranking.rows.size() > 1) {
    const SiteRow& last = ranking.rows.back();
    const std::uint64_t value = by_blocks ? last.site->held.blocks : last.site->held.bytes;
    if (value >= whole / kParts || last.trend == "growing" || last.trend == "with load") return;
    ranking.rows.pop_back();
  }
}

}  // namespace heapprof::cli
