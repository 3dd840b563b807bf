#include "patch.h"

#include <Zydis/Decoder.h>
#include <emmintrin.h>
#include <sys/auxv.h>
#include <sys/uio.h>

#include "preload/sys/kernel.h"

extern "C" {
[[gnu::visibility("hidden")]] extern const char heapprof_intercept_entry[];
}

namespace heapprof::arch {

namespace {

constexpr std::uint32_t kJumpBytes = 5;
/// A stub with its two words, and moved instructions: four at most, each rewritten to 14 bytes at most.
constexpr std::size_t kBytesPerFunction = 128;
constexpr std::size_t kPage = 4096;
constexpr int kMapFixedNoReplace = 0x100000;  // Linux 4.17

bool reaches(std::uint64_t from, std::uint64_t to) noexcept {
  const auto distance = static_cast<std::int64_t>(to - from);
  return distance == static_cast<std::int32_t>(distance);
}

/// Bytes written one after the other; `failed` when they did not fit or something was out of reach.
class Code {
 public:
  explicit Code(Room& room) noexcept : room_(room) {}
  std::uint64_t here() const noexcept { return reinterpret_cast<std::uint64_t>(room_.begin) + room_.used; }
  void byte(unsigned value) noexcept {
    if (room_.used == room_.size) failed = true;
    else room_.begin[room_.used++] = static_cast<std::uint8_t>(value);
  }
  void bytes(const std::uint8_t* from, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) byte(from[i]);
  }
  void word(std::uint64_t value) noexcept {
    for (unsigned i = 0; i < 64; i += 8) byte(static_cast<unsigned>(value >> i & 0xff));
  }
  /// A 32-bit displacement to `target`, counted from `rest` bytes after it.
  void relative(std::uint64_t target, std::size_t rest = 0) noexcept {
    const std::uint64_t from = here() + 4 + rest;
    if (!reaches(from, target)) failed = true;
    const auto distance = static_cast<std::uint32_t>(target - from);
    for (unsigned i = 0; i < 32; i += 8) byte(distance >> i & 0xff);
  }
  void jump(std::uint64_t target) noexcept {
    byte(0xe9);
    relative(target);
  }

  bool failed = false;

 private:
  Room& room_;
};

bool decode(const ZydisDecoder& decoder, std::uint64_t at, std::size_t bytes,
            ZydisDecodedInstruction& instruction) noexcept {
  return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, reinterpret_cast<const void*>(at),
                                                    bytes < 15 ? bytes : 15, &instruction));
}

bool is_relative(const ZydisDecodedInstruction& instruction) noexcept {
  return instruction.raw.imm[0].size != 0 && instruction.raw.imm[0].is_relative != 0;
}

std::uint64_t branch_target(const ZydisDecodedInstruction& instruction, std::uint64_t at) noexcept {
  return at + instruction.length + static_cast<std::uint64_t>(instruction.raw.imm[0].value.s);
}

bool is_default(const ZydisDecodedInstruction& instruction, unsigned opcode) noexcept {
  return instruction.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && instruction.opcode == opcode;
}

/// Nothing behind it is reached from it.
bool ends(const ZydisDecodedInstruction& instruction) noexcept {
  return is_default(instruction, 0xe9) || is_default(instruction, 0xeb) || is_default(instruction, 0xc3) ||
         is_default(instruction, 0xc2) || (is_default(instruction, 0xff) && instruction.raw.modrm.reg == 4);
}

bool is_padding(const ZydisDecodedInstruction& instruction) noexcept {
  return is_default(instruction, 0x90) || is_default(instruction, 0xcc) ||
         (instruction.opcode_map == ZYDIS_OPCODE_MAP_0F && instruction.opcode == 0x1f);
}

