// The parser of unwind information compared with readelf: `readelf --debug-dump=frames-interp` prints for every row
// of every entry where the CFA and each register are. All rows of the program, the loader, libc, libstdc++, libm and
// libcrypto are compared, at their first and at their last address.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string_view>
#include <utility>

#include "harness.h"
#include "preload/unwind/full_unwind.h"
#include "preload/unwind/modules.h"

using namespace heapprof;
using namespace heapprof::unwind;

namespace {

const bool g_started = start({.max_depth = 1u << 16, .shadow_stack = true});

constexpr std::array<std::string_view, 17> kNames = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
                                                     "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "ra"};

struct Row {
  std::uint64_t location;
  std::string cfa;
  std::vector<std::pair<std::size_t, std::string>> registers;  ///< number, or kNames.size() of others; rule
};
struct Entry {
  std::uint64_t begin, end;
  std::vector<Row> rows;
};

/// Takes the next word of the line; empty: there is none.
std::string_view next_word(std::string_view& line) {
  constexpr std::string_view kSpaces = " \t\n";
  line.remove_prefix(std::min(line.find_first_not_of(kSpaces), line.size()));
  const std::string_view word = line.substr(0, std::min(line.find_first_of(kSpaces), line.size()));
  line.remove_prefix(word.size());
  return word;
}

std::vector<Entry> read_with_readelf(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen(("LC_ALL=C readelf -W --debug-dump=frames-interp '" + path + "' 2>/dev/null").c_str(), "r"), pclose);
  std::vector<Entry> entries;
  std::vector<std::size_t> numbers;  // of the registers in the columns
  bool in_entry = false;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe.get()) != nullptr) {
    const std::string_view line = buffer;
    std::string_view words = line;
    const auto contains = [&](std::string_view text) { return line.find(text) != std::string_view::npos; };
    if (const auto at = line.find(" pc="); at != std::string_view::npos && contains("FDE")) {
      char* end;
      Entry entry{std::strtoull(buffer + at + 4, &end, 16), 0, {}};
      entry.end = std::strtoull(end + 2, nullptr, 16);
      entries.push_back(std::move(entry));
      in_entry = true;
    } else if (contains(" CIE ") || line.size() < 3) {
      in_entry = false;
    } else if (in_entry && contains("LOC")) {
      numbers.clear();
      next_word(words);
      next_word(words);
      for (auto name = next_word(words); !name.empty(); name = next_word(words))
        numbers.push_back(static_cast<std::size_t>(std::ranges::find(kNames, name) - kNames.begin()));
    } else if (const auto location = next_word(words); in_entry && !entries.empty() && location.size() == 16) {
      Row row{std::strtoull(location.data(), nullptr, 16), std::string(next_word(words)), {}};
      row.registers.reserve(numbers.size());
      // readelf prints a register that is in another one as "r9 (r9)": the number, then the name.
      for (auto word = next_word(words); !word.empty(); word = next_word(words))
        if (word[0] != '(' && row.registers.size() < numbers.size())
          row.registers.emplace_back(numbers[row.registers.size()], word);
      entries.back().rows.push_back(std::move(row));
    }
  }
  return entries;
}

std::string program_path() {
  char path[4096];
  REQUIRE(realpath("/proc/self/exe", path) != nullptr);
  return path;
}

/// Read once for all tests: it takes readelf longer than them.
const std::vector<Entry>& entries_of_the_program() {
  static const std::vector<Entry> entries = read_with_readelf(program_path());
  return entries;
}

std::string signed_number(std::int64_t value) { return (value < 0 ? "" : "+") + std::to_string(value); }

/// A rule as readelf prints it.
std::string print(RegisterRule rule, std::int32_t value) {
  switch (rule) {
    case RegisterRule::kSame:
    case RegisterRule::kUndefined: return "u";
    case RegisterRule::kOffset: return "c" + signed_number(value);
    case RegisterRule::kValOffset: return "v" + signed_number(value);
    case RegisterRule::kRegister: return "r" + std::to_string(value);
    case RegisterRule::kExpression: return "exp";
    case RegisterRule::kValExpression: return "vexp";
  }
  return "?";
}

struct Counts {
  std::size_t rows = 0, addresses = 0, simple = 0, realigned = 0, end = 0, signal = 0, full = 0, bad = 0;
  std::uint64_t bytes = 0, full_bytes = 0;
};

