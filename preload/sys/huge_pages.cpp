#include "preload/sys/huge_pages.h"

#include <sys/auxv.h>

#include "preload/sys/kernel.h"

namespace heapprof::sys {

namespace {

constexpr char kName[] = "\nHugepagesize:";

/// The number after kName, in KB; 0: not found.
[[gnu::noinline]] std::size_t read_huge_page_kb() noexcept {
  char text[2048];  // of some 1,600 bytes
  const std::size_t length = read_file("/proc/meminfo", text, sizeof text);
  constexpr std::size_t kNameBytes = sizeof kName - 1;
  std::size_t kb = 0;
  for (std::size_t at = 0; at + kNameBytes < length; ++at) {
    if (__builtin_memcmp(text + at, kName, kNameBytes) != 0) continue;
    for (at += kNameBytes; at < length && text[at] == ' ';) ++at;
    for (; at < length && text[at] >= '0' && text[at] <= '9'; ++at)
      kb = kb * 10 + static_cast<std::size_t>(text[at] - '0');
    return kb;
  }
  return 0;
}

}  // namespace

std::size_t huge_page_bytes() noexcept {
  static constinit std::size_t known = 0;
  std::size_t bytes = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (bytes != 0) return bytes;
  bytes = read_huge_page_kb() * 1024;
  if (bytes == 0 || (bytes & (bytes - 1)) != 0) return getauxval(AT_PAGESZ);
  __atomic_store_n(&known, bytes, __ATOMIC_RELAXED);
  return bytes;
}

}  // namespace heapprof::sys
