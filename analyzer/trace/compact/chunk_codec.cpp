#include "analyzer/trace/compact/chunk_codec.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

#include "analyzer/trace/events/limits.h"

namespace heapprof::trace {
namespace {

enum What : std::uint8_t {
  kFreeOwn,
  kAllocNext,
  kReallocBeginOwn,
  kReallocEndNext,
  kFreeOther,
  kRare,
  kFreeStackOwn,
  kReallocEndSame,  // of the block that the stream's latest realloc began with
};
constexpr unsigned kWhatBits = 3;
// Above `what`: of what allocates, which guess of the node and which of the size was right; of what releases, which
// of the block.
constexpr unsigned kNodeShift = kWhatBits;
constexpr unsigned kSizeShift = kWhatBits + 2;
constexpr unsigned kBlockShift = kWhatBits;
enum Guess : std::uint8_t { kNone, kFirst, kSecond, kThird };

constexpr unsigned kColumnsOfStream = 5;

/// Where in its stream an event stands, as far as guesses look at it.
struct Context {
  std::uint32_t node = 0;         // of the latest allocation
  std::uint32_t node_before = 0;  // and of the one before
  std::uint32_t releases = 0;     // since the latest allocation
  std::uint64_t size = 0;         // of the latest allocation
  std::uint64_t next_ordinal = 0;
  std::uint64_t released = 0;     // ordinal of the latest block released
  std::uint64_t address = 0;      // the latest, rotated: exact traces
  std::uint64_t in_realloc = 0;   // block number of the latest realloc begin: other traces
};

/// What came last in which context. Collisions only make wrong guesses.
class Guesses {
 public:
  std::uint32_t& node_after_two(const Context& at) noexcept {
    return nodes_2_[slot(at.node, at.node_before * 4 + std::min(at.releases, 3u))];
  }
  std::uint32_t& node_after(const Context& at) noexcept { return nodes_1_[slot(at.node, 0)]; }
  std::uint64_t& size_after(const Context& at, std::uint32_t node) noexcept { return sizes_2_[slot(node, at.size)]; }
  std::uint64_t& size_of(std::uint32_t node) noexcept { return sizes_1_[slot(node, 0)]; }
  std::uint64_t& age(const Context& at) noexcept { return ages_[slot(at.node, at.releases)]; }

