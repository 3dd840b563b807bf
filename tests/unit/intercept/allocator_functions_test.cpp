// Names of allocator functions, and the positions of their arguments.
#include "preload/intercept/allocator_functions.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <set>
#include <string>
#include <vector>

using namespace heapprof::intercept;

namespace {

AllocatorFunction find(const char* symbol) {
  AllocatorFunction function{};
  REQUIRE(find_allocator_function(symbol, function));
  return function;
}

bool is_unknown(const char* symbol) {
  AllocatorFunction function{};
  return !find_allocator_function(symbol, function);
}

}  // namespace

TEST_CASE("prefixes name the family") {
  CHECK(find("_rjem_malloc").family == Family::kJemalloc);
  CHECK(find("je_sdallocx").family == Family::kJemalloc);
  CHECK(find("duckdb_je_malloc").family == Family::kJemalloc);
  CHECK(find("je_arrow_rallocx").family == Family::kJemalloc);
  CHECK(find("tc_newarray_nothrow").family == Family::kTcmalloc);
  CHECK(find("TCMallocInternalNewAligned").family == Family::kTcmalloc);
  CHECK(find("mi_rezalloc_aligned").family == Family::kMimalloc);
  CHECK(find("sn_rust_alloc").family == Family::kSnmalloc);
  CHECK(find("scudo_posix_memalign").family == Family::kScudo);
  CHECK(find("malloc").family == Family::kPlain);
  CHECK(find("mallocx").family == Family::kPlain);
}

TEST_CASE("signatures give the numbers of the arguments") {
  CHECK(find("calloc").signature == Signature{Kind::kAllocate, false, kNoArgument, 0, 1});
  CHECK(find("je_aligned_alloc").signature == Signature{Kind::kAllocate, false, kNoArgument, 1, kNoArgument, 0});
  CHECK(find("TCMallocInternalMemalign").signature ==
        Signature{Kind::kAllocate, false, kNoArgument, 1, kNoArgument, 0});
  CHECK(find("mi_calloc_aligned_at").signature == Signature{Kind::kAllocate, false, kNoArgument, 0, 1, 2});
  CHECK(find("posix_memalign").signature == Signature{Kind::kAllocateThroughPointer, false, 0, 2, kNoArgument});
  CHECK(find("mi_recalloc").signature == Signature{Kind::kReallocate, false, 0, 1, 2});
  CHECK(find("sn_rust_realloc").signature == Signature{Kind::kReallocate, false, 0, 3, kNoArgument});
  CHECK(find("tc_new").signature.throws);
}

TEST_CASE("libc's memalign is distinguished from functions that refuse the alignment 0") {
  CHECK(find("memalign").is_memalign);
  for (const char* name : {"aligned_alloc", "malloc", "je_memalign", "mi_memalign", "TCMallocInternalMemalign"})
    CHECK_FALSE(find(name).is_memalign);
}

TEST_CASE("the arguments of mimalloc's functions with a heap follow the heap") {
  CHECK(find("mi_heap_recalloc").signature == Signature{Kind::kReallocate, false, 1, 2, 3});
  CHECK(find("mi_heap_strndup").signature == Signature{Kind::kDuplicateString, false, 1, 2, kNoArgument});
  CHECK(find("mi_heap_zalloc_aligned").signature ==
        Signature{Kind::kAllocate, false, kNoArgument, 1, kNoArgument, 2});
  CHECK(is_unknown("mi_heap_free"));
}

TEST_CASE("operators new and delete are recognised by their mangled names") {
  for (const char* name : {"_Znwm", "_Znam", "_ZnwmSt11align_val_t"}) {
    CHECK(find(name).signature == Signature{Kind::kAllocate, true, kNoArgument, 0, kNoArgument});
    CHECK(find(name).family == Family::kOperator);
  }
  CHECK(!find("_ZnwmRKSt9nothrow_t").signature.throws);
  for (const char* name : {"_ZdlPv", "_ZdaPvm", "_ZdlPvmSt11align_val_t", "_ZdlPvRKSt9nothrow_t"})
    CHECK(find(name).signature.kind == Kind::kFree);
  CHECK(is_unknown("_ZnwmPv"));  // placement new
  CHECK(is_unknown("_ZN3Foo4freeEPv"));
}

TEST_CASE("malloc, free and calloc or realloc together make an allocator") {
  CHECK((find("malloc").core | find("free").core | find("calloc").core) == kCoreAll);
  CHECK((find("malloc").core | find("free").core | find("realloc").core) == kCoreAll);
  CHECK((find("malloc").core | find("free").core | find("memalign").core) != kCoreAll);
}

TEST_CASE("other names are unknown") {
  for (const char* name : {"", "_", "__malloc", "mallocate", "je_", "je_mallocs", "mi_version", "freeaddrinfo"})
    CHECK(is_unknown(name));
}

