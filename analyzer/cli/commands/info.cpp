// heapprof info: what was recorded, and whether the trace is complete.
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/run_on_trace.h"
#include "analyzer/cli/text/info_text.h"
#include "analyzer/cli/text/report_json.h"

namespace heapprof::cli {

int run_info(const InfoOptions& options) {
  return run_on_trace(options.trace, [&](const replay::Analysis& analysis) {
    if (options.trace.json) return write_output(options.trace.output, dump(info_json(analysis.profile())));
    ReportText text(analysis.profile(), style_for(options.trace.output));
    append_info(text, analysis.profile());
    text.notes({});
    write_output(options.trace.output, text.text());
  });
}

}  // namespace heapprof::cli
