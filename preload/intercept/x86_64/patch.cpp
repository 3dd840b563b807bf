#include "patch.h"

#include <Zydis/Decoder.h>
#include <sys/auxv.h>

#include "preload/intercept/x86_64/near_branches.h"
#include "preload/intercept/x86_64/patch_groups.h"
#include "preload/sys/kernel.h"
#include "preload/sys/own_mappings.h"
#include "preload/unwind/cfi.h"
#include "preload/unwind/stack_bounds.h"

extern "C" {
[[gnu::visibility("hidden")]] extern const char heapprof_intercept_entry[];
}

namespace heapprof::intercept {

namespace {

constexpr std::uint32_t kJumpBytes = 5;
/// Enough for a stub with its two words, and the displaced instructions, each at most 14 bytes after rewriting.
constexpr std::size_t kBytesPerFunction = 128;
constexpr std::size_t kPageBytes = 4096;
constexpr int kMapFixedNoReplace = 0x100000;  // MAP_FIXED_NOREPLACE, Linux 4.17
constexpr Refusal kNoMemoryNear = "no address range near its code is free";

/// Whether a 32-bit displacement reaches `to` from `from`.
bool reaches(std::uint64_t from, std::uint64_t to) noexcept {
  const auto distance = static_cast<std::int64_t>(to - from);
  return distance == static_cast<std::int32_t>(distance);
}

/// Appends code to an area. `failed`: the area is full, or a target is out of reach.
class CodeWriter {
 public:
  explicit CodeWriter(CodeArea& area) noexcept : area_(area) {}
  std::uint64_t here() const noexcept { return reinterpret_cast<std::uint64_t>(area_.begin) + area_.used; }
  void byte(unsigned value) noexcept {
    if (area_.used == area_.size) failed = true;
    else area_.begin[area_.used++] = static_cast<std::uint8_t>(value);
  }
  void bytes(const std::uint8_t* from, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) byte(from[i]);
  }
  void word(std::uint64_t value) noexcept {
    for (unsigned i = 0; i < 64; i += 8) byte(static_cast<unsigned>(value >> i & 0xff));
  }
  /// A 32-bit displacement to `target`, in an instruction that ends `bytes_after` bytes after it.
  void displacement(std::uint64_t target, std::size_t bytes_after = 0) noexcept {
    const std::uint64_t from = here() + 4 + bytes_after;
    if (!reaches(from, target)) failed = true;
    const auto distance = static_cast<std::uint32_t>(target - from);
    for (unsigned i = 0; i < 32; i += 8) byte(distance >> i & 0xff);
  }
  void jump(std::uint64_t target) noexcept {
    byte(0xe9);
    displacement(target);
  }

  bool failed = false;

 private:
  CodeArea& area_;
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

/// Whether execution never continues after the instruction: an unconditional jump or a return.
bool ends_flow(const ZydisDecodedInstruction& instruction) noexcept {
  return is_default(instruction, 0xe9) || is_default(instruction, 0xeb) || is_default(instruction, 0xc3) ||
         is_default(instruction, 0xc2) || (is_default(instruction, 0xff) && instruction.raw.modrm.reg == 4);
}

bool is_padding(const ZydisDecodedInstruction& instruction) noexcept {
  return is_default(instruction, 0x90) || is_default(instruction, 0xcc) ||
         (instruction.opcode_map == ZYDIS_OPCODE_MAP_0F && instruction.opcode == 0x1f);
}

/// Copies the instruction at `at`, rewritten so that it has the same effect at its new address. `resume` is the
/// address after the displaced instructions.
Refusal copy_instruction(CodeWriter& code, const ZydisDecodedInstruction& instruction, std::uint64_t at,
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
      code.displacement(target);
    } else if (instruction.opcode_map == ZYDIS_OPCODE_MAP_0F && instruction.opcode >= 0x80 &&
               instruction.opcode <= 0x8f) {
      code.byte(0x0f);
      code.byte(instruction.opcode);
      code.displacement(target);
    } else if (is_default(instruction, 0xe8) && at + instruction.length == resume) {
      // The callee must return into the function, because unwind information describes that address: push it, and
      // jump.
      std::uint64_t shadow_stack = 0;
      asm volatile("rdsspq %0" : "+r"(shadow_stack));
      if (shadow_stack != 0) return "its first instructions contain a call, and a hardware shadow stack is active";
      code.byte(0xff);  // push [rip + 5]
      code.byte(0x35);
      code.displacement(code.here() + 4 + 5);
      code.jump(target);
      code.word(resume);
    } else {
      return "its first instructions contain a branch that cannot be moved";
    }
    return nullptr;
  }
  if (is_default(instruction, 0xff) && (instruction.raw.modrm.reg == 2 || instruction.raw.modrm.reg == 3))
    return "its first instructions contain a call that cannot be moved";
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
  code.displacement(target, after);
  code.bytes(bytes + before + 4, after);
  return nullptr;
}

