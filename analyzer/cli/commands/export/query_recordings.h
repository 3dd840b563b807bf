// Opens the recordings of `query` and `export sqlite`: messages, progress and exit status, and the end by Ctrl-C.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/cli/options/trace_options.h"
#include "analyzer/cli/query/recordings.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/progress_line.h"

namespace heapprof::cli {

class QueryRecordings {
 public:
  /// `arguments`: traces, and directories with traces. Throws trace::TraceError or OutputError when one cannot be
  /// read.
  QueryRecordings(const std::vector<std::string>& arguments, const TraceOptions& options,
                  const CallSiteOptions& call_sites);
  ~QueryRecordings();
  QueryRecordings(const QueryRecordings&) = delete;
  QueryRecordings& operator=(const QueryRecordings&) = delete;

  Recordings& recordings() noexcept { return *recordings_; }
  /// 1: a recording that was opened is incomplete. (commands.h)
  int status();

  /// Shows how far the reading has come. True: the user has pressed Ctrl-C.
  bool interrupt();

 private:
  std::unique_ptr<replay::Analysis> open(const RecordedProcess& process, const AnalysisRequest& request);
  void report_once(const RecordedProcess& process, const TraceOptions& options, const replay::Analysis& analysis,
                   const std::vector<UnmatchedValue>& unmatched);

  const TraceOptions options_;
  bool several_ = false;
  std::unique_ptr<Recordings> recordings_;
  std::optional<ProgressLine> progress_;
  std::mutex mutex_;  // of the following
  int status_ = 0;
  std::set<std::uint32_t> reported_;
};

}  // namespace heapprof::cli
