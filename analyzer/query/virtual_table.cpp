// What xBestIndex offers to SQLite is written into idxStr and read again by xFilter: for each argument "=3 ", its
// operator and column, then "u" and the columns that are read. An equality with a list (IN) is one argument, which
// has all values of the list, so that the recording is read once and not for each value.
#include "analyzer/query/virtual_table.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <sqlite3.h>
#include <string>
#include <utility>
#include <vector>

namespace heapprof::query {
namespace {

struct Vtab : sqlite3_vtab {
  ModuleContext context;
};

struct VtabCursor : sqlite3_vtab_cursor {
  std::unique_ptr<Cursor> cursor;
  bool has_row = false;
};

const Vtab& vtab_of(const sqlite3_vtab* vtab) { return *static_cast<const Vtab*>(vtab); }
VtabCursor& cursor_of(sqlite3_vtab_cursor* cursor) { return *static_cast<VtabCursor*>(cursor); }

/// Calls `work`. An exception becomes an error of SQLite, and is kept for who runs the statement.
template <typename Work>
int guarded_call(const ModuleContext& context, Work&& work) noexcept {
  try {
    return work();
  } catch (...) {
    *context.failure = std::current_exception();
    return SQLITE_ERROR;
  }
}

int connect(sqlite3* database, void* context, int, const char* const*, sqlite3_vtab** out, char**) {
  const ModuleContext& given = *static_cast<const ModuleContext*>(context);
  return guarded_call(given, [&] {
    std::string declaration = "CREATE TABLE x(";
    for (const Column& column : given.table->columns()) {
      if (declaration.back() != '(') declaration += ", ";
      declaration += std::string(column.name) + " " + column.type + (column.hidden ? " HIDDEN" : "");
    }
    const bool restricted = std::exchange(*given.restricted, false);
    const int code = sqlite3_declare_vtab(database, (declaration + ")").c_str());
    *given.restricted = restricted;
    if (code != SQLITE_OK) return code;
    auto vtab = std::make_unique<Vtab>();
    vtab->context = given;
    *out = vtab.release();
    return SQLITE_OK;
  });
}

int disconnect(sqlite3_vtab* vtab) {
  delete static_cast<Vtab*>(vtab);
  return SQLITE_OK;
}

std::optional<Op> op_of(unsigned char op) {
  switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ: return Op::kEqual;
    case SQLITE_INDEX_CONSTRAINT_LT: return Op::kLess;
    case SQLITE_INDEX_CONSTRAINT_LE: return Op::kLessEqual;
    case SQLITE_INDEX_CONSTRAINT_GT: return Op::kGreater;
    case SQLITE_INDEX_CONSTRAINT_GE: return Op::kGreaterEqual;
    default: return std::nullopt;
  }
}

int best_index(sqlite3_vtab* vtab, sqlite3_index_info* info) {
  const ModuleContext& context = vtab_of(vtab).context;
  return guarded_call(context, [&] {
    const std::span<const Column> columns = context.table->columns();
    std::string plan;
    Columns equal = 0, bounded = 0;
    int arguments = 0;
    for (int i = 0; i < info->nConstraint; ++i) {
      const auto& constraint = info->aConstraint[i];
      const std::optional<Op> op = op_of(constraint.op);
      if (!op || constraint.iColumn < 0) continue;
      const bool hidden = columns[static_cast<std::size_t>(constraint.iColumn)].hidden;
      // The argument of a table that is in no other column: without it there is no result.
      if (constraint.usable == 0) {
        if (hidden) return SQLITE_CONSTRAINT;
        continue;
      }
      if (hidden && *op != Op::kEqual) continue;
      // Texts are compared here byte by byte.
      if (std::strcmp(sqlite3_vtab_collation(info, i), "BINARY") != 0) continue;
      sqlite3_vtab_in(info, i, hidden ? 0 : 1);
      info->aConstraintUsage[i].argvIndex = ++arguments;
      info->aConstraintUsage[i].omit = hidden ? 1 : 0;
      (*op == Op::kEqual ? equal : bounded) |= bit_of(constraint.iColumn);
      plan += static_cast<char>(*op) + std::to_string(constraint.iColumn) + " ";
    }
    plan += "u" + std::to_string(info->colUsed);
    info->idxStr = sqlite3_mprintf("%s", plan.c_str());
    if (info->idxStr == nullptr) return SQLITE_NOMEM;
    info->needToFreeIdxStr = 1;
    const Estimate estimate = context.table->estimate(equal, bounded);
    info->estimatedCost = estimate.cost;
    info->estimatedRows = static_cast<sqlite3_int64>(estimate.rows);
    if (info->nOrderBy == 1 && info->aOrderBy[0].desc == 0 && info->aOrderBy[0].iColumn >= 0 &&
        info->aOrderBy[0].iColumn == context.table->order(info->colUsed))
      info->orderByConsumed = 1;
    return SQLITE_OK;
  });
}

Value value_of(sqlite3_value* value) {
  switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER: return std::int64_t{sqlite3_value_int64(value)};
    case SQLITE_FLOAT: return sqlite3_value_double(value);
    case SQLITE_TEXT: {
      const auto* const text = reinterpret_cast<const char*>(sqlite3_value_text(value));
      if (text == nullptr) throw std::bad_alloc();
      return std::string(text, static_cast<std::size_t>(sqlite3_value_bytes(value)));
    }
    default: return std::monostate();
  }
}

