#include "preload/intercept/object_examiner.h"

#include <cstddef>

#include "common/c_string.h"
#include "preload/intercept/allocator_strings.h"
#include "preload/intercept/python_mimalloc.h"

namespace heapprof::intercept {

/// Stores the path of the mapping. Before Linux 6.11, reads /proc/self/maps up to the mapping's line.
bool ObjectExaminer::find_mapped_path(const link_map& map, sys::GuardedReader& reader,
                                      sys::Mapping& mapping) noexcept {
  path_is_mapped_ = true;
  return reader.find_mapping(reinterpret_cast<std::uint64_t>(map.l_ld), mapping, path_, sizeof path_) &&
         path_[0] == '/';
}

/// Uses the loader's name if it is an absolute path, because the cost of reading /proc/self/maps grows with the
/// number of mappings.
bool ObjectExaminer::find_path(const link_map& map, sys::GuardedReader& reader) noexcept {
  path_is_mapped_ = false;
  sys::Mapping mapping;
  return (reader.read_string(map.l_name, path_, sizeof path_) && path_[0] == '/') ||
         find_mapped_path(map, reader, mapping);
}

bool ObjectExaminer::is_libc() const noexcept {
  const char* name = base_name(path_);
  return after_prefix(name, "libc.so.") != nullptr || after_prefix(name, "libc-2.") != nullptr ||
         after_prefix(name, "ld-linux") != nullptr || after_prefix(name, "ld-2.") != nullptr;
}

/// When the file with the loader's name has functions to patch and is not the one that is mapped, the mapped one is
/// read instead: the file with that name may be a newer one.
bool ObjectExaminer::read_symbols(const link_map& map, sys::GuardedReader& reader, bool is_main) noexcept {
  const auto read = [&] {
    constexpr std::size_t kFirst = offsetof(ObjectSymbols, count);
    __builtin_memset(reinterpret_cast<char*>(&symbols_) + kFirst, 0, sizeof symbols_ - kFirst);
    return read_object_symbols(path_, map, reader, scratch_, {!object_loads_others_, is_main}, symbols_);
  };
  if (!read()) return false;
  if (path_is_mapped_ || symbols_.count == 0) return true;
  if (symbols_.mapped_file.inode != 0 && symbols_.mapped_file == symbols_.file) return true;
  sys::Mapping mapping;
  if (!find_mapped_path(map, reader, mapping)) return false;
  return symbols_.file == sys::FileIdentity{mapping.device, mapping.inode} || read();
}

/// Whether the object, in which no allocator function is found, may contain an allocator whose symbols are stripped.
/// The allocators that are recognised by strings return unused memory by madvise, so an object without this import
/// does not contain them, and its file, which may have many MB, is not read.
bool ObjectExaminer::may_have_known_strings(bool is_main) const noexcept {
  return is_main && !symbols_.names_functions && (symbols_.imports_madvise || !symbols_.imports_known);
}

/// Stores the functions that are to be patched to selected_, and their number to `count`. Returns their family.
Family ObjectExaminer::select(std::size_t& count) noexcept {
  const bool has_plain_allocator = symbols_.core == kCoreAll;
  bool has_prefixed_allocator = false;
  for (std::size_t i = 0; i < symbols_.count; ++i)
    has_prefixed_allocator |= symbols_.functions[i].allocator.family < Family::kPlain;
  Family result = Family::kPlain;
  bool has_mallocx = false;
  count = 0;
  for (std::size_t i = 0; i < symbols_.count; ++i) {
    const FunctionSymbol& function = symbols_.functions[i];
    const Family family = function.allocator.family;
    if (family == Family::kPlain && !has_plain_allocator) continue;
    // Without an allocator in the object, operator new calls malloc and is recorded there. With one, it may bypass
    // malloc.
    if (family == Family::kOperator && !has_prefixed_allocator && !has_plain_allocator) continue;
    if (family < Family::kPlain) result = family;
    if (family == Family::kPlain && text_equal(function.name, "mallocx")) has_mallocx = true;
    if (function.indirect) {
      report_.skip(function, "an IFUNC resolver chooses it when the program starts");
      continue;
    }
    bool known = false;
    for (std::size_t j = 0; j < count; ++j) known |= selected_[j]->address == function.address;
    if (!known) selected_[count++] = &function;
  }
  return result == Family::kPlain && has_mallocx ? Family::kJemalloc : result;
}

void ObjectExaminer::examine(const link_map& map, sys::GuardedReader& reader, bool is_main, Role role,
                             bool no_thread_inside) noexcept {
  report_.begin(path_, role);
  if (!read_symbols(map, reader, is_main)) return;
  if (role == Role::kOther) object_loads_others_ |= symbols_.imports_dlopen;
  std::size_t count;
  const Family family = select(count);
  if (count == 0) {
    report_.note_skipped();
    const char* allocator = may_have_known_strings(is_main) ? find_allocator_by_strings(path_) : nullptr;
    if (allocator == nullptr) return;
    if (text_equal(allocator, "mimalloc") && python_leaves_mimalloc_unused(map, reader)) return;
    report_.note_stripped(allocator);
    return;
  }
  if (symbols_.has_sanitizer) return report_.skip_all("it belongs to a sanitizer");
  if (!no_thread_inside) return report_.skip_all("other threads were already running when it was found");
  const std::size_t patched = patcher_.patch(symbols_, selected_, count, role, report_);
  if (patched == 0 && report_.skipped() == 0) return;
  const char* allocator = role == Role::kOtherNamespaceLibc ? "the libc of another namespace" : family_name(family);
  report_.note_patched(allocator, selected_, patched);
  report_.note_skipped();
}

}  // namespace heapprof::intercept
