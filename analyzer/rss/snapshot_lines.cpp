#include "analyzer/rss/snapshot_lines.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "analyzer/base/base_name.h"
#include "analyzer/pins/arena_tops.h"
#include "analyzer/rss/huge_tlb.h"
#include "analyzer/rss/range_parts.h"
#include "common/trace_format.h"

namespace heapprof::rss {
namespace {

using replay::LiveMapping;
using trace::PageState;
using trace::ResidencySnapshot;
using trace::ResidentMapping;

enum class MappingKind : std::uint8_t {
  kFile,
  kShared,
  kMainStack,
  kHeap,  ///< what brk extends
  kAnonymous,
  kHugeTlb,     ///< outside of resident memory
  kNotCounted,  ///< pages of the kernel
};

/// `huge_tlb`: huge_tlb_devices().
MappingKind kind_of(const ResidentMapping& mapping, const std::vector<std::uint64_t>& huge_tlb) {
  const std::string_view name = mapping.name;
  const auto begins = [&](std::string_view text) { return name.starts_with(text); };
  if (begins("[vvar") || name == "[vsyscall]") return MappingKind::kNotCounted;
  if (name == "[heap]") return MappingKind::kHeap;
  if (begins("[stack")) return MappingKind::kMainStack;
  if (has_name_of_huge_tlb(mapping) || std::ranges::binary_search(huge_tlb, mapping.device))
    return MappingKind::kHugeTlb;
  // Names of files without a path: "/memfd:NAME (deleted)", "/SYSV00000000 (deleted)"; "/dev/zero (deleted)" is
  // anonymous shared memory, and a private mapping of /dev/zero is anonymous.
  if (begins("/dev/zero") && !mapping.shared) return MappingKind::kAnonymous;
  if (begins("/dev/shm/") || begins("/memfd:") || begins("/SYSV") || begins("/dev/zero") || begins("[anon_shmem:"))
    return MappingKind::kShared;
  if (name.empty() || begins("[anon:")) return mapping.shared ? MappingKind::kShared : MappingKind::kAnonymous;
  return MappingKind::kFile;
}

/// Consecutive resident pages of one mapping.
struct Pages {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t mapping;  ///< in ResidencySnapshot::mappings
  bool huge;
};
using PageList = std::vector<Pages>;

struct SnapshotPages {
  PageList resident;  ///< those of the kernel and of hugetlbfs left out
  PageRanges swapped;
  PageRanges huge_tlb;
  std::uint64_t page_table_bytes = 0;
};

/// Counts the page tables that map pages, visited in ascending order. A table of the lowest level maps 2 MiB with
/// pages of 4 KiB, a table of the next one 512 of these. The root is left out, as in the kernel's VmPTE.
class PageTables {
 public:
  /// A snapshot in a damaged trace can have pages of any size.
  explicit PageTables(std::uint64_t page_bytes) : page_bytes_(std::max(page_bytes, allocators::kPageBytes)) {}

  void add(std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t entries = page_bytes_ / 8;
    std::uint64_t span = page_bytes_;
    for (std::uint64_t& next : next_) {
      if (span > allocators::kMaxAddress / entries) return;
      span *= entries;
      const std::uint64_t first = std::max(begin / span, next);
      const std::uint64_t last = (end - 1) / span;
      if (first > last) continue;
      tables_ += last - first + 1;
      next = last + 1;
    }
  }
  std::uint64_t bytes() const noexcept { return tables_ * page_bytes_; }

