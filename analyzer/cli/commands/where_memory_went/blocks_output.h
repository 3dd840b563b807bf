// The list of `heapprof blocks` in its forms: JSON, CSV, text. JSON and CSV are written row by row, since the list
// can have millions of blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/cli/options/command_options.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/model/profile.h"
#include "analyzer/views/block_page.h"

namespace heapprof::cli {

struct BlockList {
  const BlocksOptions& options;
  const model::Profile& profile;
  const StackNames& names;
  const Findings& findings;
  std::uint64_t at_ns = 0;  ///< the moment at which the blocks are live
  views::BlockSums all;
  std::vector<views::ListedBlock> page;

  bool has_age(const views::ListedBlock& block) const noexcept { return block.time_ns != views::kUnknownTime; }
  std::uint64_t age_ns(const views::ListedBlock& block) const noexcept {
    return at_ns - (block.time_ns < at_ns ? block.time_ns : at_ns);
  }
};

/// Throw OutputError.
void write_blocks_json(const BlockList& list);
void write_blocks_csv(const BlockList& list);

std::string blocks_text(const BlockList& list);

}  // namespace heapprof::cli
