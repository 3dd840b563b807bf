// Chunks of compacted traces: decoding returns the encoded events, and malformed chunks are refused without a read
// out of bounds.
#include "analyzer/trace/compact/chunk_codec.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/seed.h"

using namespace heapprof;
using namespace heapprof::trace;

namespace {

constexpr std::uint64_t kQuantum = 1'000;

struct Recorded {
  std::vector<MergedEvent> events;
  std::vector<EventText> texts;  // kText events point here
};

std::uint32_t with_flags(std::uint32_t stream, std::uint32_t flags) {
  return stream | flags << MergedEvent::kFlagsShift;
}

/// Events of every kind, in an order in which each prediction is right and wrong many times.
Recorded random_events(const ChunkFormat& format, std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(heapprof::test::seed(seed));
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint64_t>(random() % n); };
  struct Block {
    std::uint32_t stream;
    std::uint64_t address;
  };
  Recorded recorded;
  std::vector<std::uint64_t> ordinals(format.streams, 0);
  std::vector<Block> live;
  std::uint64_t time = 0;
  std::uint32_t stream = 0;
  const auto new_address = [&](std::uint32_t of) {
    if (format.exact) return 0x10000 + 16 * below(1 << 20) + (below(50) == 0 ? below(16) : 0);
    return block_number(of, ordinals[of]++);
  };
  const auto add = [&](Op op, std::uint64_t address, std::uint64_t size, std::uint32_t node,
                       std::uint32_t flags = 0) {
    recorded.events.push_back({time, address, op_size(op, size), node, with_flags(stream, flags)});
  };
  const auto take_block = [&](bool of_this_stream) {
    const auto fits = [&](const Block& block) { return (block.stream == stream) == of_this_stream; };
    // Mostly the newest block, so that ages repeat.
    for (auto at = live.rbegin(); at != live.rend(); ++at) {
      if (!fits(*at) || below(4) == 0) continue;
      const Block block = *at;
      live.erase(std::next(at).base());
      return block;
    }
    return Block{stream, 0};
  };
  while (recorded.events.size() < count) {
    if (below(3) == 0) time += below(20) == 0 ? below(1u << 30) : below(3 * kQuantum);
    if (below(8) == 0) stream = static_cast<std::uint32_t>(below(format.streams));
    const auto node = static_cast<std::uint32_t>(below(8) == 0 ? below(format.nodes) : below(3));
    const std::uint64_t size = below(30) == 0 ? kMaxSize - below(2) : 16 * below(5);
    switch (below(14)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const std::uint64_t address = new_address(stream);
        add(Op::kAlloc, address, size, node);
        live.push_back({stream, address});
        break;
      }
      case 4:
      case 5:
      case 6:
        if (const Block block = take_block(true); block.address != 0) add(Op::kFree, block.address, 0, 0);
        break;
      case 7:
        if (const Block block = take_block(false); block.address != 0) add(Op::kFree, block.address, 0, 0);
        break;
      case 8:
        if (const Block block = take_block(true); block.address != 0) add(Op::kFreeStack, block.address, 0, node);
        break;
      case 9: {
        const Block block = take_block(below(3) != 0);
        if (block.address == 0) break;
        add(Op::kReallocBegin, block.address, 0, 0);
        const std::uint64_t end = below(4);
        if (end == 0) {
          add(Op::kReallocFailed, 0, size, node);
          live.push_back(block);
        } else if (end == 1) {
          add(Op::kReallocEnd, 0, 0, node);
        } else {
          const std::uint64_t address = end == 2 ? block.address : new_address(stream);
          add(Op::kReallocEnd, address, size, node);
          live.push_back({end == 2 ? block.stream : stream, address});
        }
        break;
      }
      case 10: add(Op::kFree, 0, 0, 0); break;  // of an unknown block
      case 11:
        add(Op::kMap, below(2) * 0x7f0000000000, 4096 * size, node, static_cast<std::uint32_t>(below(8)));
        break;
      case 12: {
        constexpr Op kOthers[] = {Op::kAllocFailed, Op::kUnmapBegin, Op::kUnmapEnd,    Op::kUnmapFailed,
                                  Op::kRemapBegin,  Op::kRemapEnd,   Op::kRemapFailed, Op::kBrk,
                                  Op::kSample,      Op::kPause,      Op::kResume,      kGap};
        add(kOthers[below(std::size(kOthers))], below(2) * random(), below(kMaxSize), node);
        break;
      }
      default:
        add(Op::kText, 0, 0, static_cast<std::uint32_t>(recorded.texts.size()));
        recorded.texts.push_back({static_cast<TextKind>(below(10)), random(), random(),
                                  std::string(below(3) * below(100), static_cast<char>(below(256)))});
    }
  }
  return recorded;
}

