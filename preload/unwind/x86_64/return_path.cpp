// Follows all paths from a program counter, breadth first: jumps are followed, branches continue both ways, calls are
// stepped over. A path ends at a return, at a jump out of the function through a pointer in memory (a PLT entry), at
// a call that never returns, and where the code has been followed already.
#include "preload/unwind/return_path.h"

#include <Zydis/Decoder.h>

#include "preload/sys/kernel.h"

namespace heapprof::unwind {

namespace {

constexpr std::uint32_t kMaxInstructions = 8192;
constexpr std::size_t kMaxPaths = 512;
/// Enough returns: the rest of a large function need not be followed.
constexpr std::uint32_t kEnoughVotes = 8;
constexpr std::size_t kMaxResults = 4;
constexpr unsigned kRsp = 4, kRbp = 5;
constexpr unsigned kNoRegister = 16;

/// What an address is relative to: the values of registers at the program counter where the search begins.
enum class Base : std::uint8_t { kSp, kFp, kUnknown };

struct Location {
  Base base = Base::kSp;
  std::int32_t offset = 0;
  bool operator==(const Location&) const = default;
};

/// The registers on a path, as far as they are needed.
struct Path {
  std::uint64_t pc = 0;
  Location sp;
  enum class Fp : std::uint8_t {
    kUnchanged,
    kLoaded,     ///< from fp_slot, where the function had saved it
    kIsAddress,  ///< the address fp_slot: the function has set up its frame on this path
    kUnknown,
  };
  Fp fp = Fp::kUnchanged;
  Location fp_slot;
  /// Where this path has stored the frame register, and what it was then: a function that begins on this path saves
  /// it, also one to which the path jumps at its end.
  bool stored = false;
  Location stored_at;
  Fp stored_fp = Fp::kUnchanged;
  Location stored_fp_slot;
};

enum class Flow : std::uint8_t { kNext, kJump, kBranch, kReturn, kNeverReturns, kLost };

struct Work {
  ZydisDecoder decoder;
  ZydisDecodedInstruction instruction;
  Path paths[kMaxPaths];
  std::size_t path_count;
  ReturnPath results[kMaxResults];
  std::uint32_t votes[kMaxResults];
  std::size_t result_count;
  std::uint32_t all_votes;
  bool never_returns;
};

/// Distances stay far below what 32 bits hold, also in damaged code.
bool is_small(std::int64_t bytes) noexcept { return bytes > -(1 << 24) && bytes < 1 << 24; }

void move(Location& location, std::int64_t bytes) noexcept {
  if (!is_small(bytes) || !is_small(location.offset + bytes)) location.base = Base::kUnknown;
  else location.offset += static_cast<std::int32_t>(bytes);
}

// The fields of an instruction.

bool has_modrm(const ZydisDecodedInstruction& code) noexcept {
  return (code.attributes & ZYDIS_ATTRIB_HAS_MODRM) != 0;
}
unsigned reg_of(const ZydisDecodedInstruction& code) noexcept { return code.raw.modrm.reg | code.raw.rex.R << 3; }
/// The register that ModRM's second operand is; kNoRegister: memory.
unsigned rm_of(const ZydisDecodedInstruction& code) noexcept {
  return code.raw.modrm.mod == 3 ? code.raw.modrm.rm | unsigned{code.raw.rex.B} << 3 : kNoRegister;
}
/// The register of the address disp(register), without an index; kNoRegister: another address.
unsigned address_register(const ZydisDecodedInstruction& code) noexcept {
  if (code.raw.modrm.mod == 3) return kNoRegister;
  if (code.raw.modrm.rm == 4) {
    if (code.raw.sib.index != 4 || code.raw.rex.X != 0 || (code.raw.sib.base == 5 && code.raw.modrm.mod == 0))
      return kNoRegister;
    return code.raw.sib.base | unsigned{code.raw.rex.B} << 3;
  }
  if (code.raw.modrm.rm == 5 && code.raw.modrm.mod == 0) return kNoRegister;  // relative to rip
  return code.raw.modrm.rm | unsigned{code.raw.rex.B} << 3;
}

/// The address in the frame register.
Location fp_value(const Path& path) noexcept {
  switch (path.fp) {
    case Path::Fp::kUnchanged: return {Base::kFp, 0};
    case Path::Fp::kIsAddress: return path.fp_slot;
    default: return {Base::kUnknown, 0};
  }
}

/// The frame register is stored to the stack. Calls are not followed, so one store counts at a time.
void store_fp(Path& path, Location to) noexcept {
  if (path.stored) return;
  path.stored = true;
  path.stored_at = to;
  path.stored_fp = path.fp;
  path.stored_fp_slot = path.fp_slot;
}

/// The frame register is loaded from the stack.
void load_fp(Path& path, Location from) noexcept {
  if (from.base == Base::kUnknown) {
    path.fp = Path::Fp::kUnknown;
  } else if (path.stored && from == path.stored_at) {
    path.fp = path.stored_fp;
    path.fp_slot = path.stored_fp_slot;
    path.stored = false;
  } else {
    path.fp = Path::Fp::kLoaded;
    path.fp_slot = from;
  }
}

/// add and sub with a constant, mov, lea, and all else that changes the stack pointer or the frame register by ModRM.
void apply_modrm(Path& path, const ZydisDecodedInstruction& code) noexcept {
  const unsigned reg = reg_of(code), rm = rm_of(code);
  switch (code.opcode) {
    case 0x81:
    case 0x83:
      if (rm != kRsp || code.raw.modrm.reg == 7) return;  // 7: cmp
      if (code.raw.modrm.reg == 0) move(path.sp, code.raw.imm[0].value.s);
      else if (code.raw.modrm.reg == 5) move(path.sp, -code.raw.imm[0].value.s);
      else path.sp.base = Base::kUnknown;
      return;
    case 0x89:
      if (rm == kRsp) path.sp = reg == kRbp ? fp_value(path) : Location{Base::kUnknown, 0};
      if (rm == kRbp && reg == kRsp) {
        path.fp = Path::Fp::kIsAddress;
        path.fp_slot = path.sp;
      }
      if (reg == kRbp && address_register(code) == kRsp) {
        Location to = path.sp;
        move(to, code.raw.disp.value);
        store_fp(path, to);
      }
      return;
    case 0x8b:
      if (reg == kRsp) path.sp = rm == kRbp ? fp_value(path) : Location{Base::kUnknown, 0};
      if (reg == kRbp && rm == kRsp) {
        path.fp = Path::Fp::kIsAddress;
        path.fp_slot = path.sp;
      }
      if (reg == kRbp && address_register(code) == kRsp) {
        Location from = path.sp;
        move(from, code.raw.disp.value);
        load_fp(path, from);
      }
      return;
    case 0x8d: {
      if (reg != kRsp) return;
      const unsigned base = address_register(code);
      Location value = base == kRsp ? path.sp : base == kRbp ? fp_value(path) : Location{Base::kUnknown, 0};
      move(value, code.raw.disp.value);
      path.sp = value;
      return;
    }
    // Other arithmetic, and xchg, with the result in rm or in reg.
    case 0x01:
    case 0x09:
    case 0x11:
    case 0x19:
    case 0x21:
    case 0x29:
    case 0x31:
    case 0x87:
      if (rm == kRsp) path.sp.base = Base::kUnknown;
      return;
    case 0x03:
    case 0x0b:
    case 0x13:
    case 0x1b:
    case 0x23:
    case 0x2b:
    case 0x33:
      if (reg == kRsp) path.sp.base = Base::kUnknown;
      return;
    default: return;
  }
}

bool never_returns(const FollowedCode& code, std::uint64_t target) noexcept {
  for (std::size_t i = 0; i < code.functions; ++i)
    if (code.never_return[i] == target) return true;
  return false;
}

/// Applies the instruction to the path. `target`: of a jump, a branch or a direct call.
Flow apply(Path& path, const ZydisDecodedInstruction& code, const FollowedCode& followed,
           std::uint64_t target) noexcept {
  if (code.opcode_map == ZYDIS_OPCODE_MAP_0F) {
    if (code.opcode >= 0x80 && code.opcode <= 0x8f) return Flow::kBranch;
    return code.opcode == 0x0b ? Flow::kNeverReturns : Flow::kNext;  // ud2
  }
  if (code.opcode_map != ZYDIS_OPCODE_MAP_DEFAULT) return Flow::kNext;
  const unsigned register_in_opcode = (code.opcode & 7) | unsigned{code.raw.rex.B} << 3;
  if (code.opcode >= 0x50 && code.opcode <= 0x57) {  // push
    move(path.sp, -8);
    if (register_in_opcode == kRbp) store_fp(path, path.sp);
    return Flow::kNext;
  }
  if (code.opcode >= 0x58 && code.opcode <= 0x5f) {  // pop
    if (register_in_opcode == kRbp) load_fp(path, path.sp);
    move(path.sp, 8);
    return register_in_opcode == kRsp ? Flow::kLost : Flow::kNext;
  }
  if (code.opcode >= 0x70 && code.opcode <= 0x7f) return Flow::kBranch;
  switch (code.opcode) {
    case 0x68:  // push constant
    case 0x6a:
    case 0x9c: move(path.sp, -8); return Flow::kNext;  // pushf
    case 0x8f:                                         // pop to memory
    case 0x9d: move(path.sp, 8); return Flow::kNext;   // popf
    case 0xc2:
    case 0xc3: return Flow::kReturn;
    case 0xc9:  // leave
      path.sp = fp_value(path);
      load_fp(path, path.sp);
      move(path.sp, 8);
      return Flow::kNext;
    case 0xe8: return never_returns(followed, target) ? Flow::kNeverReturns : Flow::kNext;
    case 0xe9:
    case 0xeb: return never_returns(followed, target) ? Flow::kNeverReturns : Flow::kJump;
    case 0xe0:
    case 0xe1:
    case 0xe2:
    case 0xe3: return Flow::kBranch;  // loop, jrcxz
    case 0xcc:
    case 0xf4: return Flow::kNeverReturns;  // int3, hlt
    case 0xff:
      if (code.raw.modrm.reg == 6) move(path.sp, -8);  // push
      if (code.raw.modrm.reg != 4) return Flow::kNext;
      // A jump through a pointer beside the code leaves the function as a return does; another one is a table's.
      return code.raw.modrm.mod == 0 && code.raw.modrm.rm == 5 ? Flow::kReturn : Flow::kLost;
    default:
      if (has_modrm(code)) apply_modrm(path, code);
      return Flow::kNext;
  }
}

void add_path(Work& work, const FollowedCode& code, Path path, std::uint64_t pc) noexcept {
  if (!code.text.contains(pc) || work.path_count == kMaxPaths) return;
  for (std::size_t i = 0; i < work.path_count; ++i)
    if (work.paths[i].pc == pc) return;
  path.pc = pc;
  work.paths[work.path_count++] = path;
}

/// `path` has arrived at a return.
void add_result(Work& work, const Path& path) noexcept {
  ReturnPath result;
  result.end = ReturnPath::End::kReturns;
  result.from_fp = path.sp.base == Base::kFp;
  result.cfa_offset = path.sp.offset + 8;
  result.fp_saved = path.fp == Path::Fp::kLoaded;
  // With a frame register, the return address is behind the register's saved value, at the register.
  const bool valid = path.sp.base != Base::kUnknown && path.sp.offset >= (result.from_fp ? 8 : 0) &&
                     (path.fp == Path::Fp::kUnchanged || path.fp == Path::Fp::kLoaded) &&
                     (!result.fp_saved || path.fp_slot.base == path.sp.base) && (!result.from_fp || result.fp_saved);
  if (!valid) return;
  if (result.fp_saved) result.fp_offset = path.fp_slot.offset - result.cfa_offset;
  if (result.fp_offset > 0) return;
  std::size_t i = 0;
  while (i < work.result_count && !(work.results[i] == result)) ++i;
  if (i == kMaxResults) return;
  if (i == work.result_count) {
    work.results[work.result_count++] = result;
    work.votes[i] = 0;
  }
  ++work.votes[i];
  ++work.all_votes;
}

void follow(Work& work, const FollowedCode& code, std::uint64_t pc) noexcept {
  ZydisDecoderInit(&work.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  add_path(work, code, {}, pc);
  std::uint32_t left = kMaxInstructions;
  for (std::size_t i = 0; i < work.path_count; ++i) {
    Path path = work.paths[i];
    Flow flow = Flow::kNext;
    while (flow == Flow::kNext || flow == Flow::kBranch) {
      const std::uint64_t at = path.pc;
      const std::uint64_t room = code.text.end - at;
      if (left-- == 0 || !code.text.contains(at) ||
          !ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&work.decoder, nullptr, reinterpret_cast<const void*>(at),
                                                      room < 15 ? room : 15, &work.instruction)))
        break;
      path.pc = at + work.instruction.length;
      const std::uint64_t target = path.pc + static_cast<std::uint64_t>(work.instruction.raw.imm[0].value.s);
      flow = apply(path, work.instruction, code, target);
      if (flow == Flow::kJump || flow == Flow::kBranch) add_path(work, code, path, target);
    }
    if (flow == Flow::kReturn) add_result(work, path);
    if (flow == Flow::kNeverReturns) work.never_returns = true;
    if (left == ~std::uint32_t{0} || work.all_votes == kEnoughVotes) return;
  }
}

/// The function that the instruction before `pc` calls directly; 0: it does not.
std::uint64_t called_before(const FollowedCode& code, std::uint64_t pc) noexcept {
  constexpr std::uint64_t kCallBytes = 5;
  if (!code.text.contains(pc - kCallBytes)) return 0;
  const auto* call = reinterpret_cast<const std::uint8_t*>(pc - kCallBytes);
  std::int32_t distance;
  __builtin_memcpy(&distance, call + 1, sizeof distance);
  return call[0] == 0xe8 ? pc + static_cast<std::uint64_t>(std::int64_t{distance}) : 0;
}

}  // namespace

ReturnPath find_return_path(const FollowedCode& code, std::uint64_t pc) noexcept {
  ReturnPath best;
  // What follows a call that never returns is another function.
  if (const std::uint64_t called = called_before(code, pc); called != 0 && never_returns(code, called)) {
    for (std::size_t i = 0; i < code.ending_functions; ++i)
      if (code.never_return[i] == called) best.end = ReturnPath::End::kNeverReturns;
    return best;
  }
  if (!code.text.contains(pc)) return best;
  auto* const work = static_cast<Work*>(sys::map_private(sizeof(Work)));
  if (work == nullptr) return best;
  follow(*work, code, pc);
  std::uint32_t votes = 0;
  for (std::size_t i = 0; i < work->result_count; ++i) {
    if (work->votes[i] <= votes) continue;
    best = work->results[i];
    votes = work->votes[i];
  }
  if (votes == 0 && work->never_returns) best.end = ReturnPath::End::kNeverReturns;
  sys::unmap_private(work, sizeof(Work));
  return best;
}

}  // namespace heapprof::unwind