/// Writes the instruction so that it does at its new place what it did at `at`.
Refusal move(Code& code, const ZydisDecodedInstruction& instruction, std::uint64_t at,
             std::uint64_t resume) noexcept {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(at);
  if (is_relative(instruction)) {
    const std::uint64_t target = branch_target(instruction, at);
    if (is_default(instruction, 0xe9) || is_default(instruction, 0xeb)) {
      code.jump(target);
    } else if (instruction.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && instruction.opcode >= 0x70 &&
               instruction.opcode <= 0x7f) {
      code.byte(0x0f);
      code.byte(instruction.opcode + 0x10u);
      code.relative(target);
    } else if (instruction.opcode_map == ZYDIS_OPCODE_MAP_0F && instruction.opcode >= 0x80 &&
               instruction.opcode <= 0x8f) {
      code.byte(0x0f);
      code.byte(instruction.opcode);
      code.relative(target);
    } else if (is_default(instruction, 0xe8) && at + instruction.length == resume) {
      // The callee must return into the function, where unwinders know where they are: push that address and jump.
      std::uint64_t shadow_stack = 0;
      asm volatile("rdsspq %0" : "+r"(shadow_stack));
      if (shadow_stack != 0) return "its first instructions hold a call, and returns are guarded by a shadow stack";
      code.byte(0xff);  // push [rip + 5]
      code.byte(0x35);
      code.relative(code.here() + 4 + 5);
      code.jump(target);
      code.word(resume);
    } else {
      return "its first instructions hold a branch that cannot be moved";
    }
    return nullptr;
  }
  if (is_default(instruction, 0xff) && (instruction.raw.modrm.reg == 2 || instruction.raw.modrm.reg == 3))
    return "its first instructions hold a call that cannot be moved";
  const bool rip_relative = (instruction.attributes & ZYDIS_ATTRIB_HAS_MODRM) != 0 &&
                            instruction.raw.modrm.mod == 0 && instruction.raw.modrm.rm == 5 &&
                            instruction.raw.disp.size == 32;
  if (!rip_relative) {
    code.bytes(bytes, instruction.length);
    return nullptr;
  }
  const std::uint64_t target = at + instruction.length + static_cast<std::uint64_t>(instruction.raw.disp.value);
  const std::size_t before = instruction.raw.disp.offset;
  const std::size_t after = instruction.length - before - 4u;
  code.bytes(bytes, before);
  code.relative(target, after);
  code.bytes(bytes + before + 4, after);
  return nullptr;
}

bool inside(const Patch& patch, std::uint64_t address) noexcept {
  return address - patch.address - 1 < patch.length - 1;
}

/// What runs in a function: the instructions found by decoding it from its begin to its end, one behind the other.
class Instructions {
 public:
  explicit Instructions(const unwind::Span& function) noexcept
      : function_(function), bytes_((function.end - function.begin + 7) / 8) {
    constexpr std::uint64_t kLongest = 16u << 20;
    if (function.end - function.begin <= kLongest) begins_ = static_cast<std::uint8_t*>(sys::map_private(bytes_));
  }
  Instructions(const Instructions&) = delete;
  void operator=(const Instructions&) = delete;
  ~Instructions() {
    if (begins_ != nullptr) sys::unmap(begins_, bytes_);
  }

  /// All of them are known, as the last one ends where the function does and none branches into the middle of
  /// another; and none branches into the middle of the patch.
  bool stay_out_of(const Patch& patch) noexcept {
    return begins_ != nullptr && for_each([&](const ZydisDecodedInstruction&, std::uint64_t at) noexcept {
      const std::uint64_t offset = at - function_.begin;
      begins_[offset / 8] = static_cast<std::uint8_t>(begins_[offset / 8] | 1u << offset % 8);
      return true;
    }) && for_each([&](const ZydisDecodedInstruction& instruction, std::uint64_t at) noexcept {
      if (!is_relative(instruction)) return true;
      const std::uint64_t to = branch_target(instruction, at);
      return !inside(patch, to) && (!function_.contains(to) || is_begin(to));
    });
  }

