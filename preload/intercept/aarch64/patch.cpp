#include "patch.h"

extern "C" constinit const char heapprof_intercept_returned[1] = {};

namespace heapprof::arch {

namespace {
constexpr Refusal kNotHere = "on this architecture functions are not diverted";
}

Refusal make_room(Room&, std::uint64_t, std::uint64_t, std::size_t) noexcept { return kNotHere; }
Refusal prepare(Room&, const unwind::Span&, std::uint64_t, std::uint64_t, intercept::Target&, Patch&) noexcept {
  return kNotHere;
}
void find_branches(const intercept::Symbols&, const Patch*, std::size_t, bool*) noexcept {}
Refusal seal(Room&) noexcept { return kNotHere; }
Refusal unseal(Room&) noexcept { return kNotHere; }
Refusal apply(const Patch&) noexcept { return kNotHere; }

}  // namespace heapprof::arch
