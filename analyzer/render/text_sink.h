// Where pictures and tables are written.
#pragma once

#include <functional>
#include <string_view>

namespace heapprof::render {

/// Receives output piece by piece.
using TextSink = std::function<void(std::string_view)>;

}  // namespace heapprof::render
