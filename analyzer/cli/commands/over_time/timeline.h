// What the two timelines have in common: that of live memory, and that of resident memory.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "analyzer/cli/options/command_options.h"
#include "analyzer/model/profile.h"
#include "analyzer/render/timeline.h"

namespace heapprof::cli {

/// Writes the timeline in the format of the options. `program`: its name; `more`: further keys of JSON. Throws
/// OutputError.
void write_timeline(const TimelineOptions& options, const model::Profile& profile, const std::string& program,
                    const render::Timeline& timeline, const nlohmann::json& more = nullptr);

/// The timeline of several recordings. Returns the exit status.
int run_timeline_of_processes(const TimelineOptions& options);

/// `timeline --resident`. Returns the exit status.
int run_resident_timeline(const TimelineOptions& options);

}  // namespace heapprof::cli