 private:
  static constexpr unsigned kBits = 16;
  static std::size_t slot(std::uint64_t a, std::uint64_t b) noexcept {
    return static_cast<std::size_t>((a * 0x9e3779b97f4a7c15u ^ b * 0xc2b2ae3d27d4eb4fu) * 0x165667b19e3779f9u >>
                                    (64 - kBits));
  }
  // Zeros from calloc are pages that nobody has touched: a file of many small chunks must not cost 2 MB of writing
  // for each.
  struct Free {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };
  template <typename T>
  using Table = std::unique_ptr<T[], Free>;
  template <typename T>
  static Table<T> zeros() {
    Table<T> table(static_cast<T*>(std::calloc(std::size_t{1} << kBits, sizeof(T))));
    if (table == nullptr) throw std::bad_alloc();
    return table;
  }
  Table<std::uint32_t> nodes_2_ = zeros<std::uint32_t>();
  Table<std::uint32_t> nodes_1_ = zeros<std::uint32_t>();
  Table<std::uint64_t> sizes_2_ = zeros<std::uint64_t>();
  Table<std::uint64_t> sizes_1_ = zeros<std::uint64_t>();
  Table<std::uint64_t> ages_ = zeros<std::uint64_t>();
};

void allocated(Context& at, std::uint32_t node, std::uint64_t size) noexcept {
  at.node_before = std::exchange(at.node, node);
  at.size = size;
  at.releases = 0;
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
  Guesses guesses;
  std::vector<Stream> streams;
  ByteWriter time_runs, time_steps, switch_streams, switch_runs;
  std::uint64_t time_before = 0;
  std::uint64_t time = 0;      // in quanta
  std::uint64_t time_run = 0;  // events that had it
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
  Guesses& guesses = state.guesses;
  const auto put_kind = [&](unsigned what, unsigned above) {
    const std::uint8_t byte = static_cast<std::uint8_t>(what | above);
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
    std::uint32_t& node_2 = guesses.node_after_two(at);
    std::uint32_t& node_1 = guesses.node_after(at);
    const Guess node_guess = node_2 == node ? kFirst : node_1 == node ? kSecond : kNone;
    if (node_guess == kNone) stream.nodes.number(difference(node, at.node));
    node_2 = node_1 = node;
    std::uint64_t& size_2 = guesses.size_after(at, node);
    std::uint64_t& size_1 = guesses.size_of(node);
    const Guess size_guess = size_2 == size ? kFirst : size_1 == size ? kSecond : kNone;
    if (size_guess == kNone) stream.sizes.number(size);
    size_2 = size_1 = size;
    put_kind(op == Op::kAlloc ? kAllocNext : same ? kReallocEndSame : kReallocEndNext,
             unsigned{node_guess} << kNodeShift | unsigned{size_guess} << kSizeShift);
    if (format_.exact) put_address();
    allocated(at, node, size);
    if (!same) ++at.next_ordinal;
    return;
  }
  if (op == Op::kReallocBegin) at.in_realloc = event.address;
  const bool releases = op == Op::kFree || op == Op::kFreeStack || op == Op::kReallocBegin;
  if (releases && own) {
    const What what = op == Op::kFree ? kFreeOwn : op == Op::kFreeStack ? kFreeStackOwn : kReallocBeginOwn;
    Guess guess = kNone;
    if (format_.exact) {
      put_address();
    } else {
      const std::uint64_t ordinal = event.address - block_number(event.stream(), 0);
      const std::uint64_t age = at.next_ordinal - ordinal;
      std::uint64_t& age_before = guesses.age(at);
      guess = age_before == age ? kFirst : ordinal == at.released + 1 ? kSecond : age == 1 ? kThird : kNone;
      if (guess == kNone) stream.blocks.number(difference(ordinal, at.released + 1));
      age_before = age;
      at.released = ordinal;
    }
    ++at.releases;
    if (what == kFreeStackOwn) stream.nodes.number(difference(event.node, at.node));
    put_kind(what, unsigned{guess} << kBlockShift);
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
  for (std::size_t position = 0; position < state.streams.size(); ++position) {
    const Stream& stream = state.streams[position];
    if (!stream.used) continue;
    out.number(position);
    out.number(stream.first_ordinal);
    for (const ByteWriter* column : {&stream.kinds, &stream.nodes, &stream.sizes, &stream.blocks, &stream.rare})
      out.number(column->size());
  }
  for (ByteWriter* column : {&state.time_runs, &state.time_steps, &state.switch_streams, &state.switch_runs}) {
    out.number(column->size());
    out.raw(column->bytes());
    column->clear();
  }
  // Equal columns of all streams stand together.
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
  state.guesses = Guesses{};
  state.time_run = state.stream_run = 0;
  events_ = 0;
  return {out.bytes().begin(), out.bytes().end()};
}

struct ChunkDecoder::Stream {
  Context context;
  ByteReader kinds{{}}, nodes{{}}, sizes{{}}, blocks{{}}, rare{{}};
};

struct ChunkDecoder::State {
  Guesses guesses;
  std::vector<Stream> streams;                // those of this chunk
  std::vector<std::uint32_t> place;           // by position: in `streams`, from 1; 0: not in this chunk
  ByteReader time_runs{{}}, time_steps{{}}, switch_streams{{}}, switch_runs{{}};
  std::uint64_t events_left = 0;
  std::uint64_t time = 0;
  std::uint64_t time_run = 0;
  std::uint32_t position = 0;
  std::uint64_t stream_run = 0;
};

ChunkDecoder::ChunkDecoder(const ChunkFormat& format, std::span<const std::uint8_t> contents)
    : format_(format), state_(std::make_unique<State>()) {
  State& state = *state_;
  ByteReader in(contents);
  state.events_left = in.number();
  state.time = in.number();
  const std::size_t count = static_cast<std::size_t>(in.number_up_to(format.streams));
  state.place.resize(format.streams, 0);
  std::vector<std::uint64_t> sizes(count * kColumnsOfStream);
  for (std::size_t i = 0; i < count; ++i) {
    const auto position = static_cast<std::uint32_t>(in.number_up_to(format.streams - 1));
    if (state.place[position] != 0) throw FormatError("a stream stands in it twice");
    Stream& stream = state.streams.emplace_back();
    state.place[position] = static_cast<std::uint32_t>(state.streams.size());
    stream.context.next_ordinal = in.number_up_to((std::uint64_t{1} << 40) - 2);
    for (unsigned column = 0; column < kColumnsOfStream; ++column)
      sizes[i * kColumnsOfStream + column] = in.number_up_to(contents.size());
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
}
ChunkDecoder::~ChunkDecoder() = default;

bool ChunkDecoder::at_end() const noexcept { return state_->events_left == 0; }

std::size_t ChunkDecoder::next(MergedEvent* out, std::size_t most, std::vector<EventText>& texts) {
  State& state = *state_;
  Guesses& guesses = state.guesses;
  std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(most, state.events_left));
  std::uint64_t text_bytes = 0;
  const auto sound_node = [&](std::uint64_t node) {
    if (node >= format_.nodes) throw FormatError("a stack is not one of the trace");
    return static_cast<std::uint32_t>(node);
  };
  for (std::size_t i = 0; i < count; ++i) {
    while (state.time_run == 0) {
      state.time += state.time_steps.number();
      state.time_run = state.time_runs.number();
    }
    --state.time_run;
    while (state.stream_run == 0) {
      state.position = state.switch_streams.number32();
      state.stream_run = state.switch_runs.number();
      if (state.position >= state.place.size() || state.place[state.position] == 0)
        throw FormatError("a stream is not one of the chunk");
    }
    --state.stream_run;
    Stream& stream = state.streams[state.place[state.position] - 1];
    Context& at = stream.context;
    MergedEvent& event = out[i];
    event.time = state.time * format_.quantum;
    event.node = 0;
    event.stream_and_flags = state.position;
    const auto get_address = [&] {
      at.address += static_cast<std::uint64_t>(stream.blocks.signed_number());
      return std::rotl(at.address, 4);
    };

    const std::uint8_t kind = stream.kinds.raw(1)[0];
    const auto what = static_cast<What>(kind & ((1u << kWhatBits) - 1));
    switch (what) {
      case kAllocNext:
      case kReallocEndNext:
      case kReallocEndSame: {
        std::uint32_t& node_2 = guesses.node_after_two(at);
        std::uint32_t& node_1 = guesses.node_after(at);
        const unsigned node_guess = kind >> kNodeShift & 3;
        const std::uint32_t node =
            node_guess == kFirst    ? node_2
            : node_guess == kSecond ? node_1
                                    : sound_node(at.node + static_cast<std::uint64_t>(stream.nodes.signed_number()));
        node_2 = node_1 = node;
        std::uint64_t& size_2 = guesses.size_after(at, node);
        std::uint64_t& size_1 = guesses.size_of(node);
        const unsigned size_guess = kind >> kSizeShift & 3;
        const std::uint64_t size = size_guess == kFirst    ? size_2
                                   : size_guess == kSecond ? size_1
                                                           : stream.sizes.number();
        size_2 = size_1 = size;
        event.op_size = op_size(what == kAllocNext ? Op::kAlloc : Op::kReallocEnd, size);
        event.node = node;
        event.address = format_.exact              ? get_address()
                        : what == kReallocEndSame ? at.in_realloc
                                                  : block_number(state.position, at.next_ordinal);
        allocated(at, node, size);
        at.next_ordinal += what != kReallocEndSame;
        break;
      }
      case kFreeOwn:
      case kFreeStackOwn:
      case kReallocBeginOwn: {
        event.op_size = op_size(what == kFreeOwn        ? Op::kFree
                                : what == kFreeStackOwn ? Op::kFreeStack
                                                        : Op::kReallocBegin,
                                0);
        if (format_.exact) {
          event.address = get_address();
        } else {
          std::uint64_t& age_before = guesses.age(at);
          const unsigned guess = kind >> kBlockShift & 3;
          std::uint64_t ordinal = at.released + 1;
          if (guess == kFirst) ordinal = at.next_ordinal - age_before;
          else if (guess == kThird) ordinal = at.next_ordinal - 1;
          else if (guess == kNone) ordinal += static_cast<std::uint64_t>(stream.blocks.signed_number());
          age_before = at.next_ordinal - ordinal;
          at.released = ordinal;
          event.address = block_number(state.position, ordinal);
        }
        if (what == kReallocBeginOwn) at.in_realloc = event.address;
        ++at.releases;
        if (what == kFreeStackOwn)
          event.node = sound_node(at.node + static_cast<std::uint64_t>(stream.nodes.signed_number()));
        break;
      }
      case kFreeOther: {
        event.op_size = op_size(Op::kFree, 0);
        const auto position = static_cast<std::uint32_t>(stream.blocks.number_up_to(format_.streams));
        event.address = block_number(position, stream.blocks.number());
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
          event.node = sound_node(stream.rare.number());
          break;
        }
        EventText text;
        text.kind = static_cast<TextKind>(stream.rare.number32());
        text.number = stream.rare.number();
        text.address = stream.rare.number();
        text.text = stream.rare.text();
        if (text.text.size() > kMaxTextBytes) throw FormatError("a text is longer than a recorder writes");
        text_bytes += text.text.size();
        event.node = static_cast<std::uint32_t>(texts.size());
        texts.push_back(std::move(text));
        if (text_bytes >= kMaxBatchTextBytes) count = i + 1;
        break;
      }
      default: throw FormatError("a kind of event is unknown");
    }
  }
  state.events_left -= count;
  return count;
}

}  // namespace heapprof::trace
