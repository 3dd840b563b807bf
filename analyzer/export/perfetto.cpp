#include "analyzer/export/perfetto.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/export/protobuf.h"
#include "analyzer/render/utf8.h"

namespace heapprof::exporter {
namespace {

using protobuf::Message;

// Field numbers of Perfetto's messages.
namespace trace {
constexpr unsigned kPacket = 1;
}
namespace packet {
constexpr unsigned kClockSnapshot = 6, kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInternedData = 12,
                   kProfilePacket = 37, kIncrementalStateCleared = 41, kTrackDescriptor = 60;
}
namespace clock_snapshot {
constexpr unsigned kClocks = 1, kPrimaryTraceClock = 2;
constexpr unsigned kClockId = 1, kTimestamp = 2;
constexpr std::uint64_t kRealtime = 1, kBoottime = 6;  // BuiltinClock
}  // namespace clock_snapshot
namespace track {
constexpr unsigned kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kCounter = 8, kDescription = 14;
constexpr unsigned kPid = 1, kCommandLine = 2, kProcessName = 6;
constexpr unsigned kUnit = 3;
constexpr std::uint64_t kCount = 2, kBytes = 3;  // CounterDescriptor.Unit
}  // namespace track
namespace event {
constexpr unsigned kType = 9, kTrack = 11, kName = 23, kCounterValue = 30;
constexpr std::uint64_t kInstant = 3, kCounter = 4;  // TrackEvent.Type
}  // namespace event
namespace interned {
constexpr unsigned kFunctionNames = 5, kFrames = 6, kCallstacks = 7, kBuildIds = 16, kMappingPaths = 17,
                   kSourcePaths = 18, kMappings = 19;
constexpr unsigned kId = 1, kText = 2;
}  // namespace interned
namespace mapping {
constexpr unsigned kId = 1, kBuildId = 2, kStart = 4, kEnd = 5, kLoadBias = 6, kPath = 7;
}
namespace frame {
constexpr unsigned kId = 1, kFunction = 2, kMapping = 3, kOffset = 4, kSourcePath = 5, kLine = 6;
}
namespace callstack {
constexpr unsigned kId = 1, kFrames = 2;
}
namespace profile {
constexpr unsigned kProcessDumps = 5;
constexpr unsigned kPid = 1, kSamples = 2, kFromStartup = 3, kTimestamp = 9, kHeapName = 11;
constexpr unsigned kCallstack = 1, kAllocated = 2, kFreed = 3, kAllocations = 5, kFrees = 6;
}  // namespace profile

constexpr std::uint64_t kProcessTrack = 1, kMarksTrack = 2, kFirstCounterTrack = 3;

struct Counter {
  const char* name;
  const char* description;
  std::uint64_t unit;
  std::uint64_t (*value)(const model::Timeline::Bucket&);
};

constexpr Counter kCounters[] = {
    {"live bytes", "highest of each interval", track::kBytes,
     [](const model::Timeline::Bucket& bucket) { return bucket.max_bytes; }},
    {"live blocks", "at the end of each interval", track::kCount,
     [](const model::Timeline::Bucket& bucket) { return bucket.last_blocks; }},
    {"mapped", "mappings of the program, at the end of each interval", track::kBytes,
     [](const model::Timeline::Bucket& bucket) { return bucket.mapped_bytes; }},
    {"resident", "resident memory, highest sample of each interval; intervals without a sample have no value",
     track::kBytes, [](const model::Timeline::Bucket& bucket) { return bucket.rss_bytes; }},
};
constexpr std::size_t kResident = 3;

std::string bytes_of_hex(std::string_view hex) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1]));
  return bytes;
}

/// Strings of one kind, each with a number from 1 on.
class InternedStrings {
 public:
  std::uint64_t number(const std::string& text) {
    const auto [at, fresh] = index_.try_emplace(text, index_.size() + 1);
    if (fresh) order_.push_back(&at->first);
    return at->second;
  }
  void write(unsigned field, Message& interned_data) const {
    for (std::size_t i = 0; i < order_.size(); ++i) {
      Message message;
      message.number(interned::kId, i + 1);
      message.bytes(interned::kText, *order_[i]);
      interned_data.message(field, message);
    }
  }

 private:
  std::unordered_map<std::string, std::uint64_t, ChosenTextHash> index_;  // the keys have stable addresses
  std::vector<const std::string*> order_;
};

class PerfettoWriter {
 public:
  PerfettoWriter(const StackTable& table, Sink& output)
      : table_(table), profile_(*table.profile), output_(output), mapping_of_module_(profile_.modules.size(), 0) {}

