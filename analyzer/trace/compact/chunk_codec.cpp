#include "analyzer/trace/compact/chunk_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

#include "analyzer/trace/events/limits.h"

// The bytes of a chunk. Numbers are varints; sizes are in bytes.
//
//   chunk   = event_count time_before stream_count stream* (size bytes){4} columns*
//   stream  = stream_index first_ordinal, sizes of its five columns
//
// The four columns of the chunk, each after its size:
//
//   time_runs, time_steps         number of events with the current time; quanta by which the time then advances
//   switch_streams, switch_runs   stream of the next events; number of them
//
// The columns of the streams follow: the kinds of all streams, then the nodes of all streams, and so on.
//
//   kinds   a byte for each event: its Kind, and which predictions were right
//   nodes   stacks that were not predicted, minus the stack before, zigzag
//   sizes   sizes that were not predicted
//   blocks  freed blocks that were not predicted: ordinal minus the expected one, zigzag. For a block of another
//           stream: stream and ordinal. In exact traces: all addresses, rotated right by 4 bits, minus the one
//           before, zigzag
//   rare    all fields of all other events

namespace heapprof::trace {
namespace {

/// What an event is, and how its block is stored. Own: a block that the same stream allocated. Next: the block gets
/// the stream's next ordinal.
enum Kind : std::uint8_t {
  kFreeOwn,
  kAllocNext,
  kReallocBeginOwn,
  kReallocEndNext,
  kFreeOther,  // of a block that another stream allocated
  kRare,       // any other event, all fields stored
  kFreeStackOwn,
  kReallocEndSame,  // the realloc stayed in place: the block of the stream's latest realloc begin
};
constexpr unsigned kKindBits = 3;
// The bits above the kind: which predictions of node and size were right (allocations), or which of the block
// (frees).
constexpr unsigned kNodeShift = kKindBits;
constexpr unsigned kSizeShift = kKindBits + 2;
constexpr unsigned kBlockShift = kKindBits;
enum Prediction : std::uint8_t { kNone, kFirst, kSecond, kThird };  // kNone: the value is stored

constexpr unsigned kColumnsOfStream = 5;

/// The earlier events of a stream, as far as predictions use them.
struct Context {
  std::uint32_t node = 0;         // of the latest allocation
  std::uint32_t node_before = 0;  // of the allocation before that
  std::uint32_t frees = 0;        // since the latest allocation
  std::uint64_t size = 0;         // of the latest allocation
  std::uint64_t next_ordinal = 0;
  std::uint64_t last_freed = 0;  // ordinal of the block freed last
  std::uint64_t address = 0;     // exact traces: the latest address, rotated
  std::uint64_t in_realloc = 0;  // other traces: block number of the latest realloc begin
};

/// The value that came last in each context. A hash collision only makes a wrong prediction.
class Predictor {
 public:
  std::uint32_t& node_after_two(const Context& at) noexcept {
    return nodes_2_[slot(at.node, at.node_before * 4 + std::min(at.frees, 3u))];
  }
  std::uint32_t& node_after(const Context& at) noexcept { return nodes_1_[slot(at.node, 0)]; }
  std::uint64_t& size_after(const Context& at, std::uint32_t node) noexcept { return sizes_2_[slot(node, at.size)]; }
  std::uint64_t& size_of(std::uint32_t node) noexcept { return sizes_1_[slot(node, 0)]; }
  std::uint64_t& age(const Context& at) noexcept { return ages_[slot(at.node, at.frees)]; }

  /// Before the next chunk. Costs what the events since the last call have used, so that a chunk costs what it has.
  void clear() noexcept {
    nodes_2_.clear();
    nodes_1_.clear();
    sizes_2_.clear();
    sizes_1_.clear();
    ages_.clear();
  }

 private:
  static constexpr unsigned kBits = 16;
  static std::size_t slot(std::uint64_t a, std::uint64_t b) noexcept {
    return static_cast<std::size_t>((a * 0x9e3779b97f4a7c15u ^ b * 0xc2b2ae3d27d4eb4fu) * 0x165667b19e3779f9u >>
                                    (64 - kBits));
  }

  /// 2^kBits values, 0 at first. clear() writes only the parts that were used since the last one: all five tables
  /// together have 2 MB, and a chunk may have a single event, or none.
  template <typename T>
  class Table {
   public:
    T& operator[](std::size_t index) noexcept {
      used_[index >> kPartBits] = true;
      return values_[index];
    }
    void clear() noexcept {
      for (std::size_t part = 0; part < used_.size(); ++part) {
        if (!used_[part]) continue;
        used_[part] = false;
        std::fill_n(values_.get() + (part << kPartBits), std::size_t{1} << kPartBits, T{});
      }
    }

