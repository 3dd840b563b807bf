// Sends control requests to the recorder of a running program, through the mailbox in the trace's header
// (common/trace_format.h).
//
// The recorder checks the mailbox with each timeline sample: about every 10 ms while the program allocates or frees,
// and never while it does neither. A request stays pending until the recorder has read it; until then no other can be
// sent. Sending needs write permission for the file.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "analyzer/trace/files/input_file.h"
#include "analyzer/trace/recorder_process.h"
#include "common/trace_format.h"

namespace heapprof::trace {

class Mailbox {
 public:
  static constexpr std::size_t kMaxText = sizeof FileHeader::Mailbox::text;  ///< bytes

  /// Maps the header of `path` for reading and, if permitted, for writing. Throws TraceError.
  explicit Mailbox(const std::string& path);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// A copy of the header, made and verified by the constructor.
  const FileHeader& header() const noexcept { return header_; }
  const InputFile& input() const noexcept { return input_; }

  /// The recorder's state now.
  RecorderState recorder() const { return find_recorder(header_, input_); }
  /// Whether the recorder last reported that recording is paused.
  bool paused() const noexcept;
  /// Whether a request was sent that the recorder has not acknowledged.
  bool request_pending() const noexcept;
  EndKind end_kind() const noexcept;

  enum class Answer {
    kDone,      ///< the recorder has acknowledged the request
    kNotYet,    ///< it has not within `timeout`; the request stays pending
    kOccupied,  ///< an earlier request is still pending; this one was not sent
  };
  /// Sends a request and waits for the acknowledgement. `text` is truncated to kMaxText bytes. Throws TraceError when
  /// the file may not be written.
  Answer send(MailboxCommand command, std::string_view text, std::chrono::milliseconds timeout);

 private:
  InputFile input_;
  FileHeader header_{};
  FileHeader* mapped_ = nullptr;
  int descriptor_ = -1;
  int open_error_ = 0;  // errno of opening it for writing
};

/// The path of the trace that process `pid` is writing; empty when none is visible.
std::string trace_of_process(std::uint32_t pid);

}  // namespace heapprof::trace