  void write() {
    write_clocks();
    write_tracks();
    write_counters();
    write_marks();
    write_stacks();
    write_heap("malloc", [](const model::Costs& costs) {
      // A mapping with a hole is one allocation, and live in two pieces.
      const std::uint64_t never_freed = std::min(costs.leaked_blocks, costs.allocations);
      return Sample{costs.allocated_bytes, costs.allocated_bytes - costs.leaked_bytes, costs.allocations,
                    costs.allocations - never_freed};
    });
    const std::string moment = profile_.is_moment() ? "malloc, live at the moment" : "malloc, live at the peak";
    write_heap(moment, [](const model::Costs& costs) { return Sample{costs.peak_bytes, 0, costs.peak_blocks, 0}; });
  }

 private:
  struct Sample {
    std::uint64_t allocated_bytes;
    std::uint64_t freed_bytes;
    std::uint64_t allocations;
    std::uint64_t frees;
  };

  void packet(Message& message) {
    message.number(packet::kSequence, 1);
    Message outer;
    outer.message(trace::kPacket, message);
    output_.write(outer.view());
  }

  void write_clocks() {
    Message snapshot;
    const auto clock = [&](std::uint64_t id, std::uint64_t time_ns) {
      Message message;
      message.number(clock_snapshot::kClockId, id);
      message.number(clock_snapshot::kTimestamp, time_ns);
      snapshot.message(clock_snapshot::kClocks, message);
    };
    // At the end of the recording, because no clock may be 0.
    const std::uint64_t duration_ns = std::max<std::uint64_t>(profile_.recording.duration_ns, 1);
    clock(clock_snapshot::kBoottime, duration_ns);
    clock(clock_snapshot::kRealtime, profile_.recording.start_realtime_ns + duration_ns);
    snapshot.number(clock_snapshot::kPrimaryTraceClock, clock_snapshot::kBoottime);
    Message message;
    message.message(packet::kClockSnapshot, snapshot);
    message.number(packet::kIncrementalStateCleared, 1);
    packet(message);
  }

  void write_tracks() {
    Message process;
    process.number(track::kPid, profile_.recording.pid);
    process.bytes(track::kCommandLine, table_.command);
    process.bytes(track::kProcessName, table_.program);
    Message descriptor;
    descriptor.number(track::kUuid, kProcessTrack);
    descriptor.message(track::kProcess, process);
    descriptor_packet(descriptor);

    descriptor.clear();
    descriptor.number(track::kUuid, kMarksTrack);
    descriptor.number(track::kParent, kProcessTrack);
    descriptor.bytes(track::kName, "marks");
    descriptor_packet(descriptor);

    for (std::size_t i = 0; i < std::size(kCounters); ++i) {
      Message counter;
      counter.number(track::kUnit, kCounters[i].unit);
      descriptor.clear();
      descriptor.number(track::kUuid, kFirstCounterTrack + i);
      descriptor.number(track::kParent, kProcessTrack);
      descriptor.bytes(track::kName, kCounters[i].name);
      descriptor.bytes(track::kDescription, kCounters[i].description);
      descriptor.message(track::kCounter, counter);
      descriptor_packet(descriptor);
    }
  }

  void descriptor_packet(const Message& descriptor) {
    Message message;
    message.message(packet::kTrackDescriptor, descriptor);
    packet(message);
  }

  /// Perfetto drops an event without a timestamp, so a timestamp of 0 is written, too.
  void event_packet(std::uint64_t time_ns, const Message& event) {
    Message message;
    message.present_number(packet::kTimestamp, time_ns);
    message.message(packet::kTrackEvent, event);
    packet(message);
  }

  /// A viewer shows a value until the next one, so each value begins its interval.
  void write_counters() {
    const auto value = [&](std::uint64_t time_ns, std::size_t counter, std::uint64_t number) {
      Message event;
      event.number(event::kType, event::kCounter);
      event.number(event::kTrack, kFirstCounterTrack + counter);
      event.present_number(event::kCounterValue, number);  // there are other kinds of values
      event_packet(time_ns, event);
    };
    const std::vector<model::Timeline::Bucket>& buckets = profile_.timeline.buckets;
    for (const model::Timeline::Bucket& bucket : buckets)
      for (std::size_t i = 0; i < std::size(kCounters); ++i)
        if (const std::uint64_t number = kCounters[i].value(bucket); number != 0 || i != kResident)
          value(bucket.start_ns, i, number);
    if (!buckets.empty()) value(profile_.end_ns(), 0, buckets.back().last_bytes);
  }

