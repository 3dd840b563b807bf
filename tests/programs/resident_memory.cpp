// Has resident memory of every kind, of known size: resident_memory SMAPS [MODE].
//
// Prints a line for each: NAME BYTES. Then it copies /proc/self/smaps to the file SMAPS, sets a mark, and ends;
// nothing is freed after the mark.
//
//   MODE   default: every kind; none: only what the C library itself has
//   blocks        requested bytes of the blocks that were allocated here and are live; all of them were written
//   freed         usable bytes of the blocks that were freed, which were allocated one after the other
//   untouched     requested bytes of live blocks whose pages were never written
//   map_cache, map_index   resident bytes of mappings, by the function that mapped them
//   shared        resident bytes of shared memory
//   file_copies   written pages of a private file mapping
//   stack         bytes of a thread's stack that were written, at least
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "preload/heapprof.h"

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBlocks = 20'000;
constexpr std::size_t kStackBytes = 600 << 10;

std::array<void*, kBlocks> blocks;
void* volatile kept;

void print(const char* name, std::size_t bytes) { std::printf("%s %zu\n", name, bytes); }

char* checked(void* memory) {
  if (memory == MAP_FAILED || memory == nullptr) std::abort();
  return static_cast<char*>(memory);
}

void write_pages(char* at, std::size_t pages) {
  for (std::size_t page = 0; page < pages; ++page) at[page * kPage] = 1;
}

/// Blocks of 200 bytes; the second half is freed again, from the last one.
void allocate_blocks() {
  std::size_t freed = 0;
  for (void*& block : blocks) block = std::memset(checked(std::malloc(200)), 1, 200);
  for (std::size_t i = kBlocks; i-- > kBlocks / 2;) {
    freed += malloc_usable_size(blocks[i]);
    std::free(blocks[i]);
  }
  const std::size_t large = 3 << 20;
  kept = std::memset(checked(std::malloc(large)), 1, large);
  print("blocks", kBlocks / 2 * 200 + large);
  print("freed", freed);
  const std::size_t untouched = 8 << 20;
  kept = checked(std::malloc(untouched));
  print("untouched", untouched);
}

char* map_private(std::size_t pages) {
  char* const at =
      checked(::mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ::madvise(at, pages * kPage, MADV_NOHUGEPAGE);
  return at;
}

__attribute__((noinline)) void map_cache() {
  write_pages(map_private(2560), 2560);
  write_pages(map_private(500), 100);
  print("map_cache", 2660 * kPage);
}

__attribute__((noinline)) void map_index() {
  // Reserved, and made accessible later; the middle is unmapped again.
  char* const at = checked(::mmap(nullptr, 1000 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (::mprotect(at, 1000 * kPage, PROT_READ | PROT_WRITE) != 0) std::abort();
  ::madvise(at, 1000 * kPage, MADV_NOHUGEPAGE);
  write_pages(at, 1000);
  if (::munmap(at + 300 * kPage, 400 * kPage) != 0) std::abort();
  print("map_index", 600 * kPage);
}

void map_shared() {
  const int file = ::memfd_create("ring", 0);
  if (file < 0 || ::ftruncate(file, 512 * kPage) != 0) std::abort();
  write_pages(checked(::mmap(nullptr, 512 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)), 512);
  print("shared", 512 * kPage);
}

/// A private mapping of the program's own file. Beside the written pages, the kernel may map others, too.
void map_file(const char* program) {
  const int file = ::open(program, O_RDONLY);
  char* const at = checked(::mmap(nullptr, 32 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0));
  write_pages(at, 4);
  print("file_copies", 4 * kPage);
}

pthread_barrier_t stack_is_written;

void* write_stack(void*) {
  std::array<volatile char, kStackBytes> bytes;
  for (std::size_t at = 0; at < bytes.size(); at += kPage / 2) bytes[at] = 1;
  kept = std::malloc(1);  // the recorder knows threads that have allocated
  ::pthread_barrier_wait(&stack_is_written);
  for (;;) ::pause();
}

void start_thread() {
  ::pthread_barrier_init(&stack_is_written, nullptr, 2);
  pthread_t thread;
  if (::pthread_create(&thread, nullptr, write_stack, nullptr) != 0) std::abort();
  ::pthread_barrier_wait(&stack_is_written);
  print("stack", kStackBytes);
}

/// Without an allocation.
void copy_smaps(const char* path) {
  static char buffer[1 << 16];
  const int in = ::open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
  const int out = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  for (ssize_t bytes; (bytes = ::read(in, buffer, sizeof buffer)) > 0;)
    if (::write(out, buffer, static_cast<std::size_t>(bytes)) != bytes) std::abort();
  ::close(in);
  ::close(out);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  // Else pages that nobody has written are resident if the kernel makes huge pages everywhere.
  ::prctl(PR_SET_THP_DISABLE, 1UL, 0UL, 0UL, 0UL);
  static char output[1 << 16];
  std::setvbuf(stdout, output, _IOFBF, sizeof output);  // not allocated
  if (argc == 2) {
    allocate_blocks();
    map_cache();
    map_index();
    map_shared();
    map_file(argv[0]);
    start_thread();
  }
  std::fflush(stdout);
  copy_smaps(argv[1]);
  heapprof_mark("ready");
  return 0;
}
