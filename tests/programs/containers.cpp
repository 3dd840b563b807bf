// Allocates only through containers. The functions below are the call sites that heapprof should report.
//
// usage: containers [threads]
//
// Each function fills a container, which its caller destroys, or a second thread if "threads" is given. Prints as
// JSON the names, with the minimum number of blocks that each function allocates.
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

struct Item {
  char bytes[40] = {};
};

constexpr int kItems = 300;

}  // namespace

[[gnu::noinline]] std::unordered_map<int, Item> fill_table(int count) {
  std::unordered_map<int, Item> table;
  for (int i = 0; i < count; ++i) table.emplace(i, Item());
  return table;
}

[[gnu::noinline]] std::map<int, std::string> fill_tree(int count) {
  std::map<int, std::string> tree;
  for (int i = 0; i < count; ++i) tree[i] = std::string(50, 'x');
  return tree;
}

// Function templates: their demangled names begin with the return type, a container.
template <typename T>
[[gnu::noinline]] std::vector<std::unique_ptr<T>> collect(int count) {
  std::vector<std::unique_ptr<T>> items;
  for (int i = 0; i < count; ++i) items.push_back(std::make_unique<T>());
  return items;
}

template <typename T>
[[gnu::noinline]] std::vector<std::string> copy_all(const T& from) {
  return std::vector<std::string>(from.begin(), from.end());
}

int main(int argc, char** argv) {
  const bool in_thread = argc > 1 && std::strcmp(argv[1], "threads") == 0;
  const auto use = [&](auto&& container) {
    if (!in_thread) return;
    std::thread([moved = std::move(container)]() mutable { const auto gone = std::move(moved); }).join();
  };
  const std::vector<std::string> texts(kItems, std::string(60, 'y'));
  use(fill_table(kItems));
  use(fill_tree(kItems));
  use(collect<Item>(kItems));
  use(copy_all(texts));
  std::printf("{\"fill_table\": %d, \"fill_tree\": %d, \"collect\": %d, \"copy_all\": %d}\n", kItems, 2 * kItems,
              kItems, kItems);
  return 0;
}
