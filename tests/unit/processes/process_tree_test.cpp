#include "analyzer/processes/process_tree.h"

#include <catch2/catch.hpp>

using namespace heapprof;
using namespace heapprof::processes;

namespace {

FileHeader header_of(std::uint32_t pid, std::uint32_t parent, std::uint64_t process_start, std::uint64_t start_ns,
                     bool forked = false) {
  FileHeader header{};
  header.pid = pid;
  header.parent_pid = parent;
  header.process_start = process_start;
  header.start_monotonic_ns = start_ns;
  header.flags = forked ? kHeaderForkedChild : 0;
  header.boot_id[0] = 1;
  return header;
}

/// The trace that each one comes from, by its position; -1: none.
std::vector<int> origins(const std::vector<TraceInTree>& tree, std::size_t count) {
  std::vector<int> from(count, -2);
  for (const TraceInTree& one : tree) from[one.trace] = one.from ? static_cast<int>(*one.from) : -1;
  return from;
}

}  // namespace

TEST_CASE("A process is below the one that forked it, and programs that it executes are beside each other") {
  const std::vector<FileHeader> headers = {
      header_of(12, 11, 30, 500),        // 0: a compiler, executed by 12
      header_of(10, 1, 10, 100),         // 1: make
      header_of(11, 10, 20, 200),        // 2: a shell
      header_of(12, 11, 30, 300, true),  // 3: a fork of the shell
      header_of(13, 10, 40, 900),        // 4: another one
  };
  const auto tree = process_tree(headers);
  CHECK(origins(tree, 5) == std::vector<int>{3, -1, 1, 2, 1});
  std::vector<std::size_t> order, depths;
  for (const TraceInTree& one : tree) order.push_back(one.trace), depths.push_back(one.depth);
  CHECK(order == std::vector<std::size_t>{1, 2, 3, 0, 4});
  CHECK(depths == std::vector<std::size_t>{0, 1, 2, 2, 1});
  CHECK(tree[0].begin == Begin::kRoot);
  CHECK(tree[1].begin == Begin::kStarted);
  CHECK(tree[2].begin == Begin::kForked);
  CHECK(tree[3].begin == Begin::kExecuted);
}

TEST_CASE("A process id that is used again is another process") {
  const std::vector<FileHeader> headers = {
      header_of(10, 1, 10, 100),  header_of(11, 10, 20, 200),  // 10 ends, and its id is used by a child of 11
      header_of(10, 11, 30, 300), header_of(12, 10, 40, 400),
      header_of(13, 10, 25, 500),  // older than the second 10: a child of the first one, which began to record late
  };
  CHECK(origins(process_tree(headers), 5) == std::vector<int>{-1, 0, 1, 2, 0});
}

TEST_CASE("Processes of other boots, or of other PID namespaces, are not related") {
  std::vector<FileHeader> headers = {header_of(10, 1, 10, 100), header_of(11, 10, 20, 200),
                                     header_of(12, 10, 20, 200)};
  headers[1].boot_id[0] = 2;
  headers[2].pid_namespace = 7;
  CHECK(origins(process_tree(headers), 3) == std::vector<int>{-1, -1, -1});
}

TEST_CASE("Headers that contradict each other make no cycle") {
  std::vector<FileHeader> headers = {header_of(10, 11, 10, 100), header_of(11, 10, 10, 100),
                                     header_of(12, 12, 10, 100)};
  CHECK(process_tree(headers).size() == 3);
  CHECK(origins(process_tree(headers), 3) == std::vector<int>{-1, 0, -1});
  CHECK(process_tree({}).empty());
}