/// Whether `address` is after the first byte of the displaced instructions and before their end.
bool is_inside(const Patch& patch, std::uint64_t address) noexcept {
  return address - patch.address - 1 < patch.length - 1;
}

bool begins_with_endbr64(std::uint64_t address, std::uint64_t bytes_left) noexcept {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(address);
  return bytes_left > 4 && bytes[0] == 0xf3 && bytes[1] == 0x0f && bytes[2] == 0x1e && bytes[3] == 0xfa;
}

/// Finds the instructions that the jump overwrites, and stores their length in `patch`.
Refusal find_displaced(const unwind::Span& text, Patch& patch) noexcept {
  ZydisDecoder decoder;
  ZydisDecodedInstruction instruction;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  std::uint32_t length = 0;
  bool ended = false;
  while (length < kJumpBytes) {
    if (!decode(decoder, patch.address + length, text.end - patch.address - length, instruction))
      return "its first instructions cannot be decoded";
    // Padding after the function's end, up to the next aligned address, may be overwritten too.
    const std::uint64_t next = (patch.function_end + 15) & ~std::uint64_t{15};
    if (ended ? !is_padding(instruction) || patch.address + length + instruction.length > next
              : patch.address + length + instruction.length > patch.function_end)
      return "it is shorter than the jump that a patch needs";
    ended |= ends_flow(instruction);
    length += instruction.length;
  }
  patch.length = length;
  return nullptr;
}

/// Whether a branch with an 8-bit displacement to `to` may begin at `at`.
bool may_be_short_branch(std::uint64_t at, std::uint64_t& to) noexcept {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(at);
  if (bytes[0] != 0xeb && (bytes[0] & 0xf0) != 0x70 && (bytes[0] & 0xfc) != 0xe0) return false;
  to = at + 2 + static_cast<std::uint64_t>(std::int64_t{static_cast<std::int8_t>(bytes[1])});
  return true;
}

constexpr std::uint64_t kShortReach = 128;

/// Whether the function has bytes that branch into its own displaced instructions, if they are an instruction.
bool may_branch_into_itself(const Patch& patch) noexcept {
  bool found = false;
  find_near_branches(patch.address, patch.function_end, patch.address + 1, patch.address + patch.length,
                     [&](std::uint64_t, std::uint64_t) noexcept { found = true; });
  const std::uint64_t reached = patch.address + patch.length + kShortReach;
  const std::uint64_t end = reached < patch.function_end ? reached : patch.function_end;
  std::uint64_t to;
  for (std::uint64_t at = patch.address; at + 2 <= end && !found; ++at)
    found = may_be_short_branch(at, to) && is_inside(patch, to);
  return found;
}

/// Refuses a function that branches into its own displaced instructions. Few have bytes that may do so; only these
/// are decoded.
Refusal check_own_branches(const Patch& patch) noexcept {
  if (!may_branch_into_itself(patch)) return nullptr;
  ZydisDecoder decoder;
  ZydisDecodedInstruction instruction;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  for (std::uint64_t at = patch.address; at < patch.function_end; at += instruction.length) {
    if (!decode(decoder, at, patch.function_end - at, instruction))
      return "it contains instructions that the decoder does not know";
    if (is_relative(instruction) && is_inside(patch, branch_target(instruction, at)))
      return "it branches into its own first instructions";
  }
  return nullptr;
}

