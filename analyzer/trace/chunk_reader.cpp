#include "analyzer/trace/chunk_reader.h"

#include "analyzer/trace/compact/section.h"
#include "analyzer/trace/events/limits.h"

namespace heapprof::trace {

ChunkReader::ChunkReader(const TraceFile& file, ReadState& shared)
    : file_(file), shared_(shared), is_active_(file.streams().size(), false) {}

void ChunkReader::resume(ByteReader& in) {
  next_ = in.number_up_to(file_.compacted()->sections.chunks.size());
  for (std::uint32_t stream = 0; stream < is_active_.size(); ++stream) mark_active(stream);
}

void ChunkReader::mark_active(std::uint32_t stream) {
  if (is_active_[stream]) return;
  is_active_[stream] = true;
  active_.push_back(stream);
}

/// Reads and decompresses the next chunk. False: there is none.
bool ChunkReader::load_chunk() {
  const Compacted& compacted = *file_.compacted();
  in_chunk_ = false;
  if (next_ == compacted.sections.chunks.size()) return false;
  const Section& section = compacted.sections.chunks[next_++];
  shared_.frame_bytes_read += section.header.payload_bytes;
  events_left_ = section.header.events;
  try {
    if (decoder_ == nullptr) {
      const ChunkFormat format{static_cast<std::uint32_t>(file_.streams().size()),
                               compacted.summary->definitions.node_count, compacted.quantum, compacted.exact,
                               compacted.summary->nodes_left_out};
      decoder_ = std::make_unique<ChunkDecoder>(format);
    }
    contents_ = read_contents(file_.input(), section);
    decoder_->start(contents_);
    in_chunk_ = true;
  } catch (const FormatError& error) {
    abandon_chunk(error.what());
  }
  return true;
}

/// The rest of the current chunk is lost, and every active stream may have lost events.
void ChunkReader::abandon_chunk(const std::string& why) {
  const Section& section = file_.compacted()->sections.chunks[next_ - 1];
  shared_.damage.damaged(section.offset, next_section(section) - section.offset, "a chunk: " + why);
  shared_.damage.lost_events(events_left_);
  in_chunk_ = false;
  gaps_due_.swap(active_);
  for (const std::uint32_t stream : gaps_due_) is_active_[stream] = false;
}

bool ChunkReader::read(Batch& batch, std::uint64_t min_events) {
  MergedEvent* const events = batch.storage.data();
  std::size_t count = 0;
  bool at_chunk_end = false;
  std::uint64_t text_bytes = 0;  // of the texts before `summed`: many chunks without an event can follow each other
  std::size_t summed = 0;
  const auto batch_text_bytes = [&] {
    for (; summed < batch.texts.size(); ++summed) text_bytes += batch.texts[summed].text.size();
    return text_bytes;
  };
  while (count < Batch::kEvents && batch_text_bytes() < kMaxBatchTextBytes) {
    if (!gaps_due_.empty()) {
      events[count++] = {shared_.last_time, 0, static_cast<std::uint64_t>(kGap), 0, gaps_due_.back()};
      gaps_due_.pop_back();
      continue;
    }
    if (!in_chunk_) {
      if (!load_chunk()) break;
      continue;
    }
    try {
      const std::size_t got = decoder_->next(events + count, Batch::kEvents - count, batch.texts);
      std::uint32_t stream = MergedEvent::kStreamMask;
      for (std::size_t i = count; i < count + got; ++i) {
        const MergedEvent& event = events[i];
        events_left_ -= is_event({event.time, event.address, event.op_size, 0, 0}) && events_left_ != 0;
        if (event.stream() != stream) mark_active(stream = event.stream());
      }
      count += got;
      if (got != 0) shared_.last_time = events[count - 1].time;
      if (!decoder_->at_end()) continue;
      // Checked before the batch is full, because a chunk may end with its batch.
      in_chunk_ = false;
      at_chunk_end = count != 0 && count >= min_events;
      if (at_chunk_end) break;
    } catch (const FormatError& error) {
      abandon_chunk(error.what());
    }
  }
  batch.count = count;
  return at_chunk_end;
}

}  // namespace heapprof::trace
