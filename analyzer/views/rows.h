// One row for each function, source line, call site, stack, module or thread, with what it costs itself and with
// everything below it.
//
// Recursion counts once: a row's total is the sum over the stacks that contain it. The rows' own costs add up to the
// profile's totals. Call sites, stacks and threads divide the stacks, so their own costs are their totals.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/findings/code_frames.h"
#include "analyzer/findings/helpers.h"
#include "analyzer/model/profile.h"
#include "analyzer/views/frame_tree.h"

namespace heapprof::views {

/// The last two are of several recordings.
enum class By { kFunction, kLine, kSite, kStack, kModule, kThread, kProcess, kProgram };

struct Row {
  findings::FrameRef frame;                ///< one of its frames; exists() is false: stacks without frames, threads
  std::uint32_t node = 0;                  ///< of kStack: the node of the profile
  std::uint32_t thread = model::kNoIndex;  ///< of kThread: in Profile::threads; of kProcess: in Together::processes
  std::uint32_t group = model::kNoIndex;   ///< of its own stacks, as StackGroups numbers them; of kThread: the thread
  model::Costs self;
  model::Costs total;
};

/// By node of the profile, the number of the row to whose own costs it belongs (Row::group); kNoIndex: to that of
/// stacks without frames.
using StackGroups = std::vector<std::uint32_t>;

/// The functions, lines or modules of all stacks, in no particular order.
std::vector<Row> rows_of(const FrameTree& tree);
StackGroups groups_of(const FrameTree& tree);
/// The call sites (function and line) of all stacks, in no particular order.
std::vector<Row> rows_by_site(const findings::CodeFrames& frames, const findings::Helpers& helpers,
                              Scope scope = Scope::kAll);
StackGroups groups_by_site(const findings::CodeFrames& frames, const findings::Helpers& helpers,
                           Scope scope = Scope::kAll);
/// The stacks that have costs, by node.
std::vector<Row> rows_by_stack(const findings::CodeFrames& frames, const findings::Helpers& helpers,
                               Scope scope = Scope::kAll);

}  // namespace heapprof::views
