// A preload library that compares the unwinder with libunwind inside real programs. At every allocation it captures
// the stack as the recorder does. At every ORACLE_EVERY-th (default 1) it also unwinds with libunwind's local
// interface and compares frame by frame. At exit it prints the counts and the first differences to standard error, or
// appends them to the file ORACLE_REPORT.
//
// libunwind takes the loader's lock, so a program that loads libraries in several threads at once may hang here.
#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <fcntl.h>
#include <libunwind.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "preload/unwind/unwinder.h"

using namespace heapprof;

namespace {

constexpr unsigned kMaxFrames = 1u << 16;
constexpr unsigned kMaxReports = 4;

struct Totals {
  std::atomic<unsigned long> captures, compared, frames, different, truncated, by_frame_pointer, libunwind_short,
      both_short;
};
Totals g_totals;
std::atomic<unsigned> g_reports;
unsigned g_every = 1;
std::atomic<int> g_state{0};  ///< 0: not started, 1: starting, 2: on, 3: finished

/// Whether an address is in a signal trampoline. dladdr() compares an address with all symbols of its module.
struct Known {
  std::uint64_t pc;
  bool is_trampoline;
};
constexpr unsigned kKnownBits = 10;

/// The state of a thread, in plain memory.
struct PerThread {
  unwind::ThreadUnwinder unwinder;
  bool busy;
  unsigned long events;
  std::uint64_t* frames;  ///< innermost first, as libunwind identifies them
  std::uint64_t* expected;
  Known* known;  ///< by their hashes
};
thread_local PerThread t_thread __attribute__((tls_model("initial-exec")));

std::uint64_t g_biases[1u << 16];

/// Nodes as (parent, frame), from which a stack is read back.
struct Node {
  std::uint32_t parent;
  std::uint32_t flags;
  std::uint64_t address;
};
constexpr std::uint32_t kMaxNodes = 1u << 22;
Node* g_nodes;
std::atomic<std::uint32_t> g_next{1};

NodeId intern(void*, NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags) {
  const std::uint64_t address = module == ModuleId::kTruncationRoot ? offset : offset + g_biases[raw(module)];
  const std::uint32_t marked = flags | (module == ModuleId::kTruncationRoot ? 0x100 : 0);
  // A hash table with open addressing, by content.
  std::uint64_t hash = (address ^ (std::uint64_t{raw(parent)} << 40) ^ raw(parent) ^ marked) * 0x9e3779b97f4a7c15;
  for (std::uint32_t at = static_cast<std::uint32_t>(hash >> 42);; at = (at + 1) % kMaxNodes) {
    if (at == 0) continue;
    Node& node = g_nodes[at];
    std::uint64_t empty = 0;
    if (__atomic_load_n(&node.address, __ATOMIC_ACQUIRE) == 0) {
      if (g_next.fetch_add(1) > kMaxNodes / 2) return NodeId::kNone;
      if (__atomic_compare_exchange_n(&node.address, &empty, address + 1, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE)) {
        node.parent = raw(parent);
        __atomic_store_n(&node.flags, marked | 0x80000000, __ATOMIC_RELEASE);
        return NodeId{at};
      }
    }
    while (__atomic_load_n(&node.flags, __ATOMIC_ACQUIRE) == 0) {
    }
    if (node.address == address + 1 && node.parent == raw(parent) && node.flags == (marked | 0x80000000))
      return NodeId{at};
  }
}

void define_module(void*, const unwind::ModuleInfo& module) { g_biases[raw(module.id)] = module.load_bias; }

constexpr unwind::Definitions kDefinitions{nullptr, intern, define_module};

void write_line(int fd, const char* format, auto... arguments) {
  char line[600];
  const int length = snprintf(line, sizeof line, format, arguments...);
  if (write(fd, line, static_cast<size_t>(length)) < 0) return;
}

int open_report() {
  const char* path = getenv("ORACLE_REPORT");
  const int fd = path != nullptr ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
  return fd >= 0 ? fd : 2;
}

void print_frames(int fd, const char* whose, const std::uint64_t* frames, unsigned count) {
  write_line(fd, " %s (%u):\n", whose, count);
  for (unsigned i = 0; i < count && i < 60; ++i) {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(frames[i]), &info);
    write_line(fd, "  %#lx %s+%#lx (%s)\n", frames[i], info.dli_sname != nullptr ? info.dli_sname : "?",
               frames[i] - reinterpret_cast<std::uint64_t>(info.dli_saddr),
               info.dli_fname != nullptr ? info.dli_fname : "?");
  }
}

