// report of several recordings: which process started which, what each of them used, and what all of them cost
// together.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/cli/options/command_options.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/text_page.h"
#include "analyzer/model/profile.h"

namespace heapprof::cli {

/// What one recording of several says about its process.
struct ProcessFigures {
  std::string trace;  ///< path
  std::string program;
  std::string command;  ///< quoted for a shell, clean
  std::string end;      ///< "exited with status 0"; clean
  bool ended_well = true;
  std::uint32_t pid = 0;
  std::uint32_t parent_pid = 0;
  std::uint64_t start_ns = 0;  ///< since the first recording began
  std::uint64_t end_ns = 0;    ///< likewise
  std::uint64_t events = 0;
  std::uint64_t peak_bytes = 0;  ///< of the heap
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t leaked_bytes = 0;
  bool complete = true;
  std::string began;  ///< "forked", "started", "executed", or "root"
  int from = -1;      ///< position of the process that it comes from; -1: it is not recorded
  std::size_t depth = 0;
};

/// Several recordings in one profile, whose costs of peak are those at each recording's own peak.
struct MergedRecordings {
  struct Program {
    std::string name;                                       ///< base name
    std::unordered_map<std::uint32_t, model::Costs> costs;  ///< by node of `profile`; only those that are not empty
    model::Costs totals;
  };
  model::Profile profile;
  std::vector<ProcessFigures> processes;  ///< each after the one that it comes from
  std::vector<Program> programs;
  std::string named_as;    ///< the directory, or "3 recordings"
  std::size_t unread = 0;  ///< recordings that could not be read
};

/// Preconditions: options.traces is not empty, and options.rows.by has a value. Returns the exit status (commands.h).
int run_report_of_processes(const ReportOptions& options);

/// The processes: a tree, by start.
void write_processes(TextPage& text, const MergedRecordings& recordings, bool all);
Json processes_json(const MergedRecordings& recordings);

}  // namespace heapprof::cli
