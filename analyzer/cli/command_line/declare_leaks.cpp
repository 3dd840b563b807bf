// Declares the commands under "Find leaks".
#include <memory>

#include "analyzer/cli/command_line/choose_command.h"
#include "analyzer/cli/command_line/command_declarations.h"
#include "analyzer/cli/command_line/option_checks.h"
#include "analyzer/cli/command_line/option_kinds.h"
#include "analyzer/cli/command_line/shared_options.h"
#include "analyzer/cli/options/command_options.h"

namespace heapprof::cli {
namespace {

constexpr const char* kLeaks = "Find leaks";

}  // namespace

void declare_leaks(CLI::App& app, Chosen& chosen) {
  using Order = LeaksOptions::Order;
  const auto options = std::make_shared<LeaksOptions>();
  CLI::App& command =
      add_command(app, kLeaks, "leaks", "Print what was never freed, by the call site and stack that allocated it");
  add_trace_options(command, options->trace, {.several = true});
  add_suppression_options(command, options->suppressions);
  add_call_site_options(command, options->call_sites);
  add_word<Order>(
      command, "--sort", options->order,
      {{"growth", Order::kGrowth}, {"bytes", Order::kBytes}, {"blocks", Order::kBlocks}, {"age", Order::kAge}},
      "Rank by this; growth: by bytes, which count more if they grow, and less if most of what was allocated was "
      "freed");
  add_switch(command, "!--no-history", options->history, "Print no trends and no times; then no trace is read twice");
  add_top(command, options->top,
          "call sites, without the last ones that have less than 1% each, or stacks with --json");
  add_stacks(command, options->stacks);
  add_frames(command, options->frames);
  add_shared_frames(command, options->shared_frames);
  choose(command, chosen, options, [](LeaksOptions& read) {
    if (read.order != Order::kAge) return;
    // Ages are part of the histories, which mappings and several recordings do not have.
    refuse_for_several(read.trace, true, "--sort age", "--sort bytes");
    if (read.trace.selection.kind != model::Kind::kHeap)
      refuse("--sort age is for the heap only, since mappings have no age; use --sort bytes, or --kind heap");
    if (!read.history) refuse("--sort age and --no-history exclude each other");
  });
}

}  // namespace heapprof::cli
