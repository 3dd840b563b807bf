// A recorder for tests of the hooks: it is linked with them instead of the recorder, and writes one line per report,
// by a raw system call, to the descriptor in HEAPPROF_REPORTS. Without that variable it writes nothing.
//
//   loaded   allocated SIZE   failed SIZE   freed   realloc-begin   realloc-end SIZE   realloc-failed SIZE
//   mapped SIZE   unmap-begin SIZE   unmap-end RESULT   remap-begin SIZE   remap-end SIZE   break-moved BYTES
//   forget-range SIZE   realloc-end-inner   restricted NO-CLOCK   refused NO-CLOCK   frame-registered
//   frame-deregistered paused   resumed   mark TEXT   exit   about-to-end
//
// A line ends with " from-program" when the entry's return address is in the program itself.
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "preload/base/text.h"
#include "preload/recorder/lifecycle.h"
#include "preload/recorder/process/loader_start.h"
#include "preload/recorder/process/log.h"
#include "preload/recorder/process/settings.h"
#include "preload/recorder/recorder.h"
#include "preload/sys/kernel.h"
#include "preload/unwind/modules.h"
#include "preload/unwind/return_path.h"
#include "preload/unwind/unwinder.h"

namespace heapprof {

namespace {

int descriptor() noexcept {
  const char* value = recorder::environment_value(environ, "HEAPPROF_REPORTS");
  std::uint64_t number = 0;
  return value != nullptr && parse_number(value, number) ? static_cast<int>(number) : -1;
}

/// Whether `pc` is in the program's segments, which the auxiliary vector leads to.
bool in_program(std::uint64_t pc) noexcept {
  const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
  const std::uint64_t count = getauxval(AT_PHNUM);
  std::uint64_t base = 0;
  for (std::uint64_t i = 0; i < count; ++i)
    if (headers[i].p_type == PT_PHDR) base = reinterpret_cast<std::uint64_t>(headers) - headers[i].p_vaddr;
  for (std::uint64_t i = 0; i < count; ++i)
    if (headers[i].p_type == PT_LOAD && pc - base - headers[i].p_vaddr < headers[i].p_memsz) return true;
  return false;
}

void report(Text& line, const arch::EntryRegisters* entry = nullptr) noexcept {
  if (environ == nullptr) return;
  const int fd = descriptor();
  if (fd < 0) return;
  if (entry != nullptr && in_program(to_address(entry->pc))) line.add(" from-program");
  line.add('\n');
  sys::write(fd, line.c_str(), line.length());
}

void report(const char* what, const arch::EntryRegisters* entry = nullptr) noexcept {
  char buffer[128];
  Text line(buffer);
  report(line.add(what), entry);
}

void report(const char* what, std::uint64_t number, const arch::EntryRegisters* entry = nullptr) noexcept {
  char buffer[128];
  Text line(buffer);
  report(line.add(what).add(' ').number(number), entry);
}

}  // namespace

namespace recorder {

constinit State g_state = State::kNew;

void start() noexcept { g_state = State::kOn; }
void undo_loader_effects() noexcept {}
const char* program_started_by_loader() noexcept { return nullptr; }
bool names_own_executable(const char*) noexcept { return false; }
void prepare_environment() noexcept { report("loaded"); }
void log(LogLevel, const char*, const char*) noexcept {}

const char* environment_value(char* const* environment, const char* name) noexcept {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const char* rest = after_prefix(*environment, name);
    if (rest != nullptr && *rest == '=') return rest + 1;
  }
  return nullptr;
}

thread_local constinit ThreadLocal t_local = {};

void detail::allocated(const void* block, std::size_t size, ProgramCounter pc, StackPointer sp,
                       std::uint64_t fp) noexcept {
  if (t_local.allocator_depth != 0) t_local.inner_blocks.add(block);
  const EntryRegisters entry{pc, sp, fp};
  report("allocated", size, &entry);
}
void detail::allocated_inside(const void* block, std::size_t size, ProgramCounter pc, StackPointer sp,
                              std::uint64_t fp) noexcept {
  allocated(block, size, pc, sp, fp);
}
void record_outer_call_of(std::uint64_t, std::uint64_t) noexcept {}
void allocation_failed(std::size_t size, const EntryRegisters& entry) noexcept { report("failed", size, &entry); }
void detail::freed(const void*, ProgramCounter pc, StackPointer sp, std::uint64_t fp) noexcept {
  const EntryRegisters entry{pc, sp, fp};
  report("freed", &entry);
}
bool realloc_begin(const void* block, const EntryRegisters& entry) noexcept {
  if (t_local.reallocating == block) return false;
  t_local.reallocating = block;
  report("realloc-begin", &entry);
  return true;
}
void realloc_end(const void*, const void* block, std::size_t size, const EntryRegisters& entry,
                 const AllocatorCall& call) noexcept {
  t_local.reallocating = nullptr;
  if (block != nullptr && call.recorded(block)) return report("realloc-end-inner");
  report(block == nullptr && size != 0 ? "realloc-failed" : "realloc-end", size, &entry);
}
void mapped(const void*, std::size_t size, int, int, const EntryRegisters& entry) noexcept {
  report("mapped", size, &entry);
}
void unmap_begin(const void*, std::size_t size, const EntryRegisters& entry) noexcept {
  report("unmap-begin", size, &entry);
}
void unmap_end(const void*, std::size_t, bool succeeded) noexcept { report("unmap-end", succeeded); }
void forget_range(const void*, std::size_t size, int) noexcept { report("forget-range", size); }
void remap_begin(const void*, std::size_t size, const EntryRegisters& entry) noexcept {
  report("remap-begin", size, &entry);
}
void remap_end(const void*, std::size_t, const void* address, std::size_t size,
               const EntryRegisters& entry) noexcept {
  report("remap-end", address != nullptr ? size : 0, &entry);
}
void break_moved(const void* old_break, const void* new_break, const EntryRegisters& entry) noexcept {
  const auto moved = reinterpret_cast<std::uint64_t>(new_break) - reinterpret_cast<std::uint64_t>(old_break);
  report("break-moved", moved, &entry);
}
void restrict_system_calls(bool no_cycle_clock) noexcept { report("restricted", no_cycle_clock); }
void restriction_refused(bool no_cycle_clock) noexcept { report("refused", no_cycle_clock); }
void exit_reached() noexcept { report("exit"); }
bool has_own_trace() noexcept { return true; }
void about_to_end(Ending) noexcept { report("about-to-end"); }
void pause() noexcept { report("paused"); }
void resume() noexcept { report("resumed"); }
void mark(const char* text) noexcept {
  char buffer[128];
  Text line(buffer);
  report(line.add("mark ").add(text));
}
bool is_recording() noexcept { return true; }
void note(const char*, NoteKind) noexcept {}

}  // namespace recorder

namespace intercept {
bool start(bool) noexcept { return false; }
}  // namespace intercept

namespace unwind {
namespace detail {
constinit std::atomic<std::uint64_t> generation{1};
constinit FollowedCode followed_code{};
constinit ReturnPathFinder* return_path_finder = nullptr;
}  // namespace detail
bool is_unloaded(const void*) noexcept { return false; }
Span loaded_range(const void*) noexcept { return {}; }
void register_frame(const void*, const void*) noexcept { report("frame-registered"); }
void deregister_frame(const void*) noexcept { report("frame-deregistered"); }
}  // namespace unwind

}  // namespace heapprof
