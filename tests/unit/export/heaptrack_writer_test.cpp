// The lines that the writer writes, and its totals compared with a second count. heaptrack_consumer_test.py compares
// with heaptrack's own programs.
#include "analyzer/export/heaptrack_writer.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

using namespace heapprof::exporter;

namespace {

/// What `write` writes, as text.
std::string written(const std::function<void(HeaptrackWriter&)>& write, const HeaptrackWriter::Header& header = {},
                    std::string* error = nullptr, std::uint64_t limit = UINT32_MAX) {
  char name[] = "/tmp/heapprof-writer-XXXXXX";
  const int fd = ::mkstemp(name);
  REQUIRE(fd >= 0);
  ::close(fd);
  std::string text;
  {
    Sink output(name);
    HeaptrackWriter writer(output, header, limit);
    write(writer);
    const bool good = output.close();
    if (error != nullptr) *error = output.error();
    else REQUIRE(good);
    std::ifstream in(name, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  ::unlink(name);
  return text;
}

const std::string kHead = "v 10300 3\nX \nI 1000 0\n";

}  // namespace

TEST_CASE("header: version, command on one line, page size and memory") {
  const std::string text =
      written([](HeaptrackWriter&) {}, {.command = "sh -c 'a\nb\r'", .page_bytes = 4096, .physical_pages = 0xabcdef});
  CHECK(text == "v 10300 3\nX sh -c 'a b '\nI 1000 abcdef\n");
}

TEST_CASE("table entries precede their first use, each entry once") {
  const std::string text = written([](HeaptrackWriter& writer) {
    const HeaptrackFrame frames[] = {{"inner()", "in.h", 7}, {"outer()", "out.cpp", 0x1f}};
    const HeaptrackFrame no_line[] = {{"outer()", "", 0}};
    const HeaptrackFrame inlined_no_file[] = {{"inner()", "", 3}, {"outer()", "out.cpp", 9}};
    const auto main = writer.instruction(0x401136, "/bin/demo", frames);
    const auto second = writer.instruction(0x401140, "/bin/demo", no_line);
    const auto third = writer.instruction(0xffffffffff600000, "/bin/demo", {});
    const auto fourth = writer.instruction(0x10, "", inlined_no_file);
    const auto a = writer.trace(main, HeaptrackTrace::kNone);
    const auto b = writer.trace(second, a);
    CHECK(writer.trace(second, a) == b);
    writer.trace(third, b);
    writer.trace(fourth, b);
  });
  CHECK(text == kHead +
                    "s 9 /bin/demo\ns 7 inner()\ns 4 in.h\ns 7 outer()\ns 7 out.cpp\ni 401136 1 2 3 7 4 5 1f\n"
                    "i 401140 1 4\ni ffffffffff600000 1\ni 10 0 2 0 0 4 5 9\n"
                    "t 1 0\nt 2 1\nt 3 2\nt 4 2\n");
}

TEST_CASE("names keep every byte except line ends; lengths are in bytes") {
  const std::string text = written([](HeaptrackWriter& writer) {
    CHECK(writer.string("") == HeaptrackString::kNone);
    CHECK(writer.string("a\nb") == writer.string("a\rb"));
    writer.string("gr\xc3\xbc\xc3\x9f; #1 \"x\" \xff");
  });
  CHECK(text == kHead + "s 3 a b\ns 10 gr\xc3\xbc\xc3\x9f; #1 \"x\" \xff\n");
}

TEST_CASE("a class is declared with its first allocation") {
  const std::string text = written([](HeaptrackWriter& writer) {
    const auto ip = writer.instruction(0x10, "", {});
    const auto stack = writer.trace(ip, HeaptrackTrace::kNone);
    const auto big = writer.allocation(0x1000, stack);
    const auto none = writer.allocation(0, HeaptrackTrace::kNone);
    CHECK(writer.allocation(0x1000, stack) == big);
    CHECK(writer.deallocation(none));
    CHECK(writer.deallocation(0x1000, stack));
  });
  CHECK(text == kHead + "i 10 0\nt 1 0\na 1000 1\n+ 0\na 0 0\n+ 1\n+ 0\n- 1\n- 0\n");
}

TEST_CASE("a deallocation without its allocation is refused, and nothing is written") {
  const std::string text = written([](HeaptrackWriter& writer) {
    CHECK_FALSE(writer.deallocation(HeaptrackClass{0}));
    CHECK_FALSE(writer.deallocation(8, HeaptrackTrace::kNone));
    const auto block = writer.allocation(8, HeaptrackTrace::kNone);
    CHECK_FALSE(writer.deallocation(9, HeaptrackTrace::kNone));
    CHECK(writer.deallocation(block));
    CHECK_FALSE(writer.deallocation(block));
    CHECK_FALSE(writer.deallocation(HeaptrackClass{0xffffffff}));
    CHECK(writer.totals().leaked_bytes == 0);
  });
  CHECK(text == kHead + "a 8 0\n+ 0\n- 0\n");
}

TEST_CASE("time advances in steps of ten milliseconds, and the last time is followed by resident memory") {
  const std::string text = written([](HeaptrackWriter& writer) {
    writer.set_time(0);
    writer.set_time(9'999'999);
    writer.set_time(10'000'000);
    writer.set_time(5'000'000);
    writer.set_time(37'900'000);
    writer.resident(4096 * 3 + 5);
    writer.set_time(39'000'000);
    writer.finish(30'000'000, 4096 * 2);
    CHECK(writer.totals().last_time_ms == 37);
    CHECK(writer.totals().peak_rss_bytes == 4096 * 3);
  });
  CHECK(text == kHead + "c 0\nc a\nc 25\nR 3\nc 25\nR 2\n");
}

TEST_CASE("temporary by heaptrack's rule: by class, and class 0 counts after any deallocation") {
  written([](HeaptrackWriter& writer) {
    const auto zero = writer.allocation(1, HeaptrackTrace::kNone);
    const auto one = writer.allocation(2, HeaptrackTrace::kNone);
    writer.allocation(2, HeaptrackTrace::kNone);
    writer.deallocation(one);  // the latest allocation has its class: temporary
    CHECK(writer.totals().temporary == 1);
    writer.deallocation(one);  // no allocation in between
    CHECK(writer.totals().temporary == 1);
    writer.deallocation(zero);  // class 0 after a deallocation
    CHECK(writer.totals().temporary == 2);
    writer.allocation(1, HeaptrackTrace::kNone);
    writer.allocation(2, HeaptrackTrace::kNone);
    writer.deallocation(zero);  // class 0, but another class was allocated last
    CHECK(writer.totals().temporary == 2);
  });
}

TEST_CASE("peak: the first maximum") {
  written([](HeaptrackWriter& writer) {
    writer.set_time(20'000'000);
    const auto block = writer.allocation(100, HeaptrackTrace::kNone);
    writer.set_time(40'000'000);
    writer.deallocation(block);
    writer.allocation(100, HeaptrackTrace::kNone);
    CHECK(writer.totals().peak_bytes == 100);
    CHECK(writer.totals().peak_time_ms == 20);
    CHECK(writer.totals().calls == 2);
    CHECK(writer.totals().leaked_bytes == 100);
  });
}

TEST_CASE("beyond the limit of an index the export fails, and the error names the table") {
  std::string error;
  written(
      [](HeaptrackWriter& writer) {
        for (std::uint64_t size = 0; size < 5; ++size) writer.allocation(size, HeaptrackTrace::kNone);
        CHECK_FALSE(writer.deallocation(HeaptrackClass{4}));
      },
      {}, &error, 4);
  CHECK(error.find("more than 4 pairs of size and stack, which heaptrack's format cannot number") !=
        std::string::npos);
  written(
      [](HeaptrackWriter& writer) {
        for (int i = 0; i < 5; ++i) writer.string(std::to_string(i));
      },
      {}, &error, 4);
  CHECK(error.find("more than 4 strings") != std::string::npos);
  written(
      [](HeaptrackWriter& writer) {
        for (int i = 0; i < 5; ++i) writer.instruction(static_cast<std::uint64_t>(i), "", {});
      },
      {}, &error, 4);
  CHECK(error.find("more than 4 instructions") != std::string::npos);
  written(
      [](HeaptrackWriter& writer) {
        auto trace = HeaptrackTrace::kNone;
        for (int i = 0; i < 5; ++i) trace = writer.trace(HeaptrackIp{1}, trace);
      },
      {}, &error, 4);
  CHECK(error.find("more than 4 stack frames") != std::string::npos);
}

TEST_CASE("the class table finds every class") {
  written([](HeaptrackWriter& writer) {
    std::vector<HeaptrackClass> classes;
    for (std::uint64_t i = 0; i < 20'000; ++i)
      classes.push_back(writer.allocation(i * 64, HeaptrackTrace{static_cast<std::uint32_t>(i % 7)}));
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      REQUIRE(static_cast<std::uint32_t>(classes[i]) == i);
      REQUIRE(writer.allocation(i * 64, HeaptrackTrace{static_cast<std::uint32_t>(i % 7)}) == classes[i]);
    }
  });
}

TEST_CASE("stacks: only what is used is written, parents first, each instruction resolved once") {
  using Node = HeaptrackStacks::Node;
  // 0 main <- 1 f <- 2 g ; 3 truncated (no frame) <- 4 f ; 5 not used. A parent may have the larger number.
  const std::vector<Node> tree = {{HeaptrackStacks::kNoParent, 0},
                                  {6, 1},
                                  {1, 2},
                                  {HeaptrackStacks::kNoParent, HeaptrackStacks::kNoIp},
                                  {3, 1},
                                  {0, 9},
                                  {0, 3}};
  int calls = 0;
  const std::string text = written([&](HeaptrackWriter& writer) {
    HeaptrackStacks stacks(writer, tree, [&](std::uint32_t ip) {
      ++calls;
      return HeaptrackStacks::Instruction{0x100 + ip, "m", {}};
    });
    CHECK(stacks.trace(HeaptrackStacks::kNoParent) == HeaptrackTrace::kNone);
    CHECK(stacks.trace(3) == HeaptrackTrace::kNone);
    const auto deep = stacks.trace(2);
    CHECK(stacks.trace(2) == deep);
    stacks.trace(4);
    stacks.trace(1);
  });
  CHECK(calls == 4);
  CHECK(text == kHead + "s 1 m\ni 100 1\nt 1 0\ni 103 1\nt 2 1\ni 101 1\nt 3 2\ni 102 1\nt 4 3\nt 3 0\n");
}
