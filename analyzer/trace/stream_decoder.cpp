#include "analyzer/trace/stream_decoder.h"

#include <cstring>
#include <utility>

#include "analyzer/trace/events/limits.h"

namespace heapprof::trace {
namespace {

std::string name_of(StreamId id) { return "stream " + std::to_string(raw(id)); }

}  // namespace

bool StreamDecoder::load() {
  while (!state_.over) {
    state_before_ = state_;
    begin_block();
    shared_.node_index.set_limit(max_nodes(shared_.file_bytes));
    if (state_.next_frame < index_.frames.size()) load_frame(index_.frames[state_.next_frame++]);
    else load_staging();
    if (shared_.node_index.exceeds_limit() && !std::exchange(shared_.nodes_exceed_limit, true)) {
      shared_.damage.lost_definitions();
      shared_.damage.note("the stacks exceed what a file of this size can hold; further ones are empty");
    }
    at = buffer_.data();
    end = out_;
    if (at != end || shared_.asked != nullptr) return true;
  }
  free_buffer();
  return false;
}

void StreamDecoder::save(ByteWriter& out) const {
  const State& state = at == end ? state_ : state_before_;
  out.number(state.next_frame);
  out.number(state.next_sequence);
  out.number(state.events_seen);
  out.number(state.expected_end);
  out.number(state.last_time);
  out.number(state.over ? 1 : 0);
  out.number(at == end ? 0 : static_cast<std::uint64_t>(at - buffer_.data()));
}

void StreamDecoder::resume(ByteReader& in) {
  state_.next_frame = in.number_up_to(index_.frames.size());
  state_.next_sequence = in.number32();
  state_.events_seen = in.number();
  state_.expected_end = in.number();
  state_.last_time = in.number();
  state_.over = in.number() != 0;
  const std::uint64_t taken = in.number();
  if (taken == 0) return;
  // The saved position has counted this block already.
  const std::uint64_t read = shared_.frame_bytes_read;
  if (!load() || taken > static_cast<std::uint64_t>(end - at)) throw FormatError("its position in a stream is wrong");
  shared_.frame_bytes_read = read;
  at += taken;
}

void StreamDecoder::begin_block() {
  shared_.decoded_bytes -= std::exchange(text_bytes_, 0);
  std::vector<EventText>().swap(texts);
  if (buffer_.empty() && !shared_.spare_buffers.empty()) {
    buffer_ = std::move(shared_.spare_buffers.back());
    shared_.spare_buffers.pop_back();
  }
  out_ = buffer_.data();
}

void StreamDecoder::free_buffer() {
  if (!buffer_.empty()) shared_.spare_buffers.push_back(std::move(buffer_));
  buffer_.clear();
  at = end = out_ = nullptr;
}

/// False: the decoded blocks of all streams would exceed max_decoded_bytes().
bool StreamDecoder::reserve(std::size_t events) {
  if (buffer_.size() < events) {
    const std::uint64_t others = shared_.decoded_bytes - buffer_.size() * sizeof(MergedEvent);
    const std::uint64_t bytes = events * sizeof(MergedEvent);
    if (others + bytes > max_decoded_bytes(shared_.file_bytes)) return false;
    std::vector<MergedEvent>().swap(buffer_);
    shared_.decoded_bytes = others;
    buffer_.resize(events);
    shared_.decoded_bytes = others + bytes;
  }
  out_ = buffer_.data();
  return true;
}

/// Counts the events as seen that were taken from a block which is lost now.
void StreamDecoder::give_up_partial_block() {
  state_.events_seen += std::exchange(state_.events_taken, 0);
  state_.records_taken = 0;
}

/// Counts what is missing before the block `sequence`. `events_before`: the events before it, by its header.
void StreamDecoder::close_gap(std::uint32_t sequence, std::uint64_t events_before) {
  give_up_partial_block();
  if (sequence == state_.next_sequence && events_before == state_.events_seen) return;
  Damage& damage = shared_.damage;
  const std::string where = name_of(index_.id) + ", block " + std::to_string(state_.next_sequence);
  if (events_before >= state_.events_seen) {
    const std::uint64_t lost = events_before - state_.events_seen;
    damage.lost_events(lost);
    const std::uint32_t blocks = sequence - state_.next_sequence;
    damage.note(where + ": " + std::to_string(blocks) + (blocks == 1 ? " block" : " blocks") + " with " +
                std::to_string(lost) + " events missing");
  } else {
    damage.lost_unknown();
    damage.note(where + ": its number of earlier events is wrong");
  }
  // Events of other streams may have been merged since the last event of this one.
  push({std::max(state_.last_time, shared_.last_time), 0, static_cast<std::uint64_t>(kGap), 0, stream_index_});
}

/// Takes the allocations of the next frame that are asked for. False: it must be decoded as a whole.
bool StreamDecoder::take_asked(const FrameRef& ref) {
  const AskedFrame* const frame = shared_.asked->take(stream_index_, state_.next_frame - 1);
  if (frame == nullptr || is_taken_in_part(ref)) return false;
  const FrameHeader& header = frame->header;
  if (!reserve(std::size_t{header.record_count} + 1)) return false;
  state_.expected_end = std::max(state_.expected_end, header.events_before + header.event_count);
  close_gap(ref.sequence, header.events_before);
  for (MergedEvent event : frame->events) {
    state_.last_time = event.time = std::max(state_.last_time, std::min(event.time, header.last_time));
    event.stream_and_flags = stream_index_;
    push(event);
  }
  state_.last_time = std::max(state_.last_time, header.last_time);
  shared_.events_left_out += header.event_count - std::min<std::size_t>(header.event_count, frame->events.size());
  end_frame(header);
  return true;
}

void StreamDecoder::end_frame(const FrameHeader& header) {
  state_.next_sequence = header.sequence + 1;
  state_.events_seen = header.events_before + header.event_count;
  state_.records_taken = 0;
  state_.events_taken = 0;
  records_to_skip_ = 0;
}

/// Takes the records of a frame, and counts the events among them.
template <ColumnFormat kFormat>
DecodeError StreamDecoder::take_records(const std::uint8_t* columns, const FrameHeader& header,
                                        std::uint64_t& events_taken) {
  // The hot loop keeps its state in registers and stores it to members only for records that take_other() handles.
  std::uint64_t events = 0;
  std::uint64_t last_time = state_.last_time;
  MergedEvent* out = out_;
  NodeIndex& node_index = shared_.node_index;
  const std::uint64_t cut = shared_.cut_ticks;
  // take_other() skips the records that were already taken from the staging block.
  const Op last_fast_op = records_to_skip_ == 0 ? Op::kAllocFailed : Op::kNone;
  const std::uint32_t stream_index = stream_index_;
  const DecodeError error = decode_columns_as<kFormat>(
      columns, header.raw_bytes, header.first_time, header.record_count,
      [&](const Slot& slot, const std::uint8_t* text) {
        last_time = std::max(last_time, slot.time);
        events += is_event(slot);
        if (slot.op() <= last_fast_op && last_time <= cut) [[likely]] {
          *out++ = {last_time, slot.address, slot.op_size, node_index(slot.node), stream_index};
          return;
        }
        const Slot copy = slot;  // taking the address of `slot` would keep it in memory
        state_.last_time = last_time;
        out_ = out;
        take_other(copy, text);
        out = out_;
      });
  out_ = out;
  state_.last_time = last_time;
  events_taken = events;
  return error;
}

void StreamDecoder::load_frame(const FrameRef& ref) {
  shared_.frame_bytes_read += ref.bytes;
  if (ref.sequence < state_.next_sequence) {  // the same block twice
    if (shared_.asked != nullptr) shared_.asked->drop(stream_index_, state_.next_frame - 1);
    return;
  }
  if (shared_.asked != nullptr && take_asked(ref)) return;

  FrameReader& frame = shared_.frame_reader;
  const FrameReader::Result result = frame.read(shared_.input, shared_.file_id, index_.id, ref);
  if (result == FrameReader::Result::kChanged) {
    shared_.damage.damaged(ref.offset, ref.bytes, "a frame changed while it was read");
    return;
  }
  const FrameHeader header = frame.header();
  state_.expected_end = std::max(state_.expected_end, header.events_before + header.event_count);
  const auto damaged = [&](const char* what) {
    shared_.damage.damaged(ref.offset, ref.bytes,
                           name_of(index_.id) + ", block " + std::to_string(ref.sequence) + ": " + what);
  };
  switch (result) {
    case FrameReader::Result::kWrongChecksum: return damaged("wrong payload checksum");
    case FrameReader::Result::kWrongCompression: return damaged("wrong compression");
    case FrameReader::Result::kUnknownCodec: return damaged("unknown codec");
    case FrameReader::Result::kChanged:
    case FrameReader::Result::kRead: break;
  }
  if (!reserve(std::size_t{header.record_count} + 1))
    return damaged("the decoded blocks of all streams exceed what a file of this size can hold");
  records_to_skip_ = is_taken_in_part(ref) ? state_.records_taken : 0;
  if (records_to_skip_ == 0) close_gap(ref.sequence, header.events_before);
  std::uint64_t events = 0;
  const DecodeError error = column_format(header.codec) == ColumnFormat::kCurrent
                                ? take_records<ColumnFormat::kCurrent>(frame.columns(), header, events)
                                : take_records<ColumnFormat::kOld>(frame.columns(), header, events);
  if (error != DecodeError::kNone) {
    damaged("malformed columns");
    if (events < header.event_count) shared_.damage.lost_events(header.event_count - events);
  }
  end_frame(header);
}

void StreamDecoder::load_staging() {
  state_.over = true;
  Damage& damage = shared_.damage;
  if (!index_.has_staging) {
    if (shared_.tail_kill_safe) {
      damage.lost_unknown();
      damage.note(name_of(index_.id) + " has no staging block: its last events are missing");
    }
    return report_lost_at_end();
  }
  const std::uint32_t sequence = index_.staging_sequence;
  if (sequence + 1 < state_.next_sequence) {
    damage.damaged(index_.staging_offset - sizeof(std::uint64_t) * 2, sizeof(std::uint64_t),
                   "a commit word older than the frames of " + name_of(index_.id));
    damage.lost_unknown();
    return;
  }
  if (sequence < state_.next_sequence) return;  // killed between frame and commit word: the frame has all of it
  if (sequence != state_.next_sequence) give_up_partial_block();
  const std::vector<Slot>& slots = index_.staging;
  if (slots.empty()) {
    if (sequence != state_.next_sequence) {
      if (state_.expected_end > state_.events_seen) {
        report_lost_at_end();
      } else {
        damage.lost_unknown();
        damage.note(name_of(index_.id) + ": blocks " + std::to_string(state_.next_sequence) + " to " +
                    std::to_string(sequence - 1) + " missing");
      }
    }
    return;
  }
  if (!reserve(slots.size() + 1)) {
    damage.damaged(index_.staging_offset, slots.size() * sizeof(Slot),
                   name_of(index_.id) +
                       ": the decoded blocks of all streams exceed what a file of this size "
                       "can hold");
    damage.lost_unknown();
    return report_lost_at_end();
  }
  std::uint64_t expected = state_.events_seen;
  if (slots.front().op() == Op::kBlockStart) expected = slots.front().address;
  if (state_.records_taken == 0) {
    close_gap(sequence, expected);
    state_.next_sequence = sequence;
    state_.events_seen = expected;
  }
  const std::uint64_t taken_before = std::exchange(state_.records_taken, 0);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    const std::uint64_t slot_offset = index_.staging_offset + i * sizeof(Slot);
    if (state_.records_taken++ < taken_before) {
      if (slot.op() == Op::kText) i += text_slots(slot.aux);
      continue;
    }
    // Slots have no checksum, so a slot is damaged when no recorder writes one like it.
    const bool valid = slot.op() != Op::kNone && slot.op() <= Op::kLast && slot.time >= state_.last_time &&
                       (i == 0) == (slot.op() == Op::kBlockStart);
    const std::size_t text_room = (slots.size() - i - 1) * sizeof(Slot);
    if (!valid || (slot.op() == Op::kText && (slot.aux > kMaxTextBytes || slot.aux > text_room))) {
      damage.damaged(slot_offset, sizeof(Slot), "a slot of " + name_of(index_.id));
      damage.lost_unknown();
      continue;
    }
    state_.events_taken += is_event(slot);
    take_slot(slot, reinterpret_cast<const std::uint8_t*>(&slot + 1));
    if (slot.op() == Op::kText) i += text_slots(slot.aux);
  }
}

