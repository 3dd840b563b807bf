#include "analyzer/render/flame_data.h"

#include <unordered_map>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/palette.h"
#include "analyzer/render/short_names.h"
#include "analyzer/render/utf8.h"

namespace heapprof::render {
namespace {

constexpr std::uint64_t kMaxExactDouble = std::uint64_t{1} << 53;

/// Numbers texts in the order of their first use.
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
  std::unordered_map<std::string, std::uint32_t, ChosenTextHash> index_;
};

}  // namespace

void write_flame_data(const FlameTree& tree, const FlameLayout& layout, const FlameModules& modules,
                      const FlameOptions& options, const TextSink& out) {
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
  std::vector<std::uint32_t> number_of(tree.functions().size(), FlameLayout::kMerged);
  std::vector<std::uint32_t> used;
  for (const auto& box : layout.boxes) {
    if (box.depth == 0 || box.function == FlameLayout::kMerged || number_of[box.function] != FlameLayout::kMerged)
      continue;
    number_of[box.function] = static_cast<std::uint32_t>(used.size());
    used.push_back(box.function);
  }
  // A function: name, short name (empty: the same), module, file, shade, inlined.
  open_list("],\n\"functions\":[");
  for (const std::uint32_t number : used) {
    next_item();
    const auto& function = tree.functions()[number];
    const std::string label = options.full_names ? function.name : without_arguments(function.name);
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

  // A function of -1: the root, or a box of `line` merged frames. A negative line: the smallest of several.
  const auto column = [&](std::string_view name, auto&& value) {
    open_list("],\n\"");
    text.append(name).append("\":[");
    for (const auto& box : layout.boxes) {
      next_item();
      text += value(box);
    }
  };
  column("depth", [](const FlameLayout::Box& box) { return std::to_string(box.depth); });
  column("function", [&](const FlameLayout::Box& box) {
    return box.depth == 0 || box.function == FlameLayout::kMerged ? "-1" : std::to_string(number_of[box.function]);
  });
  column("line",
         [](const FlameLayout::Box& box) { return (box.several_lines ? "-" : "") + std::to_string(box.line); });
  column("value", [](const FlameLayout::Box& box) { return std::to_string(box.value); });
  if (options.comparison) {
    column("was", [](const FlameLayout::Box& box) { return std::to_string(box.before); });
    column("is", [](const FlameLayout::Box& box) { return std::to_string(box.after); });
    column("grade",
           [](const FlameLayout::Box& box) { return std::to_string(grade_of(box.before, box.after) + kGrades); });
  }
  open_list("],\n\"exact\":{");
  for (std::size_t i = 0; i < layout.boxes.size(); ++i) {
    if (layout.boxes[i].value <= kMaxExactDouble) continue;
    next_item();
    text += "\"" + std::to_string(i) + "\":\"" + std::to_string(layout.boxes[i].value) + "\"";
  }
  text += "}\n}\n";
  out(text);
}

}  // namespace heapprof::render