 private:
  static constexpr std::size_t kLevels = 3;  // below the root
  std::uint64_t page_bytes_;
  std::uint64_t next_[kLevels] = {};  // the first table that was not counted
  std::uint64_t tables_ = 0;
};

SnapshotPages pages_of(const ResidencySnapshot& snapshot, const std::vector<MappingKind>& kinds) {
  SnapshotPages result;
  PageTables tables(snapshot.pages.page_bytes());
  for (std::uint32_t i = 0; i < snapshot.mappings.size(); ++i) {
    const ResidentMapping& mapping = snapshot.mappings[i];
    snapshot.pages.for_each_range(mapping.begin, mapping.end, [&](const AddressRange& range, const PageState& state) {
      if (!state.present && !state.swapped) return;
      // Pages of hugetlbfs need no table of the lowest level.
      if (kinds[i] != MappingKind::kHugeTlb) tables.add(range.begin, range.end);
      if (state.swapped && !state.present) result.swapped.push_back({range.begin, range.end});
      if (!state.resident() || kinds[i] == MappingKind::kNotCounted) return;
      if (kinds[i] == MappingKind::kHugeTlb) result.huge_tlb.push_back({range.begin, range.end});
      else result.resident.push_back({range.begin, range.end, i, state.huge});
    });
  }
  result.page_table_bytes = tables.bytes();
  return result;
}

/// The stacks of the threads that the recorder knows: from the mapping's begin to the end that it recorded.
PageRanges thread_stacks(const ResidencySnapshot& snapshot, const std::vector<MappingKind>& kinds) {
  const std::vector<ResidentMapping>& mappings = snapshot.mappings;
  const std::uint64_t page = snapshot.pages.page_bytes();
  std::vector<AddressRange> ranges;
  for (const trace::ThreadStack& stack : snapshot.stacks) {
    const auto at = std::partition_point(mappings.begin(), mappings.end(), [&](const ResidentMapping& mapping) {
      return mapping.end <= stack.stack_pointer;
    });
    if (at == mappings.end() || at->begin > stack.stack_pointer) continue;
    if (kinds[static_cast<std::size_t>(at - mappings.begin())] != MappingKind::kAnonymous) continue;
    // A stack begins behind its guard page. Without one, the mapping may begin with something else: the kernel merges
    // neighbours.
    const bool guarded = at != mappings.begin() && (at - 1)->end == at->begin && !(at - 1)->readable;
    std::uint64_t begin = at->begin;
    if (!guarded) begin = std::max(begin, allocators::round_down(stack.stack_pointer, page));
    std::uint64_t end = at->end;
    if (stack.end > stack.stack_pointer && stack.end < end) end = allocators::round_up(stack.end, page);
    ranges.push_back({begin, end});
  }
  return pins::joined(std::move(ranges));
}

/// Pages behind the file of a module's data, up to the end of the module: its .bss. The kernel maps them as anonymous
/// memory.
struct ModuleData {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t file;  ///< the mapping of the file before it
};

/// Empty: the trace does not show it, or is damaged.
AddressRange range_of(const model::Module& module) {
  if (module.first_address >= allocators::kMaxAddress || module.map_bytes >= allocators::kMaxAddress) return {};
  return {module.first_address, module.first_address + module.map_bytes};
}

std::vector<ModuleData> module_data(const ResidencySnapshot& snapshot, const std::vector<MappingKind>& kinds,
                                    const model::Profile& profile) {
  std::vector<ModuleData> result;
  for (std::uint32_t i = 1; i < snapshot.mappings.size(); ++i) {
    const ResidentMapping& file = snapshot.mappings[i - 1];
    const ResidentMapping& data = snapshot.mappings[i];
    if (kinds[i] != MappingKind::kAnonymous || kinds[i - 1] != MappingKind::kFile || file.end != data.begin) continue;
    // By address: the loader knows a library by the name of a link, the kernel by that of the file.
    for (const model::Module& module : profile.modules) {
      const AddressRange range = range_of(module);
      if (file.begin < range.begin || range.end <= data.begin) continue;
      const std::uint64_t end = allocators::round_up(range.end, snapshot.pages.page_bytes());
      result.push_back({data.begin, std::min(end, data.end), i - 1});
      break;
    }
  }
  return result;
}

/// Where the allocator's library is; empty: it is libc, or in the program.
AddressRange library_of(const ProcessMemory& process) {
  for (const model::Module& module : process.profile.modules)
    if (!module.path.empty() && module.path == process.allocators.library()) return range_of(module);
  return {};
}

bool is_made_by_library(const model::Profile& profile, const std::string& library, std::uint32_t node) {
  if (library.empty() || node >= profile.nodes.size()) return false;
  const std::uint32_t address = profile.nodes[node].address;
  return address < profile.addresses.size() && profile.modules[profile.addresses[address].module].path == library;
}

class Classifier {
 public:
  Classifier(const ResidencySnapshot& snapshot, const ProcessMemory& process)
      : snapshot_(snapshot), process_(process), library_(library_of(process)) {
    const std::vector<std::uint64_t> huge_tlb = huge_tlb_devices(snapshot);
    for (const ResidentMapping& mapping : snapshot.mappings) kinds_.push_back(kind_of(mapping, huge_tlb));
    SnapshotPages pages = pages_of(snapshot, kinds_);
    memory_.huge_tlb_bytes = sum_of(pages.huge_tlb);
    memory_.page_table_bytes = pages.page_table_bytes;
    memory_.swapped_bytes = sum_of(pages.swapped);
    // Resident pages, swapped ones and those of hugetlbfs are different ones.
    memory_.not_resident_bytes =
        sum_of(process.live.requested) - bytes_inside(pages.resident, process.live.requested) -
        bytes_inside(pages.swapped, process.live.requested) - bytes_inside(pages.huge_tlb, process.live.requested);
    left_ = std::move(pages.resident);
  }

