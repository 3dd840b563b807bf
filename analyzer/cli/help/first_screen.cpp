// What `heapprof` without arguments prints: the first commands, and the recording that they would read.
#include "analyzer/cli/help/help.h"
#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/cli/text/write_output.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {

int run_first_screen(const FirstScreenOptions&) {
  std::string text = std::string("heapprof: ") + kPurpose +
                     "\n\n"
                     "  heapprof record -- PROGRAM [ARGUMENT...]   Run a program and record its allocations\n"
                     "  heapprof report                            Print the call sites that use the most memory\n"
                     "  heapprof leaks                             Print what was never freed, growing first\n"
                     "  heapprof timeline                          Print memory over time, by call site\n"
                     "  heapprof flamegraph -o flamegraph.svg      Draw all stacks, for a browser\n"
                     "\n";
  const NewestTrace newest = find_newest_trace();
  if (newest.path.empty()) text += "There is no recording in this directory yet: begin with 'heapprof record'.\n";
  else
    text += "Without a file, these commands read the newest recording in this directory:\n  " +
            render::clean_utf8(newest.path) +
            (newest.count > 1 ? " (of " + std::to_string(newest.count) + " recordings)\n" : "\n");
  return print_text(text + "\n'heapprof help' lists all commands, 'heapprof help COMMAND' explains one.\n");
}

}  // namespace heapprof::cli
