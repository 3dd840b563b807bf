#include "analyzer/cli/text/frame_text.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "analyzer/base/base_name.h"
#include "analyzer/render/short_names.h"
#include "analyzer/render/utf8.h"
#include "analyzer/symbols/return_type.h"

namespace heapprof::cli {

using render::clean_utf8;

std::string short_function(const std::string& function) {
  return render::without_arguments(clean_utf8(symbols::without_return_type(function)));
}

namespace {

/// `<Type as Trait>::method` of Rust as `Type::method`; other names unchanged.
std::string_view method_of_type(std::string_view name, std::string& storage) {
  if (!name.starts_with('<')) return name;
  std::size_t depth = 0;
  std::size_t end_of_type = std::string_view::npos;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    else if (depth == 1 && end_of_type == std::string_view::npos && name.substr(i).starts_with(" as "))
      end_of_type = i;
    else if (name[i] == '>' && name[i - 1] != '-' && --depth == 0) {
      if (end_of_type == std::string_view::npos) return name;
      storage.assign(name.substr(1, end_of_type - 1)).append(name.substr(i + 1));
      return storage;
    }
  }
  return name;
}

}  // namespace

std::string function_name(const std::string& function) {
  std::string storage;
  std::string name = short_function(std::string(method_of_type(function, storage)));
  for (const std::string_view end : {" const", "()"})
    if (name.ends_with(end) && name.size() > end.size()) name.resize(name.size() - end.size());
  return name;
}

std::string name_in_flame_graph(const Frame& frame) {
  if (frame.function.empty()) return unresolved_name(frame);
  return is_python(frame) && !frame.file.empty() ? frame.function + ' ' + source_name(frame.file) : frame.function;
}

std::string searched_name(const std::string& function) {
  std::string name = clean_utf8(symbols::without_return_type(function));
  if (name.starts_with('<')) return name;  // Rust: what distinguishes it is in the brackets
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  const std::size_t anonymous = name.rfind(kAnonymous);
  std::size_t end = name.find_first_of("<(", anonymous == std::string::npos ? 0 : anonymous + kAnonymous.size());
  // Python: `outer.<locals>.inner` is a name without arguments.
  while (end != std::string::npos && name[end] == '<' && end != 0 && name[end - 1] == '.')
    end = name.find_first_of("<(", end + 1);
  return name.substr(0, end);
}

std::string one_line(const Frame& frame, bool full_names) {
  if (frame.function.empty()) return clean_utf8(unresolved_name(frame));
  const std::string text = full_names ? clean_utf8(frame.function) : short_function(frame.function);
  if (!frame.file.empty())
    return text + " at " + clean_utf8(source_name(frame.file)) +
           (frame.line > 0 ? ":" + std::to_string(frame.line) : "");
  return frame.module->path.empty() ? text : text + " in " + clean_utf8(base_name(frame.module->path));
}

Frame text_frame(const std::string& text) {
  Frame frame;
  frame.function = text;
  return frame;
}

std::string name_in_table(const Frame& frame, bool full_names) {
  if (frame.function.empty()) return clean_utf8(unresolved_name(frame));
  return full_names ? clean_utf8(frame.function) : function_name(frame.function);
}

std::string site_name(const Frame& frame, bool full_names) {
  if (frame.module != nullptr) return one_line(frame, full_names);
  return frame.function.empty() ? "(no stack recorded)" : frame.function;
}

std::string location_of(const Frame& frame) {
  if (frame.function.empty()) {
    if (frame.function_begin == 0) return {};
    char text[24];
    std::snprintf(text, sizeof text, "+0x%" PRIx64, frame.offset - frame.function_begin);
    return text;
  }
  if (!frame.file.empty())
    return clean_utf8(source_name(frame.file)) + (frame.line > 0 ? ":" + std::to_string(frame.line) : "");
  return frame.module->path.empty() ? std::string() : "in " + clean_utf8(base_name(frame.module->path));
}

const char* words_for_truncation(const char* reason) {
  static constexpr std::pair<const char*, const char*> kWords[] = {
      {"max_depth", "deeper than HEAPPROF_MAX_DEPTH"},
      {"no_unwind_info", "code without unwind information"},
      {"bad_rule", "invalid unwind information"},
      {"bad_address", "the unwind information leads outside the stack"},
      {"unknown_stack", "the bounds of the stack are unknown"},
      {"nested", "inside a signal handler that interrupted the recorder"},
      {"no_memory", "the recorder was out of memory"},
      {"definition_lost", "its definition is in a damaged part of the trace"}};
  for (const auto& [name, words] : kWords)
    if (std::strcmp(name, reason) == 0) return words;
  return reason;
}

std::string truncation_frame(const char* reason) {
  return std::string("[truncated stack: ") + (reason == nullptr ? "unknown" : reason) + "]";
}

}  // namespace heapprof::cli
