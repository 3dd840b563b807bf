// heapprof tree: the call tree, from the program's entry down to call sites, or from call sites up to their callers.
#include "analyzer/views/tree.h"

#include <algorithm>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/merged_recordings.h"
#include "analyzer/cli/commands/shared/next_commands.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/answer_text.h"
#include "analyzer/cli/text/figures.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/view_names.h"
#include "analyzer/render/byte_column.h"
#include "analyzer/render/short_names.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using views::TreeNode;

Json node_json(const TreeNode& node, const ViewNames& names, bool by_line) {
  Json json = name_json(names.of_frame(node.frame, by_line));
  json["self"] = figures_json(node.self);
  json["total"] = figures_json(node.total);
  Json& children = json["children"] = Json::array();
  for (const TreeNode& child : node.children) children.push_back(node_json(child, names, by_line));
  if (node.left_out != 0) json["left_out"] = {{"nodes", node.left_out}, {"total", figures_json(node.left_out_total)}};
  return json;
}

Json tree_json(const TreeOptions& options, const model::Profile& profile, const TreeNode& root,
               const ViewNames& names, const std::vector<std::string>& warnings) {
  Json json = head_json(profile);
  json["inverted"] = options.inverted;
  json["only_own"] = options.call_sites.view.only_own;
  json["min_share"] = options.min_share_percent / 100;
  Json tree = node_json(root, names, options.by_line);
  tree["name"] = "";
  json.update(tree);
  json["symbol_warnings"] = warnings;
  return json;
}

class TreeText {
 public:
  TreeText(ReportText& text, const TreeOptions& options, const ViewNames& names, const model::Costs& whole)
      : text_(text), options_(options), names_(names), figure_(figure_of(options.cost)), whole_(figure_.of(whole)),
        sizes_(whole_) {}

  void header() {
    if (is_narrow() && !options_.inverted) text_.paragraph("(too narrow for: self)");
    text_.line(text_.paint(TextColour::kDim, "  " + render::pad_left("total", kValueWidth) + "  share" +
                                                 self_text("self") + (options_.by_line ? "  line" : "  function")));
  }

  /// The lines below `node`. Siblings begin with a dash. A single child has the indentation of its parent, so that
  /// long chains stay in sight.
  void children(const TreeNode& node, std::size_t indent) {
    const bool are_siblings = node.children.size() + (node.left_out != 0) > 1;
    for (const TreeNode& child : node.children) {
      row(child, indent, are_siblings);
      children(child, are_siblings ? indent + kIndent : indent);
    }
    if (node.left_out == 0 || figure_.of(node.left_out_total) == 0) return;
    const std::uint64_t value = figure_.of(node.left_out_total);
    text_.line("  " + render::pad_left(value_text(value), kValueWidth) + "  " +
               render::pad_left(render::percent(value, whole_), kShareWidth) + self_text("") +
               std::string(std::min(indent, max_indent()) + 2, ' ') + "+" + render::exact_number(node.left_out) +
               " more");
  }

  /// The stacks that have no node.
  void without_frames(const TreeNode& root) {
    const std::uint64_t value = figure_.of(root.self);
    if (value == 0) return;
    text_.line("  " + render::pad_left(value_text(value), kValueWidth) + "  " +
               render::pad_left(render::percent(value, whole_), kShareWidth) + self_text(value_text(value)) + "  " +
               names_.without_frames());
  }

 private:
  static constexpr std::size_t kValueWidth = 11, kShareWidth = 5, kIndent = 2;

  /// An inverted tree begins with the functions' own costs, so it has no such column.
  std::string self_text(const std::string& text) const {
    return options_.inverted || is_narrow() ? "" : "  " + render::pad_left(text, kValueWidth);
  }
  bool is_narrow() const { return text_.style().width < 60; }
  std::size_t max_indent() const { return text_.style().width / (is_narrow() ? 8 : 3); }
  std::string value_text(std::uint64_t value) const {
    return figure_.is_bytes ? sizes_.text(value) : render::exact_number(value);
  }