   private:
    static constexpr unsigned kPartBits = 8;
    struct Free {
      void operator()(void* memory) const noexcept { std::free(memory); }
    };
    // From calloc, whose zero pages need no write: a reader of few events touches few of them.
    static T* zeros() {
      T* const values = static_cast<T*>(std::calloc(std::size_t{1} << kBits, sizeof(T)));
      if (values == nullptr) throw std::bad_alloc();
      return values;
    }

    std::unique_ptr<T[], Free> values_{zeros()};
    std::array<bool, std::size_t{1} << (kBits - kPartBits)> used_{};
  };

  Table<std::uint32_t> nodes_2_;
  Table<std::uint32_t> nodes_1_;
  Table<std::uint64_t> sizes_2_;
  Table<std::uint64_t> sizes_1_;
  Table<std::uint64_t> ages_;
};

void note_allocation(Context& at, std::uint32_t node, std::uint64_t size) noexcept {
  at.node_before = std::exchange(at.node, node);
  at.size = size;
  at.frees = 0;
}

std::uint64_t difference(std::uint64_t a, std::uint64_t b) noexcept {
  return zigzag(static_cast<std::int64_t>(a - b));
}

}  // namespace

struct ChunkEncoder::Stream {
  Context context;
  std::uint64_t first_ordinal = 0;
  bool used = false;
  ByteWriter kinds, nodes, sizes, blocks, rare;
};

struct ChunkEncoder::State {
  Predictor predictor;
  std::vector<Stream> streams;
  ByteWriter time_runs, time_steps, switch_streams, switch_runs;
  std::uint64_t time_before = 0;  // of the event before the chunk, in quanta
  std::uint64_t time = 0;         // of the latest event, in quanta
  std::uint64_t time_run = 0;     // events since it changed
  std::uint32_t stream = 0;
  std::uint64_t stream_run = 0;
};

ChunkEncoder::ChunkEncoder(const ChunkFormat& format) : format_(format), state_(std::make_unique<State>()) {
  state_->streams.resize(format.streams);
}
ChunkEncoder::~ChunkEncoder() = default;

void ChunkEncoder::add(const MergedEvent& event, const EventText* text) {
  State& state = *state_;
  const std::uint64_t time = event.time / format_.quantum;
  if (events_ == 0) {
    state.time_before = state.time;
    state.stream = event.stream();
    first_time_ = event.time;
  }
  if (time > state.time) {
    state.time_runs.number(state.time_run);
    state.time_steps.number(time - state.time);
    state.time = time;
    state.time_run = 0;
  }
  ++state.time_run;
  if (event.stream() != state.stream) {
    state.switch_streams.number(state.stream);
    state.switch_runs.number(state.stream_run);
    state.stream = event.stream();
    state.stream_run = 0;
  }
  ++state.stream_run;
  ++events_;
  last_time_ = event.time;

  Stream& stream = state.streams[event.stream()];
  Context& at = stream.context;
  if (!stream.used) {
    stream.used = true;
    stream.first_ordinal = at.next_ordinal;
  }
  Predictor& predictor = state.predictor;
  const auto put_kind = [&](unsigned kind, unsigned above) {
    const std::uint8_t byte = static_cast<std::uint8_t>(kind | above);
    stream.kinds.raw({&byte, 1});
  };
  const auto put_address = [&] {
    const std::uint64_t rotated = std::rotr(event.address, 4);
    stream.blocks.number(difference(rotated, at.address));
    at.address = rotated;
  };

  const Op op = event.op();
  const bool own = format_.exact ? event.address != 0
                                 : event.address > block_number(event.stream(), 0) - 1 &&
                                       event.address <= block_number(event.stream(), at.next_ordinal) - 1;
  const bool next =
      format_.exact ? event.address != 0 : event.address == block_number(event.stream(), at.next_ordinal);
  const bool same = !format_.exact && op == Op::kReallocEnd && event.address != 0 && event.address == at.in_realloc;
  if (((op == Op::kAlloc || op == Op::kReallocEnd) && next) || same) {
    const std::uint32_t node = event.node;
    const std::uint64_t size = event.size();
    std::uint32_t& node_2 = predictor.node_after_two(at);
    std::uint32_t& node_1 = predictor.node_after(at);
    const Prediction node_prediction = node_2 == node ? kFirst : node_1 == node ? kSecond : kNone;
    if (node_prediction == kNone) stream.nodes.number(difference(node, at.node));
    node_2 = node_1 = node;
    std::uint64_t& size_2 = predictor.size_after(at, node);
    std::uint64_t& size_1 = predictor.size_of(node);
    const Prediction size_prediction = size_2 == size ? kFirst : size_1 == size ? kSecond : kNone;
    if (size_prediction == kNone) stream.sizes.number(size);
    size_2 = size_1 = size;
    put_kind(op == Op::kAlloc ? kAllocNext
             : same           ? kReallocEndSame
                              : kReallocEndNext,
             unsigned{node_prediction} << kNodeShift | unsigned{size_prediction} << kSizeShift);
    if (format_.exact) put_address();
    note_allocation(at, node, size);
    if (!same) ++at.next_ordinal;
    return;
  }
  if (op == Op::kReallocBegin) at.in_realloc = event.address;
  const bool frees_block = op == Op::kFree || op == Op::kFreeStack || op == Op::kReallocBegin;
  if (frees_block && own) {
    const Kind kind = op == Op::kFree ? kFreeOwn : op == Op::kFreeStack ? kFreeStackOwn : kReallocBeginOwn;
    Prediction prediction = kNone;
    if (format_.exact) {
      put_address();
    } else {
      const std::uint64_t ordinal = event.address - block_number(event.stream(), 0);
      const std::uint64_t age = at.next_ordinal - ordinal;
      std::uint64_t& age_before = predictor.age(at);
      prediction = age_before == age ? kFirst : ordinal == at.last_freed + 1 ? kSecond : age == 1 ? kThird : kNone;
      if (prediction == kNone) stream.blocks.number(difference(ordinal, at.last_freed + 1));
      age_before = age;
      at.last_freed = ordinal;
    }
    ++at.frees;
    if (kind == kFreeStackOwn) stream.nodes.number(difference(event.node, at.node));
    put_kind(kind, unsigned{prediction} << kBlockShift);
    return;
  }
  if (op == Op::kFree && event.address >> 40 != 0 && !format_.exact) {
    put_kind(kFreeOther, 0);
    stream.blocks.number((event.address >> 40) - 1);
    stream.blocks.number((event.address & ((std::uint64_t{1} << 40) - 1)) - 1);
    return;
  }
  put_kind(kRare, 0);
  ByteWriter& rare = stream.rare;
  rare.number(static_cast<std::uint64_t>(op));
  rare.number(event.flags());
  rare.number(event.size());
  rare.number(event.address);
  if (op != Op::kText) {
    rare.number(event.node);
    return;
  }
  rare.number(static_cast<std::uint64_t>(text->kind));
  rare.number(text->number);
  rare.number(text->address);
  rare.text(text->text);
}

std::vector<std::uint8_t> ChunkEncoder::take() {
  State& state = *state_;
  state.time_runs.number(state.time_run);
  state.switch_streams.number(state.stream);
  state.switch_runs.number(state.stream_run);

  ByteWriter out;
  out.number(events_);
  out.number(state.time_before);
  const auto used =
      std::count_if(state.streams.begin(), state.streams.end(), [](const Stream& one) { return one.used; });
  out.number(static_cast<std::uint64_t>(used));
  for (std::size_t index = 0; index < state.streams.size(); ++index) {
    const Stream& stream = state.streams[index];
    if (!stream.used) continue;
    out.number(index);
    out.number(stream.first_ordinal);
    for (const ByteWriter* column : {&stream.kinds, &stream.nodes, &stream.sizes, &stream.blocks, &stream.rare})
      out.number(column->size());
  }
  for (ByteWriter* column : {&state.time_runs, &state.time_steps, &state.switch_streams, &state.switch_runs}) {
    out.number(column->size());
    out.raw(column->bytes());
    column->clear();
  }
  // The same column of all streams is stored together, because zstd compresses that better.
  for (const auto column : {&Stream::kinds, &Stream::nodes, &Stream::sizes, &Stream::blocks, &Stream::rare})
    for (Stream& stream : state.streams) {
      if (!stream.used) continue;
      out.raw((stream.*column).bytes());
      (stream.*column).clear();
    }
  for (Stream& stream : state.streams) {
    stream.used = false;
    const std::uint64_t next_ordinal = stream.context.next_ordinal;
    stream.context = Context{};
    stream.context.next_ordinal = next_ordinal;
  }
  state.predictor.clear();
  state.time_run = state.stream_run = 0;
  events_ = 0;
  return {out.bytes().begin(), out.bytes().end()};
}

struct ChunkDecoder::Stream {
  std::uint32_t index = 0;
  Context context;
  ByteReader kinds{{}}, nodes{{}}, sizes{{}}, blocks{{}}, rare{{}};
};

struct ChunkDecoder::State {
  Predictor predictor;
  std::vector<Stream> streams;         // those with events in this chunk
  std::vector<std::uint32_t> slot_of;  // by stream index: index in `streams` plus 1; 0: not in this chunk
  ByteReader time_runs{{}}, time_steps{{}}, switch_streams{{}}, switch_runs{{}};
  std::uint64_t events_left = 0;
  std::uint64_t time = 0;
  std::uint64_t time_run = 0;
  std::uint32_t stream_index = 0;
  std::uint64_t stream_run = 0;
};

ChunkDecoder::ChunkDecoder(const ChunkFormat& format) : format_(format), state_(std::make_unique<State>()) {
  state_->slot_of.resize(format.streams, 0);
}

void ChunkDecoder::start(std::span<const std::uint8_t> contents) {
  State& state = *state_;
  state.predictor.clear();
  for (const Stream& stream : state.streams) state.slot_of[stream.index] = 0;
  state.streams.clear();
  state.events_left = 0;  // until the chunk is known to be valid
  state.stream_index = 0;
  state.stream_run = 0;
  ByteReader in(contents);
  const std::uint64_t events = in.number();
  state.time = in.number();
  const std::size_t count = static_cast<std::size_t>(in.number_up_to(format_.streams));
  std::vector<std::uint64_t> sizes;
  for (std::size_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint32_t>(in.number_up_to(format_.streams - 1));
    if (state.slot_of[index] != 0) throw FormatError("it has a stream twice");
    Stream& stream = state.streams.emplace_back();
    stream.index = index;
    state.slot_of[index] = static_cast<std::uint32_t>(state.streams.size());
    stream.context.next_ordinal = in.number_up_to((std::uint64_t{1} << 40) - 2);
    for (unsigned column = 0; column < kColumnsOfStream; ++column) sizes.push_back(in.number_up_to(contents.size()));
  }
  for (ByteReader* column : {&state.time_runs, &state.time_steps, &state.switch_streams, &state.switch_runs})
    *column = ByteReader(in.raw(in.count()));
  unsigned number = 0;
  for (const auto column : {&Stream::kinds, &Stream::nodes, &Stream::sizes, &Stream::blocks, &Stream::rare}) {
    for (std::size_t i = 0; i < count; ++i)
      state.streams[i].*column = ByteReader(in.raw(static_cast<std::size_t>(sizes[i * kColumnsOfStream + number])));
    ++number;
  }
  in.expect_end();
  state.time_run = state.time_runs.number();
  state.events_left = events;
}
ChunkDecoder::~ChunkDecoder() = default;

bool ChunkDecoder::at_end() const noexcept { return state_->events_left == 0; }

std::size_t ChunkDecoder::next(MergedEvent* out, std::size_t max_events, std::vector<EventText>& texts) {
  State& state = *state_;
  Predictor& predictor = state.predictor;
  std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(max_events, state.events_left));
  std::uint64_t text_bytes = 0;
  const auto valid_node = [&](std::uint64_t node) {
    if (node >= std::uint64_t{format_.nodes} + format_.nodes_left_out)
      throw FormatError("it has a stack that the trace does not define");
    return static_cast<std::uint32_t>(node);
  };
  // Predictions need the stacks that the encoder had, events only those that were kept.
  const auto kept_node = [&](std::uint32_t node) { return node < format_.nodes ? node : 0u; };
  for (std::size_t i = 0; i < count; ++i) {
    while (state.time_run == 0) {
      state.time += state.time_steps.number();
      state.time_run = state.time_runs.number();
    }
    --state.time_run;
    while (state.stream_run == 0) {
      state.stream_index = state.switch_streams.number32();
      state.stream_run = state.switch_runs.number();
      if (state.stream_index >= state.slot_of.size() || state.slot_of[state.stream_index] == 0)
        throw FormatError("it has an event of a stream that is not in the chunk");
    }
    --state.stream_run;
    Stream& stream = state.streams[state.slot_of[state.stream_index] - 1];
    Context& at = stream.context;
    MergedEvent& event = out[i];
    event.time = state.time * format_.quantum;
    event.node = 0;
    event.stream_and_flags = state.stream_index;
    const auto get_address = [&] {
      at.address += static_cast<std::uint64_t>(stream.blocks.signed_number());
      return std::rotl(at.address, 4);
    };

    const std::uint8_t kind_byte = stream.kinds.raw(1)[0];
    const auto kind = static_cast<Kind>(kind_byte & ((1u << kKindBits) - 1));
    switch (kind) {
      case kAllocNext:
      case kReallocEndNext:
      case kReallocEndSame: {
        std::uint32_t& node_2 = predictor.node_after_two(at);
        std::uint32_t& node_1 = predictor.node_after(at);
        const unsigned node_prediction = kind_byte >> kNodeShift & 3;
        const std::uint32_t node =
            node_prediction == kFirst ? node_2
            : node_prediction == kSecond
                ? node_1
                : valid_node(at.node + static_cast<std::uint64_t>(stream.nodes.signed_number()));
        node_2 = node_1 = node;
        std::uint64_t& size_2 = predictor.size_after(at, node);
        std::uint64_t& size_1 = predictor.size_of(node);
        const unsigned size_prediction = kind_byte >> kSizeShift & 3;
        const std::uint64_t size = size_prediction == kFirst    ? size_2
                                   : size_prediction == kSecond ? size_1
                                                                : stream.sizes.number();
        size_2 = size_1 = size;
        event.op_size = op_size(kind == kAllocNext ? Op::kAlloc : Op::kReallocEnd, size);
        event.node = kept_node(node);
        event.address = format_.exact             ? get_address()
                        : kind == kReallocEndSame ? at.in_realloc
                                                  : block_number(state.stream_index, at.next_ordinal);
        note_allocation(at, node, size);
        at.next_ordinal += kind != kReallocEndSame;
        break;
      }
      case kFreeOwn:
      case kFreeStackOwn:
      case kReallocBeginOwn: {
        event.op_size = op_size(kind == kFreeOwn        ? Op::kFree
                                : kind == kFreeStackOwn ? Op::kFreeStack
                                                        : Op::kReallocBegin,
                                0);
        if (format_.exact) {
          event.address = get_address();
        } else {
          std::uint64_t& age_before = predictor.age(at);
          const unsigned prediction = kind_byte >> kBlockShift & 3;
          std::uint64_t ordinal = at.last_freed + 1;
          if (prediction == kFirst) ordinal = at.next_ordinal - age_before;
          else if (prediction == kThird) ordinal = at.next_ordinal - 1;
          else if (prediction == kNone) ordinal += static_cast<std::uint64_t>(stream.blocks.signed_number());
          age_before = at.next_ordinal - ordinal;
          at.last_freed = ordinal;
          event.address = block_number(state.stream_index, ordinal);
        }
        if (kind == kReallocBeginOwn) at.in_realloc = event.address;
        ++at.frees;
        if (kind == kFreeStackOwn)
          event.node = kept_node(valid_node(at.node + static_cast<std::uint64_t>(stream.nodes.signed_number())));
        break;
      }
      case kFreeOther: {
        event.op_size = op_size(Op::kFree, 0);
        const auto owner = static_cast<std::uint32_t>(stream.blocks.number_up_to(format_.streams));
        event.address = block_number(owner, stream.blocks.number());
        break;
      }
      case kRare: {
        const auto op = static_cast<Op>(stream.rare.number_up_to(0xff));
        event.stream_and_flags |= static_cast<std::uint32_t>(stream.rare.number_up_to(15))
                                  << MergedEvent::kFlagsShift;
        event.op_size = op_size(op, stream.rare.number());
        event.address = stream.rare.number();
        if (op == Op::kReallocBegin) at.in_realloc = event.address;
        if (op != Op::kText) {
          event.node = kept_node(valid_node(stream.rare.number()));
          break;
        }
        EventText text;
        text.kind = static_cast<TextKind>(stream.rare.number32());
        text.number = stream.rare.number();
        text.address = stream.rare.number();
        text.text = stream.rare.text();
        if (text.text.size() > kMaxTextBytes) throw FormatError("it has a text that is too long");
        text_bytes += text.text.size();
        event.node = static_cast<std::uint32_t>(texts.size());
        texts.push_back(std::move(text));
        if (text_bytes >= kMaxBatchTextBytes) count = i + 1;
        break;
      }
      default: throw FormatError("it has an event of an unknown kind");
    }
  }
  state.events_left -= count;
  return count;
}

}  // namespace heapprof::trace
