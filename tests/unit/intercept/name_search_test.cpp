// The search for names in a string table, compared with one that looks at each offset.
#include "preload/intercept/name_search.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/seed.h"

using namespace heapprof::intercept;

namespace {

std::uint32_t last_word(const std::string& text) {
  std::uint32_t word;
  std::memcpy(&word, text.data() + text.size() - 4, 4);
  return word;
}

/// What find_names() visits of the table: names by offset.
std::map<std::uint64_t, std::string> found_in(const std::string& table, std::uint32_t last) {
  std::vector<char> memory(kNamePieceBytes);
  std::map<std::uint64_t, std::string> found;
  const bool searched = find_names(
      table.size(), memory.data(),
      [&](char* to, std::size_t bytes, std::uint64_t offset) {
        REQUIRE(offset + bytes <= table.size());
        REQUIRE((to >= memory.data() && to + bytes <= memory.data() + memory.size()));
        std::memcpy(to, table.data() + offset, bytes);
        return true;
      },
      [&](std::uint32_t word) { return word == last; },
      [&](const char* name, std::uint64_t offset) { found[offset] = name; });
  CHECK(searched);
  return found;
}

}  // namespace

TEST_CASE("Names are found wherever they begin, also in the middle and across pieces") {
  const auto table_number = GENERATE(1u, 2u, 3u);
  std::mt19937 random(heapprof::test::seed(table_number));
  std::string table(1, '\0');
  while (table.size() < 5 * kNamePieceBytes) {
    // Around the end of a piece, nearly all strings end with the name.
    const std::size_t to_end = kNamePieceBytes - table.size() % kNamePieceBytes;
    const bool wanted = to_end < 400 || random() % 20 == 0;
    for (std::size_t left = random() % (random() % 10 == 0 ? 300 : 70); left != 0; --left)
      table += static_cast<char>(random() % 30 == 0 ? 1 : 'a' + random() % 3);
    if (wanted) table += "_malloc";
    table += '\0';
  }
  if (table_number == 2) table += "not terminated_malloc";
  std::map<std::uint64_t, std::string> expected;
  for (std::uint64_t at = 0; at < table.size(); ++at) {
    const std::size_t end = table.find('\0', at);
    if (end == std::string::npos) break;
    const std::string name = table.substr(at, end - at);
    if (name.size() >= kShortestName && name.size() <= kLongestName && name.ends_with("lloc")) expected[at] = name;
  }
  CHECK(expected.size() > 1'000);
  CHECK((found_in(table, last_word("lloc")) == expected));
}

TEST_CASE("Only names of the wanted lengths are found") {
  const std::string table("\0a_free\0free\0another_free\0", 26);
  std::vector<char> memory(kNamePieceBytes);
  std::map<std::uint64_t, std::string> found;
  REQUIRE(find_names(
      table.size(), memory.data(),
      [&](char* to, std::size_t bytes, std::uint64_t offset) {
        std::memcpy(to, table.data() + offset, bytes);
        return true;
      },
      [](std::uint32_t) { return true; }, [&](const char* name, std::uint64_t offset) { found[offset] = name; },
      [](std::uint32_t) { return length_bit("free") | length_bit("an_free"); }));
  CHECK((found == std::map<std::uint64_t, std::string>{{3, "free"}, {8, "free"}, {18, "er_free"}, {21, "free"}}));
  CHECK(length_bit("x") == 1);
}

TEST_CASE("Tables without a name have none, and a failed read ends the search") {
  for (const std::string& table : {std::string(), std::string(1, '\0'), std::string("abc"), std::string("abc\0", 4)})
    CHECK(found_in(table, last_word("xabc")).empty());
  CHECK(found_in(std::string("\0free\0", 6), last_word("free")).at(1) == "free");
  char memory[kNamePieceBytes];
  CHECK_FALSE(find_names(
      1'000'000, memory, [](char*, std::size_t, std::uint64_t offset) { return offset == 0; },
      [](std::uint32_t) { return false; }, [](const char*, std::uint64_t) {}));
}
