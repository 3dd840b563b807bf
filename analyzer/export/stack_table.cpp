#include "analyzer/export/stack_table.h"

#include <cinttypes>
#include <cstdio>

#include "analyzer/base/base_name.h"
#include "analyzer/render/units.h"

namespace heapprof::exporter {

std::uint32_t FunctionTable::number(const StackTable::Function& function) {
  // Clean text contains no NUL.
  std::string key = function.name;
  key.append(1, '\0').append(function.file).append(1, '\0').append(std::to_string(function.module));
  const auto [at, fresh] = index_.try_emplace(std::move(key), static_cast<std::uint32_t>(table_.functions.size()));
  if (fresh) table_.functions.push_back(function);
  return at->second;
}

std::span<const CostColumn> cost_columns() {
  using model::Costs;
  static constexpr CostColumn kColumns[] = {
      {"alloc_objects", "count", "allocations", &Costs::allocations},
      {"alloc_space", "bytes", "bytes allocated", &Costs::allocated_bytes},
      {"inuse_objects", "count", "blocks live at the end", &Costs::leaked_blocks},
      {"inuse_space", "bytes", "bytes live at the end", &Costs::leaked_bytes},
      {"peak_objects", "count", "blocks live at the peak", &Costs::peak_blocks},
      {"peak_space", "bytes", "bytes live at the peak", &Costs::peak_bytes},
      {"temporary_objects", "count", "temporary allocations", &Costs::temporary},
      {"temporary_space", "bytes", "bytes of temporary allocations", &Costs::temporary_bytes},
  };
  return kColumns;
}

std::string description_of(const CostColumn& column, const model::Profile& profile) {
  std::string text = column.description;
  const auto name_moment = [&](const char* words) {
    if (const std::size_t at = text.find(words); at != std::string::npos)
      text.replace(at, std::string::npos, render::human_time(*profile.moment_ns()));
  };
  if (profile.is_moment()) name_moment("the peak");
  if (profile.survivors_ns) name_moment("the end");
  return text;
}

std::string frame_label(const StackTable& table, std::uint32_t location, std::uint32_t line) {
  const StackTable::Location& at = table.locations[location];
  const StackTable::Function& function = table.functions[at.lines[line].function];
  char address[32];
  std::snprintf(address, sizeof address, "0x%" PRIX64 ": ", at.address);
  std::string label = address + function.name;
  if (!function.file.empty())
    label += " (" + source_name(function.file) + ":" + std::to_string(at.lines[line].line) + ")";
  else if (at.module != 0) label += " (in " + table.modules[at.module] + ")";
  return label;
}

void append_json(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace heapprof::exporter
