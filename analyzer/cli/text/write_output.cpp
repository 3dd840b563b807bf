#include "analyzer/cli/text/write_output.h"

#include <cstdio>

#include "analyzer/cli/text/message.h"
#include "analyzer/export/sink.h"

namespace heapprof::cli {

void write_output(const std::string& path, const std::string& text) {
  std::fflush(stdout);  // what was printed before comes first
  exporter::Sink out(path, exporter::Sink::Compression::kNone);
  out.write(text);
  if (!out.close()) throw OutputError(out.error());
}

int print_text(const std::string& text) {
  try {
    write_output("-", text);
  } catch (const OutputError& error) {
    print_message(error.what());
    return 1;
  }
  return 0;
}

}  // namespace heapprof::cli
