// Which mappings of a snapshot are of hugetlbfs, whose pages the kernel does not count as resident.
//
// /proc/PID/maps names anonymous huge pages ("/anon_hugepage") and files below /dev/hugepages. The name of a memfd,
// of System V memory and of a file on another mount does not show it, but the device does: an instance of hugetlbfs
// is a device, which has nothing but huge pages.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/trace/residency.h"

namespace heapprof::rss {

/// Whether the name shows that the mapping is of hugetlbfs.
bool has_name_of_huge_tlb(const trace::ResidentMapping& mapping);

/// The devices that are instances of hugetlbfs, sorted. Memory of tmpfs can consist of huge pages, too (transparent
/// ones, which are resident). Where neither a name nor a smaller page distinguishes them, the kernel's count of
/// resident memory does.
std::vector<std::uint64_t> huge_tlb_devices(const trace::ResidencySnapshot& snapshot);

}  // namespace heapprof::rss
