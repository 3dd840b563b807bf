#include "analyzer/rss/huge_tlb.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace heapprof::rss {
namespace {

using trace::PageState;
using trace::ResidencySnapshot;
using trace::ResidentMapping;

/// Mappings of hugetlbfs, and the pages in them, consist of these. Smaller huge pages, which aarch64 has too, are not
/// recognized.
constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;

bool is_whole(const AddressRange& range) {
  return range.begin % kHugePageBytes == 0 && range.end % kHugePageBytes == 0;
}

struct Device {
  bool is_huge_tlb = false;    ///< by the name of a mapping
  bool may_be = true;          ///< its mappings, and the pages in them, are whole huge pages
  std::uint64_t resident = 0;  ///< bytes
};
using Devices = std::map<std::uint64_t, Device>;

/// By the mappings alone.
Devices devices_of(const ResidencySnapshot& snapshot) {
  Devices devices;
  for (const ResidentMapping& mapping : snapshot.mappings) {
    if (mapping.device == 0) continue;  // anonymous memory
    Device& device = devices[mapping.device];
    if (has_name_of_huge_tlb(mapping)) device.is_huge_tlb = true;
    if (!is_whole(mapping)) device.may_be = false;
  }
  return devices;
}

/// Adds what the pages show. Returns the resident bytes of all mappings whose names are not of hugetlbfs.
std::uint64_t add_pages(const ResidencySnapshot& snapshot, Devices& devices) {
  std::uint64_t resident = 0;
  for (const ResidentMapping& mapping : snapshot.mappings) {
    if (has_name_of_huge_tlb(mapping)) continue;
    const auto device = devices.find(mapping.device);
    snapshot.pages.for_each_range(mapping.begin, mapping.end, [&](const AddressRange& range, const PageState& state) {
      if (!state.resident()) return;
      resident += range.end - range.begin;
      if (device == devices.end()) return;
      device->second.resident += range.end - range.begin;
      // mincore does not show which pages are huge.
      const bool is_huge = state.huge || snapshot.method != SnapshotMethod::kPagemapScan;
      if (!is_whole(range) || !is_huge) device->second.may_be = false;
    });
  }
  return resident;
}

}  // namespace

bool has_name_of_huge_tlb(const ResidentMapping& mapping) {
  const std::string_view name = mapping.name;
  return name.starts_with("/anon_hugepage") || name.starts_with("/dev/hugepages/") || name.starts_with("/hugepages/");
}

std::vector<std::uint64_t> huge_tlb_devices(const ResidencySnapshot& snapshot) {
  Devices devices = devices_of(snapshot);
  const auto is_candidate = [](const auto& entry) { return entry.second.may_be && !entry.second.is_huge_tlb; };
  if (std::ranges::any_of(devices, is_candidate)) {
    std::uint64_t resident = add_pages(snapshot, devices);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> candidates;  // resident bytes and device
    for (const auto& entry : devices) {
      if (entry.second.is_huge_tlb) resident -= entry.second.resident;
      else if (is_candidate(entry)) candidates.emplace_back(entry.second.resident, entry.first);
    }
    // Those that explain best by how much the pages exceed what the kernel counted.
    if (snapshot.resident_bytes != 0 && resident > snapshot.resident_bytes) {
      std::uint64_t excess = resident - snapshot.resident_bytes;
      std::sort(candidates.rbegin(), candidates.rend());
      for (const auto& [bytes, number] : candidates) {
        // The count and the pages are not of the same instant, and the kernel counts in batches of each processor.
        if (bytes == 0 || excess + bytes / 8 < bytes) continue;
        devices[number].is_huge_tlb = true;
        excess -= std::min(excess, bytes);
      }
    }
  }
  std::vector<std::uint64_t> result;
  for (const auto& [number, device] : devices)
    if (device.is_huge_tlb) result.push_back(number);
  return result;
}

}  // namespace heapprof::rss
