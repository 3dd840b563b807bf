// The text of `heapprof leaks`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/cli/commands/leaks/leak_classes.h"
#include "analyzer/cli/commands/leaks/leak_histories.h"
#include "analyzer/cli/commands/leaks/suppressed_leaks.h"
#include "analyzer/cli/options/command_options.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/findings/common_path.h"
#include "analyzer/findings/held.h"
#include "analyzer/findings/keepers.h"
#include "analyzer/model/profile.h"

namespace heapprof::cli {

struct LeaksAnswer {
  const model::Profile& profile;
  const StackNames& names;
  const Findings& findings;
  const findings::HeldByNode& held;  ///< what is live at the end and not suppressed
  std::vector<LeakingSite> sites;    ///< in the order of their rank
  std::vector<findings::Keeper> keepers;
  std::optional<findings::CommonPath> path;
  const Suppressed& suppressed;
  const LeakHistories* histories = nullptr;  ///< null: the trace was read only once
};

std::string leaks_text(const LeaksOptions& options, const LeaksAnswer& answer);

}  // namespace heapprof::cli
