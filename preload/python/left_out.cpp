#include "preload/python/left_out.h"

#include "common/note_kind.h"
#include "preload/base/text.h"
#include "preload/sys/kernel.h"

namespace heapprof::python {

namespace {

constinit std::uint64_t g_counts[kLeftOutReasons] = {};

/// As the end of a sentence.
constexpr const char* kReasons[kLeftOutReasons] = {
    "in signal handlers that interrupted Python",
    "where the interpreter's data are not as its version has them",
    "in recursions of more than 262,144 Python frames",
    "for which there was no memory",
    "of which some were not found among the C frames",
    "while a filter (seccomp) forbids to test whether memory is readable",
    "while another thread ended the interpreter",
    "of a sub-interpreter that another thread has created",
};

void write_note(recorder::Stream& stream, const Text& text) noexcept {
  stream.append_text(TextKind::kNote, static_cast<std::uint64_t>(NoteKind::kInformation), 0, text.c_str(),
                     text.length());
}

}  // namespace

LeftOut unreadable_reason() noexcept { return sys::forbidden() ? LeftOut::kNotProbed : LeftOut::kUnreadable; }

void leave_out(LeftOut reason, recorder::Stream& stream) noexcept {
  const auto index = static_cast<unsigned>(reason);
  if (__atomic_fetch_add(&g_counts[index], 1, __ATOMIC_RELAXED) != 0) return;
  char message[160];
  Text note(message);
  write_note(stream, note.add("Python frames are left out of stacks ").add(kReasons[index]));
}

void write_left_out(recorder::Stream& stream) noexcept {
  for (unsigned index = 0; index != kLeftOutReasons; ++index) {
    const std::uint64_t count = __atomic_load_n(&g_counts[index], __ATOMIC_RELAXED);
    if (count == 0) continue;
    char message[160];
    Text note(message);
    note.add("stacks without their Python frames: ").number(count).add(' ').add(kReasons[index]);
    write_note(stream, note);
  }
}

void forget_left_out() noexcept {
  for (std::uint64_t& count : g_counts) count = 0;
}

}  // namespace heapprof::python
