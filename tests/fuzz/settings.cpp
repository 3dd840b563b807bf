// The recorder's settings, from an environment and from /etc/heapprof.conf. `heapprof record` must accept exactly the
// values that the recorder accepts.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/launch/recorder_settings.h"
#include "preload/recorder/process/settings.h"
#include "tests/fuzz/input.h"

namespace {

using namespace heapprof;
using recorder::Settings;

constexpr const char* kVariables[] = {"HEAPPROF_OUTPUT",         "HEAPPROF_LOG",           "HEAPPROF_LOG_FILE",
                                      "HEAPPROF_SHADOW_STACK",   "HEAPPROF_MAX_DEPTH",     "HEAPPROF_MMAP",
                                      "HEAPPROF_FREE_STACKS",    "HEAPPROF_CHILDREN",      "HEAPPROF_PAUSED",
                                      "HEAPPROF_OWN_ALLOCATORS", "HEAPPROF_MAX_FILE_SIZE", "HEAPPROF_LABELS"};

std::string echo_of(const Settings& settings) {
  char echo[8192];
  return std::string(echo, settings.echo(echo, sizeof echo)) + "HEAPPROF_LOG_FILE=" + settings.log_file + '\n';
}

/// The value of a variable in the echo of the settings.
std::string value_of(const Settings& settings, const std::string& name) {
  const std::string echo = '\n' + echo_of(settings);
  const std::size_t at = echo.find('\n' + name + '=');
  if (at == std::string::npos) std::abort();
  return echo.substr(at + 1, echo.find('\n', at + 1) - at - 1);
}

/// Settings that all differ from the defaults.
Settings changed_settings() {
  Settings settings;
  settings.output[0] = settings.log_file[0] = settings.labels[0] = '?';
  settings.log = recorder::LogLevel::kDebug;
  settings.max_depth = 7;
  settings.max_file_bytes = 1;
  for (bool* one : {&settings.shadow_stack, &settings.mmap, &settings.free_stacks, &settings.children,
                    &settings.paused, &settings.embedded_allocators})
    *one = !*one;
  return settings;
}

/// A copy of exactly the text's size, so that the sanitizer detects a read after it.
std::unique_ptr<char[]> exact(const std::string& text) {
  std::unique_ptr<char[]> copy(new char[text.size() + 1]);
  std::memcpy(copy.get(), text.c_str(), text.size() + 1);
  return copy;
}

void environment(fuzz::Input& input) {
  std::vector<std::unique_ptr<char[]>> texts;
  std::vector<char*> lines;
  std::string line;
  const std::string all = input.text(input.left()) + '\n';
  for (const char c : all) {
    if (c != '\n') {
      line += c;
      continue;
    }
    texts.push_back(exact(line.c_str()));
    lines.push_back(texts.back().get());
    line.clear();
  }
  lines.push_back(nullptr);
  Settings settings;
  settings.read(lines.data());
  echo_of(settings);
}

void compare_accepted_values(fuzz::Input& input) {
  const char* const name = kVariables[input.take<std::uint8_t>() % std::size(kVariables)];
  std::string value = input.text(input.left()).c_str();
  for (char& c : value) c = c == '\n' ? ' ' : c;
  if (value.empty()) return;  // the launcher ignores an empty value, the recorder rejects it
  const std::unique_ptr<char[]> line = exact(std::string(name) + "=" + value);
  char* const lines[] = {line.get(), nullptr};
  Settings one;
  Settings other = changed_settings();
  one.read(lines);
  other.read(lines);
  const bool recorder_reads = value_of(one, name) == value_of(other, name);
  for (const char* variable : kVariables) ::unsetenv(variable);
  ::setenv(name, value.c_str(), 1);
  std::string error;
  const bool launcher_accepts = launch::check_environment(error);
  if (launcher_accepts != error.empty()) std::abort();
  const bool too_long = value.size() > 1000;  // for paths, the launcher's limit is lower
  if (launcher_accepts ? !recorder_reads : recorder_reads && !too_long) std::abort();
}

void read_configuration(fuzz::Input& input) {
  const std::unique_ptr<char[]> text = exact(input.text(input.left()).c_str());
  Settings settings;
  settings.read_trusted_text(text.get());
  echo_of(settings);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  recorder::g_settings.log = recorder::LogLevel::kOff;
  fuzz::Input input(data, size);
  switch (input.take<std::uint8_t>() % 3) {
    case 0: environment(input); break;
    case 1: compare_accepted_values(input); break;
    default: read_configuration(input); break;
  }
  return 0;
}
