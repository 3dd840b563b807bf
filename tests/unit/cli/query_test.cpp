// heapprof query and export sqlite, on the known recording.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/snapshot_builder.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

namespace {

/// The rows as CSV, without the names of the columns.
std::string rows(const std::string& trace, const std::string& sql, const std::vector<std::string>& options = {}) {
  std::vector<std::string> arguments = {"query", trace, sql, "--csv"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Outcome query = run(arguments);
  CHECK(query.status == 0);
  CHECK(query.err.empty());
  return query.out.substr(query.out.find('\n') + 1);
}

}  // namespace

TEST_CASE("query has the totals, stacks and threads of the report") {
  const KnownTrace trace;
  CHECK(rows(trace.path(),
             "SELECT allocations, allocated_bytes, peak_bytes, leaked_bytes, peak_time_ns, "
             "peak_rss_bytes, duration_ns FROM processes") == "5,7936,7168,4608,30000000,9437184,100000000\n");
  CHECK(rows(trace.path(), "SELECT name, peak_bytes FROM call_sites ORDER BY peak_bytes DESC") ==
        "libwork.so+0x400,4096\ndemo+0x300,2048\ndemo+0x200,1024\n");
  CHECK(rows(trace.path(), "SELECT name, allocations FROM stacks WHERE name LIKE '%0x300%'") ==
        "demo+0x300 < demo+0x100,2\n");
  CHECK(rows(trace.path(), "SELECT tid, name, allocated_bytes FROM threads ORDER BY tid") ==
        "4242,main,3840\n4243,worker,4096\n");
  CHECK(rows(trace.path(),
             "SELECT f.name FROM frames f JOIN stacks s USING (stack_id) WHERE s.allocations = 2 AND "
             "NOT f.is_call_site") == "demo+0x100\ndemo+0x100\n");
}

TEST_CASE("the resident memory of query is that of the report") {
  const KnownTrace trace;
  const auto resident = [&](const std::vector<std::string>& options) {
    return rows(trace.path(), "SELECT peak_rss_bytes, pid FROM processes", options);
  };
  CHECK(resident({"--from", "50ms"}) == "9437184,4242\n");
  CHECK(resident({"--live-at", "100%"}) == "9437184,4242\n");
  CHECK(resident({"--to", "50ms"}) == ",4242\n");
  CHECK(resident({"--live-at", "45ms"}) == ",4242\n");
  CHECK(resident({"--thread", "worker"}) == ",4242\n");  // it is that of the process
}

TEST_CASE("query has the samples and snapshots of the slice") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.alloc(10 * kMs, 0xa000, kA);
  for (const std::uint64_t number : {1u, 2u, 3u}) {
    const std::uint64_t at_ns = number * 20 * kMs;
    main.sample(at_ns, builder.header.start_monotonic_ns + at_ns, kResidentBytes);
    SnapshotBuilder snapshot;
    snapshot.begin_ns = at_ns;
    snapshot.end_ns = at_ns + 100;
    snapshot.mapping(0x1000000, 0x1004000, "rw-p");
    snapshot.pages(heapprof::kPresent, 0x1000000, 0x1002000);
    snapshot.add_to(builder, main, number);
  }
  main.alloc(99 * kMs, 0xb000, kB);
  const TemporaryFile trace;
  builder.write(trace.path());
  for (const char* const table : {"samples", "residency"}) {
    const auto times = [&](const std::vector<std::string>& options) {
      return rows(trace.path(), std::string("SELECT count(*), min(time_ns), max(time_ns) FROM ") + table, options);
    };
    INFO(table);
    CHECK(times({}) == "3,20000000,60000000\n");
    CHECK(times({"--from", "30ms", "--to", "50ms"}) == "1,40000000,40000000\n");
    CHECK(times({"--to", "40ms"}) == "2,20000000,40000000\n");
  }
}

