#include "preload/python/checks.h"

#ifdef HEAPPROF_CHECK_STACKS

#include "preload/python/code_objects.h"
#include "preload/python/number_table.h"
#include "preload/sys/difference.h"

namespace heapprof::python {

namespace {

/// The hash of the content, by the number of the code object.
constinit NumberTable g_contents;

bool same_element(const PythonFrame& remembered, const PythonFrame& found) noexcept {
  return remembered.address == found.address && remembered.offset == found.offset && remembered.hash == found.hash;
}

void check_content(const CodeReader& reader, const PythonFrame& frame) noexcept {
  const std::uint32_t hash = code_content_hash(reader, frame.code);
  if (hash == 0) return;  // it is being freed
  constexpr std::uint32_t kNoCheck = 0;
  const std::uint32_t known = g_contents.find(frame.number, kNoCheck);
  if (known == 0) {
    g_contents.store(frame.number, kNoCheck, hash);
  } else if (known != hash) {
    sys::report_difference("a number stands for two code objects of Python");
  }
}

}  // namespace

void check_frames(const ThreadFrames& frames, const Interpreter& python, std::uint64_t thread_state,
                  bool frees_noticed, ReadablePages& pages, recorder::Stream& stream) noexcept {
  static thread_local ThreadFrames in_full [[gnu::tls_model("initial-exec")]];
  in_full.forget_as(frames);
  const bool read =
      in_full.update(python, thread_state, frees_noticed, pages, stream) == ThreadFrames::Result::kFrames;
  bool same = read && in_full.count() == frames.count();
  for (std::uint32_t i = 0; same && i != frames.count(); ++i)
    same = same_element(frames.frames()[i], in_full.frames()[i]);
  if (!same) sys::report_difference("remembered Python frames differ from those of the interpreter");
  for (std::uint32_t i = 0; i != frames.count(); ++i)
    if (const PythonFrame& frame = frames.frames()[i]; frame.number != 0 && !frame.boundary())
      check_content({python, pages}, frame);
}

void check_place(NodeId with_remembered, NodeId in_full, bool same_result) noexcept {
  if (with_remembered == in_full && same_result) return;
  sys::report_difference("a stack was placed differently by means of remembered ones");
}

void forget_checked_contents() noexcept { g_contents.reset(); }

}  // namespace heapprof::python

#endif
