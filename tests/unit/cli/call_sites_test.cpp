// Which frames of a stack only pass memory on, by names as demanglers print them.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "analyzer/cli/call_sites.h"

using namespace heapprof::cli;

namespace {

std::vector<Frame> stack_of(const std::vector<std::string>& functions) {
  std::vector<Frame> stack;
  for (const std::string& function : functions) stack.emplace_back().function = function;
  return stack;
}

}  // namespace

TEST_CASE("the languages' own ways to memory are machinery") {
  for (const std::string name :
       {"malloc", "g_realloc_n", "_PyObject_Malloc", "xstrdup", "operator new(unsigned long)",
        "std::vector<int, std::allocator<int> >::push_back(int const&)",
        "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)",
        // As of Rust 1.63 to 1.80, both manglings.
        "alloc::alloc::alloc", "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
        "alloc::raw_vec::RawVec<T,A>::allocate_in", "alloc::raw_vec::RawVecInner<A>::try_allocate_in",
        "alloc::raw_vec::finish_grow", "<alloc::string::String as core::clone::Clone>::clone",
        "<T as alloc::slice::hack::ConvertVec>::to_vec", "<u8 as alloc::slice::hack::ConvertVec>::to_vec",
        "<str as alloc::borrow::ToOwned>::to_owned", "alloc::str::<impl alloc::borrow::ToOwned for str>::to_owned",
        "<[u8] as alloc::slice::Join<&[u8]>>::join", "core::iter::traits::iterator::Iterator::collect",
        "<core::iter::adapters::map::Map<I,F> as core::iter::traits::iterator::Iterator>::fold",
        "<hashbrown::raw::RawTable<T,A>>::reserve_rehash", "hashbrown::raw::RawTableInner<A>::new_uninitialized",
        "std::collections::hash::map::HashMap<K,V,S>::insert", "__rust_alloc", "__rdl_realloc", "__rg_alloc",
        "<I as core::iter::traits::collect::IntoIterator>::into_iter",
        "<&mut I as core::iter::traits::iterator::Iterator>::next"}) {
    INFO(name);
    CHECK(is_allocation_machinery(name));
  }
}

TEST_CASE("what the program wrote is not machinery") {
  for (const std::string name :
       {"main", "allocate_table", "Pool::malloc_block()", "coreutils::main", "allocation::site", "stdlib::sort",
        "ripgrep::search::run", "<ripgrep::args::Args as core::clone::Clone>::clone",
        "<Type as core::clone::Clone>::clone",
        "<mine::Table<T> as core::iter::traits::collect::FromIterator<T>>::from_iter", "std::thread::spawn",
        "std::filesystem::__cxx11::path::_M_split_cmpts()", "alloc", "core", "<", "", "<&"}) {
    INFO(name);
    CHECK_FALSE(is_allocation_machinery(name));
  }
}

TEST_CASE("a stack's site is the first frame that is none") {
  CHECK(frames_of_machinery(stack_of(
            {"__rust_alloc", "alloc::alloc::alloc", "alloc::raw_vec::finish_grow", "mine::grow", "main"})) == 3);
  CHECK(call_site_of(stack_of({"operator new(unsigned long)", "load(char const*)", "main"})).function ==
        "load(char const*)");
  CHECK(frames_of_machinery(stack_of({"main"})) == 0);
  // One is always left.
  CHECK(frames_of_machinery(stack_of({"malloc", "xmalloc"})) == 1);
}
