#include "preload/intercept/allocator_functions.h"

#include <cstddef>
#include <initializer_list>

#include "common/c_string.h"
#include "preload/real/dynamic_symbols.h"

namespace heapprof::intercept {

namespace {

constexpr std::uint8_t kNone = kNoArgument;

struct Row {
  const char* name;
  Signature signature;
};

// The columns of a signature: kind, throws, pointer, size, count, perhaps alignment. One function per line.
// clang-format off

/// Functions of C and POSIX, which most allocators define with their prefix.
constexpr Row kCommon[] = {
    {"malloc", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"calloc", {Kind::kAllocate, false, kNone, 0, 1}},
    {"realloc", {Kind::kReallocate, false, 0, 1, kNone}},
    {"reallocarray", {Kind::kReallocate, false, 0, 1, 2}},
    {"free", {Kind::kFree, false, 0, kNone, kNone}},
    {"cfree", {Kind::kFree, false, 0, kNone, kNone}},
    {"free_sized", {Kind::kFree, false, 0, kNone, kNone}},
    {"free_aligned_sized", {Kind::kFree, false, 0, kNone, kNone}},
    {"posix_memalign", {Kind::kAllocateThroughPointer, false, 0, 2, kNone}},
    {"aligned_alloc", {Kind::kAllocate, false, kNone, 1, kNone, 0}},
    {"memalign", {Kind::kAllocate, false, kNone, 1, kNone, 0}},
    {"valloc", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"pvalloc", {Kind::kAllocate, false, kNone, 0, kNone}},
};

/// jemalloc(3), "Non-standard API".
constexpr Row kJemallocRows[] = {
    {"mallocx", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"rallocx", {Kind::kReallocate, false, 0, 1, kNone}},
    {"xallocx", {Kind::kResizeInPlace, false, 0, 1, kNone}},
    {"sdallocx", {Kind::kFree, false, 0, kNone, kNone}},
    {"dallocx", {Kind::kFree, false, 0, kNone, kNone}},
};

/// gperftools/tcmalloc.h.
constexpr Row kTcmallocRows[] = {
    {"malloc_skip_new_handler", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"new", {Kind::kAllocate, true, kNone, 0, kNone}},
    {"newarray", {Kind::kAllocate, true, kNone, 0, kNone}},
    {"new_aligned", {Kind::kAllocate, true, kNone, 0, kNone}},
    {"newarray_aligned", {Kind::kAllocate, true, kNone, 0, kNone}},
    {"new_nothrow", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"newarray_nothrow", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"new_aligned_nothrow", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"newarray_aligned_nothrow", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"delete", {Kind::kFree, false, 0, kNone, kNone}},
    {"deletearray", {Kind::kFree, false, 0, kNone, kNone}},
    {"delete_sized", {Kind::kFree, false, 0, kNone, kNone}},
    {"deletearray_sized", {Kind::kFree, false, 0, kNone, kNone}},
    {"delete_nothrow", {Kind::kFree, false, 0, kNone, kNone}},
    {"deletearray_nothrow", {Kind::kFree, false, 0, kNone, kNone}},
    {"delete_aligned", {Kind::kFree, false, 0, kNone, kNone}},
    {"deletearray_aligned", {Kind::kFree, false, 0, kNone, kNone}},
    {"delete_sized_aligned", {Kind::kFree, false, 0, kNone, kNone}},
    {"deletearray_sized_aligned", {Kind::kFree, false, 0, kNone, kNone}},
    {"delete_aligned_nothrow", {Kind::kFree, false, 0, kNone, kNone}},
    {"deletearray_aligned_nothrow", {Kind::kFree, false, 0, kNone, kNone}},
};

/// Google's tcmalloc: tcmalloc/libc_override.h.
constexpr Row kTcmallocInternalRows[] = {
    {"Malloc", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"Calloc", {Kind::kAllocate, false, kNone, 0, 1}},
    {"Realloc", {Kind::kReallocate, false, 0, 1, kNone}},
    {"Free", {Kind::kFree, false, 0, kNone, kNone}},
    {"New", {Kind::kAllocate, true, kNone, 0, kNone}},
    {"NewArray", {Kind::kAllocate, true, kNone, 0, kNone}},
    {"NewAligned", {Kind::kAllocate, true, kNone, 0, kNone}},
    {"NewNothrow", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"NewArrayNothrow", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"Delete", {Kind::kFree, false, 0, kNone, kNone}},
    {"DeleteArray", {Kind::kFree, false, 0, kNone, kNone}},
    {"DeleteSized", {Kind::kFree, false, 0, kNone, kNone}},
    {"DeleteArraySized", {Kind::kFree, false, 0, kNone, kNone}},
    {"DeleteAligned", {Kind::kFree, false, 0, kNone, kNone}},
    {"Memalign", {Kind::kAllocate, false, kNone, 1, kNone, 0}},
    {"PosixMemalign", {Kind::kAllocateThroughPointer, false, 0, 2, kNone}},
    {"Valloc", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"Pvalloc", {Kind::kAllocate, false, kNone, 0, kNone}},
};

/// mimalloc.h: functions that also exist with the prefix heap_ and a heap as first parameter. alloc_new has only that
/// form.
constexpr Row kMimallocHeapRows[] = {
    {"malloc", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"malloc_small", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"zalloc", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"calloc", {Kind::kAllocate, false, kNone, 0, 1}},
    {"mallocn", {Kind::kAllocate, false, kNone, 0, 1}},
    {"malloc_aligned", {Kind::kAllocate, false, kNone, 0, kNone, 1}},
    {"malloc_aligned_at", {Kind::kAllocate, false, kNone, 0, kNone, 1}},
    {"zalloc_aligned", {Kind::kAllocate, false, kNone, 0, kNone, 1}},
    {"zalloc_aligned_at", {Kind::kAllocate, false, kNone, 0, kNone, 1}},
    {"calloc_aligned", {Kind::kAllocate, false, kNone, 0, 1, 2}},
    {"calloc_aligned_at", {Kind::kAllocate, false, kNone, 0, 1, 2}},
    {"realloc", {Kind::kReallocate, false, 0, 1, kNone}},
    {"reallocn", {Kind::kReallocate, false, 0, 1, 2}},
    {"reallocf", {Kind::kReallocateOrFree, false, 0, 1, kNone}},
    {"rezalloc", {Kind::kReallocate, false, 0, 1, kNone}},
    {"recalloc", {Kind::kReallocate, false, 0, 1, 2}},
    {"realloc_aligned", {Kind::kReallocate, false, 0, 1, kNone}},
    {"realloc_aligned_at", {Kind::kReallocate, false, 0, 1, kNone}},
    {"rezalloc_aligned", {Kind::kReallocate, false, 0, 1, kNone}},
    {"rezalloc_aligned_at", {Kind::kReallocate, false, 0, 1, kNone}},
    {"recalloc_aligned", {Kind::kReallocate, false, 0, 1, 2}},
    {"recalloc_aligned_at", {Kind::kReallocate, false, 0, 1, 2}},
    {"alloc_new", {Kind::kAllocate, true, kNone, 0, kNone}},
    {"alloc_new_n", {Kind::kAllocate, true, kNone, 0, 1}},
    {"strdup", {Kind::kDuplicateString, false, 0, kNone, kNone}},
    {"strndup", {Kind::kDuplicateString, false, 0, 1, kNone}},
};

constexpr Row kMimallocRows[] = {
    {"mbsdup", {Kind::kDuplicateString, false, 0, kNone, kNone}},
    {"zalloc_small", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"free_size", {Kind::kFree, false, 0, kNone, kNone}},
    {"free_size_aligned", {Kind::kFree, false, 0, kNone, kNone}},
    {"free_aligned", {Kind::kFree, false, 0, kNone, kNone}},
    {"new", {Kind::kAllocate, true, kNone, 0, kNone}},
    {"new_aligned", {Kind::kAllocate, true, kNone, 0, kNone}},
    {"new_nothrow", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"new_aligned_nothrow", {Kind::kAllocate, false, kNone, 0, kNone}},
    {"new_n", {Kind::kAllocate, true, kNone, 0, 1}},
    {"new_realloc", {Kind::kReallocate, true, 0, 1, kNone}},
    {"new_reallocn", {Kind::kReallocate, true, 0, 1, 2}},
};

/// snmalloc for Rust: src/snmalloc/override/rust.cc.
constexpr Row kSnmallocRows[] = {
    {"rust_alloc", {Kind::kAllocate, false, kNone, 1, kNone}},
    {"rust_alloc_zeroed", {Kind::kAllocate, false, kNone, 1, kNone}},
    {"rust_realloc", {Kind::kReallocate, false, 0, 3, kNone}},
    {"rust_dealloc", {Kind::kFree, false, 0, kNone, kNone}},
};

// clang-format on

/// Of Rust, DuckDB and Apache Arrow, and of others that choose one.
constexpr const char* kJemallocPrefixes[] = {"_rjem_", "duckdb_je_", "je_arrow_", "je_"};
constexpr const char* kMimallocPrefix = "mi_";
constexpr const char* kMimallocHeapPrefix = "heap_";  ///< after kMimallocPrefix
constexpr const char* kTcmallocPrefix = "tc_";
constexpr const char* kTcmallocInternalPrefix = "TCMallocInternal";
constexpr const char* kSnmallocPrefix = "sn_";
constexpr const char* kScudoPrefix = "scudo_";

constexpr const char* kAlignment = "St11align_val_t";
constexpr const char* kNothrow = "RKSt9nothrow_t";

class HashTable {
  // Before the constructor: clang executes at compile time only what is defined already.
  template <std::size_t kRows>
  constexpr void add(const char* prefix, const Row (&rows)[kRows], const char* second = "") noexcept {
    for (const Row& row : rows) add_name(prefix, second, row.name);
  }