 private:
  bool is_begin(std::uint64_t at) const noexcept {
    const std::uint64_t offset = at - function_.begin;
    return (begins_[offset / 8] >> offset % 8 & 1) != 0;
  }
  /// False when `visit` says so, or the bytes cannot be understood.
  template <typename Visit>
  bool for_each(Visit&& visit) const noexcept {
    ZydisDecoder decoder;
    ZydisDecodedInstruction instruction;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (std::uint64_t at = function_.begin; at != function_.end; at += instruction.length)
      if (!decode(decoder, at, function_.end - at, instruction) || !visit(instruction, at)) return false;
    return true;
  }

  const unwind::Span function_;
  const std::size_t bytes_;
  std::uint8_t* begins_ = nullptr;
};

/// The image is known from the file, which may have been replaced since it was loaded.
bool is_mapped(std::uint64_t at) noexcept {
  char byte;
  const iovec local{&byte, 1};
  const iovec remote{reinterpret_cast<void*>(at), 1};
  return sys::call(SYS_process_vm_readv, sys::process_id(), sys::word(&local), 1, sys::word(&remote), 1) == 1;
}

/// What the bytes at `at` are, which look like a branch into the patch or the end of one that has prefixes. Without
/// the code's unwind information nobody knows.
enum class Look : std::uint8_t { kBranch, kOther, kUnknown };

Look look_closer(const intercept::Symbols& object, std::uint64_t at, const Patch& patch) noexcept {
  const unwind::Span image{object.image_begin & ~(kPage - 1), object.image_end};
  unwind::Span function;
  if (!is_mapped(image.begin) || !unwind::find_function(image, at, function) ||
      function.begin < object.text_begin || function.end > object.text_end)
    return Look::kUnknown;
  return Instructions(function).stay_out_of(patch) ? Look::kOther : Look::kBranch;
}

/// Short branches that lead into the middle of the patch.
bool has_short_branch(const intercept::Symbols& object, const Patch& patch) noexcept {
  constexpr std::uint64_t kReach = 128;
  const unwind::Span text{object.text_begin, object.text_end};
  if (!text.contains(patch.address)) return false;
  const std::uint64_t begin = patch.address - text.begin < kReach ? text.begin : patch.address - kReach;
  const std::uint64_t end = text.end - patch.address < 2 * kReach ? text.end : patch.address + 2 * kReach;
  for (std::uint64_t at = begin; at + 2 <= end; ++at) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(at);
    if (bytes[0] != 0xeb && (bytes[0] & 0xf0) != 0x70 && (bytes[0] & 0xfc) != 0xe0) continue;
    const auto distance = static_cast<std::int8_t>(bytes[1]);
    if (inside(patch, at + 2 + static_cast<std::uint64_t>(std::int64_t{distance})) &&
        look_closer(object, at, patch) == Look::kBranch)
      return true;
  }
  return false;
}

}  // namespace

Refusal make_room(Room& room, std::uint64_t begin, std::uint64_t end, std::size_t functions) noexcept {
  const std::size_t size = (functions * kBytesPerFunction + kPage - 1) & ~(kPage - 1);
  constexpr std::uint64_t kStep = 64u << 10;
  constexpr std::uint64_t kLowest = 64u << 10;  // vm.mmap_min_addr
  constexpr std::uint64_t kReach = (std::uint64_t{1} << 31) - (16u << 20);
  begin &= ~(kPage - 1);
  // Below the object first: behind a program lies its heap, which grows.
  std::uint64_t distance = kStep;
  for (unsigned i = 0; i < 400; ++i) {
    const bool below = i < 200;
    if (i == 200) distance = 256u << 20;
    const std::uint64_t at = below ? begin - size - distance : ((end + kPage - 1) & ~(kPage - 1)) + distance;
    distance += (i % 200) < 64 ? kStep : 8u << 20;
    if ((below && (begin < size + distance + kLowest || end - at > kReach)) || (!below && at + size - begin > kReach))
      continue;
    void* const hint = reinterpret_cast<void*>(at);
    void* const memory =
        sys::map(hint, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | kMapFixedNoReplace, -1, 0);
    if (sys::failed(memory)) continue;
    if (memory != hint) {  // a kernel that does not know the flag takes it for a hint
      sys::unmap(memory, size);
      continue;
    }
    room = {static_cast<std::uint8_t*>(memory), size, 0};
    return nullptr;
  }
  return "there is no free memory near its code";
}

