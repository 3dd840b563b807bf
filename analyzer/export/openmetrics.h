// Export of the timeline as OpenMetrics text (openmetrics.io); every value has its time of day.
//
// `promtool tsdb create-blocks-from openmetrics` imports it into Prometheus, from where Grafana can show it. All
// series have the labels `program` and `pid`, so recordings of many processes can be in one database.
#pragma once

#include <string>

#include "analyzer/model/profile.h"
#include "analyzer/render/text_sink.h"
#include "analyzer/render/timeline.h"

namespace heapprof::exporter {

/// Live, mapped and resident memory and allocations are from `profile`, the bytes of call sites from `timeline`,
/// whose samples are the buckets of the profile's timeline.
void write_openmetrics(const model::Profile& profile, const render::Timeline& timeline, const std::string& program,
                       const render::TextSink& out);

}  // namespace heapprof::exporter
