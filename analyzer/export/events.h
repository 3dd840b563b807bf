// The events of a trace's heap, for exporters that need single blocks. Nodes and threads are those of the profile.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::exporter {

/// Calls its argument with all events in order, a batch at a time. Each call replays the trace.
using EventSource = std::function<void(const std::function<void(std::span<const replay::ProfileEvent>)>&)>;

/// The allocation events of the live blocks, by address.
using LiveBlocks = std::unordered_map<std::uint64_t, replay::ProfileEvent, ChosenKeyHash>;

}  // namespace heapprof::exporter
