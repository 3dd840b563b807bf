// Settings of a project, in the file .heapprof.toml (TOML), so that everybody who reads its recordings sees the same
// code as the project's own:
//
//   own = ["^acme::", "libacme"]         # regular expressions, as for --own
//   third_party = []                     # the same for the other origins
//   standard = []
//   runtime = []
//   full_names = true                    # --full-names
//   suppressions = ["leaks.supp",        # files, relative to the directory of this file
//                   "leak:acme::cache"]  # or single rules
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace heapprof::cli {

struct ProjectFile {
  std::string path;
  std::vector<std::string> own, third_party, standard, runtime;
  std::optional<bool> full_names;
  std::vector<std::string> suppression_files;  ///< absolute, or relative to the current directory
  std::string suppression_rules;               ///< lines "leak:PATTERN"
};

/// What is wrong with a project file: "PATH:LINE: unknown key 'owns'; expected ...".
class ProjectFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws ProjectFileError.
ProjectFile read_project_file(const std::string& path);

struct FoundProjectFile {
  std::string path;  ///< empty: there is none
  std::string note;  ///< why a file was not used; empty: nothing to print
};

/// Searches `directory` and the directories above it, up to the first that has .git or is `home`, both included. A
/// file that belongs to another user than this one and root is not used: it would decide what a report shows.
FoundProjectFile find_project_file(const std::string& directory, const std::string& home);

}  // namespace heapprof::cli
