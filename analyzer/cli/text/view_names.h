// The frames of rows and trees by name, in JSON and in tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/cli/text/view_options.h"
#include "analyzer/findings/code_frames.h"
#include "analyzer/views/rows.h"

namespace heapprof::cli {

/// What a row or a node of a tree is called.
struct ViewName {
  std::string name;    ///< whole, not clean
  std::string file;    ///< empty: unknown
  int line = 0;        ///< 0: unknown, or all lines of a function
  std::string module;  ///< path; empty: none
  const char* origin = "unknown";
  bool is_own = false;   ///< of the program's own code
  std::string label;     ///< clean, and short unless ViewOptions::full_names, for tables
  std::string location;  ///< "parse.cpp:12", "parse.cpp" or "in libx.so", for tables; clean
};

class ViewNames {
 public:
  /// The arguments must outlive this.
  ViewNames(const model::Profile& profile, const Findings& findings, const ViewOptions& options)
      : profile_(profile), findings_(findings), options_(options) {}
  ViewNames(const model::Profile& profile, const Findings& findings)
      : ViewNames(profile, findings, findings.view()) {}

  /// `by_line` false: the name is that of the function, whatever the line.
  ViewName of_frame(findings::FrameRef frame, bool by_line) const;
  ViewName of_row(const views::Row& row, views::By by) const;
  /// The name of the row of stacks without a frame that is shown: "(no stack recorded)", "(no own code)".
  const char* without_frames() const noexcept;

  /// The last columns of a table, and their cells. `heading`: that of the names.
  std::vector<Column> name_columns(const std::string& heading) const;
  std::vector<Cell> name_cells(const ViewName& name) const;

 private:
  std::string label_of(const std::string& function) const;
  ViewName of_module(findings::FrameRef frame) const;
  ViewName of_stack(const views::Row& row) const;

  const model::Profile& profile_;
  const Findings& findings_;
  const ViewOptions options_;
};

/// The name of a thread's row: "worker 4712".
ViewName thread_name(const std::string& name, std::uint32_t tid);
/// The name of a process of several recordings, as a row: "cc1plus, pid 12"; its command is the location.
ViewName process_name(const model::ProcessFigures& process);

/// The keys "name", "file", "line", "module" and "origin".
Json name_json(const ViewName& name);

}  // namespace heapprof::cli
