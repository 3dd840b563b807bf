// The figures of rows and trees, by name: columns of tables, fields of CSV, keys of JSON.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyzer/cli/text/ranking.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/model/profile.h"

namespace heapprof::cli {

struct Figure {
  const char* name;  ///< on the command line: "peak-blocks"
  const char* key;   ///< in JSON: "peak_blocks"
  bool is_bytes;     ///< else a number of blocks
  std::uint64_t model::Costs::*member;

  std::uint64_t of(const model::Costs& costs) const noexcept { return costs.*member; }
};

/// In the order in which they are written.
std::span<const Figure> all_figures() noexcept;
/// What `cost` ranks by, and what is printed beside it: bytes beside blocks, blocks beside bytes.
const Figure& figure_of(Cost cost) noexcept;
const Figure& figure_beside(Cost cost) noexcept;

/// A figure of a row: of the row itself, or of everything below it too.
struct RowColumn {
  const Figure* figure = nullptr;
  bool total = false;

  std::string name() const { return (total ? "total-" : "") + std::string(figure->name); }
  friend bool operator==(const RowColumn&, const RowColumn&) = default;
};

/// Reads "peak-blocks", "total-peak", or "self" and "total", which mean the figure of `cost`. Throws
/// std::invalid_argument with a sentence that names `option`.
RowColumn column_named(const std::string& name, Cost cost, const char* option);

/// The column of live bytes over time, which is no figure.
inline constexpr const char* kOverTime = "over-time";

/// All names that column_named() reads.
std::vector<std::string> column_names();

/// The object F of docs/json.md.
Json figures_json(const model::Costs& costs);

}  // namespace heapprof::cli
