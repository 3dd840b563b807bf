#include "preload/recorder/process/settings.h"

#include <catch2/catch.hpp>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "analyzer/trace/events/limits.h"

using namespace heapprof::recorder;

namespace {

std::string g_log_text;

Settings read(std::vector<std::string> lines) {
  const std::string log = "/tmp/heapprof-settings-test-" + std::to_string(getpid());
  lines.push_back("HEAPPROF_LOG_FILE=" + log);
  std::vector<char*> environment;
  for (std::string& line : lines) environment.push_back(line.data());
  environment.push_back(nullptr);
  g_settings = Settings{};
  g_settings.read(environment.data());
  std::ifstream file(log);
  std::stringstream text;
  text << file.rdbuf();
  g_log_text = text.str();
  std::filesystem::remove(log);
  const Settings result = g_settings;
  g_settings = Settings{};
  return result;
}

}  // namespace

TEST_CASE("A block is never larger than readers allow") {
  constexpr std::uint32_t kMax = heapprof::trace::kMaxBlockBytes;
  CHECK(Settings{}.block_bytes <= kMax);
  CHECK(read({"HEAPPROF_BLOCK_BYTES=" + std::to_string(kMax)}).block_bytes == kMax);
  CHECK(read({"HEAPPROF_BLOCK_BYTES=" + std::to_string(kMax + 1)}).block_bytes <= kMax);
}

TEST_CASE("Without variables the documented defaults are used") {
  const Settings settings = read({});
  CHECK(std::string(settings.output) == heapprof::kDefaultOutput);
  CHECK(settings.log == LogLevel::kWarn);
  CHECK(settings.shadow_stack);
  CHECK(settings.max_depth == 1024);
  CHECK(settings.mmap);
  CHECK_FALSE(settings.free_stacks);
  CHECK_FALSE(settings.children);
  CHECK_FALSE(settings.paused);
  CHECK(settings.max_file_bytes == 0);
  CHECK(g_log_text.empty());
}

TEST_CASE("Switches, sizes and levels are accepted in all their spellings") {
  for (const char* yes : {"1", "on", "yes"}) CHECK(read({std::string("HEAPPROF_CHILDREN=") + yes}).children);
  for (const char* no : {"0", "off", "no"}) CHECK_FALSE(read({std::string("HEAPPROF_MMAP=") + no}).mmap);
  CHECK(read({}).snapshots);
  CHECK_FALSE(read({"HEAPPROF_SNAPSHOTS=0"}).snapshots);
  CHECK(read({"HEAPPROF_MAX_FILE_SIZE=2G"}).max_file_bytes == 2ull << 30);
  CHECK(read({"HEAPPROF_MAX_FILE_SIZE=500k"}).max_file_bytes == 500ull << 10);
  CHECK(read({"HEAPPROF_MAX_FILE_SIZE=123"}).max_file_bytes == 123);
  CHECK(read({"HEAPPROF_LOG=debug"}).log == LogLevel::kDebug);
  CHECK(g_log_text.empty());
}

TEST_CASE("An invalid value is one warning, and the default is used") {
  const Settings settings =
      read({"HEAPPROF_MAX_DEPTH=many", "HEAPPROF_MAX_FILE_SIZE=99999999999999T", "HEAPPROF_MMAP=maybe"});
  CHECK(settings.max_depth == 1024);
  CHECK(settings.max_file_bytes == 0);
  CHECK(settings.mmap);
  CHECK(std::count(g_log_text.begin(), g_log_text.end(), '\n') == 3);
  CHECK(g_log_text.find("HEAPPROF_MAX_DEPTH: invalid value 'many'; expected a number from 1 to 65536") !=
        std::string::npos);
}

TEST_CASE("Labels are stored as they are, or not at all") {
  CHECK(std::string(read({"HEAPPROF_LABELS=env=prod,note=a%2Cb"}).labels) == "env=prod,note=a%2Cb");
  CHECK(g_log_text.empty());
  for (const std::string& wrong : {std::string("nonsense"), std::string("a=b\nHEAPPROF_PAUSED=1"),
                                   "a=" + std::string(heapprof::kMaxLabelsBytes, 'x')}) {
    CHECK(std::string(read({"HEAPPROF_LABELS=" + wrong}).labels).empty());
    CHECK(g_log_text.find("HEAPPROF_LABELS: invalid value") != std::string::npos);
  }
}

TEST_CASE("The old name of a variable is still read, and the new one has precedence") {
  CHECK(read({}).embedded_allocators);
  CHECK_FALSE(read({"HEAPPROF_OWN_ALLOCATORS=0"}).embedded_allocators);
  CHECK_FALSE(read({"HEAPPROF_EMBEDDED_ALLOCATORS=off"}).embedded_allocators);
  CHECK(read({"HEAPPROF_EMBEDDED_ALLOCATORS=1", "HEAPPROF_OWN_ALLOCATORS=0"}).embedded_allocators);
  CHECK_FALSE(read({"HEAPPROF_OWN_ALLOCATORS=1", "HEAPPROF_EMBEDDED_ALLOCATORS=0"}).embedded_allocators);
  CHECK(g_log_text.empty());
}

TEST_CASE("The echo contains every setting") {
  char text[2048];
  Settings settings;
  settings.max_depth = 77;
  // Long labels have room beside the longest path.
  std::fill_n(settings.labels, heapprof::kMaxLabelsBytes, 'l');
  std::fill_n(settings.output, sizeof settings.output - 1, 'o');
  const std::string echo(text, settings.echo(text, sizeof text));
  CHECK(echo.find("HEAPPROF_MAX_DEPTH=77\n") != std::string::npos);
  CHECK(echo.find("HEAPPROF_LABELS=" + std::string(settings.labels) + "\n") != std::string::npos);
  CHECK(echo.find("HEAPPROF_OUTPUT=oooo") != std::string::npos);
}
