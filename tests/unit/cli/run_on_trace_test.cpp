// What all commands that read a trace have in common: missing, damaged and empty traces, -o FILE, wrong options.
#include <algorithm>
#include <catch2/catch.hpp>

#include <cstring>
#include <fstream>
#include <new>
#include <stdexcept>

#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof;
using namespace heapprof::test;

namespace {

using Words = std::vector<std::string>;

/// Every command that prints results of one trace, without the argument TRACE.
const std::vector<Words> kCommands = {{"info"},
                                      {"report"},
                                      {"leaks"},
                                      {"pins"},
                                      {"histogram"},
                                      {"churn"},
                                      {"reallocs"},
                                      {"threads"},
                                      {"frees"},
                                      {"timeline"},
                                      {"flamegraph", "--format", "folded"},
                                      {"check", "--max-peak", "1G"}};

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Whether the command answers for several recordings.
bool takes_several(const Words& command) {
  return std::ranges::count(Words{"report", "leaks", "timeline", "flamegraph", "check"}, command.front()) != 0;
}

/// Writes a file that is not a trace.
void write_text(const std::string& path) { std::ofstream(path) << "this is not a recording\n"; }

}  // namespace

TEST_CASE("a command whose memory has run out, or would by far, gives exit status 1") {
  CHECK(cli::guarded("t.heapprof", []() -> int { throw std::bad_alloc(); }) == 1);
  CHECK(cli::guarded("t.heapprof", []() -> int { throw std::length_error("vector::reserve"); }) == 1);
  // Nobody expects another one: it is no message for users.
  CHECK_THROWS_AS(cli::guarded("t.heapprof", []() -> int { throw std::logic_error("x"); }), std::logic_error);
}

TEST_CASE("an undamaged trace gives exit status 0 and no messages") {
  const KnownTrace trace;
  for (const Words& command : kCommands) {
    INFO(command.front());
    const Outcome outcome = run(command + Words{trace.path()});
    CHECK(outcome.status == 0);
    CHECK(outcome.out != "");
    CHECK(outcome.err == "");
  }
}

TEST_CASE("a missing file, and one that is not a trace, give exit status 1 and a message with the path") {
  const TemporaryFile text;
  write_text(text.path());
  for (const Words& command : kCommands)
    for (const std::string& path : {std::string(kNoFile), text.path(), std::string("/")}) {
      INFO(command.front() << ' ' << path);
      const Outcome outcome = run(command + Words{path});
      CHECK(outcome.status == (path == "/" && !takes_several(command) ? 2 : 1));
      CHECK(outcome.out == "");
      CHECK(outcome.err.find("heapprof: " + path) == 0);
    }
}

TEST_CASE("a damaged trace gives exit status 1 and the results of the undamaged part") {
  const KnownTrace trace(Variant::kDamaged);
  for (const Words& command : kCommands) {
    INFO(command.front());
    const Outcome outcome = run(command + Words{trace.path()});
    CHECK(outcome.status == 1);
    CHECK(outcome.out != "");
    CHECK(outcome.err.find(trace.path()) != std::string::npos);
    CHECK(outcome.err.find("6 events lost") != std::string::npos);
  }
}

TEST_CASE("a trace without allocations gives exit status 0 and a message") {
  const KnownTrace trace(Variant::kEmpty);
  for (const Words& command : kCommands) {
    INFO(command.front());
    const Outcome outcome = run(command + Words{trace.path()});
    CHECK(outcome.status == 0);
    CHECK(outcome.err.find("no allocation was recorded") != std::string::npos);
  }
  const Outcome report = run({"report", trace.path(), "--json"});
  CHECK(report.number("/heap/allocations") == 0);
  CHECK(report.at("/top") == "[]");
}

TEST_CASE("-o FILE writes the same bytes as standard output") {
  const KnownTrace trace;
  for (const Words& command : kCommands) {
    INFO(command.front());
    const TemporaryFile file(".out");
    const Outcome to_file = run(command + Words{trace.path(), "-o", file.path()});
    CHECK(to_file.status == 0);
    CHECK(to_file.out == "");
    CHECK(read_file(file.path()) == run(command + Words{trace.path()}).out);
  }
}

TEST_CASE("an output that cannot be written gives exit status 1; the trace is never overwritten") {
  const KnownTrace trace;
  const std::string bytes = read_file(trace.path());
  for (const Words& command : kCommands) {
    INFO(command.front());
    const Outcome outcome = run(command + Words{trace.path(), "-o", kNoFile});
    CHECK(outcome.status == 1);
    CHECK(outcome.err.find(kNoFile) != std::string::npos);
    const Outcome over_itself = run(command + Words{trace.path(), "-o", trace.path()});
    CHECK(over_itself.status == 1);
    CHECK(read_file(trace.path()) == bytes);
    const Outcome full = run(command + Words{trace.path(), "-o", "/dev/full"});
    CHECK(full.status == 1);
  }
}

TEST_CASE("unknown options and missing values give exit status 2 and no output") {
  const KnownTrace trace;
  for (const Words& command : kCommands)
    for (const Words& wrong :
         {Words{"--no-such-option"}, Words{"-o"}, Words{"--min-size", "large"}, Words{"second", "third"}}) {
      if (takes_several(command) && wrong.front() == "second") continue;  // further traces
      INFO(command.front() << ' ' << wrong.front());
      const Outcome outcome = run(command + Words{trace.path()} + wrong);
      CHECK(outcome.status == 2);
      CHECK(outcome.out == "");
      CHECK(outcome.err.find("heapprof") != std::string::npos);
    }
}

