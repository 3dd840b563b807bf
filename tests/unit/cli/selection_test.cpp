// The options that select blocks, compared with the known figures of the recording.
#include <catch2/catch.hpp>

#include "analyzer/cli/options/selection.h"
#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof;
using namespace heapprof::test;

namespace {

struct Figures {
  std::uint64_t allocations, allocated, peak, leaked;
  friend bool operator==(const Figures&, const Figures&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Figures& figures) {
    return out << figures.allocations << " allocations, " << figures.allocated << " allocated, " << figures.peak
               << " peak, " << figures.leaked << " leaked";
  }
};

Figures selected(const KnownTrace& trace, const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"report", trace.path(), "--json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Outcome report = run(arguments);
  CHECK(report.status == 0);
  return {report.number("/heap/allocations"), report.number("/heap/allocated_bytes"),
          report.number("/heap/peak_bytes"), report.number("/heap/leaked_bytes")};
}

}  // namespace

TEST_CASE("--thread selects by name or tid, and may be repeated") {
  const KnownTrace trace;
  const Figures of_worker{1, kC, kC, kC};
  const Figures of_main{4, kA + kB + kD + kE, kA + kB, kE};
  CHECK(selected(trace, {"--thread", "worker"}) == of_worker);
  CHECK(selected(trace, {"--thread", std::to_string(kWorkerTid)}) == of_worker);
  CHECK(selected(trace, {"--thread", "main"}) == of_main);
  CHECK(selected(trace, {"--thread", "main", "--thread", "worker"}) ==
        Figures{kAllocations, kAllocatedBytes, kPeakBytes, kLeakedBytes});
}

TEST_CASE("--not-thread excludes by name or tid, also of the threads that --thread selects") {
  const KnownTrace trace;
  const Figures of_worker{1, kC, kC, kC};
  CHECK(selected(trace, {"--not-thread", "main"}) == of_worker);
  CHECK(selected(trace, {"--not-thread", std::to_string(kMainTid)}) == of_worker);
  CHECK(selected(trace, {"--thread", "main", "--thread", "worker", "--not-thread", "main"}) == of_worker);
  CHECK(selected(trace, {"--not-thread", "main", "--not-thread", "worker"}) == Figures{0, 0, 0, 0});
  CHECK(selected(trace, {"--not-thread", "nobody"}) ==
        Figures{kAllocations, kAllocatedBytes, kPeakBytes, kLeakedBytes});
}

TEST_CASE("--not-module excludes stacks with a frame in the module") {
  const KnownTrace trace;
  const Figures of_work{1, kC, kC, kC};
  CHECK(selected(trace, {"--not-module", "demo"}) == of_work);
  CHECK(selected(trace, {"--not-module", "/opt/known/d*"}) == of_work);
  CHECK(selected(trace, {"--module", "libwork.so", "--not-module", "demo"}) == of_work);
  CHECK(selected(trace, {"--not-module", "libwork.so", "--not-function", kParseName}) == Figures{2, kA + kE, kA, kE});
}

TEST_CASE("--module, --function and --not-function select stacks") {
  const KnownTrace trace;
  const Figures of_work{1, kC, kC, kC};
  const Figures of_demo{4, kA + kB + kD + kE, kA + kB, kE};
  CHECK(selected(trace, {"--module", "libwork.so"}) == of_work);
  CHECK(selected(trace, {"--module", "/opt/known/lib*"}) == of_work);
  CHECK(selected(trace, {"--module", "dem?"}) == of_demo);
  CHECK(selected(trace, {"--function", kParseName}) == Figures{2, kB + kD, kB, 0});
  CHECK(selected(trace, {"--function", "0x[23]00$"}) == of_demo);
  CHECK(selected(trace, {"--function", kMainName}) == of_demo);  // anywhere in the stack
  CHECK(selected(trace, {"--not-function", kMainName}) == of_work);
  CHECK(selected(trace, {"--function", kMainName, "--not-function", kParseName}) == Figures{2, kA + kE, kA, kE});
}

