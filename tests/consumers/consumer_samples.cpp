// Writes traces whose exports are difficult to read.
//
// usage: consumer_samples FOLDER CALLERS      writes FOLDER/*.heapprof
//
//   plain     ordinary allocations: leaks, temporary allocations, recursion, reallocations, mappings
//   names     names of modules with ; # quotes line feeds, invalid UTF-8, or 10 KB
//   empty     a program without allocations
//   truncated truncated stacks, and no stack
//   huge      one allocation of 64 TiB among small ones
//   many      1,000 distinct stacks below each of CALLERS functions
//
// The modules do not exist on the machine that runs the test, so every frame is a module's name and an offset.
#include <string>
#include <vector>

#include "tests/support/trace_builder.h"

using heapprof::test::TraceBuilder;

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint32_t kDemo = 2;  // the modules that start() defines
constexpr std::uint32_t kLeaf = 3;
constexpr std::uint64_t kStart = 5'000'000'000;  // TraceBuilder's clock at time 0 of the events

std::uint64_t at(std::uint64_t ms) { return ms * kMillisecond; }

void start(TraceBuilder::Stream& stream) {
  stream.thread(4242, "main");
  stream.module(kDemo, "/usr/bin/demo", "0123456789abcdef", 0x400000, 0x400000, 0x10000, true);
  stream.module(kLeaf, "/usr/lib/libleaf.so.1", "fedcba9876543210", 0x7f0000000000, 0x7f0000000000);
}

