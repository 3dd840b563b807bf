// perf maps as just-in-time compilers write them, and malformed ones.
#include "analyzer/symbols/perf_map.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "analyzer/symbols/module_symbols.h"
#include "analyzer/symbols/symbolizer.h"
#include "tests/support/skip_case.h"
#include "tests/support/temporary_file.h"

using namespace heapprof::symbols;

namespace {

class MapFile {
 public:
  explicit MapFile(const std::string& text) : path(file_.path()) { std::ofstream(path, std::ios::binary) << text; }

 private:
  const heapprof::test::TemporaryFile file_{".map"};

 public:
  const std::string path;
};

/// The map of the process `pid`, where a report looks for it.
class ProcessMap {
 public:
  ProcessMap(std::uint32_t pid, const std::string& text) : path("/tmp/perf-" + std::to_string(pid) + ".map") {
    std::filesystem::remove(path);  // that of an earlier process with this number
    std::ofstream(path, std::ios::binary) << text;
  }
  ~ProcessMap() { ::unlink(path.c_str()); }
  ProcessMap(const ProcessMap&) = delete;
  ProcessMap& operator=(const ProcessMap&) = delete;
  const std::string path;
};

/// A root of the file system, with an empty /tmp.
class Root {
 public:
  Root() {
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary directory");
    std::filesystem::create_directory(path + "/tmp");
  }
  ~Root() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  std::string path = "/tmp/heapprof_perf_map_root_XXXXXX";
};

PerfMap::Result read(PerfMap& map, const std::string& path, PerfMap::Period period = {}) {
  uid_t owner = 0;
  return map.read(path, period, owner);
}

std::string function_at(const PerfMap& map, std::uint64_t address) { return map.find(address).function; }

}  // namespace

TEST_CASE("functions of generated code have the names in the map") {
  const MapFile file(
      "1000 100 first\n"
      "0x2000 0x10 second with blanks\n"
      "not a line of a map\n"
      "3000 zz broken\n"
      "4000 0 empty\n"
      "ffffffffffffffff 10 wraps\n"
      "1040 20 newer inside\n"
      "5000 8 unfinished line");
  PerfMap map;
  REQUIRE(read(map, file.path) == PerfMap::Result::kRead);
  CHECK(function_at(map, 0xfff).empty());
  CHECK(function_at(map, 0x1000) == "first");
  CHECK(function_at(map, 0x1040) == "newer inside");
  CHECK(function_at(map, 0x105f) == "newer inside");
  CHECK(function_at(map, 0x1060) == "first");
  CHECK(function_at(map, 0x1100).empty());
  CHECK(function_at(map, 0x2008) == "second with blanks");
  CHECK(function_at(map, 0x3000).empty());
  CHECK(function_at(map, 0x4000).empty());
  CHECK(function_at(map, 0x5007) == "unfinished line");
}

TEST_CASE("the last of overlapping ranges is valid") {
  const MapFile file("1000 100 a\n1080 100 b\n1040 60 c\n1000 20 d\n900 2000 e\n1000 10 f\n");
  PerfMap map;
  REQUIRE(read(map, file.path) == PerfMap::Result::kRead);
  CHECK(function_at(map, 0x1000) == "f");
  CHECK(function_at(map, 0x1010) == "e");
  CHECK(function_at(map, 0x28ff) == "e");
  const MapFile other("1000 100 a\n1080 100 b\n1040 60 c\n1000 20 d\n");
  PerfMap pieces;
  REQUIRE(read(pieces, other.path) == PerfMap::Result::kRead);
  CHECK(function_at(pieces, 0x101f) == "d");
  CHECK(function_at(pieces, 0x1020) == "a");
  CHECK(function_at(pieces, 0x1040) == "c");
  CHECK(function_at(pieces, 0x109f) == "c");
  CHECK(function_at(pieces, 0x10a0) == "b");
}

TEST_CASE("a map of an earlier process, and what is not a regular file, is not read") {
  const MapFile file("1000 100 old\n");
  PerfMap map;
  CHECK(read(map, file.path, {.begin_ns = UINT64_MAX}) == PerfMap::Result::kOutdated);
  CHECK(read(map, "/tmp") == PerfMap::Result::kMissing);
  CHECK(read(map, "/nowhere") == PerfMap::Result::kMissing);
  std::filesystem::create_symlink(file.path, file.path + ".link");
  CHECK(read(map, file.path + ".link") == PerfMap::Result::kMissing);
  std::filesystem::remove(file.path + ".link");
  const MapFile long_line("1000 100 " + std::string(1 << 20, 'x') + "\n2000 10 after\n");
  REQUIRE(read(map, long_line.path) == PerfMap::Result::kRead);
  CHECK(function_at(map, 0x1000).empty());
  CHECK(function_at(map, 0x2000) == "after");
}

