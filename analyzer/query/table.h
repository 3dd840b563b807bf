// Tables that SQL can read: what a table is to the database (database.h), whatever its rows come from.
//
// A table is asked for the rows that match some constraints. It may return others, too, since SQLite tests every row
// again; constraints only save work. Numbers are compared as SQL does, texts byte by byte.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

struct sqlite3_context;

namespace heapprof::query {

struct Column {
  const char* name;
  const char* type;     ///< "INTEGER" or "TEXT"
  const char* help;     ///< a clause without full stop
  bool hidden = false;  ///< an argument of the table, as in live_blocks(1000), that SELECT * leaves out
};

/// How a column is compared with a value.
enum class Op : char { kEqual = '=', kLess = '<', kLessEqual = '(', kGreater = '>', kGreaterEqual = ')' };

/// A value of SQL; monostate: NULL, or a blob.
using Value = std::variant<std::monostate, std::int64_t, double, std::string>;

struct Constraint {
  int column = 0;
  Op op = Op::kEqual;
  std::vector<Value> values{};  ///< of kEqual one of them; else a single one
};

/// Where a cursor puts the value of a column. Without a call it is NULL.
class Result {
 public:
  explicit Result(sqlite3_context* context) : context_(context) {}
  /// Numbers that SQL does not have are clipped to its largest one.
  void number(std::uint64_t value) const;
  void signed_number(std::int64_t value) const;
  void boolean(bool value) const { signed_number(value ? 1 : 0); }
  /// Copies `value`, which must be clean UTF-8 (render/utf8.h).
  void text(std::string_view value) const;
  /// Likewise; NULL if it is empty.
  void text_or_null(std::string_view value) const {
    if (!value.empty()) text(value);
  }

 private:
  sqlite3_context* context_;
};

class Cursor {
 public:
  virtual ~Cursor() = default;
  /// Moves to the first row, then to the next one. False: there is none.
  virtual bool next() = 0;
  /// Precondition: next() returned true.
  virtual void column(int column, const Result& result) const = 0;
  /// A number of the row that it has in every scan, and no other row: SQLite recognizes rows by it, for OR and for
  /// RIGHT JOIN. Precondition as above. May throw.
  virtual std::int64_t row_id() const = 0;
};

/// What the planner of SQLite expects of a scan.
struct Estimate {
  double cost = 0;  ///< in steps, each about as long as reading a row
  double rows = 0;
};

/// A set of columns, by bit.
using Columns = std::uint64_t;
constexpr Columns bit_of(int column) noexcept { return Columns{1} << column; }

class Table {
 public:
  virtual ~Table() = default;
  virtual const char* name() const = 0;
  virtual const char* help() const = 0;  ///< a sentence
  virtual std::span<const Column> columns() const = 0;

  /// `equal`: the columns that are compared with single values or lists of them; `bounded`: with limits.
  virtual Estimate estimate(Columns equal, Columns bounded) const = 0;
  /// The column by whose values the rows ascend if the columns `used` are read; -1: none.
  virtual int order(Columns used) const {
    (void)used;
    return -1;
  }
  /// Called for each scan. `used`: the columns that are read; one beyond the 63rd counts as the 63rd. May throw, as
  /// may the members of the cursor.
  virtual std::unique_ptr<Cursor> open(std::span<const Constraint> constraints, Columns used) = 0;
};

/// The whole numbers from `low` to `high` that can match the constraints on a column; none, if high < low.
struct Range {
  std::int64_t low = INT64_MIN;
  std::int64_t high = INT64_MAX;
  bool contains(std::uint64_t value) const noexcept {
    return value > INT64_MAX ? high == INT64_MAX
                             : low <= static_cast<std::int64_t>(value) && static_cast<std::int64_t>(value) <= high;
  }
};
Range range_of(std::span<const Constraint> constraints, int column);

/// The values that a column is compared with by =, as numbers: sorted, each once. False: there is no such list.
bool numbers_of(std::span<const Constraint> constraints, int column, std::vector<std::int64_t>& numbers);

/// Whether a text column can have this value.
bool can_be(std::span<const Constraint> constraints, int column, std::string_view value);

}  // namespace heapprof::query
