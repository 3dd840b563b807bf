#include "analyzer/allocators/allocator_model.h"

#include "analyzer/allocators/glibc.h"
#include "analyzer/allocators/jemalloc.h"
#include "analyzer/allocators/mimalloc.h"
#include "analyzer/allocators/tcmalloc.h"

namespace heapprof::allocators {
namespace {

class Pages final : public AllocatorModel {
 public:
  Allocator allocator() const noexcept override { return Allocator::kUnknown; }
  std::uint64_t usable_bytes(std::uint64_t, std::uint64_t requested_bytes) const noexcept override {
    return requested_bytes;
  }
  AddressRange kept_range(std::uint64_t address, std::uint64_t requested_bytes) const noexcept override {
    return {round_down(address, kPageBytes), round_up(address + (requested_bytes | 1), kPageBytes)};
  }
  bool is_unmapped_by_free(std::uint64_t, std::uint64_t) const noexcept override { return false; }
};

}  // namespace

std::unique_ptr<const AllocatorModel> make_model(Allocator allocator) {
  switch (allocator) {
    case Allocator::kGlibc: return std::make_unique<Glibc>();
    case Allocator::kJemalloc: return std::make_unique<Jemalloc>();
    case Allocator::kTcmalloc: return std::make_unique<Tcmalloc>();
    case Allocator::kMimalloc: return std::make_unique<Mimalloc>();
    case Allocator::kUnknown: break;
  }
  return std::make_unique<Pages>();
}

const char* name_of(Allocator allocator) noexcept {
  switch (allocator) {
    case Allocator::kGlibc: return "glibc";
    case Allocator::kJemalloc: return "jemalloc";
    case Allocator::kTcmalloc: return "tcmalloc";
    case Allocator::kMimalloc: return "mimalloc";
    case Allocator::kUnknown: break;
  }
  return "unknown";
}

std::string trim_call(Allocator allocator) {
  switch (allocator) {
    case Allocator::kGlibc: return "malloc_trim(0)";
    case Allocator::kJemalloc: return "mallctl(\"arena.\" STRINGIFY(MALLCTL_ARENAS_ALL) \".purge\", ...)";
    case Allocator::kTcmalloc: return "MallocExtension::ReleaseFreeMemory()";
    case Allocator::kMimalloc: return "mi_collect(true)";
    case Allocator::kUnknown: break;
  }
  return "a trim, if the allocator has one,";
}

bool returns_memory_by_itself(Allocator allocator) noexcept {
  return allocator == Allocator::kJemalloc || allocator == Allocator::kTcmalloc || allocator == Allocator::kMimalloc;
}

}  // namespace heapprof::allocators