void plain(const std::string& path) {
  TraceBuilder trace;
  auto& main = trace.stream();
  start(main);
  main.node(1, 0, kDemo, 0x100);  // main
  main.node(2, 1, kDemo, 0x200);  // parse
  main.node(3, 2, kDemo, 0x200);  // parse, recursive
  main.node(4, 3, kLeaf, 0x300);
  main.node(5, 1, kLeaf, 0x400);
  main.node(6, 2, kLeaf, 0x300);
  for (std::uint64_t i = 0; i < 40; ++i) main.alloc(at(i), 0x1000 + 64 * i, 48 + i, 4);
  // Mappings: one of malloc, and one whose middle is unmapped.
  constexpr std::uint64_t kMapping = 0x7f2000000000;
  main.add(heapprof::Op::kMap, at(41), kMapping, 256 << 10, 5, heapprof::kMapAnonymous);
  main.add(heapprof::Op::kMap, at(42), kMapping + (1 << 20), 128 << 10, 6,
           heapprof::kMapAnonymous | heapprof::kMapFromAllocator);
  for (std::uint64_t i = 0; i < 10; ++i) main.free(at(50 + i), 0x1000 + 64 * i);
  for (std::uint64_t i = 0; i < 25; ++i) {
    main.alloc(at(60 + i), 0x9000, 1000, 5);
    main.free(at(60 + i), 0x9000);
  }
  main.add(heapprof::Op::kUnmapBegin, at(86), kMapping + (64 << 10), 64 << 10);
  main.add(heapprof::Op::kUnmapEnd, at(86));
  main.alloc(at(90), 0xa000, 100'000, 6);
  main.realloc_begin(at(91), 0xa000);
  main.realloc_end(at(91), 0xb000, 150'000, 6);
  main.alloc(at(92), 0xc000, 0, 1);
  main.sample(at(93), kStart + at(93), 8 << 20);
  auto& other = trace.stream();
  other.thread(4243, "worker \"2\", busy");
  other.alloc(at(20), 0x20000, 7777, 5);
  other.alloc(at(21), 0x30000, 8888, 2);
  main.free(at(94), 0x20000);
  main.free(at(95), 0xb000);
  trace.write(path);
}

void names(const std::string& path) {
  TraceBuilder trace;
  auto& main = trace.stream(2000);
  start(main);
  std::string long_name = "/usr/lib/";
  while (long_name.size() < 10'000) long_name += "std::map<std::string, std::vector<int> >::";
  const std::vector<std::string> hostile = {"semi;colon;",
                                            "hash # {lambda()#1}",
                                            "quotes \" ' ` \\",
                                            "line\nfeed\r\ttab",
                                            "bytes \xff\xfe\xc3(",
                                            "</script><!--]]>",
                                            "comma,=(1) fn=(2)",
                                            "%s%n %(x)d",
                                            " leading and trailing ",
                                            "n3: 99 0x1: x",
                                            "(7)",
                                            "[]{}",
                                            "\xe2\x80\xa8 line separator",
                                            "-",
                                            "=1+1",
                                            long_name};
  std::uint32_t node = 1;
  main.node(node, 0, kDemo, 0x100);
  for (std::uint32_t i = 0; i < hostile.size(); ++i) {
    const std::uint32_t module = 10 + i;
    const std::string name = hostile[i][0] == '/' ? hostile[i] : "/opt/" + hostile[i];
    main.module(module, name, "", 0x7f1000000000 + (std::uint64_t{i} << 24),
                0x7f1000000000 + (std::uint64_t{i} << 24));
    main.node(node + 1, node, module, 0x10 + i);
    ++node;
    main.alloc(at(i), 0x1000 + 4096 * i, 100 + i, node);
    main.node(100 + i, 1, module, 0x10 + i);
    main.alloc(at(i), 0x1800 + 4096 * i, 1000 + i, 100 + i);
  }
  trace.write(path);
}

void empty(const std::string& path) {
  TraceBuilder trace;
  start(trace.stream());
  trace.write(path);
}

void truncated(const std::string& path) {
  TraceBuilder trace;
  auto& main = trace.stream();
  start(main);
  main.node(1, 0, static_cast<std::uint32_t>(heapprof::ModuleId::kTruncationRoot), 1);
  main.node(2, 1, kDemo, 0x100);
  main.node(3, 2, kLeaf, 0x200);
  main.alloc(at(1), 0x1000, 11, 3);
  main.alloc(at(2), 0x2000, 22, 0);
  main.alloc(at(3), 0x3000, 33, 2);
  // Code outside all objects.
  main.node(4, 0, static_cast<std::uint32_t>(heapprof::ModuleId::kAnonymous), 0x7fff12345678);
  main.alloc(at(4), 0x4000, 44, 4);
  main.alloc(at(5), 0x5000, 55, 1);
  trace.write(path);
}

void huge(const std::string& path) {
  TraceBuilder trace;
  auto& main = trace.stream();
  start(main);
  main.node(1, 0, kDemo, 0x100);
  main.node(2, 1, kLeaf, 0x200);
  main.alloc(at(1), 0x1000, 1, 1);
  main.alloc(at(2), 0x100000000000, std::uint64_t{1} << 46, 2);
  main.alloc(at(3), 0x2000, 3, 1);
  trace.write(path);
}

void many(const std::string& path, std::uint32_t callers) {
  TraceBuilder trace;
  auto& main = trace.stream(2000);
  start(main);
  main.node(1, 0, kDemo, 0x100);
  std::uint32_t next = 2;
  // CALLERS x 100 x 10 stacks, one at every leaf.
  for (std::uint32_t a = 0; a < callers; ++a) {
    const std::uint32_t first = next++;
    main.node(first, 1, kDemo, 0x1000 + a);
    for (std::uint32_t b = 0; b < 100; ++b) {
      const std::uint32_t second = next++;
      main.node(second, first, kLeaf, 0x2000 + b);
      for (std::uint32_t c = 0; c < 10; ++c) {
        const std::uint32_t leaf = next++;
        main.node(leaf, second, kLeaf, 0x4000 + c);
        main.alloc(at(next / 100), 0x100000 + 64 * std::uint64_t{leaf}, 16 + c + a, leaf);
        if (c % 3 == 0) main.free(at(next / 100), 0x100000 + 64 * std::uint64_t{leaf});
      }
    }
  }
  trace.write(path);
}

}  // namespace

int main(int, char** argv) {
  const std::string folder = std::string(argv[1]) + "/";
  plain(folder + "plain.heapprof");
  names(folder + "names.heapprof");
  empty(folder + "empty.heapprof");
  truncated(folder + "truncated.heapprof");
  huge(folder + "huge.heapprof");
  many(folder + "many.heapprof", static_cast<std::uint32_t>(std::stoul(argv[2])));
}
