#include "analyzer/serve/metrics.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace heapprof::serve {
namespace {

std::string label(const char* name, const std::string& text) {
  std::string out = std::string(name) + "=\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') out += "\\n";
    else out += c;
  }
  return out + '"';
}

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? std::string() : found->get<std::string>();
}

}  // namespace

std::string metrics_of(const std::string& top_json) {
  const nlohmann::json table = nlohmann::json::parse(top_json, nullptr, false);
  if (!table.is_object() || !table.contains("total") || !table.contains("rows"))
    throw std::runtime_error("the table of live memory cannot be read");
  const nlohmann::json& total = table["total"];
  const std::string program = text_of(table, "program");
  const std::string labels = label("program", program.substr(program.rfind('/') + 1)) + "," +
                             label("pid", std::to_string(table.value("pid", 0)));
  std::string text;
  const auto family = [&](const std::string& name, const char* type, bool bytes, const char* help) {
    text += "# TYPE " + name + " " + type + "\n" + (bytes ? "# UNIT " + name + " bytes\n" : "") + "# HELP " + name +
            " " + help + "\n";
  };
  const auto value = [&](const std::string& name, const std::string& more, const nlohmann::json& number) {
    text += name + "{" + labels + more + "} " + std::to_string(number.get<std::uint64_t>()) + "\n";
  };
  family("heapprof_live_bytes", "gauge", true, "Bytes of heap blocks that are live.");
  value("heapprof_live_bytes", "", total.at("live_bytes"));
  family("heapprof_live_blocks", "gauge", false, "How many heap blocks are live.");
  value("heapprof_live_blocks", "", total.at("live_blocks"));
  if (table.contains("rss_bytes") && table["rss_bytes"].is_number()) {
    family("heapprof_resident_bytes", "gauge", true, "Resident memory of the process, when it was last sampled.");
    value("heapprof_resident_bytes", "", table["rss_bytes"]);
  }
  family("heapprof_allocations", "counter", false, "Number of allocations.");
  value("heapprof_allocations_total", "", total.at("allocations"));
  family("heapprof_allocated_bytes", "counter", true, "Bytes allocated.");
  value("heapprof_allocated_bytes_total", "", total.at("allocated_bytes"));
  family("heapprof_site_live_bytes", "gauge", true, "Live bytes of the largest call sites.");
  std::size_t number = 0;
  for (const nlohmann::json& row : table["rows"]) {
    const std::string file = text_of(row, "file");
    const std::string line = row.contains("line") && row["line"].is_number() ? ":" + row["line"].dump() : "";
    value("heapprof_site_live_bytes",
          "," + label("site", std::to_string(++number)) + "," + label("function", text_of(row, "name")) + "," +
              label("location", file.empty() ? "" : file + line) + "," + label("module", text_of(row, "module")),
          row.at("live_bytes"));
  }
  return text + "# EOF\n";
}

}  // namespace heapprof::serve
