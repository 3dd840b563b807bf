#include "analyzer/cli/text/stack_labels.h"

#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>

namespace heapprof::cli {
namespace {

/// A frame of a stack that is a row.
struct ChainFrame {
  std::string label;
  std::string location;
  std::uint64_t offset = 0;  ///< of the code, in the module's file
  friend bool operator==(const ChainFrame&, const ChainFrame&) = default;
};
using Chain = std::vector<ChainFrame>;

struct StackChain {
  Chain callers;  ///< the call site, and its callers
  Chain callees;  ///< what the call site calls, down to the allocation function
};

/// The frames of a row's stack: of the callers neither helpers, nor with --only-own others' code.
StackChain chain_of(const model::Profile& profile, const ViewNames& names, const Findings& findings,
                    const views::Row& row) {
  StackChain chain;
  if (!row.frame.exists()) return chain;
  const std::vector<findings::FrameRef> stack = findings.frames().stack(row.node);
  const auto site = std::find(stack.begin(), stack.end(), row.frame);
  for (auto at = stack.begin(); at != stack.end(); ++at) {
    const findings::Function& function = findings.frames().at(*at);
    if (at > site &&
        (findings.helpers().skips(findings.frames().function_of(*at)) || !findings.frames().is_in_scope(function)))
      continue;
    const ViewName name = names.of_frame(*at, true);
    (at < site ? chain.callees : chain.callers)
        .push_back({name.label, name.location, profile.addresses[at->address].offset});
  }
  std::ranges::reverse(chain.callees);
  return chain;
}

std::string hex_text(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIx64, value);
  return text;
}

/// How `mine` differs from `theirs` if both have the same name; empty: the names differ.
std::string place_of(const ChainFrame& mine, const ChainFrame& theirs) {
  if (theirs.label != mine.label) return {};
  return theirs.location != mine.location ? mine.location : hex_text(mine.offset);
}

/// The label of a stack: the call site and its callers. Where it shares the innermost frames with one of `others`,
/// the frames in which they differ come next, and an ellipsis is in place of those between. A callee of the call site
/// precedes it if the stacks differ only there.
std::string stack_label(const StackChain& stack, std::span<const StackChain> others) {
  const Chain& chain = stack.callers;
  if (chain.empty()) return {};
  std::map<std::size_t, std::string> differs;  // by position in the chain: the place, if names are equal
  std::string callee;                          // in which the stack differs from another one with equal callers
  for (const StackChain& other : others) {
    if (&other == &stack) continue;
    if (const auto [mine, theirs] = std::ranges::mismatch(chain, other.callers); mine != chain.end()) {
      std::string& place = differs[static_cast<std::size_t>(mine - chain.begin())];
      if (theirs != other.callers.end() && place.empty()) place = place_of(*mine, *theirs);
    } else if (theirs == other.callers.end() && callee.empty()) {
      const auto [inner, their_inner] = std::ranges::mismatch(stack.callees, other.callees);
      if (inner == stack.callees.end()) continue;
      callee = inner->label;
      if (their_inner != other.callees.end())
        if (const std::string place = place_of(*inner, *their_inner); !place.empty()) callee += " (" + place + ")";
    }
  }
  std::string label;
  std::size_t next = 0;
  const auto add = [&](std::size_t at) {
    if (at > next) label += " < …";
    label += (label.empty() ? "" : " < ") + chain[at].label;
    // The location of the call site is a column of its own, which has no offsets.
    const auto place = differs.find(at);
    if (place != differs.end() && !place->second.empty() && (at != 0 || place->second != chain[at].location))
      label += " (" + place->second + ")";
    next = at + 1;
  };
  if (!callee.empty()) label = callee + " < …";
  add(0);
  for (const auto& [at, place] : differs)
    if (at != 0) add(at);
  while (next < chain.size()) add(next);
  return label;
}

}  // namespace

std::vector<std::string> stack_labels(const model::Profile& profile, const ViewNames& names, const Findings& findings,
                                      std::span<const views::Row> rows) {
  constexpr std::size_t kMaxCompared = 200;  // each with each
  std::vector<StackChain> chains;
  for (const views::Row& row : rows) chains.push_back(chain_of(profile, names, findings, row));
  const std::span<const StackChain> compared(chains.data(), std::min(kMaxCompared, chains.size()));
  std::vector<std::string> labels;
  for (const StackChain& chain : chains) labels.push_back(stack_label(chain, compared));
  return labels;
}

}  // namespace heapprof::cli