TEST_CASE("--min-size and --max-size select by size, limits included") {
  const KnownTrace trace;
  CHECK(selected(trace, {"--min-size", "2K"}) == Figures{2, kB + kC, kB + kC, kC});
  CHECK(selected(trace, {"--min-size", "2049"}) == Figures{1, kC, kC, kC});
  CHECK(selected(trace, {"--max-size", "512"}) == Figures{2, kD + kE, kE, kE});
  CHECK(selected(trace, {"--min-size", "512", "--max-size", "1K"}) == Figures{2, kA + kE, kA, kE});
}

TEST_CASE("--from and --to select a slice of time, in seconds, with a unit or in percent") {
  const KnownTrace trace;
  // From 35 to 65 ms only D is allocated; A, B and C were live when the slice began.
  for (const auto& [from, to] : {std::pair("35ms", "65ms"), std::pair("0.035", "65000us"), std::pair("35%", "65%")})
    CHECK(selected(trace, {"--from", from, "--to", to}) == Figures{1, kD, kPeakBytes, 0});
  CHECK(selected(trace, {"--from", "65ms"}) == Figures{1, kE, kC + kE, kE});
  CHECK(selected(trace, {"--to", "25ms"}) == Figures{2, kA + kB, kA + kB, kA + kB});
  const Outcome report = run({"report", trace.path(), "--json", "--from", "35ms", "--to", "65ms"});
  CHECK(report.number("/slice/from_ns") == 35 * kMs);
  CHECK(report.number("/slice/to_ns") == 65 * kMs);
}

TEST_CASE("--live-at, --min-lifetime, --max-lifetime and --freed select blocks by when they lived") {
  const KnownTrace trace;
  CHECK(selected(trace, {"--live-at", "45ms"}) == Figures{2, kA + kC, kA + kC, kC});
  CHECK(selected(trace, {"--live-at", "100%"}) == Figures{2, kC + kE, kC + kE, kC + kE});
  CHECK(selected(trace, {"--min-lifetime", "30ms"}) == Figures{3, kA + kC + kE, kA + kC, kC + kE});
  CHECK(selected(trace, {"--max-lifetime", "20ms"}) == Figures{2, kB + kD, kB, 0});
  CHECK(selected(trace, {"--min-lifetime", "1ms", "--max-lifetime", "30ms"}) == Figures{1, kB, kB, 0});
  CHECK(selected(trace, {"--freed", "yes"}) == Figures{3, kA + kB + kD, kA + kB, 0});
  CHECK(selected(trace, {"--freed", "no"}) == Figures{2, kC + kE, kC + kE, kC + kE});
  CHECK(selected(trace, {"--freed", "any"}) == Figures{kAllocations, kAllocatedBytes, kPeakBytes, kLeakedBytes});
  // By 45 ms, B is freed, and A and C are not.
  CHECK(selected(trace, {"--to", "45ms", "--freed", "yes"}) == Figures{1, kB, kB, 0});
  CHECK(selected(trace, {"--to", "45ms", "--freed", "no"}) == Figures{2, kA + kC, kA + kC, kA + kC});
  CHECK(selected(trace, {"--live-at", "30ms", "--freed", "no"}) == Figures{1, kC, kC, kC});
  CHECK(selected(trace, {"--live-at", "30ms", "--freed", "yes", "--min-lifetime", "30ms"}) == Figures{1, kA, kA, 0});
}

