// Where the data of a Python interpreter is, by version: byte offsets from the headers of each release (64-bit, with
// the global interpreter lock). interpreter.cpp checks those that an interpreter describes itself.
#pragma once

#include <cstdint>

#include "common/trace_format.h"

namespace heapprof::python {

/// How the frames of one thread are linked, and what separates the frames of one evaluation from the next.
enum class FrameLinks : std::uint8_t {
  /// 3.8 to 3.10: an evaluation executes one frame. From 3.10 on it has a CFrame on its C stack.
  kOneFrame,
  /// 3.11: an evaluation executes frames up to one with is_entry, and has a _PyCFrame on its C stack.
  kEntryFlag,
  /// 3.12 and later: an evaluation links a frame of its own, the shim, which is on its C stack.
  kShim,
};

/// Where the groups of the layout's description are that begins _PyRuntime, in words of 8 bytes (_Py_DebugOffsets).
struct DescriptionWords {
  std::uint8_t thread;  ///< 0: there is no description (before 3.13)
  std::uint8_t thread_id;
  std::uint8_t frame;
  std::uint8_t code;
};

struct Layout {
  std::uint32_t version;  ///< major << 8 | minor
  FrameLinks links;
  PythonLines lines;
  DescriptionWords description;

  // _PyRuntime
  std::uint16_t tss_key;  ///< Py_tss_t: int is_initialized, pthread_key_t key; 0: there is none (3.15)
  std::uint16_t finalizing;
  std::uint16_t lock_holder = 0;  ///< PyThreadState*; 0: not known (from 3.12 on each interpreter has a lock)
  std::uint16_t first_state = 0;  ///< 0: not known, or described by the interpreter

  // PyThreadState
  std::uint16_t interpreter;
  std::uint16_t thread_id;
  std::uint16_t frame;            ///< the innermost frame; 0: it is in the cframe
  std::uint16_t cframe;           ///< 0: there is none (before 3.10 and from 3.13 on)
  std::uint16_t cframe_frame;     ///< in the cframe
  std::uint16_t cframe_previous;  ///< in the cframe

  // PyFrameObject, or _PyInterpreterFrame
  std::uint16_t code;
  std::uint8_t code_tag = 0;  ///< bits of that word that are no part of the address (3.14 and later)
  std::uint16_t previous;
  std::uint16_t instruction;
  std::uint16_t owner;     ///< 0: there is none
  std::uint16_t is_entry;  ///< 3.11
  // Up to 3.10:
  std::uint16_t root_cframe = 0;  ///< in PyThreadState; its link to an outer one is not initialized
  std::uint16_t stack_depth = 0;  ///< 3.10: negative while the frame executes
  std::uint16_t stack_top = 0;    ///< 3.8, 3.9: null while the frame executes
  std::uint16_t generator = 0;

  // PyCodeObject
  std::uint16_t first_line;
  std::uint16_t file;
  std::uint16_t name;  ///< the qualified name, where there is one (3.11 and later)
  std::uint16_t table;
  std::uint16_t bytecode;         ///< 0: instructions are numbers, not addresses
  std::uint16_t first_traceable;  ///< 0: there is none
  std::uint16_t code_version;     ///< 0: there is none

  // PyASCIIObject, PyCompactUnicodeObject: where the characters begin
  std::uint16_t ascii_text;
  std::uint16_t other_text;

