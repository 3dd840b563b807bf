// Resolves addresses of programs with known frames (fixture/), built with all formats of debug information. The
// result is compared with what the program prints about itself, with addr2line and llvm-symbolizer, and among the
// formats.
//
// HEAPPROF_FIXTURE is the output directory of fixture/make.sh, HEAPPROF_FIXTURE_SOURCE the directory of its sources.
#include "analyzer/symbols/symbolizer.h"
#include "analyzer/symbols/module_symbols.h"
#include "tests/support/seed.h"
#include "tests/support/skip_case.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>

using namespace heapprof::symbols;

namespace {

std::string environment(const char* name) {
  const char* value = getenv(name);
  REQUIRE(value != nullptr);
  return value;
}

std::string built(const std::string& name) { return environment("HEAPPROF_FIXTURE") + "/" + name; }
bool exists(const std::string& path) { return std::filesystem::exists(path); }

std::string output_of(const std::string& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> buffer;
  for (std::size_t size; (size = fread(buffer.data(), 1, buffer.size(), pipe.get())) > 0;)
    text.append(buffer.data(), size);
  return text;
}

/// The address of each call of probe() in the fixture `name`, as the program prints it.
std::map<std::string, std::uint64_t> probes_of(const std::string& name) {
  std::istringstream lines(output_of(built(name)));
  std::map<std::string, std::uint64_t> probes;
  std::string probe;
  std::uint64_t address;
  while (lines >> probe >> std::hex >> address) probes[probe] = address;
  REQUIRE(probes.size() == 9);
  return probes;
}

/// The number of the line in fixture source `file` that ends with "@words".
int line_of(const std::string& file, const std::string& words) {
  std::ifstream source(environment("HEAPPROF_FIXTURE_SOURCE") + "/" + file);
  int number = 0;
  for (std::string line; std::getline(source, line);) {
    ++number;
    if (line.ends_with("@" + words)) return number;
  }
  FAIL("no line @" << words << " in " << file);
  return 0;
}

std::string build_id_of(const std::string& path) {
  const std::string text = output_of("readelf -n '" + path + "' 2>/dev/null");
  const std::size_t at = text.find("Build ID: ");
  return at == std::string::npos ? "" : text.substr(at + 10, text.find('\n', at) - at - 10);
}

struct ResolvedFrames {
  std::vector<std::vector<SourceFrame>> frames;
  std::vector<std::string> warnings;

