#include "analyzer/query/database.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sqlite3.h>
#include <unistd.h>
#include <utility>

#include "analyzer/query/virtual_table.h"

namespace heapprof::query {
namespace {

constexpr int kStepsBetweenCalls = 20'000;  // of the interrupt function; about a millisecond
constexpr const char* kCacheKiB = "32000";  // of pages; what a sort needs beyond it is written to a temporary file

/// Those that only show something.
constexpr std::array kReadingPragmas = {"table_info",    "table_xinfo",    "table_list",
                                        "function_list", "collation_list", "compile_options"};

/// "an INSERT", as far as the refusal can say it.
std::string words_for(int action, const char* first) {
  const std::string name = first == nullptr ? "" : first;
  if (name.starts_with("sqlite_")) return "a change of the tables";  // CREATE and DROP begin with the list of them
  switch (action) {
    case SQLITE_INSERT: return "INSERT";
    case SQLITE_UPDATE: return "UPDATE";
    case SQLITE_DELETE: return "DELETE";
    case SQLITE_ATTACH: return "ATTACH";
    case SQLITE_DETACH: return "DETACH";
    case SQLITE_PRAGMA: return "PRAGMA " + name;
    case SQLITE_TRANSACTION: return name.empty() ? "a transaction" : name;
    case SQLITE_SAVEPOINT: return "SAVEPOINT";
    case SQLITE_ANALYZE: return "ANALYZE";
    case SQLITE_REINDEX: return "REINDEX";
    case SQLITE_ALTER_TABLE: return "ALTER TABLE";
    case SQLITE_FUNCTION: return "this function";
    case SQLITE_DROP_TABLE:
    case SQLITE_DROP_TEMP_TABLE:
    case SQLITE_DROP_VTABLE:
    case SQLITE_DROP_VIEW:
    case SQLITE_DROP_TEMP_VIEW:
    case SQLITE_DROP_INDEX:
    case SQLITE_DROP_TEMP_INDEX:
    case SQLITE_DROP_TRIGGER:
    case SQLITE_DROP_TEMP_TRIGGER: return "DROP";
    default: return "CREATE";
  }
}

/// Whether text has nothing but blanks, comments and semicolons, as far as the parser says so.
bool is_empty_statement(sqlite3* handle, const char* text) {
  while (*text != '\0') {
    sqlite3_stmt* more = nullptr;
    const char* tail = nullptr;
    const int code = sqlite3_prepare_v2(handle, text, -1, &more, &tail);
    const bool is_empty = code == SQLITE_OK && more == nullptr;
    sqlite3_finalize(more);
    if (!is_empty) return false;
    if (tail == text) break;
    text = tail;
  }
  return true;
}

}  // namespace

struct Database::Module {
  ModuleContext context;
};

Database::Database(std::vector<std::unique_ptr<Table>> tables, Options options)
    : tables_(std::move(tables)), options_(std::move(options)) {
  if (!options_.temporary_directory.empty()) {
    sqlite3_free(sqlite3_temp_directory);
    sqlite3_temp_directory = sqlite3_mprintf("%s", options_.temporary_directory.c_str());
  }
  if (const int code = sqlite3_open_v2(":memory:", &handle_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
      code != SQLITE_OK) {
    const std::string why = sqlite3_errstr(code);
    sqlite3_close(std::exchange(handle_, nullptr));
    throw DatabaseError(why);
  }
  for (const std::unique_ptr<Table>& table : tables_) {
    modules_.push_back(std::make_unique<Module>(Module{{table.get(), &failure_, &restricted_}}));
    const std::string name = options_.prefix + table->name();
    sqlite3_create_module_v2(handle_, name.c_str(), virtual_table_module(), &modules_.back()->context, nullptr);
  }
  sqlite3_set_authorizer(handle_, authorize, this);
  if (options_.interrupt) sqlite3_progress_handler(handle_, kStepsBetweenCalls, progress, this);
  execute(std::string("PRAGMA temp_store = file; PRAGMA cache_size = -") + kCacheKiB);
}

Database::~Database() { sqlite3_close(handle_); }

std::string Database::temporary_directory() const {
  if (!options_.temporary_directory.empty()) return options_.temporary_directory;
  // As SQLite chooses it (https://sqlite.org/tempfiles.html).
  for (const char* const variable : {"SQLITE_TMPDIR", "TMPDIR"})
    if (const char* const directory = std::getenv(variable); directory != nullptr && ::access(directory, W_OK) == 0)
      return directory;
  return ::access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
}

int Database::authorize(void* database, int action, const char* first, const char* second, const char*, const char*) {
  Database& self = *static_cast<Database*>(database);
  if (!self.restricted_) return SQLITE_OK;
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_READ:
      for (const std::unique_ptr<Table>& table : self.tables_)
        if (first != nullptr && sqlite3_stricmp((self.options_.prefix + table->name()).c_str(), first) == 0 &&
            std::find(self.read_.begin(), self.read_.end(), table.get()) == self.read_.end())
          self.read_.push_back(table.get());
      return SQLITE_OK;
    case SQLITE_FUNCTION:
      if (second == nullptr || std::strcmp(second, "load_extension") != 0) return SQLITE_OK;
      break;
    case SQLITE_PRAGMA:
      for (const char* const pragma : kReadingPragmas)
        if (first != nullptr && sqlite3_stricmp(first, pragma) == 0) return SQLITE_OK;
      break;
    default: break;
  }
  if (self.refused_.empty()) self.refused_ = words_for(action, first);
  return SQLITE_DENY;
}

int Database::progress(void* database) {
  const Database& self = *static_cast<const Database*>(database);
  return self.options_.interrupt() ? 1 : 0;
}

void Database::fail(int code) {
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  switch (code & 0xff) {
    case SQLITE_INTERRUPT: throw Interrupted();
    case SQLITE_NOMEM: throw std::bad_alloc();
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN: throw DatabaseError(sqlite3_errmsg(handle_));
    default: break;
  }
  const int offset = sqlite3_error_offset(handle_);
  throw SqlError(sqlite3_errmsg(handle_),
                 offset < 0 ? std::nullopt : std::optional(static_cast<std::size_t>(offset)));
}

Statement Database::prepare(const std::string& sql) {
  refused_.clear();
  read_.clear();
  sqlite3_stmt* statement = nullptr;
  const char* tail = nullptr;
  if (sql.find('\0') != std::string::npos) throw SqlError("the statement contains a byte 0", sql.find('\0'));
  const int code = sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, &tail);
  const auto refuse = [&] {
    throw SqlError(refused_ +
                       " is refused: a query only reads the recording; 'heapprof export sqlite' writes a "
                       "database that can be changed",
                   std::nullopt);
  };
  if (code != SQLITE_OK) {
    if (!refused_.empty() && failure_ == nullptr) refuse();
    fail(code);
  }
  std::vector<const Table*> tables = read_;
  Statement result(*this, statement, std::move(tables));
  if (statement == nullptr) throw SqlError("there is no statement", std::nullopt);
  if (!is_empty_statement(handle_, tail))
    throw SqlError("there is more than one statement; give one", static_cast<std::size_t>(tail - sql.c_str()));
  failure_ = nullptr;
  if (sqlite3_stmt_readonly(statement) == 0) {
    refused_ = "this statement";
    refuse();
  }
  return result;
}

