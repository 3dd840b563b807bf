// Makes a Table a virtual table of SQLite (https://sqlite.org/vtab.html).
#pragma once

#include <exception>

#include "analyzer/query/table.h"

struct sqlite3_module;  // NOLINT(readability-identifier-naming): SQLite's name

namespace heapprof::query {

/// What the module of a virtual table needs; both must outlive the connection.
struct ModuleContext {
  Table* table;
  std::exception_ptr* failure;  ///< gets what the table throws
  bool* restricted;             ///< whether only reading is allowed; not while SQLite declares the table
};

/// Pass a ModuleContext with it to sqlite3_create_module().
const sqlite3_module* virtual_table_module() noexcept;

}  // namespace heapprof::query
