// Writes one row a line: field names are in every row (ndjson) or in the header line (csv).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/export/row_format.h"
#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"
#include "analyzer/render/escape.h"

namespace heapprof::exporter {

/// The fields of a row are written in the order of `names`, then end_row() is called.
class RowWriter {
 public:
  RowWriter(RowFormat format, std::initializer_list<const char*> names, Sink& output)
      : csv_(format == RowFormat::kCsv), output_(output) {
    for (const char* const name : names) {
      names_.push_back(csv_ ? "" : "\"" + std::string(name) + "\":");
      if (csv_) line_ += (line_.empty() ? "" : ",") + std::string(name);
    }
    if (csv_) end_line();
  }

  void number(std::uint64_t value) {
    next();
    line_ += std::to_string(value);
  }
  void signed_number(std::int64_t value) {
    next();
    line_ += std::to_string(value);
  }
  void text(std::string_view value) {
    next();
    if (csv_) render::append_csv(line_, value);
    else append_json(line_, value);
  }
  void boolean(bool value) {
    next();
    line_ += value ? "true" : "false";
  }
  void null() {
    next();
    if (!csv_) line_ += "null";
  }
  /// `value` is JSON.
  void json(const std::string& value) {
    next();
    if (csv_) render::append_csv(line_, value);
    else line_ += value;
  }
  void text_or_null(std::string_view value) {
    if (value.empty()) null();
    else text(value);
  }
  void end_row() {
    if (!csv_) line_ += '}';
    at_ = 0;
    end_line();
  }

 private:
  void next() {
    if (at_ != 0) line_ += ',';
    else if (!csv_) line_ += '{';
    line_ += names_[at_++];
  }
  void end_line() {
    line_ += '\n';
    output_.write(line_);
    line_.clear();
  }

  bool csv_;
  Sink& output_;
  std::vector<std::string> names_;
  std::size_t at_ = 0;
  std::string line_;
};

}  // namespace heapprof::exporter
