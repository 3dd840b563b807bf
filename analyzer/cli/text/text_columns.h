// Tables with a name that gets the columns that the figures leave: right-aligned figures, then left-aligned names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/cli/text/text_page.h"

namespace heapprof::cli {

struct Column {
  enum class Kind {
    kFigure,    ///< aligned right
    kText,      ///< aligned left
    kFunction,  ///< aligned left; a name that is too long loses its outer scopes, then its end. With full names
                ///< (TextStyle), this is kWhole and becomes the last column
    kLocation,  ///< aligned left, at most 2/5 of the line. What is too long loses its beginning, a path's folders;
                ///< "from CALLER" loses its end
    kWhole,     ///< aligned left; never cut, even if the line becomes longer than the page. The last column
  };
  std::string header;
  Kind kind = Kind::kFigure;
  int drop = 0;  ///< left out when the line is too narrow, the highest number first; 0: never
};

struct Cell {
  std::string text;
  std::optional<TextColour> colour{};
};

/// Prints the headers and the rows. Each row has a cell for each column; columns whose cells are all empty are left
/// out. Returns the headers of those for which the line is too narrow.
std::vector<std::string> write_columns(TextPage& page, const std::vector<Column>& columns,
                                       const std::vector<std::vector<Cell>>& rows);
/// The same without the headers. The last text column is clipped.
void write_rows(TextPage& page, const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& rows);

}  // namespace heapprof::cli
