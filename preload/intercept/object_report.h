// Messages in the log and notes in the trace about an object with an allocator. They name the functions that are
// patched, those that are not, the reason, and the effect on the figures.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/note_kind.h"
#include "preload/intercept/object_symbols.h"
#include "preload/recorder/process/settings.h"

namespace heapprof::intercept {

/// How the program uses an object.
enum class Role : std::uint8_t {
  kOther,
  kLibc,                ///< the program's libc, whose functions the hooks interpose
  kOtherNamespaceLibc,  ///< the libc of a namespace that dlmopen created
};

/// Zeroed memory is a valid object. Not thread-safe: only the thread that scans uses it.
class ObjectReport {
 public:
  /// Begins the report of another object. `path` is used until the next call.
  void begin(const char* path, Role role) noexcept;

  /// The function is not patched. `function` and `reason` are used until the next begin().
  void skip(const FunctionSymbol& function, const char* reason) noexcept;
  std::size_t skipped() const noexcept { return skipped_count_; }

  /// None of the object's functions is patched.
  void skip_all(const char* reason) noexcept;

  /// Notes the allocator, and which functions are patched.
  void note_patched(const char* allocator, const FunctionSymbol* const* functions, std::size_t count) noexcept;

  /// Notes the skipped functions: those with the same reason and effect together.
  void note_skipped() noexcept;

  /// The program contains `allocator`, but its functions cannot be found without symbols.
  void note_stripped(const char* allocator) noexcept;

 private:
  static constexpr std::size_t kMaxNotes = 4096;

  struct Skipped {
    const FunctionSymbol* function;  ///< null: noted already
    const char* reason;
  };

  void write_note(NoteKind kind) noexcept;
  recorder::LogLevel level() const noexcept;

  std::uint64_t noted_[kMaxNotes];  ///< hashes of the notes that were written
  std::size_t noted_count_;
  const char* path_;
  Role role_;
  Skipped skipped_[kMaxFunctions];
  std::size_t skipped_count_;
  char text_[2048];
};

}  // namespace heapprof::intercept
