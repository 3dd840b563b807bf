// The ledger of a test program: a list of its own allocations, with which a test compares the trace.
//
// The ledger is a file that is mapped shared, so that it survives the program, however it ends. Each thread has a
// slot with an array of entries, one for each call to the allocator: begun before the call, done after it. After
// SIGKILL, a thread has at most one entry that is begun but not done; only for that one it is unknown whether its
// event is in the trace. tests/support/ledger.py reads the file and computes the expected figures.
//
//   [[gnu::noinline]] void* site_small(std::size_t size) {
//     ledger::Entry& entry = ledger::begin(ledger::Kind::kMalloc, kSiteSmall, nullptr, size);
//     void* block = malloc(size);
//     return ledger::done(entry, block);
//   }
//
// Each call site is a separate function ("site") in the table of open(); a test finds it in the stacks and compares
// sums by site. The store after the call prevents a tail call, which would remove the frame.
//
// Allocations that the program does not count are in the trace, too: libstdc++'s emergency pool, the buffers of
// stdio, dlopen. Their stacks have no site. For figures of the whole process, tests subtract a run that does no work.
//
// The ledger never calls the allocator. It is header-only, has its state in the executable (a plugin must not include
// it, because the loader would allocate its thread-local storage), and works before main, in constructors of any
// priority, and after the last destructor. Without LEDGER_FILE it uses anonymous memory.
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ledger {

/// The called function. ledger.py has the events of each.
enum class Kind : std::uint8_t {
  kNone = 0,
  kMalloc = 1,
  kCalloc = 2,        ///< size: the product
  kRealloc = 3,       ///< old, size
  kReallocarray = 4,  ///< old, size: the product
  kFree = 5,          ///< old
  kPosixMemalign = 6,
  kAlignedAlloc = 7,
  kMemalign = 8,
  kValloc = 9,
  kPvalloc = 10,
  kNew = 11,     ///< size: that of libstdc++'s malloc, 1 for new char[0]
  kDelete = 12,  ///< old
  /// A block that a library function allocated (strdup, getline): its size may be unknown, and the function may have
  /// allocated and freed other blocks.
  kOpaque = 13,
  // Mappings: `old` and `block` are the old range, `size` is the new length.
  kMap = 20,    ///< size
  kUnmap = 21,  ///< old, size: the part unmapped
  kRemap = 22,  ///< old, block: the old length, size: the new length
  kBreak = 23,  ///< old: the break before, result: after
};

enum class State : std::uint8_t { kUnused = 0, kBegun = 1, kDone = 2 };

inline constexpr std::uint32_t kFlagSizeUnknown = 1;  ///< do not compare the size (overflow, library function)
inline constexpr std::uint32_t kFlagFailed = 2;       ///< a failure that the result does not indicate
inline constexpr std::uint32_t kFlagReserve = 4;      ///< a mapping of address space only (PROT_NONE): no bytes yet

/// One call. `block`: the identity() in the freed block, when another thread may have allocated it; 0: find the block
/// by its address, in the order of entries.
struct Entry {
  std::uint64_t old;
  std::uint64_t size;
  std::uint64_t result;
  std::uint64_t block;
  std::uint32_t flags;
  std::uint16_t site;
  Kind kind;
  std::atomic<State> state;
};
static_assert(sizeof(Entry) == 40);

struct Slot {
  std::uint32_t tid;
  std::uint32_t index;  ///< of this slot
  char name[24];
  std::uint64_t used;  ///< entries begun; a hint, only `state` is reliable
  char zero[24];

  Entry* entries() noexcept { return reinterpret_cast<Entry*>(this + 1); }
};
static_assert(sizeof(Slot) == 64);

inline constexpr unsigned kMaxSites = 64;
inline constexpr unsigned kMaxSiteName = 64;
enum class Phase : std::uint32_t { kStarting = 0, kWorking = 1, kFinished = 2 };

struct Header {
  char magic[8];  ///< "LEDGER01", stored last
  std::uint32_t header_bytes;
  std::uint32_t entry_bytes;
  std::uint64_t slot_bytes;
  std::uint32_t slot_entries;
  std::uint32_t max_slots;
  std::atomic<std::uint32_t> slots_used;
  std::uint32_t site_count;
  std::atomic<Phase> phase;
  std::uint32_t pid;
  std::atomic<std::uint32_t> errors;  ///< failed self-checks; the text of the first one follows
  char error_text[200];
  char zero[4096 - 252];
  char sites[kMaxSites][kMaxSiteName];
};
static_assert(offsetof(Header, sites) == 4096 && sizeof(Header) == 8192);

struct Book {
  Header* header = nullptr;
};
inline constinit Book book;
inline constinit thread_local Slot* this_slot __attribute__((tls_model("initial-exec"))) = nullptr;

inline void fail(const char* text) noexcept {
  (void)!write(2, text, strlen(text));
  (void)!write(2, "\n", 1);
  if (book.header != nullptr && book.header->errors.fetch_add(1) == 0)
    strncpy(book.header->error_text, text, sizeof book.header->error_text - 1);
}

/// A condition that holds with and without a recorder. The test fails if it does not.
#define LEDGER_STRING_OF(x) #x
#define LEDGER_STRING(x) LEDGER_STRING_OF(x)
#define LEDGER_CHECK(condition)                                                             \
  do {                                                                                      \
    if (!(condition)) ::ledger::fail(__FILE__ ":" LEDGER_STRING(__LINE__) ": " #condition); \
  } while (0)

/// Assigns a slot to the calling thread. `name` is also its pthread name unless null.
inline void attach(const char* name) noexcept {
  Header& header = *book.header;
  const std::uint32_t index = header.slots_used.fetch_add(1);
  if (index >= header.max_slots) {
    fail("ledger: more threads than slots");
    _exit(120);
  }
  auto* slot = reinterpret_cast<Slot*>(reinterpret_cast<char*>(&header) + sizeof(Header) + index * header.slot_bytes);
  slot->index = index;
  slot->tid = static_cast<std::uint32_t>(syscall(SYS_gettid));
  if (name != nullptr) {
    strncpy(slot->name, name, sizeof slot->name - 1);
    pthread_setname_np(pthread_self(), name);
  }
  this_slot = slot;
}

/// Opens the file LEDGER_FILE for up to `max_slots` threads with `slot_entries` calls each (the file is sparse), and
/// attaches the calling thread without a name. `environment`: in .preinit_array, before libc initializes getenv. The
/// recorder sees the mapping; if a test counts mappings, the size must not depend on the work.
template <std::size_t kSites>
inline void open(const char* const (&sites)[kSites], std::uint32_t max_slots, std::uint32_t slot_entries,
                 char** environment = nullptr) noexcept {
  static_assert(kSites <= kMaxSites);
  const std::uint64_t slot_bytes = (sizeof(Slot) + sizeof(Entry) * std::uint64_t{slot_entries} + 4095) & ~4095ull;
  const std::uint64_t bytes = sizeof(Header) + slot_bytes * max_slots;
  int descriptor = -1;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const char* path = environment == nullptr ? getenv("LEDGER_FILE") : nullptr;
  for (; environment != nullptr && *environment != nullptr; ++environment)
    if (strncmp(*environment, "LEDGER_FILE=", 12) == 0) path = *environment + 12;
  if (path != nullptr && *path != 0) {
    descriptor = ::open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (descriptor < 0 || ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
      fail("ledger: cannot create the file LEDGER_FILE");
      _exit(120);
    }
    flags = MAP_SHARED;
  }
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (address == MAP_FAILED) {
    fail("ledger: cannot map the file");
    _exit(120);
  }
  if (descriptor >= 0) ::close(descriptor);
  Header& header = *static_cast<Header*>(address);
  header.header_bytes = sizeof(Header);
  header.entry_bytes = sizeof(Entry);
  header.slot_bytes = slot_bytes;
  header.slot_entries = slot_entries;
  header.max_slots = max_slots;
  header.site_count = kSites;
  header.pid = static_cast<std::uint32_t>(getpid());
  for (std::size_t i = 0; i < kSites; ++i) strncpy(header.sites[i], sites[i], kMaxSiteName - 1);
  book.header = &header;
  memcpy(header.magic, "LEDGER01", 8);
  attach(nullptr);
}

inline void set_phase(Phase phase) noexcept { book.header->phase.store(phase, std::memory_order_release); }

/// The exit status of the program: 1 if a self-check failed.
inline int status() noexcept { return book.header->errors.load() == 0 ? 0 : 1; }

[[gnu::always_inline]] inline Entry& begin(Kind kind, unsigned site, const void* old, std::size_t size,
                                           std::uint64_t block = 0, std::uint32_t flags = 0) noexcept {
  Slot& slot = *this_slot;
  if (slot.used >= book.header->slot_entries) [[unlikely]] {
    fail("ledger: slot is full");
    _exit(121);
  }
  Entry& entry = slot.entries()[slot.used++];
  entry.old = reinterpret_cast<std::uint64_t>(old);
  entry.size = size;
  entry.block = block;
  entry.flags = flags;
  entry.site = static_cast<std::uint16_t>(site);
  entry.kind = kind;
  entry.state.store(State::kBegun, std::memory_order_release);
  return entry;
}

[[gnu::always_inline]] inline void* done(Entry& entry, void* result = nullptr) noexcept {
  entry.result = reinterpret_cast<std::uint64_t>(result);
  entry.state.store(State::kDone, std::memory_order_release);
  return result;
}

/// Identifies the block of `entry` among all blocks of all threads; never 0.
inline std::uint64_t identity(const Entry& entry) noexcept {
  return std::uint64_t{this_slot->index + 1} << 32 | static_cast<std::uint64_t>(&entry - this_slot->entries());
}

/// Added to each seed of a program, from HEAPPROF_TEST_SEED of the tests; 0 by default.
inline std::uint64_t added_seed() noexcept {
  const char* const text = getenv("LEDGER_SEED");
  return text == nullptr ? 0 : strtoull(text, nullptr, 10) * 1'000'003;
}

/// A random generator (SplitMix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed + added_seed()) {}
  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t end) noexcept { return next() % end; }

 private:
  std::uint64_t state_;
};

/// The number in argv[index], or `otherwise`.
inline std::uint64_t argument(int argc, char** argv, int index, std::uint64_t otherwise) noexcept {
  return index < argc ? strtoull(argv[index], nullptr, 0) : otherwise;
}

}  // namespace ledger