void Database::execute(const std::string& sql) {
  restricted_ = false;
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  restricted_ = true;
  if (code != SQLITE_OK) fail(code);
}

Statement::Statement(Database& database, sqlite3_stmt* statement, std::vector<const Table*> tables)
    : database_(&database), statement_(statement), tables_(std::move(tables)) {
  if (statement == nullptr) return;
  for (int i = 0; i < sqlite3_column_count(statement); ++i) {
    const char* const name = sqlite3_column_name(statement, i);
    columns_.emplace_back(name == nullptr ? "" : name);
  }
}

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_), statement_(std::exchange(other.statement_, nullptr)),
      columns_(std::move(other.columns_)), tables_(std::move(other.tables_)) {}

Statement::~Statement() { sqlite3_finalize(statement_); }

bool Statement::next() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  database_->fail(code);
}

Statement::Type Statement::type(int column) const {
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_INTEGER: return Type::kInteger;
    case SQLITE_FLOAT: return Type::kReal;
    case SQLITE_TEXT: return Type::kText;
    case SQLITE_BLOB: return Type::kBlob;
    default: return Type::kNull;
  }
}

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }

double Statement::real(int column) const { return sqlite3_column_double(statement_, column); }

std::string_view Statement::bytes(int column) const {
  const void* const data = type(column) == Type::kText
                               ? static_cast<const void*>(sqlite3_column_text(statement_, column))
                               : sqlite3_column_blob(statement_, column);
  if (data == nullptr) return {};
  return {static_cast<const char*>(data), static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

}  // namespace heapprof::query
