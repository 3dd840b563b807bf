// Several recordings in words: which process started which, and what each of them used.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/cli/text/text_page.h"
#include "analyzer/model/profile.h"

namespace heapprof::cli {

/// "7 processes in 7 recordings, 1,215,190 events, 778 ms."
std::string sentence_of(const model::Profile& profile);

/// What does not count, and what is special about the clocks: a line for each. Empty: nothing is.
std::vector<std::string> notes_of(const model::Together& together);

/// The processes as a tree, by start; those with the highest peaks, or all. Precondition: the profile has `together`.
void write_processes(TextPage& text, const model::Profile& profile, bool all);

/// The processes that left most, of those that left anything.
void write_leaking_processes(TextPage& text, const model::Together& together);

/// The command without the directories of the program, so that more of its arguments have room.
std::string short_command(const model::ProcessFigures& process);

/// "cc1plus, pid 12", clean.
std::string name_of(const model::ProcessFigures& process);

}  // namespace heapprof::cli
