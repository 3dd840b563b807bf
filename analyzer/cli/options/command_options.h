// The options of every command, as plain structs. The parser fills one of them (cli/command_line/command_line.h),
// main() hands it to the command (cli/commands/commands.h).
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "analyzer/base/labels.h"
#include "analyzer/cli/options/query_format.h"
#include "analyzer/cli/options/trace_options.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/ranking.h"
#include "analyzer/cli/top/top_options.h"
#include "analyzer/export/rows.h"
#include "analyzer/push/endpoint.h"
#include "analyzer/views/block_page.h"
#include "analyzer/views/rows.h"

namespace heapprof::cli {

inline constexpr std::size_t kDefaultFrames = 12;  ///< lines of a stack
inline constexpr std::size_t kDefaultStacks = 3;   ///< stacks below the table of call sites

struct RecordOptions {
  bool quiet = false;
  bool force = false;
  /// -o: the pattern as given. Without it, HEAPPROF_OUTPUT or the default applies.
  std::optional<std::string> output;
  /// HEAPPROF_... variables that options set, checked and in the form that the recorder reads.
  std::vector<std::pair<std::string, std::string>> settings;
  /// Besides those of HEAPPROF_LABELS.
  Labels labels;
  /// PROGRAM and its arguments; never empty.
  std::vector<std::string> command;
};

struct ControlOptions {
  enum class Action { kPause, kResume, kMark, kSnapshot, kStatus };
  std::string trace;  ///< empty: that of `pid`
  std::uint32_t pid = 0;
  Action action = Action::kStatus;
  std::string text;  ///< of kMark
  double wait_seconds = 2;
  bool json = false;
};

struct InstallSecureOptions {
  std::string directory = "/var/lib/heapprof";
  bool remove = false;
};

struct InfoOptions {
  TraceOptions trace;
};

/// `report` reads longer traces only once, unless --history is given, so that it takes about two seconds at most.
inline constexpr std::uint64_t kMaxEventsWithHistory = 20'000'000;

/// `report --by`: rows instead of call sites and stacks.
struct RowOptions {
  std::optional<views::By> by;       ///< nullopt: no --by
  std::string sort = "self";         ///< a column
  std::vector<std::string> columns;  ///< of figures; empty: those of the cost
  bool over_time = false;            ///< with the column kOverTime
  bool csv = false;
};

struct ReportOptions {
  TraceOptions trace;
  RowOptions rows;
  CallSiteOptions call_sites;
  Cost cost = Cost::kPeak;
  std::size_t top = 10;  ///< 0: all
  std::size_t stacks = kDefaultStacks;
  std::size_t frames = kDefaultFrames;
  std::optional<bool> history;  ///< whether live bytes over time are printed; nullopt: if the trace is not too long
  bool shared_frames = false;
};

struct TreeOptions {
  TraceOptions trace;
  CallSiteOptions call_sites;
  Cost cost = Cost::kPeak;
  bool by_line = false;
  bool inverted = false;
  std::size_t depth = 0;         ///< 0: no limit
  double min_share_percent = 1;  ///< of the total
};

struct CallersOptions {
  TraceOptions trace;
  CallSiteOptions call_sites;
  std::string function;
  Cost cost = Cost::kPeak;
  bool by_line = false;
  std::size_t top = 10;
};

struct BlocksOptions {
  TraceOptions trace;
  CallSiteOptions call_sites;
  views::BlockOrder order = views::BlockOrder::kSize;
  std::size_t top = 20;  ///< 0: all
  std::size_t skip = 0;
  bool csv = false;
  std::size_t stacks = kDefaultStacks;
  std::size_t frames = kDefaultFrames;
};

/// `source`: the lines of a file or function, or all files with costs.
struct SourceOptions {
  TraceOptions trace;
  CallSiteOptions call_sites;
  std::string what;  ///< FILE or FUNCTION; empty: the list of files
  Cost cost = Cost::kPeak;
  std::vector<std::string> source_paths;
  std::size_t context = 3;  ///< lines around each line with costs
  bool all_lines = false;
  std::size_t top = 20;  ///< files of the list; 0: all
};

struct FlamegraphOptions {
  enum class Format { kSvg, kFolded };
  TraceOptions trace;
  CallSiteOptions call_sites;  ///< --own and --only-own
  Cost cost = Cost::kPeak;
  bool pinned = false;      ///< --cost pinned; `cost` does not apply then
  bool has_moment = false;  ///< of pinned memory, by --live-at
  Format format = Format::kSvg;
  bool bottom_up = false;
};

struct LeaksOptions {
  enum class Order { kGrowth, kBytes, kBlocks, kAge };
  TraceOptions trace;
  SuppressionOptions suppressions;
  CallSiteOptions call_sites;
  Order order = Order::kGrowth;
  bool history = true;
  std::size_t top = 10;
  std::size_t stacks = kDefaultStacks;
  std::size_t frames = kDefaultFrames;
  bool shared_frames = false;
};

struct PinsOptions {
  enum class By { kStack, kFunction, kSite };
  TraceOptions trace;  ///< --at is texts.to: the trace is read up to that moment
  CallSiteOptions call_sites;
  By by = By::kSite;
  std::size_t top = 10;
  std::size_t stacks = kDefaultStacks;
  std::size_t frames = kDefaultFrames;
};

struct RssOptions {
  TraceOptions trace;
  std::string at;  ///< a moment, as given; empty: the end
  CallSiteOptions call_sites;
  std::size_t top = 5;  ///< parts of a line; 0: all
  std::size_t stacks = kDefaultStacks;
  std::size_t frames = kDefaultFrames;
};

struct HistogramOptions {
  TraceOptions trace;
};

struct ChurnOptions {
  TraceOptions trace;
  CallSiteOptions call_sites;
  std::uint64_t within_ns = 1'000'000;
  std::size_t top = 15;
};

struct ReallocsOptions {
  TraceOptions trace;
  CallSiteOptions call_sites;
  std::size_t top = 15;
};

struct ThreadsOptions {
  TraceOptions trace;
  CallSiteOptions call_sites;
  std::size_t top = 15;
};

struct FreesOptions {
  TraceOptions trace;
  std::size_t top = 10;
  std::size_t frames = kDefaultFrames;
  bool shared_frames = false;
};

struct TimelineOptions {
  enum class Format { kText, kCsv, kJson, kSvg, kOpenMetrics };
  TraceOptions trace;
  CallSiteOptions call_sites;
  Format format = Format::kText;
  views::By by = views::By::kSite;  ///< or kModule, kThread
  std::size_t sites = 10;
  bool resident = false;  ///< what resident memory consists of, instead of live bytes by call site
};

struct DiffOptions {
  enum class Format { kText, kSvg, kFolded };
  enum class Order { kNet, kNew };
  TraceOptions trace;
  std::string after;
  /// TRACE@TIME: what is live at these moments is compared. nullopt: at the end, if the other has a moment.
  std::optional<replay::Moment> moment_before;
  std::optional<replay::Moment> moment_after;
  Format format = Format::kText;
  Cost cost = Cost::kPeak;
  Order order = Order::kNet;   ///< of two moments of one recording
  CallSiteOptions call_sites;  ///< likewise
  std::size_t top = 10;
  std::size_t stacks = kDefaultStacks;  ///< of two moments of one recording
  std::size_t frames = kDefaultFrames;

