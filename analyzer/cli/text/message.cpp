#include "analyzer/cli/text/message.h"

#include <cstdio>

#include "analyzer/render/utf8.h"

namespace heapprof::cli {

void print_message(const std::string& text) {
  std::fprintf(stderr, "heapprof: %s\n", render::clean_utf8(text).c_str());
}

}  // namespace heapprof::cli
