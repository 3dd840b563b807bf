// The options of `leaks` and `check` that say which leaks are accepted, and the split of what was live at the end
// into accepted and not accepted blocks. Both commands use it, so that they agree about every trace.
#pragma once

#include <string>
#include <vector>

#include "analyzer/cli/text/stack_names.h"
#include "analyzer/cli/text/ranking.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/commands/suppressions.h"

namespace CLI {
class App;
}

namespace heapprof::cli {

struct SuppressionOptions {
  std::vector<std::string> files;
  bool built_in = true;
  bool suppress = true;  ///< false: neither the built-in ones nor those of files
};

/// Adds the options to `command`, which keep their values in `options`.
void add_suppression_options(CLI::App& command, SuppressionOptions& options);

/// The suppressions that `options` ask for. Throws OutputError when a file cannot be read.
Suppressions read_suppressions(const SuppressionOptions& options);

/// Sums of suppressed blocks.
struct Suppressed {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  std::vector<Suppressions::Hits> by;  ///< largest first
};

/// Removes from `stacks` (of Cost::kLeaked, resolved in `names`) those that `suppressions` match.
Suppressed suppress(Suppressions& suppressions, const StackNames& names, std::vector<RankedStack>& stacks);

/// Adds "suppressed_bytes", "suppressed_blocks" and "suppressed", which lists both by suppression.
void add_suppressed(Json& json, const Suppressed& suppressed);

}  // namespace heapprof::cli
