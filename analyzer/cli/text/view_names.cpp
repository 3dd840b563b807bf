#include "analyzer/cli/text/view_names.h"

#include <algorithm>

#include "analyzer/base/base_name.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/processes_text.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using findings::Origin;
using render::clean_utf8;

}  // namespace

const char* ViewNames::without_frames() const noexcept {
  return options_.only_own ? "(no own code)" : "(no stack recorded)";
}

std::vector<Column> ViewNames::name_columns(const std::string& heading) const {
  return {{heading, Column::Kind::kFunction}, {"location", Column::Kind::kLocation}};
}

std::vector<Cell> ViewNames::name_cells(const ViewName& name) const {
  return {{name.label, name.is_own ? std::optional(TextColour::kBold) : std::nullopt},
          {name.location, TextColour::kDim}};
}

std::string ViewNames::label_of(const std::string& function) const {
  return options_.full_names ? clean_utf8(function) : function_name(function);
}

ViewName ViewNames::of_frame(findings::FrameRef ref, bool by_line) const {
  ViewName name;
  if (!ref.exists()) {
    name.name = name.label = without_frames();
    return name;
  }
  Frame frame = findings_.frame(ref);
  const findings::CodeFrames& frames = findings_.frames();
  const Origin origin = frames.at(ref).origin;
  name.name = frames.name_of(frames.function_of(ref));
  name.label = frame.function.empty() ? clean_utf8(name.name) : label_of(frame.function);
  name.file = frame.file;
  name.module = frame.module->path;
  name.origin = findings::name_of(origin);
  name.is_own = origin == Origin::kOwn;
  if (by_line) name.line = frame.line;
  else frame.line = 0;
  if (by_line || !frame.function.empty()) name.location = location_of(frame);
  return name;
}

ViewName ViewNames::of_row(const views::Row& row, views::By by) const {
  switch (by) {
    case views::By::kFunction: return of_frame(row.frame, false);
    case views::By::kLine:
    case views::By::kSite: return of_frame(row.frame, true);
    case views::By::kStack: return of_stack(row);
    case views::By::kModule: return of_module(row.frame);
    case views::By::kThread: return thread_name(profile_.threads[row.thread].name, profile_.threads[row.thread].tid);
    case views::By::kProcess: return process_name(profile_.together->processes[row.thread]);
    case views::By::kProgram: break;
  }
  return {};
}

ViewName ViewNames::of_module(findings::FrameRef frame) const {
  if (!frame.exists()) return of_frame(frame, false);
  ViewName name;
  name.module = profile_.modules[profile_.addresses[frame.address].module].path;
  name.name = name.module.empty() ? "(code outside every file)" : name.module;
  name.label = name.module.empty() ? name.name : clean_utf8(base_name(name.module));
  const findings::OriginRules& rules = findings_.origins();
  const Origin origin = rules.of({{}, {}, name.module});
  if (name.module.empty()) return name;
  name.is_own = rules.is_own_module(name.module) || origin == Origin::kOwn;
  name.origin = findings::name_of(name.is_own                     ? Origin::kOwn
                                  : origin == Origin::kUnresolved ? Origin::kThirdParty
                                                                  : origin);
  return name;
}

/// The call site and its callers, as far as they are no libraries' or helpers'.
ViewName ViewNames::of_stack(const views::Row& row) const {
  const findings::CodeFrames& frames = findings_.frames();
  ViewName name = of_frame(row.frame, true);
  if (!row.frame.exists()) return name;
  const std::vector<findings::FrameRef> stack = frames.stack(row.node);
  for (auto at = std::find(stack.begin(), stack.end(), row.frame) + 1; at < stack.end(); ++at) {
    if (findings_.helpers().skips(frames.function_of(*at))) continue;
    if (options_.only_own && frames.at(*at).origin != Origin::kOwn) continue;
    const ViewName caller = of_frame(*at, false);
    name.name += " < " + caller.name;
    name.label += " < " + caller.label;
  }
  return name;
}

ViewName process_name(const model::ProcessFigures& process) {
  ViewName name;
  name.name = name.label = cli::name_of(process);
  name.location = process.command;
  name.module = process.program;
  return name;
}

ViewName thread_name(const std::string& thread, std::uint32_t tid) {
  ViewName name;
  name.name = (thread.empty() ? "(no name)" : thread) + " " + std::to_string(tid);
  name.label = clean_utf8(name.name);
  return name;
}

Json name_json(const ViewName& name) {
  Json json;
  json["name"] = name.name;
  json["file"] = text_or_null(name.file);
  json["line"] = name.line > 0 ? Json(name.line) : Json(nullptr);
  json["module"] = text_or_null(name.module);
  json["origin"] = name.origin;
  return json;
}

}  // namespace heapprof::cli
