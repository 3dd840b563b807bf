#include "preload/unwind/cfi.h"

#include <cstring>
#include <initializer_list>

#include "preload/unwind/dwarf.h"

namespace heapprof::unwind {

namespace {

constexpr unsigned kMaxInstructions = 20000;
constexpr unsigned kMaxRememberedStates = 6;

/// The header of an .eh_frame entry.
struct Header {
  Span body;            ///< what follows the id
  std::uint64_t id_at;  ///< address of the id
  std::uint32_t id;     ///< 0: a CIE; else an FDE, and the distance from its CIE to id_at
  std::uint64_t next;   ///< address of the next entry
};

/// Returns false at the terminator and when the entry exceeds `frames`.
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

/// Sets what the CIE at `at` determines.
bool read_cie(Span frames, std::uint64_t at, CfiEntry& entry, bool& sized_augmentation) noexcept {
  Header header;
  if (!read_header(frames, at, header) || header.id != 0) return false;
  CfiReader reader(header.body);
  const auto version = reader.take<std::uint8_t>();
  if (version != 1 && version != 3 && version != 4) return false;
  const std::uint64_t augmentation = reader.at();
  while (reader.take<char>() != '\0')
    if (!reader.ok()) return false;
  const auto* letters = reinterpret_cast<const char*>(augmentation);
  if (letters[0] == 'e' && letters[1] == 'h') reader.skip(8);  // GCC 2.x: a pointer that unwinding does not need
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
  entry.initial_instructions = reader.rest();
  return reader.ok();
}

bool read_fde(Span frames, const Header& header, CfiEntry& entry) noexcept {
  bool sized_augmentation;
  if (header.id > header.id_at - frames.begin) return false;
  if (!read_cie(frames, header.id_at - header.id, entry, sized_augmentation)) return false;
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
  if (encoding == DW_EH_PE_omit) return 0;
  if ((encoding & DW_EH_PE_indirect) != 0) {
    fail();
    return 0;
  }
  std::uint64_t base = 0;
  switch (encoding & 0x70) {
    case DW_EH_PE_absptr: break;
    case DW_EH_PE_pcrel: base = at_; break;
    case DW_EH_PE_datarel: base = data_base; break;
    case DW_EH_PE_aligned: skip(-at_ & 7); break;
    default: fail(); return 0;  // textrel, funcrel: compilers do not use them here
  }
  switch (encoding & 0x0f) {
    case DW_EH_PE_absptr:
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8: return base + take<std::uint64_t>();
    case DW_EH_PE_uleb128: return base + uleb();
    case DW_EH_PE_udata2: return base + take<std::uint16_t>();
    case DW_EH_PE_udata4: return base + take<std::uint32_t>();
    case DW_EH_PE_sleb128: return base + static_cast<std::uint64_t>(sleb());
    case DW_EH_PE_sdata2: return base + static_cast<std::uint64_t>(std::int64_t{take<std::int16_t>()});
    case DW_EH_PE_sdata4: return base + static_cast<std::uint64_t>(std::int64_t{take<std::int32_t>()});
    default: fail(); return 0;
  }
}

CfiResult find_cfi(const ElfObject& object, std::uint64_t pc, CfiEntry& entry) noexcept {
  if (object.eh_frame_hdr == 0)
    return object.eh_frame.begin == 0 ? CfiResult::kNone : find_cfi_linear(object.eh_frame, pc, entry);
  CfiReader reader({object.eh_frame_hdr, object.hdr_segment.end});
  if (reader.take<std::uint8_t>() != 1) return CfiResult::kInvalid;
  const auto frames_encoding = reader.take<std::uint8_t>();
  const auto count_encoding = reader.take<std::uint8_t>();
  const auto table_encoding = reader.take<std::uint8_t>();
  const std::uint64_t frames = reader.pointer(frames_encoding, object.eh_frame_hdr);
  if (!reader.ok()) return CfiResult::kInvalid;
  // All linkers write tables with this encoding. Without such a table, the entries are searched linearly.
  if (count_encoding == DW_EH_PE_omit || table_encoding != (DW_EH_PE_datarel | DW_EH_PE_sdata4)) {
    if (!object.eh_frame_segment.contains(frames)) return CfiResult::kInvalid;
    return find_cfi_linear({frames, object.eh_frame_segment.end}, pc, entry);
  }
  const std::uint64_t count = reader.pointer(count_encoding, object.eh_frame_hdr);
  const std::uint64_t table = reader.at();
  if (!reader.ok() || count > (object.hdr_segment.end - table) / 8) return CfiResult::kInvalid;
  if (count == 0) return CfiResult::kNone;

  // Relative to the table's section, as in the table.
  const auto load_at = [&](std::uint64_t index, unsigned half) noexcept {
    std::int32_t offset;
    std::memcpy(&offset, reinterpret_cast<const void*>(table + index * 8 + half * 4), sizeof offset);
    return std::int64_t{offset};
  };
  const auto wanted = static_cast<std::int64_t>(pc - object.eh_frame_hdr);
  // Without a branch on what was loaded, which the processor could not predict.
  std::uint64_t low = 0;
  for (std::uint64_t left = count; left > 1;) {
    const std::uint64_t half = left / 2;
    low = load_at(low + half, 0) <= wanted ? low + half : low;
    left -= half;
  }
  if (wanted < load_at(low, 0)) return CfiResult::kNone;
  Header header;
  const std::uint64_t at = object.eh_frame_hdr + static_cast<std::uint64_t>(load_at(low, 1));
  const Span& eh_frame = object.eh_frame_segment;
  if (!read_header(eh_frame, at, header) || header.id == 0 || !read_fde(eh_frame, header, entry))
    return CfiResult::kInvalid;
  return pc - entry.pc_begin < entry.pc_end - entry.pc_begin ? CfiResult::kFound : CfiResult::kNone;
}

CfiResult find_cfi_linear(Span frames, std::uint64_t pc, CfiEntry& entry) noexcept {
  Header header;
  for (std::uint64_t at = frames.begin; read_header(frames, at, header); at = header.next) {
    if (header.id == 0) continue;
    if (!read_fde(frames, header, entry)) return CfiResult::kInvalid;
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
    if (!read_fde(frames, header, entry)) return false;
    if (entry.pc_begin < range.begin) range.begin = entry.pc_begin;
    if (entry.pc_end > range.end) range.end = entry.pc_end;
  }
  frames.end = at + 4;
  return range.begin < range.end;
}

bool run_cfi(const CfiEntry& entry, std::uint64_t pc, CfiRow& row) noexcept {
  // The instructions of the CIE run first: DW_CFA_restore restores their result. Then those of the FDE run.
  CfiRow initial{};
  initial.expressions = entry.initial_instructions.begin;
  row = initial;
  CfiRow remembered[kMaxRememberedStates];
  unsigned depth = 0;
  unsigned left = kMaxInstructions;
  bool have_cfa = false;

  for (const bool in_fde : {false, true}) {
    if (in_fde) initial = row;
    const Span code = in_fde ? entry.instructions : entry.initial_instructions;
    CfiReader reader(code);
    std::uint64_t location = entry.pc_begin;

    const auto expression = [&]() noexcept {
      // Both instruction sequences are in one segment, less than 2 GB apart.
      const auto distance = static_cast<std::int64_t>(reader.at() - row.expressions);
      reader.skip(reader.uleb());
      if (distance != static_cast<std::int32_t>(distance)) reader.fail();
      return distance;
    };
    const auto set = [&](std::uint64_t number, RegisterRule rule, std::int64_t value) noexcept {
      if (number >= arch::kDwarfRegisters) return;  // vector registers and others that unwinding does not need
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
    // Multiplied as unsigned numbers, because damaged data may overflow.
    const auto factored = [&](std::uint64_t value) noexcept {
      return static_cast<std::int64_t>(value * static_cast<std::uint64_t>(entry.data_factor));
    };
    const auto factored_signed = [&]() noexcept { return factored(static_cast<std::uint64_t>(reader.sleb())); };
    // Returns true when the next row begins beyond pc, so that the current row is the result.
    const auto advance = [&](std::uint64_t delta) noexcept {
      location += delta * entry.code_factor;
      return in_fde && location > pc;
    };

    while (reader.more()) {
      if (left-- == 0) return false;
      const auto op = reader.take<std::uint8_t>();
      const std::uint8_t low = op & 0x3f;
      if ((op & 0xc0) == DW_CFA_advance_loc) {
        if (advance(low)) break;
        continue;
      }
      if ((op & 0xc0) == DW_CFA_offset) {
        set(low, RegisterRule::kOffset, factored(reader.uleb()));
        continue;
      }
      if ((op & 0xc0) == DW_CFA_restore) {
        restore(low);
        continue;
      }
      bool reached = false;  // the row of pc
      switch (op) {
        case DW_CFA_nop: break;
        case DW_CFA_set_loc:
          location = reader.pointer(entry.pointer_encoding, 0);
          reached = in_fde && location > pc;
          break;
        case DW_CFA_advance_loc1: reached = advance(reader.take<std::uint8_t>()); break;
        case DW_CFA_advance_loc2: reached = advance(reader.take<std::uint16_t>()); break;
        case DW_CFA_advance_loc4: reached = advance(reader.take<std::uint32_t>()); break;
        case DW_CFA_offset_extended: {
          const std::uint64_t number = reader.uleb();
          set(number, RegisterRule::kOffset, factored(reader.uleb()));
          break;
        }
        case DW_CFA_restore_extended: restore(reader.uleb()); break;
        case DW_CFA_undefined: set(reader.uleb(), RegisterRule::kUndefined, 0); break;
        case DW_CFA_same_value: set(reader.uleb(), RegisterRule::kSame, 0); break;
        case DW_CFA_register: {
          const std::uint64_t number = reader.uleb();
          const std::uint64_t source = reader.uleb();
          if (source >= arch::kDwarfRegisters) return false;
          set(number, RegisterRule::kRegister, static_cast<std::int64_t>(source));
          break;
        }
        case DW_CFA_remember_state:
          if (depth == kMaxRememberedStates) return false;
          remembered[depth++] = row;
          break;
        case DW_CFA_restore_state:
          if (depth == 0) return false;
          row = remembered[--depth];
          break;
        case DW_CFA_def_cfa: {
          const std::uint64_t number = reader.uleb();
          set_cfa(number, static_cast<std::int64_t>(reader.uleb()));
          break;
        }
        case DW_CFA_def_cfa_register: set_cfa(reader.uleb(), row.cfa_offset); break;
        case DW_CFA_def_cfa_offset:
          if (row.cfa_is_expression) return false;
          row.cfa_offset = static_cast<std::int64_t>(reader.uleb());
          break;
        case DW_CFA_def_cfa_expression:
          row.cfa_offset = expression();
          row.cfa_is_expression = have_cfa = true;
          break;
        case DW_CFA_expression: {
          const std::uint64_t number = reader.uleb();
          set(number, RegisterRule::kExpression, expression());
          break;
        }
        case DW_CFA_offset_extended_sf: {
          const std::uint64_t number = reader.uleb();
          set(number, RegisterRule::kOffset, factored_signed());
          break;
        }
        case DW_CFA_def_cfa_sf: {
          const std::uint64_t number = reader.uleb();
          set_cfa(number, factored_signed());
          break;
        }
        case DW_CFA_def_cfa_offset_sf:
          if (row.cfa_is_expression) return false;
          row.cfa_offset = factored_signed();
          break;
        case DW_CFA_val_offset: {
          const std::uint64_t number = reader.uleb();
          set(number, RegisterRule::kValOffset, factored(reader.uleb()));
          break;
        }
        case DW_CFA_val_offset_sf: {
          const std::uint64_t number = reader.uleb();
          set(number, RegisterRule::kValOffset, factored_signed());
          break;
        }
        case DW_CFA_val_expression: {
          const std::uint64_t number = reader.uleb();
          set(number, RegisterRule::kValExpression, expression());
          break;
        }
        case DW_CFA_AARCH64_negate_ra_state: break;  // return addresses are stripped anyway
        case DW_CFA_GNU_args_size: reader.uleb(); break;
        case DW_CFA_GNU_negative_offset_extended: {
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
  const Span& cie = entry.initial_instructions;
  const Span& fde = entry.instructions;
  row.bounds = {cie.begin < fde.begin ? cie.begin : fde.begin, cie.end > fde.end ? cie.end : fde.end};
  return have_cfa;
}

bool find_function(const Span& map, std::uint64_t pc, Span& function) noexcept {
  ObjectLocation location;
  location.map = map;
  ElfObject object{};
  read_object(location, object);
  CfiEntry entry;
  if (find_cfi(object, pc, entry) != CfiResult::kFound) return false;
  function = {entry.pc_begin, entry.pc_end};
  return true;
}

}  // namespace heapprof::unwind