  void write_marks() {
    using Kind = model::Timeline::Mark::Kind;
    for (const model::Timeline::Mark& mark : profile_.timeline.marks) {
      Message event;
      event.number(event::kType, event::kInstant);
      event.number(event::kTrack, kMarksTrack);
      event.bytes(event::kName, mark.kind == Kind::kPaused    ? "paused"
                                : mark.kind == Kind::kResumed ? "resumed"
                                                              : render::clean_utf8(mark.text));
      event_packet(mark.time_ns, event);
    }
  }

  /// One packet, in which everything that has a number is defined before it is used.
  void write_stacks() {
    Message mappings;
    for (std::size_t i = 1; i < profile_.modules.size(); ++i) {
      const model::Module& module = profile_.modules[i];
      mapping_of_module_[i] = i;
      Message message;
      message.number(mapping::kId, i);
      message.number(mapping::kBuildId, build_ids_.number(bytes_of_hex(module.build_id)));
      message.number(mapping::kStart, module.first_address);
      message.number(mapping::kEnd, module.first_address + module.map_bytes);
      message.number(mapping::kLoadBias, module.load_bias);
      message.number(mapping::kPath, paths_.number(table_.modules[i]));
      mappings.message(interned::kMappings, message);
    }
    Message frames;
    for (const StackTable::Location& location : table_.locations) {
      first_frame_.push_back(frame_count_ + 1);
      for (const StackTable::Line& line : location.lines) write_frame(location, line, frames);
    }
    Message callstacks;
    std::vector<std::uint64_t> outwards;
    Message ids;
    for (const std::uint32_t node : table_.stacks) {
      outwards.clear();
      table_.for_each_frame(node, [&](std::uint32_t location, std::uint32_t line) {
        outwards.push_back(first_frame_[location] + line);
      });
      Message message;
      message.number(callstack::kId, node + std::uint64_t{1});
      // Not packed, as Perfetto declares it: the outermost first.
      for (auto id = outwards.rbegin(); id != outwards.rend(); ++id) message.number(callstack::kFrames, *id);
      callstacks.message(interned::kCallstacks, message);
    }
    Message interned_data;
    functions_.write(interned::kFunctionNames, interned_data);
    build_ids_.write(interned::kBuildIds, interned_data);
    paths_.write(interned::kMappingPaths, interned_data);
    sources_.write(interned::kSourcePaths, interned_data);
    interned_data.append(mappings);
    interned_data.append(frames);
    interned_data.append(callstacks);
    Message message;
    message.message(packet::kInternedData, interned_data);
    packet(message);
  }

  void write_frame(const StackTable::Location& location, const StackTable::Line& line, Message& frames) {
    const StackTable::Function& function = table_.functions[line.function];
    Message message;
    message.number(frame::kId, ++frame_count_);
    message.number(frame::kFunction, functions_.number(function.name));
    if (location.module < mapping_of_module_.size())
      message.number(frame::kMapping, mapping_of_module_[location.module]);
    message.number(frame::kOffset, location.offset);
    if (!function.file.empty()) message.number(frame::kSourcePath, sources_.number(function.file));
    message.number(frame::kLine, line.line);
    frames.message(interned::kFrames, message);
  }

  template <typename SampleOf>
  void write_heap(std::string_view name, SampleOf&& sample_of) {
    Message dump;
    dump.number(profile::kPid, profile_.recording.pid);
    dump.number(profile::kFromStartup, 1);
    dump.bytes(profile::kHeapName, name);
    dump.number(profile::kTimestamp, profile_.end_ns());
    for (const std::uint32_t node : table_.stacks) {
      const Sample sample = sample_of(profile_.nodes[node].costs);
      if (sample.allocations == 0) continue;
      Message message;
      message.number(profile::kCallstack, node + std::uint64_t{1});
      message.number(profile::kAllocated, sample.allocated_bytes);
      message.number(profile::kFreed, sample.freed_bytes);
      message.number(profile::kAllocations, sample.allocations);
      message.number(profile::kFrees, sample.frees);
      dump.message(profile::kSamples, message);
    }
    Message profile_packet;
    profile_packet.message(profile::kProcessDumps, dump);
    Message message;
    message.present_number(packet::kTimestamp, profile_.end_ns());
    message.message(packet::kProfilePacket, profile_packet);
    packet(message);
  }

  const StackTable& table_;
  const model::Profile& profile_;
  Sink& output_;
  InternedStrings functions_, build_ids_, paths_, sources_;
  std::vector<std::uint64_t> mapping_of_module_;
  std::vector<std::uint64_t> first_frame_;  // by location
  std::uint64_t frame_count_ = 0;
};

}  // namespace

void write_perfetto(const StackTable& table, Sink& output) { PerfettoWriter(table, output).write(); }

}  // namespace heapprof::exporter
