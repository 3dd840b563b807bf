#include "analyzer/views/source_costs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/base/base_name.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/findings/tree_walk.h"

namespace heapprof::views {
namespace {

using findings::FrameRef;
using model::Costs;

/// A path, and for a relative one the module that has the file.
using FileKey = std::pair<std::string, std::uint32_t>;

/// Numbers the files and lines of all frames; number 0 is the unknown file, and its only line.
class SourceNumbers {
 public:
  SourceNumbers(const findings::CodeFrames& frames, const std::vector<std::uint8_t>* only) : frames_(frames) {
    number_file({});
    number_line(0, 0);
    const std::size_t addresses = frames.profile().addresses.size();
    first_.reserve(addresses);
    for (std::uint32_t address = 0; address < addresses; ++address) {
      first_.push_back(line_of_frame_.size());
      const std::size_t count = frames.functions_at(address).size();
      for (std::uint32_t index = 0; index < count; ++index) {
        const FrameRef frame{address, index};
        const bool counts =
            frames.is_in_scope(frames.at(frame)) && (only == nullptr || (*only)[frames.function_of(frame)] != 0);
        line_of_frame_.push_back(counts ? number_of(frame) : model::kNoIndex);
      }
    }
  }

  std::size_t files() const noexcept { return files_.size(); }
  std::size_t lines() const noexcept { return lines_.size(); }
  /// kNoIndex: the frame does not count.
  std::uint32_t line_of(FrameRef frame) const noexcept { return line_of_frame_[first_[frame.address] + frame.index]; }
  std::uint32_t file_of_line(std::uint32_t line) const noexcept { return lines_[line].first; }
  int number_in_file(std::uint32_t line) const noexcept { return lines_[line].second; }
  const std::string& path_of_file(std::uint32_t file) const noexcept { return files_[file]->first; }

 private:
  std::uint32_t number_of(FrameRef frame) {
    const symbols::SourceFrame* const source = frames_.source_of(frame);
    if (source == nullptr || source->file.empty()) return 0;
    const bool absolute = source->file.front() == '/';
    const std::uint32_t module = frames_.profile().addresses[frame.address].module;
    return number_line(number_file({source->file, absolute ? 0 : module}), source->line);
  }
  std::uint32_t number_file(FileKey key) {
    const auto [known, fresh] = file_numbers_.try_emplace(std::move(key), static_cast<std::uint32_t>(files_.size()));
    if (fresh) files_.push_back(&known->first);
    return known->second;
  }
  std::uint32_t number_line(std::uint32_t file, int line) {
    const auto [known, fresh] = line_numbers_.try_emplace({file, line}, static_cast<std::uint32_t>(lines_.size()));
    if (fresh) lines_.emplace_back(file, line);
    return known->second;
  }

  const findings::CodeFrames& frames_;
  std::map<FileKey, std::uint32_t> file_numbers_;
  std::map<std::pair<std::uint32_t, int>, std::uint32_t> line_numbers_;
  std::vector<const FileKey*> files_;
  std::vector<std::pair<std::uint32_t, int>> lines_;  ///< file, and line in it
  std::vector<std::size_t> first_;                    ///< by address, in line_of_frame_
  std::vector<std::uint32_t> line_of_frame_;
};

/// The sums of each line and file, by number.
struct Sums {
  std::vector<Costs> self, total;
};

/// Adds to the totals the costs of the stacks in which a number occurs. `number_of(frame)` may return kNoIndex.
template <typename NumberOf>
void add_totals(const findings::CodeFrames& frames, const std::vector<Costs>& below, NumberOf&& number_of,
                std::vector<Costs>& totals) {
  const std::vector<model::CallNode>& nodes = frames.profile().nodes;
  std::vector<std::uint32_t> open(totals.size(), 0);
  const auto for_each_number = [&](std::uint32_t node, auto&& visit) {
    const std::uint32_t address = nodes[node].address;
    if (address == model::kNoIndex) return;
    const auto count = static_cast<std::uint32_t>(frames.functions_at(address).size());
    for (std::uint32_t index = 0; index < count; ++index)
      if (const std::uint32_t number = number_of(FrameRef{address, index}); number != model::kNoIndex) visit(number);
  };
  findings::walk_tree(
      nodes,
      [&](std::uint32_t node) {
        for_each_number(node, [&](std::uint32_t number) {
          if (open[number]++ == 0) totals[number] += below[node];
        });
      },
      [&](std::uint32_t node) { for_each_number(node, [&](std::uint32_t number) { --open[number]; }); });
}

/// For each node of the profile, the costs of the stacks that end in it or below it.
std::vector<Costs> costs_below(const model::Profile& profile) {
  std::vector<Costs> below;
  below.reserve(profile.nodes.size());
  for (const model::CallNode& node : profile.nodes) below.push_back(node.costs);
  for (auto node = static_cast<std::uint32_t>(below.size()); node-- > 1;)
    below[profile.nodes[node].parent] += below[node];
  return below;
}

template <typename Number>
void add_once(std::vector<Number>& numbers, Number number) {
  if (std::find(numbers.begin(), numbers.end(), number) == numbers.end()) numbers.push_back(number);
}

}  // namespace

std::vector<SourceFile> source_costs(const findings::CodeFrames& frames, const findings::Helpers& helpers,
                                     const std::vector<std::uint8_t>* only) {
  const model::Profile& profile = frames.profile();
  const SourceNumbers numbers(frames, only);
  std::vector<SourceFile> files(numbers.files());
  Sums lines{std::vector<Costs>(numbers.lines()), std::vector<Costs>(numbers.lines())};
  Sums whole{std::vector<Costs>(numbers.files()), std::vector<Costs>(numbers.files())};

  const std::vector<FrameRef> sites = findings::find_site_frames(frames, helpers);
  Costs without_frames;
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node) {
    const Costs& costs = profile.nodes[node].costs;
    if (costs.empty()) continue;
    if (!sites[node].exists()) {
      if (only == nullptr) without_frames += costs;
      continue;
    }
    const std::uint32_t line = numbers.line_of(sites[node]);
    if (line == model::kNoIndex) continue;
    lines.self[line] += costs;
    whole.self[numbers.file_of_line(line)] += costs;
  }
  const std::vector<Costs> below = costs_below(profile);
  add_totals(
      frames, below, [&](FrameRef frame) { return numbers.line_of(frame); }, lines.total);
  add_totals(
      frames, below,
      [&](FrameRef frame) {
        const std::uint32_t line = numbers.line_of(frame);
        return line == model::kNoIndex ? line : numbers.file_of_line(line);
      },
      whole.total);
  for (std::vector<Costs>* const sums : {&lines.self, &lines.total, &whole.self, &whole.total})
    sums->front() += without_frames;