/// Counts the events of the last frames if these could not be decoded: no later block has a count of the events
/// before it.
void StreamDecoder::report_lost_at_end() {
  give_up_partial_block();
  if (state_.expected_end <= state_.events_seen) return;
  shared_.damage.lost_events(state_.expected_end - state_.events_seen);
  shared_.damage.note(name_of(index_.id) + ": its last " + std::to_string(state_.expected_end - state_.events_seen) +
                      " events are missing");
}

void StreamDecoder::take_slot(const Slot& slot, const std::uint8_t* text) {
  state_.last_time = std::max(state_.last_time, slot.time);
  take_other(slot, text);
}

/// All records but the most frequent ones. Precondition: state_.last_time is the time of `slot`.
[[gnu::noinline]] void StreamDecoder::take_other(const Slot& slot, const std::uint8_t* text) {
  if (records_to_skip_ != 0) {
    --records_to_skip_;
    return;
  }
  const Op op = slot.op();
  if (state_.last_time > shared_.cut_ticks) [[unlikely]] {
    // An event of another stream before the cut may use this definition.
    if (op == Op::kNode) define_node(slot);
    if (op == Op::kText && (slot.node == static_cast<std::uint32_t>(TextKind::kModule) ||
                            slot.node == static_cast<std::uint32_t>(TextKind::kPythonCode)))
      take_text(slot, text);
    return;
  }
  switch (op) {
    case Op::kNode: return define_node(slot);
    case Op::kText: return take_text(slot, text);
    case Op::kBlockStart: return;
    default: break;
  }
  const std::uint32_t flags = op == Op::kMap ? slot.aux << MergedEvent::kFlagsShift : 0;
  push({state_.last_time, slot.address, slot.op_size, shared_.node_index(slot.node), stream_index_ | flags});
}

