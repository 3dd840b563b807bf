// A table of `top` as JSON (docs/json.md).
#pragma once

#include <string>
#include <vector>

#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/top/top_model.h"

namespace heapprof::cli {

Json top_json(const TopTable& table, const std::vector<std::string>& symbol_warnings);

}  // namespace heapprof::cli
