// Analysis::Stored: the index of the trace, and what was read from it. Only for the files of Analysis: what includes
// analysis.h does not depend on the form of an index.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/index/index.h"
#include "analyzer/replay/live_history.h"
#include "analyzer/replay/recording_totals.h"
#include "analyzer/replay/stack_lives.h"

namespace heapprof::replay {

struct Analysis::Stored {
  std::optional<Index> index;
  std::optional<RecordingTotals> totals;  // of the pass for the trace summary, or of the index
  std::mutex snapshot_mutex;              // of the next two, and of selected_blocks_
  bool snapshot_chosen = false;
  Snapshot snapshot;         // where a replay of all events begins; empty: at the start of the trace
  std::mutex history_mutex;  // of the next three
  bool history_read = false;
  std::optional<LiveHistory> history;
  std::string history_damage;                    // a clause; empty: there is none
  std::optional<std::vector<StackLives>> lives;  // of an index that has a history
};

}  // namespace heapprof::replay