  bool warned(const std::string& text) const {
    return std::any_of(warnings.begin(), warnings.end(),
                       [&](const std::string& warning) { return warning.find(text) != std::string::npos; });
  }
};

ResolvedFrames resolve(const Module& module, const std::vector<std::uint64_t>& addresses,
                       const Options& options = {}) {
  Symbolizer symbolizer({module}, options);
  std::vector<CodeAddress> requested;
  for (const std::uint64_t address : addresses) requested.push_back({0, address});
  auto frames = symbolizer.resolve(requested);
  return {std::move(frames), symbolizer.warnings()};
}

ResolvedFrames resolve(const std::string& path, const std::vector<std::uint64_t>& addresses,
                       const Options& options = {}) {
  return resolve(Module{path, build_id_of(path)}, addresses, options);
}

/// "function file:line" for each frame, with "+" before inlined ones and only the base names of files.
std::string text_of(const std::vector<SourceFrame>& frames) {
  std::string text;
  for (const SourceFrame& frame : frames)
    text += (frame.inlined ? "+" : "") + frame.function + " " + frame.file.substr(frame.file.rfind('/') + 1) + ":" +
            std::to_string(frame.line) + "\n";
  return text;
}

std::string text_of(const ResolvedFrames& resolved) {
  std::string text;
  for (const auto& frames : resolved.frames) text += text_of(frames) + "--\n";
  return text;
}

/// All addresses in the .text section.
std::vector<std::uint64_t> text_section(const std::string& path) {
  std::istringstream lines(output_of("readelf -SW '" + path + "'"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(" .text ");
    if (at == std::string::npos) continue;
    std::istringstream fields(line.substr(at));
    std::string name, type;
    std::uint64_t address, offset, size;
    fields >> name >> type >> std::hex >> address >> offset >> size;
    std::vector<std::uint64_t> all;
    for (std::uint64_t i = 0; i < size; ++i) all.push_back(address + i);
    return all;
  }
  FAIL("no .text in " << path);
  return {};
}

bool unresolved(const ResolvedFrames& resolved) {
  return std::all_of(resolved.frames.begin(), resolved.frames.end(), [](const std::vector<SourceFrame>& frames) {
    return frames.size() == 1 && frames[0].function.empty() && frames[0].file.empty() && frames[0].line == 0 &&
           !frames[0].inlined;
  });
}

class Directory {
 public:
  Directory() {
    char name[] = "/tmp/heapprof_symbols_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("the frames of each probe are those of the source") {
  for (const std::string program : {"dwarf4", "dwarf5", "fixed"}) {
    INFO(program);
    const auto probes = probes_of(program);
    const auto frames_at = [&](const std::string& probe) {
      const ResolvedFrames resolved = resolve(built(program), {probes.at(probe)});
      CHECK(resolved.warnings.empty());
      return text_of(resolved.frames.at(0));
    };
    const auto line = [](const char* file, const char* words) { return std::to_string(line_of(file, words)); };

    CHECK(frames_at("third") ==
          "+fixture::third(int) chain.h:" + line("chain.h", "third probes") + "\n" +
              "+fixture::Box<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > >"
              "::second(int) const chain.h:" +
              line("chain.h", "second calls") + "\n" +
              "fixture::outermost(int) main.cpp:" + line("main.cpp", "outermost calls second") + "\n");
    CHECK(frames_at("hidden") ==
          "+fixture::(anonymous namespace)::hidden chain.h:" + line("chain.h", "hidden probes") + "\n" +
              "fixture::outermost(int) main.cpp:" + line("main.cpp", "outermost calls hidden") + "\n");
    CHECK(frames_at("inlined_in_c") == "+inlined_in_c plain.c:" + line("plain.c", "inlined_in_c probes") +
                                           "\nstatic_in_c plain.c:" + line("plain.c", "static_in_c calls") + "\n");
    CHECK(frames_at("plain_c") == "plain_c plain.c:" + line("plain.c", "plain_c probes") + "\n");
    CHECK(frames_at("main") == "main main.cpp:" + line("main.cpp", "main probes") + "\n");
    // The entries of local classes and lambdas are inside those of other functions.
    const std::string local = frames_at("local_class"), lambda = frames_at("lambda");
    CHECK(local.find("with_local_class(int)::Local::inside(int)") != std::string::npos);
    CHECK(local.ends_with(" main.cpp:" + line("main.cpp", "local_class probes") + "\n"));
    CHECK(lambda.find("lambda") != std::string::npos);
    CHECK(lambda.find(" main.cpp:" + line("main.cpp", "lambda probes") + "\n") != std::string::npos);
    // The public name and the assembly are in the symbol table only.
    CHECK(frames_at("aliases") == "fixture_public plain.c:" + line("plain.c", "aliases probe") + "\n");
    CHECK(frames_at("assembly") == "unsized_assembly :0\n");
  }
}

TEST_CASE("files are absolute and normalized") {
  const auto probes = probes_of("dwarf4");
  for (const std::string program : {"dwarf4", "dwarf5"}) {
    const ResolvedFrames resolved = resolve(built(program), {probes.at("third")});
    for (const SourceFrame& frame : resolved.frames.at(0)) {
      CHECK(std::filesystem::equivalent(
          frame.file, environment("HEAPPROF_FIXTURE_SOURCE") + "/" + frame.file.substr(frame.file.rfind('/') + 1)));
      CHECK(frame.file.find("/./") == std::string::npos);
    }
  }
}

TEST_CASE("a function with lines of several files is defined in one") {
  for (const std::string program : {"generated4", "generated5"}) {
    INFO(program);
    std::set<std::string> files, definitions, of_plain;
    for (const auto& frames : resolve(built(program), text_section(built(program))).frames) {
      const SourceFrame& frame = frames.back();
      if (frame.function == "plain") of_plain.insert(frame.definition_file);
      if (frame.function != "parse" || frame.file.empty()) continue;
      files.insert(frame.file.substr(frame.file.rfind('/') + 1));
      definitions.insert(frame.file_of_definition());
    }
    CHECK(files == std::set<std::string>{"grammar.y", "lexer.l", "parser.c"});
    REQUIRE(definitions.size() == 1);
    CHECK(definitions.begin()->ends_with("/parser.c"));
    CHECK(of_plain == std::set<std::string>{""});
  }
}

TEST_CASE("addr2line agrees on every address of the program") {
  for (const std::string program : {"dwarf4", "fixed"}) {
    const std::string path = built(program);
    const std::vector<std::uint64_t> addresses = text_section(path);
    const ResolvedFrames ours = resolve(path, addresses);

    Directory directory;
    std::ofstream list(directory / "addresses");
    for (const std::uint64_t address : addresses) list << std::hex << address << "\n";
    list.close();
    std::istringstream lines(
        output_of("addr2line -a -i -f -C -e '" + path + "' <'" + (directory / "addresses") + "'"));
    std::vector<std::vector<std::pair<std::string, std::string>>> theirs;
    for (std::string line, name; std::getline(lines, line);) {
      if (line.starts_with("0x")) {
        theirs.emplace_back();
      } else if (name.empty()) {
        name = line;
      } else {
        line = line.substr(0, line.find(" (discriminator"));
        theirs.back().emplace_back(name, line.substr(line.rfind('/') + 1));
        name.clear();
      }
    }
    REQUIRE(theirs.size() == addresses.size());

    // Without the parameters and scopes that only one of the two prints.
    const auto bare = [](std::string name) {
      for (const char* detail : {"(anonymous namespace)::", " [clone"})
        if (const std::size_t at = name.find(detail); at != std::string::npos)
          name = std::string(detail).front() == '(' ? name.erase(at, std::string(detail).size()) : name.substr(0, at);
      if (name.find("operator()") != std::string::npos) return std::string("operator()");
      name = name.substr(0, name.find('('));
      const std::size_t end = name.find('<');
      name = name.substr(0, end);
      return name.substr(name.find_last_of(": ") + 1);
    };
    std::size_t compared = 0, inlined = 0;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const auto& our_frames = ours.frames[i];
      const auto& their_frames = theirs[i];
      // addr2line gives the padding between functions the name of the previous function.
      if (our_frames.size() == 1 && our_frames[0].function.empty()) continue;
      // Code without debug information: addr2line may print another alias, and the name of an object file.
      if (our_frames.size() == 1 && our_frames[0].file.empty()) continue;
      INFO(program << " at " << std::hex << addresses[i] << "\n" << text_of(our_frames));
      REQUIRE(our_frames.size() == their_frames.size());
      for (std::size_t f = 0; f < our_frames.size(); ++f) {
        const SourceFrame& frame = our_frames[f];
        std::string place =
            frame.file.substr(frame.file.rfind('/') + 1) + ":" + (frame.line == 0 ? "?" : std::to_string(frame.line));
        REQUIRE(place == their_frames[f].second);
        REQUIRE(frame.inlined == (f + 1 < our_frames.size()));
        // For an inlined function without a linkage name, addr2line prints the name of the function around it.
        const bool known_fault = f == 0 && their_frames[0].first == their_frames.back().first;
        if (!known_fault && bare(frame.function) != "fixture_public")
          REQUIRE(bare(frame.function) == bare(their_frames[f].first));
      }
      ++compared;
      inlined += our_frames.size() > 1;
    }
    CHECK(compared > 100);
    CHECK(inlined > 20);
  }
}

TEST_CASE("all formats of the same debug information give the same frames") {
  const std::string whole = built("dwarf4");
  const std::vector<std::uint64_t> addresses = text_section(whole);
  const std::string truth = text_of(resolve(whole, addresses));
  REQUIRE(truth.find("fixture::third(int)") != std::string::npos);
  const auto check = [&](const std::string& path, const Options& options = {}) {
    INFO(path);
    const ResolvedFrames resolved = resolve(path, addresses, options);
    CHECK(text_of(resolved) == truth);
    CHECK(resolved.warnings == std::vector<std::string>());
  };
  SECTION("DWARF 5") { check(built("dwarf5")); }
  SECTION("split DWARF") { check(built("split")); }
  SECTION("packages of split DWARF (.dwp)") {
    for (const std::string packer : {"packed_dwp", "packed_llvm-dwp"})
      if (exists(built(packer))) check(built(packer));
  }
  SECTION("compressed") { check(built("zlib")); }
  SECTION("compressed in the old format (.zdebug_info)") { check(built("zlib-gnu")); }
  SECTION("compressed with zstd") {
    if (exists(built("zstd"))) {
      check(built("zstd"));
      check(built("zstd_linked"));
    }
  }
  SECTION("a debug file beside the program, by debug link") { check(built("linked")); }
  SECTION("a debug file beside the program, whose recorded path is a symbolic link") {
    const Directory directory;
    std::filesystem::create_symlink(built("linked"), directory / "link");
    check(directory / "link");
  }
  SECTION("a debug file identified by its checksum") {
    REQUIRE(build_id_of(built("no_id")).empty());
    check(built("no_id"));
  }
  SECTION("a debug directory") {
    Options options;
    options.debug_dirs = {"/nowhere", built("debug")};
    check(built("stripped"), options);
  }
  SECTION("a supplementary file of dwz") {
    if (exists(built("dwz_directory"))) check(built("dwz_directory/first"));
  }
}

TEST_CASE("a debug file replaces a program that was deleted") {
  const std::vector<std::uint64_t> addresses = text_section(built("dwarf4"));
  Options options;
  options.debug_dirs = {built("debug")};
  const ResolvedFrames resolved =
      resolve(Module{"/nowhere/program (deleted)", build_id_of(built("dwarf4"))}, addresses, options);
  CHECK(text_of(resolved) == text_of(resolve(built("dwarf4"), addresses)));
}

TEST_CASE("files are opened below the sysroot, including symbolic links") {
  const auto probes = probes_of("dwarf4");
  Options options;
  options.sysroot = built("sysroot");
  const Module module{"/srv/program", build_id_of(built("dwarf4"))};
  CHECK(text_of(resolve(module, {probes.at("third")}, options).frames.at(0)).starts_with("+fixture::third(int) "));
  CHECK(unresolved(resolve(module, {probes.at("third")})));
}

TEST_CASE("a file of another build is rejected with a warning") {
  const auto probes = probes_of("dwarf4");
  const std::vector<std::uint64_t> third = {probes.at("third")};
  SECTION("another build") {
    const ResolvedFrames resolved =
        resolve(Module{built("dwarf4"), "0123456789abcdef0123456789abcdef01234567"}, third);
    CHECK(unresolved(resolved));
    CHECK(resolved.warned("changed since the recording"));
  }
  SECTION("a build without build ID") {
    const ResolvedFrames resolved = resolve(Module{built("no_id_whole"), build_id_of(built("dwarf4"))}, third);
    CHECK(unresolved(resolved));
    CHECK(resolved.warned("no build ID"));
  }
  SECTION("a debug file of another build") {
    const ResolvedFrames resolved = resolve(built("wrong/wrong"), third);
    CHECK(resolved.frames.at(0).at(0).file.empty());
    CHECK(resolved.warned("another build"));
  }
  SECTION("a debug file with another checksum") {
    const ResolvedFrames resolved = resolve(built("damaged_link"), third);
    CHECK(resolved.frames.at(0).at(0).file.empty());
    CHECK(resolved.warned("another build"));
  }
  SECTION("no recorded build ID: accepted with a warning") {
    const ResolvedFrames resolved = resolve(Module{built("dwarf4"), ""}, third);
    CHECK(text_of(resolved.frames.at(0)).starts_with("+fixture::third(int) "));
    CHECK(resolved.warned("without build ID"));
  }
}

TEST_CASE("without debug information ELF symbols are used; without symbols, addresses are unresolved") {
  const auto probes = probes_of("dwarf4");
  const std::vector<std::uint64_t> requested = {probes.at("third"), probes.at("inlined_in_c"), probes.at("aliases"),
                                                probes.at("assembly")};
  CHECK(text_of(resolve(built("symbols_only"), requested)) ==
        "fixture::outermost(int) :0\n--\nstatic_in_c :0\n--\nfixture_public :0\n--\nunsized_assembly :0\n--\n");
  const ResolvedFrames stripped = resolve(built("stripped"), requested);
  CHECK(unresolved(stripped));
  if (exists(built("mini")))
    CHECK(text_of(resolve(built("mini"), requested))
              .starts_with("fixture::outermost(int) :0\n--\nstatic_in_c :0\n--\n"));
}

TEST_CASE("a function without a name has the address of its first instruction") {
  const std::string assembly = "unsized_assembly";  // it has no unwind information
  std::vector<std::uint64_t> requested, expected;
  std::istringstream lines(output_of("nm -S --defined-only '" + built("dwarf4") + "'"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::uint64_t begin = 0, size = 0;
    std::string type, name;
    if (!(fields >> std::hex >> begin >> size >> type >> name) || (type != "t" && type != "T") || size < 2) continue;
    for (const std::uint64_t at : {begin, begin + size / 2, begin + size - 1}) {
      requested.push_back(at);
      expected.push_back(begin);
    }
  }
  REQUIRE(requested.size() > 20);
  const std::size_t functions = requested.size();
  requested.push_back(probes_of("dwarf4").at("assembly"));
  expected.push_back(0);
  requested.push_back(text_section(built("dwarf4")).back() + 0x100000);
  expected.push_back(0);
  const ResolvedFrames resolved = resolve(built("stripped"), requested);
  REQUIRE(unresolved(resolved));
  for (std::size_t i = 0; i < requested.size(); ++i) {
    INFO(std::hex << requested[i]);
    CHECK(resolved.frames[i].back().function_begin == expected[i]);
  }
  const ResolvedFrames named =
      resolve(built("symbols_only"), {requested.begin(), requested.begin() + static_cast<long>(functions)});
  for (const auto& frames : named.frames) CHECK(frames.back().function_begin == 0);
}

TEST_CASE("several files with the same problem share a warning") {
  std::vector<Module> modules;
  std::vector<CodeAddress> requested;
  for (const char* name : {"stripped", "late_stripped", "no_such_file"}) {
    const std::string path = built(name);
    requested.push_back({static_cast<std::uint32_t>(modules.size()), probes_of("dwarf4").at("third")});
    modules.push_back({path, exists(path) ? build_id_of(path) : ""});
  }
  Symbolizer symbolizer(modules, {});
  symbolizer.resolve(requested);
  const std::vector<std::string> warnings = symbolizer.warnings();
  REQUIRE(warnings.size() == 2);
  CHECK(warnings.at(0).starts_with("stripped and late_stripped: stripped, and no debug file was found"));
  CHECK(warnings.at(1).starts_with(built("no_such_file") + ": "));

  for (int i = 0; i < 7; ++i) {
    const std::string copy = built("stripped") + std::to_string(i);
    std::filesystem::copy_file(built("stripped"), copy, std::filesystem::copy_options::overwrite_existing);
    requested.push_back({static_cast<std::uint32_t>(modules.size()), probes_of("dwarf4").at("third")});
    modules.push_back({copy, build_id_of(copy)});
  }
  Symbolizer many(modules, {});
  many.resolve(requested);
  CHECK(many.warnings().at(0).starts_with(
      "stripped, late_stripped, stripped0, stripped1 and 5 other files: stripped, and no debug file was found"));
}

TEST_CASE("many embedded modules with the same warning, and many warnings of one, take little time") {
  constexpr std::uint32_t kModules = 80'000;
  std::vector<Module> modules;
  std::vector<ModuleSymbols> embedded;
  std::vector<CodeAddress> requested;
  for (std::uint32_t i = 0; i < kModules; ++i) {
    ModuleSymbols& symbols = embedded.emplace_back();
    symbols.path = "/usr/lib/" + std::to_string(1'000'000 + i) + ".so";
    symbols.warnings = {symbols.path + ": stripped"};
    symbols.addresses = {0x1000};
    symbols.frames.push_back({SourceFrame{"function", "", 0, false}});
    modules.push_back({symbols.path, ""});
    requested.push_back({i, 0x1000});
  }
  for (std::uint32_t i = 0; i < kModules; ++i)
    embedded.front().warnings.push_back("warning " + std::to_string(1'000'000 + i));
  RecordedProcess process;
  process.embedded_symbols = std::make_shared<const std::vector<ModuleSymbols>>(std::move(embedded));
  const std::clock_t start = std::clock();  // of all threads
  Symbolizer symbolizer(std::move(modules), {}, process);
  const auto frames = symbolizer.resolve(requested);
  const std::vector<std::string> warnings = symbolizer.warnings();
  CHECK((std::clock() - start) / CLOCKS_PER_SEC < 10);
  CHECK(frames.back().at(0).function == "function");
  REQUIRE(warnings.size() == 1 + kModules);
  CHECK(warnings.front() == "1000000.so, 1000001.so, 1000002.so, 1000003.so and 79996 other files: stripped");
}

TEST_CASE("a function without a symbol is named after the exported functions that end in a jump to it") {
  std::map<std::string, std::uint64_t> at;
  std::istringstream lines(output_of("cat '" + built("tails_addresses") + "'"));
  for (std::string name, address; lines >> name >> address;) at[name] = std::stoull(address, nullptr, 16);
  const std::vector<std::uint64_t> requested = {at.at("jumped_to"), at.at("jumped_to") + 4, at.at("called")};
  const ResolvedFrames whole = resolve(built("tails_whole"), requested);
  CHECK(whole.frames.at(0).at(0).function == "jumped_to");
  const ResolvedFrames stripped = resolve(built("tails_stripped"), requested);
  CHECK(stripped.frames.at(0).at(0).function == "[tail of answer, ask]");
  CHECK(stripped.frames.at(1).at(0).function == "[tail of answer, ask]");
  CHECK(stripped.frames.at(2).at(0).function.empty());
}

TEST_CASE("an exported name of a C function is preferred to a private one") {
  std::map<std::string, std::uint64_t> at;
  std::istringstream lines(output_of("cat '" + built("aliases_addresses") + "'"));
  for (std::string name, address; lines >> name >> address;) at[name] = std::stoull(address, nullptr, 16);
  for (const char* const file : {"aliases", "aliases_exported"}) {
    INFO(file);
    const ResolvedFrames resolved =
        resolve(built(file), {at.at("read_it"), at.at("known_to_all"), at.at("decorated_")});
    CHECK(resolved.frames.at(0).at(0).function == "read_it");
    CHECK(resolved.frames.at(0).at(0).line == 2);
    CHECK(resolved.frames.at(1).at(0).function == "known_to_all");
    CHECK(resolved.frames.at(2).at(0).function == "decorated");
  }
}

TEST_CASE("a symbol without a size ends where the next function with unwind information begins") {
  std::map<std::string, std::uint64_t> at;
  std::istringstream lines(output_of("cat '" + built("late_addresses") + "'"));
  for (std::string name, address; lines >> name >> address;) at[name] = std::stoull(address, nullptr, 16);
  REQUIRE(at.at("nameless") > at.at("stub"));
  const ResolvedFrames whole = resolve(built("late_whole"), {at.at("stub"), at.at("nameless")});
  CHECK(whole.frames.at(0).at(0).function == "stub");
  CHECK(whole.frames.at(1).at(0).function == "nameless");
  const ResolvedFrames stripped = resolve(built("late_stripped"), {at.at("stub"), at.at("nameless")});
  CHECK(stripped.frames.at(0).at(0).function == "stub");
  CHECK(stripped.frames.at(1).at(0).function.empty());
}

TEST_CASE("addresses without a file are unresolved, with a warning") {
  Directory directory;
  std::ofstream(directory / "text")
      << "not an ELF file, but longer than the header of one, so that it is really read";
  std::ofstream(directory / "empty").close();
  REQUIRE(mkfifo((directory / "pipe").c_str(), 0600) == 0);
  const std::vector<std::string> paths = {
      "[vdso]",           "/nowhere/at/all",   "/usr/bin/true (deleted)", "[heap]",       "",
      directory / "text", directory / "empty", directory / "pipe",        directory / "", "/memfd:x (deleted)"};
  std::vector<Module> modules;
  std::vector<CodeAddress> addresses;
  for (const std::string& path : paths) {
    addresses.push_back({static_cast<std::uint32_t>(modules.size()), 0x1234});
    modules.push_back({path, "00112233445566778899aabbccddeeff00112233"});
  }
  addresses.push_back({static_cast<std::uint32_t>(modules.size()), 0x1234});  // no such module
  addresses.push_back({UINT32_MAX, 0});
  Symbolizer symbolizer(modules, {});
  const ResolvedFrames resolved{symbolizer.resolve(addresses), symbolizer.warnings()};
  CHECK(resolved.frames.size() == addresses.size());
  CHECK(unresolved(resolved));
  for (const std::string& path : paths)
    if (!path.empty()) {
      INFO(path);
      CHECK(resolved.warned(path.ends_with('/') ? path
                                                : path.substr(path.rfind('/') + 1)));  // files that share a warning
    }
  CHECK(resolved.warned("deleted while the program ran"));
  // A second call does not repeat a warning.
  symbolizer.resolve(addresses);
  CHECK(symbolizer.warnings() == resolved.warnings);
}

TEST_CASE("options: no symbols, no inlined functions") {
  const auto probes = probes_of("dwarf4");
  const std::vector<std::uint64_t> third = {probes.at("third")};
  Options none;
  none.symbols = false;
  CHECK(unresolved(resolve(built("dwarf4"), third, none)));
  Options flat;
  flat.inlines = false;
  const std::string line = std::to_string(line_of("main.cpp", "outermost calls second"));
  CHECK(text_of(resolve(built("dwarf4"), third, flat)) == "fixture::outermost(int) main.cpp:" + line + "\n--\n");
}

TEST_CASE("addresses can be in any order, repeated, in many modules, and outside of code") {
  const auto of_pie = probes_of("dwarf4"), of_fixed = probes_of("fixed");
  const std::vector<Module> modules = {{built("dwarf4"), build_id_of(built("dwarf4"))},
                                       {built("fixed"), build_id_of(built("fixed"))},
                                       {built("symbols_only"), build_id_of(built("symbols_only"))}};
  std::vector<CodeAddress> addresses;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (const auto& [name, address] : of_fixed) addresses.push_back({1, address});
    for (const auto& [name, address] : of_pie) addresses.push_back({0, address}), addresses.push_back({2, address});
    for (const std::uint64_t nowhere : {std::uint64_t{0}, std::uint64_t{1} << 40, ~std::uint64_t{0}})
      addresses.push_back({static_cast<std::uint32_t>(repeat), nowhere});
  }
  std::mt19937 random(heapprof::test::seed(3));
  std::shuffle(addresses.begin(), addresses.end(), random);
  Symbolizer together(modules, {});
  const auto all = together.resolve(addresses);
  REQUIRE(all.size() == addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    Symbolizer alone(modules, {});
    const auto one = alone.resolve({addresses[i]});
    REQUIRE(one.size() == 1);
    REQUIRE(text_of(one[0]) == text_of(all[i]));
  }
}

TEST_CASE("debuginfod is used only when allowed") {
  if (void* library = dlopen("libdebuginfod.so.1", RTLD_NOW); library == nullptr)
    return heapprof::test::skip_case("libdebuginfod.so.1 is not installed");
  Directory cache;
  setenv("DEBUGINFOD_URLS", ("file://" + built("server")).c_str(), 1);
  setenv("DEBUGINFOD_CACHE_PATH", (cache / "cache").c_str(), 1);
  const std::vector<std::uint64_t> addresses = text_section(built("dwarf4"));
  CHECK(resolve(built("stripped"), {probes_of("dwarf4").at("third")}).frames.at(0).at(0).file.empty());
  CHECK(!exists(cache / "cache"));
  Options options;
  options.debuginfod = true;
  const std::string truth = text_of(resolve(built("dwarf4"), addresses));
  CHECK(text_of(resolve(built("stripped"), addresses, options)) == truth);
  CHECK(text_of(resolve(Module{"/nowhere", build_id_of(built("dwarf4"))}, addresses, options)) == truth);
  setenv("DEBUGINFOD_URLS", "", 1);
  CHECK(resolve(Module{"/nowhere", "0011223344"}, {1}, options).warned("DEBUGINFOD_URLS"));
}

TEST_CASE("functions of a Rust program have the names in its source") {
  const std::string path = built("rust_program");
  if (!exists(path)) return heapprof::test::skip_case("rustc is not installed");
  std::istringstream symbols(output_of("nm '" + path + "'"));
  std::uint64_t main_address = 0, insert_address = 0;
  std::string main_name;
  for (std::string line; std::getline(symbols, line);) {
    if (line.size() < 20) continue;
    const std::string name = line.substr(19);
    if (name.find("insert") != std::string::npos && name.find("Wrapper") != std::string::npos)
      insert_address = std::stoull(line, nullptr, 16);
    if (name.starts_with("_R") || name.starts_with("_ZN")) {
      if (name.find("rust_program4main") != std::string::npos || name.find("4rust4main") != std::string::npos)
        main_address = std::stoull(line, nullptr, 16);
    }
  }
  REQUIRE(insert_address != 0);
  const auto at_insert = resolve(path, {insert_address}).frames.at(0);
  CHECK(at_insert.back().function.find("insert") != std::string::npos);
  CHECK(at_insert.back().function.find("Wrapper") != std::string::npos);
  CHECK(at_insert.back().file.ends_with("/rust.rs"));
  for (const auto& frames : resolve(path, {insert_address, main_address}).frames)
    for (const SourceFrame& frame : frames) {
      CHECK(!frame.function.starts_with("_"));
      CHECK(frame.function.find("17h") == std::string::npos);
    }
}

TEST_CASE("llvm-symbolizer agrees on every address of the program") {
  if (output_of("command -v llvm-symbolizer").empty())
    return heapprof::test::skip_case("llvm-symbolizer is not installed");
  // Demanglers differ in "> >" and ">>". For the cold part of a function, LLVM prints the name of its symbol.
  const auto closed = [](std::string name) {
    if (constexpr std::string_view kCold = " (.cold)"; name.ends_with(kCold)) name.resize(name.size() - kCold.size());
    for (std::size_t at; (at = name.find("> >")) != std::string::npos;) name.erase(at + 1, 1);
    return name;
  };
  for (const std::string program : {"dwarf4", "dwarf5", "zlib", "linked"}) {
    const std::string path = built(program);
    const std::vector<std::uint64_t> addresses = text_section(built(program == "dwarf5" ? "dwarf5" : "dwarf4"));
    const ResolvedFrames ours = resolve(path, addresses);
    Directory directory;
    std::ofstream list(directory / "addresses");
    for (const std::uint64_t address : addresses) list << "0x" << std::hex << address << "\n";
    list.close();
    std::istringstream lines(output_of("llvm-symbolizer --obj='" + path +
                                       "' --functions=linkage --demangle --inlines <'" + (directory / "addresses") +
                                       "' 2>/dev/null"));
    // A name and a source line for each frame, an empty line after each address.
    std::vector<std::vector<std::pair<std::string, std::string>>> theirs(1);
    for (std::string name, place; std::getline(lines, name);) {
      if (name.empty()) {
        theirs.emplace_back();
      } else if (std::getline(lines, place)) {
        place = place.substr(0, place.rfind(':'));
        theirs.back().emplace_back(name, place.substr(place.rfind('/') + 1));
      }
    }
    theirs.pop_back();
    REQUIRE(theirs.size() == addresses.size());
    std::size_t compared = 0, inlined = 0;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const auto& frames = ours.frames[i];
      if (frames[0].file.empty() || frames.back().function.empty()) continue;  // padding, or assembly
      INFO(program << " at " << std::hex << addresses[i] << "\n" << text_of(frames));
      REQUIRE(frames.size() == theirs[i].size());
      for (std::size_t f = 0; f < frames.size(); ++f) {
        const SourceFrame& frame = frames[f];
        REQUIRE(frame.file.substr(frame.file.rfind('/') + 1) + ":" + std::to_string(frame.line) ==
                theirs[i][f].second);
        // Functions without a linkage name have their scopes here, but not there.
        const std::string& name = theirs[i][f].first;
        // Demanglers differ in names that are local to a function, such as lambdas.
        const bool local =
            name.find("operator()") != std::string::npos || frame.function.find(")::") != std::string::npos;
        if (!local && frame.function != "fixture_public") REQUIRE(closed(frame.function).ends_with(closed(name)));
      }
      ++compared;
      inlined += frames.size() > 1;
    }
    CHECK(compared > 100);
    CHECK(inlined > 20);
  }
}

TEST_CASE("functions of this kernel's vDSO are named") {
  const std::uint64_t base = getauxval(AT_SYSINFO_EHDR);
  if (base == 0) return heapprof::test::skip_case("this process has no vDSO");
  std::uint64_t address = 0;
  std::string build_id;
  {
    Directory directory;
    std::ofstream(directory / "vdso", std::ios::binary).write(reinterpret_cast<const char*>(base), 2 * 4096);
    build_id = build_id_of(directory / "vdso");
    std::istringstream symbols(output_of("nm -D '" + (directory / "vdso") + "'"));
    for (std::string line; std::getline(symbols, line);)
      if (line.find("__vdso_clock_gettime") != std::string::npos ||
          line.find("__kernel_clock_gettime") != std::string::npos)
        address = std::stoull(line, nullptr, 16);
  }
  if (address == 0 || build_id.empty())
    return heapprof::test::skip_case("the vDSO has no symbol of clock_gettime, or no build ID");
  const std::string function = resolve(Module{"[vdso]", build_id}, {address}).frames.at(0).at(0).function;
  CHECK(function.find("clock_gettime") != std::string::npos);
  const ResolvedFrames other = resolve(Module{"[vdso]", "0123456789abcdef0123456789abcdef01234567"}, {address});
  CHECK(unresolved(other));
  CHECK(other.warned("another kernel"));
}

namespace {

/// A running process of the program at `path`, which reads its standard input.
class Running {
 public:
  explicit Running(const std::string& path) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid = fork();
    if (pid == 0) {
      dup2(ends[0], 0);
      close(ends[1]);
      execl(path.c_str(), path.c_str(), nullptr);
      _exit(1);
    }
    close(ends[0]);
    input_ = ends[1];
    const auto runs = [&] { return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe") == path; };
    for (int i = 0; i < 60'000 && !runs(); ++i) usleep(1000);
    REQUIRE(runs());
  }
  ~Running() {
    close(input_);
    waitpid(pid, nullptr, 0);
  }
  pid_t pid;

 private:
  int input_;
};

}  // namespace

TEST_CASE("deleted and replaced files are read from the process that still runs them") {
  Directory directory;
  const std::string program = directory / "waits";
  std::filesystem::copy_file("/bin/cat", program);
  const std::string id = build_id_of(program);
  const Running process(program);
  const std::vector<std::uint64_t> addresses = text_section(program);
  const std::string truth = text_of(resolve(program, addresses));
  const auto resolve_live = [&](const std::string& path, pid_t pid) {
    RecordedProcess recorded;
    recorded.live_pid = static_cast<std::uint32_t>(pid);
    Symbolizer symbolizer({{path, id}}, {}, recorded);
    std::vector<CodeAddress> requested;
    for (const std::uint64_t address : addresses) requested.push_back({0, address});
    auto frames = symbolizer.resolve(requested);
    return ResolvedFrames{std::move(frames), symbolizer.warnings()};
  };
  std::filesystem::remove(program);
  ResolvedFrames live = resolve_live(program + " (deleted)", process.pid);
  CHECK(text_of(live) == truth);
  CHECK(!live.warned("deleted while the program ran"));
  CHECK(resolve_live(program + " (deleted)", 0).warned("deleted while the program ran"));
  std::filesystem::copy_file(built("dwarf4"), program);
  CHECK(text_of(resolve_live(program, process.pid)) == truth);
  CHECK(resolve_live(program, 0).warned("changed since the recording"));
  CHECK(unresolved(resolve_live(program, 0)));
}

TEST_CASE("a file without build ID is rejected when its time or size contradicts") {
  const auto probes = probes_of("dwarf4");
  const auto resolve_with = [&](std::uint64_t recorded_at_ns, std::uint64_t map_bytes) {
    RecordedProcess recorded;
    recorded.recorded_at_ns = recorded_at_ns;
    Symbolizer symbolizer({{built("no_id_whole"), "", map_bytes}}, {}, recorded);
    auto frames = symbolizer.resolve({{0, probes.at("third")}});
    return ResolvedFrames{std::move(frames), symbolizer.warnings()};
  };
  constexpr std::uint64_t kLong = std::uint64_t{1} << 61;  // after the file was built, and after now
  CHECK(text_of(resolve_with(kLong, 0)).starts_with("+fixture::third(int) "));
  CHECK(text_of(resolve_with(0, 0x5000)).starts_with("+fixture::third(int) "));
  CHECK(unresolved(resolve_with(1'000'000'000, 0)));
  CHECK(resolve_with(1'000'000'000, 0).warned("modified after the recording started"));
  CHECK(unresolved(resolve_with(kLong, 0x500000)));
  CHECK(resolve_with(kLong, 0x500000).warned("changed since the recording"));
}

TEST_CASE("cached frames equal resolved ones, until a file changes") {
  Directory directory;
  Options options;
  options.cache_directory = directory / "cache";
  const std::string program = directory / "program";
  std::filesystem::copy_file(built("stripped"), program);
  const std::vector<std::uint64_t> addresses = text_section(built("dwarf4"));
  const std::vector<std::uint64_t> half(addresses.begin(),
                                        addresses.begin() + static_cast<std::ptrdiff_t>(addresses.size() / 2));
  const ResolvedFrames bare = resolve(program, addresses, options);
  CHECK(exists(options.cache_directory));
  CHECK(text_of(resolve(program, addresses, options)) == text_of(bare));
  CHECK(resolve(program, addresses, options).warnings == bare.warnings);
  // A debug file is installed after the first call.
  Options with_debug = options;
  with_debug.debug_dirs = {built("debug")};
  Options uncached = with_debug;
  uncached.cache_directory.clear();
  const std::string truth = text_of(resolve(program, addresses, uncached));
  CHECK(truth != text_of(bare));
  CHECK(text_of(resolve(program, half, with_debug)) == text_of(resolve(program, half, uncached)));
  CHECK(text_of(resolve(program, addresses, with_debug)) == truth);  // half of them cached
  CHECK(text_of(resolve(program, addresses, with_debug)) == truth);
  // Without inlined functions, from the same cache entries.
  with_debug.inlines = uncached.inlines = false;
  CHECK(text_of(resolve(program, addresses, with_debug)) == text_of(resolve(program, addresses, uncached)));
  // Damaged entries are replaced.
  for (const auto& entry : std::filesystem::directory_iterator(options.cache_directory))
    std::ofstream(entry.path(), std::ios::binary | std::ios::trunc) << "damaged";
  with_debug.inlines = true;
  CHECK(text_of(resolve(program, addresses, with_debug)) == truth);
}

TEST_CASE("names that are embedded in a trace are not stored in the cache") {
  Directory directory;
  Options options;
  options.cache_directory = directory / "cache";
  options.debug_dirs = {built("debug")};  // so that the files are asked for what the trace does not name
  const auto probes = probes_of("dwarf4");
  const std::string path = built("stripped");
  const std::uint64_t embedded = probes.at("third");
  Options uncached = options;
  uncached.cache_directory.clear();
  const std::string truth = text_of(resolve(path, {embedded}, uncached));
  ModuleSymbols forged;
  forged.path = path;
  forged.build_id_hex = build_id_of(path);
  forged.addresses = {embedded};
  forged.frames.push_back({SourceFrame{"forged", "", 0, false}});
  RecordedProcess bundled;
  bundled.embedded_symbols = std::make_shared<const std::vector<ModuleSymbols>>(1, forged);
  // When the second one is looked up, the cache has the true frames of the embedded address.
  for (const std::string missing : {"main", "plain_c"}) {
    INFO(missing);
    Symbolizer symbolizer({Module{path, forged.build_id_hex}}, options, bundled);
    const auto frames = symbolizer.resolve({{0, embedded}, {0, probes.at(missing)}});
    CHECK(text_of(frames.at(0)) == "forged :0\n");
    CHECK(frames.at(1).back().function == missing);
    CHECK(text_of(resolve(path, {embedded}, options)) == truth);
    CHECK(text_of(resolve(path, {probes.at(missing)}, options)) ==
          text_of(resolve(path, {probes.at(missing)}, uncached)));
  }
}

TEST_CASE("resolving addresses of a damaged file does not crash") {
  std::ifstream file(built("dwarf5"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  const std::vector<std::uint64_t> addresses = text_section(built("dwarf5"));
  Directory directory;
  std::mt19937 random(heapprof::test::seed(11));
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 300; ++round) {
    std::string damaged = whole;
    if (round % 7 == 0) damaged.resize(random() % whole.size());
    if (round % 5 == 0 && damaged.size() >= 64) damaged[16 + random() % 48] = static_cast<char>(random());
    for (unsigned i = 0, n = 1 + random() % 60; i < n && !damaged.empty(); ++i)
      damaged[damaged.size() / 8 + random() % (damaged.size() - damaged.size() / 8)] = static_cast<char>(random());
    const std::string path = directory / "damaged";
    std::ofstream(path, std::ios::binary) << damaged;
    const ResolvedFrames resolved = resolve(Module{path, ""}, addresses);
    REQUIRE(resolved.frames.size() == addresses.size());
    for (const auto& frames : resolved.frames) REQUIRE(!frames.empty());
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(120));
}
