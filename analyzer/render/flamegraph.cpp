// The file has three parts: a drawing of the outermost rows, for viewers without JavaScript (made here); the frames
// as JSON (flame_data.h); and the viewer (assets/flame*.js, flamegraph.css), which replaces the drawing.
#include "analyzer/render/flamegraph.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "analyzer/render/escape.h"
#include "analyzer/render/flame_colours.h"
#include "analyzer/render/flame_data.h"
#include "analyzer/render/flame_layout.h"
#include "analyzer/render/palette.h"
#include "analyzer/render/render_assets.h"
#include "analyzer/render/short_names.h"
#include "analyzer/render/svg_text.h"
#include "analyzer/render/utf8.h"

namespace heapprof::render {
namespace {

// The drawing, in pixels of an SVG 1200 wide. The row height is that of flame_layout.js, the margin that of
// flamegraph.css.
constexpr double kPictureWidth = 1200;
constexpr double kMargin = 16;
constexpr double kRowHeight = 19;
constexpr double kBarHeight = 18;
constexpr double kCharWidth = 6.7;  // of the labels' font, on average
constexpr double kMinDrawnWidth = 1.5;
constexpr std::size_t kMaxDrawnRows = 36;
constexpr std::size_t kLegendModules = 8;

/// The viewer, in the order of analyzer/page/index.html.
constexpr std::string_view kFlameScripts[] = {
    assets::kFiguresJs,      assets::kLongPressJs,     assets::kFlameElementsJs, assets::kFlameTreeJs,
    assets::kFlameLayoutJs,  assets::kFlameLabelsJs,   assets::kFlameDrawingJs,  assets::kFlameSearchJs,
    assets::kFlameTooltipJs, assets::kFlameControlsJs, assets::kFlamePointerJs,  assets::kFlameKeyboardJs,
    assets::kFlameAddressJs, assets::kFlamegraphJs,
};

std::string context_line(const FlameOptions& options) {
  std::string line;
  for (const auto& [label, text] : options.context) {
    if (!line.empty()) line += "   \xc2\xb7   ";
    line += label.empty() ? clean_utf8(text) : clean_utf8(label) + ": " + clean_utf8(text);
  }
  return line;
}

std::string root_label(const FlameOptions& options, const FlameLayout::Box& root) {
  if (!options.comparison) return "all: " + human_value(root.value, options.unit);
  return "all: " + human_value(root.before, options.unit) + " before, " + human_value(root.after, options.unit) +
         " after";
}

/// The drawing for viewers without JavaScript.
void draw(const FlameTree& tree, const FlameLayout& layout, const FlameModules& modules, const FlameOptions& options,
          double height, double first_row, const TextSink& out) {
  const std::uint64_t total = std::max<std::uint64_t>(layout.boxes.front().value, 1);
  std::string text = "<g id=\"drawing\">\n";
  text += "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
  text += "<text class=\"title\" x=\"16\" y=\"32\">" + xml(clip_utf8(clean_utf8(options.title), 100)) + "</text>\n";
  text += "<text class=\"context\" x=\"16\" y=\"54\">" + xml(clip_utf8(context_line(options), 175)) + "</text>\n";

  if (options.comparison) {
    text +=
        "<text class=\"legend muted\" x=\"16\" y=\"79\">red: more than before; blue: less; "
        "width: the larger of the two values</text>\n";
  }
  double x = kMargin;
  for (std::size_t i = 0; !options.comparison && i < std::min(modules.names.size(), kLegendModules); ++i) {
    const std::string label = modules.names[i].empty() ? "unknown" : clip_utf8(modules.names[i], 28);
    const std::string share = modules.values[i] == 0 ? "" : percent(modules.values[i], total);
    const double width = 18 + kCharWidth * static_cast<double>(length_utf8(label) + 1 + share.size()) + 14;
    if (x + width > kPictureWidth - kMargin) break;
    text +=
        "<rect class=\"h" + std::to_string(modules.hues[i]) + "l\" rx=\"2\" width=\"11\" height=\"11\" y=\"69\" x=\"";
    append_number(text, x, 2);
    text += "\"/><text class=\"legend\" y=\"79\" x=\"";
    append_number(text, x + 17, 2);
    text += "\">" + xml(label) + " <tspan class=\"muted\">" + xml(share) + "</tspan></text>\n";
    x += width;
  }

  for (const auto& box : layout.boxes) {
    if (box.depth >= kMaxDrawnRows) continue;
    const double scale = (kPictureWidth - 2 * kMargin) / static_cast<double>(total);
    const double width = static_cast<double>(box.value) * scale;
    if (width < kMinDrawnWidth && box.depth != 0) continue;
    const double left = kMargin + static_cast<double>(box.left) * scale;
    const double top = first_row + kRowHeight * box.depth;
    std::string style = "h" + std::to_string(kGrey) + "s0";
    std::string label;
    if (box.depth == 0) {
      label = root_label(options, box);
    } else if (box.function == FlameLayout::kMerged) {
      label = exact_number(box.line) + " small frames";
    } else {
      const auto& function = tree.functions()[box.function];
      style = "h" + std::to_string(modules.hues[modules.index.at(function.module)]) + "s" +
              std::to_string(shade_of(function.name));
      if (function.inlined && width > 4) style += " inl";
      label = options.full_names ? function.name : without_arguments(function.name);
    }
    if (options.comparison) style = grade_class(grade_of(box.before, box.after));
    text += "<rect class=\"" + style + "\" x=\"";
    append_number(text, left, 2);
    text += "\" y=\"";
    append_number(text, top, 2);
    text += "\" width=\"";
    append_number(text, std::max(width - 0.6, 0.5), 2);
    text += "\" height=\"18\" rx=\"1.5\"/>";
    const double room = (width - 10) / kCharWidth;
    if (room >= 3) {
      text += "<text class=\"label\" x=\"";
      append_number(text, left + 5, 2);
      text += "\" y=\"";
      append_number(text, top + kBarHeight - 5, 2);
      text += "\">" + xml(fit_name(label, static_cast<std::size_t>(room))) + "</text>";
    }
    text += '\n';
    out(text);
    text.clear();
  }
  if (layout.boxes.front().value == 0) {
    text += "<text class=\"label\" x=\"16\" y=\"";
    append_number(text, first_row + kBarHeight - 5, 2);
    text += "\">" + xml("Nothing to show: no " + options.cost) + ".</text>\n";
  }
  text += "<text class=\"muted\" x=\"16\" y=\"";
  append_number(text, height - 12, 2);
  text += "\">Open this file in a browser to search and zoom";
  if (layout.rows > kMaxDrawnRows)
    text += "; " + exact_number(layout.rows - kMaxDrawnRows) + " more rows are not drawn here";
  if (layout.merged_frames != 0)
    text += "; " + exact_number(layout.merged_frames) + " small frames are merged (" +
            xml(percent(layout.merged_value, total)) + ")";
  text += ".</text>\n</g>\n";
  out(text);
}

}  // namespace

void write_flamegraph_svg(const FlameTree& tree, const FlameOptions& options, const TextSink& out) {
  const FlameLayout layout = lay_out(tree, options.max_frames, options.comparison);
  const FlameModules modules = rank_modules(tree, options.bottom_up);
  const double first_row = 96;
  const double rows = static_cast<double>(std::min<std::size_t>(layout.rows, kMaxDrawnRows));
  const double height = first_row + kRowHeight * rows + 36;

  std::string head = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n";
  head += "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"heapprof-flame\" width=\"1200\" height=\"";
  append_number(head, height, 2);
  head += "\" viewBox=\"0 0 1200 ";
  append_number(head, height, 2);
  head += "\">\n<title>" + xml(clean_utf8(options.title)) + "</title>\n<style><![CDATA[\n";
  head += assets::kFlamegraphCss;
  head += options.comparison ? grade_rules() : colour_rules(modules);
  head += "]]></style>\n";
  out(head);
  draw(tree, layout, modules, options, height, first_row, out);
  out("<script type=\"application/json\">");
  write_flame_data(tree, layout, modules, options, out);
  // In a function, because a document may contain several pictures: none calls functions of another one, which may be
  // of another version.
  out("</script>\n<script><![CDATA[\n(() => {\n");
  for (const std::string_view script : kFlameScripts) out(script);
  out("})();\n]]></script>\n</svg>\n");
}

}  // namespace heapprof::render
