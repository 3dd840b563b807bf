// Files beside a trace or in a cache, which others may have written: an index of a valid trace, a symbol table, a
// JIT's perf map. Their contents are arbitrary, with valid checksums and lengths.
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "analyzer/base/atomic_file.h"
#include "analyzer/replay/index/index.h"
#include "analyzer/symbols/module_symbols.h"
#include "analyzer/symbols/perf_map.h"
#include "common/checksum.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/sections.h"
#include "tests/fuzz/whole_report.h"
#include "tests/support/trace_builder.h"

namespace {

using namespace heapprof;

/// A folder with a trace, and the name of an index beside it, each a link to a file in memory.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/heapprof-fuzz-XXXXXX";
    if (::mkdtemp(name) == nullptr) std::abort();
    folder_ = name;
    perf_map_.give_name(folder_ + "/perf.map");
    test::TraceBuilder trace;
    trace.frame_extent_bytes = 16 << 10;
    for (std::uint64_t number : {0u, 1u}) {
      auto& stream = trace.stream();
      stream.thread(static_cast<std::uint32_t>(100 + number), "worker");
      if (number == 0) {
        stream.node(1, 0, 0, 0x100);
        stream.node(2, 1, 0, 0x200);
      }
      for (std::uint64_t i = 1; i < 200; ++i) {
        stream.alloc(i * 1000 + number, 0x10000 * (number + 1) + i * 64, 48, 1 + i % 2);
        if (i % 3 != 0) stream.free(i * 1000 + 500, 0x10000 * (number + 1) + i * 64);
      }
    }
    const std::vector<std::uint8_t> bytes = trace.bytes();
    if (!trace_.fill(bytes.data(), bytes.size())) std::abort();
    std::filesystem::create_symlink(trace_.path(), path());
    std::filesystem::create_symlink(index_.path(), path() + ".idx");
  }
  ~Folder() { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/trace.heapprof"; }
  fuzz::MemoryFile& index() { return index_; }
  /// Not a link, because heapprof does not follow links to perf maps.
  fuzz::MemoryFile& perf_map() { return perf_map_; }

 private:
  std::string folder_;
  fuzz::MemoryFile trace_;
  fuzz::MemoryFile index_;
  fuzz::MemoryFile perf_map_;
};

/// The header of an index of `file`.
std::vector<std::uint8_t> index_header(const trace::TraceFile& file, const std::string& scratch) {
  AtomicFile out(scratch);
  replay::write_index_header(out, file);
  out.finish();
  std::vector<std::uint8_t> bytes(std::filesystem::file_size(scratch));
  const trace::InputFile in(scratch);
  if (!in.read_all(0, bytes.data(), bytes.size())) std::abort();
  return bytes;
}

/// Sections: kind, numbers and contents, each optional in the input.
void index_of_a_trace(Folder& folder, fuzz::Input& input) {
  static const trace::TraceFile file(folder.path());
  static const std::vector<std::uint8_t> header = index_header(file, folder.path() + ".new");
  std::vector<std::uint8_t> bytes = header;
  std::uint8_t bits = 0;
  while (input.left() >= 4) {
    const auto what = input.take<std::uint8_t>();
    bits ^= what >> 5;
    trace::SectionHeader section{};
    section.kind = static_cast<trace::SectionKind>((what & 7) == 0 ? 8 : what & 7);
    if (section.kind == trace::SectionKind::kOrigin) section.kind = trace::SectionKind::kHistory;
    if (section.kind == trace::SectionKind::kChunk) section.kind = trace::SectionKind::kFrames;
    if (section.kind == trace::SectionKind::kPadding) section.kind = trace::SectionKind::kLives;
    if (section.kind == trace::SectionKind::kPinned) section.kind = trace::SectionKind::kState;
    // At the end of the trace or not, with its older blocks or without.
    if (section.kind == trace::SectionKind::kState) section.events = (what >> 5) * std::uint64_t{2};
    section.file_id = file.file_id();
    section.number = (what & 8) != 0 ? input.take<std::uint64_t>() : 100;
    section.last_time = (what & 16) != 0 ? input.take<std::uint64_t>() : 40000;
    fuzz::add_section(bytes, section, input.text(input.take<std::uint16_t>()));
  }
  if (!folder.index().fill(bytes.data(), bytes.size())) return;
  replay::Selection selection;
  selection.from = replay::Moment{50, true};
  selection.to = replay::Moment{90, true};
  selection.only_costs = (bits & 1) != 0;
  if ((bits & 3) == 3) {  // of the whole recording, with its history
    selection.from.reset();
    selection.to.reset();
    selection.with_timeline = true;
  }
  fuzz::whole_report(folder.path(), selection, {.reports = (bits & 6) == 0, .second_pass = (bits & 1) != 0});
}

/// A table of names, as it is in a bundled trace or in the cache.
void packed_symbols(const std::string& packed) {
  const auto modules = symbols::decode_symbols(packed);
  if (!modules) return;
  for (const auto& module : *modules)
    for (const std::uint64_t address : module.addresses)
      if (module.find(address) == nullptr) std::abort();
  // Encoding and decoding the symbols again gives the same ones.
  const auto again = symbols::decode_symbols(symbols::encode_symbols(*modules));
  if (!again || again->size() != modules->size()) std::abort();
}

/// `with_header`: with a valid header; otherwise the input's bytes.
void symbol_table(fuzz::Input& input, bool with_header) {
  if (!with_header) return packed_symbols(input.text(input.left()));
  const std::vector<std::uint8_t> bytes = fuzz::stored({reinterpret_cast<const char*>(input.data()), input.left()});
  const std::uint64_t numbers[] = {input.left(), bytes.size(), checksum(bytes.data(), bytes.size())};
  for (const char* const magic : {"HPFNAME1", "HPFNAME2"}) {
    std::string packed(magic);
    packed.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
    packed.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    packed_symbols(packed);
  }
}

void perf_map(Folder& folder, fuzz::Input& input) {
  const std::string text = input.text(input.left());
  symbols::PerfMap map;
  uid_t owner = 0;
  if (!folder.perf_map().fill(text.data(), text.size()) ||
      map.read(folder.perf_map().path(), {}, owner) != symbols::PerfMap::Result::kRead)
    std::abort();
  for (std::uint64_t address = 1; address != 0; address <<= 1) map.find(address - 1);
  symbols::frame_of_jit_name(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Folder folder;
  fuzz::Input input(data, size);
  switch (input.take<std::uint8_t>() % 4) {
    case 0: index_of_a_trace(folder, input); break;
    case 1: symbol_table(input, true); break;
    case 2: symbol_table(input, false); break;
    default: perf_map(folder, input); break;
  }
  return 0;
}
