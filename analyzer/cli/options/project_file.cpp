// The only file that includes toml++, which costs seconds of compile time.
#include "analyzer/cli/options/project_file.h"

#define TOML_HEADER_ONLY 1

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <toml++/toml.h>
#include <unistd.h>
#include <utility>

#include "analyzer/cli/options/spelling_suggestion.h"
#include "analyzer/cli/text/name_pattern.h"

namespace heapprof::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = ".heapprof.toml";
constexpr std::uintmax_t kMaxBytes = 1 << 20;

[[noreturn]] void fail(const std::string& path, const toml::source_region& where, const std::string& what) {
  throw ProjectFileError(path + ":" + std::to_string(where.begin.line) + ": " + what);
}

class Reader {
 public:
  explicit Reader(ProjectFile& file) : file_(file) {}

  void read(const toml::table& table) {
    const std::pair<const char*, std::function<void(const toml::node&)>> keys[] = {
        {"own", [this](const toml::node& node) { read_patterns("own", node, file_.own); }},
        {"third_party", [this](const toml::node& node) { read_patterns("third_party", node, file_.third_party); }},
        {"standard", [this](const toml::node& node) { read_patterns("standard", node, file_.standard); }},
        {"runtime", [this](const toml::node& node) { read_patterns("runtime", node, file_.runtime); }},
        {"full_names",
         [this](const toml::node& node) {
           file_.full_names = node.value_exact<bool>();
           if (!file_.full_names) fail(file_.path, node.source(), "full_names: expected true or false");
         }},
        {"suppressions", [this](const toml::node& node) { read_suppressions(node); }}};
    for (const auto& [key, node] : table) {
      const auto known =
          std::find_if(std::begin(keys), std::end(keys), [&key](const auto& one) { return key.str() == one.first; });
      if (known != std::end(keys)) {
        known->second(node);
        continue;
      }
      std::vector<std::string> names;
      std::string list;
      for (const auto& one : keys) {
        names.emplace_back(one.first);
        list += (list.empty() ? "" : ", ") + names.back();
      }
      fail(file_.path, key.source(),
           "unknown key '" + std::string(key.str()) + "'; expected one of " + list +
               did_you_mean(std::string(key.str()), names));
    }
  }

 private:
  /// Calls visit(text, place) for each string of a list.
  template <typename Visit>
  void for_each_text(const char* key, const toml::node& node, const char* example, Visit&& visit) {
    const auto refuse = [&](const toml::node& wrong) {
      fail(file_.path, wrong.source(), std::string(key) + ": expected a list of texts, such as " + example);
    };
    const toml::array* const list = node.as_array();
    if (list == nullptr) refuse(node);
    for (const toml::node& element : *list) {
      const std::optional<std::string> text = element.value_exact<std::string>();
      if (!text) refuse(element);
      if (text->empty())
        fail(file_.path, element.source(),
             std::string(key) + ": a text is empty; remove it, or give one such as " + example);
      visit(*text, element.source());
    }
  }

  void read_patterns(const char* key, const toml::node& node, std::vector<std::string>& patterns) {
    for_each_text(key, node, "[\"^acme::\", \"libacme\"]",
                  [&](const std::string& text, const toml::source_region& place) {
                    try {
                      const NamePattern valid(text);
                    } catch (const std::invalid_argument& error) {
                      fail(file_.path, place, std::string(key) + ": " + error.what());
                    }
                    patterns.push_back(text);
                  });
  }

  void read_suppressions(const toml::node& node) {
    for_each_text(
        "suppressions", node, "[\"leaks.supp\", \"leak:acme::cache\"]",
        [&](const std::string& text, const toml::source_region& place) {
          if (!text.starts_with("leak:")) {
            const fs::path file = fs::path(file_.path).parent_path() / text;
            std::error_code ignored;
            if (!fs::exists(file, ignored))
              fail(file_.path, place,
                   "suppressions: there is no file " + file.string() + "; expected a file, or a rule leak:PATTERN");
            file_.suppression_files.push_back(file.string());
          } else if (text.find('\n') != std::string::npos || text == "leak:") {
            fail(file_.path, place, "suppressions: expected leak:PATTERN on one line");
          } else {
            file_.suppression_rules += text + "\n";
          }
        });
  }

  ProjectFile& file_;
};

}  // namespace

ProjectFile read_project_file(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    throw ProjectFileError(path + ": there is no such file; name the project file, usually .heapprof.toml");
  if (fs::is_directory(status))
    throw ProjectFileError(path + ": is a directory; name the project file in it, usually .heapprof.toml");
  if (!fs::is_regular_file(status)) throw ProjectFileError(path + ": is not a regular file");
  if (fs::file_size(path, error) > kMaxBytes)
    throw ProjectFileError(path + ": is larger than 1 MiB; this is no project file");
  std::ifstream in(path);
  std::ostringstream text;
  const bool is_empty = in.peek() == std::ifstream::traits_type::eof();
  if (!in.is_open() || in.bad() || (!is_empty && !(text << in.rdbuf())))
    throw ProjectFileError(path + ": cannot be read");
  ProjectFile file;
  file.path = path;
  try {
    Reader(file).read(toml::parse(text.str(), path));
  } catch (const toml::parse_error& wrong) {
    fail(path, wrong.source(), "is no valid TOML: " + std::string(wrong.description()));
  }
  return file;
}

FoundProjectFile find_project_file(const std::string& directory, const std::string& home) {
  for (fs::path at = directory; !at.empty(); at = at.parent_path()) {
    const fs::path path = at / kName;
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) {
      if (status.st_uid == ::geteuid() || status.st_uid == 0) return {path.string(), {}};
      return {{},
              path.string() + ": belongs to another user (uid " + std::to_string(status.st_uid) +
                  "), so its settings are not used; --config FILE uses them anyway"};
    }
    std::error_code ignored;
    if (at == home || at == at.root_path() || fs::exists(at / ".git", ignored)) break;
  }
  return {};
}

}  // namespace heapprof::cli
