#include "analyzer/launch/python_program.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace heapprof::launch {
namespace {

/// python, python3, python3.11, python3.13t; not python3-config.
bool is_interpreter_name(const std::string& path) {
  constexpr std::string_view kPython = "python";
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.starts_with(kPython) && name.find_first_not_of("0123456789.dmtu", kPython.size()) == std::string::npos;
}

}  // namespace

bool runs_python(const std::string& path) {
  std::error_code ignored;
  if (is_interpreter_name(path) || is_interpreter_name(std::filesystem::canonical(path, ignored))) return true;
  constexpr std::size_t kMaxFirstLine = 256;  // of the kernel, BINPRM_BUF_SIZE
  std::string line(kMaxFirstLine, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(file.gcount()));
  if (!line.starts_with("#!")) return false;
  std::istringstream words(line.substr(2, line.find('\n') - 2));
  std::string word;
  words >> word;
  if (word.ends_with("/env"))
    while (words >> word && (word.starts_with('-') || word.find('=') != std::string::npos)) {
    }
  return is_interpreter_name(word);
}

}  // namespace heapprof::launch
