// What the answers of `serve` and `html` are about: recordings, and options as words of the command lines that
// compute the answers.
#pragma once

#include <string>
#include <vector>

#include "analyzer/cli/options/command_options.h"
#include "analyzer/serve/question.h"

namespace heapprof::cli {

/// Throws OutputError if a file of --suppressions cannot be read or is invalid: otherwise only the answers that use
/// it would say so.
serve::Subject answer_subject(std::vector<std::string> traces, const AnswerOptions& options);

}  // namespace heapprof::cli