  ResidentMemory run() {
    set_written_file_bytes();
    take_recorder();
    take_named();
    take_program_mappings();
    PageList allocator = take_sure_allocator_pages();
    take_module_data();
    take_stacks();
    take_rest(allocator);
    std::sort(allocator.begin(), allocator.end(), [](const Pages& a, const Pages& b) { return a.begin < b.begin; });
    split_allocator_pages(std::move(allocator));
    sort_parts(memory_);
    return std::move(memory_);
  }

 private:
  /// Removes what is in `ranges` from the pages that are left, and returns it.
  template <typename Range>
  PageList take(const std::vector<Range>& ranges) {
    PageList taken = parts_inside(left_, ranges);
    left_ = parts_outside(left_, ranges);
    return taken;
  }

  void add(Line line, std::uint64_t bytes) { memory_[line].bytes += bytes; }

  /// Private pages that are not of anonymous memory are copies of pages of files.
  void set_written_file_bytes() {
    if (snapshot_.resident_bytes == 0 || snapshot_.shared_bytes > snapshot_.resident_bytes) return;
    std::uint64_t anonymous = 0;
    std::uint64_t files = 0;
    for (const Pages& pages : left_) {
      const MappingKind kind = kinds_[pages.mapping];
      if (kind == MappingKind::kFile) files += pages.end - pages.begin;
      else if (kind != MappingKind::kShared) anonymous += pages.end - pages.begin;
    }
    const std::uint64_t private_bytes = snapshot_.resident_bytes - snapshot_.shared_bytes;
    memory_.written_file_bytes = std::min(private_bytes - std::min(private_bytes, anonymous), files);
  }

  void take_recorder() {
    std::vector<AddressRange> ranges;
    for (const AddressRange& range : snapshot_.recorder_ranges)
      if (range.begin < range.end && range.end < allocators::kMaxAddress) ranges.push_back({range.begin, range.end});
    recorder_ = rounded_out(pins::joined(std::move(ranges)), snapshot_.pages.page_bytes());
    for (const Pages& pages : take(recorder_)) {
      const ResidentMapping& mapping = snapshot_.mappings[pages.mapping];
      const bool file = kinds_[pages.mapping] == MappingKind::kFile;
      parts_.add(Line::kRecorder, {file ? mapping.name : "anonymous memory", model::kNoIndex, pages.end - pages.begin,
                                   file && mapping.writable && !mapping.shared});
    }
  }

  void take_named() {
    std::vector<std::uint64_t> bytes_of_mapping(kinds_.size(), 0);
    PageList anonymous;
    for (const Pages& pages : left_) {
      const MappingKind kind = kinds_[pages.mapping];
      if (kind == MappingKind::kAnonymous || kind == MappingKind::kHeap) anonymous.push_back(pages);
      else bytes_of_mapping[pages.mapping] += pages.end - pages.begin;
    }
    left_ = std::move(anonymous);
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      const std::uint64_t bytes = bytes_of_mapping[i];
      if (bytes == 0) continue;
      const ResidentMapping& mapping = snapshot_.mappings[i];
      if (kinds_[i] == MappingKind::kFile) add_file(mapping, mapping.writable && !mapping.shared, bytes);
      else if (kinds_[i] == MappingKind::kMainStack)
        parts_.add(Line::kStacks, {"main thread", model::kNoIndex, bytes, false});
      else
        parts_.add(Line::kShared,
                   {mapping.name.empty() ? "anonymous shared memory" : mapping.name, model::kNoIndex, bytes, false});
    }
  }

