// heapprof query: SQL on recordings.
#include <algorithm>
#include <cctype>
#include <memory>
#include <string_view>
#include <utility>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/export/query_recordings.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/options/spelling_suggestion.h"
#include "analyzer/cli/query/result_writer.h"
#include "analyzer/cli/query/tables.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using query::SqlError;

constexpr int kInterrupted = 130;  // 128 and the number of SIGINT

/// Whether the SQL text has `word`, whatever its case, not as a part of another word.
bool has_sql_word(const std::string& sql, std::string_view word) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  for (auto at = sql.begin();; ++at) {
    at = std::search(at, sql.end(), word.begin(), word.end(), same);
    if (at == sql.end()) return false;
    const auto end = at + static_cast<std::ptrdiff_t>(word.size());
    if ((at == sql.begin() || !is_letter(*(at - 1))) && (end == sql.end() || !is_letter(*end))) return true;
  }
}

std::string comma_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// The part of `text` after `prefix`; empty: it does not begin so.
std::string after_prefix(const std::string& text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : std::string();
}

/// The line of the SQL text with the error, and a mark below the place.
void print_sql_place(const std::string& sql, std::size_t position) {
  constexpr std::size_t kBefore = 60, kAfter = 30;
  position = std::min(position, sql.size());
  const std::size_t line = sql.rfind('\n', position == 0 ? 0 : position - 1);
  std::size_t begin = position == 0 || line == std::string::npos ? 0 : line + 1;
  if (position - begin > kBefore) begin = position - kBefore;
  while (begin < position && (static_cast<unsigned char>(sql[begin]) & 0xc0) == 0x80) ++begin;
  const std::size_t end = std::min({sql.find('\n', position), position + kAfter, sql.size()});
  const std::string before = render::clean_utf8(std::string_view(sql).substr(begin, position - begin));
  print_message("  " + before + render::clean_utf8(std::string_view(sql).substr(position, end - position)));
  print_message("  " + std::string(render::length_utf8(before), ' ') + "^");
}

/// What is wrong, where, and which tables or columns exist.
void print_sql_error(const SqlError& error, const std::string& sql, const Tables& tables) {
  const std::string what = error.what();
  std::vector<std::string> names;
  std::string kind;
  std::string unknown = after_prefix(what, "no such table: ");
  if (!unknown.empty()) {
    kind = "tables";
    for (const std::unique_ptr<query::Table>& table : tables) names.emplace_back(table->name());
  } else if (unknown = after_prefix(what, "no such column: "); !unknown.empty()) {
    for (const std::unique_ptr<query::Table>& table : tables) {
      if (!has_sql_word(sql, table->name())) continue;
      kind += (kind.empty() ? "columns of " : ", ") + std::string(table->name());
      for (const query::Column& column : table->columns())
        if (!column.hidden && std::ranges::find(names, column.name) == names.end()) names.emplace_back(column.name);
    }
    unknown = unknown.substr(unknown.rfind('.') + 1);
  }
  print_message("SQL: " + what + did_you_mean(unknown, names));
  if (error.position()) print_sql_place(sql, *error.position());
  if (!names.empty()) print_message(kind + ": " + comma_list(names));
  else print_message("'heapprof query --schema' lists the tables and their columns");
}

int run_sql(const QueryOptions& options) {
  for (const std::string& trace : options.traces) refuse_recording_as_output(options.trace.output, trace);
  QueryRecordings opened(options.traces, options.trace, options.call_sites);
  query::Database database(make_tables(opened.recordings()), {.temporary_directory = options.temporary_directory,
                                                              .interrupt = [&] { return opened.interrupt(); },
                                                              .prefix = ""});
  try {
    query::Statement statement = database.prepare(options.sql);
    opened.recordings().need(parts_needed(statement.tables()));
    write_result(statement, options.format, options.trace.output);
    return opened.status();
  } catch (const SqlError& error) {
    print_sql_error(error, options.sql, database.tables());
    return 2;
  } catch (const query::DatabaseError& error) {
    print_message(database.temporary_directory() + ": a temporary file cannot be written: " + error.what() +
                  "; name another directory with --temp-dir");
    return 1;
  } catch (const query::Interrupted&) {
    print_message("interrupted");
    return kInterrupted;
  }
}

}  // namespace

int run_query(const QueryOptions& options) {
  const std::string named = options.traces.empty() ? std::string() : options.traces.front();
  return guarded(named, [&] {
    refuse_recording_as_output(options.trace.output, named);
    if (!options.sql.empty()) return run_sql(options);
    // The tables are the same for all recordings, but one that cannot be read is an error.
    const int status =
        options.traces.empty() ? 0 : QueryRecordings(options.traces, options.trace, options.call_sites).status();
    Recordings none({}, options.trace, options.call_sites, {}, {});
    write_schema(make_tables(none), options.format, options.trace.output);
    return status;
  });
}

}  // namespace heapprof::cli