TEST_CASE("query reads allocations of a part of the time, with their frees") {
  const KnownTrace trace;
  CHECK(rows(trace.path(),
             "SELECT allocated_ns, size_bytes FROM allocations WHERE allocated_ns >= 20000000 AND "
             "allocated_ns < 60000000") == "20000000,2048\n30000000,4096\n");
  CHECK(rows(trace.path(), "SELECT size_bytes, freed_ns, temporary FROM allocations WHERE allocated_ns = 20000000") ==
        "2048,40000000,1\n");
  CHECK(rows(trace.path(), "SELECT size_bytes FROM allocations WHERE lifetime_ns < 1000000") == "256\n");
  CHECK(rows(trace.path(), "SELECT size_bytes FROM allocations WHERE freeing_thread_id <> thread_id") == "1024\n");
  CHECK(rows(trace.path(), "SELECT count(*), count(freed_ns) FROM allocations WHERE allocated_ns > 1e12") == "0,0\n");
  CHECK(rows(trace.path(), "SELECT sum(size_bytes) FROM allocations", {"--thread", "worker"}) == "4096\n");
  // Freed by the end of the recording, not of that part.
  CHECK(rows(trace.path(), "SELECT size_bytes FROM allocations WHERE allocated_ns < 35000000", {"--freed", "no"}) ==
        "4096\n");
}

TEST_CASE("query has the blocks of a moment") {
  const KnownTrace trace;
  CHECK(rows(trace.path(), "SELECT size_bytes, age_ns FROM live_blocks ORDER BY 1") ==
        "512,30000000\n4096,70000000\n");
  CHECK(rows(trace.path(), "SELECT size_bytes FROM live_blocks(45000000) ORDER BY 1") == "1024\n4096\n");
  CHECK(rows(trace.path(), "SELECT sum(size_bytes) FROM live_blocks('peak')") == "7168\n");
  CHECK(rows(trace.path(),
             "SELECT t.time_ns / 1000000, count(b.address) FROM (SELECT 25000000 AS time_ns UNION SELECT "
             "45000000) t JOIN live_blocks(t.time_ns) b GROUP BY 1") == "25,2\n45,2\n");
  CHECK(run({"query", trace.path(), "SELECT * FROM live_blocks('3s')"}).status == 2);
}

TEST_CASE("query refuses what does not read, with exit status 2, and reports damage with 1") {
  const KnownTrace trace;
  CHECK(run({"query", trace.path(), "DROP TABLE stacks"}).status == 2);
  const Outcome wrong = run({"query", trace.path(), "SELECT nmae FROM stacks"});
  CHECK(wrong.status == 2);
  CHECK(wrong.err.find("did you mean 'name'?") != std::string::npos);
  CHECK(run({"query", kNoFile, "SELECT 1"}).status == 1);
  const KnownTrace damaged(Variant::kDamaged);
  const Outcome rest = run({"query", damaged.path(), "SELECT count(*) FROM threads", "--csv"});
  CHECK(rest.status == 1);
  CHECK(rest.err.find("the rest was read") != std::string::npos);
}

TEST_CASE("query without SQL reads no events, but refuses what is no recording, and never replaces one") {
  const KnownTrace trace;
  const KnownTrace other;
  CHECK(run({"query", trace.path()}).status == 0);
  const Outcome missing = run({"query", kNoFile});
  CHECK(missing.status == 1);
  CHECK(missing.out == "");
  CHECK(missing.err.find(kNoFile) != std::string::npos);
  const std::string bytes = read_file(trace.path());
  CHECK(run({"query", trace.path(), "-o", trace.path()}).status == 1);
  CHECK(run({"query", other.path(), "-o", trace.path()}).status == 1);
  CHECK(run({"query", "--schema", "-o", trace.path()}).status == 1);
  CHECK(read_file(trace.path()) == bytes);
}

TEST_CASE("an error after the first row leaves the file that the output would replace") {
  const KnownTrace trace;
  const TemporaryFile output(".csv");
  std::ofstream(output.path()) << "old";
  const Outcome query = run({"query", trace.path(), "SELECT 1 UNION ALL SELECT abs(-9223372036854775807 - 1)",
                             "--csv", "-o", output.path()});
  CHECK(query.status == 2);
  CHECK(query.err.find("SQL: integer overflow") != std::string::npos);
  CHECK(read_file(output.path()) == "old");
}

TEST_CASE("export sqlite writes a database, and nothing if it fails") {
  const KnownTrace trace;
  const TemporaryFile database;
  CHECK(run({"export", "sqlite", trace.path(), "-o", database.path(), "--events"}).status == 0);
  CHECK(read_file(database.path()).starts_with("SQLite format 3"));
  const Outcome failed = run({"export", "sqlite", trace.path(), "-o", std::string(kNoFile)});
  CHECK(failed.status == 1);
  CHECK_FALSE(failed.err.empty());
}
