// Letters to a running program's recorder, through the mailbox in the trace's header (common/trace_format.h).
//
// The recorder looks at its mailbox with each timeline sample: about every 10 ms while the program allocates or
// frees, and not at all while it does neither. A letter that was not read yet stays until it is; nobody else can
// write meanwhile. Who may write the file may write letters, nobody else can.
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
  static constexpr std::size_t kMaxText = sizeof FileHeader::Mailbox::text;

  /// Opens the header of `path` for reading and, if permitted, writing. Throws TraceError.
  explicit Mailbox(const std::string& path);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// A copy of the header, checked when it was opened.
  const FileHeader& header() const noexcept { return header_; }
  const InputFile& input() const noexcept { return input_; }

  /// Is somebody there to read?
  Writer writer() const { return find_writer(header_, input_); }
  /// As the recorder last said.
  bool paused() const noexcept;
  /// A letter lies there that was not read.
  bool waiting() const noexcept;
  EndKind end_kind() const noexcept;

  enum class Answer {
    kDone,       ///< the recorder has acted
    kNotYet,     ///< it has not looked within `patience`; it will
    kOccupied,   ///< an earlier letter still lies there; nothing was written
  };
  /// Writes a letter and waits for the answer. `text`: at most kMaxText bytes. Throws TraceError when the file may
  /// not be written.
  Answer send(MailboxCommand command, std::string_view text, std::chrono::milliseconds patience);

 private:
  InputFile input_;
  FileHeader header_{};
  FileHeader* mapped_ = nullptr;
  int descriptor_ = -1;
  int open_error_ = 0;  ///< why it cannot be written
};

/// The trace that process `pid` is writing; empty when it writes none that can be seen.
std::string trace_of_process(std::uint32_t pid);

}  // namespace heapprof::trace