/// Encodes events [begin, end) as the next chunk.
std::vector<std::uint8_t> encode(ChunkEncoder& encoder, const Recorded& recorded, std::size_t begin,
                                 std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const MergedEvent& event = recorded.events[i];
    encoder.add(event, event.op() == Op::kText ? &recorded.texts[event.node] : nullptr);
  }
  return encoder.take();
}

/// Decodes `chunk`, `max_events` events at a time. The bytes are at the end of a separate allocation, so that a
/// sanitizer detects a read after them.
Recorded decode(ChunkDecoder& decoder, const std::vector<std::uint8_t>& chunk, std::size_t max_events) {
  const std::unique_ptr<std::uint8_t[]> exact(new std::uint8_t[chunk.size()]);
  std::copy(chunk.begin(), chunk.end(), exact.get());
  decoder.start({exact.get(), chunk.size()});
  Recorded recorded;
  while (!decoder.at_end()) {
    std::vector<MergedEvent> events(max_events);
    const std::size_t got = decoder.next(events.data(), max_events, recorded.texts);
    if (got == 0) FAIL("no events, but not the end");
    recorded.events.insert(recorded.events.end(), events.begin(), events.begin() + static_cast<std::ptrdiff_t>(got));
  }
  return recorded;
}

/// The same with a decoder that has decoded nothing else.
Recorded decode(const ChunkFormat& format, const std::vector<std::uint8_t>& chunk, std::size_t max_events) {
  ChunkDecoder decoder(format);
  return decode(decoder, chunk, max_events);
}

bool is_refused(const ChunkFormat& format, const std::vector<std::uint8_t>& chunk) {
  try {
    decode(format, chunk, 64);
  } catch (const FormatError&) {
    return true;
  }
  return false;
}

bool same_text(const EventText& a, const EventText& b) {
  return a.kind == b.kind && a.number == b.number && a.address == b.address && a.text == b.text;
}

/// A chunk without events; `positions`: the indices of its streams.
std::vector<std::uint8_t> chunk_of_streams(const std::vector<std::uint64_t>& positions,
                                           std::uint64_t first_ordinal = 0) {
  ByteWriter out;
  out.number(0);  // events
  out.number(0);  // time before
  out.number(positions.size());
  for (const std::uint64_t position : positions) {
    out.number(position);
    out.number(first_ordinal);
    for (int column = 0; column < 5; ++column) out.number(0);
  }
  out.number(1);  // time runs: one run without an event
  out.number(0);
  for (int column = 1; column < 4; ++column) out.number(0);
  return {out.bytes().begin(), out.bytes().end()};
}

}  // namespace

TEST_CASE("Decoding returns every kind of event, in pieces of any length") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(1, 9)));
  ChunkFormat format;
  format.exact = seed % 2 == 0;
  format.quantum = format.exact ? 1 : kQuantum;
  format.streams = seed % 3 == 0 ? 1 : 7;
  format.nodes = seed % 4 == 0 ? 4 : 100'000;
  const Recorded recorded = random_events(format, seed, 6'000);
  std::set<Op> ops;
  ChunkEncoder encoder(format);
  for (std::size_t begin = 0; begin < recorded.events.size();) {
    const std::size_t end = std::min(recorded.events.size(), begin + 1 + seed * 577);
    const Recorded decoded = decode(format, encode(encoder, recorded, begin, end), begin % 2 == 0 ? 4096 : 7);
    CHECK(encoder.events() == 0);
    REQUIRE(decoded.events.size() == end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      const MergedEvent& was = recorded.events[i];
      const MergedEvent& is = decoded.events[i - begin];
      const bool is_same = is.time == was.time / format.quantum * format.quantum && is.op_size == was.op_size &&
                           is.address == was.address && is.stream_and_flags == was.stream_and_flags &&
                           (was.op() == Op::kText ? same_text(decoded.texts.at(is.node), recorded.texts[was.node])
                                                  : is.node == was.node);
      if (!is_same) FAIL("seed " << seed << ", event " << i << " of op " << static_cast<int>(was.op()));
      ops.insert(was.op());
    }
    begin = end;
  }
  CHECK(ops.size() == 20);
}

