// What the two timelines have in common: that of live memory, and that of resident memory.
#pragma once

#include <string>

#include "analyzer/cli/options/command_options.h"
#include "analyzer/model/profile.h"
#include "analyzer/render/timeline.h"

namespace heapprof::cli {

/// Writes the timeline in the format of the options. `program`: its name. Throws OutputError.
void write_timeline(const TimelineOptions& options, const model::Profile& profile, const std::string& program,
                    const render::Timeline& timeline);

/// `timeline --resident`. Returns the exit status.
int run_resident_timeline(const TimelineOptions& options);

}  // namespace heapprof::cli