/// Compares all rows of a loaded object. Returns how many rules it has of each kind.
Counts compare(const std::string& path, const std::vector<Entry>& entries, std::uint64_t base) {
  Counts counts;
  std::size_t differences = 0;
  std::string first;
  const auto differs = [&](std::uint64_t pc, const std::string& what) {
    if (differences++ < 10) {
      char address[32];
      std::snprintf(address, sizeof address, "%#llx: ", static_cast<unsigned long long>(pc));
      first += address + what + "\n";
    }
  };
  const Module* module = nullptr;  // Without _dl_find_object, finding it takes a read of /proc/self/maps.
  for (const Entry& entry : entries) {
    for (std::size_t i = 0; i < entry.rows.size(); ++i) {
      const Row& expected = entry.rows[i];
      const std::uint64_t end = i + 1 < entry.rows.size() ? entry.rows[i + 1].location : entry.end;
      if (end <= expected.location) continue;  // an empty row
      ++counts.rows;
      for (const std::uint64_t pc : {expected.location, end - 1}) {
        ++counts.addresses;
        if (module == nullptr || !module->map.contains(base + pc)) module = find_module(base + pc, generation());
        CfiRow row;
        const FrameAddress address{ProgramCounter{base + pc}, true};
        const RowKind found = module == nullptr ? RowKind::kNone : find_row(module, address, row);
        if (found == RowKind::kSignal) {
          ++counts.signal;
          continue;
        }
        if (found != RowKind::kRow) {
          ++counts.bad;
          differs(pc, "no row");
          continue;
        }
        const std::string cfa =
            row.cfa_is_expression ? "exp" : std::string(kNames[row.cfa_register]) + signed_number(row.cfa_offset);
        if (cfa != expected.cfa) differs(pc, "CFA " + cfa + ", not " + expected.cfa);
        for (const auto& [number, where] : expected.registers) {
          if (number >= arch::kDwarfRegisters) continue;
          const std::string ours = print(row.rule[number], row.value[number]);
          if (ours != (where == "s" ? "u" : where))
            differs(pc, std::string(kNames[number]) + " " + ours + ", not " + where);
        }
        const Rule rule = make_rule(row, ModuleId::kFirst, base + pc);
        switch (rule.kind()) {
          case RuleKind::kSp:
          case RuleKind::kFp: {
            ++counts.simple;
            if (row.cfa_is_expression) break;  // PLT: see below
            const std::string base_name = rule.kind() == RuleKind::kSp ? "rsp" : "rbp";
            const std::string again = base_name + signed_number(static_cast<std::int64_t>(rule.cfa_offset()));
            if (again != expected.cfa) differs(pc, "CFA of the rule: " + again + ", not " + expected.cfa);
            const std::string fp =
                rule.fp_unchanged() ? "u" : "c" + signed_number(static_cast<std::int64_t>(rule.fp_offset()));
            const std::string fp_row = print(row.rule[arch::kDwarfFp], row.value[arch::kDwarfFp]);
            if (fp != fp_row && fp_row != "exp") differs(pc, "rbp of the rule: " + fp + ", not " + fp_row);
            if (static_cast<std::int64_t>(rule.ra_offset()) != -8) differs(pc, "return address of the rule");
            break;
          }
          case RuleKind::kRealigned: ++counts.realigned; break;
          case RuleKind::kOutermost: ++counts.end; break;
          case RuleKind::kFull:
            ++counts.full;
            if (pc == expected.location) counts.full_bytes += end - pc;
            break;
          default: ++counts.bad; differs(pc, "no rule");
        }
        if (pc == expected.location) counts.bytes += end - pc;
      }
    }
  }
  INFO(path << "\n" << first);
  CHECK(differences == 0);
  CHECK(counts.bad == 0);
  return counts;
}

}  // namespace

TEST_CASE("every row of real libraries is as readelf prints it") {
  REQUIRE(g_started);
  dlopen("libcrypto.so.3", RTLD_LAZY);
  struct Object {
    std::string path;
    std::uint64_t base;
  };
  std::vector<Object> objects;
  for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next)
    objects.push_back({map->l_name[0] != '\0' ? map->l_name : "/proc/self/exe", map->l_addr});
  std::size_t compared = 0;
  for (const Object& object : objects) {
    if (object.path[0] != '/') continue;  // the vdso
    char real_path[4096];
    if (realpath(object.path.c_str(), real_path) == nullptr) continue;
    const bool is_program = real_path == program_path();
    const std::vector<Entry> of_library = is_program ? std::vector<Entry>() : read_with_readelf(real_path);
    const Counts counts = compare(real_path, is_program ? entries_of_the_program() : of_library, object.base);
    if (counts.rows == 0) continue;
    ++compared;
    std::cout << real_path << ": " << counts.rows << " rows; of " << counts.addresses << " addresses "
              << counts.simple << " simple, " << counts.realigned << " realigned, " << counts.end << " outermost, "
              << counts.signal << " signal, " << counts.full << " by all registers, which is "
              << 100.0 * static_cast<double>(counts.full_bytes) / static_cast<double>(counts.bytes)
              << "% of the code\n";
    CHECK(counts.simple + counts.realigned > counts.addresses * 98 / 100);
  }
  CHECK(compared >= 4);
}

