#include "preload/unwind/cfi.h"

#include <cstring>

namespace heapprof::unwind {

namespace {

// Pointer encodings.
constexpr std::uint8_t kPointerOmitted = 0xff;
constexpr std::uint8_t kPointerIndirect = 0x80;

constexpr unsigned kMaxInstructions = 20000;
constexpr unsigned kMaxRemembered = 6;

/// One .eh_frame entry's length and what it begins with.
struct Header {
  Span body;              ///< from the id on
  std::uint64_t id_at;
  std::uint32_t id;       ///< 0: common entry; else distance back from id_at to it
  std::uint64_t next;
};

/// False at the terminator and where no entry fits.
bool read_header(Span frames, std::uint64_t at, Header& header) noexcept {
  if (!frames.contains(at)) return false;
  CfiReader reader({at, frames.end});
  std::uint64_t length = reader.take<std::uint32_t>();
  if (!reader.ok() || length == 0) return false;
  if (length == 0xffffffff) length = reader.take<std::uint64_t>();
  header.id_at = reader.at();
  if (!reader.ok() || length < 4 || length > frames.end - header.id_at) return false;
  header.id = reader.take<std::uint32_t>();
  header.body = {header.id_at + 4, header.id_at + length};
  header.next = header.body.end;
  return true;
}

/// Fills what the common entry at `at` determines.
bool read_common(Span frames, std::uint64_t at, CfiEntry& entry, bool& sized_augmentation) noexcept {
  Header header;
  if (!read_header(frames, at, header) || header.id != 0) return false;
  CfiReader reader(header.body);
  const auto version = reader.take<std::uint8_t>();
  if (version != 1 && version != 3 && version != 4) return false;
  const std::uint64_t augmentation = reader.at();
  while (reader.take<char>() != '\0')
    if (!reader.ok()) return false;
  const auto* letters = reinterpret_cast<const char*>(augmentation);
  if (letters[0] == 'e' && letters[1] == 'h') reader.skip(8);  // GCC 2.x: a pointer that is not needed
  if (version == 4) {
    if (reader.take<std::uint8_t>() != 8) return false;  // address size
    if (reader.take<std::uint8_t>() != 0) return false;  // segment selector size
  }
  entry.code_factor = reader.uleb();
  entry.data_factor = reader.sleb();
  entry.ra_register = version == 1 ? reader.take<std::uint8_t>() : reader.uleb();
  entry.pointer_encoding = 0;
  entry.signal_frame = false;
  sized_augmentation = letters[0] == 'z';
  if (sized_augmentation) {
    const std::uint64_t bytes = reader.uleb();
    const std::uint64_t data = reader.at();
    reader.skip(bytes);
    if (!reader.ok()) return false;
    CfiReader augmented({data, data + bytes});
    for (++letters; *letters != '\0'; ++letters) {
      if (*letters == 'R') entry.pointer_encoding = augmented.take<std::uint8_t>();
      else if (*letters == 'S') entry.signal_frame = true;
      else if (*letters == 'L') augmented.take<std::uint8_t>();
      else if (*letters == 'P') augmented.pointer(augmented.take<std::uint8_t>() & 0x7f, 0);
      else if (*letters != 'B' && *letters != 'G') break;  // aarch64: pointers signed with key B, tagged stack
    }
    if (!augmented.ok()) return false;
  }
  entry.initial = reader.rest();
  return reader.ok();
}

bool read_entry(Span frames, const Header& header, CfiEntry& entry) noexcept {
  bool sized_augmentation;
  if (header.id > header.id_at - frames.begin) return false;
  if (!read_common(frames, header.id_at - header.id, entry, sized_augmentation)) return false;
  CfiReader reader(header.body);
  entry.pc_begin = reader.pointer(entry.pointer_encoding, 0);
  entry.pc_end = entry.pc_begin + reader.pointer(entry.pointer_encoding & 0x0f, 0);
  if (sized_augmentation) reader.skip(reader.uleb());
  entry.instructions = reader.rest();
  return reader.ok() && entry.pc_end >= entry.pc_begin;
}

}  // namespace

std::uint64_t CfiReader::uleb() noexcept {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    const auto byte = take<std::uint8_t>();
    if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  fail();
  return 0;
}

std::int64_t CfiReader::sleb() noexcept {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    const auto byte = take<std::uint8_t>();
    if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) {
      if ((byte & 0x40) != 0 && shift + 7 < 64) value |= ~std::uint64_t{0} << (shift + 7);
      return static_cast<std::int64_t>(value);
    }
  }
  fail();
  return 0;
}