  void row(const TreeNode& node, std::size_t indent, bool is_sibling) {
    const ViewName name = names_.of_frame(node.frame, options_.by_line);
    const std::uint64_t total = figure_.of(node.total);
    const std::uint64_t self = figure_.of(node.self);
    const std::string figures = "  " + render::pad_left(value_text(total), kValueWidth) + "  " +
                                render::pad_left(render::percent(total, whole_), kShareWidth) +
                                self_text(self == 0 ? "" : value_text(self)) + "  " +
                                std::string(std::min(indent, max_indent()), ' ') + (is_sibling ? "- " : "");
    const std::size_t used = render::length_utf8(figures);
    const std::size_t least = is_narrow() ? 8 : 16;
    const std::size_t width = text_.style().width - std::min(text_.style().width - least, used);
    std::string label = name.label;
    if (options_.by_line && !name.location.empty()) label += "  " + name.location;
    if (render::length_utf8(label) > width && !options_.call_sites.view.full_names)
      label = text_.clip(render::fit_name(name.label, width), width);
    text_.line(figures + (name.is_own ? text_.bold(label) : label));
  }

  ReportText& text_;
  const TreeOptions& options_;
  const ViewNames& names_;
  const Figure& figure_;
  const std::uint64_t whole_;
  const render::ByteColumn sizes_;
};

/// The node below `node` that costs most itself; null: none costs anything.
const TreeNode* heaviest(const TreeNode& node, const Figure& figure) {
  const TreeNode* found = nullptr;
  for (const TreeNode& child : node.children) {
    const TreeNode* const below = heaviest(child, figure);
    for (const TreeNode* const one : {&child, below})
      if (one != nullptr && figure.of(one->self) > (found == nullptr ? 0 : figure.of(found->self))) found = one;
  }
  return found;
}

NextCommands next_commands(const TreeOptions& options, const TreeNode& root, const ViewNames& names) {
  NextCommands next(options.trace);
  const TreeNode* const node = heaviest(root, figure_of(options.cost));
  if (node != nullptr && node->frame.exists())
    next.add("Callers of the heaviest", "callers", names.of_frame(node->frame, false).label,
             cost_words(options.cost));
  std::string other = options.inverted ? "" : "--inverted";
  if (const std::string cost = cost_words(options.cost); !cost.empty()) other += (other.empty() ? "" : " ") + cost;
  return next.add(options.inverted ? "From callers to call sites" : "From call sites to callers", "tree", {}, other);
}

std::string tree_text(const TreeOptions& options, const model::Profile& profile, const TreeNode& root,
                      const Findings& findings, const ViewNames& names, const std::vector<std::string>& warnings) {
  const RankedStack whole = figures_of(profile.totals, options.cost);
  ReportText text(profile, style_for(options.trace.output), &findings);
  text.title().line();
  text.line(heading_of(options.cost, profile) + ": " + render::human_bytes(whole.bytes) + " in " +
            count_of_kind(profile, whole.blocks) + "; shares are of this.");
  text.heading(std::string(options.inverted ? "From call sites to their callers" : "From callers to call sites") +
               (options.call_sites.view.only_own ? ", own code only" : ""));
  if (root.total.empty()) text.line("  none");
  else {
    TreeText tree(text, options, names, root.total);
    tree.header();
    tree.children(root, 0);
    tree.without_frames(root);
    next_commands(options, root, names).write(text);
  }
  text.notes(warnings);
  return text.text();
}

void print_tree(const TreeOptions& options, const model::Profile& profile) {
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes_of_findings(profile));
  const Findings findings(profile, names, options.call_sites);
  const ViewNames view_names(profile, findings);
  const views::FrameTree frames(findings.frames(), findings.helpers(),
                                options.by_line ? views::Level::kLine : views::Level::kFunction,
                                options.call_sites.view.scope());
  const views::TreeLimits limits{options.depth, options.min_share_percent / 100};
  const Figure& figure = figure_of(options.cost);
  const views::Weight weight = [&figure](const model::Costs& costs) { return figure.of(costs); };
  const TreeNode root =
      options.inverted ? views::inverted_tree(frames, weight, limits) : views::top_down_tree(frames, weight, limits);
  write_output(options.trace.output, options.trace.json
                                         ? dump(tree_json(options, profile, root, view_names, names.warnings()))
                                         : tree_text(options, profile, root, findings, view_names, names.warnings()));
}

}  // namespace

int run_tree(const TreeOptions& options) {
  return run_on_profile(for_costs(options.trace),
                        [&](const model::Profile& profile) { print_tree(options, profile); });
}

}  // namespace heapprof::cli
