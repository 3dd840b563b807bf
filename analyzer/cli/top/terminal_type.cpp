// In a file of its own, because <term.h> defines macros like `lines` and `columns`.
#include "analyzer/cli/top/terminal_type.h"

#include <curses.h>
#include <unistd.h>

#include <cstdlib>

#include <term.h>

#include "analyzer/render/utf8.h"

namespace heapprof::cli {

std::string why_no_screen() {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) return "this is no terminal";
  const char* const type = std::getenv("TERM");
  if (type == nullptr || *type == '\0') return "TERM is not set";
  const std::string terminal = "the terminal '" + render::clean_utf8(type) + "' of TERM ";
  int found = 0;
  if (::setupterm(nullptr, STDOUT_FILENO, &found) != OK) return terminal + "is not in the terminfo database";
  const bool can_move = cursor_address != nullptr;
  ::del_curterm(::set_curterm(nullptr));
  return can_move ? "" : terminal + "cannot move its cursor";
}

}  // namespace heapprof::cli
