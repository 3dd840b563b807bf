// The default size of huge pages (MAP_HUGETLB without a size).
#pragma once

#include <cstddef>

namespace heapprof::sys {

/// In bytes, by /proc/meminfo; the size of ordinary pages if it cannot be read. Takes some 50 us the first time.
std::size_t huge_page_bytes() noexcept;

}  // namespace heapprof::sys
