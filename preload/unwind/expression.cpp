#include "preload/unwind/expression.h"

#include "preload/unwind/dwarf.h"

namespace heapprof::unwind {

namespace {

constexpr unsigned kStackSize = 32;
constexpr unsigned kMaxOperations = 1000;

/// How many operands an operation takes from the stack.
constexpr unsigned operands(std::uint8_t op) noexcept {
  switch (op) {
    case DW_OP_deref:
    case DW_OP_deref_size:
    case DW_OP_dup:
    case DW_OP_drop:
    case DW_OP_abs:
    case DW_OP_neg:
    case DW_OP_not:
    case DW_OP_plus_uconst:
    case DW_OP_bra: return 1;
    case DW_OP_over:
    case DW_OP_swap: return 2;
    case DW_OP_rot: return 3;
    default: return op >= DW_OP_and && op <= DW_OP_ne ? 2 : 0;
  }
}

/// Runs the expression at `distance` in `row` on a stack of values. The type of the values depends on Domain, which
/// is either Numbers or Formulas. Each operation of Domain returns false if it is not possible:
///   bool constant(uint64_t, Value&)                the number
///   bool from_register(unsigned, int64_t, Value&)  a register plus an offset
///   bool load(Value&, unsigned bytes)              the memory at the value
///   bool unary(op, Value&), bool binary(op, Value& left, Value right)
///   bool truth(Value, bool&)                       whether the value is not 0
template <typename Domain, unsigned kStack>
bool run(const CfiRow& row, std::int64_t distance, Domain& domain, const typename Domain::Value* initial,
         typename Domain::Value& result) noexcept {
  using Value = typename Domain::Value;
  CfiReader header({row.expressions + static_cast<std::uint64_t>(distance), row.bounds.end});
  const std::uint64_t bytes = header.uleb();
  const std::uint64_t begin = header.at();
  header.skip(bytes);
  if (!header.ok()) return false;
  const Span code{begin, begin + bytes};

  Value stack[kStack];
  unsigned size = 0;
  if (initial != nullptr) stack[size++] = *initial;
  CfiReader reader(code);
  for (unsigned count = 0; reader.more(); ++count) {
    if (count == kMaxOperations || size + 1 >= kStack) return false;
    const auto op = reader.take<std::uint8_t>();
    Value* const top = stack + size;  // the first free entry
    bool done = true;
    const auto push = [&](std::uint64_t number) noexcept {
      done = domain.constant(number, *top);
      ++size;
    };
    if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
      push(static_cast<unsigned>(op - DW_OP_lit0));
    } else if (op >= DW_OP_breg0 && op <= DW_OP_breg31) {
      done = domain.from_register(static_cast<unsigned>(op - DW_OP_breg0), reader.sleb(), *top);
      ++size;
    } else {
      if (size < operands(op)) return false;
      switch (op) {
        case DW_OP_addr: push(reader.take<std::uint64_t>()); break;
        case DW_OP_const1u: push(reader.take<std::uint8_t>()); break;
        case DW_OP_const1s: push(static_cast<std::uint64_t>(std::int64_t{reader.take<std::int8_t>()})); break;
        case DW_OP_const2u: push(reader.take<std::uint16_t>()); break;
        case DW_OP_const2s: push(static_cast<std::uint64_t>(std::int64_t{reader.take<std::int16_t>()})); break;
        case DW_OP_const4u: push(reader.take<std::uint32_t>()); break;
        case DW_OP_const4s: push(static_cast<std::uint64_t>(std::int64_t{reader.take<std::int32_t>()})); break;
        case DW_OP_const8u:
        case DW_OP_const8s: push(reader.take<std::uint64_t>()); break;
        case DW_OP_constu: push(reader.uleb()); break;
        case DW_OP_consts: push(static_cast<std::uint64_t>(reader.sleb())); break;
        case DW_OP_deref: done = domain.load(top[-1], 8); break;
        case DW_OP_deref_size: done = domain.load(top[-1], reader.take<std::uint8_t>()); break;
        case DW_OP_dup:
          *top = top[-1];
          ++size;
          break;
        case DW_OP_drop: --size; break;
        case DW_OP_over:
          *top = top[-2];
          ++size;
          break;
        case DW_OP_pick: {
          const unsigned index = reader.take<std::uint8_t>();
          if (index >= size) return false;
          *top = top[-1 - static_cast<int>(index)];
          ++size;
          break;
        }
        case DW_OP_swap: {
          const Value value = top[-1];
          top[-1] = top[-2];
          top[-2] = value;
          break;
        }
        case DW_OP_rot: {
          const Value value = top[-1];
          top[-1] = top[-2];
          top[-2] = top[-3];
          top[-3] = value;
          break;
        }
        case DW_OP_abs:
        case DW_OP_neg:
        case DW_OP_not: done = domain.unary(op, top[-1]); break;
        case DW_OP_and:
        case DW_OP_div:
        case DW_OP_minus:
        case DW_OP_mod:
        case DW_OP_mul:
        case DW_OP_or:
        case DW_OP_plus:
        case DW_OP_shl:
        case DW_OP_shr:
        case DW_OP_shra:
        case DW_OP_xor:
        case DW_OP_eq:
        case DW_OP_ge:
        case DW_OP_gt:
        case DW_OP_le:
        case DW_OP_lt:
        case DW_OP_ne:
          done = domain.binary(op, top[-2], top[-1]);
          --size;
          break;
        case DW_OP_plus_uconst: {
          Value value;
          done = domain.constant(reader.uleb(), value) && domain.binary(DW_OP_plus, top[-1], value);
          break;
        }
        case DW_OP_bra:
        case DW_OP_skip: {
          const auto offset = reader.take<std::int16_t>();
          bool jump = true;
          if (op == DW_OP_bra) {
            done = domain.truth(top[-1], jump);
            --size;
          }
          const std::uint64_t target = reader.at() + static_cast<std::uint64_t>(std::int64_t{offset});
          if (target < code.begin || target > code.end) return false;
          if (jump) reader = CfiReader({target, code.end});
          break;
        }
        case DW_OP_bregx: {
          const std::uint64_t number = reader.uleb();
          if (number >= arch::kDwarfRegisters) return false;
          done = domain.from_register(static_cast<unsigned>(number), reader.sleb(), *top);
          ++size;
          break;
        }
        case DW_OP_nop: break;
        default: return false;
      }
    }
    if (!done || !reader.ok()) return false;
  }
  if (size == 0) return false;
  result = stack[size - 1];
  return true;
}

/// Values are numbers: evaluates the expression.
struct Numbers {
  using Value = std::uint64_t;
  const arch::Registers& registers;
  StackBounds& bounds;

