// The frames of a profile's code addresses, with equal functions and equal source lines numbered, so that the call
// tree can be searched by function without comparing names.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/findings/origin.h"
#include "analyzer/model/profile.h"
#include "analyzer/symbols/source_frame.h"

namespace heapprof::findings {

/// One line of a stack: a function that is inlined at an address, or the function that contains the address.
struct FrameRef {
  std::uint32_t address = model::kNoIndex;  ///< in Profile::addresses; kNoIndex: no frame
  std::uint32_t index = 0;                  ///< of the frames of that address, innermost first
  bool exists() const noexcept { return address != model::kNoIndex; }
  friend bool operator==(const FrameRef&, const FrameRef&) = default;
};

/// Which frames are of interest.
enum class Scope : std::uint8_t {
  kAll,
  kOwn,  ///< of the program's own code; what others allocate is a cost of the own code that called them
};

struct Function {
  std::string name;          ///< demangled; empty: unresolved
  std::uint32_t module = 0;  ///< in Profile::modules
  /// Where an unresolved function begins in the module's file; if that is unknown, the address itself.
  std::uint64_t begin = 0;
  FrameRef frame;  ///< one of its frames
  Origin origin = Origin::kUnresolved;
  /// A third party's source that is compiled into the program or one of its own libraries: a header, a crate. In a
  /// recording with lines of Python, all code of third parties: the line of the program that called it counts.
  bool is_built_in = false;
  bool is_python = false;     ///< a function of a Python file; others of that name are in other files
  bool is_machinery = false;  ///< of Python's import: <frozen importlib._bootstrap>
  bool is_start_up = false;
  bool is_main = false;
};

class CodeFrames {
 public:
  /// The frames of an address, innermost first: inlined functions, then the function itself. They must stay where
  /// they are for the lifetime of CodeFrames. Empty: one frame without a name.
  using Resolve = std::function<std::span<const symbols::SourceFrame>(std::uint32_t address)>;

  /// `profile` must outlive this.
  CodeFrames(const model::Profile& profile, const Resolve& resolve, const OriginRules& rules,
             Scope scope = Scope::kAll);

  /// Which of the frames can be a call site, a keeper or a part of a common path.
  Scope scope() const noexcept { return scope_; }
  bool is_in_scope(const Function& function) const noexcept {
    return scope_ == Scope::kAll || function.origin == Origin::kOwn;
  }

  const model::Profile& profile() const noexcept { return profile_; }
  std::span<const Function> functions() const noexcept { return functions_; }

  /// Positions in functions(), innermost first; of an address in Profile::addresses. Never empty.
  std::span<const std::uint32_t> functions_at(std::uint32_t address) const noexcept {
    return {function_of_frame_.data() + first_frame_[address], first_frame_[address + 1] - first_frame_[address]};
  }
  /// The numbers of function and source line together: equal if both are equal. Not dense.
  std::span<const std::uint32_t> lines_at(std::uint32_t address) const noexcept {
    return {line_of_frame_.data() + first_frame_[address], first_frame_[address + 1] - first_frame_[address]};
  }
  std::uint32_t function_of(FrameRef frame) const noexcept { return functions_at(frame.address)[frame.index]; }
  const Function& at(FrameRef frame) const noexcept { return functions_[function_of(frame)]; }
  /// File and line; null: unresolved.
  const symbols::SourceFrame* source_of(FrameRef frame) const;

  /// The name of a function; of an unresolved one, its module and its begin: "libfoo.so+0x12".
  std::string name_of(std::uint32_t function) const;

  /// The frames of a stack, innermost first.
  std::vector<FrameRef> stack(std::uint32_t node) const;

 private:
  const model::Profile& profile_;
  const Scope scope_;
  std::vector<Function> functions_;
  std::vector<std::uint32_t> first_frame_;  ///< by address, and one more
  std::vector<std::uint32_t> function_of_frame_;
  std::vector<std::uint32_t> line_of_frame_;
  std::vector<std::span<const symbols::SourceFrame>> sources_;  ///< by address
};

}  // namespace heapprof::findings
