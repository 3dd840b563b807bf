// What exporters of single blocks read: the events of a trace's heap, in order, with the profile's nodes and threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>

#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::exporter {

/// Calls its argument with all events, a batch at a time; replays the trace for it.
using EventSource = std::function<void(const std::function<void(std::span<const replay::ProfileEvent>)>&)>;

/// The allocations whose blocks are live, by address, as the events go by.
using LiveBlocks = std::unordered_map<std::uint64_t, replay::ProfileEvent>;

}  // namespace heapprof::exporter
