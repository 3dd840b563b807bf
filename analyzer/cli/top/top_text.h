// A table of `top` as lines of text, in a given width: for --once and --batch, and for the screen.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/cli/text/text_style.h"
#include "analyzer/cli/text/view_options.h"
#include "analyzer/cli/top/top_model.h"

namespace heapprof::cli {

/// What a row is: "call site", "function", ...
const char* heading_of(views::By by) noexcept;
/// The column by which rows are sorted: "live bytes", "growth", ...
const char* words_for(TopSort sort) noexcept;

struct TopLines {
  std::vector<std::string> head;  ///< the program and the totals
  std::string columns;            ///< the headers of the table
  std::vector<std::string> rows;  ///< one line for each row
  std::string rest;               ///< what the table leaves out; empty: nothing
};

/// No line has more columns than style.width, unless `view` asks for full names.
TopLines lines_of(const TopTable& table, const TextStyle& style, const ViewOptions& view);

/// The whole table, with what the trace lacks.
std::string text_of(const TopTable& table, const TextStyle& style, const ViewOptions& view);

}  // namespace heapprof::cli
