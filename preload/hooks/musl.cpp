#include "preload/hooks/musl.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

#include "preload/hooks/hook.h"
#include "preload/real/next_symbol.h"
#include "preload/recorder/recorder.h"
#include "preload/sys/loader.h"
#include "preload/unwind/return_path.h"

namespace heapprof::hooks {

namespace {

/// The functions of musl's headers that are marked _Noreturn. libc itself calls the first two where it has called
/// main or a thread's function.
constexpr const char* kNeverReturn[] = {"exit",          "pthread_exit", "_Exit",           "quick_exit",
                                        "abort",         "longjmp",      "siglongjmp",      "thrd_exit",
                                        "__assert_fail", "_longjmp",     "__stack_chk_fail"};
constexpr std::size_t kEndingFunctions = 2;
static_assert(sizeof kNeverReturn / sizeof *kNeverReturn <= unwind::FollowedCode::kMaxFunctions);

/// calloc calls malloc, and posix_memalign calls aligned_alloc, by the names that the hooks have (musl, src/malloc).
/// memalign, valloc and reallocarray end in a jump to another function: the return address is then in this library.
void record_outer_calls() noexcept {
  recorder::record_outer_call_of(reinterpret_cast<std::uint64_t>(__ehdr_start),
                                 reinterpret_cast<std::uint64_t>(_end));
  for (const char* name : {"calloc", "posix_memalign"}) {
    std::uint64_t bytes = 0;
    const auto begin = reinterpret_cast<std::uint64_t>(real::following_symbol(name, &bytes));
    // A call that is the last instruction returns behind it.
    if (begin != 0) recorder::record_outer_call_of(begin, begin + bytes + 1);
  }
}

/// libc's executable segment. musl's loader reads its own program headers in the same way (_dlstart_c).
unwind::Span text_of(const link_map& libc) noexcept {
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(libc.l_addr);
  const auto* const segments = reinterpret_cast<const ElfW(Phdr)*>(libc.l_addr + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    const ElfW(Phdr)& segment = segments[i];
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0)
      return {libc.l_addr + segment.p_vaddr, libc.l_addr + segment.p_vaddr + segment.p_filesz};
  }
  return {};
}

void follow_returns() noexcept {
  const link_map* const libc = sys::loader_object();
  if (libc == nullptr) return;
  unwind::FollowedCode code;
  code.text = text_of(*libc);
  for (std::size_t i = 0; i < sizeof kNeverReturn / sizeof *kNeverReturn; ++i) {
    const auto function = reinterpret_cast<std::uint64_t>(real::following_symbol(kNeverReturn[i]));
    if (!code.text.contains(function)) continue;
    code.never_return[code.functions++] = function;
    if (i < kEndingFunctions) code.ending_functions = code.functions;
  }
  if (code.text.end != 0) unwind::follow_returns_in(code);
}

}  // namespace

void prepare_for_musl() noexcept {
  if (!sys::is_musl()) return;
  record_outer_calls();
  follow_returns();
}

}  // namespace heapprof::hooks