bool is_code(std::uint64_t pc) {
  Dl_info info;
  return dladdr(reinterpret_cast<void*>(pc), &info) != 0;
}

bool is_signal_trampoline(PerThread& thread, std::uint64_t pc) {
  Known& known = thread.known[pc * 0x9e3779b97f4a7c15 >> (64 - kKnownBits)];
  if (known.pc != pc) known = {pc, is_code(pc) && arch::is_signal_return(reinterpret_cast<const std::uint8_t*>(pc))};
  return known.is_trampoline;
}

void report_totals();

[[gnu::noinline]] void compare(PerThread& thread, const arch::EntryRegisters& entry, NodeId node) {
  static thread_local unw_context_t context;
  static thread_local unw_cursor_t cursor;
  unsigned expected = 0;
  bool inside = false;
  unw_getcontext(&context);
  unw_init_local(&cursor, &context);
  int step = 0;
  do {
    unw_word_t pc, sp;
    unw_get_reg(&cursor, UNW_REG_IP, &pc);
    unw_get_reg(&cursor, UNW_REG_SP, &sp);
    if (pc == 0) break;
    if (pc == to_address(entry.pc) && sp == to_address(entry.sp)) inside = true;
    const bool interrupted = unw_is_signal_frame(&cursor) > 0 || is_signal_trampoline(thread, pc);
    if (inside && expected < kMaxFrames) thread.expected[expected++] = interrupted ? pc : pc - 1;
  } while ((step = unw_step(&cursor)) > 0);

  unsigned count = 0;
  unsigned by_frame_pointer = 0;
  unsigned truncation = 0;
  for (std::uint32_t id = raw(node); id != 0; id = g_nodes[id].parent) {
    if ((g_nodes[id].flags & 0x100) != 0) {
      truncation = static_cast<unsigned>(g_nodes[id].address - 1);
      continue;
    }
    by_frame_pointer += g_nodes[id].flags & kNodeByFramePointer;
    if (count < kMaxFrames) thread.frames[count++] = g_nodes[id].address - 1;
  }
  if (++g_totals.compared % 5000 == 0) report_totals();  // many programs are killed or call _exit
  g_totals.frames += count;
  if (by_frame_pointer != 0) ++g_totals.by_frame_pointer;
  if (truncation != 0) ++g_totals.truncated;
  bool same = truncation == 0 && count == expected;
  unsigned at = 0;
  while (at < count && at < expected && thread.frames[at] == thread.expected[at]) ++at;
  same = same && at == count;
  if (same) return;
  // libunwind failed at a frame from which heapprof continued.
  if (truncation == 0 && at == expected && count > expected && step < 0) {
    ++g_totals.libunwind_short;
    return;
  }
  // Both end at this frame; only heapprof marks the stack as truncated.
  if (truncation != 0 && at == count && count == expected) {
    ++g_totals.both_short;
    return;
  }
  ++g_totals.different;
  if (g_reports.fetch_add(1) >= kMaxReports) return;
  const int fd = open_report();
  write_line(fd, "difference at frame %u, truncation %u, libunwind's last step %d\n", at, truncation, step);
  print_frames(fd, "ours", thread.frames, count);
  print_frames(fd, "libunwind", thread.expected, expected);
  if (fd != 2) close(fd);
}

