#include "analyzer/export/stack_rows.h"

#include <cinttypes>
#include <cstdio>
#include <string_view>

#include "common/checksum.h"

namespace heapprof::exporter {
namespace {

constexpr std::uint64_t kRowFormatVersion = 1;

std::string names_json(std::string_view names) {
  std::string json = "[";
  while (!names.empty()) {
    const std::size_t end = names.find('\n');
    if (json.size() > 1) json += ',';
    append_json(json, names.substr(0, end));
    names.remove_prefix(end + 1);
  }
  return json + "]";
}

std::string labels_json(const Labels& labels) {
  std::string json = "{";
  for (const auto& [key, value] : labels) {
    if (json.size() > 1) json += ',';
    append_json(json, key);
    json += ':';
    append_json(json, value);
  }
  return json + "}";
}

}  // namespace

std::string stack_hash(const std::string& names) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, heapprof::checksum(names.data(), names.size()));
  return text;
}

StackRowWriter::StackRowWriter(RowFormat format, Sink& output)
    : row_(format,
           {"format_version",
            "recording",
            "host",
            "program",
            "build_id",
            "pid",
            "start_realtime_ns",
            "duration_ns",
            "exported_realtime_ns",
            "ended_by",
            "complete",
            "labels",
            "kind",
            "stacks",
            "stack_hash",
            "site",
            "frames",
            "peak_bytes",
            "peak_blocks",
            "leaked_bytes",
            "leaked_blocks",
            "allocated_bytes",
            "allocations",
            "temporary_allocations",
            "temporary_bytes"},
           output) {}

void StackRowWriter::write(const RecordingColumns& recording, std::span<const StackRow> rows) {
  const std::string labels = labels_json(recording.labels);
  for (const StackRow& one : rows) {
    const bool is_stack = !one.names.empty();
    row_.number(kRowFormatVersion);
    row_.text(recording.recording);
    row_.text(recording.host);
    row_.text(recording.program);
    row_.text_or_null(recording.build_id);
    row_.number(recording.pid);
    row_.number(recording.start_realtime_ns);
    row_.number(recording.duration_ns);
    row_.number(recording.exported_realtime_ns);
    row_.text(recording.ended_by);
    row_.boolean(recording.complete);
    row_.json(labels);
    row_.text(is_stack ? "stack" : "rest");
    row_.number(one.stacks);
    row_.text_or_null(is_stack ? stack_hash(one.names) : "");
    row_.text_or_null(one.site);
    row_.json(names_json(one.names));
    const model::Costs& costs = one.costs;
    for (const std::uint64_t figure :
         {costs.peak_bytes, costs.peak_blocks, costs.leaked_bytes, costs.leaked_blocks, costs.allocated_bytes,
          costs.allocations, costs.temporary, costs.temporary_bytes})
      row_.number(figure);
    row_.end_row();
  }
}

}  // namespace heapprof::exporter
