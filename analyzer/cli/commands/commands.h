// The commands of `heapprof`: each runs with its options and returns the exit status. They are in a directory for
// each heading of `heapprof --help`; shared/ has what several of these use. Those under "Help" are in cli/help/.
//
//   0  success
//   1  the trace could not be read, or is incomplete and was printed as far as possible; or writing the output failed
//   2  the options contradict the trace: --from is after its end, for example
//   3  `check` only: a limit was exceeded
#pragma once

#include "analyzer/cli/options/command_options.h"

namespace heapprof::cli {

// record/
/// Returns the exit status of the program, or 2, 125, 126 or 127.
int run_record(const RecordOptions& options);
int run_recorder_path(const RecorderPathOptions& options);
int run_control(const ControlOptions& options);
int run_install_secure(const InstallSecureOptions& options);

// where_memory_went/
int run_report(const ReportOptions& options);
int run_tree(const TreeOptions& options);
int run_callers(const CallersOptions& options);
int run_blocks(const BlocksOptions& options);
int run_source(const SourceOptions& options);
int run_flamegraph(const FlamegraphOptions& options);
int run_pins(const PinsOptions& options);
int run_rss(const RssOptions& options);
int run_histogram(const HistogramOptions& options);
int run_churn(const ChurnOptions& options);
int run_reallocs(const ReallocsOptions& options);
int run_threads(const ThreadsOptions& options);
int run_frees(const FreesOptions& options);

// leaks/
int run_leaks(const LeaksOptions& options);

// over_time/
int run_top(const TopOptions& options);
int run_timeline(const TimelineOptions& options);

// browser/
int run_serve(const ServeOptions& options);
int run_html(const HtmlOptions& options);

// compare/
int run_diff(const DiffOptions& options);
int run_check(const CheckOptions& options);

// export/
int run_export(const ExportOptions& options);
/// Returns 130 when Ctrl-C ended it.
int run_query(const QueryOptions& options);
/// Returns 1 when something was not delivered.
int run_push(const PushOptions& options);

// manage/
int run_info(const InfoOptions& options);
int run_bundle(const BundleOptions& options);
int run_compact(const CompactOptions& options);
int run_index(const IndexOptions& options);

}  // namespace heapprof::cli
