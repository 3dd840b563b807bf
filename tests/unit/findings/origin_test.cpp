// Where functions come from, by their names as demanglers print them, and by modules and source paths.
#include <catch2/catch.hpp>

#include <string>

#include "analyzer/findings/interpreter.h"
#include "analyzer/findings/origin.h"

using namespace heapprof::findings;

namespace {

/// Of a function of the program itself.
Origin origin_of(const std::string& function, const std::string& file = "") {
  const OriginRules rules("/home/user/build/program");
  return rules.of({function, file, "/home/user/build/program"});
}

Origin origin_of_module(const std::string& module, const std::string& program = "/home/user/build/program") {
  return OriginRules(program).of({"run", "", module});
}

}  // namespace

TEST_CASE("functions of standard libraries are recognised, whatever they return") {
  for (const std::string name :
       {"std::vector<int, std::allocator<int> >::push_back(int const&)",
        "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)",
        "std::pair<std::__detail::_Node_iterator<std::pair<int const, mine::S>, false, false>, bool> "
        "std::_Hashtable<int, std::pair<int const, mine::S> >::_M_emplace<int, mine::S>(std::integral_constant<bool, "
        "true>, int&&, mine::S&&)",
        "std::_Rb_tree_node<std::pair<int const, mine::S> >* std::_Rb_tree<int, std::pair<int const, mine::S> >::"
        "_M_create_node<int const&>(int const&)",
        "mine::S& std::vector<mine::S, std::allocator<mine::S> >::emplace_back<int>(int&&)",
        "decltype(auto) std::forward_like<mine::S&>(mine::S&)",
        "int* std::__uninitialized_copy_a<int const*, int*, int>(int const*, int const*, int*, std::allocator<int>&)",
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > std::operator+<char, "
        "std::char_traits<char>, std::allocator<char> >(char const*, std::__cxx11::basic_string<char> const&)",
        "decltype (::new ((void*)(0)) mine::S()) std::construct_at<mine::S>(mine::S*)",
        "void (*std::vector<void (*)(int), std::allocator<void (*)(int)> >::pick<int>(int))(int)",
        "std::__1::vector<int, std::__1::allocator<int> >::push_back(int&&)",
        "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
        "std::thread::_State_impl<std::thread::_Invoker<std::tuple<main::{lambda()#1}> > >::_M_run()",
        "std::filesystem::__cxx11::path::_M_split_cmpts()",
        // As of Rust 1.63 to 1.80, both manglings.
        "alloc::alloc::alloc", "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
        "alloc::raw_vec::RawVec<T,A>::allocate_in", "alloc::raw_vec::finish_grow",
        "<alloc::string::String as core::clone::Clone>::clone", "<T as alloc::slice::hack::ConvertVec>::to_vec",
        "<u8 as alloc::slice::hack::ConvertVec>::to_vec", "<str as alloc::borrow::ToOwned>::to_owned",
        "alloc::str::<impl alloc::borrow::ToOwned for str>::to_owned", "<[u8] as alloc::slice::Join<&[u8]>>::join",
        "core::iter::traits::iterator::Iterator::collect", "<hashbrown::raw::RawTable<T,A>>::reserve_rehash",
        "<core::iter::adapters::map::Map<I,F> as core::iter::traits::iterator::Iterator>::fold",
        "std::collections::hash::map::HashMap<K,V,S>::insert", "std::thread::spawn",
        "<I as core::iter::traits::collect::IntoIterator>::into_iter",
        "<&mut I as core::iter::traits::iterator::Iterator>::next",
        "<() as std::sys::thread_local::native::lazy::DestroyedState>::register_dtor",
        "<(A, B) as core::clone::Clone>::clone", "<[mine::Type; 4] as core::clone::Clone>::clone",
        "<fn(A) -> R as core::ops::function::FnOnce<(A,)>>::call_once",
        "<T as <alloc::ffi::c_str::CString>::new::SpecNewImpl>::spec_new_impl",
        "<<alloc::boxed::Box<str> as core::convert::From<&str>>::from as "
        "core::ops::function::FnOnce<(&str,)>>::call"}) {
    INFO(name);
    CHECK(is_of_standard_library(name));
    CHECK(origin_of(name) == Origin::kStandard);
  }
}