/// Writes the stub: push rbp; mov rbp, rsp; push [function]; jmp [trampoline]; then the two words that the last two
/// instructions read. Returns the stub's address.
std::uint64_t write_stub(CodeWriter& code, const PatchedFunction* function) noexcept {
  const std::uint64_t stub = code.here();
  const std::uint64_t words = stub + 16;
  code.byte(0x55);
  code.byte(0x48), code.byte(0x89), code.byte(0xe5);
  code.byte(0xff), code.byte(0x35), code.displacement(words);
  code.byte(0xff), code.byte(0x25), code.displacement(words + 8);
  code.word(reinterpret_cast<std::uint64_t>(function));
  code.word(reinterpret_cast<std::uint64_t>(&heapprof_intercept_entry));
  return stub;
}

Refusal copy_displaced(CodeWriter& code, const Patch& patch) noexcept {
  ZydisDecoder decoder;
  ZydisDecodedInstruction instruction;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  const std::uint64_t resume = patch.address + patch.length;
  bool falls_through = true;
  for (std::uint32_t at = 0; at < patch.length && falls_through; at += instruction.length) {
    decode(decoder, patch.address + at, patch.length - at, instruction);
    if (const Refusal refusal = copy_instruction(code, instruction, patch.address + at, resume)) return refusal;
    falls_through = !ends_flow(instruction) && !is_default(instruction, 0xe8);
  }
  if (falls_through) code.jump(resume);
  return nullptr;
}

/// The instructions of a function, decoded from its first to its last.
class DecodedFunction {
 public:
  explicit DecodedFunction(const unwind::Span& function) noexcept
      : function_(function), bytes_((function.end - function.begin + 7) / 8) {
    constexpr std::uint64_t kMaxBytes = 16u << 20;
    if (bytes_ <= sizeof small_) begins_ = small_;
    else if (function.end - function.begin <= kMaxBytes)
      begins_ = static_cast<std::uint8_t*>(sys::map_private(bytes_));
  }
  DecodedFunction(const DecodedFunction&) = delete;
  void operator=(const DecodedFunction&) = delete;
  ~DecodedFunction() {
    if (begins_ != nullptr && begins_ != small_) sys::unmap_private(begins_, bytes_);
  }

  /// Whether it is certain that the function does not branch into the displaced instructions. That requires that all
  /// of its instructions are known: the last one ends where the function ends, and no direct branch leads into the
  /// middle of an instruction.
  bool never_branches_into(const Patch& patch) noexcept {
    return begins_ != nullptr && for_each([&](const ZydisDecodedInstruction&, std::uint64_t at) noexcept {
             const std::uint64_t offset = at - function_.begin;
             begins_[offset / 8] = static_cast<std::uint8_t>(begins_[offset / 8] | 1u << offset % 8);
             return true;
           }) &&
           for_each([&](const ZydisDecodedInstruction& instruction, std::uint64_t at) noexcept {
             if (!is_relative(instruction)) return true;
             const std::uint64_t to = branch_target(instruction, at);
             return !is_inside(patch, to) && (!function_.contains(to) || is_begin(to));
           });
  }

 private:
  bool is_begin(std::uint64_t at) const noexcept {
    const std::uint64_t offset = at - function_.begin;
    return (begins_[offset / 8] >> offset % 8 & 1) != 0;
  }
  /// Returns false when `visit` does, or bytes cannot be decoded.
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
  std::uint8_t* begins_ = nullptr;  ///< a bit for each byte of the function
  std::uint8_t small_[256] = {};    ///< enough for most functions
};

/// Whether the bytes at `at`, which decode as a branch into the patch, are an instruction. kUnknown: no unwind
/// information describes the function that contains them.
enum class BranchCheck : std::uint8_t { kBranch, kNoBranch, kUnknown };

BranchCheck check_branch(const unwind::Span& text, const unwind::Span& image, std::uint64_t at,
                         const Patch& patch) noexcept {
  const unwind::Span whole_pages{image.begin & ~(kPageBytes - 1), image.end};
  unwind::Span function;
  // The image's addresses come from the file, which may have been replaced since it was loaded.
  if (!unwind::probe(whole_pages.begin) || !unwind::find_function(whole_pages, at, function) ||
      function.begin < text.begin || function.end > text.end)
    return BranchCheck::kUnknown;
  return DecodedFunction(function).never_branches_into(patch) ? BranchCheck::kNoBranch : BranchCheck::kBranch;
}