  bool two_moments = false;  ///< of one recording

  bool has_moments() const noexcept { return moment_before || moment_after; }
};

/// The figures that `check` compares, in the order of its output.
enum class CheckedFigure { kPeak, kLeaked, kLeakedBlocks, kAllocated, kAllocations, kTemporary };
inline constexpr std::size_t kCheckedFigures = 6;

struct CheckOptions {
  TraceOptions trace;
  SuppressionOptions suppressions;
  std::array<std::optional<std::uint64_t>, kCheckedFigures> limits;  ///< by CheckedFigure
  std::optional<std::uint64_t> max_pinned;                           ///< bytes
  std::optional<std::uint64_t> max_sum_peak, max_sum_leaked;         ///< of several recordings together, bytes
  std::string baseline;                                              ///< a trace; empty: none
  double tolerance_percent = 10;
  std::string junit;
};

struct ExportOptions {
  enum class Format {
    kHeaptrack,
    kPprof,
    kSpeedscope,
    kMassif,
    kDhat,
    kCallgrind,
    kFirefox,
    kPerfetto,
    kNdjson,
    kCsv,
    kSqlite,
    kRows
  };
  TraceOptions trace;
  Format format = Format::kHeaptrack;
  exporter::Rows rows = exporter::Rows::kEvents;
  // Of kSqlite:
  CallSiteOptions call_sites;
  bool events = false;  ///< with the table of allocations
  // Of kRows, besides call_sites:
  exporter::RowFormat row_format = exporter::RowFormat::kNdjson;
  Labels labels;        ///< added to those of each recording
  std::size_t top = 0;  ///< stacks by each kind of bytes; 0: all
};

struct QueryOptions {
  TraceOptions trace;
  CallSiteOptions call_sites;
  std::vector<std::string> traces;  ///< files and directories; empty: only with an empty `sql`
  std::string sql;                  ///< empty: the tables are listed
  QueryFormat format = QueryFormat::kTable;
  std::string temporary_directory;  ///< empty: SQLite chooses it
};

/// What `serve` and `html` pass to the commands that compute their answers. --only-own is no such option: the page
/// has a switch for it.
struct AnswerOptions {
  symbols::Options symbols;
  std::vector<std::string> source_paths;
  std::string project_file;         ///< --config; empty: the commands search one
  bool use_project_file = true;     ///< false: --no-config
  CallSiteOptions call_sites;       ///< as given, without the settings of the project file
  SuppressionOptions suppressions;  ///< the same
};

struct ServeOptions {
  std::vector<std::string> traces;  ///< files and directories; never empty
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: any that is free
  bool open = true;        ///< in a browser, where there is a desktop
  AnswerOptions answers;
};

/// `html`: the page of `serve` in one file, with the answers that it needs.
struct HtmlOptions {
  TraceOptions trace;                 ///< trace and output only
  std::uint64_t max_bytes = 5 << 20;  ///< of the file
  bool sources = false;               ///< with the text of source files that have costs
  bool command_line = false;          ///< with the arguments of the program
  AnswerOptions answers;
};

struct PushOptions {
  TraceOptions trace;
  std::string url;
  std::optional<push::Protocol> protocol;  ///< nullopt: the URL decides
  std::chrono::milliseconds every{0};      ///< 0: once
  std::string service;                     ///< empty: the name of the program
  Labels labels;
  std::string headers_file;  ///< empty: none
  std::string ca_file;       ///< empty: the system's certificates
  std::chrono::milliseconds timeout{30'000};
  std::size_t retries = 4;
  bool quiet = false;
};

struct BundleOptions {
  TraceOptions trace;
  bool sources = false;                   ///< pack the source files that have costs
  bool command_line = false;              ///< with the arguments of the program
  std::vector<std::string> source_paths;  ///< where they are searched first
};

struct CompactOptions {
  std::string trace;
  std::string output;
  bool exact = false;
  int level = 12;  ///< of zstd
};

struct IndexOptions {
  std::string trace;
  std::string output;  ///< empty: TRACE.idx
};

struct CompletionsOptions {
  std::string shell;
};

struct ManualOptions {
  std::string page = "heapprof";
  std::string directory;  ///< where all pages are written; empty: `page` is printed
  bool list = false;
  bool markdown = false;  ///< print the reference, docs/reference.md
};

struct HelpOptions {
  std::string command;  ///< "report", "export csv"; empty: the list of all commands
};

/// `heapprof --recorder-path`.
struct RecorderPathOptions {};

/// `heapprof` without arguments.
struct FirstScreenOptions {};

using CommandOptions =
    std::variant<RecordOptions, ControlOptions, InstallSecureOptions, InfoOptions, ReportOptions, TreeOptions,
                 CallersOptions, BlocksOptions, SourceOptions, FlamegraphOptions, LeaksOptions, PinsOptions,
                 RssOptions, HistogramOptions, ChurnOptions, ReallocsOptions, ThreadsOptions, FreesOptions,
                 TopOptions, TimelineOptions, ServeOptions, HtmlOptions, DiffOptions, CheckOptions, ExportOptions,
                 QueryOptions, PushOptions, BundleOptions, CompactOptions, IndexOptions, CompletionsOptions,
                 ManualOptions, HelpOptions, RecorderPathOptions, FirstScreenOptions>;

}  // namespace heapprof::cli
