#include "analyzer/cli/top/top_json.h"

#include <cmath>

#include "analyzer/cli/text/view_names.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

const char* key_of(views::By by) noexcept {
  switch (by) {
    case views::By::kFunction: return "function";
    case views::By::kLine: return "line";
    case views::By::kSite: return "site";
    case views::By::kStack: return "stack";
    case views::By::kModule: return "module";
    case views::By::kThread: return "thread";
    case views::By::kProcess:
    case views::By::kProgram: break;
  }
  return "";
}

const char* key_of(TopSort sort) noexcept {
  switch (sort) {
    case TopSort::kLive: return "live";
    case TopSort::kBlocks: return "blocks";
    case TopSort::kGrowth: return "growth";
    case TopSort::kRate: return "rate";
  }
  return "";
}

void add_figures(Json& json, const TopFigures& figures) {
  json["live_bytes"] = figures.sums.live_bytes;
  json["live_blocks"] = figures.sums.live_blocks;
  json["growth_bytes"] = figures.growth_bytes;
  json["growth_blocks"] = figures.growth_blocks;
  json["allocations"] = figures.sums.allocations;
  json["allocated_bytes"] = figures.sums.allocated_bytes;
  const auto rounded = [](double rate) { return std::round(rate * 1000) / 1000; };
  json["allocations_per_s"] = rounded(figures.allocations_per_s);
  json["allocated_bytes_per_s"] = rounded(figures.bytes_per_s);
}

}  // namespace

Json top_json(const TopTable& table, const std::vector<std::string>& symbol_warnings) {
  Json json = json_document();
  json["program"] = table.program;
  json["pid"] = table.pid;
  json["state"] = table.state;
  json["integrity"] = integrity_json(table.integrity);
  json["continued_in"] = table.continued_in.empty() ? Json(nullptr) : Json(table.continued_in);
  json["at_ns"] = table.at_ns;
  json["interval_ns"] = table.interval_ns;
  json["rss_bytes"] = table.rss_bytes != 0 ? Json(table.rss_bytes) : Json(nullptr);
  add_figures(json["total"], table.total);
  json["total"]["frees"] = table.frees;
  json["by"] = key_of(table.by);
  json["sort"] = key_of(table.sort);
  json["only_own"] = table.only_own;
  json["all_rows"] = table.all_rows;
  Json& rows = json["rows"] = Json::array();
  for (const TopRow& row : table.rows) {
    Json entry = name_json(row.name);
    if (row.tid) entry["tid"] = *row.tid;
    add_figures(entry, row.figures);
    rows.push_back(std::move(entry));
  }
  json["symbol_warnings"] = symbol_warnings;
  return json;
}

}  // namespace heapprof::cli
