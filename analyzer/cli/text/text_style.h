// How text looks at its destination: colours, columns, characters.
#pragma once

#include <cstddef>
#include <string>

#include "analyzer/cli/text/view_options.h"

namespace heapprof::cli {

struct TextStyle {
  bool colour = false;
  std::size_t frames = 12;  ///< max lines per stack; the middle of a longer stack is left out. 0: no limit
  std::size_t width = 100;  ///< columns
  bool unicode = true;      ///< false: ASCII only
  bool full_names = false;  ///< names of functions are neither shortened nor clipped
};

/// The style for text written to `output` ("-" is standard output): the colours and columns of the terminal, if it is
/// one, else the columns that COLUMNS asks for; and the characters of the locale.
TextStyle style_for(const std::string& output, std::size_t frames = 12);
TextStyle style_for(const std::string& output, const ViewOptions& view, std::size_t frames = 12);

/// `text` with each non-ASCII character that heapprof itself prints replaced by ASCII, unless `unicode`. Names of
/// functions and files stay as they are.
std::string plain_text(const std::string& text, bool unicode);

/// Whether `output` is a terminal that shows colours, and NO_COLOR is not set.
bool wants_colour(const std::string& output);

/// Columns of the terminal that `output` is. 0: it is no terminal, or the terminal does not report its size.
std::size_t terminal_columns(const std::string& output);

/// Whether the locale in the environment is a UTF-8 locale.
bool locale_is_utf8();

}  // namespace heapprof::cli