TEST_CASE("functions of the program are its own, whatever they return") {
  for (const std::string name :
       {"std::vector<int, std::allocator<int> > mine::collect<int>(int)",
        "std::_Hashtable<int, int>::iterator mine::find<int>(int)",
        "std::map<int, int> (*mine::pick<int>(int))(char)",
        "std::__cxx11::basic_string<char> operator+<mine::S>(mine::S const&, char const*)",
        "std::unordered_map<int, int>& mine::Table::operator<< <int>(int)", "main", "allocate_table",
        "mine::run()::{lambda(int)#1}::operator()(int) const", "coreutils::main", "allocation::site", "stdlib::sort",
        "ripgrep::search::run", "<ripgrep::args::Args as core::clone::Clone>::clone",
        "<Type as core::clone::Clone>::clone",
        "<mine::Table<T> as core::iter::traits::collect::FromIterator<T>>::from_iter",
        // Only the crate of a trait may implement it for types of the standard libraries.
        "<u8 as mine::Encode>::encode", "<str as mine::Encode>::encode", "<T as mine::Describe>::describe",
        "<&[T] as mine::Describe<u8>>::describe", "<() as mine::Describe>::describe",
        "<alloc::vec::Vec<T,A> as mine::Encode>::encode", "<core::option::Option<fn() -> T> as mine::Encode>::encode",
        "alloc", "core", "clone", "start", "<", "<&"}) {
    INFO(name);
    CHECK_FALSE(is_of_standard_library(name));
    CHECK(origin_of(name) == Origin::kOwn);
  }
}

TEST_CASE("allocation functions and start-up code belong to the runtime") {
  for (const std::string name : {"malloc", "calloc", "posix_memalign", "strdup", "operator new(unsigned long)",
                                 "operator new[](unsigned long)", "__rust_alloc", "__rdl_realloc", "__rg_alloc",
                                 "__rustc::__rdl_alloc", "__rustc[5224e6b81cd82a8f]::__rust_alloc"}) {
    INFO(name);
    CHECK(is_allocation_function(name));
    CHECK(origin_of(name) == Origin::kRuntime);
  }
  for (const std::string name : {"_start", "__libc_start_main", "__libc_start_call_main", "start_thread"}) {
    INFO(name);
    CHECK(is_start_up(name));
    CHECK(origin_of(name) == Origin::kRuntime);
  }
  CHECK(is_start_up("std::rt::lang_start::{{closure}}"));
  CHECK(is_start_up("std::sys_common::backtrace::__rust_begin_short_backtrace"));
  CHECK_FALSE(is_allocation_function("mine::operator new_thing"));
  CHECK_FALSE(is_start_up("start_server"));
}

TEST_CASE("wrappers of malloc are known by name") {
  for (const char* name :
       {"xmalloc", "g_realloc_n", "_PyObject_Malloc", "xstrdup",
        "ggc_internal_cleared_alloc(unsigned long, void (*)(void*))", "zcalloc_usable", "g_memdup2", "do_cache_alloc",
        "g_slice_alloc0", "memory_allocate", "os::malloc(unsigned long, MEMFLAGS)", "os::malloc()",
        "AllocateHeap(unsigned long, MEMFLAGS, AllocFailStrategy::AllocFailEnum)",
        "v8::internal::AlignedAllocWithRetry()", "<app::Counting as core::alloc::global::GlobalAlloc>::alloc_zeroed",
        "<app::Arena as allocator_api2::Allocator>::allocate"}) {
    INFO(name);
    CHECK(is_named_like_allocator(name));
  }
  for (const char* name :
       {"main", "Statistics::of_malloc(int)", "Cache<malloc>::fill()", "parse(malloc::State&)", "AllocateHeaps()",
        "Pool::malloc_block()", "allocate_table", "<app::Allocators as core::fmt::Debug>::fmt", "", "("}) {
    INFO(name);
    CHECK_FALSE(is_named_like_allocator(name));
  }
}

TEST_CASE("modules of the system are of the runtime, a standard library or a third party") {
  CHECK(origin_of_module("/home/user/build/program") == Origin::kOwn);
  CHECK(origin_of_module("/lib/x86_64-linux-gnu/libc.so.6") == Origin::kRuntime);
  CHECK(origin_of_module("/lib/x86_64-linux-gnu/libc-2.31.so") == Origin::kRuntime);
  CHECK(origin_of_module("/lib64/ld-linux-x86-64.so.2") == Origin::kRuntime);
  CHECK(origin_of_module("/lib/ld-musl-x86_64.so.1") == Origin::kRuntime);
  CHECK(origin_of_module("/usr/lib/libjemalloc.so.2") == Origin::kRuntime);
  CHECK(origin_of_module("/usr/lib/libtcmalloc_minimal.so.4") == Origin::kRuntime);
  CHECK(origin_of_module("/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30") == Origin::kStandard);
  CHECK(origin_of_module("/usr/lib/libstd-1a2b3c4d.so") == Origin::kStandard);
  CHECK(origin_of_module("/usr/lib/x86_64-linux-gnu/libcurl.so.4") == Origin::kThirdParty);
  CHECK(origin_of_module("/nix/store/abc-zlib/lib/libz.so") == Origin::kThirdParty);
  CHECK(origin_of_module("/home/user/env/lib/python3.11/site-packages/numpy/core.so") == Origin::kThirdParty);
  CHECK(origin_of_module("/home/user/build/libcore.so") == Origin::kOwn);
  CHECK(origin_of_module("/home/user/other/libcalendar.so") == Origin::kOwn);
  // Libraries beside a program are its own, unless it shares their folder with the whole system.
  CHECK(origin_of_module("/usr/lib/office/libsw.so", "/usr/lib/office/program") == Origin::kOwn);
  CHECK(origin_of_module("/usr/local/lib/libz.so", "/usr/local/bin/program") == Origin::kThirdParty);
  CHECK(origin_of_module("/opt/app/lib/libapp.so", "/opt/app/bin/app") == Origin::kOwn);
}

