#include "analyzer/trace/merged_reader.h"

#include <algorithm>
#include <cstring>
#include <lz4.h>
#include <utility>

#include "analyzer/trace/compact/chunk_codec.h"
#include "analyzer/trace/events/limits.h"
#include "common/checksum.h"
#include "common/event_codec.h"

namespace heapprof::trace {
namespace {

std::string name_of(StreamId id) { return "stream " + std::to_string(raw(id)); }

}  // namespace

/// Decodes one stream, a block (a frame, in the end the staging block) at a time.
class MergedReader::Stream {
 public:
  Stream(MergedReader& reader, const StreamIndex& index, std::uint32_t position)
      : reader_(reader), index_(index), position_(position) {}

  const MergedEvent* at = nullptr;   ///< decoded and not yet taken: [at, end)
  const MergedEvent* end = nullptr;
  std::vector<EventText> texts;      ///< of the block at hand
  std::uint64_t frame_bytes_read = 0;

  /// Not later than the first event that load() would bring.
  std::uint64_t next_time() const noexcept {
    std::uint64_t time = state_.last_time;
    if (state_.next_frame < index_.frames.size()) time = std::max(time, index_.frames[state_.next_frame].first_time);
    else if (!index_.staging.empty()) time = std::max(time, index_.staging.front().time);
    return time;
  }

  /// Decodes the next block that has anything. False: the stream is over.
  bool load() {
    while (!state_.over) {
      before_ = state_;
      begin_block();
      if (state_.next_frame < index_.frames.size()) load_frame(index_.frames[state_.next_frame++]);
      else load_staging();
      at = buffer_.data();
      end = out_;
      if (at != end) return true;
    }
    release_buffer();
    return false;
  }

  /// Where the events not yet taken begin.
  void save(ByteWriter& out) const {
    const State& state = at == end ? state_ : before_;
    out.number(state.next_frame);
    out.number(state.next_sequence);
    out.number(state.events_seen);
    out.number(state.expected_end);
    out.number(state.last_time);
    out.number(state.over ? 1 : 0);
    out.number(at == end ? 0 : static_cast<std::uint64_t>(at - buffer_.data()));
  }
  void go_on(ByteReader& in) {
    state_.next_frame = in.number_up_to(index_.frames.size());
    state_.next_sequence = in.number32();
    state_.events_seen = in.number();
    state_.expected_end = in.number();
    state_.last_time = in.number();
    state_.over = in.number() != 0;
    const std::uint64_t taken = in.number();
    if (taken == 0) return;
    if (!load() || taken > static_cast<std::uint64_t>(end - at)) throw FormatError("a position is wrong");
    at += taken;
  }

 private:
  struct State {
    std::size_t next_frame = 0;
    std::uint32_t next_sequence = 0;
    std::uint64_t events_seen = 0;   // of the stream up to here, lost ones too
    std::uint64_t expected_end = 0;  // events_seen as the latest frame header would have it
    std::uint64_t last_time = 0;
    bool over = false;
  };

  void begin_block() {
    reader_.decoded_bytes_ -= std::exchange(text_bytes_, 0);
    std::vector<EventText>().swap(texts);
    if (buffer_.empty() && !reader_.spare_buffers_.empty()) {
      buffer_ = std::move(reader_.spare_buffers_.back());
      reader_.spare_buffers_.pop_back();
    }
    out_ = buffer_.data();
  }

  void release_buffer() {
    if (!buffer_.empty()) reader_.spare_buffers_.push_back(std::move(buffer_));
    buffer_.clear();
    at = end = out_ = nullptr;
  }

  /// False: all streams together would hold more than the file can.
  bool room_for(std::size_t events) {
    if (buffer_.size() < events) {
      const std::uint64_t others = reader_.decoded_bytes_ - buffer_.size() * sizeof(MergedEvent);
      const std::uint64_t bytes = events * sizeof(MergedEvent);
      if (others + bytes > max_decoded_bytes(reader_.file_.bytes())) return false;
      std::vector<MergedEvent>().swap(buffer_);
      reader_.decoded_bytes_ = others;
      buffer_.resize(events);
      reader_.decoded_bytes_ = others + bytes;
    }
    out_ = buffer_.data();
    return true;
  }

