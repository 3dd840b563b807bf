// Call sites: which frame they are, and their sums over all stacks.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "analyzer/findings/call_sites.h"
#include "tests/unit/findings/known_stacks.h"

using namespace heapprof;
using namespace heapprof::findings;
using heapprof::test::KnownStacks;

namespace {

std::string site_of(const std::vector<std::string>& stack) {
  KnownStacks stacks;
  const std::uint32_t node = stacks.add(stack, 1, 1, 1);
  const CodeFrames frames = stacks.frames();
  const Helpers helpers(frames, {});
  const CallSites sites(frames, helpers, stacks.left());
  REQUIRE(sites.sites().size() == 1);
  CHECK(call_site_of(frames, helpers, node) == sites.sites()[0].frame);
  return frames.at(sites.sites()[0].frame).name;
}

}  // namespace

TEST_CASE("the call site is the first frame above libraries and helpers") {
  CHECK(site_of({"malloc", "xmalloc", "load", "main"}) == "load");
  CHECK(site_of({"operator new(unsigned long)", "load(char const*)", "main"}) == "load(char const*)");
  CHECK(site_of({"__rust_alloc", "alloc::alloc::alloc", "alloc::raw_vec::finish_grow", "mine::grow", "main"}) ==
        "mine::grow");
  CHECK(site_of({"std::_Rb_tree_node<int>* std::_Rb_tree<int, int>::_M_create_node<int const&>(int const&)",
                 "mine::Table::put(int)", "main"}) == "mine::Table::put(int)");
  CHECK(site_of({"/lib/x86_64-linux-gnu/libc.so.6!fopen", "load", "main"}) == "load");
  CHECK(site_of({"main"}) == "main");
  // Inlined functions are frames too.
  CHECK(site_of({"std::vector<int>::push_back(int)/Table::add(int):3/load():9", "main"}) == "Table::add(int)");
}

TEST_CASE("a third party's code that is built into the program is skipped, if there is code of the program") {
  CHECK(site_of({"__rust_alloc", "crate::queue::push", "serve", "main"}) == "serve");
  CHECK(site_of({"__rust_alloc/crate::queue::push:3/record:9", "serve", "main"}) == "record");
  CHECK(site_of({"__rust_alloc", "crate::queue::push", "main"}) == "crate::queue::push");
  CHECK(site_of({"__rust_alloc", "crate::parse", "crate::run", "crate::main"}) == "crate::parse");
  // Other libraries are not: with the interpreter of a script, there would be nothing else to name.
  CHECK(site_of({"/usr/lib/python3/dist-packages/x.so!decode", "call_function", "main"}) == "decode");
}

TEST_CASE("a block that the runtime allocated for itself has a site in the runtime") {
  CHECK(site_of({"/lib64/ld-linux-x86-64.so.2!malloc", "/lib64/ld-linux-x86-64.so.2!_dl_new_object",
                 "/lib64/ld-linux-x86-64.so.2!_dl_start"}) == "_dl_new_object");
  CHECK(site_of({"malloc"}) == "malloc");
}

TEST_CASE("sites add up over all stacks, also those that hold nothing") {
  KnownStacks stacks;
  stacks.add({"malloc", "load:7", "a", "main"}, 10, 100, 10);
  stacks.add({"malloc", "load:7", "b", "main"}, 30, 100, 0);
  stacks.add({"xmalloc", "load:7", "c", "main"}, 5, 10, 5);
  stacks.add({"malloc", "load:8", "a", "main"}, 1, 2000, 1);  // another line
  stacks.add({"malloc", "work", "main"}, 100, 100, 0);
  const CodeFrames frames = stacks.frames();
  const Helpers helpers(frames, {});
  const CallSites sites(frames, helpers, stacks.left());
  REQUIRE(sites.sites().size() == 2);
  CHECK(sites.sites()[0].held == Held{2000, 1});
  const CallSite& second = sites.sites()[1];
  CHECK(second.held == Held{1050, 15});
  CHECK(second.costs.allocations == 45);
  CHECK(second.costs.allocated_bytes == 4050);
  REQUIRE(second.nodes.size() == 2);
  CHECK(stacks.profile().nodes[second.nodes[0]].costs.leaked_bytes == 1000);
  std::uint64_t bytes = 0;
  for (std::uint32_t node = 0; node < stacks.profile().nodes.size(); ++node)
    if (sites.site_of_node()[node] == 1) bytes += stacks.profile().nodes[node].costs.allocated_bytes;
  CHECK(bytes == second.costs.allocated_bytes);
}

TEST_CASE("a site in a third party's library names the caller of own code") {
  KnownStacks stacks;
  stacks.add({"/usr/lib/libxml2.so.2!xmlNewNode", "/usr/lib/libxml2.so.2!xmlReadFile", "load_settings:5", "main"}, 1,
             9, 1);
  stacks.add({"malloc", "load_settings:9", "main"}, 1, 5, 1);
  const CodeFrames frames = stacks.frames();
  const CallSites sites(frames, Helpers(frames, {}), stacks.left());
  REQUIRE(sites.sites().size() == 2);
  CHECK(frames.at(sites.sites()[0].frame).name == "xmlNewNode");
  REQUIRE(sites.sites()[0].own_caller.exists());
  CHECK(frames.at(sites.sites()[0].own_caller).name == "load_settings");
  CHECK_FALSE(sites.sites()[1].own_caller.exists());
}

TEST_CASE("stacks without frames are a site of their own") {
  KnownStacks stacks;
  stacks.profile().nodes[0].costs.leaked_bytes = stacks.profile().nodes[0].costs.allocated_bytes = 7;
  stacks.profile().nodes[0].costs.leaked_blocks = stacks.profile().nodes[0].costs.allocations = 1;
  const CodeFrames frames = stacks.frames();
  const CallSites sites(frames, Helpers(frames, {}), stacks.left());
  REQUIRE(sites.sites().size() == 1);
  CHECK_FALSE(sites.sites()[0].frame.exists());
  CHECK(sites.sites()[0].held == Held{7, 1});
}

TEST_CASE("of own code only, a site is the own code that called the code of others, wherever that stands") {
  KnownStacks stacks;
  stacks.add({"malloc", "/usr/lib/libxml.so!xmlParse", "load", "main"}, 1, 1, 1);
  stacks.add({"malloc", "/usr/lib/libxml.so!xmlParse", "callback", "/usr/lib/libxml.so!xmlWalk", "load", "main"}, 1,
             10, 1);
  stacks.add({"malloc", "/usr/lib/libxml.so!xmlInit"}, 1, 100, 1);
  stacks.add({"__rust_alloc", "crate::push", "alloc::vec::push", "mine::queue", "crate::run", "mine::main"}, 1, 1000,
             1);
  const CodeFrames frames = stacks.frames("/home/user/program", Scope::kOwn);
  const Helpers helpers(frames, {});
  const CallSites sites(frames, helpers, stacks.left());
  std::vector<std::pair<std::string, std::uint64_t>> named;
  for (const CallSite& site : sites.sites())
    named.emplace_back(site.frame.exists() ? frames.at(site.frame).name : "(none)", site.held.bytes);
  CHECK(named == std::vector<std::pair<std::string, std::uint64_t>>{
                     {"mine::queue", 1000}, {"(none)", 100}, {"callback", 10}, {"load", 1}});
  const std::vector<FrameRef> all = find_site_frames(frames, helpers);
  for (std::uint32_t node = 0; node < all.size(); ++node)
    if (!stacks.profile().nodes[node].costs.empty()) CHECK(call_site_of(frames, helpers, node) == all[node]);
}
