#include "analyzer/cli/help/first_screen.h"

#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {

std::string first_screen() {
  std::string text =
      "heapprof tells where a program's memory went.\n"
      "\n"
      "  heapprof record -- PROGRAM [ARGUMENT...]   Run a program and record its allocations\n"
      "  heapprof report                            Show totals, and the stacks that held most at the peak\n"
      "  heapprof leaks                             Show what was never freed, first what grows\n"
      "  heapprof timeline                          Show memory over time, by call site\n"
      "  heapprof flamegraph -o flamegraph.svg      Draw all stacks, for a browser\n"
      "\n";
  const NewestTrace newest = find_newest_trace();
  if (newest.path.empty())
    text += "There is no recording in this folder yet: begin with 'heapprof record'.\n";
  else
    text += "Without a file, these commands read the newest recording in this folder:\n  " +
            render::clean_utf8(newest.path) +
            (newest.count > 1 ? " (of " + std::to_string(newest.count) + " recordings)\n" : "\n");
  return text + "\n'heapprof help' lists all commands, 'heapprof help COMMAND' explains one.\n";
}

}  // namespace heapprof::cli
