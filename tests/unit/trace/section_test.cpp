// Sections: reading returns what was written, and a payload that claims more than max_contents_bytes() is refused.
#include "analyzer/trace/compact/section.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <random>

#include "analyzer/trace/files/byte_stream.h"
#include "common/checksum.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

using namespace heapprof;
using namespace heapprof::trace;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

constexpr std::uint64_t kFileId = 77;

std::vector<std::uint8_t> section_of(const std::vector<std::uint8_t>& contents) {
  SectionHeader header{};
  header.kind = SectionKind::kSnapshot;
  header.file_id = kFileId;
  return make_section(header, contents, 3);
}

std::vector<std::uint8_t> contents_of(const std::vector<std::uint8_t>& file) {
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), file);
  const InputFile input(path.path());
  const SectionTable table = walk_sections(input, kFileId, 0, input.size());
  REQUIRE(table.end == file.size());
  REQUIRE(table.snapshots.size() == 1);
  return read_contents(input, table.snapshots.front());
}

}  // namespace

TEST_CASE("Reading a section returns its contents, however well they compress") {
  std::mt19937_64 random(heapprof::test::seed(1));
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100'000}, std::size_t{40} << 20}) {
    CAPTURE(size);
    std::vector<std::uint8_t> contents(size, 0);
    CHECK(contents_of(section_of(contents)) == contents);
    if (size > 1'000'000) continue;
    for (std::uint8_t& byte : contents) byte = static_cast<std::uint8_t>(random());
    CHECK(contents_of(section_of(contents)) == contents);
  }
}

TEST_CASE("A section that compresses better than the limit is padded, so that readers accept it") {
  const std::vector<std::uint8_t> contents(std::size_t{40} << 20, 0);
  const std::vector<std::uint8_t> bytes = section_of(contents);
  SectionHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  CHECK(header.raw_bytes == contents.size());
  CHECK(header.raw_bytes <= max_contents_bytes(header.payload_bytes));

  // Without the padding it is refused before it is decompressed.
  header.payload_bytes = 4'000;
  header.payload_checksum = checksum(bytes.data() + sizeof header, header.payload_bytes);
  header.header_checksum = checksum(&header, offsetof(SectionHeader, header_checksum));
  std::vector<std::uint8_t> shorter(bytes.begin(), bytes.begin() + sizeof header + 4'000);
  std::memcpy(shorter.data(), &header, sizeof header);
  CHECK_THROWS_WITH(contents_of(shorter),
                    "a section of 4000 bytes claims 41943040 decompressed bytes, more than the limit");
}