TEST_CASE("Every name of an allocator function has one of the hashes") {
  std::set<std::uint32_t> known;
  for (const NameHashes& hashes : {allocator_name_hashes(), operator_name_hashes()})
    known.insert(hashes.values, hashes.values + hashes.count);
  const auto has_hash = [&](const std::string& name) {
    std::uint32_t hash = 5381;  // as in the GNU hash table
    for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
    return known.count(hash) != 0;
  };
  // All names from these parts are tried; find_allocator_function() decides which are known.
  std::vector<std::string> words{"",
                                 "malloc",
                                 "calloc",
                                 "realloc",
                                 "free",
                                 "cfree",
                                 "align",
                                 "aligned",
                                 "memalign",
                                 "posix",
                                 "alloc",
                                 "valloc",
                                 "pvalloc",
                                 "sized",
                                 "size",
                                 "at",
                                 "zalloc",
                                 "small",
                                 "mallocn",
                                 "recalloc",
                                 "reallocn",
                                 "reallocf",
                                 "rezalloc",
                                 "new",
                                 "delete",
                                 "newarray",
                                 "deletearray",
                                 "nothrow",
                                 "n",
                                 "heap",
                                 "rust",
                                 "dealloc",
                                 "zeroed",
                                 "strdup",
                                 "strndup",
                                 "mbsdup",
                                 "mallocx",
                                 "rallocx",
                                 "xallocx",
                                 "sdallocx",
                                 "dallocx",
                                 "reallocarray",
                                 "skip",
                                 "handler",
                                 "Malloc",
                                 "New",
                                 "NewArray",
                                 "Delete",
                                 "DeleteArray",
                                 "DeleteSized",
                                 "Free",
                                 "Calloc",
                                 "Realloc",
                                 "Memalign",
                                 "PosixMemalign",
                                 "Valloc",
                                 "Pvalloc",
                                 "NewAligned",
                                 "NewNothrow",
                                 "NewArrayNothrow",
                                 "DeleteArraySized",
                                 "DeleteAligned",
                                 "reallocarr"};
  std::vector<std::string> names{"malloc_skip_new_handler",   "free_aligned_sized",
                                 "malloc_aligned_at",         "zalloc_aligned_at",
                                 "calloc_aligned_at",         "realloc_aligned_at",
                                 "rezalloc_aligned_at",       "recalloc_aligned_at",
                                 "rust_alloc_zeroed",         "alloc_new_n",
                                 "new_aligned_nothrow",       "newarray_aligned_nothrow",
                                 "delete_sized_aligned",      "delete_aligned_nothrow",
                                 "deletearray_sized_aligned", "deletearray_aligned_nothrow",
                                 "free_size_aligned"};
  for (const std::string& first : words)
    for (const std::string& second : words) names.push_back(second.empty() ? first : first + "_" + second);
  std::set<std::string> found;
  for (const std::string prefix : {"", "_rjem_", "duckdb_je_", "je_arrow_", "je_", "mi_", "mi_heap_", "tc_",
                                   "TCMallocInternal", "sn_", "scudo_"})
    for (const std::string& name : names) {
      if (is_unknown((prefix + name).c_str())) continue;
      found.insert(prefix + name);
      INFO(prefix + name);
      CHECK(has_hash(prefix + name));
    }
  for (const std::string begin : {"_Znwm", "_Znam", "_ZdlPv", "_ZdlPvm", "_ZdaPv", "_ZdaPvm", "_Znwmm"})
    for (const std::string alignment : {"", "St11align_val_t"})
      for (const std::string nothrow : {"", "RKSt9nothrow_t"}) {
        if (is_unknown((begin + alignment + nothrow).c_str())) continue;
        found.insert(begin + alignment + nothrow);
        CHECK(has_hash(begin + alignment + nothrow));
      }
  CHECK(found.size() == known.size());
  const auto may_end = [](const std::string& last) {
    std::uint32_t word;
    std::memcpy(&word, last.data(), sizeof word);
    return may_end_allocator_name(word);
  };
  const auto lengths = [](const std::string& last) {
    std::uint32_t word;
    std::memcpy(&word, last.data(), sizeof word);
    return allocator_name_lengths(word);
  };
  for (const std::string& name : found) {
    INFO(name);
    REQUIRE(name.size() >= sizeof(std::uint32_t));
    const std::string last = name.substr(name.size() - sizeof(std::uint32_t));
    CHECK(may_end(last));
    CHECK((lengths(last) >> (name.size() - 1) & 1) != 0);
  }
  int others = 0;
  for (std::uint32_t i = 0; i < 10'000; ++i) others += may_end(std::to_string(10'000 + i).substr(1));
  CHECK(others < 300);
}