std::uint64_t CfiReader::pointer(std::uint8_t encoding, std::uint64_t data_base) noexcept {
  if (encoding == kPointerOmitted) return 0;
  if ((encoding & kPointerIndirect) != 0) {
    fail();
    return 0;
  }
  std::uint64_t base = 0;
  switch (encoding & 0x70) {
    case 0x00: break;
    case 0x10: base = at_; break;         // pcrel
    case 0x30: base = data_base; break;   // datarel
    case 0x50: skip(-at_ & 7); break;     // aligned
    default: fail(); return 0;            // textrel, funcrel: not used here
  }
  switch (encoding & 0x0f) {
    case 0x00: case 0x04: case 0x0c: return base + take<std::uint64_t>();
    case 0x01: return base + uleb();
    case 0x02: return base + take<std::uint16_t>();
    case 0x03: return base + take<std::uint32_t>();
    case 0x09: return base + static_cast<std::uint64_t>(sleb());
    case 0x0a: return base + static_cast<std::uint64_t>(std::int64_t{take<std::int16_t>()});
    case 0x0b: return base + static_cast<std::uint64_t>(std::int64_t{take<std::int32_t>()});
    default: fail(); return 0;
  }
}

CfiResult find_cfi(const Module& module, std::uint64_t pc, CfiEntry& entry) noexcept {
  if (module.eh_frame_hdr == 0) return CfiResult::kNone;
  CfiReader reader({module.eh_frame_hdr, module.headers.end});
  if (reader.take<std::uint8_t>() != 1) return CfiResult::kBad;
  const auto frames_encoding = reader.take<std::uint8_t>();
  const auto count_encoding = reader.take<std::uint8_t>();
  const auto table_encoding = reader.take<std::uint8_t>();
  const std::uint64_t frames = reader.pointer(frames_encoding, module.eh_frame_hdr);
  if (!reader.ok()) return CfiResult::kBad;
  // 0x3b: signed 4 bytes relative to the table; the only kind there is. Without a table: one by one.
  if (count_encoding == kPointerOmitted || table_encoding != 0x3b) {
    if (!module.frames.contains(frames)) return CfiResult::kBad;
    return find_cfi_linear({frames, module.frames.end}, pc, entry);
  }
  const std::uint64_t count = reader.pointer(count_encoding, module.eh_frame_hdr);
  const std::uint64_t table = reader.at();
  if (!reader.ok() || count > (module.headers.end - table) / 8) return CfiResult::kBad;
  if (count == 0) return CfiResult::kNone;

  const auto entry_at = [&](std::uint64_t index, unsigned half) noexcept {
    std::int32_t offset;
    std::memcpy(&offset, reinterpret_cast<const void*>(table + index * 8 + half * 4), sizeof offset);
    return module.eh_frame_hdr + static_cast<std::uint64_t>(std::int64_t{offset});
  };
  std::uint64_t low = 0;
  std::uint64_t high = count;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (entry_at(middle, 0) <= pc) low = middle;
    else high = middle;
  }
  if (pc < entry_at(low, 0)) return CfiResult::kNone;
  Header header;
  const std::uint64_t at = entry_at(low, 1);
  if (!read_header(module.frames, at, header) || header.id == 0 || !read_entry(module.frames, header, entry))
    return CfiResult::kBad;
  return pc - entry.pc_begin < entry.pc_end - entry.pc_begin ? CfiResult::kFound : CfiResult::kNone;
}

