// Replacements of libc's memory functions, for this library only. They use general registers only: a patched
// function's caller may keep values in any vector register, and libc's versions use the widest ones that the
// processor has. Saving those around every call would cost more than recording it. The recorder rarely copies:
// names, tables that grow, the last literals of a compressed block.
#include <cstddef>
#include <cstdint>

extern "C" {

[[gnu::visibility("hidden")]] void* memcpy(void* to, const void* from, std::size_t bytes) noexcept {
  void* at = to;
  asm volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(bytes) : : "memory");
  return to;
}

[[gnu::visibility("hidden")]] void* memmove(void* to, const void* from, std::size_t bytes) noexcept {
  const auto* in = static_cast<const std::uint8_t*>(from);
  auto* out = static_cast<std::uint8_t*>(to);
  if (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from) >= bytes)
    return memcpy(to, from, bytes);
  while (bytes >= 8) {
    bytes -= 8;
    std::uint64_t word;
    __builtin_memcpy(&word, in + bytes, 8);
    __builtin_memcpy(out + bytes, &word, 8);
  }
  while (bytes != 0) --bytes, out[bytes] = in[bytes];
  return to;
}

[[gnu::visibility("hidden")]] void* memset(void* to, int value, std::size_t bytes) noexcept {
  void* at = to;
  asm volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
  return to;
}

[[gnu::visibility("hidden")]] int memcmp(const void* a, const void* b, std::size_t bytes) noexcept {
  const auto* left = static_cast<const std::uint8_t*>(a);
  const auto* right = static_cast<const std::uint8_t*>(b);
  for (; bytes != 0; --bytes, ++left, ++right)
    if (*left != *right) return *left - *right;
  return 0;
}

[[gnu::visibility("hidden")]] std::size_t strlen(const char* text) noexcept {
  const char* at = text;
  while (*at != '\0') ++at;
  return static_cast<std::size_t>(at - text);
}
}
