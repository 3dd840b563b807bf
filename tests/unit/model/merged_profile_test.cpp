#include <catch2/catch.hpp>

#include "analyzer/model/merged_profile.h"
#include "analyzer/symbols/module_symbols.h"

using namespace heapprof;
using namespace heapprof::model;

namespace {

/// A profile with the modules "" (generated), "/bin/a" and `library`, and the stacks main, main < f, main < g. `f` is
/// at `f_at` of the library; what is live at the peak is 1, 10 and 100 times `bytes`.
Profile profile_of(const std::string& library, const std::string& build_id, std::uint64_t f_at, std::uint64_t bytes) {
  Profile profile;
  profile.recording.program = "/bin/a";
  profile.modules.resize(3);
  profile.modules[1].path = "/bin/a";
  profile.modules[1].is_main = true;
  profile.modules[2].path = library;
  profile.modules[2].build_id = build_id;
  profile.addresses = {{1, 0x10}, {2, f_at}, {2, 0x99}};
  profile.nodes.resize(4);
  profile.nodes[1] = {0, 0, nullptr, false, {}};
  profile.nodes[2] = {1, 1, nullptr, false, {}};
  profile.nodes[3] = {1, 2, nullptr, false, {}};
  for (std::size_t i = 1; i < 4; ++i) {
    bytes *= i == 1 ? 1 : 10;
    profile.nodes[i].costs.peak_bytes = bytes;
    profile.nodes[i].costs.peak_blocks = 1;
    profile.totals += profile.nodes[i].costs;
  }
  profile.heap.allocations = 3;
  profile.heap.leaked_bytes = bytes;
  return profile;
}

}  // namespace

TEST_CASE("Equal stacks of equal modules are one node, and their costs are added") {
  ProfileMerger merger;
  const auto first = merger.add(profile_of("/lib/b.so", "aa", 0x20, 1));
  const auto second = merger.add(profile_of("/lib/b.so", "aa", 0x20, 2));
  CHECK(first == second);
  const Profile merged = merger.take();
  CHECK(merged.nodes.size() == 4);
  CHECK(merged.modules.size() == 3);
  CHECK(merged.addresses.size() == 3);
  CHECK(merged.nodes[first[1]].costs.peak_bytes == 3);
  CHECK(merged.nodes[first[2]].costs.peak_bytes == 30);
  CHECK(merged.nodes[first[3]].costs.peak_bytes == 300);
  CHECK(merged.totals.peak_bytes == 333);
  CHECK(merged.totals.peak_blocks == 6);
  CHECK(merged.heap.allocations == 6);
  CHECK(merged.heap.leaked_bytes == 300);
  CHECK(merged.recording.other_programs == std::vector<std::string>{"/bin/a"});
}

TEST_CASE("What whole recordings allocated is added, also if everything of some of them is selected") {
  Profile part = profile_of("/lib/b.so", "aa", 0x20, 1);
  part.whole.resize(part.nodes.size());
  part.whole[2] = {7, 700, 2, 1};
  Profile all = profile_of("/lib/b.so", "aa", 0x30, 1);
  all.nodes[1].costs.allocations = 5;
  all.nodes[1].costs.leaked_blocks = 3;
  ProfileMerger merger;
  const auto first = merger.add(part);
  const auto second = merger.add(all);
  const Profile merged = merger.take();
  REQUIRE(merged.whole.size() == merged.nodes.size());
  CHECK(merged.whole[first[2]] == StackTotals{7, 700, 2, 1});
  CHECK(merged.whole[second[1]] == StackTotals{5, 0, 0, 3});

  ProfileMerger complete;
  complete.add(all);
  CHECK(complete.take().whole.empty());
}

