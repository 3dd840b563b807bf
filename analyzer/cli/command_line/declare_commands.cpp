#include "analyzer/cli/command_line/declare_commands.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "analyzer/cli/command_line/command_declarations.h"

namespace heapprof::cli {
namespace {

struct Command {
  std::string_view name;
  void (*declare)(CLI::App&, Chosen&);
};

constexpr Command kCommands[] = {
    {"record", declare_record_for_help},
    {"control", declare_control},
    {"install-secure", declare_install_secure},
    {"report", declare_report},
    {"tree", declare_tree},
    {"callers", declare_callers},
    {"blocks", declare_blocks},
    {"source", declare_source},
    {"flamegraph", declare_flamegraph},
    {"pins", declare_pins},
    {"rss", declare_rss},
    {"histogram", declare_histogram},
    {"churn", declare_churn},
    {"reallocs", declare_reallocs},
    {"threads", declare_threads},
    {"frees", declare_frees},
    {"leaks", declare_leaks},
    {"top", declare_top},
    {"timeline", declare_timeline},
    {"serve", declare_serve},
    {"html", declare_html},
    {"diff", declare_diff},
    {"check", declare_check},
    {"export", declare_export},
    {"query", declare_query},
    {"push", declare_push},
    {"info", declare_info},
    {"bundle", declare_bundle},
    {"compact", declare_compact},
    {"index", declare_index},
    {"help", declare_help},
    {"manual", declare_manual},
    {"completions", declare_completions},
};

}  // namespace

void declare_commands(CLI::App& app, std::optional<CommandOptions>& chosen, std::string_view only) {
  for (const Command& command : kCommands)
    if (only.empty() || command.name == only) command.declare(app, chosen);
}

bool is_command(std::string_view name) {
  return std::ranges::any_of(kCommands, [&](const Command& command) { return command.name == name; });
}

}  // namespace heapprof::cli