TEST_CASE("PLT entries have a simple rule at each address") {
  REQUIRE(g_started);
  // The program's PLT: before the push of the relocation's number CFA = sp + 8, after it sp + 16.
  std::size_t seen = 0;
  for (const Entry& entry : entries_of_the_program()) {
    for (const Row& row : entry.rows) {
      if (row.cfa != "exp" || row.registers.size() != 1) continue;
      for (std::uint64_t pc = row.location; pc < row.location + 32; ++pc) {
        const std::uint64_t address = pc + _r_debug.r_map->l_addr;
        CfiRow found;
        const FrameAddress at{ProgramCounter{address}, true};
        REQUIRE(find_row(find_module(address, generation()), at, found) == RowKind::kRow);
        const Rule rule = make_rule(found, ModuleId::kFirst, address);
        CHECK(rule.kind() == RuleKind::kSp);
        CHECK(rule.cfa_offset() == (address % 16 >= 11 ? 16 : 8));
        CHECK(rule.fp_unchanged());
      }
      ++seen;
    }
  }
  CHECK(seen > 0);
}

TEST_CASE("an aligned pointer after the end of the span is not read") {
  alignas(8) const std::uint8_t bytes[16] = {};
  const auto begin = reinterpret_cast<std::uint64_t>(bytes);
  CfiReader reader({begin + 1, begin + 3});
  reader.pointer(0x50, 0);
  CHECK_FALSE(reader.ok());
}

TEST_CASE("unwind information outside all segments, without a search table, is invalid") {
  // Version 1; .eh_frame 256 MiB from here; no count, no table.
  alignas(8) static const std::uint8_t header[16] = {1, 0x1b, 0xff, 0xff, 0, 0, 0, 0x10};
  ElfObject object{};
  object.eh_frame_hdr = reinterpret_cast<std::uint64_t>(header);
  object.hdr_segment = {object.eh_frame_hdr, object.eh_frame_hdr + sizeof header};
  object.eh_frame_segment = {};  // as after read_object(), if no segment contains the address
  CfiEntry entry;
  CHECK(find_cfi(object, 0x1000, entry) == CfiResult::kInvalid);
}

TEST_CASE("damaged unwind information does not lead to reads outside it") {
  REQUIRE(g_started);
  // A CIE and an FDE, with each byte replaced by every other value. No result may read outside the bytes (run it
  // under valgrind or with a sanitizer) or take long.
  alignas(8) static const std::uint8_t kFrames[] = {
      0x14, 0,    0,    0,  0,    0,    0,    0,    1,    'z',  'R', 0,
      1,    0x78, 16,   1,  0x00, 0x0c, 7,    8,    0x90, 1,    0,   0,  // CIE
      0x1c, 0,    0,    0,  0x1c, 0,    0,    0,    0x00, 0x10, 0,   0,
      0,    0,    0,    0,  0x40, 0,    0,    0,    0,    0,    0,   0,  // 0x1000...0x1040
      0,    0x41, 0x0e, 16, 0x86, 2,    0x0a, 0x0b, 0,    0,    0,   0};
  const auto begin = reinterpret_cast<std::uint64_t>(kFrames);
  CfiEntry entry;
  CfiRow row;
  REQUIRE(find_cfi_linear({begin, begin + sizeof kFrames}, 0x1010, entry) == CfiResult::kFound);
  REQUIRE(run_cfi(entry, 0x1010, row));
  CHECK(row.cfa_offset == 16);
  CHECK(row.rule[arch::kDwarfFp] == RegisterRule::kOffset);
  CHECK(row.value[arch::kDwarfFp] == -16);
  CHECK(find_cfi_linear({begin, begin + sizeof kFrames}, 0x1040, entry) == CfiResult::kNone);

  std::size_t found = 0, refused = 0;
  for (std::size_t at = 0; at < sizeof kFrames; ++at) {
    for (int value = 0; value < 256; ++value) {
      const std::unique_ptr<std::uint8_t[]> damaged(new std::uint8_t[sizeof kFrames]);
      std::memcpy(damaged.get(), kFrames, sizeof kFrames);
      damaged[at] = static_cast<std::uint8_t>(value);
      const auto address = reinterpret_cast<std::uint64_t>(damaged.get());
      const bool ok = find_cfi_linear({address, address + sizeof kFrames}, 0x1010, entry) == CfiResult::kFound &&
                      run_cfi(entry, 0x1010, row);
      ++(ok ? found : refused);
    }
  }
  CHECK(found > 0);
  CHECK(refused > 0);
  for (std::size_t length = 0; length < sizeof kFrames; ++length) {
    const std::unique_ptr<std::uint8_t[]> cut(new std::uint8_t[length]);
    std::memcpy(cut.get(), kFrames, length);
    const auto address = reinterpret_cast<std::uint64_t>(cut.get());
    if (find_cfi_linear({address, address + length}, 0x1010, entry) == CfiResult::kFound) run_cfi(entry, 0x1010, row);
  }
}
