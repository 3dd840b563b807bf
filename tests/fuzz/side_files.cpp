// Files that lie beside a trace or in a cache, and that others may have written: an index of a sound trace, a table of names,
// a JIT's perf map. Checksums, lengths and compression are made here, so that what they enclose is the fuzzer's.
#include <zstd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "analyzer/replay/index.h"
#include "analyzer/symbols/name_table.h"
#include "analyzer/symbols/perf_map.h"
#include "common/checksum.h"
#include "tests/fuzz/input.h"
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
    test::TraceBuilder trace;
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

  std::string path() const { return folder_ + "/trace.hprof"; }
  std::string perf_map() const { return folder_ + "/perf.map"; }
  fuzz::MemoryFile& index() { return index_; }

 private:
  std::string folder_;
  fuzz::MemoryFile trace_;
  fuzz::MemoryFile index_;
};

/// The header that every index of `file` has: what an empty one begins with.
std::vector<std::uint8_t> index_header(const trace::TraceFile& file, const std::string& scratch) {
  trace::NewFile out(scratch);
  replay::write_index_header(out, file);
  out.finish();
  std::vector<std::uint8_t> bytes(std::filesystem::file_size(scratch));
  const trace::InputFile in(scratch);
  if (!in.read_all(0, bytes.data(), bytes.size())) std::abort();
  return bytes;
}

/// Sections: kind, numbers and contents, each as short as the input likes.
void index_of_a_trace(Folder& folder, fuzz::Input& input) {
  static const trace::TraceFile file(folder.path());
  static const std::vector<std::uint8_t> header = index_header(file, folder.path() + ".new");
  std::vector<std::uint8_t> bytes = header;
  std::uint8_t second_pass_bits = 0;
  while (input.left() >= 4) {
    const auto what = input.take<std::uint8_t>();
    second_pass_bits ^= what >> 5;
    trace::SectionHeader section{};
    section.kind = static_cast<trace::SectionKind>(what & 7);
    section.file_id = file.file_id();
    section.number = (what & 8) != 0 ? input.take<std::uint64_t>() : 100;
    section.last_time = (what & 16) != 0 ? input.take<std::uint64_t>() : 40000;
    const std::string contents = input.text(input.take<std::uint16_t>());
    const auto* data = reinterpret_cast<const std::uint8_t*>(contents.data());
    const std::vector<std::uint8_t> made = trace::make_section(section, {data, contents.size()}, 1);
    bytes.insert(bytes.end(), made.begin(), made.end());
  }
  if (!folder.index().fill(bytes.data(), bytes.size())) return;
  replay::Selection selection;
  selection.from = replay::Moment{50, true};
  selection.to = replay::Moment{90, true};
  fuzz::whole_report(folder.path(), selection, (second_pass_bits & 1) != 0);
}

/// `sound`: a header that fits; else the bytes as they are.
void table_of_names(fuzz::Input& input, bool sound) {
  std::string packed;
  if (sound) {
    packed.resize(32 + ZSTD_compressBound(input.left()));
    const std::size_t bytes = ZSTD_compress(packed.data() + 32, packed.size() - 32, input.data(), input.left(), 1);
    if (ZSTD_isError(bytes)) return;
    packed.resize(32 + bytes);
    const std::uint64_t numbers[] = {input.left(), bytes, checksum(packed.data() + 32, bytes)};
    std::memcpy(packed.data(), "HPFNAME1", 8);
    std::memcpy(packed.data() + 8, numbers, sizeof numbers);
  } else {
    packed = input.text(input.left());
  }
  const auto modules = symbols::unpack(packed);
  if (!modules) return;
  for (const auto& module : *modules)
    for (const std::uint64_t address : module.addresses)
      if (module.find(address) == nullptr) std::abort();
  // What was read can be written, and says the same.
  const auto again = symbols::unpack(symbols::pack(*modules));
  if (!again || again->size() != modules->size()) std::abort();
}

void perf_map(const Folder& folder, fuzz::Input& input) {
  const std::string text = input.text(input.left());
  std::FILE* const out = std::fopen(folder.perf_map().c_str(), "w");
  if (out == nullptr || std::fwrite(text.data(), 1, text.size(), out) != text.size() || std::fclose(out) != 0) std::abort();
  symbols::PerfMap map;
  if (!map.read(folder.perf_map(), 0)) std::abort();
  for (std::uint64_t address = 1; address != 0; address <<= 1) map.find(address - 1);
  symbols::frame_of_jit_name(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Folder folder;
  fuzz::Input input(data, size);
  switch (input.take<std::uint8_t>() % 4) {
    case 0: index_of_a_trace(folder, input); break;
    case 1: table_of_names(input, true); break;
    case 2: table_of_names(input, false); break;
    default: perf_map(folder, input); break;
  }
  return 0;
}
