#include "patch.h"

extern "C" constinit const char heapprof_intercept_returned[1] = {};

namespace heapprof::intercept {

namespace {
constexpr Refusal kUnsupported = "functions are not patched on this architecture";
}

Refusal map_code_area(CodeArea&, std::uint64_t, std::uint64_t, std::size_t) noexcept { return kUnsupported; }
Refusal prepare_patch(CodeArea&, const unwind::Span&, std::uint64_t, std::uint64_t, const PatchedFunction*,
                      Patch&) noexcept {
  return kUnsupported;
}
void find_branches_into(const Patch*, std::size_t, const unwind::Span&, const unwind::Span&, bool*) noexcept {}
Refusal make_executable(CodeArea&) noexcept { return kUnsupported; }
Refusal reset(CodeArea&) noexcept { return kUnsupported; }
Refusal apply_patch(const Patch&, int) noexcept { return kUnsupported; }

}  // namespace heapprof::intercept