  /// A block that comes after `events_before` of the stream's events is about to be decoded.
  void close_gap(std::uint32_t sequence, std::uint64_t events_before) {
    if (sequence == state_.next_sequence && events_before == state_.events_seen) return;
    Damage& damage = reader_.damage_;
    const std::string where = name_of(index_.id) + ", block " + std::to_string(state_.next_sequence);
    if (events_before >= state_.events_seen) {
      const std::uint64_t lost = events_before - state_.events_seen;
      damage.lost_events(lost);
      const std::uint32_t blocks = sequence - state_.next_sequence;
      damage.note(where + ": " + std::to_string(blocks) + (blocks == 1 ? " block" : " blocks") + " with " +
                  std::to_string(lost) + " events missing");
    } else {
      damage.lost_unknown();
      damage.note(where + ": its count of earlier events is wrong");
    }
    push({state_.last_time, 0, static_cast<std::uint64_t>(kGap), 0, position_});
  }

  void load_frame(const FrameRef& ref) {
    frame_bytes_read += ref.bytes;
    if (ref.sequence < state_.next_sequence) return;  // the same block twice

    std::vector<std::uint8_t>& bytes = reader_.frame_buffer_;
    bytes.resize(ref.bytes);
    FrameHeader header{};
    const bool read = reader_.file_.input().read_all(ref.offset, bytes.data(), ref.bytes);
    if (read) std::memcpy(&header, bytes.data(), sizeof header);
    if (!read || !is_frame(header, reader_.file_.file_id(), ref.offset, ref.offset + ref.bytes) ||
        header.stream != index_.id || header.sequence != ref.sequence) {
      reader_.damage_.damaged(ref.offset, ref.bytes, "a frame changed while it was read");
      return;
    }
    state_.expected_end = std::max(state_.expected_end, header.events_before + header.event_count);
    const std::uint8_t* const payload = bytes.data() + header.header_bytes;
    const auto damaged = [&](const char* what) {
      reader_.damage_.damaged(ref.offset, ref.bytes, name_of(index_.id) + ", block " +
                                                         std::to_string(ref.sequence) + ": " + what);
    };
    if (checksum(payload, header.payload_bytes) != header.payload_checksum) return damaged("payload checksum");

    const std::uint8_t* columns = payload;
    if (header.codec == FrameCodec::kColumnsLz4) {
      std::vector<std::uint8_t>& raw_bytes = reader_.column_buffer_;
      if (raw_bytes.size() < header.raw_bytes) raw_bytes.resize(header.raw_bytes);
      const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(payload),
                                          reinterpret_cast<char*>(raw_bytes.data()),
                                          static_cast<int>(header.payload_bytes), static_cast<int>(header.raw_bytes));
      if (got < 0 || static_cast<std::uint32_t>(got) != header.raw_bytes) return damaged("compression");
      columns = raw_bytes.data();
    } else if (header.codec != FrameCodec::kColumnsStored || header.raw_bytes != header.payload_bytes) {
      return damaged("unknown coding");
    }

    if (!room_for(std::size_t{header.record_count} + 1))
      return damaged("the decoded blocks of all streams would exceed what a file of this size can hold");
    close_gap(ref.sequence, header.events_before);
    // What every event needs stays in registers, and is given back for the records that need more.
    std::uint64_t events = 0;
    std::uint64_t last_time = state_.last_time;
    MergedEvent* out = out_;
    NodeIndex& node_index = reader_.node_index_;
    const std::uint64_t cut = reader_.file_.cut_ticks();
    const std::uint32_t position = position_;
    const DecodeError error =
        decode_columns(columns, header.raw_bytes, header.first_time, header.record_count,
                       [&](const Slot& slot, const std::uint8_t* text) {
                         last_time = std::max(last_time, slot.time);
                         events += is_event(slot);
                         if (slot.op() <= Op::kAllocFailed && last_time <= cut) [[likely]] {
                           *out++ = {last_time, slot.address, slot.op_size, node_index(slot.node), position};
                           return;
                         }
                         const Slot copy = slot;  // what has an address is made in memory
                         state_.last_time = last_time;
                         out_ = out;
                         take_other(copy, text);
                         out = out_;
                       });
    out_ = out;
    state_.last_time = last_time;
    if (error != DecodeError::kNone) {
      damaged("columns");
      if (events < header.event_count) reader_.damage_.lost_events(header.event_count - events);
    }
    state_.next_sequence = ref.sequence + 1;
    state_.events_seen = header.events_before + header.event_count;
  }

