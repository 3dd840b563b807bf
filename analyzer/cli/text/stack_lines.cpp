#include "analyzer/cli/text/stack_lines.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "analyzer/cli/text/frame_text.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using LineKind = StackLine::Kind;

/// Fewer frames are printed rather than folded.
constexpr std::size_t kMinFolded = 2;

/// Whether `function` is C's main, Rust's (`program::main`), or the body of a Python file.
bool is_main(std::string_view function) {
  return function == "main" || function == "<module>" || function.starts_with("main(") ||
         function.ends_with("::main");
}

/// Whether `function` calls the function of a thread.
bool starts_thread(std::string_view function) {
  return function == "start_thread" || function == "clone" || function == "clone3" || function == "__clone3" ||
         function == "__clone";
}

/// Whether two functions of one name and module are different ones, such as static functions of two files, or methods
/// of two classes of a Python file. One function can have lines of several files, too.
bool are_different(const Frame& a, const Frame& b) {
  if (a.definition_line != b.definition_line && a.definition_line != 0 && b.definition_line != 0) return true;
  return !a.file.empty() && !b.file.empty() && a.file != b.file && a.file_of_definition() != b.file_of_definition();
}

/// Numbers of the functions of a stack: equal functions have equal numbers.
std::vector<std::uint32_t> function_numbers(std::span<const Frame> frames) {
  struct Function {
    std::uint32_t number;
    const Frame* frame;  ///< with a file, if one of its frames has one
  };
  std::map<std::pair<const model::Module*, std::string>, std::vector<Function>> by_name;
  std::vector<std::uint32_t> numbers;
  numbers.reserve(frames.size());
  std::uint32_t count = 0;
  for (const Frame& frame : frames) {
    std::string name = frame.function.empty() ? unresolved_name(frame) : frame.function;
    std::vector<Function>& functions = by_name[{frame.module, std::move(name)}];
    const auto known = std::find_if(functions.begin(), functions.end(),
                                    [&](const Function& function) { return !are_different(frame, *function.frame); });
    if (known == functions.end()) {
      numbers.push_back(count);
      functions.push_back({count++, &frame});
    } else {
      numbers.push_back(known->number);
      if (known->frame->file.empty()) known->frame = &frame;
    }
  }
  return numbers;
}

/// libc's functions that call main, of any version.
bool calls_main(std::string_view function) { return function.starts_with("__libc_start_"); }

/// Number of frames from the innermost to the outermost program frame. What calls main does not count: libc, _start
/// even if it is unresolved, and Rust's runtime with the C function main, which is none of the program.
std::size_t end_of_program(std::span<const Frame> frames, std::span<const FrameRole> roles) {
  std::size_t end = 0;
  while (end < frames.size() && !calls_main(frames[end].function)) ++end;
  while (end > 0) {
    const bool of_rust_runtime =
        end >= 2 && frames[end - 1].function == "main" && frames[end - 2].function.starts_with("std::rt::lang_start");
    if (roles[end - 1] == FrameRole::kProgram && !of_rust_runtime) break;
    --end;
  }
  return end;
}

class Folding {
 public:
  Folding(std::span<const Frame> frames, std::span<const FrameRole> roles)
      : roles_(roles.begin(), roles.end()), functions_(function_numbers(frames)),
        end_(end_of_program(frames, roles)) {
    const bool has_program = end_ != 0;
    if (!has_program) {
      end_ = frames.size();
      roles_.assign(frames.size(), FrameRole::kProgram);
    }
    uses_.resize(frames.size(), 0);
    for (std::size_t i = 0; i < end_; ++i) ++uses_[functions_[i]];
    fold_recursion();
    fold_libraries();
    const std::size_t outside = frames.size() - end_;
    if (outside == 0 || is_main(frames[end_ - 1].function) || calls_main(frames[end_].function)) return;
    lines_.push_back({outside >= kMinFolded ? LineKind::kStart : LineKind::kFrame, end_, outside});
  }

  std::vector<StackLine> take() { return std::move(lines_); }

 private:
  void add_frame(std::size_t at) { lines_.push_back({LineKind::kFrame, at, 1}); }

  /// Prints [begin, end), a part of a recursion: frames of functions that occur once are no repetitions.
  void add_repetitions(std::size_t begin, std::size_t end) {
    while (begin < end) {
      std::size_t next = begin;
      while (next < end && uses_[functions_[next]] > 1) ++next;
      if (next - begin >= kMinFolded) lines_.push_back({LineKind::kRecursion, begin, next - begin});
      else
        for (std::size_t i = begin; i < next; ++i) add_frame(i);
      if (next < end) add_frame(next++);
      begin = next;
    }
  }

