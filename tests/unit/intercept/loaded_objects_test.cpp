// Scans of a list like the loader's, in which objects are appended and unlinked.
#include "preload/intercept/loaded_objects.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "preload/sys/guarded_read.h"
#include "preload/sys/loader_list.h"

using namespace heapprof;
using intercept::LoadedObjects;

namespace {

class Loader {
 public:
  link_map* load() { return append(&memory_.emplace_back()); }

  /// Loads an object at the address of an unloaded one, with the same contents.
  link_map* append(link_map* object) {
    object->l_addr = reinterpret_cast<ElfW(Addr)>(object);
    object->l_ld = reinterpret_cast<ElfW(Dyn)*>(object) + 1;
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

  /// Unloads an object, and frees its memory: free() overwrites the first 32 bytes of a large block, or, if it merges
  /// the block with the free one before it (`joined`), nothing.
  void unload_and_free(link_map* object, bool joined) {
    unload(object);
    if (joined) return;
    object->l_addr = reinterpret_cast<ElfW(Addr)>(&memory_);
    object->l_name = reinterpret_cast<char*>(&memory_);
    object->l_ld = nullptr;
    object->l_next = nullptr;
  }

  const link_map* const* head() const { return &first_; }

 private:
  std::list<link_map> memory_;
  link_map* first_ = nullptr;
  link_map* last_ = nullptr;
};

/// Changes the list before one of its reads.
class InterruptedReader {
 public:
  InterruptedReader(std::size_t read, std::function<void()> change) : read_(read), change_(std::move(change)) {}

  bool read(const void* from, void* to, std::size_t bytes) {
    if (reads_++ == read_) change_();
    return reader_.read(from, to, bytes);
  }
  template <typename T>
  bool read(const T* from, T& to) {
    return read(from, &to, sizeof to);
  }
  bool refused() const { return reader_.refused(); }
  bool interrupted() const { return reads_ > read_; }

 private:
  sys::GuardedReader reader_;
  std::size_t read_;
  std::size_t reads_ = 0;
  std::function<void()> change_;
};

struct Watcher {
  /// Like update(), with any reader.
  template <typename Reader>
  std::vector<const void*> update_by(const Loader& loader, Reader& reader, bool compare_all) {
    std::vector<const void*> found;
    complete = memory->objects.update(loader.head(), reader, memory->scratch, compare_all, [&](const link_map& map) {
      found.push_back(reinterpret_cast<void*>(map.l_addr));
    });
    return found;
  }