/// The values of a list, or the single value.
std::vector<Value> values_of(sqlite3_value* argument) {
  std::vector<Value> values;
  sqlite3_value* one = nullptr;
  int code = sqlite3_vtab_in_first(argument, &one);
  if (code != SQLITE_OK && code != SQLITE_DONE) return {value_of(argument)};
  for (; code == SQLITE_OK && one != nullptr; code = sqlite3_vtab_in_next(argument, &one))
    values.push_back(value_of(one));
  return values;
}

int open_cursor(sqlite3_vtab* vtab, sqlite3_vtab_cursor** out) {
  return guarded_call(vtab_of(vtab).context, [&] {
    *out = std::make_unique<VtabCursor>().release();
    return SQLITE_OK;
  });
}

int close_cursor(sqlite3_vtab_cursor* cursor) {
  delete static_cast<VtabCursor*>(cursor);
  return SQLITE_OK;
}

int next_row(sqlite3_vtab_cursor* at) {
  VtabCursor& cursor = cursor_of(at);
  return guarded_call(vtab_of(at->pVtab).context, [&] {
    cursor.has_row = cursor.cursor->next();
    return SQLITE_OK;
  });
}

int filter(sqlite3_vtab_cursor* at, int, const char* plan, int, sqlite3_value** arguments) {
  const ModuleContext& context = vtab_of(at->pVtab).context;
  VtabCursor& cursor = cursor_of(at);
  const int code = guarded_call(context, [&] {
    cursor.cursor.reset();  // before the next one begins: it may have a thread
    cursor.has_row = false;
    std::vector<Constraint> constraints;
    while (*plan != 'u') {
      Constraint constraint;
      constraint.op = static_cast<Op>(*plan);
      char* end = nullptr;
      constraint.column = static_cast<int>(std::strtol(plan + 1, &end, 10));
      plan = end + 1;
      constraint.values = values_of(*arguments++);
      constraints.push_back(std::move(constraint));
    }
    cursor.cursor = context.table->open(constraints, std::strtoull(plan + 1, nullptr, 10));
    return SQLITE_OK;
  });
  return code == SQLITE_OK ? next_row(at) : code;
}

int is_at_end(sqlite3_vtab_cursor* at) { return cursor_of(at).has_row ? 0 : 1; }

int column_value(sqlite3_vtab_cursor* at, sqlite3_context* context, int column) {
  return guarded_call(vtab_of(at->pVtab).context, [&] {
    cursor_of(at).cursor->column(column, Result(context));
    return SQLITE_OK;
  });
}

int row_id(sqlite3_vtab_cursor* at, sqlite3_int64* id) {
  return guarded_call(vtab_of(at->pVtab).context, [&] {
    *id = cursor_of(at).cursor->row_id();
    return SQLITE_OK;
  });
}

}  // namespace

const sqlite3_module* virtual_table_module() noexcept {
  static const sqlite3_module module = [] {
    sqlite3_module made{};
    made.xConnect = connect;  // without xCreate: the table exists by its name
    made.xBestIndex = best_index;
    made.xDisconnect = disconnect;
    made.xOpen = open_cursor;
    made.xClose = close_cursor;
    made.xFilter = filter;
    made.xNext = next_row;
    made.xEof = is_at_end;
    made.xColumn = column_value;
    made.xRowid = row_id;
    return made;
  }();
  return &module;
}

}  // namespace heapprof::query