TEST_CASE("--survivors selects of the blocks of a slice those that are live later") {
  const KnownTrace trace;
  CHECK(selected(trace, {"--from", "15ms", "--to", "35ms", "--survivors"}) == Figures{2, kB + kC, kC, kC});
  CHECK(selected(trace, {"--from", "15ms", "--to", "35ms", "--survivors", "38ms"}) ==
        Figures{2, kB + kC, kB + kC, kB + kC});
  CHECK(selected(trace, {"--to", "35ms", "--survivors=45%"}) == Figures{3, kPeakBytes, kA + kC, kA + kC});
  CHECK(selected(trace, {"--from", "65ms", "--survivors", "end"}) == Figures{1, kE, kE, kE});
  // The word after it is no moment if it is a file.
  const Outcome report = run({"report", "--json", "--from", "15ms", "--to", "35ms", "--survivors", trace.path()});
  CHECK(report.status == 0);
  CHECK(report.number("/survivors_ns") == 100 * kMs);
  CHECK(report.number("/slice/to_ns") == 35 * kMs);
  CHECK(report.number("/heap/leaked_bytes") == kC);
  CHECK(report.number("/top/0/bytes") == kC);
}

TEST_CASE("the titles of a slice name its moments") {
  const KnownTrace trace;
  const std::vector<std::string> slice = {"--from", "15ms", "--to", "35ms"};
  const auto text = [&](const char* command, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {command, trace.path()};
    arguments.insert(arguments.end(), slice.begin(), slice.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  const Outcome leaks = text("leaks", {});
  CHECK(leaks.has_line({"Allocated from 15.0 ms to 35.0 ms and live at 35.0 ms: 6.00 KiB in 2 blocks."}));
  CHECK(leaks.has_line({"still live at the end of the recording: --survivors"}));
  const Outcome left = text("leaks", {"--survivors"});
  CHECK(left.has_line({"Allocated from 15.0 ms to 35.0 ms and still live at its last event: 4.00 KiB in 1 block."}));
  CHECK_FALSE(left.has_line({"still live at the end of the recording: --survivors"}));
  const Outcome later = text("report", {"--survivors", "38ms"});
  CHECK(later.has_line({"only what was allocated from 15.0 ms to 35.0 ms, until 38.0 ms"}));
  CHECK(later.has_line({"Allocated from 15.0 ms to 35.0 ms and still live at 38.0 ms, by call site"}));
  const Outcome picture = text("flamegraph", {"--survivors", "38ms"});
  CHECK(picture.has_line({"Allocated from 15.0 ms to 35.0 ms and still live at 38.0 ms: demo"}));
}

TEST_CASE("--survivors needs a slice that ends before it") {
  const KnownTrace trace;
  for (const std::vector<std::string>& options :
       std::vector<std::vector<std::string>>{{"--survivors"},
                                             {"--survivors", "50ms"},
                                             {"--from", "15ms", "--survivors", "--live-at", "50ms"},
                                             {"--from", "15ms", "--to", "35ms", "--survivors", "30ms"},
                                             {"--from", "15ms", "--to", "35ms", "--survivors", "5"},
                                             {"--from", "15ms", "--to", "35ms", "--survivors", "101%"},
                                             {"--from", "15ms", "--to", "35ms", "--survivors", "no such mark"}}) {
    std::vector<std::string> arguments = {"report", trace.path()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome report = run(arguments);
    INFO(report.err);
    CHECK(report.status == 2);
    CHECK(report.out == "");
  }
}

TEST_CASE("--kind selects mappings, or all without counting a byte twice") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.alloc(1 * kMs, 0xa000, 100);
  main.add(Op::kMap, 2 * kMs, 0x7f2000000000, 8192, 0, kMapAnonymous);
  main.add(Op::kMap, 3 * kMs, 0x7f2000100000, 4096, 0, kMapAnonymous | kMapFromAllocator);  // malloc's own
  const TemporaryFile trace;
  builder.write(trace.path());
  const auto peak = [&](const char* kind) {
    return run({"report", trace.path(), "--json", "--kind", kind}).number("/total/bytes");
  };
  CHECK(peak("heap") == 100);
  CHECK(peak("mmap") == 8192 + 4096);
  CHECK(peak("all") == 8192 + 100);
}

TEST_CASE("the output names the selection") {
  const KnownTrace trace;
  const Outcome report = run({"report", trace.path(), "--json", "--thread", "worker", "--min-size", "1K"});
  const std::string selected = report.at("/selected");
  CHECK(selected.find("--thread worker") != std::string::npos);
  CHECK(selected.find("--min-size 1024") != std::string::npos);
}

TEST_CASE("the message about a moment after the recording's end has the user's value and the exact end") {
  TraceBuilder builder;
  builder.header.end_kind = EndKind::kExit;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.alloc(100'000, 0xa000, 100);
  main.sample(1'004'321, builder.header.start_monotonic_ns + 1'004'321, 1 << 20);
  main.flush();
  const TemporaryFile trace;
  builder.write(trace.path());
  for (const char* option : {"--live-at", "--from"}) {
    INFO(option);
    const Outcome late = run({"report", trace.path(), option, "1010us"});
    CHECK(late.status == 2);
    CHECK(late.err.find(std::string(option) + " 1010us is after") != std::string::npos);
    CHECK(late.err.find("1.004321ms") != std::string::npos);
    CHECK(late.err.find("percentage") != std::string::npos);
    CHECK(run({"report", trace.path(), option, "1.004321ms"}).status == 0);
  }
  const Outcome twisted = run({"report", trace.path(), "--from", "1000.2us", "--to", "1000.1us"});
  CHECK(twisted.status == 2);
  CHECK(twisted.err.find("--from 1000.2us is after --to 1000.1us") != std::string::npos);
}

TEST_CASE("the end of a recording that was killed is its last known event") {
  for (const EndKind end : {EndKind::kSignal, EndKind::kNone, EndKind::kExit}) {
    TraceBuilder builder;
    builder.header.end_kind = end;
    auto& main = builder.stream();
    main.thread(1, "main");
    main.alloc(100'000, 0xa000, 100);
    main.flush();
    const TemporaryFile trace;
    builder.write(trace.path());
    const Outcome late = run({"report", trace.path(), "--live-at", "1s"});
    CHECK(late.status == 2);
    CHECK((late.err.find("last known event") != std::string::npos) == (end != EndKind::kExit));
  }
}

TEST_CASE("invalid or contradictory values are a wrong command line") {
  const KnownTrace trace;
  for (const std::vector<std::string>& options :
       std::vector<std::vector<std::string>>{{"--from", "soon"},
                                             {"--to", "101%"},
                                             {"--live-at", "-1"},
                                             {"--min-lifetime", "5 parsecs"},
                                             {"--max-lifetime", "10%"},
                                             {"--min-size", "2K", "--max-size", "1K"},
                                             {"--min-lifetime", "2", "--max-lifetime", "1"},
                                             {"--function", "("},
                                             {"--not-function", "[z"},
                                             {"--live-at", "1ms", "--kind", "mmap"},
                                             {"--freed", "no", "--kind", "mmap"},
                                             {"--freed", "never"},
                                             {"--kind", "stack"}}) {
    std::vector<std::string> arguments = {"report", trace.path()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    INFO(options.front() << ' ' << options[1]);
    const Outcome report = run(arguments);
    CHECK(report.status == 2);
    CHECK(report.out == "");
    CHECK(report.err != "");
  }
}

TEST_CASE("durations and moments are numbers with a unit") {
  using heapprof::cli::parse_duration_ns;
  CHECK(parse_duration_ns("1") == 1'000'000'000);
  CHECK(parse_duration_ns("20us") == 20'000);
  CHECK(parse_duration_ns("7ns") == 7);
  CHECK(parse_duration_ns("1.5m") == 90'000'000'000);
  CHECK(parse_duration_ns("1h") == 3'600'000'000'000);
  for (const char* wrong : {"", "x", "1x", "-1", "nan", "1e999", "40%"}) CHECK_FALSE(parse_duration_ns(wrong));
  CHECK(heapprof::cli::parse_moment("40%")->percent);
  CHECK(heapprof::cli::parse_moment("300ms")->value == Approx(0.3));
  CHECK_FALSE(heapprof::cli::parse_moment("100.1%"));
  CHECK(heapprof::cli::parse_moment("end")->value == 100);
  CHECK_FALSE(heapprof::cli::parse_moment("load begins"));
  using heapprof::cli::parse_moment_or_mark;
  CHECK(parse_moment_or_mark("load begins")->mark == "load begins");
  CHECK(parse_moment_or_mark("mark:2.5")->mark == "2.5");
  CHECK(parse_moment_or_mark("2.5")->mark == "");
  CHECK(parse_moment_or_mark("start")->mark == "");
  for (const char* wrong : {"", "mark:", "1x", "-1", "101%"}) CHECK_FALSE(parse_moment_or_mark(wrong));
}

TEST_CASE("blocks live at a moment are all counted, those of zero bytes too") {
  // 100 bytes in one block until the third second, then nine blocks of 0 bytes; nothing is freed.
  TraceBuilder builder;
  auto& stream = builder.stream();
  stream.thread(1, "main");
  stream.module(2, "/usr/bin/demo", "", 0x1000, 0);
  stream.node(1, 0, 2, 0x10);
  stream.node(2, 0, 2, 0x20);
  stream.alloc(1 * kMs, 0xa000, 100, 1);
  for (std::uint64_t i = 0; i < 9; ++i) stream.alloc(50 * kMs, 0xb000 + 16 * i, 0, i < 4 ? 1 : 2);
  builder.header.end_kind = EndKind::kExit;
  builder.header.end_ticks = 100 * kMs;
  const TemporaryFile file;
  builder.write(file.path());

  const Outcome json = run({"report", file.path(), "--json", "--live-at", "90%"});
  CHECK(json.number("/heap/peak_bytes") == 100);
  CHECK(json.number("/heap/peak_blocks") == 10);
  CHECK(json.number("/heap/peak_time_ns") == 90 * kMs);
  CHECK(json.number("/total/blocks") == 10);
  REQUIRE(json.count("/top") == 2);
  CHECK(json.number("/top/0/blocks") == 5);
  CHECK(json.number("/top/1/blocks") == 5);
  const Outcome text = run({"report", file.path(), "--live-at", "90%"});
  CHECK(text.has_line({"live", "100 B", "in 10 blocks, at 90.0 ms"}));
  CHECK(text.has_line({"never freed", "100 B", "of these, in 10 blocks"}));
  // The peak of the recording, and of a slice, is at the time at which it was first reached.
  CHECK(run({"report", file.path(), "--json"}).number("/heap/peak_blocks") == 1);
  const Outcome slice = run({"report", file.path(), "--json", "--live-at", "90%", "--to", "95%"});
  CHECK(slice.number("/heap/peak_time_ns") == kMs);
}

TEST_CASE("commands with --live-at print its time instead of a peak") {
  const KnownTrace trace;
  // At 45 ms A and C are live; the peak is at 30 ms.
  const std::vector<std::string> moment = {trace.path(), "--live-at", "45ms"};
  const auto with = [&](std::vector<std::string> command, const std::vector<std::string>& more = {}) {
    command.insert(command.end(), moment.begin(), moment.end());
    command.insert(command.end(), more.begin(), more.end());
    const Outcome outcome = run(command);
    CHECK(outcome.status == 0);
    return outcome.out;
  };
  const auto has = [](const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
  };
  const std::string flame = with({"flamegraph"});
  CHECK(has(flame, "Live heap at 45.0 ms of demo"));
  CHECK(has(flame, "bytes live at 45.0 ms"));
  CHECK_FALSE(has(flame, "Peak"));
  const std::string picture = with({"timeline"}, {"--format", "svg"});
  CHECK(has(picture, "Live: 5.00 KiB at 45.0 ms"));
  CHECK(has(picture, "live 5.00 KiB at 45.0 ms"));
  CHECK(has(picture, ">At 45.0 ms<"));
  CHECK_FALSE(has(picture, ">At the peak"));
  CHECK_FALSE(has(picture, ">peak "));
  CHECK_FALSE(has(picture, "Peak:"));
  const std::string plot = with({"timeline"});
  CHECK(has(plot, "live 5.00 KiB at 45.0 ms"));
  CHECK(has(plot, "\nAt 45.0 ms, 5.00 KiB:\n"));
  CHECK_FALSE(has(plot, "eak"));
  const std::string figures = with({"timeline"}, {"--json"});
  CHECK(json_at(figures, "/peak/time_ns") == std::to_string(45 * kMs));
  const std::string speedscope = with({"export", "speedscope"}, {"-o", "-"});
  CHECK(has(speedscope, "\"bytes live at 45.0 ms\""));
  CHECK_FALSE(has(speedscope, "at the peak"));
  const Outcome diff = run({"diff", trace.path(), trace.path(), "--live-at", "45ms"});
  CHECK(diff.has_line({"live", "5.00 KiB", "5.00 KiB", "same"}));
  CHECK_FALSE(has(diff.out, "peak"));
}

TEST_CASE("resident memory at a moment or in a slice without a sample is unknown, not zero") {
  const KnownTrace trace;
  const Outcome before = run({"report", trace.path(), "--json", "--live-at", "0"});
  CHECK(before.at("/peak_rss_bytes") == "null");
  CHECK(before.at("/rss_bytes") == "null");
  const Outcome end = run({"report", trace.path(), "--json", "--live-at", "100%"});
  CHECK(end.number("/peak_rss_bytes") == kResidentBytes);
  CHECK(end.number("/rss_bytes") == kResidentBytes);
  CHECK(run({"report", trace.path(), "--json"}).at("/rss_bytes") == "null");
  const Outcome slice = run({"report", trace.path(), "--json", "--from", "10ms", "--to", "50ms"});
  CHECK(slice.at("/peak_rss_bytes") == "null");
}

TEST_CASE("a slice whose end is after that of the recording ends with the recording") {
  const KnownTrace trace;
  const Outcome report = run({"report", trace.path(), "--json", "--from", "35ms", "--to", "9"});
  CHECK(report.number("/slice/from_ns") == 35 * kMs);
  CHECK(report.number("/slice/to_ns") == kDurationNs);
}

TEST_CASE("--kind all counts blocks and mappings; only blocks can be temporary") {
  TraceBuilder builder;
  auto& stream = builder.stream();
  stream.thread(1, "main");
  stream.module(2, "/usr/bin/demo", "", 0x1000, 0);
  stream.node(1, 0, 2, 0x10);
  for (std::uint64_t i = 0; i < 10; ++i)
    stream.add(Op::kMap, (1 + i) * kMs, 0x10000000 + (i << 21), 1 << 20, 1, kMapAnonymous);
  for (std::uint64_t i = 0; i < 2; ++i) {
    stream.alloc((20 + 2 * i) * kMs, 0xa000, 100, 1);
    if (i == 0) stream.free((21 + 2 * i) * kMs, 0xa000);
  }
  builder.header.end_kind = EndKind::kExit;
  builder.header.end_ticks = 100 * kMs;
  const TemporaryFile file;
  builder.write(file.path());

  const Outcome all = run({"report", file.path(), "--kind", "all"});
  CHECK(all.has_line({"allocated", "in 12 blocks and mappings"}));
  CHECK(all.has_line({"temporary", "50.0%", "1 freed"}));
  const Outcome large = run({"report", file.path(), "--kind", "all", "--min-size", "1M"});
  CHECK(large.has_line({"allocated", "10.0 MiB", "in 10 blocks and mappings"}));
  CHECK(run({"report", file.path(), "--kind", "mmap", "--cost", "allocations"}).has_line({"Number of mappings"}));
  CHECK(run({"report", file.path(), "--kind", "all", "--cost", "allocations"})
            .has_line({"Number of allocations and mappings"}));
}

TEST_CASE("a function, module or thread that matches nothing is reported once, with the nearest name") {
  const KnownTrace trace;
  const auto error_of = [&](const char* option, const char* value) {
    return run({"report", trace.path(), option, value}).err;
  };
  const std::string begin = "heapprof: " + trace.path() + ": ";
  CHECK(error_of("--function", "demo+0x310") ==
        begin + "--function demo+0x310: matches nothing in the recording; did you mean 'demo+0x300'?\n");
  CHECK(error_of("--function", "DEMO") ==
        begin +
            "--function DEMO: matches nothing in the recording; names that contain it: 'demo+0x100', "
            "'demo+0x200', 'demo+0x300'\n");
  CHECK(error_of("--function", "something_else") ==
        begin +
            "--function something_else: matches nothing in the recording; 'heapprof report --by function --top 0' "
            "lists the functions\n");
  CHECK(error_of("--module", "libwork") ==
        begin + "--module libwork: matches nothing in the recording; names that contain it: 'libwork.so'\n");
  CHECK(error_of("--thread", "workr") ==
        begin + "--thread workr: matches nothing in the recording; did you mean 'worker'?\n");
  CHECK(error_of("--function", kParseName).empty());
  // One of two that occurs is enough for figures; the other one is reported.
  const Outcome both = run({"leaks", trace.path(), "--json", "--function", kLoadName, "--function", "lod"});
  CHECK(both.number("/total/bytes") == kE);
  CHECK(both.err.find("--function lod: matches nothing") != std::string::npos);
  // A selection that is empty for another reason.
  CHECK(run({"report", trace.path(), "--function", kParseName, "--thread", "worker"}).err ==
        begin + "nothing matches the selection\n");
}

TEST_CASE("leaks of a selection that matches nothing, or nothing at the end, are not called no leaks") {
  const KnownTrace trace;
  const Outcome nothing = run({"leaks", trace.path(), "--function", "nosuch"});
  CHECK(nothing.has_line({"Nothing matches the selection."}));
  CHECK_FALSE(nothing.has_line({"no leaks"}));
  const Outcome freed = run({"leaks", trace.path(), "--function", kParseName});
  CHECK(freed.has_line({"No selected block was live at the end."}));
  CHECK(freed.err.empty());
}

TEST_CASE("an exclusion that matches nothing is reported, with the nearest name") {
  const KnownTrace trace;
  const Outcome thread = run({"report", trace.path(), "--not-thread", "workr"});
  CHECK(thread.err.find("--not-thread workr: matches nothing, so nothing is excluded; did you mean 'worker'?") !=
        std::string::npos);
  CHECK(thread.status == 0);
  const Outcome module = run({"report", trace.path(), "--not-module", "libwork.s"});
  CHECK(module.err.find("--not-module libwork.s: matches nothing") != std::string::npos);
  CHECK(module.err.find("'libwork.so'") != std::string::npos);
  const Outcome function = run({"report", trace.path(), "--not-function", "^lode$"});
  CHECK(function.err.find("--not-function ^lode$: matches nothing") != std::string::npos);
  for (const char* option : {"--not-thread", "--not-module", "--not-function"}) {
    const std::string name = std::string(option) == "--not-thread" ? "worker" : "libwork*";
    CHECK(run({"report", trace.path(), option, std::string(option) == "--not-function" ? kWorkName : name}).err ==
          "");
  }
}

TEST_CASE("the peak is a moment, if a byte was live") {
  const KnownTrace trace;
  for (const char* option : {"--live-at", "--to"})
    CHECK(run({"report", trace.path(), option, "peak", "--json"}).number("/heap/peak_bytes") == kPeakBytes);
  CHECK(run({"report", trace.path(), "--from", "peak", "--json"}).number("/slice/from_ns") == kPeakNs);
  // Of the whole recording, whatever else is selected.
  CHECK(run({"report", trace.path(), "--at", "peak", "--function", kLoadName, "--json"}).number("/heap/peak_bytes") ==
        kA);
  const KnownTrace empty(Variant::kEmpty);
  const Outcome refused = run({"report", empty.path(), "--at", "peak"});
  CHECK(refused.status == 2);
  CHECK(refused.err.find("no byte was live, so there is no peak") != std::string::npos);
}
