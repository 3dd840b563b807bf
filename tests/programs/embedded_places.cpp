// usage: embedded_places LARGE SMALL SMALL
//
// Loads a library with an allocator of its own, closes it, and loads two smaller ones, for which there is room in its
// place. Prints for each of them "inside" or "elsewhere", and "own" if its allocator returns a block of its own pool.
#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

struct Library {
  explicit Library(const char* path) : handle(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) std::abort();
    link_map* map = nullptr;
    dlinfo(handle, RTLD_DI_LINKMAP, &map);
    begin = map->l_addr;
  }
  std::uintptr_t allocate() const {
    return reinterpret_cast<std::uintptr_t>(reinterpret_cast<void* (*)()>(dlsym(handle, "pool_allocate"))());
  }

  void* handle;
  std::uintptr_t begin;
};

constexpr std::uintptr_t kLargeBytes = 4'000'000;  // of the pools: see meson.build
constexpr std::uintptr_t kSmallBytes = 1'900'000;

}  // namespace

int main(int, char** arguments) {
  const Library large(arguments[1]);
  large.allocate();
  dlclose(large.handle);
  const Library small[] = {Library(arguments[2]), Library(arguments[3])};
  for (const Library& library : small) {
    const std::uintptr_t block = library.allocate();
    std::printf("%s, %s\n", library.begin - large.begin < kLargeBytes ? "inside" : "elsewhere",
                block - library.begin < kSmallBytes + 100'000 ? "own" : "of another library");
  }
}
