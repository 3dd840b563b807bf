// The command line of `heapprof record`, and the recorder's settings that stand in it and in the environment.
//
// Options end at PROGRAM: what follows belongs to it. That, and switches that may but need not have a value
// (`--children`, `--children off`), is why this is no table of the general command line parser.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heapprof::launch {

struct Options {
  bool help = false;
  bool quiet = false;
  bool force = false;
  /// -o: the pattern as given. Without it HEAPPROF_OUTPUT or the default holds.
  std::optional<std::string> output;
  /// HEAPPROF_... variables that options set, checked and in the form the recorder reads.
  std::vector<std::pair<std::string, std::string>> settings;
  /// PROGRAM and its arguments; never empty unless `help`.
  std::vector<std::string> command;
};

/// Reads the arguments after `record`. False: `error` is one line saying what is wrong and what is allowed.
bool parse_options(const std::vector<std::string>& arguments, Options& options, std::string& error);

/// Checks the HEAPPROF_... variables that the user has set, by the same rules as the options.
/// False: `error` as above.
bool check_environment(std::string& error);

/// An option of `heapprof record`, as its help, its manual page and completions tell it.
struct OptionHelp {
  std::vector<std::string> names;     ///< "-q", "--quiet"
  std::string value;                  ///< "FILE"; "[on|off]": may be left out; empty: takes none
  std::vector<std::string> choices;   ///< the values there are, where they can be listed
  bool file = false;                  ///< the value is a file's name
  std::string help;
};
std::vector<OptionHelp> described_options();

/// What `heapprof record --help` prints.
std::string usage();

}  // namespace heapprof::launch