  void load_staging() {
    state_.over = true;
    Damage& damage = reader_.damage_;
    const bool kill_safe = (reader_.file_.header().flags & kHeaderTailNotKillSafe) == 0;
    if (!index_.has_staging) {
      if (kill_safe) {
        damage.lost_unknown();
        damage.note(name_of(index_.id) + " has no staging block: its last events are missing");
      }
      return lost_at_end();
    }
    const std::uint32_t sequence = index_.staging_sequence;
    if (sequence + 1 < state_.next_sequence) {
      damage.damaged(index_.staging_offset - sizeof(std::uint64_t) * 2, sizeof(std::uint64_t),
                     "commit word behind the frames of " + name_of(index_.id));
      damage.lost_unknown();
      return;
    }
    if (sequence < state_.next_sequence) return;  // killed between frame and commit word: the frame has it all
    const std::vector<Slot>& slots = index_.staging;
    if (slots.empty()) {
      if (sequence != state_.next_sequence) {
        if (state_.expected_end > state_.events_seen) {
          lost_at_end();
        } else {
          damage.lost_unknown();
          damage.note(name_of(index_.id) + ": blocks " + std::to_string(state_.next_sequence) + " to " +
                      std::to_string(sequence - 1) + " missing");
        }
      }
      return;
    }
    if (!room_for(slots.size() + 1)) {
      damage.damaged(index_.staging_offset, slots.size() * sizeof(Slot),
                     name_of(index_.id) + ": the decoded blocks of all streams would exceed what a file of this size "
                     "can hold");
      damage.lost_unknown();
      return lost_at_end();
    }
    std::uint64_t expected = state_.events_seen;
    if (slots.front().op() == Op::kBlockStart) expected = slots.front().address;
    close_gap(sequence, expected);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const Slot& slot = slots[i];
      const std::uint64_t slot_offset = index_.staging_offset + i * sizeof(Slot);
      // Nothing but its meaning tells a damaged slot: what no recorder writes is left out.
      const bool sound = slot.op() != Op::kNone && slot.op() <= Op::kLast && slot.time >= state_.last_time &&
                         (i == 0) == (slot.op() == Op::kBlockStart);
      const std::size_t text_room = (slots.size() - i - 1) * sizeof(Slot);
      if (!sound || (slot.op() == Op::kText && (slot.aux > kMaxTextBytes || slot.aux > text_room))) {
        damage.damaged(slot_offset, sizeof(Slot), "a slot of " + name_of(index_.id));
        damage.lost_unknown();
        continue;
      }
      take(slot, reinterpret_cast<const std::uint8_t*>(&slot + 1));
      if (slot.op() == Op::kText) i += text_slots(slot.aux);
    }
  }

  /// Frames that were there but did not decode, and nothing after them that counts their events.
  void lost_at_end() {
    if (state_.expected_end <= state_.events_seen) return;
    reader_.damage_.lost_events(state_.expected_end - state_.events_seen);
    reader_.damage_.note(name_of(index_.id) + ": its last " +
                         std::to_string(state_.expected_end - state_.events_seen) + " events are missing");
  }

  void push(const MergedEvent& event) noexcept { *out_++ = event; }

  void take(const Slot& slot, const std::uint8_t* text) {
    state_.last_time = std::max(state_.last_time, slot.time);
    take_other(slot, text);
  }

  /// state_.last_time is its time.
  [[gnu::noinline]] void take_other(const Slot& slot, const std::uint8_t* text) {
    const Op op = slot.op();
    if (state_.last_time > reader_.file_.cut_ticks()) [[unlikely]] {
      // Another stream's event before the cut may already use what is defined here.
      if (op == Op::kNode) define_node(slot);
      if (op == Op::kText && slot.node == static_cast<std::uint32_t>(TextKind::kModule)) take_text(slot, text);
      return;
    }
    switch (op) {
      case Op::kNode: return define_node(slot);
      case Op::kText: return take_text(slot, text);
      case Op::kBlockStart: return;
      default: break;
    }
    const std::uint32_t flags = op == Op::kMap ? slot.aux << MergedEvent::kFlagsShift : 0;
    push({state_.last_time, slot.address, slot.op_size, reader_.node_index_(slot.node), position_ | flags});
  }

  void define_node(const Slot& slot) {
    if (reader_.goes_on_) return;
    Definitions& definitions = reader_.definitions_;
    const std::uint32_t index = reader_.node_index_(slot.node);
    NodeDefinition node;
    node.parent = reader_.node_index_(static_cast<std::uint32_t>(slot.size()));
    node.module = static_cast<std::uint32_t>(slot.size() >> 32);
    node.offset = slot.address;
    node.guessed = (slot.aux & kNodeGuessed) != 0;
    node.defined = true;
    if (index == 0) {
      ++definitions.redefined_nodes;
      return;
    }
    if (definitions.nodes.size() <= index) definitions.nodes.resize(std::max<std::size_t>(index + 1, 64));
    NodeDefinition& known = definitions.nodes[index];
    if (!known.defined) known = node;
    else if (known.parent != node.parent || known.module != node.module || known.offset != node.offset)
      ++definitions.redefined_nodes;
  }

  void take_text(const Slot& slot, const std::uint8_t* bytes) {
    Definitions& definitions = reader_.definitions_;
    std::string text(reinterpret_cast<const char*>(bytes), slot.aux);
    const auto kind = static_cast<TextKind>(slot.node);
    if (kind == TextKind::kModule && !reader_.take_module(text.size())) return;
    const std::uint64_t held = sizeof(EventText) + text.size();
    switch (kind) {
      case TextKind::kThread:
      case TextKind::kThreadName:
      case TextKind::kMark:
        text_bytes_ += held;
        reader_.decoded_bytes_ += held;
        push({state_.last_time, 0, slot.op_size, static_cast<std::uint32_t>(texts.size()), position_});
        texts.push_back({kind, slot.size(), slot.address, std::move(text)});
        return;
      default: break;
    }
    if (reader_.goes_on_) return;
    switch (kind) {
      case TextKind::kProgram: definitions.program = std::move(text); return;
      case TextKind::kCommandLine:
        definitions.command_line = std::move(text);
        definitions.command_line_cut = slot.address == 1;
        return;
      case TextKind::kWorkingDirectory: definitions.working_directory = std::move(text); return;
      case TextKind::kHost: definitions.host = std::move(text); return;
      case TextKind::kModule: return define_module(slot, text);
      case TextKind::kNote:
        if (definitions.notes.size() < Damage::kMaxNotes)
          definitions.notes.push_back({static_cast<NoteKind>(slot.size()), std::move(text)});
        return;
      default: return;
    }
  }

  void define_module(const Slot& slot, const std::string& text) {
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
    reader_.definitions_.modules.push_back(std::move(module));
  }

  MergedReader& reader_;
  const StreamIndex& index_;
  const std::uint32_t position_;
  State state_;
  State before_;  // when the block at hand was loaded
  std::vector<MergedEvent> buffer_;
  MergedEvent* out_ = nullptr;
  std::uint64_t text_bytes_ = 0;  // of decoded_bytes_: of the block at hand
};

