// The search for branches in code, compared with one that looks at each byte in turn; and the groups of patches for
// which it is done.
#include "preload/intercept/x86_64/near_branches.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "preload/intercept/x86_64/patch_groups.h"
#include "tests/support/seed.h"

using heapprof::intercept::AddressRange;
using heapprof::intercept::find_near_branches;
using heapprof::intercept::PatchGroups;

namespace {

using Branches = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

struct Code {
  explicit Code(std::size_t size) : bytes(size) {}
  std::uint64_t begin() const { return reinterpret_cast<std::uint64_t>(bytes.data()); }
  std::uint64_t end() const { return begin() + bytes.size(); }
  /// A branch whose displacement is at `position`, to `to` bytes after begin().
  void plant(std::size_t position, std::vector<unsigned char> opcode, std::int64_t to) {
    std::memcpy(bytes.data() + position - opcode.size(), opcode.data(), opcode.size());
    const auto distance = static_cast<std::int32_t>(to - static_cast<std::int64_t>(position) - 4);
    std::memcpy(bytes.data() + position, &distance, sizeof distance);
  }
  std::vector<unsigned char> bytes;
};

Branches found(const Code& code, std::uint64_t low, std::uint64_t high) {
  Branches result;
  find_near_branches(code.begin(), code.end(), low, high,
                     [&](std::uint64_t at, std::uint64_t to) { result.emplace_back(at, to); });
  return result;
}

/// Opcodes as in the processor's manual: CALL and JMP rel32, Jcc rel32, XBEGIN rel32.
Branches expected(const Code& code, std::uint64_t low, std::uint64_t high) {
  Branches result;
  const std::vector<unsigned char>& bytes = code.bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::size_t opcode = 0;
    if (bytes[i] == 0xe8 || bytes[i] == 0xe9) opcode = 1;
    if (i + 1 < bytes.size() && bytes[i] == 0x0f && bytes[i + 1] >= 0x80 && bytes[i + 1] <= 0x8f) opcode = 2;
    if (i + 1 < bytes.size() && bytes[i] == 0xc7 && bytes[i + 1] == 0xf8) opcode = 2;
    if (opcode == 0 || i + opcode + 4 > bytes.size()) continue;
    std::int32_t distance;
    std::memcpy(&distance, bytes.data() + i + opcode, 4);
    const std::uint64_t to = code.begin() + i + opcode + 4 + static_cast<std::uint64_t>(std::int64_t{distance});
    if (to >= low && to < high) result.emplace_back(code.begin() + i, to);
  }
  return result;
}

}  // namespace

TEST_CASE("Branches are found at every position, and no others") {
  const auto seed = GENERATE(1u, 2u, 3u, 4u);
  std::mt19937 random(heapprof::test::seed(seed));
  const std::vector<std::vector<unsigned char>> opcodes{{0xe8}, {0xe9}, {0x0f, 0x80}, {0x0f, 0x8f}, {0xc7, 0xf8}};
  std::size_t branches = 0;
  for (std::size_t size = 0; size < 120; ++size) {
    Code code(size);
    for (unsigned char& byte : code.bytes) byte = static_cast<unsigned char>(random());
    const auto at = static_cast<std::int64_t>(random() % 100000) - 50000;
    const auto span = static_cast<std::int64_t>(1 + random() % 1000);
    for (std::size_t position = 2; position + 4 <= size; position += 1 + random() % 9)
      code.plant(position, opcodes[random() % opcodes.size()],
                 at - 3 + static_cast<std::int64_t>(random() % static_cast<unsigned>(span + 6)));
    const std::uint64_t low = code.begin() + static_cast<std::uint64_t>(at);
    const std::uint64_t high = low + static_cast<std::uint64_t>(span);
    Branches result = found(code, low, high);
    std::sort(result.begin(), result.end());  // they come in no order
    REQUIRE(result == expected(code, low, high));
    branches += result.size();
  }
  CHECK(branches > 100);
}

