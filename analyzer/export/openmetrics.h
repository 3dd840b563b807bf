// The timeline for those who graph: OpenMetrics text (openmetrics.io), with the time of day of every value.
//
// `promtool tsdb create-blocks-from openmetrics` takes it into Prometheus, and from there into Grafana. All series
// carry `program` and `pid`, so recordings of a fleet go into one database.
#pragma once

#include <string>

#include "analyzer/model/profile.h"
#include "analyzer/render/text.h"
#include "analyzer/render/timeline.h"

namespace heapprof::exporter {

/// Live, mapped and resident memory and allocations from `profile`, the sites' shares from `timeline`, whose samples
/// are the buckets of the profile's.
void write_openmetrics(const model::Profile& profile, const render::Timeline& timeline, const std::string& program,
                       const render::TextSink& out);

}  // namespace heapprof::exporter