  std::vector<std::uint32_t> position(numbers.lines(), model::kNoIndex);  // of each line in its file
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    files[file].path = numbers.path_of_file(file);
    files[file].self = whole.self[file];
    files[file].total = whole.total[file];
  }
  for (std::uint32_t line = 0; line < numbers.lines(); ++line) {
    if (lines.total[line].empty()) continue;
    std::vector<SourceLine>& of_file = files[numbers.file_of_line(line)].lines;
    position[line] = static_cast<std::uint32_t>(of_file.size());
    of_file.push_back({numbers.number_in_file(line), lines.self[line], lines.total[line], {}});
  }
  for (std::uint32_t address = 0; address < profile.addresses.size(); ++address) {
    for (std::uint32_t index = 0; index < frames.functions_at(address).size(); ++index) {
      const std::uint32_t line = numbers.line_of({address, index});
      if (line == model::kNoIndex || position[line] == model::kNoIndex) continue;
      SourceFile& file = files[numbers.file_of_line(line)];
      add_once(file.modules, profile.addresses[address].module);
      add_once(file.lines[position[line]].functions, frames.function_of({address, index}));
    }
  }
  std::erase_if(files, [](const SourceFile& file) { return file.total.empty(); });
  for (SourceFile& file : files)
    std::sort(file.lines.begin(), file.lines.end(),
              [](const SourceLine& a, const SourceLine& b) { return a.line < b.line; });
  std::stable_sort(files.begin(), files.end(),
                   [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

std::vector<const SourceFile*> files_named(const std::vector<SourceFile>& files, const model::Profile& profile,
                                           const std::string& name) {
  const auto collect = [&](auto&& matches) {
    std::vector<const SourceFile*> found;
    for (const SourceFile& file : files)
      if (!file.path.empty() && matches(file)) found.push_back(&file);
    return found;
  };
  const auto ends_with = [](const std::string& path, const std::string& end) {
    return !end.empty() && path.ends_with(end) &&
           (path.size() == end.size() || end.front() == '/' || path[path.size() - end.size() - 1] == '/');
  };
  std::vector<const SourceFile*> found = collect([&](const SourceFile& file) { return file.path == name; });
  if (found.empty()) found = collect([&](const SourceFile& file) { return ends_with(file.path, name); });
  const std::size_t colon = name.find(':');
  if (!found.empty() || colon == std::string::npos) return found;
  const std::string module = name.substr(0, colon);
  const std::string end = name.substr(colon + 1);
  return collect([&](const SourceFile& file) {
    return ends_with(file.path, end) &&
           std::any_of(file.modules.begin(), file.modules.end(), [&](std::uint32_t number) {
             const std::string& path = profile.modules[number].path;
             return path == module || base_name(path) == module;
           });
  });
}

}  // namespace heapprof::views
