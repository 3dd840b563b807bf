// The word that somebody who mistyped one most likely meant.
#pragma once

#include <string>
#include <vector>

namespace heapprof::launch {

/// Of `words` the one that `typed` is short for, or else the one that is nearest: a letter in three may be wrong,
/// missing, added, or have changed places with its neighbour. Empty: none is near, or several are equally so.
std::string nearest_word(const std::string& typed, const std::vector<std::string>& words);

/// "; did you mean --children?", for the end of a sentence; empty when nearest_word() has no answer.
std::string did_you_mean(const std::string& typed, const std::vector<std::string>& words);

}  // namespace heapprof::launch