TEST_CASE("a Rust program that cargo installed is own code, its dependencies are not") {
  const std::string program = "/home/user/.cargo/bin/word-count";
  const std::string packages = "/home/user/.cargo/registry/src/index.crates.io-6f17d22bba15001f/";
  const OriginRules rules(program);
  const auto origin = [&](std::string_view function, const std::string& file) {
    return rules.of({function, file, program});
  };
  CHECK(origin("word_count::main", packages + "word-count-1.2.0/src/main.rs") == Origin::kOwn);
  CHECK(origin("<word_count::Table as core::clone::Clone>::clone", packages + "word-count-1.2.0/src/table.rs") ==
        Origin::kOwn);
  CHECK(origin("<&str as word_count::Count>::count", packages + "word-count-1.2.0/src/count.rs") == Origin::kOwn);
  CHECK(origin("word_counter::run", packages + "word-counter-0.1.0/src/lib.rs") == Origin::kThirdParty);
  CHECK(origin("regex::Regex::new", packages + "regex-1.10.2/src/lib.rs") == Origin::kThirdParty);
  CHECK(origin("<regex::Regex as core::clone::Clone>::clone", packages + "regex-1.10.2/src/lib.rs") ==
        Origin::kThirdParty);
  // Elsewhere a name proves nothing: a copy of another program's sources.
  CHECK(origin("word_count::main", "/src/third_party/word_count/main.rs") == Origin::kThirdParty);
}

TEST_CASE("vendored sources are recognised by their paths") {
  CHECK(origin_of("parse", "/home/user/src/parse.c") == Origin::kOwn);
  CHECK(origin_of("inflate", "/home/user/src/third_party/zlib/inflate.c") == Origin::kThirdParty);
  CHECK(origin_of("serde_json::de::from_str", "/home/user/.cargo/registry/src/serde_json/src/de.rs") ==
        Origin::kThirdParty);
  CHECK(origin_of("nlohmann::json::parse()", "/usr/include/nlohmann/json.hpp") == Origin::kThirdParty);
  // Without information about inlined functions, the line may be that of a header.
  CHECK(origin_of("mine::load()", "/usr/include/c++/12/bits/stl_vector.h") == Origin::kOwn);
  const std::string local = "/rustc/90b35a6239c3d8bdabc530a6a0816f7ff89a0aaf/library/std/src/sys/thread_local/";
  CHECK(origin_of("mine::visit", local + "native/mod.rs") == Origin::kOwn);
  // What the macro thread_local! expands to has the name of its variable.
  CHECK(origin_of("tokio::context::CONTEXT::{{constant}}::{{closure}}", local + "native/mod.rs") ==
        Origin::kStandard);
  CHECK(origin_of("mine::HOOKS::{K#0}::{closure#0}", local + "native/mod.rs") == Origin::kStandard);
  CHECK(origin_of("mine::TABLE::{{constant}}::{{closure}}", "/home/user/src/table.rs") == Origin::kOwn);
}

TEST_CASE("functions without a name have the origin of their module, if it is known") {
  const OriginRules rules("/home/user/build/program");
  CHECK(rules.of({"", "", "/home/user/build/program"}) == Origin::kUnresolved);
  CHECK(rules.of({"", "", ""}) == Origin::kUnresolved);
  CHECK(rules.of({"", "", "/lib/x86_64-linux-gnu/libc.so.6"}) == Origin::kRuntime);
  CHECK(rules.of({"", "", "/usr/lib/libcurl.so.4"}) == Origin::kThirdParty);
}

TEST_CASE("the user decides first what is own code") {
  const OriginRules rules("/usr/bin/program",
                          {.own = {[](const std::string& name) { return name.find("libcurl") != std::string::npos; }},
                           .third_party = {},
                           .standard = {[](const std::string& name) { return name.starts_with("rt::"); }},
                           .runtime = {}});
  CHECK(rules.of({"rt::copy", "", "/usr/bin/program"}) == Origin::kStandard);
  CHECK(rules.of({"rt::copy", "", "/usr/lib/libcurl.so.4"}) == Origin::kOwn);
  CHECK(rules.of({"Curl_open", "", "/usr/lib/libcurl.so.4"}) == Origin::kOwn);
  CHECK(rules.of({"inflate", "", "/usr/lib/libz.so.1"}) == Origin::kThirdParty);
}

