// The file has three parts: a drawing made here, of the outermost rows, for viewers without JavaScript; the
// frames as JSON; and the viewer (assets/flamegraph.js, flamegraph.css), which takes the drawing away and
// draws what is to be seen on demand.
#include "analyzer/render/flamegraph.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>

#include "analyzer/render/escape.h"
#include "analyzer/render/palette.h"
#include "analyzer/render/render_assets.h"
#include "analyzer/render/short_names.h"
#include "analyzer/render/utf8.h"

namespace heapprof::render {
namespace {

// The drawing, in pixels of an svg 1200 wide. Row height and margin are the script's too.
constexpr double kWidth = 1200;
constexpr double kMargin = 16;
constexpr double kRowHeight = 19;
constexpr double kBarHeight = 18;
constexpr double kCharWidth = 6.7;       // of the labels' font, on average
constexpr double kLeastDrawnWidth = 1.5;
constexpr std::size_t kMostDrawnRows = 36;
constexpr std::size_t kLegendModules = 8;
constexpr std::uint64_t kExactInDouble = std::uint64_t{1} << 53;

/// The tree as the picture has it: preorder, children by falling value, small ones merged.
struct Layout {
  static constexpr std::uint32_t kMerged = UINT32_MAX;

  struct Box {
    std::uint32_t depth;     // 0: the root
    std::uint32_t function;  // kMerged: `line` frames that were left out
    std::uint32_t line;
    bool several_lines;
    std::uint64_t value;
    std::uint64_t left;      // value to the left of it
    std::uint64_t was;       // in a comparison: the value of the earlier trace, and of the later
    std::uint64_t is;
  };
  std::vector<Box> boxes;
  std::uint64_t merged_frames = 0;
  std::uint64_t merged_value = 0;
  std::uint32_t rows = 0;
};

Layout lay_out(const FlameTree& tree, std::uint32_t max_frames, bool comparison) {
  const auto nodes = tree.nodes();
  const auto functions = tree.functions();

  std::vector<std::uint64_t> totals(nodes.size());
  std::vector<std::uint32_t> below(nodes.size());  // frames with a value under each, itself included
  std::vector<std::uint64_t> was(nodes.size()), is(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    was[i] = nodes[i].before;
    is[i] = nodes[i].self;
    totals[i] = comparison ? std::max(was[i], is[i]) : is[i];
  }
  for (std::size_t i = nodes.size(); i-- > 1;) {
    totals[nodes[i].parent] += totals[i];
    was[nodes[i].parent] += was[i];
    is[nodes[i].parent] += is[i];
  }
  for (std::size_t i = nodes.size(); i-- > 1;) {
    below[i] += totals[i] != 0;
    below[nodes[i].parent] += below[i];
  }

  // A node's value is at least its children's, so everything above a threshold is a tree again.
  std::uint64_t least = 1;
  if (below[0] > max_frames) {
    std::vector<std::uint64_t> sorted(totals.begin() + 1, totals.end());
    std::nth_element(sorted.begin(), sorted.begin() + max_frames, sorted.end(), std::greater<>());
    least = sorted[max_frames] + 1;
  }

  std::vector<std::vector<FlameTree::Node>> children(nodes.size());
  for (std::size_t i = 1; i < nodes.size(); ++i)
    if (totals[i] != 0) children[nodes[i].parent].push_back(static_cast<FlameTree::Node>(i));
  const auto before = [&](FlameTree::Node a, FlameTree::Node b) {
    if (totals[a] != totals[b]) return totals[a] > totals[b];
    const auto& x = functions[nodes[a].function];
    const auto& y = functions[nodes[b].function];
    if (x.name != y.name) return x.name < y.name;
    if (x.module != y.module) return x.module < y.module;
    if (x.file != y.file) return x.file < y.file;
    return x.inlined < y.inlined;
  };

  Layout layout;
  struct Visit {
    FlameTree::Node node;
    std::uint32_t depth;
    std::uint64_t left;
  };
  std::vector<Visit> stack{{FlameTree::kRoot, 0, 0}};
  while (!stack.empty()) {
    const Visit visit = stack.back();
    stack.pop_back();
    auto& kids = children[visit.node];
    if (totals[visit.node] < least && visit.node != FlameTree::kRoot) {
      // The first of the small ones among its siblings stands for all of them: they come last, and are the
      // visits that follow.
      std::uint64_t frames = below[visit.node];
      std::uint64_t value = totals[visit.node];
      std::uint64_t merged_was = was[visit.node];
      std::uint64_t merged_is = is[visit.node];
      while (!stack.empty() && stack.back().depth == visit.depth) {
        frames += below[stack.back().node];
        value += totals[stack.back().node];
        merged_was += was[stack.back().node];
        merged_is += is[stack.back().node];
        stack.pop_back();
      }
      const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(frames, UINT32_MAX));
      layout.boxes.push_back({visit.depth, Layout::kMerged, count, false, value, visit.left, merged_was, merged_is});
      layout.merged_frames += frames;
      layout.merged_value += value;
      layout.rows = std::max(layout.rows, visit.depth + 1);
      continue;
    }
    const auto& node = nodes[visit.node];
    layout.boxes.push_back(
        {visit.depth, node.function, node.line, node.several_lines, totals[visit.node], visit.left, was[visit.node],
         is[visit.node]});
    layout.rows = std::max(layout.rows, visit.depth + 1);
    std::sort(kids.begin(), kids.end(), before);
    // Pushed in reverse, so that the largest is visited next.
    std::uint64_t right = visit.left;
    for (const FlameTree::Node kid : kids) right += totals[kid];
    for (std::size_t i = kids.size(); i-- > 0;) {
      right -= totals[kids[i]];
      stack.push_back({kids[i], visit.depth + 1, right});
    }
  }
  return layout;
}

/// Numbers for texts in the order of first use.
class Texts {
 public:
  std::uint32_t number(const std::string& text) {
    const auto [found, is_new] = index_.try_emplace(text, static_cast<std::uint32_t>(texts_.size()));
    if (is_new) texts_.push_back(text);
    return found->second;
  }
  const std::vector<std::string>& all() const noexcept { return texts_; }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::uint32_t> index_;
};

/// Modules by what their frames allocate themselves, largest first, with their hues.
struct Modules {
  std::vector<std::string> names;
  std::vector<std::uint64_t> values;
  std::vector<unsigned> hues;
  std::unordered_map<std::string, std::uint32_t> index;
};

/// Bottom-up a stack's innermost frame is the one at the root.
Modules rank_modules(const FlameTree& tree, bool bottom_up) {
  std::map<std::string, std::uint64_t> own;
  for (const auto& function : tree.functions()) own.try_emplace(function.module, 0);
  const auto nodes = tree.nodes();
  std::vector<std::size_t> innermost(nodes.size());
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    innermost[i] = bottom_up && nodes[i].parent != FlameTree::kRoot ? innermost[nodes[i].parent] : i;
    own[tree.functions()[nodes[innermost[i]].function].module] += nodes[i].self;
  }
  std::vector<std::pair<std::string, std::uint64_t>> sorted(own.begin(), own.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  Modules modules;
  for (auto& [name, value] : sorted) {
    modules.index.emplace(name, static_cast<std::uint32_t>(modules.names.size()));
    modules.names.push_back(name);
    modules.values.push_back(value);
  }
  modules.hues = hues_of(modules.names);
  return modules;
}

unsigned shade_of(const std::string& function_name) { return stable_hash(function_name) % kShades; }

void append_number(std::string& out, double value) {
  char text[32];
  const int length = std::snprintf(text, sizeof text, "%.2f", value);
  std::string_view digits(text, static_cast<std::size_t>(length));
  digits.remove_suffix(digits.size() - 1 - digits.find_last_not_of('0'));
  if (digits.ends_with('.')) digits.remove_suffix(1);
  out += digits;
}

/// The class of a grade of change.
std::string grade_class(int grade) { return "g" + std::to_string(grade + kGrades); }

/// The rules `.gN` for the grades of change, for light and for dark pages.
std::string grade_rules() {
  std::string out;
  for (const bool dark : {false, true}) {
    if (dark) out += "@media (prefers-color-scheme:dark){\n";
    for (int grade = -kGrades; grade <= kGrades; ++grade) {
      const std::string colour = change_colour(grade, dark);
      out += "." + grade_class(grade) + "{fill:" + colour + ";background:" + colour + "}";
    }
    out += dark ? "\n}\n" : "\n";
  }
  return out;
}

/// The rules `.hNsM` for the hues in use, for light and for dark pages.
std::string colour_rules(const Modules& modules) {
  std::vector<unsigned> hues(modules.hues);
  hues.push_back(kGrey);
  std::sort(hues.begin(), hues.end());
  hues.erase(std::unique(hues.begin(), hues.end()), hues.end());
  std::string out;
  for (const bool dark : {false, true}) {
    if (dark) out += "@media (prefers-color-scheme:dark){\n";
    for (const unsigned hue : hues) {
      const std::string name = ".h" + std::to_string(hue);
      for (unsigned shade = 0; shade < kShades; ++shade) {
        const std::string colour = fill_colour(hue, shade, dark);
        out += name + "s" + std::to_string(shade) + "{fill:" + colour + "}";
      }
      const std::string line = line_colour(hue, dark);
      out += name + "l{fill:" + line + ";background:" + line + "}\n";
    }
    if (dark) out += "}\n";
  }
  return out;
}

std::string context_line(const FlameOptions& options) {
  std::string line;
  for (const auto& [label, text] : options.context) {
    if (!line.empty()) line += "   \xc2\xb7   ";
    line += label.empty() ? clean_utf8(text) : clean_utf8(label) + ": " + clean_utf8(text);
  }
  return line;
}

std::string root_label(const FlameOptions& options, const Layout::Box& root) {
  if (!options.comparison) return "all: " + human_value(root.value, options.unit);
  return "all: " + human_value(root.was, options.unit) + " before, " + human_value(root.is, options.unit) + " after";
}

/// The drawing for viewers without JavaScript.
void draw(const FlameTree& tree, const Layout& layout, const Modules& modules, const FlameOptions& options,
          double height, double first_row, const TextSink& out) {
  const std::uint64_t total = std::max<std::uint64_t>(layout.boxes.front().value, 1);
  std::string text = "<g id=\"drawing\">\n";
  text += "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
  text += "<text class=\"title\" x=\"16\" y=\"32\">" + xml(clip_utf8(clean_utf8(options.title), 100)) + "</text>\n";
  text += "<text class=\"context\" x=\"16\" y=\"54\">" + xml(clip_utf8(context_line(options), 175)) + "</text>\n";

  if (options.comparison) {
    text +=
        "<text class=\"legend muted\" x=\"16\" y=\"79\">red: more than before, blue: less; "
        "as wide as the larger of both</text>\n";
  }
  double x = kMargin;
  for (std::size_t i = 0; !options.comparison && i < std::min(modules.names.size(), kLegendModules); ++i) {
    const std::string label = modules.names[i].empty() ? "unknown" : clip_utf8(modules.names[i], 28);
    const std::string share = modules.values[i] == 0 ? "" : percent(modules.values[i], total);
    const double width = 18 + kCharWidth * static_cast<double>(length_utf8(label) + 1 + share.size()) + 14;
    if (x + width > kWidth - kMargin) break;
    text +=
        "<rect class=\"h" + std::to_string(modules.hues[i]) + "l\" rx=\"2\" width=\"11\" height=\"11\" y=\"69\" x=\"";
    append_number(text, x);
    text += "\"/><text class=\"legend\" y=\"79\" x=\"";
    append_number(text, x + 17);
    text += "\">" + xml(label) + " <tspan class=\"muted\">" + xml(share) + "</tspan></text>\n";
    x += width;
  }

  for (const auto& box : layout.boxes) {
    if (box.depth >= kMostDrawnRows) continue;
    const double scale = (kWidth - 2 * kMargin) / static_cast<double>(total);
    const double width = static_cast<double>(box.value) * scale;
    if (width < kLeastDrawnWidth && box.depth != 0) continue;
    const double left = kMargin + static_cast<double>(box.left) * scale;
    const double top = first_row + kRowHeight * box.depth;
    std::string style = "h" + std::to_string(kGrey) + "s0";
    std::string label;
    if (box.depth == 0) {
      label = root_label(options, box);
    } else if (box.function == Layout::kMerged) {
      label = exact_number(box.line) + " small frames";
    } else {
      const auto& function = tree.functions()[box.function];
      style = "h" + std::to_string(modules.hues[modules.index.at(function.module)]) + "s" +
              std::to_string(shade_of(function.name));
      if (function.inlined && width > 4) style += " inl";
      label = short_name(function.name);
    }
    if (options.comparison) style = grade_class(grade_of(box.was, box.is));
    text += "<rect class=\"" + style + "\" x=\"";
    append_number(text, left);
    text += "\" y=\"";
    append_number(text, top);
    text += "\" width=\"";
    append_number(text, std::max(width - 0.6, 0.5));
    text += "\" height=\"18\" rx=\"1.5\"/>";
    const double room = (width - 10) / kCharWidth;
    if (room >= 3) {
      text += "<text class=\"label\" x=\"";
      append_number(text, left + 5);
      text += "\" y=\"";
      append_number(text, top + kBarHeight - 5);
      text += "\">" + xml(fit_name(label, static_cast<std::size_t>(room))) + "</text>";
    }
    text += '\n';
    out(text);
    text.clear();
  }
  if (layout.boxes.front().value == 0) {
    text += "<text class=\"label\" x=\"16\" y=\"";
    append_number(text, first_row + kBarHeight - 5);
    text += "\">" + xml("Nothing to show: no " + options.cost) + ".</text>\n";
  }
  text += "<text class=\"muted\" x=\"16\" y=\"";
  append_number(text, height - 12);
  text += "\">Open this file in a browser to search and zoom";
  if (layout.rows > kMostDrawnRows)
    text += "; " + exact_number(layout.rows - kMostDrawnRows) + " more rows are not drawn here";
  if (layout.merged_frames != 0)
    text += "; " + exact_number(layout.merged_frames) + " small frames are merged (" +
            xml(percent(layout.merged_value, total)) + ")";
  text += ".</text>\n</g>\n";
  out(text);
}

/// Values above 2^53, which a JavaScript number cannot hold, are repeated as text under `exact`.
void write_data(const FlameTree& tree, const Layout& layout, const Modules& modules, const FlameOptions& options,
                const TextSink& out) {
  std::string text;
  const auto field = [&](std::string_view name, std::string_view value) {
    append_script_json(text, name);
    text += ':';
    append_script_json(text, clean_utf8(value));
    text += ",\n";
  };
  bool first = true;
  const auto open_list = [&](std::string_view before) {
    text += before;
    first = true;
  };
  const auto next_item = [&] {
    if (!first) text += ',';
    first = false;
    if (text.size() > 60'000) {
      out(text);
      text.clear();
    }
  };

  text += "{\n";
  field("title", options.title);
  field("cost", options.cost);
  field("unit", options.unit == Unit::kBytes ? "bytes" : "count");
  text += "\"total\":" + std::to_string(options.total != 0 ? options.total : layout.boxes.front().value);
  text +=
      ",\n\"merged\":[" + std::to_string(layout.merged_frames) + "," + std::to_string(layout.merged_value) + "],\n";
  open_list("\"context\":[");
  for (const auto& [label, value] : options.context) {
    next_item();
    text += '[';
    append_script_json(text, clean_utf8(label));
    text += ',';
    append_script_json(text, clean_utf8(value));
    text += ']';
  }
  open_list("],\n\"modules\":[");
  for (std::size_t i = 0; i < modules.names.size(); ++i) {
    next_item();
    text += '[';
    append_script_json(text, modules.names[i]);
    text += "," + std::to_string(modules.hues[i]) + "," + std::to_string(modules.values[i]) + "]";
  }

  Texts files;
  files.number({});
  std::vector<std::uint32_t> number_of(tree.functions().size(), Layout::kMerged);
  std::vector<std::uint32_t> used;
  for (const auto& box : layout.boxes) {
    if (box.depth == 0 || box.function == Layout::kMerged || number_of[box.function] != Layout::kMerged) continue;
    number_of[box.function] = static_cast<std::uint32_t>(used.size());
    used.push_back(box.function);
  }
  // A function: name, short name (empty: the same), module, file, shade, inlined.
  open_list("],\n\"functions\":[");
  for (const std::uint32_t number : used) {
    next_item();
    const auto& function = tree.functions()[number];
    const std::string label = short_name(function.name);
    text += "\n[";
    append_script_json(text, function.name);
    text += ',';
    append_script_json(text, label == function.name ? std::string() : label);
    text += ',' + std::to_string(modules.index.at(function.module));
    text += ',' + std::to_string(files.number(function.file));
    text += ',' + std::to_string(shade_of(function.name));
    text += function.inlined ? ",1]" : ",0]";
  }
  open_list("],\n\"files\":[");
  for (const std::string& file : files.all()) {
    next_item();
    append_script_json(text, file);
  }

  // Frames in preorder, by columns. A function of -1 is `line` merged frames; a negative line is the first
  // of several.
  const auto column = [&](std::string_view name, auto&& value) {
    open_list("],\n\"");
    text.append(name).append("\":[");
    for (const auto& box : layout.boxes) {
      next_item();
      text += value(box);
    }
  };
  column("depth", [](const Layout::Box& box) { return std::to_string(box.depth); });
  column("function", [&](const Layout::Box& box) {
    return box.depth == 0 || box.function == Layout::kMerged ? "-1" : std::to_string(number_of[box.function]);
  });
  column("line", [](const Layout::Box& box) { return (box.several_lines ? "-" : "") + std::to_string(box.line); });
  column("value", [](const Layout::Box& box) { return std::to_string(box.value); });
  if (options.comparison) {
    column("was", [](const Layout::Box& box) { return std::to_string(box.was); });
    column("is", [](const Layout::Box& box) { return std::to_string(box.is); });
    column("grade", [](const Layout::Box& box) { return std::to_string(grade_of(box.was, box.is) + kGrades); });
  }
  open_list("],\n\"exact\":{");
  for (std::size_t i = 0; i < layout.boxes.size(); ++i) {
    if (layout.boxes[i].value <= kExactInDouble) continue;
    next_item();
    text += "\"" + std::to_string(i) + "\":\"" + std::to_string(layout.boxes[i].value) + "\"";
  }
  text += "}\n}\n";
  out(text);
}

}  // namespace

void write_flamegraph_svg(const FlameTree& tree, const FlameOptions& options, const TextSink& out) {
  const Layout layout = lay_out(tree, options.max_frames, options.comparison);
  const Modules modules = rank_modules(tree, options.bottom_up);
  const double first_row = 96;
  const double rows = static_cast<double>(std::min<std::size_t>(layout.rows, kMostDrawnRows));
  const double height = first_row + kRowHeight * rows + 36;

  std::string head = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n";
  head += "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"heapprof-flame\" width=\"1200\" height=\"";
  append_number(head, height);
  head += "\" viewBox=\"0 0 1200 ";
  append_number(head, height);
  head += "\">\n<title>" + xml(clean_utf8(options.title)) + "</title>\n<style><![CDATA[\n";
  head += assets::kFlamegraphCss;
  head += options.comparison ? grade_rules() : colour_rules(modules);
  head += "]]></style>\n";
  out(head);
  draw(tree, layout, modules, options, height, first_row, out);
  out("<script type=\"application/json\">");
  write_data(tree, layout, modules, options, out);
  out("</script>\n<script><![CDATA[\n");
  out(assets::kFlamegraphJs);
  out("]]></script>\n</svg>\n");
}

}  // namespace heapprof::render