 public:
  constexpr HashTable() noexcept {
    for (const char* prefix : kJemallocPrefixes) {
      add(prefix, kCommon);
      add(prefix, kJemallocRows);
    }
    add(kMimallocPrefix, kMimallocHeapRows);
    add(kMimallocPrefix, kMimallocRows);
    add(kMimallocPrefix, kCommon);
    add(kMimallocPrefix, kMimallocHeapRows, kMimallocHeapPrefix);
    add(kTcmallocPrefix, kCommon);
    add(kTcmallocPrefix, kTcmallocRows);
    add(kTcmallocInternalPrefix, kTcmallocInternalRows);
    add(kSnmallocPrefix, kSnmallocRows);
    add(kSnmallocPrefix, kCommon);
    add(kScudoPrefix, kCommon);
    add("", kCommon);
    add("", kJemallocRows);
    first_operator_ = count_;
    for (const char* begin : {"_Znwm", "_Znam", "_ZdlPv", "_ZdlPvm", "_ZdaPv", "_ZdaPvm"})
      for (const char* alignment : {"", kAlignment})
        for (const char* nothrow : {"", kNothrow}) add_name(begin, alignment, nothrow);
  }
  constexpr NameHashes allocators() const noexcept { return {values_, first_operator_}; }
  constexpr NameHashes operators() const noexcept { return {values_ + first_operator_, count_ - first_operator_}; }
  constexpr bool may_end(std::uint32_t last) const noexcept {
    return (endings_[bit_of(last) / 64] >> bit_of(last) % 64 & 1) != 0;
  }
  constexpr std::uint64_t lengths(std::uint32_t last) const noexcept { return lengths_[bit_of(last) / 4]; }

