// Which code tables, trees and stacks show, and how they name it, as given on the command line.
#pragma once

#include "analyzer/findings/code_frames.h"

namespace heapprof::cli {

struct ViewOptions {
  bool only_own = false;    ///< fold everything but the program's own code into its callers
  bool full_names = false;  ///< names with parameters and template arguments, not clipped

  findings::Scope scope() const noexcept { return only_own ? findings::Scope::kOwn : findings::Scope::kAll; }
};

}  // namespace heapprof::cli
