// Figures as JSON. The names are a contract with scripts: add to them freely, change none.
//
// Text that came from the recorded program may hold any bytes; what is not UTF-8 is replaced, so that the
// output always parses.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyzer/cli/text/stack_names.h"
#include "analyzer/cli/text/ranking.h"
#include "analyzer/model/profile.h"

namespace heapprof::cli {

using Json = nlohmann::ordered_json;

Json integrity_json(const model::Integrity& integrity);
Json threads_json(const model::Profile& profile);
/// What every command's figures begin with: program, integrity, slice.
Json head_json(const model::Profile& profile);
/// A stack's frames, innermost first.
Json stack_json(const StackNames& names, std::uint32_t node);
Json frame_json(const Frame& frame);
/// What `report` and `leaks` print, but for the stacks of its "top", which write_report() adds. `share` is of the
/// profile's total cost.
Json report_json(const model::Profile& profile, Cost cost, const std::vector<RankedStack>& stacks,
                 const StackNames& names);
/// Of all stacks of an interpreter that is some hundred megabytes of few frames that repeat, so they are written one
/// by one. `shared`: each frame once, in "frames", and the stacks as positions in that. Throws OutputError.
void write_report(const std::string& output, Json report, const std::vector<RankedStack>& stacks,
                  const StackNames& names, bool shared);
Json info_json(const model::Profile& profile);

/// As text with a line feed at the end.
std::string dump(const Json& json);

}  // namespace heapprof::cli
