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

/// The same for names of a recording, of which there may be many: "; names that contain it: 'a', 'b'" with at most
/// five, or "; did you mean 'a' or 'b'?" with the nearest ones, typed with or without scopes. Case does not matter.
/// Empty: no name is near, or more than three are equally near.
std::string suggested_names(const std::string& typed, const std::vector<std::string>& names);

}  // namespace heapprof::cli