void StreamDecoder::define_node(const Slot& slot) {
  if (shared_.definitions_known) return;
  Definitions& definitions = shared_.definitions;
  const std::uint32_t index = shared_.node_index(slot.node);
  NodeDefinition node;
  node.parent = shared_.node_index(static_cast<std::uint32_t>(slot.size()));
  node.module = static_cast<std::uint32_t>(slot.size() >> 32);
  node.offset = slot.address;
  node.guessed = (slot.aux & kNodeByFramePointer) != 0;
  node.defined = true;
  if (index == 0) {
    if (slot.node == 0) ++definitions.redefined_nodes;
    return;
  }
  if (definitions.nodes.size() <= index) definitions.nodes.resize(std::max<std::size_t>(index + 1, 64));
  NodeDefinition& known = definitions.nodes[index];
  if (!known.defined) known = node;
  else if (known.parent != node.parent || known.module != node.module || known.offset != node.offset)
    ++definitions.redefined_nodes;
}

void StreamDecoder::take_text(const Slot& slot, const std::uint8_t* bytes) {
  Definitions& definitions = shared_.definitions;
  std::string text(reinterpret_cast<const char*>(bytes), slot.aux);
  const auto kind = static_cast<TextKind>(slot.node);
  if (kind == TextKind::kModule && !admit_module(text.size())) return;
  const bool is_python = kind == TextKind::kPythonInterpreter || kind == TextKind::kPythonCode;
  if (is_python && !admit_python(text.size())) return;
  const std::uint64_t held = sizeof(EventText) + text.size();
  switch (kind) {
    case TextKind::kThread:
    case TextKind::kThreadName:
    case TextKind::kMark:
    case TextKind::kSharedMemory:
    case TextKind::kResidency:
      text_bytes_ += held;
      shared_.decoded_bytes += held;
      push({state_.last_time, 0, slot.op_size, static_cast<std::uint32_t>(texts.size()), stream_index_});
      texts.push_back({kind, slot.size(), slot.address, std::move(text)});
      return;
    default: break;
  }
  if (shared_.definitions_known) return;
  switch (kind) {
    case TextKind::kProgram: definitions.program = std::move(text); return;
    case TextKind::kCommandLine:
      definitions.command_line = std::move(text);
      definitions.command_line_cut = (slot.address & kCommandLineTruncated) != 0;
      definitions.command_line_omitted = (slot.address & kCommandLineOmitted) != 0;
      if (definitions.command_line_omitted)
        definitions.command_line.erase(
            std::min(definitions.command_line.find('\0'), definitions.command_line.size()));
      return;
    case TextKind::kWorkingDirectory: definitions.working_directory = std::move(text); return;
    case TextKind::kHost: definitions.host = std::move(text); return;
    case TextKind::kModule: return define_module(slot, text);
    case TextKind::kNote:
      if (definitions.notes.size() < Damage::kMaxNotes)
        definitions.notes.push_back({static_cast<NoteKind>(slot.size()), std::move(text)});
      return;
    case TextKind::kPythonInterpreter:
      return definitions.python.add_interpreter({static_cast<std::uint32_t>(slot.size()), std::move(text)});
    case TextKind::kPythonCode: return definitions.python.add_piece(slot.size(), slot.address, text);
    default: return;
  }
}

