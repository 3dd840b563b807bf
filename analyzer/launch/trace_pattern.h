// The file name pattern of traces (HEAPPROF_OUTPUT): checked before the program starts, and used to find its files
// afterwards.
#pragma once

#include <string>
#include <vector>

namespace heapprof::launch {

/// `pattern` as an absolute path, since the program may change its working directory. The part added is escaped.
/// Empty: the working directory has no path, for example because it was removed; errno is set.
std::string absolute_pattern(const std::string& pattern);

/// The file that `pattern` names; empty: it has %e, %p, %t or %h, so the name is not known yet.
std::string fixed_name(const std::string& pattern);

/// Whether files can be created in the directory of `pattern` (absolute). If the directory does not exist, its
/// nearest parent that exists must be writable. False: `error` is one line with the reason.
bool check_writable(const std::string& pattern, std::string& error);

/// Removes the file `name` (from fixed_name()) if it exists and `force` is set. False: it still exists; `error` is
/// one line with what to do.
bool remove_existing(const std::string& name, bool force, std::string& error);

/// The existing files that the process `pid` (0: any) may have written by `pattern` (absolute), whatever %e, %t and
/// %h were replaced by, also with the suffixes .1, .2, ... of names that existed. Sorted, each once.
std::vector<std::string> find_files(const std::string& pattern, int pid);

/// `pattern` with * for %e, %p, %t and %h, or for the suffix if it has none of them: for messages.
std::string files_of(const std::string& pattern);

}  // namespace heapprof::launch