/// False: the file has more modules than one of its size can hold. The caller leaves this one out.
bool MergedReader::take_module(std::uint64_t text_bytes) {
  const std::uint64_t limit = max_text_bytes(file_.bytes());
  const bool had_room = text_bytes_ <= limit;
  text_bytes_ += text_cost_bytes(text_bytes);
  if (text_bytes_ <= limit) return true;
  if (had_room) {
    damage_.lost_unknown();
    damage_.note("the modules exceed what a file of this size can hold; the rest of them is left out");
  }
  return false;
}

/// The chunk at hand of a compacted trace.
struct MergedReader::Chunks {
  std::size_t next = 0;                 // after the one at hand
  std::vector<std::uint8_t> contents;
  std::unique_ptr<ChunkDecoder> decoder;
  std::uint64_t events_left = 0;        // of the one at hand, as its header says
  std::vector<std::uint32_t> gaps_due;  // streams that are still to be told of a gap
  // Streams that have had events since they were last told: only those are told, else a file of a few damaged chunks
  // that claims many streams would take ages.
  std::vector<std::uint32_t> heard;
  std::vector<bool> is_heard;

  explicit Chunks(std::size_t streams) : is_heard(streams, false) {}
  void hear(std::uint32_t stream) {
    if (is_heard[stream]) return;
    is_heard[stream] = true;
    heard.push_back(stream);
  }
};

