#include "preload/intercept/object_report.h"

#include "preload/base/text.h"
#include "preload/recorder/process/log.h"
#include "preload/recorder/recorder.h"

namespace heapprof::intercept {

namespace {

using recorder::log;
using recorder::LogLevel;

constexpr std::size_t kMaxListedPatched = 6;
constexpr std::size_t kMaxListedSkipped = 20;

/// How functions that are not patched affect the figures: the text before and after "it" or "them".
struct Effect {
  const char* before;
  const char* after;
};
constexpr Effect kMissing{"Blocks allocated by ", " are missing, and their frees count as unmatched frees"};
constexpr Effect kUnchanged{"Blocks reallocated by ", " keep their old address and size in the figures"};
constexpr Effect kLive{"Blocks freed by ", " count as live, and as leaked at the end"};

const Effect& effect_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::kAllocate:
    case Kind::kAllocateThroughPointer:
    case Kind::kDuplicateString: return kMissing;
    case Kind::kReallocate:
    case Kind::kReallocateOrFree:
    case Kind::kResizeInPlace: return kUnchanged;
    case Kind::kFree: break;
  }
  return kLive;
}

}  // namespace

void ObjectReport::begin(const char* path, Role role) noexcept {
  path_ = path;
  role_ = role;
  skipped_count_ = 0;
}

/// Whether functions of the program's libc are patched matters only to code that bypasses the hooks, which is rare.
LogLevel ObjectReport::level() const noexcept { return role_ == Role::kLibc ? LogLevel::kInfo : LogLevel::kWarn; }

void ObjectReport::skip(const FunctionSymbol& function, const char* reason) noexcept {
  skipped_[skipped_count_++] = {&function, reason};
  Text text(text_);
  text.add(function.name).add(" of ").add(base_name(path_)).add(" is not recorded: ").add(reason);
  log(level(), text_);
}

void ObjectReport::skip_all(const char* reason) noexcept {
  Text text(text_);
  text.add("the allocator in ").add(base_name(path_)).add(" is not recorded: ").add(reason);
  log(level(), text_);
  if (role_ != Role::kLibc) write_note(NoteKind::kNotRecorded);
}

void ObjectReport::note_patched(const char* allocator, const FunctionSymbol* const* functions,
                                std::size_t count) noexcept {
  if (role_ == Role::kLibc) return;
  Text text(text_);
  text.add("embedded allocator: ").add(allocator).add(" in ").add(path_).add(", ").number(count);
  text.add(count == 1 ? " function patched" : " functions patched").add(count != 0 ? " (" : "");
  for (std::size_t i = 0; i < count && i < kMaxListedPatched; ++i)
    text.add(i == 0 ? "" : ", ").add(functions[i]->name);
  text.add(count > kMaxListedPatched ? ", ..." : "").add(count != 0 ? ")" : "");
  if (skipped_count_ != 0) text.add(", ").number(skipped_count_).add(" not patched");
  write_note(NoteKind::kInformation);
}

void ObjectReport::note_skipped() noexcept {
  if (role_ == Role::kLibc) return;
  for (std::size_t i = 0; i < skipped_count_; ++i) {
    const Skipped& first = skipped_[i];
    if (first.function == nullptr) continue;
    const Effect& effect = effect_of(first.function->allocator.signature.kind);
    Text text(text_);
    std::size_t count = 0;
    for (std::size_t j = i; j < skipped_count_; ++j) {
      Skipped& other = skipped_[j];
      if (other.function == nullptr || !text_equal(other.reason, first.reason) ||
          &effect_of(other.function->allocator.signature.kind) != &effect)
        continue;
      if (count++ < kMaxListedSkipped) text.add(count == 1 ? "" : ", ").add(other.function->name);
      if (j != i) other.function = nullptr;
    }
    if (count > kMaxListedSkipped) text.add(" and ").number(count - kMaxListedSkipped).add(" more");
    text.add(" of ").add(base_name(path_)).add(count == 1 ? " is" : " are").add(" not recorded: ");
    text.add(first.reason).add(". ").add(effect.before).add(count == 1 ? "it" : "them").add(effect.after);
    write_note(NoteKind::kNotRecorded);
  }
}

void ObjectReport::note_stripped(const char* allocator) noexcept {
  Text text(text_);
  text.add("the program seems to contain ")
      .add(allocator)
      .add(", but its symbols are stripped: blocks that ")
      .add(allocator)
      .add(" allocates are not recorded. Record an unstripped build, or a build that links ")
      .add(allocator)
      .add(" as a shared library");
  log(LogLevel::kWarn, text_);
  write_note(NoteKind::kNotRecorded);
}

/// Writes text_ into the trace, unless it has been written before.
void ObjectReport::write_note(NoteKind kind) noexcept {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char* at = text_; *at != '\0'; ++at) hash = (hash ^ static_cast<unsigned char>(*at)) * 1099511628211u;
  for (std::size_t i = 0; i < noted_count_; ++i)
    if (noted_[i] == hash) return;
  if (noted_count_ == kMaxNotes) return;
  noted_[noted_count_++] = hash;
  log(LogLevel::kInfo, text_);
  recorder::note(text_, kind);
}

}  // namespace heapprof::intercept