  bool constant(std::uint64_t number, Value& value) noexcept {
    value = number;
    return true;
  }
  bool from_register(unsigned number, std::int64_t offset, Value& value) noexcept {
    if (number >= arch::kDwarfRegisters || (registers.known >> number & 1) == 0) return false;
    value = registers.value[number] + static_cast<std::uint64_t>(offset);
    return true;
  }
  bool load(Value& value, unsigned bytes) noexcept {
    const std::uint64_t address = value;
    if (bytes == 0 || bytes > 8 || address % 8 + bytes > 8 || !bounds.readable(address & ~std::uint64_t{7}))
      return false;
    value = 0;
    __builtin_memcpy(&value, reinterpret_cast<const void*>(address), bytes);
    return true;
  }
  bool truth(Value value, bool& is) noexcept {
    is = value != 0;
    return true;
  }
  bool unary(std::uint8_t op, Value& value) noexcept {
    if (op == DW_OP_not) value = ~value;
    else if (op == DW_OP_neg || value >> 63 != 0) value = -value;
    return true;
  }
  bool binary(std::uint8_t op, Value& left, Value right) noexcept {
    const auto a = static_cast<std::int64_t>(left);
    const auto b = static_cast<std::int64_t>(right);
    switch (op) {
      case DW_OP_and: left &= right; return true;
      case DW_OP_div:
        if (b == 0) return false;
        left = b == -1 ? -left : static_cast<std::uint64_t>(a / b);
        return true;
      case DW_OP_minus: left -= right; return true;
      case DW_OP_mod:
        if (right == 0) return false;
        left %= right;
        return true;
      case DW_OP_mul: left *= right; return true;
      case DW_OP_or: left |= right; return true;
      case DW_OP_plus: left += right; return true;
      case DW_OP_shl: left = right < 64 ? left << right : 0; return true;
      case DW_OP_shr: left = right < 64 ? left >> right : 0; return true;
      case DW_OP_shra: left = static_cast<std::uint64_t>(a >> (right < 64 ? right : 63)); return true;
      case DW_OP_xor: left ^= right; return true;
      case DW_OP_eq: left = a == b; return true;
      case DW_OP_ge: left = a >= b; return true;
      case DW_OP_gt: left = a > b; return true;
      case DW_OP_le: left = a <= b; return true;
      case DW_OP_lt: left = a < b; return true;
      case DW_OP_ne: left = a != b; return true;
      default: return false;
    }
  }
};

/// Wraps, as DWARF's arithmetic does: the numbers in an expression may be any.
std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

/// Values are formulas of the registers: simplifies the expression.
struct Formulas {
  using Value = Formula;
  std::uint64_t pc;

