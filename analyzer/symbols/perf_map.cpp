#include "analyzer/symbols/perf_map.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "analyzer/symbols/sysroot.h"

namespace heapprof::symbols {

namespace {

constexpr std::size_t kMaxLineBytes = 4096;
constexpr std::size_t kMaxPieces = 8u << 20;  // a process with V8 has some 100,000

/// Removes a hexadecimal number and a space from the front of `line`.
bool take_first_number(std::string_view& line, std::uint64_t& value) {
  if (line.starts_with("0x")) line.remove_prefix(2);
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value, 16);
  if (error != std::errc() || end == line.data() + line.size() || *end != ' ') return false;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()) + 1);
  return true;
}

/// Removes ":123" from the end of `text`.
bool take_last_number(std::string_view& text, int& value) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, value);
  if (error != std::errc() || stop != end || value < 0) return false;
  text = text.substr(0, colon);
  return true;
}

}  // namespace

/// V8 (`node --perf-basic-prof`) writes KIND:MARKNAME FILE:LINE:COLUMN, where KIND is "JS", "LazyCompile",
/// "Function", "Script" and others, and MARK is '*', '+', '^', '~' or nothing, depending on the compiler. A name
/// without a file is code of V8 itself.
SourceFrame frame_of_jit_name(const std::string& name) {
  SourceFrame frame;
  frame.function = name;
  const std::size_t colon = name.find(':');
  if (colon == std::string::npos || colon == 0 || colon > 20) return frame;
  const std::string_view kind = std::string_view(name).substr(0, colon);
  if (!std::all_of(kind.begin(), kind.end(), [](unsigned char c) { return std::isalpha(c) != 0; })) return frame;
  std::string_view rest = std::string_view(name).substr(colon + 1);
  int line = 0, column = 0;
  if (!take_last_number(rest, column) || !take_last_number(rest, line)) return frame;
  if (!rest.empty() && std::strchr("*+^~", rest.front()) != nullptr) rest.remove_prefix(1);
  const std::size_t blank = rest.find(' ');
  if (blank == std::string_view::npos) return frame;
  const std::string_view function = rest.substr(0, blank);
  std::string_view file = rest.substr(blank + 1);
  if (file.starts_with("file://")) file.remove_prefix(7);
  frame.function = function.empty() ? "<anonymous>" : std::string(function);
  frame.file = std::string(file);
  frame.line = line;
  return frame;
}

void PerfMap::add(std::uint64_t begin, std::uint64_t end, std::string name) {
  // Remove pieces inside [begin, end), and cut those that overlap it.
  auto at = pieces_.lower_bound(begin);
  if (at != pieces_.begin()) {
    const auto before = std::prev(at);
    if (before->second.end > begin) {
      if (before->second.end > end) pieces_.try_emplace(end, Piece{before->second.end, before->second.name});
      before->second.end = begin;
    }
  }
  while (at != pieces_.end() && at->first < end) {
    if (at->second.end > end) pieces_.try_emplace(end, Piece{at->second.end, at->second.name});
    at = pieces_.erase(at);
  }
  pieces_.insert_or_assign(begin, Piece{end, std::move(name)});
}