Refusal prepare(Room& room, const unwind::Span& text, std::uint64_t address, std::uint64_t size,
                intercept::Target& target, Patch& patch) noexcept {
  if (!text.contains(address)) return "it lies in another segment than other functions";
  const std::uint64_t left = text.end - address;
  if (size > left) return "it would end behind the code, going by its size";
  ZydisDecoder decoder;
  ZydisDecodedInstruction instruction;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(address);
  const bool marked =  // endbr64
      left > 4 && bytes[0] == 0xf3 && bytes[1] == 0x0f && bytes[2] == 0x1e && bytes[3] == 0xfa;
  patch.address = address + (marked ? 4 : 0);
  const std::uint64_t end = address + (size != 0 ? size : left < 64 ? left : 64);

  // How many bytes.
  std::uint32_t length = 0;
  bool ended = false;
  while (length < kJumpBytes) {
    if (!decode(decoder, patch.address + length, text.end - patch.address - length, instruction))
      return "its first instructions cannot be decoded";
    // Behind the function's end there may be padding, to where the next one can begin.
    const std::uint64_t next = (end + 15) & ~std::uint64_t{15};
    if (ended ? !is_padding(instruction) || patch.address + length + instruction.length > next
              : patch.address + length + instruction.length > end)
      return "it is shorter than the jump that would be put there";
    ended |= ends(instruction);
    length += instruction.length;
  }
  patch.length = length;

  // No branch of its own into them.
  for (std::uint64_t at = patch.address; size != 0 && at < end; at += instruction.length) {
    if (!decode(decoder, at, end - at, instruction)) return "it holds instructions that the decoder does not know";
    if (is_relative(instruction) && inside(patch, branch_target(instruction, at)))
      return "it branches into its own first instructions";
  }

  const std::size_t used = room.used;
  Code code(room);
  const std::uint64_t resume = patch.address + length;
  // The stub: push rbp; mov rbp, rsp; push [target]; jmp [entry].
  const std::uint64_t stub = code.here();
  const std::uint64_t words = stub + 16;
  code.byte(0x55);
  code.byte(0x48), code.byte(0x89), code.byte(0xe5);
  code.byte(0xff), code.byte(0x35), code.relative(words);
  code.byte(0xff), code.byte(0x25), code.relative(words + 8);
  code.word(reinterpret_cast<std::uint64_t>(&target));
  code.word(reinterpret_cast<std::uint64_t>(&heapprof_intercept_entry));
  // The moved instructions.
  target.original = reinterpret_cast<const void*>(code.here());
  target.begin = address;
  target.end = end;
  Refusal refusal = nullptr;
  bool falls_through = true;
  for (std::uint32_t at = 0; at < length && falls_through && refusal == nullptr; at += instruction.length) {
    decode(decoder, patch.address + at, length - at, instruction);
    refusal = move(code, instruction, patch.address + at, resume);
    falls_through = !ends(instruction) && !is_default(instruction, 0xe8);
  }
  if (falls_through) code.jump(resume);
  const std::uint64_t after_jump = patch.address + kJumpBytes;
  if (refusal == nullptr && (code.failed || !reaches(after_jump, stub)))
    refusal = "there is no free memory near its code";
  if (refusal != nullptr) {
    room.used = used;
    return refusal;
  }
  room.used = (room.used + 15) & ~std::size_t{15};
  if (room.used > room.size) room.used = room.size;
  const auto distance = static_cast<std::uint32_t>(stub - after_jump);
  patch.jump[0] = 0xe9;
  __builtin_memcpy(patch.jump + 1, &distance, 4);
  return nullptr;
}