void start() {
  int expected = 0;
  if (!g_state.compare_exchange_strong(expected, 1)) return;
  g_nodes = static_cast<Node*>(mmap(nullptr, kMaxNodes * sizeof(Node), PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (const char* every = getenv("ORACLE_EVERY")) g_every = static_cast<unsigned>(atoi(every));
  if (g_every == 0) g_every = 1;
  if (g_nodes != MAP_FAILED &&
      unwind::start({.max_depth = 1u << 16, .shadow_stack = getenv("ORACLE_PLAIN") == nullptr}))
    g_state = 2;
}

[[gnu::always_inline]] inline bool begin() {
  if (g_state.load(std::memory_order_relaxed) != 2 || t_thread.busy) return false;
  t_thread.busy = true;
  return true;
}

[[gnu::noinline]] void event(const arch::EntryRegisters& entry) {
  if (!begin()) return;
  PerThread& thread = t_thread;
  if (thread.frames == nullptr) {
    thread.frames = static_cast<std::uint64_t*>(malloc(kMaxFrames * 8));
    thread.expected = static_cast<std::uint64_t*>(malloc(kMaxFrames * 8));
    thread.known = static_cast<Known*>(calloc(1u << kKnownBits, sizeof(Known)));
  }
  if (unwind::is_loader(entry.pc)) {
    unwind::loader_activity();
    unw_flush_cache(unw_local_addr_space, 0, 0);
  }
  const NodeId node = thread.unwinder.capture(entry, kDefinitions);
  ++g_totals.captures;
  if (node != NodeId::kNone && thread.events++ % g_every == 0) compare(thread, entry, node);
  thread.busy = false;
}

[[gnu::noinline]] void freed(const arch::EntryRegisters& entry) {
  if (unwind::is_loader(entry.pc)) unwind::loader_activity();
}

[[gnu::constructor]] void on_load() { start(); }

void report_totals() {
  const int fd = open_report();
  write_line(fd,
             "%s: %lu captures, %lu compared, %lu frames, %lu different, "
             "%lu truncated, %lu with frame pointers, %lu where libunwind stopped, %lu where both did\n",
             program_invocation_short_name, g_totals.captures.load(), g_totals.compared.load(),
             g_totals.frames.load(), g_totals.different.load(), g_totals.truncated.load(),
             g_totals.by_frame_pointer.load(), g_totals.libunwind_short.load(), g_totals.both_short.load());
  if (fd != 2) close(fd);
}

[[gnu::destructor]] void at_exit() {
  if (g_state.exchange(3) == 2) report_totals();
}

}  // namespace

namespace {

// The next definitions of the hooked functions. dlsym may allocate while it looks them up; these allocations use
// g_early.
alignas(16) char g_early[16384];
std::atomic<std::size_t> g_early_used;
bool is_early(const void* block) { return block >= g_early && block < g_early + sizeof g_early; }
void* early(std::size_t size) {
  const std::size_t at = g_early_used.fetch_add((size + 15) & ~std::size_t{15});
  return at + size <= sizeof g_early ? g_early + at : nullptr;
}

template <typename Function>
Function* next(Function*& known, const char* name) {
  static thread_local bool looking __attribute__((tls_model("initial-exec"))) = false;
  Function* function = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (function == nullptr && !looking) {
    looking = true;
    function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
    looking = false;
    __atomic_store_n(&known, function, __ATOMIC_RELAXED);
  }
  return function;
}

void* (*g_malloc)(size_t);
void* (*g_calloc)(size_t, size_t);
void* (*g_realloc)(void*, size_t);
void (*g_free)(void*);

}  // namespace

#define EVENT()                   \
  event(arch::entry_registers()); \
  asm volatile("")

extern "C" {
void* malloc(size_t size) {
  EVENT();
  auto* function = next(g_malloc, "malloc");
  return function != nullptr ? function(size) : early(size);
}
void* calloc(size_t count, size_t size) {
  EVENT();
  auto* function = next(g_calloc, "calloc");
  return function != nullptr ? function(count, size) : early(count * size);
}
void* realloc(void* block, size_t size) {
  EVENT();
  auto* function = next(g_realloc, "realloc");
  if (function != nullptr && !is_early(block)) return function(block, size);
  void* moved = malloc(size);
  if (moved != nullptr && block != nullptr) memcpy(moved, block, size);  // may read beyond the block, in g_early
  return moved;
}
void free(void* block) {
  freed(arch::entry_registers());
  if (is_early(block)) return;
  if (auto* function = next(g_free, "free")) function(block);
}
}
