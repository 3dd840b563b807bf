// What `heapprof check` compares, of one recording or of each of several ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "analyzer/cli/commands/leaks/suppressed_leaks.h"
#include "analyzer/cli/options/command_options.h"
#include "analyzer/model/profile.h"
#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::cli {

inline constexpr int kLimitExceeded = 3;  ///< exit status

struct CheckLimit {
  const char* name;  ///< "peak"
  std::uint64_t (*figure)(const model::Profile&);
  bool bytes;
  bool zero_means_none;                             ///< a limit of 0 demands that nothing is allocated at all
  std::uint64_t Suppressed::*suppressed = nullptr;  ///< the suppressed part of the figure, or null
};
/// Indexed by CheckedFigure.
std::span<const CheckLimit> check_limits();

/// The figure of a trace for each limit.
struct CheckFigures {
  std::uint64_t compared[kCheckedFigures] = {};  ///< without suppressed blocks
  Suppressed suppressed;
  bool compares_leaks = false;  ///< else nothing is suppressed
};

/// Suppressions match function names, whose lookup takes time. They are looked up only if leaks are compared.
CheckFigures check_figures_of(const CheckOptions& options, Suppressions suppressions,
                              const replay::Analysis& analysis);

/// Whether a limit of 0 demands that nothing is allocated.
bool forbids_allocation(const CheckOptions& options);

/// The largest figure that exceeds `baseline` by at most `percent`, which is 0 or more. Exact for a percentage with
/// up to six decimals below 1e9.
std::uint64_t with_tolerance(std::uint64_t baseline, double percent) noexcept;

struct CheckVerdict {
  std::string name;
  bool bytes = false;
  std::uint64_t figure = 0;
  std::uint64_t limit = 0;
  bool against_baseline = false;
  std::uint64_t suppressed = 0;  ///< not included in `figure`
  std::string of{};              ///< "cc1plus, pid 12", "all processes together"; empty: the one recording
  bool exceeded() const noexcept { return figure > limit; }
};
std::string sentence_of(const CheckVerdict& verdict);

/// One of the test cases of a JUnit document.
struct JunitCase {
  std::string class_name;  ///< not escaped
  std::string name;        ///< likewise
  std::string failure{};   ///< empty: it passed
  std::string output{};
};
std::string junit_document(std::span<const JunitCase> cases);

/// check of several recordings. Returns the exit status.
int check_processes(const CheckOptions& options);

}  // namespace heapprof::cli