TEST_CASE("Branches to a distant range are found at every position, also where the distance has another upper half") {
  const auto seed = GENERATE(1u, 2u, 3u, 4u);
  std::mt19937 random(heapprof::test::seed(seed));
  const std::vector<std::vector<unsigned char>> opcodes{{0xe8}, {0xe9}, {0x0f, 0x80}, {0x0f, 0x8f}, {0xc7, 0xf8}};
  for (const std::int64_t span : {1, 2, 15, 16, 17, 4000, 30'000, 32'735, 32'737, 60'000, 200'000}) {
    Code code(150'000 + random() % 70'000);
    for (unsigned char& byte : code.bytes) byte = static_cast<unsigned char>(random());
    const std::int64_t at = (random() % 2 == 0 ? 1 : -1) * static_cast<std::int64_t>(random() % 5'000'000);
    // Often at the ends of the range.
    const auto target = [&] {
      const auto near = static_cast<std::int64_t>(random() % 4);
      const std::int64_t to = random() % 3 == 0   ? near - 2
                              : random() % 2 == 0 ? span + near - 2
                                                  : static_cast<std::int64_t>(random() % static_cast<unsigned>(span));
      return at + to;
    };
    for (std::size_t position = 2; position + 4 <= code.bytes.size(); position += 4 + random() % 20)
      code.plant(position, opcodes[random() % opcodes.size()], target());
    const std::uint64_t low = code.begin() + static_cast<std::uint64_t>(at);
    const std::uint64_t high = low + static_cast<std::uint64_t>(span);
    Branches result = found(code, low, high);
    std::sort(result.begin(), result.end());
    INFO(span);
    CHECK(result.size() > 1'000);
    CHECK((result == expected(code, low, high)));
  }
}

TEST_CASE("The first and the last possible branch are found") {
  for (std::size_t size = 6; size < 70; ++size) {
    Code code(size);
    code.plant(1, {0xe9}, 3);
    CHECK(found(code, code.begin() + 3, code.begin() + 4) == Branches{{code.begin(), code.begin() + 3}});
    code = Code(size);
    code.plant(size - 4, {0x0f, 0x85}, 1);
    CHECK(found(code, code.begin() + 1, code.begin() + 2) == Branches{{code.end() - 6, code.begin() + 1}});
  }
}

TEST_CASE("Each patch is in one group, and groups are far from each other") {
  const auto seed = GENERATE(1u, 2u, 3u, 4u, 5u, 6u);
  std::mt19937_64 random(heapprof::test::seed(seed));
  for (int round = 0; round < 200; ++round) {
    std::vector<AddressRange> patches(random() % 40);
    const std::uint64_t places = 1 + random() % 7;  // of patches, a megabyte apart
    for (AddressRange& patch : patches) {
      patch.begin = 0x10000000 + (random() % places << 20) + random() % (round % 2 == 0 ? 20'000 : 80'000);
      patch.end = patch.begin + 5 + random() % 12;
    }
    const PatchGroups groups(patches.size(), [&](std::size_t i) { return patches[i]; });
    const auto count = static_cast<std::size_t>(groups.end() - groups.begin());
    REQUIRE(count <= PatchGroups::kMaxGroups);
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const AddressRange& group = groups.begin()[i];
      bytes += group.end - group.begin;
      if (i != 0) CHECK(group.begin > groups.begin()[i - 1].end + PatchGroups::kMaxGap);
    }
    for (const AddressRange& patch : patches) {
      const auto holds = [&](const AddressRange& group) {
        return patch.begin >= group.begin && patch.end <= group.end;
      };
      CHECK(std::count_if(groups.begin(), groups.end(), holds) == 1);
    }
    if (round % 2 == 0 && places <= PatchGroups::kMaxGroups) CHECK(bytes <= places * 20'100);
  }
}
