// Lines of Python in what the commands print. The code objects are those that CPython 3.11.7 compiles from kSource.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/python_text.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/exported_stacks.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof;
using namespace heapprof::test;
using namespace std::string_view_literals;

namespace {

constexpr std::string_view kSource = R"(import json
import site


def load(count):
    rows = []
    for i in range(count):
        rows.append(
            bytes(i * 1000))
    return rows


kept = sorted([3, 1, 2], key=lambda n: load(n))
)";
constexpr auto kModuleTable =
    "\xf0\x03\x01\x01\x01\xd8\x00\x0b\x80\x0b\x80\x0b\x80\x0b\xd8\x00\x0b\x80\x0b\x80\x0b\x80\x0b\xf0\x06\x05\x01\x10"
    "\xf0\x00\x05\x01\x10\xf0\x00\x05\x01\x10\xf0\x10\x00\x08\x0e\x80\x76\x88\x69\x88\x69\x88\x69\xd0\x1d\x2e\xd0\x1d"
    "\x2e\xd0\x07\x2f\xd1\x07\x2f\xd4\x07\x2f\x80\x04\x80\x04\x80\x04"sv;
constexpr auto kLoadTable =
    "\x80\x00\xd8\x0b\x0d\x80\x44\xdd\x0d\x12\x90\x35\x89\x5c\x8c\x5c\xf0\x00\x02\x05\x1d\xf0\x00\x02\x05\x1d\x88\x01"
    "\xd8\x08\x0c\x8f\x0b\x8a\x0b\xdd\x0c\x11\x90\x21\x90\x64\x91\x28\x89\x4f\x8c\x4f\xf1\x03\x01\x09\x1d\xf4\x00\x01"
    "\x09\x1d\xf0\x00\x01\x09\x1d\xf0\x00\x01\x09\x1d\xe0\x0b\x0f\x80\x4b"sv;
constexpr auto kLambdaTable = "\x80\x00\xa5\x74\xa8\x41\xa1\x77\xa4\x77\x80\x00"sv;

constexpr std::uint32_t kInterpreter = 2, kExtension = 3, kPython = raw(ModuleId::kPython);  // modules
constexpr std::uint32_t kModule = 1, kLoad = 2, kLambda = 3, kPackage = 4, kLost = 9;        // code objects
constexpr std::uint64_t kLoadedBytes = 6000, kExtensionBytes = 500, kImportedBytes = 300, kLostBytes = 70;
constexpr std::uint64_t kAllBytes = kLoadedBytes + kExtensionBytes + kImportedBytes + kLostBytes;

enum class Freed : bool {
  kNothing,
  kByAnotherThread,  ///< the block of load(), at the end
};

