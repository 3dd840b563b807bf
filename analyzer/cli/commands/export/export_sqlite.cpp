#include "analyzer/cli/commands/export/export_sqlite.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/base/atomic_file.h"
#include "analyzer/cli/commands/export/query_recordings.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/query/tables.h"
#include "analyzer/export/sink.h"
#include "analyzer/query/database.h"

namespace heapprof::cli {
namespace {

constexpr const char* kPrefix = "recorded_";  // of the virtual tables; the database has tables without it
constexpr int kInterruptedExit = 130;         // 128 and the number of SIGINT

/// What the tables of the database have besides their columns.
struct TableKeys {
  const char* table;
  const char* primary;               ///< columns; null: none
  std::vector<const char*> indexed;  ///< columns, each with an index of its own
};

const std::vector<TableKeys>& all_keys() {
  static const std::vector<TableKeys> keys = {
      {"processes", "process_id", {}},
      {"labels", nullptr, {"key"}},
      {"threads", "thread_id", {}},
      {"modules", "module_id", {}},
      {"timeline", nullptr, {"time_ns"}},
      {"marks", "mark_id", {}},
      {"stacks", "stack_id", {"call_site_id"}},
      {"call_sites", "call_site_id", {}},
      {"allocations", nullptr, {"allocated_ns", "stack_id"}},
      {"live_blocks", nullptr, {"stack_id"}},
      {"mappings", nullptr, {"stack_id"}},
      {"samples", nullptr, {"time_ns"}},
      {"residency", nullptr, {"snapshot_id"}},
  };
  return keys;
}

/// The names of the columns that are no arguments, with their types or without.
std::string declared_columns(const query::Table& table, bool with_types) {
  std::string text;
  for (const query::Column& column : table.columns()) {
    if (column.hidden) continue;
    text += (text.empty() ? "" : ", ") + std::string(column.name);
    if (with_types) text += std::string(" ") + column.type;
  }
  return text;
}

void copy_table(query::Database& database, const query::Table& table, const TableKeys& keys) {
  const std::string name = "out." + std::string(table.name());
  std::string columns = declared_columns(table, true);
  if (keys.primary != nullptr) columns += ", PRIMARY KEY (" + std::string(keys.primary) + ")";
  database.execute("CREATE TABLE " + name + " (" + columns + ")");
  database.execute("INSERT INTO " + name + " SELECT " + declared_columns(table, false) + " FROM " + kPrefix +
                   table.name());
  for (const char* const column : keys.indexed)
    database.execute("CREATE INDEX " + name + "_" + column + " ON " + table.name() + " (" + column + ")");
}

/// A frame is stored once, and a stack as a list of frames: the view `frames` has the rows of the table of `query`.
void copy_frames(query::Database& database) {
  constexpr const char* kOfFrame =
      "frame_id, process_id, name, function, module_id, module, file, line, inlined, offset, address, origin";
  database.execute(
      "CREATE TABLE out.code (frame_id INTEGER PRIMARY KEY, process_id INTEGER, name TEXT, function TEXT, module_id "
      "INTEGER, module TEXT, file TEXT, line INTEGER, inlined INTEGER, offset INTEGER, address INTEGER, origin "
      "TEXT)");
  database.execute(
      "CREATE TABLE out.stack_frames (stack_id INTEGER, position INTEGER, frame_id INTEGER, is_call_site INTEGER, "
      "PRIMARY KEY (stack_id, position)) WITHOUT ROWID");
  const std::string from = std::string(" FROM ") + kPrefix + "frames";
  database.execute("INSERT OR IGNORE INTO out.code SELECT " + std::string(kOfFrame) + from);
  database.execute("INSERT INTO out.stack_frames SELECT stack_id, position, frame_id, is_call_site" + from);
  database.execute("CREATE INDEX out.stack_frames_frame_id ON stack_frames (frame_id)");
  database.execute(
      "CREATE VIEW out.frames AS SELECT process_id, stack_id, position, frame_id, name, function, module_id, module, "
      "file, line, inlined, offset, address, origin, is_call_site FROM stack_frames JOIN code USING (frame_id)");
}

std::string sql_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("''") : std::string(1, c);
  return result + "'";
}

void write_tables(const ExportOptions& options, QueryRecordings& opened, query::Database& database,
                  const std::string& path) {
  database.execute("ATTACH " + sql_quoted(path) + " AS out");
  database.execute("PRAGMA out.journal_mode = off; PRAGMA out.synchronous = off");
  std::vector<const query::Table*> copied;
  for (const std::unique_ptr<query::Table>& table : database.tables())
    if (options.events || std::string_view(table->name()) != "allocations") copied.push_back(table.get());
  opened.recordings().need(parts_needed(copied));
  database.execute("BEGIN");
  for (const query::Table* const table : copied) {
    if (std::string_view(table->name()) == "frames") copy_frames(database);
    for (const TableKeys& keys : all_keys())
      if (std::string_view(keys.table) == table->name()) copy_table(database, *table, keys);
  }
  database.execute("COMMIT");
  database.execute("DETACH out");
}

}  // namespace

int run_export_sqlite(const ExportOptions& options) {
  const std::vector<std::string> traces =
      options.trace.traces.empty() ? std::vector{options.trace.trace} : options.trace.traces;
  return guarded(traces.front(), [&] {
    const std::string& output = options.trace.output;
    for (const std::string& trace : traces) refuse_recording_as_output(output, trace);
    QueryRecordings opened(traces, options.trace, options.call_sites);
    query::Database database(
        make_tables(opened.recordings()),
        {.temporary_directory = "", .interrupt = [&] { return opened.interrupt(); }, .prefix = kPrefix});
    // Like the files of other exports, not like a trace.
    AtomicFile file(output, exporter::Sink::kEverybody);
    try {
      write_tables(options, opened, database, file.temporary_path());
    } catch (const query::DatabaseError& error) {
      throw OutputError(output + ": cannot be written: " + error.what());
    } catch (const query::Interrupted&) {
      print_message("interrupted; " + output + " was not written");
      return kInterruptedExit;
    }
    file.finish();
    return opened.status();
  });
}

}  // namespace heapprof::cli
