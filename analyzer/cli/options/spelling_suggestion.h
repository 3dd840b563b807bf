// The word that the user probably meant to type.
#pragma once

#include <string>
#include <vector>

namespace heapprof::cli {

/// The word of `words` that begins with `typed`, or else the nearest one: up to a third of its characters may be
/// wrong, missing, added, or exchanged with their neighbours. Empty: no word is near, or several are equally near.
std::string nearest_word(const std::string& typed, const std::vector<std::string>& words);

/// "; did you mean '--children'?", for the end of a sentence; empty when nearest_word() finds none.
std::string did_you_mean(const std::string& typed, const std::vector<std::string>& words);

}  // namespace heapprof::cli
