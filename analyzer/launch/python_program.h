// Whether a program is a Python interpreter, or a script for one.
#pragma once

#include <string>

namespace heapprof::launch {

/// By names, of the file and of what a link leads to (python3, python3.11), or by the first line of a script
/// ("#!/usr/bin/env python3"). False: also if the file cannot be read.
bool runs_python(const std::string& path);

}  // namespace heapprof::launch