TEST_CASE("A decoder decodes each chunk as one that has decoded nothing else") {
  for (const bool exact : {false, true}) {
    const ChunkFormat format{7, 300, exact ? 1 : kQuantum, exact};
    const Recorded recorded = random_events(format, 14, 5'000);
    ChunkEncoder encoder(format);
    ChunkDecoder shared(format);
    constexpr std::size_t kEvents[] = {3'000, 1, 999, 1'000};  // of each chunk
    std::size_t begin = 0;
    for (const std::size_t count : kEvents) {
      const std::vector<std::uint8_t> chunk = encode(encoder, recorded, begin, begin + count);
      begin += count;
      // One that is refused after its streams were read, and one of which only a part is decoded.
      CHECK_THROWS_AS(decode(shared, {chunk.begin(), chunk.end() - 1}, 64), FormatError);
      CHECK(shared.at_end());
      std::vector<MergedEvent> some(1);
      std::vector<EventText> texts;
      shared.start(chunk);
      CHECK(shared.next(some.data(), 1, texts) == 1);
      const Recorded alone = decode(format, chunk, 64);
      const Recorded after_others = decode(shared, chunk, 64);
      REQUIRE(alone.events.size() == count);
      REQUIRE(after_others.events.size() == count);
      for (std::size_t i = 0; i < count; ++i) {
        const MergedEvent& a = alone.events[i];
        const MergedEvent& b = after_others.events[i];
        if (a.time != b.time || a.address != b.address || a.op_size != b.op_size || a.node != b.node ||
            a.stream_and_flags != b.stream_and_flags)
          FAIL("exact " << exact << ", chunk of " << count << ", event " << i);
      }
      REQUIRE(alone.texts.size() == after_others.texts.size());
      CHECK(std::equal(alone.texts.begin(), alone.texts.end(), after_others.texts.begin(), same_text));
    }
  }
}

// A file may claim a stream for each of its bytes, and have a chunk for every hundred of them. If each chunk cost a
// write for each stream, these would write 6 TB, which takes many times as long as a test may take.
TEST_CASE("A chunk costs what it has, not what the trace has") {
  ChunkDecoder decoder({1u << 24, 1, 1, false});
  const std::vector<std::uint8_t> chunk = chunk_of_streams({(1u << 24) - 1});
  std::size_t empty = 0;
  for (int i = 0; i < 100'000; ++i) {
    decoder.start(chunk);
    empty += decoder.at_end();
  }
  CHECK(empty == 100'000);
}

TEST_CASE("A repeated pattern takes one byte for each event") {
  const ChunkFormat format{1, 10, 1, false};
  ChunkEncoder encoder(format);
  constexpr std::uint64_t kPairs = 10'000;
  for (std::uint64_t i = 0; i < kPairs; ++i) {
    encoder.add({0, block_number(0, i), op_size(Op::kAlloc, 100), 3, 0}, nullptr);
    encoder.add({0, block_number(0, i), op_size(Op::kFree, 0), 0, 0}, nullptr);
  }
  CHECK(encoder.take().size() < 2 * kPairs + 100);
}

TEST_CASE("A chunk that is truncated anywhere, or has a byte too many, is refused") {
  for (const bool exact : {false, true}) {
    const ChunkFormat format{3, 50, exact ? 1 : kQuantum, exact};
    ChunkEncoder encoder(format);
    const std::vector<std::uint8_t> chunk = encode(encoder, random_events(format, 11, 400), 0, 400);
    REQUIRE_FALSE(is_refused(format, chunk));
    for (std::size_t size = 0; size < chunk.size(); ++size) {
      CAPTURE(exact, size);
      REQUIRE(is_refused(format, {chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(size)}));
    }
    std::vector<std::uint8_t> longer = chunk;
    longer.push_back(0);
    CHECK(is_refused(format, longer));
  }
}

TEST_CASE("A chunk with a changed byte is refused, or its events have valid streams and stacks") {
  for (const bool exact : {false, true}) {
    const ChunkFormat format{3, 50, exact ? 1 : kQuantum, exact};
    ChunkEncoder encoder(format);
    const std::vector<std::uint8_t> chunk = encode(encoder, random_events(format, 12, 300), 0, 300);
    std::size_t refused = 0;
    for (std::size_t at = 0; at < chunk.size(); ++at)
      for (const std::uint8_t bits : {0x01, 0x80, 0xff}) {
        std::vector<std::uint8_t> changed = chunk;
        changed[at] = static_cast<std::uint8_t>(changed[at] ^ bits);
        try {
          const Recorded decoded = decode(format, changed, 64);
          REQUIRE(std::all_of(decoded.events.begin(), decoded.events.end(), [&](const MergedEvent& event) {
            return event.stream() < format.streams && (event.op() == Op::kText || event.node < format.nodes);
          }));
        } catch (const FormatError&) {
          ++refused;
        }
      }
    // How many are refused depends on the events: a changed address or text is as valid as the recorded one.
    CHECK(refused > chunk.size() / 4);
  }
}

TEST_CASE("Chunks with streams or stacks that the trace does not have are refused") {
  const ChunkFormat format{4, 50, 1, true};
  ChunkEncoder encoder(format);
  const std::vector<std::uint8_t> chunk = encode(encoder, random_events(format, 13, 1'000), 0, 1'000);
  CHECK_FALSE(is_refused(format, chunk));
  CHECK(is_refused({3, 50, 1, true}, chunk));
  CHECK(is_refused({0, 50, 1, true}, chunk));
  CHECK(is_refused({4, 10, 1, true}, chunk));
}

TEST_CASE("Events of nodes that are left out have no stack, all others are decoded as before") {
  for (const bool exact : {false, true}) {
    constexpr std::uint32_t kAll = 50, kKept = 20;
    const ChunkFormat format{4, kAll, exact ? 1 : kQuantum, exact};
    ChunkEncoder encoder(format);
    const std::vector<std::uint8_t> chunk = encode(encoder, random_events(format, 14, 4'000), 0, 4'000);
    const Recorded all = decode(format, chunk, 64);
    const Recorded kept = decode({4, kKept, format.quantum, exact, kAll - kKept}, chunk, 64);
    REQUIRE(kept.events.size() == all.events.size());
    std::size_t left_out = 0;
    for (std::size_t i = 0; i < all.events.size(); ++i) {
      const MergedEvent& was = all.events[i];
      const MergedEvent& is = kept.events[i];
      const bool is_left_out = was.op() != Op::kText && was.node >= kKept;
      left_out += is_left_out;
      if (is.node != (is_left_out ? 0 : was.node) || is.time != was.time || is.op_size != was.op_size ||
          is.address != was.address)
        FAIL("exact " << exact << ", event " << i);
    }
    CHECK(left_out > 50);
    CHECK(is_refused({4, kKept, format.quantum, exact, kAll - kKept - 10}, chunk));
  }
}

TEST_CASE("A chunk that has a stream twice or an ordinal out of range is refused") {
  const ChunkFormat format{3, 1, 1, false};
  CHECK_FALSE(is_refused(format, chunk_of_streams({})));
  CHECK_FALSE(is_refused(format, chunk_of_streams({0, 2})));
  CHECK_FALSE(is_refused(format, chunk_of_streams({2, 1, 0})));
  CHECK(is_refused(format, chunk_of_streams({1, 1})));
  CHECK(is_refused(format, chunk_of_streams({0, 1, 2, 0})));
  CHECK(is_refused(format, chunk_of_streams({3})));
  CHECK(is_refused(format, chunk_of_streams(std::vector<std::uint64_t>(1'000, 2))));
  constexpr std::uint64_t kLastOrdinal = (std::uint64_t{1} << 40) - 2;
  CHECK_FALSE(is_refused(format, chunk_of_streams({1}, kLastOrdinal)));
  CHECK(is_refused(format, chunk_of_streams({1}, kLastOrdinal + 1)));
}
