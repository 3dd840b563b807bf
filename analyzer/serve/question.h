// Turns a request for /api/COMMAND?OPTION=VALUE into the command line that answers it.
//
// Only the commands and options of a list are accepted: none that writes a file, reads a file that the client names,
// or uses the network. Values are joined to their options, and arguments follow "--", so that no value is taken for
// an option.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "analyzer/serve/request.h"

namespace heapprof::serve {

/// What every answer is about, decided when the server was started.
struct Subject {
  std::vector<std::string> traces;         ///< paths
  std::vector<std::string> symbol_words;   ///< options of all commands that print names: --sysroot=...
  std::vector<std::string> source_words;   ///< options of `source` only: --source-path=...
  std::vector<std::string> project_words;  ///< --config=FILE or --no-config
  /// Options of all commands that divide own code from other code: --own=REGEX, --full-names.
  std::vector<std::string> own_words = {};
  std::vector<std::string> helper_words = {};       ///< of all commands that show call sites: --helper=REGEX
  std::vector<std::string> suppression_words = {};  ///< of `leaks` and `check`: --suppressions=FILE
};

/// Of a subject, the options that the answers of a command get.
struct CommandWords {
  std::string_view command;
  std::vector<std::string> words;
};
/// For each command of the API, without those that change no figure and no name.
std::vector<CommandWords> words_of_answers(const Subject& subject);

struct Question {
  std::vector<std::string> words;   ///< of the command line, without the program
  std::vector<std::size_t> traces;  ///< positions of the traces that it reads
  std::string content_type;
  bool is_json = true;
  /// Questions with the same text can be answered by one process that stays (standing_process.h): those about the
  /// same blocks of the same trace. Empty: by none.
  std::string followed = {};
  /// Makes the answer of what the command printed; null: nothing is changed. May throw std::exception.
  std::string (*convert)(const std::string& printed) = nullptr;
};

/// A request that is wrong: what is wrong and what is expected, as a sentence.
struct Refusal {
  std::string reason;
};

std::variant<Question, Refusal> question_of(std::string_view command, const Parameters& parameters,
                                            const Subject& subject);

/// /debug/pprof/heap and /debug/pprof/allocs: the recording for `go tool pprof`. The parameters are those of a
/// selection.
std::variant<Question, Refusal> pprof_question(const Parameters& parameters, const Subject& subject);

inline constexpr unsigned kMaxSeconds = 3600;
/// /debug/pprof/allocs?seconds=N: N, from 1 to kMaxSeconds; 0: there is no such parameter. Removes it from the
/// parameters. It excludes those that select a time.
std::variant<unsigned, Refusal> take_seconds(Parameters& parameters);

/// /metrics: what is live now, for Prometheus.
std::variant<Question, Refusal> metrics_question(const Parameters& parameters, const Subject& subject);

/// POST /api/control/ACTION: pause, resume, snapshot, or mark?text=TEXT.
std::variant<Question, Refusal> control_question(std::string_view action, const Parameters& parameters,
                                                 const Subject& subject);

/// The position of the trace that `trace=N` names, by default the first.
std::variant<std::size_t, Refusal> trace_of(const Parameters& parameters, const Subject& subject);

}  // namespace heapprof::serve
