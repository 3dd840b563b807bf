// Which functions are recognised as helpers, and which are not.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "analyzer/findings/helpers.h"
#include "tests/unit/findings/known_stacks.h"

using namespace heapprof;
using namespace heapprof::findings;
using heapprof::test::KnownStacks;

namespace {

std::vector<std::string> names_of(const CodeFrames& frames, const Helpers& helpers) {
  std::vector<std::string> names;
  for (const Helper& helper : helpers.all()) names.push_back(frames.name_of(helper.function));
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> helpers_of(const KnownStacks& stacks, const HelperOptions& options = {}) {
  const CodeFrames frames = stacks.frames();
  return names_of(frames, Helpers(frames, options));
}

using Names = std::vector<std::string>;

std::string numbered(const std::string& name, int number) { return name + std::to_string(number); }

}  // namespace

TEST_CASE("a function that many others allocate through is a helper") {
  KnownStacks stacks;
  for (int i = 0; i < 8; ++i) stacks.add({"take:7", numbered("user", i), "main"}, 10, 100, i == 0 ? 10 : 0);
  CHECK(helpers_of(stacks) == Names{"take"});

  const CodeFrames frames = stacks.frames();
  const Helpers helpers(frames, {});
  CHECK(explain(helpers.all()[0]) ==
        "called by 8 functions, the largest of which has 13 % of its blocks; 100 % of the bytes allocated in and "
        "below it are allocated by itself or by helpers");
  CHECK(helpers.all()[0].bytes == 8000);
  CHECK(helpers.all()[0].blocks == 80);

  HelperOptions off;
  off.by_structure = false;
  CHECK(helpers_of(stacks, off).empty());
}

TEST_CASE("helpers are found from the whole recording, whatever is selected") {
  KnownStacks stacks;
  std::vector<std::uint32_t> nodes;
  for (int i = 0; i < 8; ++i) nodes.push_back(stacks.add({"take:7", numbered("user", i), "main"}, 10, 100, 0));
  model::Profile& profile = stacks.profile();
  const std::vector<model::StackTotals> whole = [&] {
    std::vector<model::StackTotals> totals;
    for (std::uint32_t node = 0; node < profile.nodes.size(); ++node) totals.push_back(profile.whole_of(node));
    return totals;
  }();
  for (int i = 2; i < 8; ++i) profile.nodes[nodes[i]].costs = {};
  CHECK(helpers_of(stacks).empty());
  profile.whole = whole;
  CHECK(helpers_of(stacks) == Names{"take"});
  const CodeFrames frames = stacks.frames();
  CHECK(Helpers(frames, {}).all()[0].bytes == 8000);
  // Nothing of a helper is selected.
  for (const std::uint32_t node : nodes) profile.nodes[node].costs = {};
  CHECK(helpers_of(stacks) == Names{"take"});
}

TEST_CASE("a function that is called from one or a few places is no helper") {
  KnownStacks stacks;
  for (int i = 0; i < 5; ++i) stacks.add({"open_session:7", numbered("user", i), "main"}, 10, 100, 1);
  CHECK(helpers_of(stacks).empty());
}

TEST_CASE("a caller that has most of the blocks speaks against a helper, unless there are very many callers") {
  KnownStacks stacks;
  stacks.add({"open_session:7", "serve", "main"}, 1000, 100, 1);
  for (int i = 0; i < 8; ++i) stacks.add({"open_session:7", numbered("user", i), "main"}, 10, 100, i % 2);
  CHECK(helpers_of(stacks).empty());
  for (int i = 8; i < 12; ++i) stacks.add({"open_session:7", numbered("user", i), "main"}, 10, 100, i % 2);
  CHECK(helpers_of(stacks) == Names{"open_session"});
}

TEST_CASE("helpers are found through helpers, named ones too") {
  KnownStacks stacks;
  for (int i = 0; i < 6; ++i) {
    stacks.add({"xmalloc:3", "list_add:9", numbered("user", i), "main"}, 10, 24, 0);
    stacks.add({"xmalloc:3", "string_new:5", numbered("user", i), "main"}, 10, 50 + i, 0);
  }
  CHECK(helpers_of(stacks) == Names{"list_add", "string_new", "xmalloc"});
  HelperOptions by_name;
  by_name.by_structure = false;
  CHECK(helpers_of(stacks, by_name) == Names{"xmalloc"});
}

TEST_CASE("the growth function of a string type is a helper, though few functions call it") {
  KnownStacks stacks;
  for (int i = 0; i < 10; ++i) {
    stacks.add({"String::grow(int):3", "String::append(char):8", numbered("user", i), "main"}, 10, 24, 0);
    stacks.add({"String::grow(int):3", "String::insert(char):9", numbered("other", i), "main"}, 10, 24, 0);
  }
  CHECK(helpers_of(stacks) == Names{"String::append(char)", "String::grow(int)", "String::insert(char)"});
}

TEST_CASE("a function with one caller is a helper only if that caller has very many") {
  KnownStacks stacks;
  for (int i = 0; i < 11; ++i)
    stacks.add({"open_session:3", "accept_client:8", numbered("user", i), "main"}, 10, 24, i % 2 == 0 ? 10 : 0);
  CHECK(helpers_of(stacks).empty());
  stacks.add({"open_session:3", "accept_client:8", "user11", "main"}, 10, 24, 10);
  CHECK(helpers_of(stacks) == Names{"accept_client", "open_session"});
}

TEST_CASE("an interpreter's loop and a parser's main rule are no helpers") {
  KnownStacks stacks;
  for (int caller = 0; caller < 8; ++caller)
    for (int line = 0; line < 30; ++line)
      stacks.add({"xmalloc:3", "evaluate:" + std::to_string(100 + line), numbered("call", caller), "main"}, 10, 24,
                 0);
  CHECK(helpers_of(stacks) == Names{"xmalloc"});
}

TEST_CASE("a function that allocates through many others is no helper") {
  KnownStacks stacks;
  for (int caller = 0; caller < 8; ++caller) {
    stacks.add({"load:8", numbered("call", caller), "main"}, 10, 24, 0);
    for (int part = 0; part < 6; ++part)
      stacks.add({numbered("make", part), "load:7", numbered("call", caller), "main"}, 10, 24, 0);
  }
  CHECK(helpers_of(stacks).empty());
}

TEST_CASE("a function that keeps its blocks whoever calls it is no helper") {
  KnownStacks stacks;
  stacks.add({"work", "main"}, 1000, 10, 0);
  for (int i = 0; i < 6; ++i) stacks.add({"put:7", numbered("user", i), "main"}, 10, 100, 10);
  CHECK(helpers_of(stacks).empty());
  // Where nearly everything is kept, nothing follows from that.
  KnownStacks batch;
  for (int i = 0; i < 6; ++i) batch.add({"node:7", numbered("rule", i), "main"}, 10, 100, 10);
  CHECK(helpers_of(batch) == Names{"node"});
}

TEST_CASE("a function with an allocator's name that allocates through others is no helper") {
  KnownStacks stacks;
  stacks.add({"report", "handle_malloc_stats", "main"}, 10, 100, 0);
  CHECK(helpers_of(stacks).empty());
  stacks.add({"handle_malloc_stats", "main"}, 30, 100, 0);
  CHECK(helpers_of(stacks) == Names{"handle_malloc_stats"});
}

TEST_CASE("recursion is counted once") {
  KnownStacks stacks;
  for (int i = 0; i < 6; ++i)
    stacks.add({"take:7", "take:8", "take:8", numbered("user", i), numbered("user", i), "main"}, 10, 100, i);
  const CodeFrames frames = stacks.frames();
  const Helpers helpers(frames, {});
  REQUIRE(helpers.all().size() == 1);
  CHECK(helpers.all()[0].bytes == 6000);
  CHECK(helpers.all()[0].below_bytes == 6000);
  CHECK(helpers.all()[0].callers == 6);
}

TEST_CASE("a pattern of the user adds a helper") {
  KnownStacks stacks;
  stacks.add({"pool_get", "serve", "main"}, 10, 100, 10);
  HelperOptions options;
  options.patterns.push_back([](const std::string& name) { return name.starts_with("pool_"); });
  CHECK(helpers_of(stacks, options) == Names{"pool_get"});
  options.by_name = options.by_structure = false;
  CHECK(helpers_of(stacks, options) == Names{"pool_get"});
}

TEST_CASE("standard libraries and the runtime are skipped, but callers of callbacks are not") {
  KnownStacks stacks;
  stacks.add(
      {"operator new(unsigned long)", "std::vector<int, std::allocator<int> >::push_back(int const&)",
       "std::_Function_handler<void (), run()::{lambda()#1}>::_M_invoke(std::_Any_data const&)", "run()", "main"},
      1, 1, 1);
  const CodeFrames frames = stacks.frames();
  const Helpers helpers(frames, {});
  CHECK(helpers.all().empty());
  std::vector<bool> skipped;
  for (const FrameRef frame : frames.stack(5)) skipped.push_back(helpers.skips(frames.function_of(frame)));
  CHECK(skipped == std::vector<bool>{true, true, false, false, false});
}
