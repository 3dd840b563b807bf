// Lists as the loader's, made by hand: objects are appended and unlinked, nothing else happens to them.
#include "preload/intercept/loaded_objects.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <list>
#include <memory>
#include <vector>

using namespace heapprof;
using intercept::LoadedObjects;

namespace {

class Loader {
 public:
  link_map* load() { return append(&memory_.emplace_back()); }

  /// Where another one was, with the same contents.
  link_map* append(link_map* object) {
    object->l_addr = reinterpret_cast<ElfW(Addr)>(object);
    object->l_prev = last_;
    object->l_next = nullptr;
    (last_ == nullptr ? first_ : last_->l_next) = object;
    return last_ = object;
  }

  void unload(link_map* object) {
    if (object->l_next != nullptr) object->l_next->l_prev = object->l_prev;
    else last_ = object->l_prev;
    (object->l_prev == nullptr ? first_ : object->l_prev->l_next) = object->l_next;
  }

  const link_map* first() const { return first_; }

 private:
  std::list<link_map> memory_;
  link_map* first_ = nullptr;
  link_map* last_ = nullptr;
};

struct Watcher {
  /// The objects that are new, by their bias, which is their address.
  std::vector<const void*> update(const Loader& loader, bool compare_all = false) {
    std::vector<const void*> found;
    sys::GuardedReader reader;
    complete = memory->objects.update(loader.first(), reader, memory->scratch, compare_all,
                               [&](const link_map& map) { found.push_back(reinterpret_cast<void*>(map.l_addr)); });
    reads = reader.reads();
    reader.close();
    return found;
  }

  struct Memory {
    LoadedObjects objects;
    LoadedObjects::Scratch scratch;
  };
  std::unique_ptr<Memory> memory = std::make_unique<Memory>();
  bool complete = false;
  std::size_t reads = 0;  ///< of the last update
};

}  // namespace

TEST_CASE("each object is seen once, and again when it is loaded again") {
  Loader loader;
  Watcher watcher;
  std::vector<link_map*> objects;
  for (int i = 0; i < 10; ++i) objects.push_back(loader.load());
  CHECK(watcher.update(loader).size() == 10);
  CHECK(watcher.update(loader).empty());
  link_map* const more = loader.load();
  CHECK(watcher.update(loader) == std::vector<const void*>{more});
  // The last, the first after the program, one in the middle; where it was, and at once.
  for (link_map* const object : {more, objects[1], objects[5]}) {
    loader.unload(object);
    CHECK(watcher.update(loader).empty());
    loader.append(object);
    CHECK(watcher.update(loader) == std::vector<const void*>{object});
    CHECK(watcher.update(loader).empty());
  }
  // Several at once, among them all at the end.
  for (link_map* const object : {objects[5], objects[1], objects[7]}) loader.unload(object);
  link_map* const other = loader.load();
  CHECK(watcher.update(loader) == std::vector<const void*>{other});
  CHECK(watcher.update(loader, true).empty());
}

TEST_CASE("an update reads as much of a long list as of a short one") {
  std::vector<std::vector<std::size_t>> reads;
  for (const std::size_t count : {10u, 1000u}) {
    Loader loader;
    Watcher watcher;
    std::vector<link_map*> objects;
    for (std::size_t i = 0; i < count; ++i) objects.push_back(loader.load());
    watcher.update(loader);
    auto& counts = reads.emplace_back();
    const auto update = [&] {
      watcher.update(loader);
      counts.push_back(watcher.reads);
    };
    update();
    objects.push_back(loader.load());
    update();
    for (const std::size_t i : {count, count / 2, std::size_t{1}}) {  // the last, in the middle, near the beginning
      loader.unload(objects[i]);
      update();
    }
  }
  CHECK(reads[0] == reads[1]);
}

TEST_CASE("libraries that come and go for long cost the same each time") {
  Loader loader;
  Watcher watcher;
  std::vector<link_map*> plugins;
  loader.load();
  std::size_t reads = 0, updates = 0;
  const auto update = [&](std::size_t expected) {
    CHECK(watcher.update(loader).size() == expected);
    CHECK(watcher.complete);
    reads += watcher.reads;
    ++updates;
  };
  for (int i = 0; i < 1000; ++i) {
    plugins.push_back(loader.load());
    update(i == 0 ? 2 : 1);
  }
  for (int round = 0; round < 10; ++round) {  // oldest first
    for (link_map*& plugin : plugins) {
      loader.unload(plugin);
      update(0);
      plugin = loader.load();
      update(1);
    }
  }
  for (link_map* const plugin : plugins) {
    loader.unload(plugin);
    update(0);
  }
  CHECK(reads < updates * 6);
  CHECK_FALSE(watcher.memory->objects.overflowed());
}

TEST_CASE("what cannot be read is neither forgotten nor taken for new") {
  Loader loader;
  Watcher watcher;
  std::vector<link_map*> objects;
  for (int i = 0; i < 5; ++i) objects.push_back(loader.load());
  watcher.update(loader);
  const link_map* const next = objects[2]->l_next;
  objects[2]->l_next = reinterpret_cast<link_map*>(8);
  for (const bool compare_all : {true, false}) {
    CHECK(watcher.update(loader, compare_all).empty());
    CHECK(watcher.complete == !compare_all);
  }
  objects[2]->l_next = const_cast<link_map*>(next);
  CHECK(watcher.update(loader, true).empty());
  CHECK(watcher.complete);
}