  bool constant(std::uint64_t number, Value& value) noexcept {
    value = {Formula::kConstant, static_cast<std::int64_t>(number)};
    return true;
  }
  bool from_register(unsigned number, std::int64_t offset, Value& value) noexcept {
    if (number == arch::kDwarfSp) value = {Formula::kSp, offset};
    else if (number == arch::kDwarfFp) value = {Formula::kFp, offset};
    else if (number == arch::kPcColumn)
      value = {Formula::kConstant, wrapping_sum(static_cast<std::int64_t>(pc), offset)};
    else return false;
    return true;
  }
  bool load(Value& value, unsigned bytes) noexcept {
    if (value.kind != Formula::kFp || bytes != 8) return false;
    value.kind = Formula::kAtFp;
    return true;
  }
  bool truth(Value, bool&) noexcept { return false; }
  bool unary(std::uint8_t, Value&) noexcept { return false; }
  bool binary(std::uint8_t op, Value& left, Value right) noexcept {
    if (right.kind != Formula::kConstant) {
      if (op != DW_OP_plus || left.kind != Formula::kConstant) return false;
      const Value swapped = left;
      left = right;
      right = swapped;
    }
    const std::int64_t b = right.offset;
    if (op == DW_OP_plus && (left.kind == Formula::kSp || left.kind == Formula::kFp)) {
      left.offset = wrapping_sum(left.offset, b);
      return true;
    }
    if (left.kind != Formula::kConstant) return false;
    switch (op) {
      case DW_OP_and: left.offset &= b; return true;
      case DW_OP_plus: left.offset = wrapping_sum(left.offset, b); return true;
      case DW_OP_shl: left.offset = b >= 0 && b < 32 ? left.offset << b : 0; return true;
      case DW_OP_ge: left.offset = left.offset >= b; return true;
      default: return false;
    }
  }
};

}  // namespace

bool evaluate(const CfiRow& row, std::int64_t distance, const arch::Registers& registers, StackBounds& bounds,
              const std::uint64_t* initial, std::uint64_t& result) noexcept {
  Numbers domain{registers, bounds};
  return run<Numbers, kStackSize>(row, distance, domain, initial, result);
}

Formula simplify(const CfiRow& row, std::int64_t distance, std::uint64_t pc) noexcept {
  Formulas domain{pc};
  Formula result;
  constexpr unsigned kSmallStackSize = 8;
  if (!run<Formulas, kSmallStackSize>(row, distance, domain, nullptr, result)) return {};
  return result;
}

}  // namespace heapprof::unwind
