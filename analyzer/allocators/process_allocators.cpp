#include "analyzer/allocators/process_allocators.h"

#include <optional>
#include <string_view>
#include <utility>

#include "analyzer/allocators/jemalloc.h"
#include "analyzer/base/base_name.h"

namespace heapprof::allocators {
namespace {

/// More than any heap, less than the distance from a program to its mappings.
constexpr std::uint64_t kMaxBrkHeap = std::uint64_t{1} << 40;

struct Found {
  Allocator allocator = Allocator::kUnknown;
  std::string name;  ///< as the user knows it: "libjemalloc.so.2"
};

/// An allocator in a library of its own.
std::optional<Found> library_allocator(const std::string& path) {
  const std::string file = base_name(path);
  const auto begins = [&](std::string_view name) { return file.starts_with(name); };
  if (begins("libjemalloc")) return Found{Allocator::kJemalloc, file};
  // The debugging variants add headers and fences.
  if (begins("libtcmalloc"))
    return Found{file.find("_debug") == file.npos ? Allocator::kTcmalloc : Allocator::kUnknown, file};
  if (begins("libmimalloc"))
    return Found{file.find("-debug") == file.npos && file.find("-secure") == file.npos ? Allocator::kMimalloc
                                                                                       : Allocator::kUnknown,
                 file};
  for (const std::string_view name : {"libsnmalloc", "libscudo", "librpmalloc", "libhoard", "ld-musl", "libc.musl"})
    if (begins(name)) return Found{Allocator::kUnknown, file};
  return std::nullopt;
}

/// An allocator in the recorder's note "embedded allocator: jemalloc in /opt/server, 6 functions patched (...)".
std::optional<Found> embedded_allocator(std::string_view note) {
  constexpr std::string_view kBegin = "embedded allocator: ";
  if (!note.starts_with(kBegin)) return std::nullopt;
  note.remove_prefix(kBegin.size());
  const std::size_t in = note.find(" in ");
  if (in == note.npos) return std::nullopt;
  const std::string_view name = note.substr(0, in);
  const std::string_view path = note.substr(in + 4, note.find(", ", in) - in - 4);
  // A library that calls libc's functions directly: these are patched, too.
  if (base_name(std::string(path)).starts_with("libc.so")) return std::nullopt;
  if (auto library = library_allocator(std::string(path))) return library;
  const bool googles = note.find("TCMallocInternal") != note.npos;
  Allocator allocator = Allocator::kUnknown;
  if (name == "jemalloc") allocator = Allocator::kJemalloc;
  else if (name == "tcmalloc" && !googles) allocator = Allocator::kTcmalloc;
  else if (name == "mimalloc") allocator = Allocator::kMimalloc;
  return Found{allocator, std::string(name)};
}

}  // namespace

ProcessAllocators::ProcessAllocators(const model::Profile& profile) {
  std::optional<Found> found;
  bool several = false;
  const auto add = [&](std::optional<Found> one) {
    if (!one) return;
    several |= found && found->allocator != one->allocator;
    if (!found) found = std::move(one);
  };
  for (const std::string& note : profile.integrity.notes) add(embedded_allocator(note));
  for (const model::Module& module : profile.modules) {
    std::optional<Found> library = library_allocator(module.path);
    if (library && (!found || (library_.empty() && library->allocator == found->allocator))) library_ = module.path;
    add(std::move(library));
  }
  for (const model::Module& module : profile.modules)
    if (module.is_main && brk_bytes_ == 0) {
      brk_begin_ = module.first_address + module.map_bytes;
      brk_bytes_ = kMaxBrkHeap;
    }
  const Allocator allocator = found ? found->allocator : Allocator::kGlibc;
  main_ = make_model(allocator);
  if (allocator == Allocator::kJemalloc || allocator == Allocator::kMimalloc) libc_ = make_model(Allocator::kGlibc);
  if (allocator == Allocator::kUnknown)
    note_ = "the size classes of " + found->name + " are unknown: a block is taken to keep the pages of its bytes";
  else if (several)
    note_ =
        "the process has several allocators; all blocks outside the brk heap are taken to be those of " + found->name;
}

void ProcessAllocators::finish_blocks() {
  // A few may be those of a custom pool within a block.
  constexpr std::uint64_t kMinPart = 100;
  if (odd_blocks_ != 0 && odd_blocks_ >= blocks_ / kMinPart) set_small_quantum();
}

void ProcessAllocators::set_small_quantum() {
  if (main() != Allocator::kJemalloc) return;
  main_ = std::make_unique<Jemalloc>(8);
  small_quantum_ = true;
}

}  // namespace heapprof::allocators
