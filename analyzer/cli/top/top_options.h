// The options of `top`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/view_options.h"
#include "analyzer/symbols/symbolizer_input.h"
#include "analyzer/views/rows.h"

namespace heapprof::cli {

/// The column by which rows are sorted, largest first.
enum class TopSort { kLive, kBlocks, kGrowth, kRate };

struct TopOptions {
  std::string trace;  ///< a trace, or a process id
  bool once = false;
  bool batch = false;
  double interval_seconds = 1;
  std::size_t count = 0;  ///< tables of --batch; 0: until the program ends
  views::By by = views::By::kSite;
  TopSort sort = TopSort::kLive;
  std::size_t top = 20;  ///< rows of --once and --batch; 0: all
  bool json = false;
  CallSiteOptions call_sites;
  symbols::Options symbols;
};

}  // namespace heapprof::cli
