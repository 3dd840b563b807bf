#include "analyzer/cli/query/result_writer.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/text_page.h"
#include "analyzer/cli/text/text_style.h"
#include "analyzer/cli/text/write_output.h"
#include "analyzer/export/sink.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"

namespace heapprof::cli {
namespace {

using query::Statement;
using render::clean_utf8;

/// X'..' as in SQL.
std::string text_of_blob(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "X'";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text + "'";
}

/// A value as text without control characters; NULL is empty.
std::string sql_text_of(const Statement& row, int column) {
  switch (row.type(column)) {
    case Statement::Type::kNull: return {};
    case Statement::Type::kBlob: return text_of_blob(row.bytes(column));
    default: return clean_utf8(row.bytes(column));
  }
}

/// Columns are as wide as their widest value in the first rows, so that a result of any length needs little memory.
class AlignedWriter {
 public:
  AlignedWriter(const std::vector<std::string>& columns, exporter::Sink& out) : out_(out) {
    for (const std::string& column : columns) headers_.push_back(clean_utf8(column));
    is_figure_.assign(headers_.size(), true);
  }
  void row(const Statement& row) {
    std::vector<std::string> cells;
    for (int i = 0; i < static_cast<int>(headers_.size()); ++i) {
      const Statement::Type type = row.type(i);
      if (!widths_.empty()) {
        cells.push_back(sql_text_of(row, i));
        continue;
      }
      if (type == Statement::Type::kText || type == Statement::Type::kBlob)
        is_figure_[static_cast<std::size_t>(i)] = false;
      cells.push_back(sql_text_of(row, i));
    }
    if (!widths_.empty()) return line(cells);
    first_.push_back(std::move(cells));
    if (first_.size() == kMeasured) measure();
  }
  void end() {
    if (widths_.empty()) measure();
  }

 private:
  static constexpr std::size_t kMeasured = 1000;

  void measure() {
    for (const std::string& header : headers_) widths_.push_back(render::length_utf8(header));
    for (const std::vector<std::string>& row : first_)
      for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], render::length_utf8(row[i]));
    line(headers_);
    for (const std::vector<std::string>& row : first_) line(row);
    first_ = {};
  }
  void line(const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i != 0) text += "  ";
      text += is_figure_[i] ? render::pad_left(cells[i], widths_[i]) : render::pad_right(cells[i], widths_[i]);
    }
    text.resize(text.find_last_not_of(' ') + 1);
    out_.write(text + "\n");
  }

  exporter::Sink& out_;
  std::vector<std::string> headers_;
  std::vector<bool> is_figure_;
  std::vector<std::size_t> widths_;  ///< empty: not known yet
  std::vector<std::vector<std::string>> first_;
};

void append_csv_line(std::string& line, const std::string& text, bool is_first) {
  if (!is_first) line += ',';
  render::append_csv(line, text);
}

std::string json_line_of(const Statement& row, int columns) {
  Json values = Json::array();
  for (int i = 0; i < columns; ++i) {
    switch (row.type(i)) {
      case Statement::Type::kNull: values.push_back(nullptr); break;
      case Statement::Type::kInteger: values.push_back(row.integer(i)); break;
      case Statement::Type::kReal: values.push_back(row.real(i)); break;
      case Statement::Type::kText: values.push_back(std::string(row.bytes(i))); break;
      case Statement::Type::kBlob: values.push_back(text_of_blob(row.bytes(i))); break;
    }
  }
  return line_of(values);
}

void close_output(exporter::Sink& out) {
  if (!out.close()) throw OutputError(out.error());
}

}  // namespace

void write_result(Statement& statement, QueryFormat format, const std::string& output) {
  bool has_row = statement.next();  // an error comes before the output is opened
  exporter::Sink out(output);
  const int columns = static_cast<int>(statement.columns().size());
  switch (format) {
    case QueryFormat::kTable: {
      AlignedWriter table(statement.columns(), out);
      for (; has_row && out.ok(); has_row = statement.next()) table.row(statement);
      table.end();
      break;
    }
    case QueryFormat::kCsv: {
      std::string line;
      for (const std::string& column : statement.columns())
        append_csv_line(line, clean_utf8(column), &column == statement.columns().data());
      out.write(line + "\n");
      for (; has_row && out.ok(); has_row = statement.next()) {
        line.clear();
        for (int i = 0; i < columns; ++i) append_csv_line(line, sql_text_of(statement, i), i == 0);
        out.write(line + "\n");
      }
      break;
    }
    case QueryFormat::kJson: {
      Json head = json_document();
      head["columns"] = statement.columns();
      std::string text = dump(head);
      text.resize(text.size() - 3);  // without the brace that ends it
      out.write(text + ",\n  \"rows\": [");
      for (bool is_first = true; has_row && out.ok(); has_row = statement.next()) {
        out.write((is_first ? "\n    " : ",\n    ") + json_line_of(statement, columns));
        is_first = false;
      }
      out.write("\n  ]\n}\n");
      break;
    }
  }
  close_output(out);
}

void write_schema(const std::vector<std::unique_ptr<query::Table>>& tables, QueryFormat format,
                  const std::string& output) {
  if (format == QueryFormat::kJson) {
    Json json = json_document();
    Json& list = json["tables"] = Json::array();
    for (const std::unique_ptr<query::Table>& table : tables) {
      Json columns = Json::array();
      for (const query::Column& column : table->columns())
        columns.push_back({{"name", column.name},
                           {"type", text_or_null(column.type)},
                           {"help", column.help},
                           {"argument", column.hidden}});
      list.push_back({{"name", table->name()}, {"help", table->help()}, {"columns", std::move(columns)}});
    }
    return write_output(output, dump(json));
  }
  std::size_t width = 0;
  for (const std::unique_ptr<query::Table>& table : tables)
    for (const query::Column& column : table->columns()) width = std::max(width, std::string(column.name).size());
  TextPage page(style_for(output));
  for (const std::unique_ptr<query::Table>& table : tables) {
    page.heading(table->name());
    for (const std::string& piece : render::wrapped(std::string(table->help()) + ".", page.style().width))
      page.line(piece);
    for (const query::Column& column : table->columns()) {
      const std::string name = column.hidden ? "(" + std::string(column.name) + ")" : column.name;
      page.line("  " + render::pad_right(name, width + 2) + "  " + column.help);
    }
  }
  write_output(output, page.text());
}

}  // namespace heapprof::cli
