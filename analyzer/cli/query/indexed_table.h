// A table whose rows are known by number once a recording was read: how many, and what each has in its columns.
//
//   process_id is column 0. Of the rows of a process, `find` knows the one with a key, which is an id (recordings.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/cli/query/recordings.h"
#include "analyzer/cli/text/figures.h"
#include "analyzer/query/table.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {

/// A column, and how its value is made of a row.
template <typename Row>
struct Field {
  query::Column column;
  std::function<void(const Row&, const query::Result&)> put;
};

/// Processes that can match the constraints on column 0, and on the ids in column `key` (-1: there is none).
std::vector<std::uint32_t> processes_asked(const Recordings& recordings,
                                           std::span<const query::Constraint> constraints, int key);

/// The indexes of the ids in column `key` that a query asks for, of one process; nullopt: all.
std::optional<std::vector<std::uint32_t>> indexes_asked(std::span<const query::Constraint> constraints, int key,
                                                        const RecordedProcess& process);

template <typename Row>
class IndexedTable : public query::Table {
 public:
  struct Spec {
    const char* name;
    const char* help;
    std::vector<Field<Row>> fields;
    double rows;  ///< about how many there are
    std::function<std::size_t(Recording&)> count;
    std::function<Row(Recording&, std::size_t)> row;
    int key = -1;  ///< the column with the id of the row
    /// The row with the index of an id; nullopt: none has it. Not needed without `key`.
    std::function<std::optional<std::size_t>(Recording&, std::uint32_t)> find{};
  };

  IndexedTable(Recordings& recordings, Spec spec) : recordings_(recordings), spec_(std::move(spec)) {
    for (const Field<Row>& field : spec_.fields) columns_.push_back(field.column);
  }

  const char* name() const override { return spec_.name; }
  const char* help() const override { return spec_.help; }
  std::span<const query::Column> columns() const override { return columns_; }
  query::Estimate estimate(query::Columns equal, query::Columns) const override {
    if (spec_.key >= 0 && (equal & query::bit_of(spec_.key)) != 0) return {2, 1};
    return {spec_.rows, spec_.rows};
  }
  std::unique_ptr<query::Cursor> open(std::span<const query::Constraint> constraints, query::Columns) override {
    return std::make_unique<RowCursor>(*this, constraints);
  }

 private:
  class RowCursor : public query::Cursor {
   public:
    RowCursor(const IndexedTable& table, std::span<const query::Constraint> constraints)
        : table_(table), constraints_(constraints.begin(), constraints.end()),
          processes_(processes_asked(table.recordings_, constraints, table.spec_.key)) {}

    bool next() override {
      while (at_ == end_) {
        if (process_ == processes_.size()) return false;
        begin(processes_[process_++]);
      }
      index_ = rows_ ? (*rows_)[at_] : at_;
      row_.emplace(table_.spec_.row(*recording_, index_));
      ++at_;
      return true;
    }
    void column(int column, const query::Result& result) const override {
      table_.spec_.fields[static_cast<std::size_t>(column)].put(*row_, result);
    }
    std::int64_t row_id() const override { return recording_->id_of(static_cast<std::uint32_t>(index_)); }

   private:
    void begin(std::uint32_t id) {
      recording_ = table_.recordings_.recording(id);
      at_ = 0;
      rows_.reset();
      const auto asked =
          table_.spec_.key < 0 ? std::nullopt : indexes_asked(constraints_, table_.spec_.key, recording_->process());
      if (!asked) {
        end_ = table_.spec_.count(*recording_);
        return;
      }
      rows_.emplace();
      for (const std::uint32_t index : *asked)
        if (const std::optional<std::size_t> row = table_.spec_.find(*recording_, index)) rows_->push_back(*row);
      end_ = rows_->size();
    }

    const IndexedTable& table_;
    const std::vector<query::Constraint> constraints_;
    const std::vector<std::uint32_t> processes_;
    std::size_t process_ = 0;  ///< the next one
    std::shared_ptr<Recording> recording_;
    std::optional<std::vector<std::size_t>> rows_;  ///< those asked for; nullopt: all
    std::size_t at_ = 0;                            ///< the next one
    std::size_t end_ = 0;
    std::size_t index_ = 0;  ///< of the row
    std::optional<Row> row_;
  };

  Recordings& recordings_;
  const Spec spec_;
  std::vector<query::Column> columns_;
};

/// Text of the recorded program, which may hold any bytes.
inline void put_text(const query::Result& result, const std::string& text) {
  if (!text.empty()) result.text(render::clean_utf8(text));
}

/// Appends the figures of docs/json.md, by their names there. `costs_of(row)` may be null: they are unknown.
template <typename Row, typename CostsOf>
void add_figures(std::vector<Field<Row>>& fields, CostsOf&& costs_of) {
  static constexpr std::pair<const char*, const char*> kHelp[] = {
      {"peak_bytes", "bytes that were live at the peak of the recording"},
      {"peak_blocks", "blocks that were live at the peak"},
      {"leaked_bytes", "bytes that were never freed"},
      {"leaked_blocks", "blocks that were never freed"},
      {"allocated_bytes", "bytes of all allocations"},
      {"allocations", "number of allocations"},
      {"temporary_bytes", "bytes of temporary allocations"},
      {"temporary_allocations", "allocations that their thread freed before its next one"},
      {"live_bytes", "bytes live at --live-at, or at the end"},
      {"live_blocks", "blocks live at --live-at, or at the end"},
  };
  for (const Figure& figure : all_figures()) {
    const char* help = "";
    for (const auto& [key, text] : kHelp)
      if (std::string_view(key) == figure.key) help = text;
    fields.push_back(
        {{figure.key, "INTEGER", help}, [costs_of, &figure](const Row& row, const query::Result& result) {
           const model::Costs* const costs = costs_of(row);
           if (costs != nullptr) result.number(figure.of(*costs));
         }});
  }
}

inline constexpr query::Column kProcessId = {"process_id", "INTEGER", "id of the process, from 1"};

}  // namespace heapprof::cli