MergedReader::MergedReader(const TraceFile& file) : file_(file) {
  if (file.compacted() != nullptr) {
    chunks_ = std::make_unique<Chunks>(file.streams().size());
    goes_on_ = true;
    return;
  }
  if (file.streams().size() > MergedEvent::kStreamMask)
    throw TraceError(file.input().path() + ": has more streams than a program can have threads");
  streams_.reserve(file.streams().size());
  for (const StreamIndex& index : file.streams()) {
    const auto position = static_cast<std::uint32_t>(streams_.size());
    streams_.push_back(std::make_unique<Stream>(*this, index, position));
    heads_.push_back({streams_.back()->next_time(), position});
  }
  std::sort(heads_.begin(), heads_.end());
}

MergedReader::MergedReader(const TraceFile& file, const Whole& whole, ByteReader& position) : MergedReader(file) {
  goes_on_ = true;
  for (std::uint32_t index = 1; chunks_ == nullptr && index < whole.node_ids.size(); ++index)
    if (node_index_(whole.node_ids[index]) != index) throw FormatError("a stack frame is named twice");
  records_ = position.number();
  last_time_ = position.number();
  frame_bytes_read_ = position.number();
  if (chunks_ != nullptr) {
    chunks_->next = position.number_up_to(file.compacted()->sections.chunks.size());
    for (std::uint32_t stream = 0; stream < file.streams().size(); ++stream) chunks_->hear(stream);
    return;
  }
  heads_.clear();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = *streams_[i];
    stream.go_on(position);
    stream.frame_bytes_read = 0;
    heads_.push_back({stream.at != stream.end ? stream.at->time : stream.next_time(), static_cast<std::uint32_t>(i)});
  }
  std::sort(heads_.begin(), heads_.end());
}

MergedReader::~MergedReader() = default;

void MergedReader::save_position(ByteWriter& out) const {
  out.number(records_);
  out.number(last_time_);
  out.number(frame_bytes_read_);
  if (chunks_ != nullptr) out.number(chunks_->next);
  for (const auto& stream : streams_) stream->save(out);
}

/// Makes the next chunk the one at hand. False: there is none.
bool MergedReader::load_chunk() {
  const Compacted& compacted = *file_.compacted();
  Chunks& chunks = *chunks_;
  chunks.decoder.reset();
  if (chunks.next == compacted.sections.chunks.size()) return false;
  const Section& section = compacted.sections.chunks[chunks.next++];
  frame_bytes_read_ += section.header.payload_bytes;
  chunks.events_left = section.header.events;
  try {
    chunks.contents = read_contents(file_.input(), section);
    const ChunkFormat format{static_cast<std::uint32_t>(file_.streams().size()),
                             compacted.whole->definitions.node_count, compacted.quantum, compacted.exact};
    chunks.decoder = std::make_unique<ChunkDecoder>(format, chunks.contents);
  } catch (const FormatError& error) {
    give_up_chunk(error.what());
  }
  return true;
}

/// The rest of the chunk at hand is lost, and every stream may have lost something.
void MergedReader::give_up_chunk(const std::string& why) {
  const Section& section = file_.compacted()->sections.chunks[chunks_->next - 1];
  damage_.damaged(section.offset, next_section(section) - section.offset, "a chunk: " + why);
  damage_.lost_events(chunks_->events_left);
  chunks_->decoder.reset();
  chunks_->gaps_due.swap(chunks_->heard);
  for (const std::uint32_t stream : chunks_->gaps_due) chunks_->is_heard[stream] = false;
}