  void add_file(const ResidentMapping& file, bool writable, std::uint64_t bytes) {
    const bool of_allocator = writable && file.begin >= library_.begin && file.begin < library_.end;
    parts_.add(of_allocator ? Line::kMetadata : Line::kFiles, {name_of_file(file), model::kNoIndex, bytes, writable});
  }

  /// The loader may know the file of a module by a link with another name ("redis-server", a link to
  /// "redis-check-rdb"): then that one, as in stacks. A name without the version is no other name.
  std::string name_of_file(const ResidentMapping& file) const {
    for (const model::Module& module : process_.profile.modules) {
      const AddressRange range = range_of(module);
      if (module.path.empty() || file.begin < range.begin || file.begin >= range.end) continue;
      return base_name(file.name).starts_with(base_name(module.path)) ? file.name : module.path;
    }
    return file.name;
  }

  void take_program_mappings() {
    allocator_mappings_ = allocator_mappings(process_);
    program_mappings_ = parts_outside(process_.mappings, allocator_mappings_);
    for_each_overlap(program_mappings_, left_,
                     [&](const LiveMapping& mapping, const Pages&, std::uint64_t begin, std::uint64_t end) {
                       parts_.add(Line::kMmap, {"", mapping.node, end - begin, false});
                     });
    take(program_mappings_);
  }

  PageList take_sure_allocator_pages() {
    std::vector<AddressRange> ranges = process_.live.kept;
    for (const LiveMapping& mapping : allocator_mappings_) ranges.push_back({mapping.begin, mapping.end});
    for (std::size_t i = 0; i < kinds_.size(); ++i)
      if (kinds_[i] == MappingKind::kHeap) ranges.push_back({snapshot_.mappings[i].begin, snapshot_.mappings[i].end});
    return take(pins::joined(std::move(ranges)));
  }

  void take_module_data() {
    module_data_ = module_data(snapshot_, kinds_, process_.profile);
    for_each_overlap(module_data_, left_,
                     [&](const ModuleData& data, const Pages&, std::uint64_t begin, std::uint64_t end) {
                       add_file(snapshot_.mappings[data.file], true, end - begin);
                     });
    take(module_data_);
  }

  void take_stacks() {
    stacks_ = thread_stacks(snapshot_, kinds_);
    add_stacks("other threads", take(stacks_));
  }
  void add_stacks(const char* name, const PageList& pages) {
    if (!pages.empty()) parts_.add(Line::kStacks, {name, model::kNoIndex, sum_of(pages), false});
  }

  /// Pages that once held a block, and unrecorded mappings, to which the C library's own belong: its allocator's, if
  /// some block was in it, and stacks of threads that have ended or never allocated, if a guard page is before it.
  void take_rest(PageList& allocator) {
    const PageList once = take(process_.once_held);
    allocator.insert(allocator.end(), once.begin(), once.end());
    PageRanges known;
    for (const LiveMapping& mapping : process_.mappings) known.push_back({mapping.begin, mapping.end});
    for (const ModuleData& data : module_data_) known.push_back({data.begin, data.end});
    known.insert(known.end(), stacks_.begin(), stacks_.end());
    known.insert(known.end(), recorder_.begin(), recorder_.end());
    known = pins::joined(std::move(known));
    PageRanges of_allocator;
    PageRanges of_stacks;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (kinds_[i] != MappingKind::kAnonymous) continue;
      const ResidentMapping& mapping = snapshot_.mappings[i];
      if (!overlaps(left_, mapping.begin, mapping.end)) continue;
      for (const AddressRange& piece : parts_of(mapping, known)) {
        const bool has_blocks = overlaps(process_.live.taken, piece.begin, piece.end) ||
                                overlaps(process_.once_held, piece.begin, piece.end);
        if (has_blocks) of_allocator.push_back(piece);
        else if (is_after_guard(i, piece)) of_stacks.push_back(piece);
      }
    }
    const PageList rest = take(of_allocator);
    allocator.insert(allocator.end(), rest.begin(), rest.end());
    add_stacks("threads without a recorded event, or that have ended", take(of_stacks));
    add(Line::kUnknown, sum_of(left_));
  }

