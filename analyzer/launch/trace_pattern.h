// Where the trace goes: the pattern for the recorder, checked before the program starts, and afterwards the
// files that came of it.
#pragma once

#include <string>
#include <vector>

namespace heapprof::launch {

/// `pattern` as an absolute one, since the program may change its folder; what is put in front is escaped.
std::string absolute_pattern(const std::string& pattern);

/// The one file that `pattern` names; empty: it has %e, %p, %t or %h, so the name is not known yet.
std::string fixed_name(const std::string& pattern);

/// Whether files can be made where `pattern` (absolute) leads: the folder, or if it is missing the nearest one
/// that exists, must be writable. False: `error` is one line saying why.
bool check_writable(const std::string& pattern, std::string& error);

/// Makes way for `name` (from fixed_name). What exists there is removed with `force` if it is a file, else
/// `error` says what to do. True: nothing is in the way.
bool make_way(const std::string& name, bool force, std::string& error);

/// Existing files that the process `pid` (0: any) may have made by `pattern` (absolute), with the suffixes .1, .2,
/// ... of names that were taken; whatever %e, %t and %h stood for. By name, each once.
std::vector<std::string> candidates(const std::string& pattern, int pid);

/// `pattern` with * in the place of %e, %p, %t and %h, or of the suffix if it has none of them: to be read by people.
std::string files_of(const std::string& pattern);

}  // namespace heapprof::launch
