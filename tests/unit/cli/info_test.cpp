// heapprof info: what was recorded, and what is missing or damaged.
#include <catch2/catch.hpp>

#include <cstddef>
#include <cstring>

#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

TEST_CASE("info --json describes the recording") {
  const KnownTrace trace;
  const Outcome info = run({"info", trace.path(), "--json"});
  CHECK(info.status == 0);
  CHECK(info.at("/program") == "/opt/known/demo");
  CHECK(info.at("/command_line") == R"(["demo","--fast"])");
  CHECK(info.at("/command_line_truncated") == "false");
  CHECK(info.number("/pid") == kMainTid);
  CHECK(info.number("/parent_pid") == kParentPid);
  CHECK(info.number("/duration_ns") == kDurationNs);
  CHECK(info.number("/events") == kAllocations + kFrees);
  CHECK(info.number("/trace_bytes") == read_file(trace.path()).size());
  CHECK(info.at("/clock") == "monotonic");
  CHECK(info.at("/compacted") == "false");
  CHECK(info.at("/forked_child") == "false");
  CHECK(info.count("/threads") == 2);
}

TEST_CASE("info gives the version of the trace, and none if the header is damaged") {
  TraceBuilder builder;
  auto& stream = builder.stream();
  stream.thread(1, "main");
  stream.alloc(10, 0x1000, 64);
  auto bytes = builder.bytes();
  const TemporaryFile trace;
  TraceBuilder::write_bytes(trace.path(), bytes);
  CHECK(run({"info", trace.path(), "--json"}).at("/trace_version") == "3.0");
  CHECK(run({"info", trace.path()}).has_line({"trace", ", version 3.0, "}));
  bytes[offsetof(heapprof::FileHeader, version_major)] ^= 1;
  TraceBuilder::write_bytes(trace.path(), bytes);
  const Outcome info = run({"info", trace.path(), "--json"});
  CHECK(info.at("/trace_version") == "unknown");
  CHECK(info.number("/events") == 1);
  CHECK(run({"info", trace.path()}).has_line({"trace", ", version unknown, "}));
}

TEST_CASE("info lists the modules and marks the main program") {
  const KnownTrace trace;
  const Outcome info = run({"info", trace.path(), "--json"});
  REQUIRE(info.count("/modules") == 2);
  CHECK(info.at("/modules/0/path") == "/opt/known/demo");
  CHECK(info.at("/modules/0/main") == "true");
  CHECK(info.at("/modules/0/build_id") == "0123");
  CHECK(info.number("/modules/0/first_address") == 0x400000);
  CHECK(info.number("/modules/0/map_bytes") == 0x10000);
  CHECK(info.number("/modules/0/loads") == 1);
  CHECK(info.at("/modules/1/path") == "/opt/known/libwork.so");
  CHECK(info.at("/modules/1/main") == "false");
}

TEST_CASE("info shows the labels, whatever bytes a trace has for them") {
  TraceBuilder builder;
  std::strcpy(builder.header.settings, "HEAPPROF_LABELS=env=prod,note=a%2Cb%1B%FF,broken\nHEAPPROF_MMAP=1\n");
  builder.stream().thread(1, "main");
  const TemporaryFile trace;
  builder.write(trace.path());
  CHECK(run({"info", trace.path()}).has_line({"labels", "env=prod, note=a,b\xef\xbf\xbd\xef\xbf\xbd"}));
  CHECK(run({"info", trace.path(), "--json"}).at("/labels/env") == "prod");
  CHECK(run({"info", KnownTrace().path(), "--json"}).at("/labels") == "{}");
  CHECK(!run({"info", KnownTrace().path()}).has_line({"labels"}));
}

TEST_CASE("info prints the settings and why recording stopped") {
  TraceBuilder builder;
  std::strcpy(builder.header.settings, "HEAPPROF_MAX_DEPTH=64\nHEAPPROF_MMAP=off\n");
  builder.header.end_kind = heapprof::EndKind::kStopped;
  std::strcpy(builder.header.stop_reason, "the file reached its limit");
  builder.stream().thread(1, "main");
  const TemporaryFile trace;
  builder.write(trace.path());
  const Outcome info = run({"info", trace.path(), "--json"});
  CHECK(info.at("/settings") == R"({"HEAPPROF_MAX_DEPTH":"64","HEAPPROF_MMAP":"off"})");
  CHECK(info.at("/integrity/stop_reason") == "the file reached its limit");
  CHECK(info.at("/integrity/ended_by") == "stopped");
  const Outcome text = run({"info", trace.path()});
  CHECK(text.has_line({"HEAPPROF_MAX_DEPTH", "64"}));
  CHECK(text.out.find("the file reached its limit") != std::string::npos);
}

TEST_CASE("info prints process, threads and modules as text") {
  const KnownTrace trace;
  const Outcome info = run({"info", trace.path()});
  CHECK(info.has_line({"pid " + std::to_string(kMainTid), std::to_string(kParentPid)}));
  CHECK(info.has_line({"events", std::to_string(kAllocations + kFrees)}));
  CHECK(info.has_line({std::to_string(kMainTid), "4", "3.75 KiB", "main"}));
  CHECK(info.has_line({std::to_string(kWorkerTid), "1", "4.00 KiB", "worker"}));
  CHECK(info.has_line({"0123", "/opt/known/demo"}));
}