  /// The parts of a mapping that are not `known`. Precondition: `known` is sorted.
  static PageRanges parts_of(const ResidentMapping& mapping, const PageRanges& known) {
    PageRanges parts;
    std::uint64_t begin = mapping.begin;
    auto at = std::partition_point(known.begin(), known.end(),
                                   [&](const AddressRange& range) { return range.end <= mapping.begin; });
    for (; at != known.end() && at->begin < mapping.end; ++at) {
      if (at->begin > begin) parts.push_back({begin, at->begin});
      begin = std::max(begin, at->end);
    }
    if (begin < mapping.end) parts.push_back({begin, mapping.end});
    return parts;
  }

  /// Whether the mapping has a guard before it, as stacks of threads have.
  bool is_after_guard(std::size_t mapping, const AddressRange& piece) const {
    constexpr std::uint64_t kMaxGuard = std::uint64_t{1} << 20;
    if (mapping == 0 || piece.begin != snapshot_.mappings[mapping].begin) return false;
    const ResidentMapping& guard = snapshot_.mappings[mapping - 1];
    return guard.end == piece.begin && kinds_[mapping - 1] == MappingKind::kAnonymous && !guard.readable &&
           !guard.writable && guard.end - guard.begin <= kMaxGuard;
  }

  void split_allocator_pages(PageList pages) {
    const LiveLayout& live = process_.live;
    const PageRanges touched = rounded_out(live.taken, snapshot_.pages.page_bytes());
    const PageList with_blocks = parts_inside(pages, touched);
    const std::uint64_t requested = bytes_inside(with_blocks, live.requested);
    const std::uint64_t taken = bytes_inside(with_blocks, live.taken);
    add(Line::kRequested, requested);
    add(Line::kRounding, taken - requested);
    add(Line::kHoles, sum_of(with_blocks) - taken);

    pages = parts_outside(pages, touched);
    add(Line::kHeldBack, sum_of(parts_inside(pages, live.kept)));
    pages = parts_outside(pages, live.kept);
    split_free_pages(parts_inside(pages, process_.once_held));

    pages = parts_outside(pages, process_.once_held);
    std::uint64_t huge = 0;
    for (const Pages& one : pages)
      if (one.huge) huge += one.end - one.begin;
    add(Line::kMetadata, sum_of(pages));
    if (huge != 0)
      memory_[Line::kMetadata].parts.push_back({"pages of huge pages without blocks", model::kNoIndex, huge, false});
  }

  /// Nothing keeps these pages, but malloc_trim does not return the tops of arenas.
  void split_free_pages(const PageList& free) {
    const PageRanges tops = pins::arena_tops(process_.allocators, process_.once_held, process_.live.kept);
    const std::uint64_t ends = bytes_inside(free, tops);
    add(Line::kReturnable, sum_of(free) - ends);
    if (ends != 0) parts_.add(Line::kHeldBack, {"free ends of the heaps of threads", model::kNoIndex, ends, false});
  }

  const ResidencySnapshot& snapshot_;
  const ProcessMemory& process_;
  AddressRange library_;            // the allocator's
  std::vector<MappingKind> kinds_;  // by mapping
  PageList left_;                   // resident, and in no line yet
  ResidentMemory memory_;
  PartAdder parts_{memory_};
  PageRanges recorder_;
  PageRanges stacks_;
  std::vector<ModuleData> module_data_;
  std::vector<LiveMapping> allocator_mappings_;
  std::vector<LiveMapping> program_mappings_;
};

}  // namespace

std::vector<LiveMapping> allocator_mappings(const ProcessMemory& process) {
  std::vector<LiveMapping> result;
  for (const LiveMapping& mapping : process.mappings)
    if ((mapping.flags & kMapFromAllocator) != 0 ||
        is_made_by_library(process.profile, process.allocators.library(), mapping.node) ||
        overlaps(process.live.taken, mapping.begin, mapping.end) ||
        overlaps(process.once_held, mapping.begin, mapping.end))
      result.push_back(mapping);
  return result;
}

ResidentMemory classify(const trace::ResidencySnapshot& snapshot, const ProcessMemory& process) {
  return Classifier(snapshot, process).run();
}

}  // namespace heapprof::rss
