#include "tests/unit/cli/command_run.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

/// analyzer/main.cpp's main(), compiled under this name.
int heapprof_main(int argc, char** argv);

namespace heapprof::test {
namespace {

/// Redirects a descriptor of this process to memory during its lifetime.
class Redirected {
 public:
  Redirected(int descriptor, std::FILE* stream)
      : descriptor_(descriptor), stream_(stream), saved_(::dup(descriptor)), memory_(::memfd_create("output", 0)) {
    std::fflush(stream_);
    if (saved_ < 0 || memory_ < 0 || ::dup2(memory_, descriptor_) < 0) throw std::runtime_error("cannot redirect");
  }
  ~Redirected() {
    std::fflush(stream_);
    ::dup2(saved_, descriptor_);
    ::close(saved_);
    ::close(memory_);
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

  std::string text() const {
    std::fflush(stream_);
    std::string text(static_cast<std::size_t>(::lseek(memory_, 0, SEEK_END)), '\0');
    const ssize_t got = ::pread(memory_, text.data(), text.size(), 0);
    text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return text;
  }

 private:
  const int descriptor_;
  std::FILE* const stream_;
  const int saved_;
  const int memory_;
};

/// Sets the environment variables that may change an output.
void fix_environment() {
  ::setenv("HEAPPROF_SYMBOL_CACHE", "off", 1);
  ::setenv("XDG_CACHE_HOME", "/dev/null/no-cache", 1);
  ::setenv("LC_ALL", "C.UTF-8", 1);
  for (const char* name : {"HEAPPROF_OUTPUT", "HEAPPROF_CHILDREN", "HEAPPROF_MAX_DEPTH", "HEAPPROF_LOG",
                           "HEAPPROF_LOG_FILE", "DEBUGINFOD_URLS", "LD_PRELOAD"})
    ::unsetenv(name);
}

}  // namespace

Outcome run(const std::vector<std::string>& arguments) {
  fix_environment();
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), "heapprof");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const Redirected out(STDOUT_FILENO, stdout);
  const Redirected err(STDERR_FILENO, stderr);
  Outcome outcome;
  outcome.status = heapprof_main(static_cast<int>(words.size()), argv.data());
  outcome.out = out.text();
  outcome.err = err.text();
  return outcome;
}

namespace {

/// The text as JSON. The last result is cached, because tests read many values of one output.
const nlohmann::json& parsed(const std::string& text) {
  static std::string last;
  static nlohmann::json json(nlohmann::json::value_t::discarded);
  if (text != last) {
    json = nlohmann::json::parse(text, nullptr, false);
    last = text;
  }
  return json;
}

}  // namespace

std::string Outcome::at(const std::string& pointer) const { return json_at(out, pointer); }

std::uint64_t Outcome::number(const std::string& pointer) const {
  const std::string text = at(pointer);
  std::uint64_t number = kNoNumber;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : kNoNumber;
}

std::size_t Outcome::count(const std::string& pointer) const {
  const nlohmann::json& json = parsed(out);
  const nlohmann::json::json_pointer where(pointer);
  return !json.is_discarded() && json.contains(where) && json[where].is_array() ? json[where].size() : 0;
}

bool Outcome::has_line(const std::vector<std::string>& texts) const {
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    std::size_t at = 0;
    const bool all = std::all_of(texts.begin(), texts.end(), [&](const std::string& text) {
      at = line.find(text, at);
      if (at == std::string::npos) return false;
      at += text.size();
      return true;
    });
    if (all) return true;
  }
  return false;
}

std::string json_at(const std::string& text, const std::string& pointer) {
  const nlohmann::json& json = parsed(text);
  if (json.is_discarded()) return "(no JSON)";
  const nlohmann::json::json_pointer where(pointer);
  if (!json.contains(where)) return "(absent)";
  const nlohmann::json& value = json[where];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace heapprof::test