bool MergedReader::next_compacted(Batch& batch) {
  Chunks& chunks = *chunks_;
  MergedEvent* const events = batch.storage.data();
  std::size_t count = 0;
  bool at_chunk_end = false;
  const auto batch_text_bytes = [&] {
    std::uint64_t sum = 0;
    for (const EventText& text : batch.texts) sum += text.text.size();
    return sum;
  };
  while (count < Batch::kEvents && batch_text_bytes() < kMaxBatchTextBytes) {
    if (!chunks.gaps_due.empty()) {
      events[count++] = {last_time_, 0, static_cast<std::uint64_t>(kGap), 0, chunks.gaps_due.back()};
      chunks.gaps_due.pop_back();
      continue;
    }
    if (chunks.decoder == nullptr) {
      if (!load_chunk()) break;
      continue;
    }
    try {
      const std::size_t got = chunks.decoder->next(events + count, Batch::kEvents - count, batch.texts);
      std::uint32_t stream = MergedEvent::kStreamMask;
      for (std::size_t i = count; i < count + got; ++i) {
        const MergedEvent& event = events[i];
        chunks.events_left -= is_event({event.time, event.address, event.op_size, 0, 0}) && chunks.events_left != 0;
        if (event.stream() != stream) chunks.hear(stream = event.stream());
      }
      count += got;
      if (got != 0) last_time_ = events[count - 1].time;
      if (!chunks.decoder->at_end()) continue;
      // A chunk may end with its batch, so that is looked at before the batch is full.
      chunks.decoder.reset();
      at_chunk_end = count != 0 && position_interval_ != 0 && records_ + count >= next_position_;
      if (at_chunk_end) break;
    } catch (const FormatError& error) {
      give_up_chunk(error.what());
    }
  }
  batch.count = count;
  records_ += count;
  batch.records = records_;
  batch.frame_bytes_read = frame_bytes_read_;
  batch.position.clear();
  if (at_chunk_end) {
    save_position(batch.position);
    next_position_ = records_ + position_interval_;
  }
  return count != 0;
}

void MergedReader::sift_down(std::size_t at) noexcept {
  const Head moving = heads_[at];
  const std::size_t size = heads_.size();
  for (;;) {
    std::size_t child = 2 * at + 1;
    if (child >= size) break;
    if (child + 1 < size && heads_[child + 1] < heads_[child]) ++child;
    if (!(heads_[child] < moving)) break;
    heads_[at] = heads_[child];
    at = child;
  }
  heads_[at] = moving;
}

bool MergedReader::next(Batch& batch) {
  batch.storage.resize(Batch::kMost);
  batch.texts.clear();
  if (chunks_ != nullptr) return next_compacted(batch);
  MergedEvent* const begin = batch.storage.data();
  MergedEvent* out = begin;
  MergedEvent* const nominal_end = begin + Batch::kEvents;
  std::uint64_t text_bytes = 0;
  while (!heads_.empty() && text_bytes < kMaxBatchTextBytes) {
    if (out >= nominal_end && (heads_[0].time != last_time_ || out == begin + Batch::kMost)) break;
    Stream& stream = *streams_[heads_[0].stream];
    if (stream.at == stream.end) {
      const std::uint64_t read_before = stream.frame_bytes_read;
      const bool loaded = stream.load();
      frame_bytes_read_ += stream.frame_bytes_read - read_before;
      if (loaded) {
        heads_[0].time = stream.at->time;
      } else {
        heads_[0] = heads_.back();
        heads_.pop_back();
      }
      if (!heads_.empty()) sift_down(0);
      continue;
    }
    std::uint64_t limit = kNoCut;
    if (heads_.size() > 1) limit = heads_[1].time;
    if (heads_.size() > 2) limit = std::min(limit, heads_[2].time);
    MergedEvent* const out_end = out < nominal_end ? nominal_end : out + 1;
    const MergedEvent* at = stream.at;
    const MergedEvent* const end = at + std::min(stream.end - at, out_end - out);
    if (stream.texts.empty()) [[likely]] {
      do *out++ = *at++;
      while (at != end && at->time <= limit);
    } else {
      do {
        *out = *at++;
        if (out->op() == Op::kText) {
          EventText& text = stream.texts[out->node];
          out->node = static_cast<std::uint32_t>(batch.texts.size());
          text_bytes += text.text.size();
          batch.texts.push_back(std::move(text));
        }
        ++out;
      } while (at != end && at->time <= limit && text_bytes < kMaxBatchTextBytes);
    }
    stream.at = at;
    last_time_ = out[-1].time;
    heads_[0].time = at != stream.end ? at->time : stream.next_time();
    sift_down(0);
  }
  batch.count = static_cast<std::size_t>(out - begin);
  records_ += batch.count;
  batch.records = records_;
  batch.frame_bytes_read = frame_bytes_read_;
  batch.position.clear();
  if (position_interval_ != 0 && records_ >= next_position_ && batch.count != 0) {
    save_position(batch.position);
    next_position_ = records_ + position_interval_;
  }
  definitions_.node_count = node_index_.size();
  return out != begin;
}

}  // namespace heapprof::trace
