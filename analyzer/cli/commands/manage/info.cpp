// heapprof info: what was recorded, and whether the trace is complete.
#include <utility>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/info_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/pins/pinned_tables.h"

namespace heapprof::cli {
namespace {

Json info_document(const replay::Analysis& analysis) {
  Json json = info_json(analysis.profile());
  if (pins::has_addresses(analysis.profile())) return json;
  Json moments = Json::array();
  for (const pins::PinnedMoment& one : pins::pinned_moments(analysis.file())) moments.push_back(one.at_ns);
  json["pinned_at_ns"] = std::move(moments);
  return json;
}

}  // namespace

int run_info(const InfoOptions& given) {
  InfoOptions options = given;
  options.trace.selection.only_overview = true;
  return run_on_trace(options.trace, [&](const replay::Analysis& analysis) {
    if (options.trace.json) return write_output(options.trace.output, dump(info_document(analysis)));
    ReportText text(analysis.profile(), style_for(options.trace.output));
    append_info(text, analysis.profile());
    text.notes({});
    write_output(options.trace.output, text.text());
  });
}

}  // namespace heapprof::cli