CfiResult find_cfi_linear(Span frames, std::uint64_t pc, CfiEntry& entry) noexcept {
  Header header;
  for (std::uint64_t at = frames.begin; read_header(frames, at, header); at = header.next) {
    if (header.id == 0) continue;
    if (!read_entry(frames, header, entry)) return CfiResult::kBad;
    if (pc - entry.pc_begin < entry.pc_end - entry.pc_begin) return CfiResult::kFound;
  }
  return CfiResult::kNone;
}

bool cfi_range(Span& frames, Span& range) noexcept {
  Header header;
  CfiEntry entry;
  range = {~std::uint64_t{0}, 0};
  std::uint64_t at = frames.begin;
  for (; read_header(frames, at, header); at = header.next) {
    if (header.id == 0) continue;
    if (!read_entry(frames, header, entry)) return false;
    if (entry.pc_begin < range.begin) range.begin = entry.pc_begin;
    if (entry.pc_end > range.end) range.end = entry.pc_end;
  }
  frames.end = at + 4;
  return range.begin < range.end;
}

bool run_cfi(const CfiEntry& entry, std::uint64_t pc, CfiRow& row) noexcept {
  // First the common instructions, whose outcome DW_CFA_restore goes back to, then the entry's own.
  CfiRow initial{};
  initial.expressions = entry.initial.begin;
  row = initial;
  CfiRow remembered[kMaxRemembered];
  unsigned depth = 0;
  unsigned left = kMaxInstructions;
  bool have_cfa = false;

  for (const bool own : {false, true}) {
    if (own) initial = row;
    const Span code = own ? entry.instructions : entry.initial;
    CfiReader reader(code);
    std::uint64_t location = entry.pc_begin;

    const auto expression = [&]() noexcept {
      // Both instruction sequences lie in one segment, less than 2 GB from each other.
      const auto distance = static_cast<std::int64_t>(reader.at() - row.expressions);
      reader.skip(reader.uleb());
      if (distance != static_cast<std::int32_t>(distance)) reader.fail();
      return distance;
    };
    const auto set = [&](std::uint64_t number, RegisterRule rule, std::int64_t value) noexcept {
      if (number >= arch::kDwarfRegisters) return;  // vector registers and the like
      if (value != static_cast<std::int32_t>(value)) reader.fail();
      row.rule[number] = rule;
      row.value[number] = static_cast<std::int32_t>(value);
    };
    const auto restore = [&](std::uint64_t number) noexcept {
      if (number < arch::kDwarfRegisters) set(number, initial.rule[number], initial.value[number]);
    };
    const auto set_cfa = [&](std::uint64_t number, std::int64_t offset) noexcept {
      if (number >= arch::kDwarfRegisters) reader.fail();
      row.cfa_is_expression = false;
      row.cfa_register = static_cast<std::uint8_t>(number);
      row.cfa_offset = offset;
      have_cfa = true;
    };
    // Unsigned, as numbers without sense may overflow; what then comes out has no more sense.
    const auto factored = [&](std::uint64_t value) noexcept {
      return static_cast<std::int64_t>(value * static_cast<std::uint64_t>(entry.data_factor));
    };
    const auto factored_signed = [&]() noexcept { return factored(static_cast<std::uint64_t>(reader.sleb())); };
    // True when the next row begins beyond pc, and the one at hand is it.
    const auto advance = [&](std::uint64_t delta) noexcept {
      location += delta * entry.code_factor;
      return own && location > pc;
    };

    while (reader.more()) {
      if (left-- == 0) return false;
      const auto op = reader.take<std::uint8_t>();
      const std::uint8_t low = op & 0x3f;
      if (op >> 6 == 1) {  // advance_loc
        if (advance(low)) break;
        continue;
      }
      if (op >> 6 == 2) {  // offset
        set(low, RegisterRule::kOffset, factored(reader.uleb()));
        continue;
      }
      if (op >> 6 == 3) {  // restore
        restore(low);
        continue;
      }
      bool reached = false;
      switch (op) {
        case 0x00: break;  // nop
        case 0x01:         // set_loc
          location = reader.pointer(entry.pointer_encoding, 0);
          reached = own && location > pc;
          break;
        case 0x02: reached = advance(reader.take<std::uint8_t>()); break;
        case 0x03: reached = advance(reader.take<std::uint16_t>()); break;
        case 0x04: reached = advance(reader.take<std::uint32_t>()); break;
        case 0x05: {  // offset_extended
          const std::uint64_t number = reader.uleb();
          set(number, RegisterRule::kOffset, factored(reader.uleb()));
          break;
        }
        case 0x06: restore(reader.uleb()); break;
        case 0x07: set(reader.uleb(), RegisterRule::kUndefined, 0); break;
        case 0x08: set(reader.uleb(), RegisterRule::kSame, 0); break;
        case 0x09: {  // register
          const std::uint64_t number = reader.uleb();
          const std::uint64_t source = reader.uleb();
          if (source >= arch::kDwarfRegisters) return false;
          set(number, RegisterRule::kRegister, static_cast<std::int64_t>(source));
          break;
        }
        case 0x0a:  // remember_state
          if (depth == kMaxRemembered) return false;
          remembered[depth++] = row;
          break;
        case 0x0b:  // restore_state
          if (depth == 0) return false;
          row = remembered[--depth];
          break;
        case 0x0c: {  // def_cfa
          const std::uint64_t number = reader.uleb();
          set_cfa(number, static_cast<std::int64_t>(reader.uleb()));
          break;
        }
        case 0x0d:  // def_cfa_register
          set_cfa(reader.uleb(), row.cfa_offset);
          break;
        case 0x0e:  // def_cfa_offset
          if (row.cfa_is_expression) return false;
          row.cfa_offset = static_cast<std::int64_t>(reader.uleb());
          break;
        case 0x0f:  // def_cfa_expression
          row.cfa_offset = expression();
          row.cfa_is_expression = have_cfa = true;
          break;
        case 0x10: {  // expression
          const std::uint64_t number = reader.uleb();
          set(number, RegisterRule::kExpression, expression());
          break;
        }
        case 0x11: {  // offset_extended_sf
          const std::uint64_t number = reader.uleb();
          set(number, RegisterRule::kOffset, factored_signed());
          break;
        }
        case 0x12: {  // def_cfa_sf
          const std::uint64_t number = reader.uleb();
          set_cfa(number, factored_signed());
          break;
        }
        case 0x13:  // def_cfa_offset_sf
          if (row.cfa_is_expression) return false;
          row.cfa_offset = factored_signed();
          break;
        case 0x14: {  // val_offset
          const std::uint64_t number = reader.uleb();
          set(number, RegisterRule::kValOffset, factored(reader.uleb()));
          break;
        }
        case 0x15: {  // val_offset_sf
          const std::uint64_t number = reader.uleb();
          set(number, RegisterRule::kValOffset, factored_signed());
          break;
        }
        case 0x16: {  // val_expression
          const std::uint64_t number = reader.uleb();
          set(number, RegisterRule::kValExpression, expression());
          break;
        }
        case 0x2d: break;                 // AARCH64_negate_ra_state: addresses are stripped anyhow
        case 0x2e: reader.uleb(); break;  // GNU_args_size
        case 0x2f: {                      // GNU_negative_offset_extended
          const std::uint64_t number = reader.uleb();
          set(number, RegisterRule::kOffset, factored(-reader.uleb()));
          break;
        }
        default: return false;
      }
      if (reached) break;
    }
    if (!reader.ok()) return false;
  }
  row.bounds = {entry.initial.begin < entry.instructions.begin ? entry.initial.begin : entry.instructions.begin,
                entry.initial.end > entry.instructions.end ? entry.initial.end : entry.instructions.end};
  return have_cfa;
}

}  // namespace heapprof::unwind