TEST_CASE("Other builds, other addresses and truncated stacks stay apart") {
  ProfileMerger merger;
  const auto first = merger.add(profile_of("/lib/b.so", "aa", 0x20, 1));
  const auto build = merger.add(profile_of("/lib/b.so", "bb", 0x20, 1));
  const auto address = merger.add(profile_of("/lib/b.so", "aa", 0x30, 1));
  Profile truncated = profile_of("/lib/b.so", "aa", 0x20, 1);
  truncated.nodes[1].truncated = "depth";
  const auto cut = merger.add(truncated);
  CHECK(first[1] == build[1]);
  CHECK(first[2] != build[2]);
  CHECK(first[3] != build[3]);
  CHECK(first[2] != address[2]);
  CHECK(first[3] == address[3]);
  CHECK(cut[1] != first[1]);
  const Profile merged = merger.take();
  // Parents come before their children.
  for (std::size_t i = 1; i < merged.nodes.size(); ++i) CHECK(merged.nodes[i].parent < i);
}

TEST_CASE("Modules without build ID are equal only with equal sizes, lost ones never") {
  ProfileMerger merger;
  const auto add = [&](const std::string& library, const std::string& build_id, std::uint64_t map_bytes, bool lost) {
    Profile profile = profile_of(library, build_id, 0x20, 1);
    profile.modules[2].map_bytes = map_bytes;
    profile.modules[2].lost = lost;
    return merger.add(profile)[2];
  };
  const std::uint32_t first = add("/lib/b.so", "", 0x5000, false);
  CHECK(add("/lib/b.so", "", 0x5000, false) == first);
  CHECK(add("/lib/b.so", "", 0x9000, false) != first);
  CHECK(add("/lib/b.so", "aa", 0x5000, false) == add("/lib/b.so", "aa", 0x9000, false));
  CHECK(add("", "", 0, true) != add("", "", 0, true));
  CHECK(add("", "", 0, false) == add("", "", 0, false));
  CHECK(merger.take().modules.size() == 7);
}

TEST_CASE("Lines of Python are equal by function, file and line, not by their numbers") {
  ProfileMerger merger;
  const auto with_line = [](std::uint64_t number, const std::string& function) {
    Profile profile = profile_of("Python 3.11", "", number, 1);
    profile.modules[2].is_python = true;
    auto symbols = std::make_shared<symbols::ModuleSymbols>();
    symbols->addresses = {number, 0x99};
    symbols->frames = {{{function, "app.py", 12}}, {{"other", "app.py", 7}}};
    profile.python_symbols = symbols;
    return profile;
  };
  const auto first = merger.add(with_line(0x20, "load"));
  const auto same = merger.add(with_line(0x21, "load"));
  const auto other = merger.add(with_line(0x20, "store"));
  CHECK(first[2] == same[2]);
  CHECK(first[2] != other[2]);
  CHECK(first[3] == other[3]);
  const Profile merged = merger.take();
  const CodeAddress at = merged.addresses[merged.nodes[other[2]].address];
  REQUIRE(merged.python_symbols != nullptr);
  REQUIRE(merged.python_symbols->find(at.offset) != nullptr);
  CHECK(merged.python_symbols->find(at.offset)->front().function == "store");
}

TEST_CASE("Names in bundled recordings are kept for the addresses of all of them") {
  ProfileMerger merger;
  for (const std::uint64_t address : {0x20, 0x30}) {
    Profile profile = profile_of("/lib/b.so", "aa", address, 1);
    auto symbols = std::make_shared<std::vector<symbols::ModuleSymbols>>(1);
    symbols->front().path = "/lib/b.so";
    symbols->front().build_id_hex = "aa";
    symbols->front().addresses = {address};
    symbols->front().frames = {{{"f" + std::to_string(address), "", 0}}};
    profile.embedded_symbols = symbols;
    merger.add(profile);
  }
  const Profile merged = merger.take();
  REQUIRE(merged.embedded_symbols->size() == 1);
  const symbols::ModuleSymbols& module = merged.embedded_symbols->front();
  CHECK(module.addresses == std::vector<std::uint64_t>{0x20, 0x30});
  CHECK(module.find(0x30)->front().function == "f48");
}