TEST_CASE("a map that was written after the recorded program had ended is not read, but may be a copy in a sysroot") {
  RecordedProcess process;
  process.pid = static_cast<std::uint32_t>(getpid());
  const ProcessMap file(process.pid, "1000 100 later\n");
  Options options;
  PerfMap map;
  std::string reason;
  process.recorded_at_ns = 1'000'000'000;
  process.ended_at_ns = 3'000'000'001;
  CHECK(!find_perf_map(options, process, map, reason));
  CHECK(function_at(map, 0x1000).empty());
  CHECK_THAT(reason, Catch::Contains("after the recorded program had ended") &&
                         Catch::EndsWith("touch -d @3.000000001 " + file.path));
  // The program may still run, or the file has a time of the recording.
  for (const std::uint64_t ended_at_ns : {std::uint64_t{0}, UINT64_MAX}) {
    process.ended_at_ns = ended_at_ns;
    PerfMap own;
    CHECK(find_perf_map(options, process, own, reason));
    CHECK(function_at(own, 0x1000) == "later");
  }
  process.ended_at_ns = 3'000'000'001;
  const Root root;
  std::filesystem::copy_file(file.path, root.path + file.path);
  options.sysroot = root.path;
  CHECK(find_perf_map(options, process, map, reason));
  CHECK(function_at(map, 0x1000) == "later");
}

TEST_CASE("a map of another user in /tmp is ignored, with the owner in the reason") {
  if (geteuid() != 0) return heapprof::test::skip_case("only root can change the owner of a file");
  constexpr uid_t kOther = 54321;
  RecordedProcess process;
  process.pid = static_cast<std::uint32_t>(getpid());
  const ProcessMap file(process.pid, "1000 100 planted\n");
  const std::string& path = file.path;
  Options options;
  PerfMap map;
  std::string reason;

  REQUIRE(chown(path.c_str(), kOther, kOther) == 0);
  CHECK(!find_perf_map(options, process, map, reason));
  CHECK(function_at(map, 0x1000).empty());
  CHECK_THAT(reason, Catch::Contains(path) && Catch::Contains("owned by user 54321"));
  // The same directory under another name.
  for (const char* const root : {"/", "/tmp/.."}) {
    INFO(root);
    options.sysroot = root;
    CHECK(!find_perf_map(options, process, map, reason));
    CHECK_THAT(reason, Catch::Contains("owned by user 54321"));
  }
  options.sysroot.clear();
  // A map is read if it belongs to the reading user or to root.
  REQUIRE(seteuid(kOther) == 0);
  PerfMap own;
  const bool read_own = find_perf_map(options, process, own, reason);
  REQUIRE(seteuid(0) == 0);
  CHECK(read_own);
  CHECK(function_at(own, 0x1000) == "planted");
  REQUIRE(chown(path.c_str(), 0, 0) == 0);
  REQUIRE(seteuid(kOther) == 0);
  PerfMap roots;
  const bool read_roots = find_perf_map(options, process, roots, reason);
  REQUIRE(seteuid(0) == 0);
  CHECK(read_roots);
}

TEST_CASE("a map below --sysroot is trusted, whoever owns it") {
  if (geteuid() != 0) return heapprof::test::skip_case("only root can change the owner of a file");
  const Root root;
  const std::string path = root.path + "/tmp/perf-77.map";
  std::ofstream(path) << "1000 100 copied\n";
  REQUIRE(chown(path.c_str(), 54321, 54321) == 0);
  Options options;
  options.sysroot = root.path;
  RecordedProcess process;
  process.pid = 77;
  PerfMap map;
  std::string reason;
  CHECK(find_perf_map(options, process, map, reason));
  CHECK(function_at(map, 0x1000) == "copied");
}

TEST_CASE("a map names only what the names that are embedded in the trace do not") {
  RecordedProcess process;
  process.pid = static_cast<std::uint32_t>(getpid());
  const ProcessMap file(process.pid, "1000 2000 in the map\n");
  ModuleSymbols embedded;
  embedded.path = "[generated]";
  embedded.addresses = {0x1000, 0x1800};
  embedded.frames.push_back({SourceFrame{"in the trace", "", 0, false}});
  embedded.frames.emplace_back(1);
  process.embedded_symbols = std::make_shared<const std::vector<ModuleSymbols>>(1, embedded);
  Module generated;
  generated.generated = true;
  Symbolizer symbolizer({generated}, {}, process);
  const auto frames = symbolizer.resolve({{0, 0x1000}, {0, 0x1800}, {0, 0x2000}});
  CHECK(frames.at(0).at(0).function == "in the trace");
  CHECK(frames.at(1).at(0).function == "in the map");
  CHECK(frames.at(2).at(0).function == "in the map");
}

TEST_CASE("V8's names are split into function, file and line") {
  const auto check = [](const std::string& name, const std::string& function, const std::string& file, int line) {
    const SourceFrame frame = frame_of_jit_name(name);
    CHECK(frame.function == function);
    CHECK(frame.file == file);
    CHECK(frame.line == line);
  };
  check("JS:*work /srv/app.js:12:3", "work", "/srv/app.js", 12);
  check("LazyCompile:~Store.add file:///srv/with blank.mjs:7:13", "Store.add", "/srv/with blank.mjs", 7);
  check("JS:^ node:internal/timers:507:20", "<anonymous>", "node:internal/timers", 507);
  check("Builtin:ArrayPrototypeMap", "Builtin:ArrayPrototypeMap", "", 0);
  check("Lcom/example/Main;::run", "Lcom/example/Main;::run", "", 0);
  check("JS:*odd :1", "JS:*odd :1", "", 0);
  check("", "", "", 0);
}