void find_branches(const intercept::Symbols& object, const Patch* patches, std::size_t count,
                   bool* refused) noexcept {
  std::uint64_t begin = object.text_begin;
  std::uint64_t end = object.text_end;
  if (count == 0 || end - begin < 16) return;
  std::uint64_t low = UINT64_MAX;
  std::uint64_t high = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (patches[i].address < low) low = patches[i].address;
    if (patches[i].address + patches[i].length > high) high = patches[i].address + patches[i].length;
  }
  // Very large code is looked at where it is near: an allocator's functions stand together, and the rest would have
  // to be read from the disk first.
  constexpr std::uint64_t kNear = 16u << 20;
  if (low - begin > kNear && low > begin) begin = low - kNear;
  if (end > high && end - high > kNear) end = high + kNear;
  for (std::size_t i = 0; i < count; ++i) refused[i] = refused[i] || has_short_branch(object, patches[i]);
  const auto look_at = [&](std::uint64_t at) noexcept {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(at);
    std::uint64_t place = at + 1;
    if (bytes[0] == 0x0f && (bytes[1] & 0xf0) == 0x80) ++place;
    else if (bytes[0] != 0xe8 && bytes[0] != 0xe9) return;
    std::int32_t distance;
    __builtin_memcpy(&distance, reinterpret_cast<const void*>(place), 4);
    const std::uint64_t to = place + 4 + static_cast<std::uint64_t>(static_cast<std::int64_t>(distance));
    if (to - low >= high - low) return;
    for (std::size_t i = 0; i < count; ++i)
      if (inside(patches[i], to) && !refused[i]) refused[i] = look_closer(object, at, patches[i]) != Look::kOther;
  };
  // Sixteen bytes at a time: most begin no branch, and libc has a million and a half.
  const __m128i call = _mm_set1_epi8(static_cast<char>(0xe8));
  const __m128i jump = _mm_set1_epi8(static_cast<char>(0xe9));
  const __m128i conditional = _mm_set1_epi8(0x0f);
  std::uint64_t at = begin;
  for (; at + 16 + 6 <= end; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i found = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, call), _mm_cmpeq_epi8(bytes, jump)),
                                       _mm_cmpeq_epi8(bytes, conditional));
    for (auto mask = static_cast<unsigned>(_mm_movemask_epi8(found)); mask != 0; mask &= mask - 1)
      look_at(at + static_cast<unsigned>(__builtin_ctz(mask)));
  }
  for (; at + 6 <= end; ++at) look_at(at);
}

Refusal seal(Room& room) noexcept {
  const long result =
      sys::call(SYS_mprotect, sys::word(room.begin), static_cast<long>(room.size), PROT_READ | PROT_EXEC);
  return sys::failed(result) ? "memory cannot be made executable here" : nullptr;
}

Refusal unseal(Room& room) noexcept {
  room.used = 0;
  const long result =
      sys::call(SYS_mprotect, sys::word(room.begin), static_cast<long>(room.size), PROT_READ | PROT_WRITE);
  return sys::failed(result) ? "memory cannot be made writable here" : nullptr;
}

Refusal apply(const Patch& patch) noexcept {
  constexpr Refusal kUnwritable = "its code cannot be written";
  // By the kernel, which writes where a debugger may: the pages' protection is left as it is.
  const int fd = sys::open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  bool written = false;
  if (!sys::failed(fd)) {
    written = sys::pwrite(fd, patch.jump, sizeof patch.jump, patch.address) == static_cast<long>(sizeof patch.jump);
    sys::close(fd);
  }
  if (!written) {
    const std::uint64_t page = patch.address & ~(kPage - 1);
    const auto bytes = static_cast<long>(patch.address + sizeof patch.jump - page);
    if (sys::failed(sys::call(SYS_mprotect, static_cast<long>(page), bytes, PROT_READ | PROT_WRITE | PROT_EXEC)))
      return kUnwritable;
    __builtin_memcpy(reinterpret_cast<void*>(patch.address), patch.jump, sizeof patch.jump);
    sys::call(SYS_mprotect, static_cast<long>(page), bytes, PROT_READ | PROT_EXEC);
  }
  return __builtin_memcmp(reinterpret_cast<const void*>(patch.address), patch.jump, sizeof patch.jump) == 0
             ? nullptr
             : kUnwritable;
}

}  // namespace heapprof::arch
