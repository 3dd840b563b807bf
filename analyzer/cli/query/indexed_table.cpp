#include "analyzer/cli/query/indexed_table.h"

namespace heapprof::cli {

std::vector<std::uint32_t> processes_asked(const Recordings& recordings,
                                           std::span<const query::Constraint> constraints, int key) {
  const query::Range range = query::range_of(constraints, 0);
  std::vector<std::int64_t> wanted;
  const bool has_list = query::numbers_of(constraints, 0, wanted);
  std::vector<std::int64_t> ids;
  const bool has_ids = key >= 0 && query::numbers_of(constraints, key, ids);
  std::vector<std::uint32_t> result;
  for (const RecordedProcess& process : recordings.processes()) {
    if (!range.contains(process.id)) continue;
    if (has_list && !std::binary_search(wanted.begin(), wanted.end(), std::int64_t{process.id})) continue;
    const std::int64_t first = static_cast<std::int64_t>(process.id - 1) << 32;
    if (has_ids) {
      const auto at = std::lower_bound(ids.begin(), ids.end(), first);
      if (at == ids.end() || *at - first > UINT32_MAX) continue;
    }
    result.push_back(process.id);
  }
  return result;
}

std::optional<std::vector<std::uint32_t>> indexes_asked(std::span<const query::Constraint> constraints, int key,
                                                        const RecordedProcess& process) {
  std::vector<std::int64_t> ids;
  if (!query::numbers_of(constraints, key, ids)) return std::nullopt;
  const std::int64_t first = static_cast<std::int64_t>(process.id - 1) << 32;
  std::vector<std::uint32_t> result;
  for (auto at = std::lower_bound(ids.begin(), ids.end(), first); at != ids.end() && *at - first <= UINT32_MAX; ++at)
    result.push_back(static_cast<std::uint32_t>(*at - first));
  return result;
}

}  // namespace heapprof::cli
