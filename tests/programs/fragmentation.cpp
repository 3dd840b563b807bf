// A fragmented heap: fragmentation BLOCKS.
//
// Allocates BLOCKS blocks of 64 stacks of four functions, in random order, and frees all but every 16th of session(),
// every 64th of cache(), every 16th of log_line() and every 8th of index_entry(). Then it trims, and frees the
// functions' blocks one after the other, with a trim after each. Before each step it adds a mark to the recording,
// and prints the mark and its private resident bytes (RssAnon), which a trim reduces.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>
#include <utility>

#include "preload/heapprof.h"

namespace {

constexpr std::size_t kMaxBlocks = 1 << 20;
constexpr std::size_t kFunctions = 4;
constexpr std::size_t kStacks = 16;  // of each function

struct Block {
  void* memory;
  unsigned function;
};
std::array<Block, kMaxBlocks> blocks;  // not allocated: it would be one more block

void* filled(void* memory, std::size_t size) { return std::memset(memory, 1, size); }

// Each depth of recursion is another stack, with the same call site.
__attribute__((noinline)) void* session(std::size_t size, std::size_t depth) {
  void* const memory = depth != 0 ? session(size, depth - 1) : std::malloc(size);
  return filled(memory, size);
}
__attribute__((noinline)) void* cache(std::size_t size, std::size_t depth) {
  void* const memory = depth != 0 ? cache(size, depth - 1) : std::malloc(size);
  return filled(memory, size);
}
__attribute__((noinline)) void* log_line(std::size_t size, std::size_t depth) {
  void* const memory = depth != 0 ? log_line(size, depth - 1) : std::malloc(size);
  return filled(memory, size);
}
__attribute__((noinline)) void* index_entry(std::size_t size, std::size_t depth) {
  void* const memory = depth != 0 ? index_entry(size, depth - 1) : std::malloc(size);
  return filled(memory, size);
}

using Allocate = void* (*)(std::size_t size, std::size_t depth);
constexpr Allocate kAllocate[kFunctions] = {session, cache, log_line, index_entry};
constexpr const char* kNames[kFunctions] = {"session", "cache", "log_line", "index_entry"};
constexpr unsigned kSurvivors[kFunctions] = {16, 64, 16, 8};  // one in so many

std::uint64_t random_number() {
  static std::uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

/// RssAnon, read without an allocation.
unsigned long long private_bytes() {
  char text[4096];
  const int file = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t length = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (length <= 0) std::abort();
  text[length] = '\0';
  const char* const line = std::strstr(text, "RssAnon:");
  return line == nullptr ? 0 : std::strtoull(line + 8, nullptr, 10) * 1024;
}

template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

/// Makes the allocator return what it can.
void trim() {
  if (auto* mallctl = find<int(const char*, void*, std::size_t*, void*, std::size_t)>("mallctl")) {
    mallctl("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
    mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0);
  } else if (auto* collect = find<void(bool)>("mi_collect")) {
    collect(true);
  } else if (auto* release = find<void()>("MallocExtension_ReleaseFreeMemory")) {
    find<void()>("MallocExtension_MarkThreadIdle")();
    release();
  } else {
    ::malloc_trim(0);
  }
}

/// Ends the step before: from here on the recording shows what the next step begins with.
void begin_step(const char* name) {
  ::usleep(30'000);
  heapprof_mark(name);
  ::usleep(30'000);
  std::printf("%s %llu\n", name, private_bytes());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100'000;
  if (count > kMaxBlocks) return 2;
  char output[4096];
  std::setvbuf(stdout, output, _IOFBF, sizeof output);  // not allocated
  for (std::size_t i = 0; i < count; ++i) {
    const auto function = static_cast<unsigned>(random_number() % kFunctions);
    const std::size_t size = 16 + random_number() % 256;
    blocks[i] = {kAllocate[function](size, random_number() % kStacks), function};
  }
  std::size_t numbers[kFunctions] = {};
  for (std::size_t i = 0; i < count; ++i) {
    if (numbers[blocks[i].function]++ % kSurvivors[blocks[i].function] == 0) continue;
    std::free(std::exchange(blocks[i].memory, nullptr));
  }
  begin_step("trim");
  trim();
  for (unsigned function = 0; function < kFunctions; ++function) {
    begin_step(kNames[function]);
    for (std::size_t i = 0; i < count; ++i)
      if (blocks[i].function == function) std::free(std::exchange(blocks[i].memory, nullptr));
    trim();
  }
  begin_step("end");
  return 0;
}
