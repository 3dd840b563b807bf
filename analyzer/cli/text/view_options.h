// How rows, trees and callers are shown, as given on the command line.
#pragma once

#include "analyzer/views/frame_tree.h"

namespace heapprof::cli {

struct ViewOptions {
  bool only_own = false;    ///< fold everything but the program's own code into its callers
  bool full_names = false;  ///< names with parameters and template arguments, not clipped

  views::Scope scope() const noexcept { return only_own ? views::Scope::kOwn : views::Scope::kAll; }
};

}  // namespace heapprof::cli