  /// The objects that are new, by their bias, which is their address.
  std::vector<const void*> update(const Loader& loader, bool compare_all = false) {
    sys::GuardedReader reader;
    const std::vector<const void*> found = update_by(loader, reader, compare_all);
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

TEST_CASE("each object is visited once, and again when it is loaded again") {
  Loader loader;
  Watcher watcher;
  std::vector<link_map*> objects;
  for (int i = 0; i < 10; ++i) objects.push_back(loader.load());
  CHECK(watcher.update(loader).size() == 10);
  CHECK(watcher.update(loader).empty());
  link_map* const more = loader.load();
  CHECK(watcher.update(loader) == std::vector<const void*>{more});
  // Unloads and loads again the last object, the first after the program, and one in the middle.
  for (link_map* const object : {more, objects[1], objects[5]}) {
    loader.unload(object);
    CHECK(watcher.update(loader).empty());
    loader.append(object);
    CHECK(watcher.update(loader) == std::vector<const void*>{object});
    CHECK(watcher.update(loader).empty());
  }
  // Unloads several objects before one update, among them all at the end.
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

TEST_CASE("the cost of loading and unloading a library does not grow with the number of times") {
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

TEST_CASE("an object that cannot be read remains listed, and is not visited again") {
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

TEST_CASE("no object is visited again because another thread unloads one during an update") {
  constexpr std::size_t kObjects = 6;
  constexpr std::size_t kNewObjects = 2;
  std::size_t interrupted = 0;
  const auto interrupt = [&](std::size_t read, std::size_t begin, std::size_t end, bool joined, bool compare_all,
                             std::size_t new_objects) {
    Loader loader;
    Watcher watcher;
    std::vector<link_map*> objects;
    for (std::size_t i = 0; i < kObjects; ++i) objects.push_back(loader.load());
    watcher.update(loader);
    for (std::size_t i = 0; i < new_objects; ++i) objects.push_back(loader.load());
    InterruptedReader reader(read, [&] {
      // The first block is joined to a free one if `joined` is true, the following ones are not.
      for (std::size_t i = begin; i < end; ++i) loader.unload_and_free(objects[i], joined && i == begin);
    });
    INFO("unloads " << begin << " to " << end << " before read " << read << ", joined: " << joined
                    << ", compares all: " << compare_all << ", new: " << new_objects);
    std::vector<const void*> found = watcher.update_by(loader, reader, compare_all);
    if (!reader.interrupted()) return false;
    ++interrupted;
    const auto again = watcher.update(loader, compare_all || !watcher.complete);
    found.insert(found.end(), again.begin(), again.end());
    // Each new object is visited once, and no other. Unloaded objects may have been visited before.
    std::size_t new_found = 0;
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const auto times = std::count(found.begin(), found.end(), objects[i]);
      const bool is_new = i >= kObjects;
      const bool unloaded = i >= begin && i < end;
      CHECK(times <= (is_new ? 1 : 0));
      if (is_new && !unloaded) CHECK(times == 1);
      new_found += static_cast<std::size_t>(times);
    }
    CHECK(found.size() == new_found);
    CHECK(watcher.complete);
    return true;
  };
  for (const bool compare_all : {true, false})
    for (const bool joined : {true, false})
      for (const std::size_t new_objects : {std::size_t{0}, kNewObjects})
        for (std::size_t begin = 1; begin < kObjects + new_objects; ++begin)
          for (std::size_t end = begin + 1; end <= kObjects + new_objects; ++end)
            for (std::size_t read = 0; interrupt(read, begin, end, joined, compare_all, new_objects); ++read) {
            }
  CHECK(interrupted > 0);
}

TEST_CASE("an object has an entry before it is visited") {
  // A signal handler may fork during the visit: the child must not visit the object a second time.
  for (const bool compare_all : {true, false}) {
    Loader loader;
    Watcher watcher;
    for (int i = 0; i < 3; ++i) loader.load();
    watcher.update(loader);
    loader.load();
    Watcher child;
    sys::GuardedReader reader;
    watcher.memory->objects.update(loader.head(), reader, watcher.memory->scratch, compare_all,
                                   [&](const link_map&) { *child.memory = *watcher.memory; });
    INFO("compares all: " << compare_all);
    CHECK(child.update(loader).empty());
    CHECK(child.update(loader, true).empty());
  }
}

TEST_CASE("a library that is loaded again, now after libraries that were loaded later, is visited again") {
  Loader loader;
  Watcher watcher;
  std::vector<link_map*> objects;
  for (int i = 0; i < 5; ++i) objects.push_back(loader.load());
  watcher.update(loader);
  // There is no update in between, and the library gets the same address and memory.
  loader.unload(objects[2]);
  loader.append(objects[2]);
  CHECK(watcher.update(loader, true) == std::vector<const void*>{objects[2]});
  CHECK(watcher.update(loader, true).empty());
}

TEST_CASE("a pass over the list visits every object that stays, or reports that it may not have") {
  constexpr std::size_t kObjects = 6;
  std::size_t interrupted = 0;
  const auto interrupt = [&](std::size_t read, std::size_t begin, std::size_t end, bool joined) {
    Loader loader;
    std::vector<link_map*> objects;
    for (std::size_t i = 0; i < kObjects; ++i) objects.push_back(loader.load());
    InterruptedReader reader(read, [&] {
      for (std::size_t i = begin; i < end; ++i) loader.unload_and_free(objects[i], joined && i == begin);
    });
    std::vector<const void*> found;
    const bool complete = sys::visit_loader_list(
        loader.head(), reader, [&](const link_map& map) { found.push_back(reinterpret_cast<void*>(map.l_addr)); });
    if (!reader.interrupted()) return false;
    ++interrupted;
    INFO("unloads " << begin << " to " << end << " before read " << read << ", joined: " << joined);
    for (std::size_t i = 0; complete && i < kObjects; ++i)
      if (i < begin || i >= end) CHECK(std::count(found.begin(), found.end(), objects[i]) == 1);
    return true;
  };
  for (const bool joined : {true, false})
    for (std::size_t begin = 1; begin < kObjects; ++begin)
      for (std::size_t end = begin + 1; end <= kObjects; ++end)
        for (std::size_t read = 0; interrupt(read, begin, end, joined); ++read) {
        }
  CHECK(interrupted > 0);
}

TEST_CASE("a pass over a circular list ends") {
  Loader loader;
  link_map* const first = loader.load();
  link_map* const second = loader.load();
  link_map* const third = loader.load();
  third->l_next = second;
  sys::GuardedReader reader;
  CHECK_FALSE(sys::visit_loader_list(loader.head(), reader, [](const link_map&) {}));
  // Also when every l_prev is consistent.
  first->l_prev = third;
  third->l_next = first;
  class FirstHasNoPredecessor {
   public:
    explicit FirstHasNoPredecessor(const link_map* first) : first_(first) {}
    bool read(const void* from, void* to, std::size_t bytes) { return reader_.read(from, to, bytes); }
    bool read(const link_map* from, link_map& to) {
      const bool done = reader_.read(from, to);
      if (from == first_ && !met_) to.l_prev = nullptr;
      met_ |= from == first_;
      return done;
    }

   private:
    sys::GuardedReader reader_;
    const link_map* first_;
    bool met_ = false;
  } circle(first);
  CHECK_FALSE(sys::visit_loader_list(loader.head(), circle, [](const link_map&) {}));
}

TEST_CASE("an object whose predecessor is being unlinked remains listed, and is not visited again") {
  for (const bool compare_all : {true, false}) {
    Loader loader;
    Watcher watcher;
    std::vector<link_map*> objects;
    for (int i = 0; i < 4; ++i) objects.push_back(loader.load());
    watcher.update(loader);
    // The loader's thread is interrupted after it has changed l_prev, and before it changes l_next.
    objects[3]->l_prev = objects[1];
    INFO("compares all: " << compare_all);
    CHECK(watcher.update(loader, compare_all).empty());
    objects[1]->l_next = objects[3];
    CHECK(watcher.update(loader, !watcher.complete).empty());
    CHECK(watcher.complete);
  }
}