/// A trace of a program that allocates in load(), in an extension module of its own that load() calls, below the
/// import of a package, and in a function whose code object is missing.
class PythonTrace {
 public:
  explicit PythonTrace(Freed freed = Freed::kNothing) {
    std::filesystem::create_directories(folder());
    std::ofstream(source()) << kSource;
    TraceBuilder trace;
    auto& main = trace.stream();
    main.thread(kMainTid, "main");
    main.text(TextKind::kProgram, 0, 0, "/opt/known/python3.11");
    main.module(kInterpreter, "/opt/known/python3.11", "", 0x400000, 0x400000, 0x10000, true);
    main.module(kExtension, "/srv/app/native.so", "", 0x7f0000000000, 0x7f0000000000);
    main.text(TextKind::kPythonInterpreter, 0x030b07f0, 0, "");
    main.text(TextKind::kPythonInterpreter, 0x030d00f0, 0, "it is a free-threaded build");
    code(main, kModule, source(), "<module>", 1, kModuleTable);
    code(main, kLoad, source(), "load", 5, kLoadTable);
    code(main, kLambda, source(), "<lambda>", 13, kLambdaTable);
    code(main, kPackage, "/srv/venv/lib/python3.11/site-packages/rows/table.py", "Table.<locals>.fill", 3, {});

    std::uint32_t node = 0;
    const auto native = [&](std::uint32_t parent, std::uint64_t offset, std::uint32_t module = kInterpreter) {
      main.node(++node, parent, module, offset);
      return node;
    };
    const auto python = [&](std::uint32_t parent, std::uint32_t number, std::uint32_t instruction) {
      main.node(++node, parent, kPython, python_offset(number, instruction));
      return node;
    };
    constexpr std::uint64_t kEval = 0x200;
    const std::uint32_t start = native(native(0, 0x100), kEval);
    const std::uint32_t sorted = native(native(python(start, kModule, 22), kEval), 0x300);
    const std::uint32_t load = python(native(python(native(sorted, kEval), kLambda, 10), kEval), kLoad, 44);
    const std::uint32_t bytes = native(native(load, kEval), 0x500);
    const std::uint32_t extension = native(native(load, kEval), 0x40, kExtension);
    const std::uint32_t imported = native(python(native(python(start, kModule, 7), kEval), kPackage, 4), 0x500);
    const std::uint32_t lost = native(python(native(load, kEval), kLost, 3), 0x500);
    main.alloc(10 * kMs, 0xa000, kLoadedBytes, bytes);
    main.alloc(20 * kMs, 0xb000, kExtensionBytes, extension);
    main.alloc(30 * kMs, 0xc000, kImportedBytes, imported);
    main.alloc(40 * kMs, 0xd000, kLostBytes, lost);
    if (freed == Freed::kByAnotherThread) {
      auto& worker = trace.stream();
      worker.thread(kWorkerTid, "worker");
      worker.free(50 * kMs, 0xa000);
    }
    trace.write(path());
  }
  ~PythonTrace() { std::filesystem::remove_all(folder()); }

  std::string path() const { return file_.path(); }
  std::string folder() const { return file_.path() + ".d"; }
  std::string source() const { return folder() + "/app.py"; }

 private:
  static void code(TraceBuilder::Stream& stream, std::uint32_t number, const std::string& file,
                   const std::string& name, std::uint32_t first_line, std::string_view table) {
    const std::string text = python_code_text(file, name, first_line, PythonLines::kLocations, table);
    stream.text(TextKind::kPythonCode, number, 0, text.substr(0, 60));
    stream.text(TextKind::kPythonCode, number, 1, text.substr(60));
  }
  TemporaryFile file_;
};

}  // namespace

TEST_CASE("report shows lines of Python, and folds the interpreter between them") {
  const PythonTrace trace;
  const Outcome report = run({"report", trace.path(), "--json"});
  INFO(report.err);
  CHECK(report.status == 0);
  CHECK(report.number("/top/0/bytes") == kLoadedBytes);
  CHECK(report.count("/top/0/stack") == 4);
  CHECK(report.at("/top/0/stack/0/module") == "/opt/known/python3.11");
  CHECK(report.at("/top/0/stack/1/function") == "load");
  CHECK(report.at("/top/0/stack/1/file") == trace.source());
  CHECK(report.number("/top/0/stack/1/line") == 9);
  CHECK(report.at("/top/0/stack/1/module") == "Python 3.11");
  CHECK(report.at("/top/0/stack/2/function") == "<lambda>");
  CHECK(report.number("/top/0/stack/2/line") == 13);
  CHECK(report.at("/top/0/stack/3/function") == "<module>");
  CHECK(report.number("/top/0/stack/3/line") == 13);
  const Outcome all = run({"report", trace.path(), "--json", "--interpreter-frames"});
  CHECK(all.count("/top/0/stack") == 11);
  CHECK(run({"report", trace.path(), "--json", "--no-symbols"}).count("/top/0/stack") == 11);
}

TEST_CASE("the call site of an allocation in the interpreter or a package is the program's line of Python") {
  const PythonTrace trace;
  const Outcome report = run({"report", trace.path(), "--by", "site", "--json"});
  REQUIRE(report.count("/rows") == 4);
  CHECK(report.at("/rows/0/name") == "load");
  CHECK(report.number("/rows/0/line") == 9);
  CHECK(report.at("/rows/0/origin") == "own");
  CHECK(report.number("/rows/0/self/peak_bytes") == kLoadedBytes);
  // The program's own extension module is a site of its own.
  CHECK(report.at("/rows/1/module") == "/srv/app/native.so");
  CHECK(report.number("/rows/1/self/peak_bytes") == kExtensionBytes);
  CHECK(report.at("/rows/2/name") == "<module>");
  CHECK(report.number("/rows/2/line") == 2);
  CHECK(report.number("/rows/2/self/peak_bytes") == kImportedBytes);
}

