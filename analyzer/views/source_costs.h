// What each source file and line costs.
//
// A line costs itself what the stacks allocated whose call site is there; its total is what all stacks allocated in
// which it occurs, in whatever function and however often. The same applies to files. So the own costs of all lines,
// and those of all files, add up to the profile's totals. What has no known file is in the file with an empty path.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/findings/code_frames.h"
#include "analyzer/findings/helpers.h"
#include "analyzer/model/profile.h"

namespace heapprof::views {

struct SourceLine {
  int line = 0;  ///< from 1; 0: unknown
  model::Costs self;
  model::Costs total;
  std::vector<std::uint32_t> functions;  ///< in CodeFrames::functions(): those whose code is at this line
};

struct SourceFile {
  std::string path;                    ///< as in the debug information, not clean; empty: unknown
  std::vector<std::uint32_t> modules;  ///< in Profile::modules: those that contain code of this file
  model::Costs self;
  model::Costs total;
  std::vector<SourceLine> lines;  ///< those that have costs, in order
};

/// The files that have costs, by path. Files of one absolute path are one file; a relative path names one file in
/// each module. `only`: for each of CodeFrames::functions() whether its frames count, 0 or 1; null: all count.
std::vector<SourceFile> source_costs(const findings::CodeFrames& frames, const findings::Helpers& helpers,
                                     const std::vector<std::uint8_t>* only = nullptr);

/// The files that `name` names: all whose path ends with it, from a '/' on; only the one with exactly this path if
/// there is one. "libx.so:name" names only files that the module libx.so has.
std::vector<const SourceFile*> files_named(const std::vector<SourceFile>& files, const model::Profile& profile,
                                           const std::string& name);

}  // namespace heapprof::views