  void fold_recursion() {
    for (std::size_t at = 0; at < end_; ++at) {
      add_frame(at);
      const std::uint32_t function = functions_[at];
      if (uses_[function] < 2 || roles_[at] != FrameRole::kProgram) continue;
      const auto begin = functions_.begin() + static_cast<std::ptrdiff_t>(at) + 1;
      const auto end = functions_.begin() + static_cast<std::ptrdiff_t>(end_);
      const auto again = static_cast<std::size_t>(std::find(begin, end, function) - functions_.begin());
      if (again == end_) continue;
      std::size_t last = end_ - 1;
      while (functions_[last] != function) --last;
      for (std::size_t i = at + 1; i < again; ++i) add_frame(i);
      add_repetitions(again, last);
      at = last - 1;  // the outermost call is printed next
    }
  }

  void fold_libraries() {
    std::vector<StackLine> folded;
    for (const StackLine& line : lines_) {
      const bool library = line.kind == LineKind::kFrame && roles_[line.first] != FrameRole::kProgram;
      if (library && !folded.empty() && folded.back().kind == LineKind::kLibrary &&
          folded.back().first + folded.back().count == line.first)
        ++folded.back().count;
      else folded.push_back({library ? LineKind::kLibrary : line.kind, line.first, line.count});
    }
    for (StackLine& line : folded)
      if (line.kind == LineKind::kLibrary && line.count < kMinFolded && roles_[line.first] != FrameRole::kHidden)
        line.kind = LineKind::kFrame;
    lines_ = std::move(folded);
  }

  std::vector<FrameRole> roles_;
  std::vector<std::uint32_t> functions_;
  std::vector<std::uint32_t> uses_;  // by number of a function: its frames in the program's part
  std::size_t end_;                  // of the program's part
  std::vector<StackLine> lines_;
};

std::string name_of(const Frame& frame) {
  return frame.function.empty() ? render::clean_utf8(unresolved_name(frame)) : function_name(frame.function);
}

}  // namespace

std::vector<StackLine> lines_of_stack(std::span<const Frame> frames, std::span<const FrameRole> roles,
                                      std::size_t limit) {
  std::vector<StackLine> lines;
  if (limit == 0) {
    for (std::size_t i = 0; i < frames.size(); ++i) lines.push_back({LineKind::kFrame, i, 1});
    return lines;
  }
  lines = Folding(frames, roles).take();
  if (lines.size() <= limit) return lines;
  const std::size_t tail = std::min<std::size_t>(2, limit / 3);
  const auto first = lines.begin() + static_cast<std::ptrdiff_t>(limit - tail - 1);
  const auto last = lines.end() - static_cast<std::ptrdiff_t>(tail);
  StackLine more{LineKind::kMore, first->first, 0};
  for (auto line = first; line != last; ++line) more.count += line->count;
  lines.insert(lines.erase(first, last), more);
  return lines;
}

std::string folded_text(const StackLine& line, std::span<const Frame> frames) {
  const std::span<const Frame> folded = frames.subspan(line.first, line.count);
  const std::string count = render::exact_number(line.count) + (line.count == 1 ? " frame" : " frames");
  switch (line.kind) {
    case LineKind::kFrame: return name_of(folded.front());
    case LineKind::kLibrary:
      if (line.count == 1) return "… " + count + ", " + name_of(folded.front()) + " …";
      return "… " + count + ", " + name_of(folded.back()) + " to " + name_of(folded.front()) + " …";
    case LineKind::kRecursion: {
      constexpr std::size_t kMaxNames = 3;
      std::vector<std::string> names;
      for (const Frame& frame : folded)
        if (std::string name = name_of(frame); std::find(names.begin(), names.end(), name) == names.end())
          names.push_back(std::move(name));
      std::string text = "… " + count + " of recursion of ";
      for (std::size_t i = 0; i < std::min(kMaxNames, names.size()); ++i) text += (i == 0 ? "" : ", ") + names[i];
      if (names.size() > kMaxNames) text += " and " + std::to_string(names.size() - kMaxNames) + " other functions";
      return text + " …";
    }
    case LineKind::kStart: {
      const bool of_thread =
          std::any_of(folded.begin(), folded.end(), [](const Frame& frame) { return starts_thread(frame.function); });
      return "… " + count + (of_thread ? " that start the thread …" : " that start the program …");
    }
    case LineKind::kMore: return "… " + count + " more …";
  }
  return {};
}

}  // namespace heapprof::cli
