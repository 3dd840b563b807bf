// Names of allocator functions, and the positions of their arguments.
#include "preload/intercept/allocator_functions.h"

#include <catch2/catch.hpp>

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
  CHECK(find("je_aligned_alloc").signature == Signature{Kind::kAllocate, false, kNoArgument, 1, kNoArgument});
  CHECK(find("posix_memalign").signature == Signature{Kind::kAllocateThroughPointer, false, 0, 2, kNoArgument});
  CHECK(find("mi_recalloc").signature == Signature{Kind::kReallocate, false, 0, 1, 2});
  CHECK(find("sn_rust_realloc").signature == Signature{Kind::kReallocate, false, 0, 3, kNoArgument});
  CHECK(find("tc_new").signature.throws);
}

TEST_CASE("the arguments of mimalloc's functions with a heap follow the heap") {
  CHECK(find("mi_heap_recalloc").signature == Signature{Kind::kReallocate, false, 1, 2, 3});
  CHECK(find("mi_heap_strndup").signature == Signature{Kind::kDuplicateString, false, 1, 2, kNoArgument});
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
