#include "preload/unwind/expression.h"

namespace heapprof::unwind {

namespace {

constexpr unsigned kDepth = 32;
constexpr unsigned kMaxSteps = 1000;

/// The machine, over what stands for a number: a number itself, or a formula. `Domain` provides Value and
///   bool constant(uint64_t, Value&)             a number
///   bool from_register(unsigned, int64_t, Value&)   a register's content plus an offset
///   bool load(Value&, unsigned bytes)            what memory holds there
///   bool unary(op, Value&)  bool binary(op, Value& left, Value right)
///   bool truth(Value, bool&)
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
  for (unsigned steps = 0; reader.more(); ++steps) {
    if (steps == kMaxSteps || size + 1 >= kStack) return false;
    const auto op = reader.take<std::uint8_t>();
    Value* const top = stack + size;  // one above the topmost
    bool done = true;
    if (op >= 0x30 && op <= 0x4f) {  // lit0...
      done = domain.constant(op - 0x30u, *top);
      ++size;
    } else if (op >= 0x70 && op <= 0x8f) {  // breg0...
      done = domain.from_register(op - 0x70u, reader.sleb(), *top);
      ++size;
    } else {
      // How many operands it takes from the stack.
      const unsigned taken = op == 0x06 || op == 0x12 || op == 0x13 || op == 0x19 || op == 0x1f || op == 0x20 ||
                                     op == 0x23 || op == 0x28 || op == 0x94
                                 ? 1
                             : op == 0x14 || op == 0x16 || (op >= 0x1a && op <= 0x2e && op != 0x23) ? 2
                             : op == 0x17                                                          ? 3
                                                                                                   : 0;
      if (size < taken) return false;
      switch (op) {
        case 0x03: done = domain.constant(reader.take<std::uint64_t>(), *top); ++size; break;  // addr
        case 0x08: done = domain.constant(reader.take<std::uint8_t>(), *top); ++size; break;   // const1u...
        case 0x09:
          done = domain.constant(static_cast<std::uint64_t>(std::int64_t{reader.take<std::int8_t>()}), *top);
          ++size;
          break;
        case 0x0a: done = domain.constant(reader.take<std::uint16_t>(), *top); ++size; break;
        case 0x0b:
          done = domain.constant(static_cast<std::uint64_t>(std::int64_t{reader.take<std::int16_t>()}), *top);
          ++size;
          break;
        case 0x0c: done = domain.constant(reader.take<std::uint32_t>(), *top); ++size; break;
        case 0x0d:
          done = domain.constant(static_cast<std::uint64_t>(std::int64_t{reader.take<std::int32_t>()}), *top);
          ++size;
          break;
        case 0x0e:
        case 0x0f: done = domain.constant(reader.take<std::uint64_t>(), *top); ++size; break;
        case 0x10: done = domain.constant(reader.uleb(), *top); ++size; break;
        case 0x11: done = domain.constant(static_cast<std::uint64_t>(reader.sleb()), *top); ++size; break;
        case 0x06: done = domain.load(top[-1], 8); break;                          // deref
        case 0x94: done = domain.load(top[-1], reader.take<std::uint8_t>()); break;  // deref_size
        case 0x12: *top = top[-1]; ++size; break;                                  // dup
        case 0x13: --size; break;                                                  // drop
        case 0x14: *top = top[-2]; ++size; break;                                  // over
        case 0x15: {                                                               // pick
          const unsigned index = reader.take<std::uint8_t>();
          if (index >= size) return false;
          *top = top[-1 - static_cast<int>(index)];
          ++size;
          break;
        }
        case 0x16: {  // swap
          const Value value = top[-1];
          top[-1] = top[-2];
          top[-2] = value;
          break;
        }
        case 0x17: {  // rot
          const Value value = top[-1];
          top[-1] = top[-2];
          top[-2] = top[-3];
          top[-3] = value;
          break;
        }
        case 0x19: case 0x1f: case 0x20:  // abs neg not
          done = domain.unary(op, top[-1]);
          break;
        case 0x1a: case 0x1b: case 0x1c: case 0x1d: case 0x1e:             // and div minus mod mul
        case 0x21: case 0x22: case 0x24: case 0x25: case 0x26: case 0x27:  // or plus shl shr shra xor
        case 0x29: case 0x2a: case 0x2b: case 0x2c: case 0x2d: case 0x2e:  // eq ge gt le lt ne
          done = domain.binary(op, top[-2], top[-1]);
          --size;
          break;
        case 0x23: {  // plus_uconst
          Value value;
          done = domain.constant(reader.uleb(), value) && domain.binary(0x22, top[-1], value);
          break;
        }
        case 0x28:    // bra
        case 0x2f: {  // skip
          const auto offset = reader.take<std::int16_t>();
          bool jump = true;
          if (op == 0x28) {
            done = domain.truth(top[-1], jump);
            --size;
          }
          const std::uint64_t target = reader.at() + static_cast<std::uint64_t>(std::int64_t{offset});
          if (target < code.begin || target > code.end) return false;
          if (jump) reader = CfiReader({target, code.end});
          break;
        }
        case 0x92: {  // bregx
          const std::uint64_t number = reader.uleb();
          if (number >= arch::kDwarfRegisters) return false;
          done = domain.from_register(static_cast<unsigned>(number), reader.sleb(), *top);
          ++size;
          break;
        }
        case 0x96: break;  // nop
        default: return false;
      }
    }
    if (!done || !reader.ok()) return false;
  }
  if (size == 0) return false;
  result = stack[size - 1];
  return true;
}

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
    if (op == 0x20) value = ~value;
    else if (op == 0x1f || value >> 63 != 0) value = -value;
    return true;
  }
  bool binary(std::uint8_t op, Value& left, Value right) noexcept {
    const auto a = static_cast<std::int64_t>(left);
    const auto b = static_cast<std::int64_t>(right);
    switch (op) {
      case 0x1a: left &= right; return true;
      case 0x1b:
        if (b == 0) return false;
        left = b == -1 ? -left : static_cast<std::uint64_t>(a / b);
        return true;
      case 0x1c: left -= right; return true;
      case 0x1d:
        if (right == 0) return false;
        left %= right;
        return true;
      case 0x1e: left *= right; return true;
      case 0x21: left |= right; return true;
      case 0x22: left += right; return true;
      case 0x24: left = right < 64 ? left << right : 0; return true;
      case 0x25: left = right < 64 ? left >> right : 0; return true;
      case 0x26: left = static_cast<std::uint64_t>(a >> (right < 64 ? right : 63)); return true;
      case 0x27: left ^= right; return true;
      case 0x29: left = a == b; return true;
      case 0x2a: left = a >= b; return true;
      case 0x2b: left = a > b; return true;
      case 0x2c: left = a <= b; return true;
      case 0x2d: left = a < b; return true;
      case 0x2e: left = a != b; return true;
      default: return false;
    }
  }
};

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
    else if (number == arch::kPcColumn) value = {Formula::kConstant, static_cast<std::int64_t>(pc) + offset};
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
      if (op != 0x22 || left.kind != Formula::kConstant) return false;
      const Value swapped = left;
      left = right;
      right = swapped;
    }
    const std::int64_t b = right.offset;
    if (op == 0x22 && (left.kind == Formula::kSp || left.kind == Formula::kFp)) {
      left.offset += b;
      return true;
    }
    if (left.kind != Formula::kConstant) return false;
    switch (op) {
      case 0x1a: left.offset &= b; return true;
      case 0x22: left.offset += b; return true;
      case 0x24: left.offset = b >= 0 && b < 32 ? left.offset << b : 0; return true;
      case 0x2a: left.offset = left.offset >= b; return true;
      default: return false;
    }
  }
};

}  // namespace

bool evaluate(const CfiRow& row, std::int64_t distance, const arch::Registers& registers, StackBounds& bounds,
              const std::uint64_t* initial, std::uint64_t& result) noexcept {
  Numbers domain{registers, bounds};
  return run<Numbers, kDepth>(row, distance, domain, initial, result);
}

Formula simplify(const CfiRow& row, std::int64_t distance, std::uint64_t pc) noexcept {
  Formulas domain{pc};
  Formula result;
  constexpr unsigned kShortStack = 8;
  if (!run<Formulas, kShortStack>(row, distance, domain, nullptr, result)) return {};
  return result;
}

}  // namespace heapprof::unwind