/// False: the file has more modules than one of its size can hold; the caller ignores this one.
bool StreamDecoder::admit_module(std::uint64_t text_bytes) {
  const std::uint64_t limit = max_text_bytes(shared_.file_bytes);
  const bool had_room = shared_.module_bytes <= limit;
  shared_.module_bytes += text_cost_bytes(text_bytes);
  if (shared_.module_bytes <= limit) return true;
  if (had_room) {
    shared_.damage.lost_definitions();
    shared_.damage.note("the modules exceed what a file of this size can hold; further ones are ignored");
  }
  return false;
}

/// The same of a text about Python.
bool StreamDecoder::admit_python(std::uint64_t text_bytes) {
  const std::uint64_t limit = max_text_bytes(shared_.file_bytes);
  const bool had_room = shared_.python_bytes <= limit;
  shared_.python_bytes += text_cost_bytes(text_bytes);
  if (shared_.python_bytes <= limit) return true;
  if (had_room) {
    shared_.damage.lost_definitions();
    shared_.damage.note(
        "the code objects of Python exceed what a file of this size can hold; further ones are ignored");
  }
  return false;
}

void StreamDecoder::define_module(const Slot& slot, const std::string& text) {
  ModuleText fixed;
  if (text.size() < sizeof fixed) return;
  std::memcpy(&fixed, text.data(), sizeof fixed);
  if (fixed.build_id_bytes > text.size() - sizeof fixed) return;
  ModuleDefinition module;
  module.id = static_cast<ModuleId>(slot.size());
  module.first_address = slot.address;
  module.map_bytes = fixed.map_bytes;
  module.load_bias = fixed.load_bias;
  module.build_id = text.substr(sizeof fixed, fixed.build_id_bytes);
  module.path = text.substr(sizeof fixed + fixed.build_id_bytes);
  module.is_main = (fixed.flags & kModuleMain) != 0;
  shared_.definitions.modules.push_back(std::move(module));
}

}  // namespace heapprof::trace
