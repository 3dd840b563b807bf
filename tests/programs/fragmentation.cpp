// A fragmented heap: fragmentation BLOCKS [THREADS].
//
// Allocates BLOCKS blocks of 64 stacks of four functions, in random order, and frees all but every 16th of session(),
// every 64th of cache(), every 16th of log_line() and every 8th of index_entry(). Then it trims, and frees the
// functions' blocks one after the other, with a trim after each. Before each step it adds a mark to the recording,
// and prints the mark and its private bytes, which a trim reduces: resident ones (RssAnon), and those that the kernel
// has swapped out.
//
// With THREADS above 1, so many threads allocate at once, and free what they have allocated; the main thread trims.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <utility>

#include "preload/heapprof.h"

namespace {

constexpr std::size_t kMaxBlocks = 1 << 20;
constexpr std::size_t kFunctions = 4;
constexpr std::size_t kStacks = 16;  // of each function
constexpr std::size_t kMaxThreads = 64;

struct Block {
  void* memory;
  std::uint16_t size;
  std::uint8_t function;
  std::uint8_t depth;
  bool survives;
};
std::array<Block, kMaxBlocks> blocks;  // not allocated: it would be one more block
std::size_t block_count = 100'000;
std::size_t thread_count = 1;

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

/// From LEDGER_SEED, as in programs with a ledger (tests/support/ledger.h).
std::uint64_t added_seed() {
  const char* const text = std::getenv("LEDGER_SEED");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10) * 1'000'003;
}

std::uint64_t random_number() {
  static std::uint64_t state = 1 + added_seed();
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

/// The value of a line in `status`, or 0.
unsigned long long bytes_in(const char* status, const char* name) {
  const char* const line = std::strstr(status, name);
  return line == nullptr ? 0 : std::strtoull(line + std::strlen(name), nullptr, 10) * 1024;
}

/// Read without an allocation.
unsigned long long private_bytes() {
  char text[4096];
  const int file = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t length = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (length <= 0) std::abort();
  text[length] = '\0';
  return bytes_in(text, "RssAnon:") + bytes_in(text, "VmSwap:");
}

template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

void plan_blocks() {
  std::size_t numbers[kFunctions] = {};
  for (std::size_t i = 0; i < block_count; ++i) {
    const auto function = static_cast<std::uint8_t>(random_number() % kFunctions);
    const auto size = static_cast<std::uint16_t>(16 + random_number() % 256);
    const auto depth = static_cast<std::uint8_t>(random_number() % kStacks);
    blocks[i] = {nullptr, size, function, depth, numbers[function]++ % kSurvivors[function] == 0};
  }
}

/// Every thread has the blocks whose numbers have the same rest.
template <typename Visit>
void for_each_block(std::size_t thread, Visit visit) {
  for (std::size_t i = thread; i < block_count; i += thread_count) visit(blocks[i]);
}

void allocate_all(std::size_t thread, unsigned) {
  for_each_block(thread, [](Block& block) { block.memory = kAllocate[block.function](block.size, block.depth); });
}

void free_most(std::size_t thread, unsigned) {
  for_each_block(thread, [](Block& block) {
    if (!block.survives) std::free(std::exchange(block.memory, nullptr));
  });
}

void free_function(std::size_t thread, unsigned function) {
  for_each_block(thread, [function](Block& block) {
    if (block.function == function) std::free(std::exchange(block.memory, nullptr));
  });
}

/// Empties the caches of the calling thread.
void flush_caches(std::size_t, unsigned) {
  if (auto* mallctl = find<int(const char*, void*, std::size_t*, void*, std::size_t)>("mallctl"))
    mallctl("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
  if (auto* collect = find<void(bool)>("mi_collect")) collect(true);
  if (auto* idle = find<void()>("MallocExtension_MarkThreadIdle")) idle();
}

using Task = void(std::size_t thread, unsigned function);
pthread_barrier_t barrier;
Task* task = nullptr;  // null: the threads end
unsigned task_function = 0;

void* run_tasks(void* number) {
  for (;;) {
    ::pthread_barrier_wait(&barrier);
    if (task == nullptr) return nullptr;
    task(reinterpret_cast<std::size_t>(number), task_function);
    ::pthread_barrier_wait(&barrier);
  }
}

/// Runs the task in all threads, and waits for them.
void run(Task* next, unsigned function = 0) {
  if (thread_count == 1) return next(0, function);
  task = next;
  task_function = function;
  ::pthread_barrier_wait(&barrier);
  ::pthread_barrier_wait(&barrier);
}

/// Makes the allocator return what it can.
void trim() {
  run(flush_caches);
  if (auto* mallctl = find<int(const char*, void*, std::size_t*, void*, std::size_t)>("mallctl")) {
    mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0);
  } else if (auto* release = find<void()>("MallocExtension_ReleaseFreeMemory")) {
    release();
  } else if (find<void(bool)>("mi_collect") == nullptr) {
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
  if (argc > 1) block_count = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) thread_count = std::strtoull(argv[2], nullptr, 10);
  if (block_count > kMaxBlocks || thread_count == 0 || thread_count > kMaxThreads) return 2;
  // The kernel makes a huge page of pages that a trim has returned, too, if it is set to do so everywhere.
  ::prctl(PR_SET_THP_DISABLE, 1UL, 0UL, 0UL, 0UL);
  char output[4096];
  std::setvbuf(stdout, output, _IOFBF, sizeof output);  // not allocated
  plan_blocks();
  pthread_t threads[kMaxThreads];
  if (thread_count > 1) {
    ::pthread_barrier_init(&barrier, nullptr, static_cast<unsigned>(thread_count + 1));
    for (std::size_t i = 0; i < thread_count; ++i)
      if (::pthread_create(&threads[i], nullptr, run_tasks, reinterpret_cast<void*>(i)) != 0) return 2;
  }
  run(allocate_all);
  run(free_most);
  begin_step("trim");
  trim();
  for (unsigned function = 0; function < kFunctions; ++function) {
    begin_step(kNames[function]);
    run(free_function, function);
    trim();
  }
  begin_step("end");
  if (thread_count > 1) {
    task = nullptr;
    ::pthread_barrier_wait(&barrier);
    for (std::size_t i = 0; i < thread_count; ++i) ::pthread_join(threads[i], nullptr);
  }
  return 0;
}