PerfMap::Result PerfMap::read(const std::string& path, Period period, uid_t& owner, Owner allowed) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return Result::kMissing;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(fdopen(fd, "r"), std::fclose);
  if (file == nullptr) {
    close(fd);
    return Result::kMissing;
  }
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return Result::kMissing;
  // The same rule as perf's (Linux, tools/perf/util/symbol.c, dso__load).
  if (allowed == Owner::kRootOrSelf && status.st_uid != 0 && status.st_uid != geteuid()) {
    owner = status.st_uid;
    return Result::kForeign;
  }
  const auto written = static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000u +
                       static_cast<std::uint64_t>(status.st_mtim.tv_nsec);
  if (written < period.begin_ns) return Result::kOutdated;
  if (written > period.end_ns) return Result::kLater;

  std::string line;
  std::array<char, 65536> buffer;
  std::uint64_t bytes = 0;
  bool too_long = false;
  const auto take_line = [&] {
    std::string_view rest(line);
    std::uint64_t begin = 0, size = 0;
    if (!too_long && pieces_.size() < kMaxPieces && take_first_number(rest, begin) && take_first_number(rest, size) &&
        !rest.empty() && size != 0 && begin + size > begin)
      add(begin, begin + size, std::string(rest));
    line.clear();
    too_long = false;
  };
  for (std::size_t got; bytes < kMaxBytes && (got = std::fread(buffer.data(), 1, buffer.size(), file.get())) > 0;) {
    bytes += got;
    for (std::size_t at = 0; at < got;) {
      const char* const end = static_cast<const char*>(std::memchr(buffer.data() + at, '\n', got - at));
      const std::size_t stop = end == nullptr ? got : static_cast<std::size_t>(end - buffer.data());
      if (line.size() + (stop - at) > kMaxLineBytes) too_long = true;
      else line.append(buffer.data() + at, stop - at);
      at = stop + 1;
      if (end != nullptr) take_line();
    }
  }
  take_line();
  return Result::kRead;
}

SourceFrame PerfMap::find(std::uint64_t address) const {
  const auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin()) return {};
  const Piece& piece = std::prev(after)->second;
  return address < piece.end ? frame_of_jit_name(piece.name) : SourceFrame{};
}

namespace {

/// A sysroot that the user names is trusted, since copies of files have any owner; but not "/": anybody can write to
/// the /tmp of this system.
PerfMap::Owner allowed_owner(const Options& options, const std::string& root) {
  std::error_code error;
  const bool trusted = !root.empty() && root == options.sysroot && !std::filesystem::equivalent(root, "/", error);
  return trusted && !error ? PerfMap::Owner::kAny : PerfMap::Owner::kRootOrSelf;
}

/// A copy below a sysroot may be newer than the process.
PerfMap::Period period_of(const RecordedProcess& process, PerfMap::Owner owner) {
  PerfMap::Period period{.begin_ns = process.recorded_at_ns};
  if (process.ended_at_ns != 0 && owner != PerfMap::Owner::kAny) period.end_ns = process.ended_at_ns;
  return period;
}

/// As `touch -d` reads it.
std::string time_for_touch(std::uint64_t ns) {
  const std::string digits = std::to_string(ns % 1'000'000'000);
  return "@" + std::to_string(ns / 1'000'000'000) + "." + std::string(9 - digits.size(), '0') + digits;
}

}  // namespace

bool find_perf_map(const Options& options, const RecordedProcess& process, PerfMap& map, std::string& reason) {
  if (process.pid == 0) {
    reason = "a perf map is only read for a single recording";
    return false;
  }
  const std::string name = "/tmp/perf-" + std::to_string(process.pid) + ".map";
  std::vector<std::string> roots;
  if (!options.sysroot.empty()) roots.push_back(options.sysroot);
  if (process.live_pid != 0) roots.push_back("/proc/" + std::to_string(process.live_pid) + "/root");
  if (options.sysroot.empty()) roots.emplace_back();
  reason = name +
           " does not exist, or is older than the recording; enable it in the just-in-time compiler (node "
           "--perf-basic-prof)";
  for (const std::string& root : roots) {
    const std::string path = path_in_sysroot(root, name);
    uid_t owner = 0;
    const PerfMap::Owner allowed = allowed_owner(options, root);
    const PerfMap::Result result = map.read(path, period_of(process, allowed), owner, allowed);
    if (result == PerfMap::Result::kRead) return true;
    if (result == PerfMap::Result::kLater)
      reason = path +
               " was ignored, because it was last written after the recorded program had ended, so probably by "
               "another one with the same process id; if it is of the recording, give it a time of the recording: "
               "touch -d " +
               time_for_touch(process.ended_at_ns) + " " + path;
    if (result == PerfMap::Result::kForeign)
      reason = path + " was ignored, because it is owned by user " + std::to_string(owner) +
               ", not by root or the current user (" + std::to_string(geteuid()) +
               "); if you trust it, change its owner";
  }
  return false;
}

}  // namespace heapprof::symbols
