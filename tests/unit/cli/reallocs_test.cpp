// heapprof reallocs: reallocated buffers, and the bytes that realloc copied.
#include <catch2/catch.hpp>

#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

namespace {

/// One buffer grows 16, 64 (moves), 128 (stays), 1024 (moves) and is freed; another shrinks from 512 to 256 bytes and
/// stays where it is.
void write_growth(const std::string& path) {
  TraceBuilder trace;
  auto& main = trace.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000);
  main.node(1, 0, 2, 0x100);  // grows
  main.node(2, 0, 2, 0x200);  // shrinks
  const auto resize = [&](std::uint64_t ms, std::uint64_t from, std::uint64_t to, std::uint64_t bytes,
                          std::uint32_t node) {
    main.realloc_begin(ms * kMs, from);
    main.realloc_end(ms * kMs, to, bytes, node);
  };
  main.alloc(1 * kMs, 0xa000, 16, 1);
  resize(2, 0xa000, 0xb000, 64, 1);
  resize(3, 0xb000, 0xb000, 128, 1);
  resize(4, 0xb000, 0xc000, 1024, 1);
  main.free(5 * kMs, 0xc000);
  main.alloc(6 * kMs, 0xd000, 512, 2);
  resize(7, 0xd000, 0xd000, 256, 2);
  trace.write(path);
}

}  // namespace

TEST_CASE("reallocs --json counts steps, moves, copied bytes and buffers") {
  const TemporaryFile trace;
  write_growth(trace.path());
  const Outcome reallocs = run({"reallocs", trace.path(), "--json"});
  CHECK(reallocs.status == 0);
  CHECK(reallocs.number("/total/steps") == 4);
  CHECK(reallocs.number("/total/moved") == 2);
  CHECK(reallocs.number("/total/copied_bytes") == 16 + 128);
  CHECK(reallocs.number("/total/chains") == 2);
  REQUIRE(reallocs.count("/sites") == 2);
  CHECK(reallocs.number("/sites/0/site/offset") == 0x100);
  CHECK(reallocs.at("/sites/0/origin") == run({"report", trace.path(), "--json"}).at("/sites/0/origin"));
  CHECK(reallocs.number("/sites/0/steps") == 3);
  CHECK(reallocs.number("/sites/0/copied_bytes") == 16 + 128);
  CHECK(reallocs.number("/sites/0/longest/steps") == 3);
  CHECK(reallocs.number("/sites/0/longest/first_bytes") == 16);
  CHECK(reallocs.number("/sites/0/longest/last_bytes") == 1024);
  CHECK(reallocs.number("/sites/1/site/offset") == 0x200);
  CHECK(reallocs.number("/sites/1/moved") == 0);
  CHECK(reallocs.number("/sites/1/longest/last_bytes") == 256);
}

TEST_CASE("reallocs prints the same figures as text") {
  const TemporaryFile trace;
  write_growth(trace.path());
  const Outcome reallocs = run({"reallocs", trace.path()});
  CHECK(reallocs.has_line({"copied", "144 B"}));
  CHECK(reallocs.has_line({"reallocs", "4", "2 buffers", "50.0%"}));
  CHECK(reallocs.has_line({"buffers", "max/buffer", "first-last size", "call site"}));
  CHECK(reallocs.has_line({"144 B", "3", "66.7%", "1", "3", "16 B to 1.00 KiB", "demo+0x100"}));
  CHECK(reallocs.has_line({"Callers of the first: heapprof callers TRACE demo+0x100 --cost allocated"}));
  const Outcome one = run({"reallocs", trace.path(), "--top", "1"});
  CHECK(one.has_line({"(1 of 2)"}));
  CHECK_FALSE(one.has_line({"demo+0x200"}));
}

TEST_CASE("a recording without reallocs has an empty list") {
  const KnownTrace trace;
  const Outcome reallocs = run({"reallocs", trace.path(), "--json"});
  CHECK(reallocs.status == 0);
  CHECK(reallocs.number("/total/steps") == 0);
  CHECK(reallocs.at("/sites") == "[]");
}