TEST_CASE("an output never replaces another recording") {
  const KnownTrace trace;
  const KnownTrace other;
  const std::string bytes = read_file(other.path());
  const TemporaryFile xml(".xml");
  const TemporaryFile plain(".txt");
  write_text(plain.path());
  for (const Words& command : kCommands) {
    INFO(command.front());
    const Outcome outcome = run(command + Words{trace.path(), "-o", other.path()});
    CHECK(outcome.status == 1);
    CHECK(outcome.out == "");
    CHECK(outcome.err.find(other.path() + ": is a recording") != std::string::npos);
    CHECK(read_file(other.path()) == bytes);
    CHECK(run(command + Words{trace.path(), "-o", plain.path()}).status == 0);
  }
  for (const Words& words : {Words{"check", trace.path(), "--max-peak", "1G", "--junit", other.path()},
                             Words{"export", "csv", trace.path(), "-o", other.path()},
                             Words{"diff", trace.path(), trace.path(), "-o", other.path()}}) {
    INFO(words.front());
    CHECK(run(words).status == 1);
    CHECK(read_file(other.path()) == bytes);
  }
  // These write recordings, which may replace older ones.
  CHECK(run({"bundle", trace.path(), "-o", other.path()}).status == 0);
  CHECK(run({"compact", trace.path(), "-o", other.path()}).status == 0);
}

TEST_CASE("an empty argument or value is a wrong command line") {
  const KnownTrace trace;
  for (const Words& command : kCommands) {
    INFO(command.front());
    const Outcome outcome = run(command + Words{""});
    CHECK(outcome.status == 2);
    CHECK(outcome.out == "");
    CHECK(outcome.err.find("TRACE: the value is empty") != std::string::npos);
  }
  for (const Words& wrong :
       {Words{"report", trace.path(), "--function", ""}, Words{"report", trace.path(), "--to", ""},
        Words{"check", trace.path(), "--max-peak", "1G", "--baseline", ""},
        Words{"check", trace.path(), "--max-peak", "1G", "--junit", ""}, Words{"diff", trace.path(), ""},
        Words{"index", trace.path(), "-o", ""}}) {
    INFO(wrong.front() << ' ' << wrong[wrong.size() - 2]);
    const Outcome outcome = run(wrong);
    CHECK(outcome.status == 2);
    CHECK(outcome.out == "");
    CHECK(outcome.err.find("the value is empty") != std::string::npos);
  }
}

TEST_CASE("after an empty value (--option=), the next word is not used as the value") {
  const KnownTrace trace;
  for (const Words& wrong : {Words{"report", trace.path(), "--thread=", "--no-symbols"},
                             Words{"report", trace.path(), "--top=", "--no-symbols"},
                             Words{"export", "csv", trace.path(), "--output=", "file.csv"},
                             Words{trace.path(), "--thread=", "main"}, Words{"report", "--json=", trace.path()}}) {
    INFO(wrong[wrong.size() - 2]);
    const Outcome outcome = run(wrong);
    CHECK(outcome.status == 2);
    CHECK(outcome.out == "");
    CHECK(outcome.err.find("the value is empty") != std::string::npos);
  }
  // A word that is not the name of an option is a value; after --, no word is an option.
  CHECK(run({"report", trace.path(), "--function", "--x="}).err.find("the value is empty") == std::string::npos);
  CHECK(run({"info", "--", "--thread="}).status == 1);
}

TEST_CASE("the message about missing mappings of a damaged recording mentions the damage") {
  TraceBuilder builder;
  std::strcpy(builder.header.settings, "HEAPPROF_MMAP=0\n");
  auto& main = builder.stream();
  main.thread(1, "main");
  main.alloc(1 * kMs, 0xa000, 100);
  main.flush();
  main.alloc(2 * kMs, 0xb000, 100);
  main.flush();
  std::vector<std::uint8_t> bytes = builder.bytes();
  bytes[builder.frame_offsets(0).back() + sizeof(FrameHeader) + 4] ^= 0xff;
  const TemporaryFile trace;
  TraceBuilder::write_bytes(trace.path(), bytes);
  const Outcome outcome = run({"report", trace.path(), "--kind", "mmap"});
  CHECK(outcome.status == 1);
  CHECK(outcome.err.find("mappings were not recorded") != std::string::npos);
  CHECK(outcome.err.find("recorded data is missing") != std::string::npos);
  CHECK(outcome.err.find("the program made no mapping") == std::string::npos);
}

TEST_CASE("--json prints JSON, also for an empty or a damaged trace") {
  for (const Variant variant : {Variant::kUndamaged, Variant::kEmpty, Variant::kDamaged}) {
    const KnownTrace trace(variant);
    for (const Words& command : kCommands) {
      if (command.front() == "flamegraph") continue;
      INFO(command.front());
      CHECK(run(command + Words{trace.path(), "--json"}).at("/integrity/complete") ==
            (variant == Variant::kDamaged ? "false" : "true"));
    }
  }
}
