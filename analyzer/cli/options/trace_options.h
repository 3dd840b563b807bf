// The options that all commands which read a trace have in common.
#pragma once

#include <string>
#include <vector>

#include "analyzer/cli/options/selection.h"
#include "analyzer/replay/selection.h"
#include "analyzer/symbols/symbolizer.h"

namespace heapprof::cli {

struct TraceOptions {
  std::string trace;                ///< of several recordings: what messages call them
  std::vector<std::string> traces;  ///< several files and directories; empty: the one in `trace`
  bool takes_several = false;       ///< the command answers for several recordings
  std::string output = "-";
  bool json = false;
  replay::Selection selection;  ///< sizes, kind and freed only; the rest is in `texts` until the trace is opened
  SelectionTexts texts;
  bool at_own_peak = false;  ///< not the slice, but the moment in it when most selected bytes were live
  symbols::Options symbols;
  bool use_index = true;
  bool one_of_several = false;  ///< recordings that are read for one answer: some of them may have nothing selected
  bool output_is_recording = false;  ///< the output is a recording too, so it may replace another one
};

/// Which leaks `leaks` and `check` accept.
struct SuppressionOptions {
  std::vector<std::string> files;
  bool built_in = true;
  bool suppress = true;  ///< false: neither the built-in suppressions nor those of files
  std::string rules;     ///< further lines leak:PATTERN, of the project file
};

}  // namespace heapprof::cli
