// A file of arbitrary bytes as a trace. The first byte of the input decides whether checksums are corrected first: a
// fuzzer cannot guess them, but an attacker can compute them. Extents are small: `unpack` writes the parts of the
// input at the offsets that the reader reads.
#include <vector>

#include "common/checksum.h"
#include "common/trace_format.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/whole_report.h"

namespace {

using namespace heapprof;

/// Corrects the checksums of everything with a magic number: file header, extents at units, frames at multiples of 8.
void repair(std::vector<std::uint8_t>& file) {
  if (file.size() < sizeof(FileHeader)) return;
  FileHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  std::memcpy(header.magic, kFileMagic, sizeof kFileMagic);
  header.checksum = checksum(&header, offsetof(FileHeader, checksum));
  std::memcpy(file.data(), &header, sizeof header);
  for (std::size_t at = 0; at + sizeof(FrameHeader) <= file.size(); at += 8) {
    std::uint64_t magic;
    std::memcpy(&magic, &file[at], sizeof magic);
    if (magic == kExtentMagic && at % kUnitBytes == 0) {
      ExtentHeader extent;
      std::memcpy(&extent, &file[at], sizeof extent);
      extent.checksum = checksum(&extent, offsetof(ExtentHeader, checksum));
      std::memcpy(&file[at], &extent, sizeof extent);
    } else if (static_cast<std::uint32_t>(magic) == kFrameMagic) {
      FrameHeader frame;
      std::memcpy(&frame, &file[at], sizeof frame);
      if (frame.payload_bytes <= file.size() - at - sizeof frame)
        frame.payload_checksum = checksum(&file[at + sizeof frame], frame.payload_bytes);
      frame.header_checksum = checksum(&frame, offsetof(FrameHeader, header_checksum));
      std::memcpy(&file[at], &frame, sizeof frame);
    }
  }
}

/// The file that the input describes: parts of {offset in 8 bytes, length, bytes}, between zeros, so that a short
/// input describes a trace of 100 KB.
std::vector<std::uint8_t> unpack(fuzz::Input& input) {
  std::vector<std::uint8_t> file(std::size_t{input.take<std::uint16_t>()} * 64, 0);
  while (input.left() > 4) {
    const std::size_t at = std::size_t{input.take<std::uint16_t>()} * 8;
    const std::string bytes = input.text(input.take<std::uint16_t>());
    if (at < file.size()) std::memcpy(&file[at], bytes.data(), std::min(bytes.size(), file.size() - at));
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::MemoryFile memory;
  fuzz::Input input(data, size);
  const auto how = input.take<std::uint8_t>();
  std::vector<std::uint8_t> file =
      (how & 2) != 0 ? unpack(input) : std::vector<std::uint8_t>(input.data(), input.data() + input.left());
  if ((how & 1) != 0) repair(file);
  if (!memory.fill(file.data(), file.size())) return 0;
  if (!fuzz::is_tested_completely(data, size)) fuzz::read_events(memory.path());
  else fuzz::whole_report(memory.path(), {}, {.reports = (how & 0x18) == 0, .second_pass = (how & 4) != 0});
  return 0;
}
