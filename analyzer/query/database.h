// A database of SQLite whose tables are C++ objects (table.h), for statements that read.
//
// The tables are eponymous virtual tables: they exist without having been created, and the database itself is empty.
// What is no reading of these tables (writing, ATTACH, most PRAGMAs, loading of extensions) is refused when the
// statement is prepared.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/query/table.h"

struct sqlite3;
struct sqlite3_stmt;

namespace heapprof::query {

/// Wrong SQL, or SQL that does more than reading. what() is a clause without full stop.
class SqlError : public std::runtime_error {
 public:
  SqlError(const std::string& what, std::optional<std::size_t> position)
      : std::runtime_error(what), position_(position) {}
  /// The byte of the SQL text that the error is about.
  std::optional<std::size_t> position() const noexcept { return position_; }

 private:
  std::optional<std::size_t> position_;
};

/// A file of the database cannot be written or read: the disk is full, for example. what() is a clause.
class DatabaseError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user wants the statement to end. Thrown by tables, and by Statement::next() after Database::interrupt.
class Interrupted : public std::exception {};

class Database;

/// A statement that reads.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  Statement& operator=(Statement&&) = delete;

  const std::vector<std::string>& columns() const noexcept { return columns_; }
  /// The tables that it reads, each once.
  const std::vector<const Table*>& tables() const noexcept { return tables_; }

  /// Moves to the first row, then to the next one. False: there is none. Throws what the tables throw, SqlError,
  /// DatabaseError or Interrupted.
  bool next();

  enum class Type { kNull, kInteger, kReal, kText, kBlob };
  Type type(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;
  /// Of a text or a blob; valid until next().
  std::string_view bytes(int column) const;

 private:
  friend class Database;
  Statement(Database& database, sqlite3_stmt* statement, std::vector<const Table*> tables);

  Database* database_;
  sqlite3_stmt* statement_;
  std::vector<std::string> columns_;
  std::vector<const Table*> tables_;
};

/// Used by one thread.
class Database {
 public:
  struct Options {
    /// Where SQLite keeps what does not fit into memory; empty: TMPDIR, or else /var/tmp.
    std::string temporary_directory;
    /// Called now and then while a statement runs. True: it is to end.
    std::function<bool()> interrupt;
    /// Before the names of all tables, so that an attached database can have tables of these names.
    std::string prefix;
  };

  /// Throws DatabaseError.
  Database(std::vector<std::unique_ptr<Table>> tables, Options options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::vector<std::unique_ptr<Table>>& tables() const noexcept { return tables_; }

  /// Throws SqlError if `sql` is not exactly one statement that reads.
  Statement prepare(const std::string& sql);

  /// Runs statements of heapprof itself, which may write. Throws as Statement::next().
  void execute(const std::string& sql);

  /// The directory that temporary files are written to.
  std::string temporary_directory() const;

 private:
  friend class Statement;
  struct Module;
  static int authorize(void* database, int action, const char* first, const char* second, const char* schema,
                       const char* trigger);
  static int progress(void* database);
  [[noreturn]] void fail(int code);

  std::vector<std::unique_ptr<Table>> tables_;
  Options options_;
  std::vector<std::unique_ptr<Module>> modules_;
  sqlite3* handle_ = nullptr;
  bool restricted_ = true;
  std::string refused_;  // what the authorizer refused; empty: nothing
  std::vector<const Table*> read_;
  std::exception_ptr failure_;  // what a table has thrown
};

}  // namespace heapprof::query
