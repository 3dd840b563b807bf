#include "analyzer/export/otlp.h"

#include <sys/random.h>

#include <algorithm>
#include <string_view>

#include "analyzer/export/protobuf.h"

namespace heapprof::exporter {
namespace {

using protobuf::Message;

/// The cost that viewers show first.
constexpr std::string_view kFirstColumn = "inuse_space";

/// common/v1/common.proto, AnyValue.
Message any_value(const std::variant<std::string, std::uint64_t>& value) {
  Message message;
  if (const auto* const text = std::get_if<std::string>(&value)) message.bytes(1, *text);
  else message.present_number(3, std::get<std::uint64_t>(value));
  return message;
}

class OtlpWriter {
 public:
  OtlpWriter(const StackTable& table, std::span<const CostColumn> columns, Sink& output)
      : table_(table), columns_(columns), output_(output) {}

  void write(const std::vector<OtlpAttribute>& resource, const std::string& version) {
    Message attributes;
    for (const auto& [name, value] : resource) {
      Message attribute;
      attribute.bytes(1, name);
      attribute.message(2, any_value(value));
      attributes.message(1, attribute);
    }
    Message scope;
    scope.bytes(1, "heapprof");
    scope.bytes(2, version);
    Message profiles;
    profiles.message(1, scope);
    for (const bool first : {true, false})
      for (const CostColumn& column : columns_)
        if ((column.name == kFirstColumn) == first) profiles.message(2, profile(column));
    Message of_resource;
    of_resource.message(1, attributes);
    of_resource.message(2, profiles);
    write_field(1, of_resource);
    write_dictionary();
  }

 private:
  void write_field(unsigned number, const Message& message) {
    Message outer;
    outer.message(number, message);
    output_.write(outer.view());
  }

  Message value_type(const std::string& type, const std::string& unit) {
    Message message;
    message.number(1, strings_.number(type));
    message.number(2, strings_.number(unit));
    return message;
  }

  Message profile(const CostColumn& column) {
    const model::Profile& profile = *table_.profile;
    Message message;
    message.message(1, value_type(column.name, column.unit));
    Message sample, value;
    for (std::size_t i = 0; i < table_.stacks.size(); ++i) {
      const std::uint64_t cost = profile.nodes[table_.stacks[i]].costs.*column.figure;
      if (cost == 0) continue;
      sample.clear();
      value.clear();
      value.varint(cost);
      sample.number(1, i + 1);
      sample.message(4, value);
      message.message(2, sample);
    }
    message.fixed64(3, profile.recording.start_realtime_ns + profile.begin_ns());
    message.number(4, profile.end_ns() - std::min(profile.begin_ns(), profile.end_ns()));
    message.message(5, value_type("space", "bytes"));
    message.number(6, 1);
    // Who gets the same request twice, because the first answer was lost, can tell by this.
    char id[16];
    if (::getrandom(id, sizeof id, 0) == static_cast<ssize_t>(sizeof id))
      message.bytes(7, std::string_view(id, sizeof id));
    return message;
  }

  /// Adds an entry to a table of the dictionary.
  static void add(Message& dictionary, unsigned table, const Message& entry) { dictionary.message(table, entry); }

  void write_dictionary() {
    Message dictionary;
    const Message none;
    for (const unsigned table : {kMappings, kLocations, kFunctions, kAttributes, kStacks})
      add(dictionary, table, none);
    Message no_link;
    no_link.bytes(1, std::string(16, '\0'));
    no_link.bytes(2, std::string(8, '\0'));
    add(dictionary, kLinks, no_link);
    add_modules(dictionary);
    for (const StackTable::Function& from : table_.functions) {
      Message function;
      function.number(1, strings_.number(from.name));
      function.number(2, strings_.number(from.name));
      function.number(3, strings_.number(from.file));
      add(dictionary, kFunctions, function);
    }
    Message location, line;
    for (const StackTable::Location& from : table_.locations) {
      location.clear();
      if (from.module < mapping_of_module_.size()) location.number(1, mapping_of_module_[from.module]);
      location.number(2, from.address);
      for (const StackTable::Line& one : from.lines) {
        line.clear();
        line.number(1, one.function + std::uint64_t{1});
        line.number(2, one.line);
        location.message(3, line);
      }
      add(dictionary, kLocations, location);
    }
    Message stack, ids;
    for (const std::uint32_t node : table_.stacks) {
      stack.clear();
      ids.clear();
      table_.for_each_location(node, [&](std::uint32_t at) { ids.varint(at + std::uint64_t{1}); });
      stack.message(1, ids);
      add(dictionary, kStacks, stack);
    }
    for (const std::string* text : strings_.all()) dictionary.bytes(kStrings, *text);
    write_field(2, dictionary);
  }

  void add_modules(Message& dictionary) {
    const std::vector<model::Module>& modules = table_.profile->modules;
    mapping_of_module_.assign(modules.size(), 0);
    std::uint64_t mappings = 0, attributes = 0;
    for (std::size_t i = 1; i < modules.size(); ++i) {
      const model::Module& module = modules[i];
      mapping_of_module_[i] = ++mappings;
      Message mapping;
      mapping.number(1, module.first_address);
      mapping.number(2, module.first_address + module.map_bytes);
      mapping.number(4, strings_.number(table_.modules[i]));
      if (!module.build_id.empty()) {
        Message attribute;
        attribute.number(1, strings_.number("process.executable.build_id.gnu"));
        attribute.message(2, any_value(module.build_id));
        add(dictionary, kAttributes, attribute);
        Message indices;
        indices.varint(++attributes);
        mapping.message(5, indices);
      }
      add(dictionary, kMappings, mapping);
    }
  }

  // Tables of ProfilesDictionary.
  static constexpr unsigned kMappings = 1;
  static constexpr unsigned kLocations = 2;
  static constexpr unsigned kFunctions = 3;
  static constexpr unsigned kLinks = 4;
  static constexpr unsigned kStrings = 5;
  static constexpr unsigned kAttributes = 6;
  static constexpr unsigned kStacks = 7;

  const StackTable& table_;
  const std::span<const CostColumn> columns_;
  Sink& output_;
  protobuf::StringTable strings_;
  std::vector<std::uint64_t> mapping_of_module_;
};

}  // namespace

void write_otlp(const StackTable& table, std::span<const CostColumn> columns,
                const std::vector<OtlpAttribute>& resource, const std::string& version, Sink& output) {
  OtlpWriter(table, columns, output).write(resource, version);
}

}  // namespace heapprof::exporter
