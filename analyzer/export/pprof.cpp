// Fields of a message may be in any order, so samples are written first and the string table last.
#include "analyzer/export/pprof.h"

#include <algorithm>
#include <string>
#include <vector>

#include "analyzer/export/protobuf.h"

namespace heapprof::exporter {
namespace {

using protobuf::Message;

class PprofWriter {
 public:
  PprofWriter(const StackTable& table, Sink& output, std::span<const CostColumn> columns)
      : table_(table), output_(output), columns_(columns) {}

  void write() {
    const model::Profile& profile = *table_.profile;
    for (const CostColumn& column : columns_) field(1, value_type(column.name, column.unit));
    write_samples();
    write_mappings();
    write_locations();
    for (std::size_t i = 0; i < table_.functions.size(); ++i) {
      const StackTable::Function& function = table_.functions[i];
      Message message;
      message.number(1, i + 1);
      message.number(2, strings_.number(function.name));
      message.number(3, strings_.number(function.name));
      message.number(4, strings_.number(function.file));
      field(5, message);
    }
    Message rest;
    rest.number(9, profile.recording.start_realtime_ns + profile.begin_ns());
    rest.number(10, profile.end_ns() - std::min(profile.begin_ns(), profile.end_ns()));
    rest.bytes(11, value_type("space", "bytes").view());
    rest.number(12, 1);
    rest.number(13, strings_.number("heapprof: " + table_.command));
    rest.number(14, strings_.number("inuse_space"));
    output_.write(rest.view());
    for (const std::string* text : strings_.all()) {
      Message message;
      message.bytes(6, *text);
      output_.write(message.view());
    }
  }

 private:
  void field(unsigned number, const Message& message) {
    Message outer;
    outer.bytes(number, message.view());
    output_.write(outer.view());
  }

  Message value_type(const std::string& type, const std::string& unit) {
    Message message;
    message.number(1, strings_.number(type));
    message.number(2, strings_.number(unit));
    return message;
  }

  void write_samples() {
    Message ids, values, sample;
    for (const std::uint32_t node : table_.stacks) {
      ids.clear();
      values.clear();
      sample.clear();
      table_.for_each_location(node, [&](std::uint32_t location) { ids.varint(location + std::uint64_t{1}); });
      for (const CostColumn& column : columns_) values.varint(table_.profile->nodes[node].costs.*column.figure);
      sample.bytes(1, ids.view());
      sample.bytes(2, values.view());
      field(2, sample);
    }
  }

  /// pprof takes the first mapping for the program.
  void write_mappings() {
    const std::vector<model::Module>& modules = table_.profile->modules;
    mapping_of_module_.assign(modules.size(), 0);
    std::uint64_t count = 0;
    for (const bool main : {true, false}) {
      for (std::size_t i = 1; i < modules.size(); ++i) {
        const model::Module& module = modules[i];
        if (module.is_main != main) continue;
        mapping_of_module_[i] = ++count;
        Message message;
        message.number(1, count);
        message.number(2, module.first_address);
        message.number(3, module.first_address + module.map_bytes);
        message.number(5, strings_.number(table_.modules[i]));
        message.number(6, strings_.number(module.build_id));
        for (const unsigned has : {7, 8, 9, 10}) message.number(has, 1);
        field(3, message);
      }
    }
  }

  void write_locations() {
    for (std::size_t i = 0; i < table_.locations.size(); ++i) {
      const StackTable::Location& location = table_.locations[i];
      Message message;
      message.number(1, i + 1);
      if (location.module < mapping_of_module_.size()) message.number(2, mapping_of_module_[location.module]);
      message.number(3, location.address);
      for (const StackTable::Line& from : location.lines) {
        Message line;
        line.number(1, from.function + std::uint64_t{1});
        line.number(2, from.line);
        message.bytes(4, line.view());
      }
      field(4, message);
    }
  }

  const StackTable& table_;
  Sink& output_;
  const std::span<const CostColumn> columns_;
  protobuf::StringTable strings_;
  std::vector<std::uint64_t> mapping_of_module_;
};

}  // namespace

void write_pprof(const StackTable& table, Sink& output, std::span<const CostColumn> columns) {
  PprofWriter(table, output, columns).write();
}

}  // namespace heapprof::exporter
