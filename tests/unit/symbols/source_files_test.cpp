// Source files: packed into bundles, and found on this machine.
#include <catch2/catch.hpp>

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "analyzer/symbols/source_files.h"

using namespace heapprof::symbols;

namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = "/tmp/heapprof-test-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

std::string text_at(const SourcePlaces& places, const std::string& path) {
  std::string why_not;
  const std::optional<SourceText> found = find_source(places, path, why_not);
  return found ? found->text : "(" + why_not + ")";
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("packed sources are unpacked as they were") {
  const PackedSources sources = {{"/home/me/a.c", "int a;\n"}, {"b.c", ""}, {"c.c", std::string(100'000, 'x')}};
  const std::string packed = encode_sources(sources);
  CHECK(packed.size() < 10'000);
  CHECK(decode_sources(packed) == sources);
  CHECK(decode_sources(encode_sources({})) == PackedSources{});
}

TEST_CASE("damaged sources are refused") {
  const std::string packed = encode_sources({{"/home/me/a.c", "int a;\n"}, {"b.c", "int b;\n"}});
  for (std::size_t i = 0; i < packed.size(); ++i) {
    std::string damaged = packed;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    CHECK_FALSE(decode_sources(damaged));
    CHECK_FALSE(decode_sources(std::string_view(packed).substr(0, i)));
  }
}

TEST_CASE("a file is searched by the longest end of its path first, before the bundle and its own place") {
  const TemporaryDirectory root;
  const std::filesystem::path base = root.path();
  const std::string original = (base / "build/lib/a.c").string();
  SourcePlaces places;
  places.packed[original] = "bundle";
  CHECK(text_at(places, original) == "bundle");
  write(original, "original");
  CHECK(text_at(places, original) == "bundle");
  places.packed.clear();
  CHECK(text_at(places, original) == "original");
  places.directories = {(base / "elsewhere").string()};
  CHECK(text_at(places, original) == "original");
  write(base / "elsewhere/a.c", "by name");
  CHECK(text_at(places, original) == "by name");
  write(base / "elsewhere/lib/a.c", "by folder");
  CHECK(text_at(places, original) == "by folder");
}

TEST_CASE("files of another system are searched below its root directory") {
  const TemporaryDirectory root;
  const std::filesystem::path base = root.path();
  write(base / "usr/src/a.c", "there");
  CHECK(text_at({{}, base.string()}, "/usr/src/a.c") == "there");
  CHECK(text_at({{}, {}}, "/usr/src/heapprof-no-such-file.c") == "(was not found)");
}

TEST_CASE("only regular files of text are read, and a pipe is not waited for") {
  const TemporaryDirectory root;
  const std::filesystem::path base = root.path();
  write(base / "binary.c", std::string("int\0a;", 6));
  CHECK(text_at({}, (base / "binary.c").string()) == "(is not text)");
  CHECK(text_at({}, base.string()) == "(is no regular file)");
  const std::string pipe = (base / "pipe.c").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(text_at({}, pipe) == "(is no regular file)");
  write(base / "large.c", std::string(kMaxSourceBytes + 1, ' '));
  CHECK(text_at({}, (base / "large.c").string()) == "(is larger than 16 MiB)");
}

TEST_CASE("a path with .. does not lead out of a search directory") {
  const TemporaryDirectory root;
  const std::filesystem::path base = root.path();
  write(base / "secret.c", "secret");
  std::filesystem::create_directories(base / "search/lib");
  CHECK(text_at({{(base / "search").string()}, {}}, "lib/../../secret.c") == "(was not found)");
}

TEST_CASE("lines end at line feeds, with or without a carriage return") {
  CHECK(lines_of("").empty());
  CHECK(lines_of("a\nb") == std::vector<std::string_view>{"a", "b"});
  CHECK(lines_of("a\r\n\nb\n") == std::vector<std::string_view>{"a", "", "b"});
}