TEST_CASE("main functions and callers of callbacks are known") {
  CHECK(is_main("main"));
  CHECK(is_main("main(int, char**)"));
  CHECK(is_main("ripgrep::main"));
  CHECK_FALSE(is_main("domain"));
  CHECK_FALSE(is_main("mine::sub::main"));
  CHECK(is_callback_caller("std::function<void (int)>::operator()(int) const"));
  CHECK(is_callback_caller(
      "void std::__invoke_impl<void, main::{lambda()#1}>(std::__invoke_other, main::{lambda()#1}&&)"));
  CHECK_FALSE(is_callback_caller(
      "std::vector<std::function<void ()>, std::allocator<std::function<void ()> > >::push_back(int)"));
  CHECK_FALSE(is_callback_caller("mine::invoke()"));
  CHECK(std::string(name_of(Origin::kUnresolved)) == "unknown");
  CHECK(std::string(name_of(Origin::kThirdParty)) == "third_party");
}

TEST_CASE("lines of Python are judged by their files") {
  const OriginRules rules("/usr/bin/python3.11", {}, true);
  const auto of_file = [&](const std::string& file) { return rules.of({"malloc", file, "Python 3.11", true}); };
  for (const std::string file : {"/srv/app/job.py", "job.py", "<string>", "", "/home/user/lib/python3/job.py.d/x",
                                 "/home/user/lib/python3x/job.py"})
    CHECK((file + (of_file(file) == Origin::kOwn ? "" : " is not own")) == file);
  for (const std::string file :
       {"/usr/lib/python3.11/json/decoder.py", "/home/user/.pyenv/versions/3.13.0/lib/python3.13t/ast.py",
        "/usr/lib64/python3.9/re.py", "<frozen importlib._bootstrap>", "/usr/lib/python311.zip/os.py"})
    CHECK((file + (of_file(file) == Origin::kStandard ? "" : " is not standard")) == file);
  for (const std::string file :
       {"/srv/venv/lib/python3.11/site-packages/numpy/core.py", "/usr/lib/python3/dist-packages/yaml/__init__.py"})
    CHECK((file + (of_file(file) == Origin::kThirdParty ? "" : " is not of a third party")) == file);
}

TEST_CASE("the interpreter is runtime where lines of Python were recorded, and nowhere else") {
  const std::string program = "/home/user/.pyenv/versions/3.11.7/bin/python3.11";
  for (const std::string& module : {program, std::string("/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0")})
    CHECK(OriginRules(program, {}, true).of({"list_resize", "", module}) == Origin::kRuntime);
  CHECK(OriginRules(program).of({"list_resize", "", program}) == Origin::kOwn);
  const std::string extension = "/home/user/.pyenv/versions/3.11.7/lib/python3.11/lib-dynload/_json.so";
  CHECK(OriginRules(program, {}, true).of({"scan_once", "", extension}) == Origin::kStandard);
  CHECK(OriginRules(program).of({"scan_once", "", extension}) == Origin::kOwn);
}

TEST_CASE("interpreters are recognised by their file, and their evaluation by its functions") {
  for (const char* path :
       {"/usr/bin/python3", "/usr/bin/python3.11", "/usr/bin/python3.13t", "/x/libpython3.11.so.1.0",
        "/x/libpython3.so", "/x/libpython3.12d.so.1.0", "/usr/bin/python3.9 (deleted)"})
    CHECK((std::string(path) + (is_python_interpreter(path) ? "" : " is not")) == path);
  for (const char* path : {"/usr/bin/python2.7", "/usr/bin/python3-config", "/usr/lib/libpythonqt.so",
                           "/app/mypython3", "/usr/bin/python", "", "/x/libpython3-tools.so"})
    CHECK((std::string(path) + (is_python_interpreter(path) ? " is" : "")) == path);
  for (const char* function :
       {"", "[tail of PyImport_Import]", "_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault.cold",
        "_PyFunction_Vectorcall", "PyObject_Call", "_PyObject_MakeTpCall", "method_vectorcall",
        "cfunction_vectorcall_FASTCALL", "slot_tp_init", "PyObject_CallFunctionObjArgs", "PyEval_EvalCode"})
    CHECK((std::string(function) + (leads_to_python(function) ? "" : " does not")) == function);
  for (const char* function :
       {"list_resize", "PyList_Append", "builtin_sorted", "functools_reduce", "PyObject_Malloc"})
    CHECK((std::string(function) + (leads_to_python(function) ? " does" : "")) == function);
}