 private:
  /// The name consists of three parts.
  constexpr void add_name(const char* one, const char* two, const char* three) noexcept {
    values_[count_++] = real::gnu_hash(three, real::gnu_hash(two, real::gnu_hash(one)));
    std::uint32_t last = 0;
    unsigned length = 0;
    for (const char* part : {one, two, three})
      for (; *part != '\0'; ++part, ++length)
        last = last >> 8 | std::uint32_t{static_cast<unsigned char>(*part)} << 24;
    endings_[bit_of(last) / 64] |= std::uint64_t{1} << bit_of(last) % 64;
    lengths_[bit_of(last) / 4] |= std::uint64_t{1} << (length - 1);
  }
  static constexpr std::uint32_t bit_of(std::uint32_t last) noexcept { return last * 0x9e3779b1 >> (32 - 12); }

  std::uint32_t values_[320] = {};
  std::size_t count_ = 0;
  std::size_t first_operator_ = 0;
  std::uint64_t endings_[(1u << 12) / 64] = {};  ///< a Bloom filter of the names' last four bytes
  /// For each four bits of the filter, the lengths of the names that set one of them.
  std::uint64_t lengths_[(1u << 12) / 4] = {};
};
constexpr HashTable kHashes;

template <std::size_t kRows>
const Row* find_row(const Row (&rows)[kRows], const char* name) noexcept {
  for (const Row& row : rows)
    if (text_equal(row.name, name)) return &row;
  return nullptr;
}

constexpr std::uint8_t shifted(std::uint8_t argument) noexcept {
  return argument == kNone ? kNone : static_cast<std::uint8_t>(argument + 1);
}

bool set(AllocatorFunction& result, const Row* row, Family family, std::uint8_t core = kCoreAll) noexcept {
  if (row == nullptr) return false;
  result = {row->signature, family, core};
  return true;
}

bool match_mimalloc(const char* name, AllocatorFunction& result) noexcept {
  if (const char* rest = after_prefix(name, kMimallocHeapPrefix)) {
    if (!set(result, find_row(kMimallocHeapRows, rest), Family::kMimalloc)) return false;
    Signature& signature = result.signature;
    signature.pointer = shifted(signature.pointer);
    signature.size = shifted(signature.size);
    signature.count = shifted(signature.count);
    signature.alignment = shifted(signature.alignment);
    return true;
  }
  return set(result, find_row(kMimallocHeapRows, name), Family::kMimalloc) ||
         set(result, find_row(kMimallocRows, name), Family::kMimalloc) ||
         set(result, find_row(kCommon, name), Family::kMimalloc);
}

/// Mangled names (Itanium C++ ABI 5.1.3): nw and na have a size as parameter, dl and da a pointer. A size (dl and da
/// only), an alignment and nothrow may follow.
bool match_operator(const char* name, AllocatorFunction& result) noexcept {
  const bool allocates = name[2] == 'n' && (name[3] == 'w' || name[3] == 'a') && name[4] == 'm';
  const bool frees = name[2] == 'd' && (name[3] == 'l' || name[3] == 'a') && name[4] == 'P' && name[5] == 'v';
  if (!allocates && !frees) return false;
  const char* rest = name + (allocates ? 5 : 6);
  if (frees && *rest == 'm') ++rest;
  if (const char* after = after_prefix(rest, kAlignment)) rest = after;
  const char* nothrow = after_prefix(rest, kNothrow);
  if (nothrow != nullptr) rest = nothrow;
  if (*rest != '\0') return false;
  result.family = Family::kOperator;
  result.core = 0;
  result.signature = allocates ? Signature{Kind::kAllocate, nothrow == nullptr, kNone, 0, kNone}
                               : Signature{Kind::kFree, false, 0, kNone, kNone};
  return true;
}

/// Whether the name of some allocator function begins with `character`. Names that begin with '_' are checked
/// separately.
bool is_first_character(char character) noexcept {
  constexpr const char* kLetters = "Tacdfjmprstvx";
  for (const char* at = kLetters; *at != '\0'; ++at)
    if (*at == character) return true;
  return false;
}

}  // namespace

bool find_allocator_function(const char* symbol, AllocatorFunction& result) noexcept {
  // Large programs have a million symbols, and most are rejected here.
  if (symbol[0] == '_') {
    if (symbol[1] == 'Z') return match_operator(symbol, result);
    if (symbol[1] != 'r') return false;
  } else if (!is_first_character(symbol[0])) {
    return false;
  }
  for (const char* prefix : kJemallocPrefixes)
    if (const char* rest = after_prefix(symbol, prefix))
      return set(result, find_row(kCommon, rest), Family::kJemalloc) ||
             set(result, find_row(kJemallocRows, rest), Family::kJemalloc);
  if (const char* rest = after_prefix(symbol, kMimallocPrefix)) return match_mimalloc(rest, result);
  if (const char* rest = after_prefix(symbol, kTcmallocPrefix))
    return set(result, find_row(kCommon, rest), Family::kTcmalloc) ||
           set(result, find_row(kTcmallocRows, rest), Family::kTcmalloc);
  if (const char* rest = after_prefix(symbol, kTcmallocInternalPrefix))
    return set(result, find_row(kTcmallocInternalRows, rest), Family::kTcmalloc);
  if (const char* rest = after_prefix(symbol, kSnmallocPrefix))
    return set(result, find_row(kSnmallocRows, rest), Family::kSnmalloc) ||
           set(result, find_row(kCommon, rest), Family::kSnmalloc);
  if (const char* rest = after_prefix(symbol, kScudoPrefix))
    return set(result, find_row(kCommon, rest), Family::kScudo);
  std::uint8_t core = 0;
  if (text_equal(symbol, "malloc")) core = kCoreMalloc;
  else if (text_equal(symbol, "free")) core = kCoreFree;
  else if (text_equal(symbol, "calloc") || text_equal(symbol, "realloc")) core = kCoreCallocOrRealloc;
  if (!set(result, find_row(kCommon, symbol), Family::kPlain, core))
    return set(result, find_row(kJemallocRows, symbol), Family::kPlain, 0);
  result.is_memalign = text_equal(symbol, "memalign");
  return true;
}

NameHashes operator_name_hashes() noexcept { return kHashes.operators(); }

NameHashes allocator_name_hashes() noexcept { return kHashes.allocators(); }

bool may_end_allocator_name(std::uint32_t last) noexcept { return kHashes.may_end(last); }

std::uint64_t allocator_name_lengths(std::uint32_t last) noexcept { return kHashes.lengths(last); }

const char* family_name(Family family) noexcept {
  switch (family) {
    case Family::kJemalloc: return "jemalloc";
    case Family::kTcmalloc: return "tcmalloc";
    case Family::kMimalloc: return "mimalloc";
    case Family::kSnmalloc: return "snmalloc";
    case Family::kScudo: return "scudo";
    case Family::kPlain: return "an allocator with libc's function names";
    case Family::kOperator: return "operator new";
  }
  return "";
}

}  // namespace heapprof::intercept
