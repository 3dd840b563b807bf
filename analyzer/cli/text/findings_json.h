// Call sites, keepers and helpers as JSON, for `leaks` and `report` (docs/json.md).
#pragma once

#include <optional>
#include <span>

#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/findings/common_path.h"
#include "analyzer/findings/held.h"
#include "analyzer/findings/helpers.h"
#include "analyzer/findings/keepers.h"
#include "analyzer/model/leak_history.h"

namespace heapprof::cli {

/// An entry of "sites". `total` is what all stacks hold: "share" is the part of its bytes, or of its blocks if
/// `by_blocks`.
Json site_json(const Findings& findings, const findings::CallSite& site, const findings::Held& total, bool by_blocks);

/// Adds the figures of a trend to an entry of "sites" or "top".
void add_trend_figures(Json& entry, const model::LeakTrend& trend);

/// "keepers".
Json keepers_json(const Findings& findings, std::span<const findings::Keeper> keepers, const findings::Held& total);

/// "common_path"; null: there is none.
Json common_path_json(const Findings& findings, const std::optional<findings::CommonPath>& path,
                      const findings::Held& total);

/// "helpers", all of them.
Json helpers_json(const Findings& findings);

}  // namespace heapprof::cli