/// Whether a branch with an 8-bit displacement leads into the patch. Such bytes count only where unwind information
/// confirms a branch: compilers never use short branches into the middle of another function, and assembly that does
/// has a symbol there.
bool has_short_branch(const unwind::Span& text, const unwind::Span& image, const Patch& patch) noexcept {
  if (!text.contains(patch.address)) return false;
  const std::uint64_t begin = patch.address - text.begin < kShortReach ? text.begin : patch.address - kShortReach;
  const std::uint64_t end = text.end - patch.address < 2 * kShortReach ? text.end : patch.address + 2 * kShortReach;
  std::uint64_t to;
  for (std::uint64_t at = begin; at + 2 <= end; ++at)
    if (may_be_short_branch(at, to) && is_inside(patch, to) &&
        check_branch(text, image, at, patch) == BranchCheck::kBranch)
      return true;
  return false;
}

/// Excludes most addresses that are in none of many patches.
class PatchedBytes {
 public:
  PatchedBytes(const Patch* patches, std::size_t count) noexcept {
    for (const Patch* patch = patches; patch != patches + count; ++patch)
      for (std::uint64_t piece = patch->address / kPieceBytes;
           piece <= (patch->address + patch->length) / kPieceBytes; ++piece)
        bits_[piece / 64 % kWords] |= std::uint64_t{1} << piece % 64;
  }
  bool may_contain(std::uint64_t address) const noexcept {
    const std::uint64_t piece = address / kPieceBytes;
    return (bits_[piece / 64 % kWords] >> piece % 64 & 1) != 0;
  }

 private:
  static constexpr std::uint64_t kPieceBytes = 16;
  static constexpr std::size_t kWords = 64;
  std::uint64_t bits_[kWords] = {};
};

}  // namespace

Refusal map_code_area(CodeArea& area, std::uint64_t begin, std::uint64_t end, std::size_t functions) noexcept {
  const std::size_t size = (functions * kBytesPerFunction + kPageBytes - 1) & ~(kPageBytes - 1);
  constexpr std::uint64_t kStep = 64u << 10;
  constexpr std::uint64_t kMinAddress = 64u << 10;  // vm.mmap_min_addr
  constexpr std::uint64_t kReach = (std::uint64_t{1} << 31) - (16u << 20);
  begin &= ~(kPageBytes - 1);
  const std::uint64_t page_end = (end + kPageBytes - 1) & ~(kPageBytes - 1);
  const auto is_in_reach = [&](std::uint64_t at) noexcept {
    return at < begin ? end - at <= kReach : at + size - begin <= kReach;
  };
  const auto use = [&](void* memory) noexcept -> Refusal {
    sys::add_own_mapping(memory, size);
    area = {static_cast<std::uint8_t*>(memory), size, 0};
    return nullptr;
  };
  // The kernel's choice is near libraries, which it maps below each other.
  void* const chosen = sys::map(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!sys::failed(chosen)) {
    if (is_in_reach(reinterpret_cast<std::uint64_t>(chosen))) return use(chosen);
    sys::unmap(chosen, size);
  }
  // Addresses below the object are tried first, because the heap after a program grows upwards.
  std::uint64_t distance = kStep;
  for (unsigned i = 0; i < 400; ++i) {
    const bool below = i < 200;
    if (i == 200) distance = 256u << 20;
    const std::uint64_t at = below ? begin - size - distance : page_end + distance;
    distance += (i % 200) < 64 ? kStep : 8u << 20;
    if ((below && begin < size + distance + kMinAddress) || !is_in_reach(at)) continue;
    void* const hint = reinterpret_cast<void*>(at);
    void* const memory =
        sys::map(hint, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | kMapFixedNoReplace, -1, 0);
    if (sys::failed(memory)) continue;
    if (memory != hint) {  // older kernels ignore the flag
      sys::unmap(memory, size);
      continue;
    }
    return use(memory);
  }
  return kNoMemoryNear;
}