TEST_CASE("rows by function, line and module have both languages") {
  const PythonTrace trace;
  const Outcome lines = run({"report", trace.path(), "--by", "line", "--json"});
  CHECK(lines.out.find("\"file\": \"" + trace.source() + "\"") != std::string::npos);
  const Outcome modules = run({"report", trace.path(), "--by", "module", "--json"});
  CHECK(modules.out.find("\"Python 3.11\"") != std::string::npos);
  const Outcome text = run({"report", trace.path(), "--by", "function", "--top", "0"});
  CHECK(text.has_line({"load", "app.py"}));
  CHECK(text.has_line({"Table.<locals>.fill"}));
}

TEST_CASE("text of every command names lines of Python") {
  const PythonTrace trace;
  for (const std::vector<std::string>& command : {std::vector<std::string>{"report"},
                                                  {"leaks"},
                                                  {"tree"},
                                                  {"callers", "load"},
                                                  {"blocks"},
                                                  {"source"},
                                                  {"flamegraph", "--format", "folded"},
                                                  {"timeline"},
                                                  {"top", "--once"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.begin() + 1, trace.path());
    const Outcome outcome = run(arguments);
    INFO(command.front() << ": " << outcome.err << outcome.out);
    CHECK(outcome.status == 0);
    CHECK((outcome.out.find("load") != std::string::npos || outcome.out.find("app.py") != std::string::npos));
  }
  const Outcome source = run({"source", trace.path(), "load"});
  INFO(source.err << source.out);
  CHECK(source.has_line({"9", "bytes(i * 1000))"}));
}

TEST_CASE("threads has the line of Python of blocks that another thread frees") {
  const PythonTrace trace(Freed::kByAnotherThread);
  const Outcome threads = run({"threads", trace.path(), "--json"});
  CHECK(threads.status == 0);
  REQUIRE(threads.count("/sites") == 1);
  CHECK(threads.number("/sites/0/blocks") == 1);
  CHECK(threads.number("/sites/0/bytes") == kLoadedBytes);
  CHECK(threads.at("/sites/0/site/function") == "load");
  CHECK(threads.at("/sites/0/site/file") == trace.source());
  CHECK(threads.number("/sites/0/site/line") == 9);
  CHECK(run({"threads", trace.path()}).has_line({"load"}));
  CHECK(run({"threads", PythonTrace().path()}).status == 0);
}

TEST_CASE("timeline and top have the live bytes of lines of Python") {
  const PythonTrace trace;
  const Outcome timeline = run({"timeline", trace.path(), "--json"});
  REQUIRE(timeline.count("/sites") >= 3);
  CHECK(timeline.at("/sites/0/name") == "load");
  CHECK(timeline.at("/sites/0/detail") == trace.source() + ":9");
  CHECK(timeline.number("/sites/0/peak_bytes") == kLoadedBytes);
  const std::string last = std::to_string(timeline.count("/sites/0/bytes") - 1);
  CHECK(timeline.number("/sites/0/bytes/" + last) == kLoadedBytes);
  CHECK(timeline.at("/sites/2/detail") == trace.source() + ":2");
  CHECK(timeline.number("/sites/2/bytes/" + last) == kImportedBytes);

  const Outcome top = run({"top", trace.path(), "--once", "--json"});
  REQUIRE(top.count("/rows") >= 3);
  CHECK(top.at("/rows/0/name") == "load");
  CHECK(top.at("/rows/0/file") == trace.source());
  CHECK(top.number("/rows/0/line") == 9);
  CHECK(top.number("/rows/0/live_bytes") == kLoadedBytes);
  CHECK(top.at("/rows/2/name") == "<module>");
  CHECK(top.number("/rows/2/line") == 2);
  CHECK(top.number("/rows/2/live_bytes") == kImportedBytes);
}

TEST_CASE("html has lines of Python") {
  const PythonTrace trace;
  const TemporaryFile file(".html");
  // Without most of what is less important: each answer is a process.
  REQUIRE(run({"html", trace.path(), "-o", file.path(), "--max-size", "500K"}).status == 0);
  const std::string page = read_file(file.path());
  const std::string begin = "id=\"answers\">";
  const std::size_t from = page.find(begin);
  REQUIRE(from != std::string::npos);
  const std::string answers = page.substr(from + begin.size(), page.find("</script>", from) - from - begin.size());
  const Outcome report{0, json_at(answers, "/answers/report?cost=peak&shared-frames=1&top=5"), ""};
  CHECK(report.number("/top/0/bytes") == kLoadedBytes);
  REQUIRE(report.count("/top/0/stack") == 4);
  const std::string frame = "/frames/" + report.at("/top/0/stack/1");
  CHECK(report.at(frame + "/function") == "load");
  CHECK(report.number(frame + "/line") == 9);
}

TEST_CASE("exports have lines of Python with their bytes") {
  const PythonTrace trace;
  const std::vector<std::pair<const char*, std::function<ExportedStacks(const std::string&)>>> formats = {
      {"heaptrack", stacks_of_heaptrack},
      {"pprof", stacks_of_pprof},
      {"speedscope", stacks_of_speedscope},
      {"dhat", stacks_of_dhat}};
  for (const auto& [format, stacks_of] : formats) {
    const TemporaryFile out;
    const Outcome outcome = run({"export", format, trace.path(), "-o", out.path()});
    INFO(format << ": " << outcome.err);
    REQUIRE(outcome.status == 0);
    const ExportedStacks stacks = stacks_of(read_uncompressed(out.path()));
    CHECK(bytes_of(stacks) == kAllBytes);
    CHECK(bytes_with(stacks, "load (app.py:9)") == kAllBytes - kImportedBytes);
    CHECK(bytes_with(stacks, "<lambda> (app.py:13)") == kAllBytes - kImportedBytes);
    if (format == "speedscope"sv) {
      CHECK(bytes_with(stacks, "<module> (app.py)") == kAllBytes);
    } else {
      CHECK(bytes_with(stacks, "<module> (app.py:13)") == kAllBytes - kImportedBytes);
      CHECK(bytes_with(stacks, "<module> (app.py:2)") == kImportedBytes);
    }
  }
}

TEST_CASE("other exports name lines of Python") {
  const PythonTrace trace;
  for (const char* format : {"massif", "callgrind", "firefox", "perfetto"}) {
    const TemporaryFile out;
    const Outcome outcome = run({"export", format, trace.path(), "-o", out.path()});
    INFO(format << ": " << outcome.err);
    CHECK(outcome.status == 0);
    const std::string text = read_uncompressed(out.path());
    for (const char* const name : {"load", "<lambda>", "<module>"}) CHECK(text.find(name) != std::string::npos);
    if (format == "massif"sv) CHECK(Outcome{0, text, ""}.has_line({std::to_string(kLoadedBytes), "load (app.py:9)"}));
    if (format == "callgrind"sv || format == "firefox"sv) CHECK(text.find(trace.source()) != std::string::npos);
  }
}

TEST_CASE("info names the interpreters, and why frames are missing") {
  const PythonTrace trace;
  const Outcome text = run({"info", trace.path()});
  CHECK(text.has_line({"python", "3.11.7, frames recorded"}));
  CHECK(text.has_line({"python", "3.13.0, frames not recorded: it is a free-threaded build"}));
  CHECK(text.out.find("Python 3.11\n") == std::string::npos);  // no loaded object
  const Outcome json = run({"info", trace.path(), "--json"});
  REQUIRE(json.count("/python") == 2);
  CHECK(json.at("/python/0/version") == "3.11.7");
  CHECK(json.at("/python/0/frames_recorded") == "true");
  CHECK(json.at("/python/0/reason") == "null");
  CHECK(json.at("/python/1/frames_recorded") == "false");
  CHECK(json.count("/modules") == 2);
  CHECK(run({"info", KnownTrace().path(), "--json"}).count("/python") == 0);
}

TEST_CASE("a missing code object is shown and noted") {
  const PythonTrace trace;
  const Outcome report = run({"report", trace.path(), "--json"});
  CHECK(report.out.find("\"(unknown Python code) +9\"") != std::string::npos);
  CHECK(report.out.find("1 code object of Python missing: shown as '(unknown Python code)'") != std::string::npos);
}

TEST_CASE("compacted traces, bundles and indexes keep lines of Python") {
  const PythonTrace trace;
  const auto rows = [&](const std::string& path) {
    return run({"report", path, "--by", "line", "--json", "--from", "start"}).at("/rows");
  };
  const std::string right = rows(trace.path());
  REQUIRE(right.find("app.py") != std::string::npos);
  const TemporaryFile compacted, bundle;
  CHECK(run({"compact", trace.path(), "-o", compacted.path()}).status == 0);
  CHECK(rows(compacted.path()) == right);
  CHECK(run({"info", compacted.path(), "--json"}).count("/python") == 2);
  CHECK(run({"bundle", trace.path(), "-o", bundle.path(), "--sources"}).status == 0);
  CHECK(rows(bundle.path()) == right);
  CHECK(run({"index", trace.path()}).status == 0);
  CHECK(rows(trace.path()) == right);
  std::filesystem::remove(trace.path() + ".idx");
  std::filesystem::remove(trace.source());
  CHECK(run({"source", bundle.path(), "load"}).has_line({"9", "bytes(i * 1000))"}));
}

TEST_CASE("files with functions of one name are distinct, and code without own code has its line of Python") {
  TraceBuilder trace;
  auto& main = trace.stream();
  main.thread(kMainTid, "main");
  main.text(TextKind::kProgram, 0, 0, "/opt/known/python3.11");
  main.module(kInterpreter, "/opt/known/python3.11", "", 0x400000, 0x400000, 0x10000, true);
  main.text(TextKind::kPythonInterpreter, 0x030b07f0, 0, "");
  constexpr std::string_view kFiles[] = {"/usr/lib/python3.11/site.py", "<frozen importlib._bootstrap>", "/app/a.py",
                                         "/app/b.py"};
  for (std::uint32_t i = 0; i < 4; ++i)
    main.text(TextKind::kPythonCode, i + 1, 0, python_code_text(kFiles[i], "<module>", 10 * i + 1));
  // site.py imports something; a.py runs b.py.
  main.node(1, 0, kPython, python_offset(1, 0));
  main.node(2, 1, kPython, python_offset(2, 0));
  main.node(3, 2, kInterpreter, 0x500);
  main.node(4, 0, kPython, python_offset(3, 0));
  main.node(5, 4, kPython, python_offset(4, 0));
  main.node(6, 5, kInterpreter, 0x500);
  main.alloc(10 * kMs, 0xa000, 700, 3);
  main.alloc(20 * kMs, 0xb000, 500, 6);
  main.alloc(20 * kMs, 0xc000, 300, 4);
  const TemporaryFile path;
  trace.write(path.path());
  const Outcome sites = run({"report", path.path(), "--by", "site", "--json"});
  REQUIRE(sites.count("/rows") == 3);
  CHECK(sites.at("/rows/0/file") == "/usr/lib/python3.11/site.py");
  CHECK(sites.at("/rows/0/origin") == "standard");
  CHECK(sites.at("/rows/1/file") == "/app/b.py");
  CHECK(sites.at("/rows/2/file") == "/app/a.py");
  const Outcome flames = run({"flamegraph", path.path(), "--format", "folded"});
  CHECK(flames.out.find("<module> a.py;<module> b.py;") != std::string::npos);
  CHECK(run({"report", path.path()}).out.find("recursion") == std::string::npos);
}

TEST_CASE("only own code leaves out packages and the interpreter") {
  const PythonTrace trace;
  const Outcome own = run({"flamegraph", trace.path(), "--only-own", "--format", "folded"});
  CHECK(own.out.find("load") != std::string::npos);
  CHECK(own.out.find("fill") == std::string::npos);
  CHECK(own.out.find("python3.11") == std::string::npos);
  CHECK(run({"report", trace.path(), "--function", "load", "--json"}).number("/heap/allocations") == 3);
  CHECK(run({"report", trace.path(), "--module", "Python*", "--json"}).number("/heap/allocations") == 4);
}
