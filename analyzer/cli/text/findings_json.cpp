#include "analyzer/cli/text/findings_json.h"

#include "analyzer/findings/leak_weight.h"
#include "analyzer/findings/origin.h"

namespace heapprof::cli {
namespace {

double share_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

Json frame_or_null(const Findings& findings, findings::FrameRef frame) {
  return frame.exists() ? frame_json(findings.frame(frame)) : Json(nullptr);
}

/// The keys by which a function is named.
Json function_json(const Findings& findings, std::uint32_t number) {
  const findings::Function& function = findings.frames().functions()[number];
  return {{"function", findings.frames().name_of(number)},
          {"module", findings.frames().profile().modules[function.module].path},
          {"origin", findings::name_of(function.origin)}};
}

const char* name_of(findings::Helper::Reason reason) {
  switch (reason) {
    case findings::Helper::Reason::kName: return "name";
    case findings::Helper::Reason::kStructure: return "structure";
    case findings::Helper::Reason::kPattern: break;
  }
  return "option";
}

}  // namespace

Json site_json(const Findings& findings, const findings::CallSite& site, const findings::Held& total,
               bool by_blocks) {
  Json json;
  json["bytes"] = site.held.bytes;
  json["blocks"] = site.held.blocks;
  json["share"] = by_blocks ? share_of(site.held.blocks, total.blocks) : share_of(site.held.bytes, total.bytes);
  json["stacks"] = site.nodes.size();
  json["site"] = frame_or_null(findings, site.frame);
  json["origin"] = site.frame.exists() ? findings::name_of(findings.frames().at(site.frame).origin) : "unknown";
  json["own_caller"] = frame_or_null(findings, site.own_caller);
  json["allocated_bytes"] = site.costs.allocated_bytes;
  json["allocations"] = site.costs.allocations;
  json["survival"] = findings::survival(site.costs);
  return json;
}

void add_trend_figures(Json& entry, const model::LeakTrend& trend) {
  entry["rises"] = trend.rises;
  entry["grew_until_ns"] = trend.grew_until_ns;
  entry["grew_with_load"] = trend.growth == model::Growth::kGrowing || trend.grew_with_load;
  entry["first_ns"] = trend.first_ns;
  entry["last_ns"] = trend.last_ns;
  entry["smallest_bytes"] = trend.smallest;
  entry["largest_bytes"] = trend.largest;
  entry["freed_blocks"] = trend.freed_blocks;
  entry["longest_lifetime_ns"] = trend.longest_life_ns;
  entry["low_bytes"] = trend.low_bytes;
}

Json keepers_json(const Findings& findings, std::span<const findings::Keeper> keepers, const findings::Held& total) {
  Json list = Json::array();
  for (const findings::Keeper& keeper : keepers) {
    Json json = function_json(findings, keeper.function);
    json["bytes"] = keeper.held.bytes;
    json["blocks"] = keeper.held.blocks;
    json["share"] = share_of(keeper.held.bytes, total.bytes);
    json["allocated_bytes"] = keeper.allocated.bytes;
    json["allocations"] = keeper.allocated.blocks;
    json["bytes_share"] = keeper.bytes_share;
    json["blocks_share"] = keeper.blocks_share;
    json["frame"] = frame_or_null(findings, keeper.frame);
    json["own_caller"] = frame_or_null(findings, keeper.own_caller);
    list.push_back(std::move(json));
  }
  return list;
}

Json common_path_json(const Findings& findings, const std::optional<findings::CommonPath>& path,
                      const findings::Held& total) {
  if (!path) return nullptr;
  Json functions = Json::array();
  for (const findings::PathFunction& one : path->functions) {
    Json json = frame_or_null(findings, one.frame);
    json["share_of_function"] = one.share;
    functions.push_back(std::move(json));
  }
  return {{"bytes", path->held.bytes},
          {"blocks", path->held.blocks},
          {"share", share_of(path->held.bytes, total.bytes)},
          {"functions", std::move(functions)}};
}

Json helpers_json(const Findings& findings) {
  Json list = Json::array();
  for (const findings::Helper& helper : findings.helpers().all()) {
    Json json = function_json(findings, helper.function);
    json["reason"] = name_of(helper.reason);
    json["explanation"] = findings::explain(helper);
    json["bytes"] = helper.bytes;
    json["blocks"] = helper.blocks;
    json["callers"] = helper.reason == findings::Helper::Reason::kStructure ? Json(helper.callers) : Json(nullptr);
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace heapprof::cli