Refusal prepare_patch(CodeArea& area, const unwind::Span& text, std::uint64_t address, std::uint64_t size,
                      const PatchedFunction* function, Patch& patch) noexcept {
  if (!text.contains(address)) return "it is in another segment than the object's other functions";
  const std::uint64_t left = text.end - address;
  if (size > left) return "its symbol's size exceeds the code segment";
  patch.address = address + (begins_with_endbr64(address, left) ? 4 : 0);
  patch.function_begin = address;
  patch.function_end = address + (size != 0 ? size : left < 64 ? left : 64);
  if (const Refusal refusal = find_displaced(text, patch)) return refusal;
  if (size != 0)
    if (const Refusal refusal = check_own_branches(patch)) return refusal;

  const std::size_t used_before = area.used;
  CodeWriter code(area);
  const std::uint64_t stub = write_stub(code, function);
  patch.original = reinterpret_cast<const void*>(code.here());
  Refusal refusal = copy_displaced(code, patch);
  const std::uint64_t after_jump = patch.address + kJumpBytes;
  if (refusal == nullptr && (code.failed || !reaches(after_jump, stub))) refusal = kNoMemoryNear;
  if (refusal != nullptr) {
    area.used = used_before;
    return refusal;
  }
  area.used = (area.used + 15) & ~std::size_t{15};
  if (area.used > area.size) area.used = area.size;
  const auto distance = static_cast<std::uint32_t>(stub - after_jump);
  patch.jump[0] = 0xe9;
  __builtin_memcpy(patch.jump + 1, &distance, 4);
  return nullptr;
}

void find_branches_into(const Patch* patches, std::size_t count, const unwind::Span& text, const unwind::Span& image,
                        bool* refused) noexcept {
  std::uint64_t begin = text.begin;
  std::uint64_t end = text.end;
  if (count == 0 || end - begin < 16) return;
  const PatchGroups groups(count, [&](std::size_t i) noexcept {
    return AddressRange{patches[i].address, patches[i].address + patches[i].length};
  });
  const std::uint64_t low = groups.begin()->begin;
  const std::uint64_t high = groups.end()[-1].end;
  // In very large code, only the neighbourhood is searched: an allocator's functions are close together, and the rest
  // would have to be read from the disk first.
  constexpr std::uint64_t kNear = 16u << 20;
  if (low - begin > kNear && low > begin) begin = low - kNear;
  if (end > high && end - high > kNear) end = high + kNear;
  for (std::size_t i = 0; i < count; ++i) refused[i] = refused[i] || has_short_branch(text, image, patches[i]);
  const PatchedBytes patched(patches, count);
  for (const AddressRange& group : groups)
    find_near_branches(begin, end, group.begin, group.end, [&](std::uint64_t at, std::uint64_t to) noexcept {
      if (!patched.may_contain(to)) return;
      for (std::size_t i = 0; i < count; ++i)
        if (is_inside(patches[i], to) && !refused[i])
          refused[i] = check_branch(text, image, at, patches[i]) != BranchCheck::kNoBranch;
    });
}

Refusal make_executable(CodeArea& area) noexcept {
  const long result =
      sys::call(SYS_mprotect, sys::word(area.begin), static_cast<long>(area.size), PROT_READ | PROT_EXEC);
  return sys::failed(result) ? "the system denied executable memory" : nullptr;
}

Refusal reset(CodeArea& area) noexcept {
  area.used = 0;
  const long result =
      sys::call(SYS_mprotect, sys::word(area.begin), static_cast<long>(area.size), PROT_READ | PROT_WRITE);
  return sys::failed(result) ? "the system denied writing to its stubs" : nullptr;
}

Refusal apply_patch(const Patch& patch, int memory) noexcept {
  constexpr Refusal kUnwritable = "the system denied writing to its code";
  // A write to /proc/self/mem needs no change of the pages' protection.
  if (sys::failed(memory) ||
      sys::pwrite(memory, patch.jump, sizeof patch.jump, patch.address) != static_cast<long>(sizeof patch.jump)) {
    const std::uint64_t page = patch.address & ~(kPageBytes - 1);
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

}  // namespace heapprof::intercept
