// Separates the leaks that suppressions accept from the others. `leaks` and `check` both use it, so that they agree
// about every trace.
#pragma once

#include <string>
#include <vector>

#include "analyzer/cli/commands/leaks/suppressions.h"
#include "analyzer/cli/options/trace_options.h"
#include "analyzer/cli/text/ranking.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/stack_names.h"

namespace heapprof::cli {

/// Reads the suppressions that `options` select. Throws OutputError when a file cannot be read.
Suppressions read_suppressions(const SuppressionOptions& options);

/// Sums of suppressed blocks.
struct Suppressed {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  std::vector<Suppressions::Hits> by;  ///< largest first
  std::vector<std::string> unmatched;  ///< rules that suppress nothing
};

/// Removes from `stacks` (of Cost::kLeaked, resolved in `names`) those that `suppressions` match.
Suppressed suppress(Suppressions& suppressions, const StackNames& names, std::vector<RankedStack>& stacks);

/// Prints which rules suppress nothing. Of a part of a recording nobody can say.
void report_unmatched_rules(const std::string& trace, const model::Profile& profile, const Suppressed& suppressed);

/// Adds "suppressed_bytes", "suppressed_blocks" and "suppressed", which lists both by suppression.
void add_suppressed(Json& json, const Suppressed& suppressed);

}  // namespace heapprof::cli
