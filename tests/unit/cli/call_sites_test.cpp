// Which frames of a stack only pass memory on, by names as demanglers print them.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "analyzer/cli/text/call_sites.h"

using namespace heapprof::cli;

namespace {

std::vector<Frame> stack_of(const std::vector<std::string>& functions) {
  std::vector<Frame> stack;
  for (const std::string& function : functions) stack.emplace_back().function = function;
  return stack;
}

}  // namespace

TEST_CASE("allocation functions and containers of C, C++ and Rust are machinery") {
  for (const std::string name :
       {"malloc", "g_realloc_n", "_PyObject_Malloc", "xstrdup", "operator new(unsigned long)",
        "std::vector<int, std::allocator<int> >::push_back(int const&)",
        "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)",
        // Demanglers print function templates with their return type, which may be any type.
        "std::pair<std::__detail::_Node_iterator<std::pair<int const, mine::S>, false, false>, bool> "
        "std::_Hashtable<int, std::pair<int const, mine::S> >::_M_emplace<int, mine::S>(std::integral_constant<bool, "
        "true>, int&&, mine::S&&)",
        "mine::S& std::vector<mine::S, std::allocator<mine::S> >::emplace_back<int>(int&&)",
        "int* std::__uninitialized_copy_a<int const*, int*, int>(int const*, int const*, int*, std::allocator<int>&)",
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > std::operator+<char, "
        "std::char_traits<char>, std::allocator<char> >(char const*, std::__cxx11::basic_string<char> const&)",
        "decltype (::new ((void*)(0)) mine::S()) std::construct_at<mine::S>(mine::S*)",
        "void (*std::vector<void (*)(int), std::allocator<void (*)(int)> >::pick<int>(int))(int)",
        "std::__1::vector<int, std::__1::allocator<int> >::push_back(int&&)",
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

TEST_CASE("the program's own functions are not machinery") {
  for (const std::string name :
       {// The return type of a function template is not the caller.
        "std::vector<int, std::allocator<int> > mine::collect<int>(int)",
        "std::_Hashtable<int, int>::iterator mine::find<int>(int)",
        "std::map<int, int> (*mine::pick<int>(int))(char)",
        "std::__cxx11::basic_string<char> operator+<mine::S>(mine::S const&, char const*)",
        "std::unordered_map<int, int>& mine::Table::operator<< <int>(int)",
        "main",
        "allocate_table",
        "Pool::malloc_block()",
        "coreutils::main",
        "allocation::site",
        "stdlib::sort",
        "ripgrep::search::run",
        "<ripgrep::args::Args as core::clone::Clone>::clone",
        "<Type as core::clone::Clone>::clone",
        "std::function<void (int)>::operator()(int) const",
        "std::thread::_State_impl<std::thread::_Invoker<std::tuple<main::{lambda()#1}> > >::_M_run()",
        "<mine::Table<T> as core::iter::traits::collect::FromIterator<T>>::from_iter",
        "std::thread::spawn",
        "std::filesystem::__cxx11::path::_M_split_cmpts()",
        "alloc",
        "core",
        "<",
        "",
        "<&"}) {
    INFO(name);
    CHECK_FALSE(is_allocation_machinery(name));
  }
}

TEST_CASE("a stack's call site is its first frame outside the machinery") {
  CHECK(frames_of_machinery(stack_of(
            {"__rust_alloc", "alloc::alloc::alloc", "alloc::raw_vec::finish_grow", "mine::grow", "main"})) == 3);
  CHECK(call_site_of(stack_of({"operator new(unsigned long)", "load(char const*)", "main"})).function ==
        "load(char const*)");
  CHECK(frames_of_machinery(stack_of({"main"})) == 0);
  // The outermost frame always remains.
  CHECK(frames_of_machinery(stack_of({"malloc", "xmalloc"})) == 1);
}

TEST_CASE("functions that only pass memory on are not call sites") {
  for (const char* name :
       {"malloc", "xmalloc", "g_realloc_n", "operator new(unsigned long)", "os::malloc(unsigned long, MEMFLAGS)",
        "os::malloc()", "AllocateHeap(unsigned long, MEMFLAGS, AllocFailStrategy::AllocFailEnum)",
        "v8::internal::AlignedAllocWithRetry()"})
    CHECK(heapprof::cli::is_allocation_machinery(name));
  for (const char* name :
       {"main", "Statistics::of_malloc(int)", "Cache<malloc>::fill()", "parse(malloc::State&)", "AllocateHeaps()"})
    CHECK_FALSE(heapprof::cli::is_allocation_machinery(name));
}
