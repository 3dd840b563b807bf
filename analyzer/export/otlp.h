// Export for OpenTelemetry: a request of the profiles service, version 1development
// (github.com/open-telemetry/opentelemetry-proto, opentelemetry/proto/collector/profiles/v1development).
//
//   resource_profiles   one, with the attributes of the process; its one scope has a profile for each cost, what is
//                       live first, because viewers show the first one
//   dictionary          what all profiles refer to: modules, locations, functions, stacks, texts
//
// Number 0 of each table is an empty entry and means "none". The times are those of the slice, or of the whole
// recording.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "analyzer/export/sink.h"
#include "analyzer/export/stack_table.h"

namespace heapprof::exporter {

/// A name and value of the resource, such as "service.name"; clean UTF-8.
using OtlpAttribute = std::pair<std::string, std::variant<std::string, std::uint64_t>>;

void write_otlp(const StackTable& table, std::span<const CostColumn> columns,
                const std::vector<OtlpAttribute>& resource, const std::string& version, Sink& output);

}  // namespace heapprof::exporter