  /// Whether the evaluations of a thread are known only by the addresses of their code.
  constexpr bool evaluations_by_code() const noexcept { return links == FrameLinks::kOneFrame && cframe == 0; }
};

inline constexpr Layout kLayout38 = {.version = 0x0308,
                                     .links = FrameLinks::kOneFrame,
                                     .lines = PythonLines::kLnotab,
                                     .description = {},
                                     .tss_key = 1392,
                                     .finalizing = 16,
                                     .lock_holder = 1368,
                                     .first_state = 32,
                                     .interpreter = 16,
                                     .thread_id = 176,
                                     .frame = 24,
                                     .cframe = 0,
                                     .cframe_frame = 0,
                                     .cframe_previous = 0,
                                     .code = 32,
                                     .previous = 24,
                                     .instruction = 104,
                                     .owner = 0,
                                     .is_entry = 0,
                                     .stack_top = 72,
                                     .generator = 96,
                                     .first_line = 40,
                                     .file = 104,
                                     .name = 112,
                                     .table = 120,
                                     .bytecode = 0,
                                     .first_traceable = 0,
                                     .code_version = 0,
                                     .ascii_text = 48,
                                     .other_text = 72};

inline constexpr Layout kLayout39 = {.version = 0x0309,
                                     .links = FrameLinks::kOneFrame,
                                     .lines = PythonLines::kLnotab,
                                     .description = {},
                                     .tss_key = 584,
                                     .finalizing = 16,
                                     .lock_holder = 568,
                                     .first_state = 32,
                                     .interpreter = 16,
                                     .thread_id = 176,
                                     .frame = 24,
                                     .cframe = 0,
                                     .cframe_frame = 0,
                                     .cframe_previous = 0,
                                     .code = 32,
                                     .previous = 24,
                                     .instruction = 104,
                                     .owner = 0,
                                     .is_entry = 0,
                                     .stack_top = 72,
                                     .generator = 96,
                                     .first_line = 40,
                                     .file = 104,
                                     .name = 112,
                                     .table = 120,
                                     .bytecode = 0,
                                     .first_traceable = 0,
                                     .code_version = 0,
                                     .ascii_text = 48,
                                     .other_text = 72};

inline constexpr Layout kLayout310 = {.version = 0x030a,
                                      .links = FrameLinks::kOneFrame,
                                      .lines = PythonLines::kLineTable,
                                      .description = {},
                                      .tss_key = 584,
                                      .finalizing = 16,
                                      .lock_holder = 568,
                                      .first_state = 32,
                                      .interpreter = 16,
                                      .thread_id = 176,
                                      .frame = 24,
                                      .cframe = 48,
                                      .cframe_frame = 0,
                                      .cframe_previous = 8,
                                      .code = 32,
                                      .previous = 24,
                                      .instruction = 96,
                                      .owner = 0,
                                      .is_entry = 0,
                                      .root_cframe = 264,
                                      .stack_depth = 80,
                                      .generator = 88,
                                      .first_line = 40,
                                      .file = 104,
                                      .name = 112,
                                      .table = 120,
                                      .bytecode = 0,
                                      .first_traceable = 0,
                                      .code_version = 0,
                                      .ascii_text = 48,
                                      .other_text = 72};

inline constexpr Layout kLayout311 = {.version = 0x030b,
                                      .links = FrameLinks::kEntryFlag,
                                      .lines = PythonLines::kLocations,
                                      .description = {},
                                      .tss_key = 592,
                                      .finalizing = 24,
                                      .lock_holder = 576,
                                      .first_state = 40,
                                      .interpreter = 16,
                                      .thread_id = 152,
                                      .frame = 0,
                                      .cframe = 56,
                                      .cframe_frame = 8,
                                      .cframe_previous = 16,
                                      .code = 32,
                                      .previous = 48,
                                      .instruction = 56,
                                      .owner = 69,
                                      .is_entry = 68,
                                      .first_line = 72,
                                      .file = 112,
                                      .name = 128,
                                      .table = 136,
                                      .bytecode = 184,
                                      .first_traceable = 168,
                                      .code_version = 0,
                                      .ascii_text = 48,
                                      .other_text = 72};

inline constexpr Layout kLayout312 = {.version = 0x030c,
                                      .links = FrameLinks::kShim,
                                      .lines = PythonLines::kLocations,
                                      .description = {},
                                      .tss_key = 1544,
                                      .finalizing = 24,
                                      .first_state = 40,
                                      .interpreter = 16,
                                      .thread_id = 136,
                                      .frame = 0,
                                      .cframe = 56,
                                      .cframe_frame = 0,
                                      .cframe_previous = 8,
                                      .code = 0,
                                      .previous = 8,
                                      .instruction = 56,
                                      .owner = 70,
                                      .is_entry = 0,
                                      .first_line = 68,
                                      .file = 112,
                                      .name = 128,
                                      .table = 136,
                                      .bytecode = 192,
                                      .first_traceable = 176,
                                      .code_version = 92,
                                      .ascii_text = 40,
                                      .other_text = 56};

inline constexpr Layout kLayout313 = {.version = 0x030d,
                                      .links = FrameLinks::kShim,
                                      .lines = PythonLines::kLocations,
                                      .description = {.thread = 19, .thread_id = 24, .frame = 28, .code = 34},
                                      .tss_key = 2160,
                                      .finalizing = 608,
                                      .interpreter = 16,
                                      .thread_id = 152,
                                      .frame = 72,
                                      .cframe = 0,
                                      .cframe_frame = 0,
                                      .cframe_previous = 0,
                                      .code = 0,
                                      .previous = 8,
                                      .instruction = 56,
                                      .owner = 70,
                                      .is_entry = 0,
                                      .first_line = 68,
                                      .file = 112,
                                      .name = 128,
                                      .table = 136,
                                      .bytecode = 200,
                                      .first_traceable = 184,
                                      .code_version = 92,
                                      .ascii_text = 40,
                                      .other_text = 56};

inline constexpr Layout kLayout314 = {.version = 0x030e,
                                      .links = FrameLinks::kShim,
                                      .lines = PythonLines::kLocations,
                                      .description = {.thread = 22, .thread_id = 27, .frame = 31, .code = 39},
                                      .tss_key = 2336,
                                      .finalizing = 784,
                                      .interpreter = 16,
                                      .thread_id = 152,
                                      .frame = 72,
                                      .cframe = 0,
                                      .cframe_frame = 0,
                                      .cframe_previous = 0,
                                      .code = 0,
                                      .code_tag = 3,
                                      .previous = 8,
                                      .instruction = 56,
                                      .owner = 74,
                                      .is_entry = 0,
                                      .first_line = 68,
                                      .file = 112,
                                      .name = 128,
                                      .table = 136,
                                      .bytecode = 208,
                                      .first_traceable = 192,
                                      .code_version = 92,
                                      .ascii_text = 40,
                                      .other_text = 56};

inline constexpr Layout kLayout315 = {.version = 0x030f,
                                      .links = FrameLinks::kShim,
                                      .lines = PythonLines::kLocations,
                                      .description = {.thread = 22, .thread_id = 30, .frame = 39, .code = 47},
                                      .tss_key = 0,
                                      .finalizing = 912,
                                      .interpreter = 16,
                                      .thread_id = 176,
                                      .frame = 72,
                                      .cframe = 0,
                                      .cframe_frame = 0,
                                      .cframe_previous = 0,
                                      .code = 0,
                                      .code_tag = 3,
                                      .previous = 8,
                                      .instruction = 56,
                                      .owner = 74,
                                      .is_entry = 0,
                                      .first_line = 68,
                                      .file = 112,
                                      .name = 128,
                                      .table = 136,
                                      .bytecode = 208,
                                      .first_traceable = 192,
                                      .code_version = 92,
                                      .ascii_text = 40,
                                      .other_text = 56};

inline constexpr const Layout* kLayouts[] = {&kLayout38,  &kLayout39,  &kLayout310, &kLayout311,
                                             &kLayout312, &kLayout313, &kLayout314, &kLayout315};

// Values of a frame's owner.
inline constexpr std::uint8_t kOwnedByGenerator = 1;
inline constexpr std::uint8_t kFirstShimOwner = 3;

// Objects: PyObject, PyVarObject, PyUnicodeObject, PyBytesObject, PyTypeObject.
inline constexpr unsigned kObjectType = 8;
inline constexpr unsigned kObjectSize = 16;  ///< of a PyVarObject; also the length of a str
inline constexpr unsigned kTextHash = 24;
inline constexpr unsigned kTextState = 32;  ///< of a str: bits 2 to 4 bytes per character, 5 compact, 6 ASCII
inline constexpr unsigned kBytesData = 32;
inline constexpr unsigned kTypeBasicSize = 32;
inline constexpr unsigned kTypeMembers = 240;

template <typename T>
[[gnu::always_inline]] inline T load(std::uint64_t address) noexcept {
  return __atomic_load_n(reinterpret_cast<const T*>(address), __ATOMIC_RELAXED);
}

}  // namespace heapprof::python
