#include "preload/intercept/object_patcher.h"

#include "preload/real/functions.h"
#include "preload/recorder/thread/thread_local.h"
#include "preload/sys/kernel.h"

namespace heapprof::intercept {

namespace {

using Free = void(void*) noexcept;
constinit Free* g_original_free = nullptr;

/// Called by the hooks in place of the real free. The allocator's free may call other patched functions: these calls
/// are part of this one, and are not recorded.
void call_original_free(void* block) noexcept {
  const void* const outer = recorder::t_local.reallocating;
  ++recorder::t_local.allocator_depth;
  recorder::t_local.reallocating = block;
  g_original_free(block);
  recorder::t_local.reallocating = outer == block ? nullptr : outer;
  --recorder::t_local.allocator_depth;
}

/// Makes the hooks call the displaced instructions. Another free than libc's may call patched functions, so the hooks
/// call it through call_original_free().
void redirect_hooks(const FunctionSymbol& symbol, const PatchedFunction& function, bool libc) noexcept {
  const auto* const entry = reinterpret_cast<const void*>(symbol.address);
  const bool is_free = entry == reinterpret_cast<const void*>(real::functions().free);
  real::redirect(entry, function.original);
  if (!is_free || libc) return;
  g_original_free = real::functions().free;
  real::redirect(function.original, reinterpret_cast<const void*>(call_original_free));
}

bool is_real_function(const FunctionSymbol& symbol) noexcept {
  return real::contains(reinterpret_cast<const void*>(symbol.address));
}

}  // namespace

std::size_t ObjectPatcher::patch(const ObjectSymbols& symbols, const FunctionSymbol** functions, std::size_t count,
                                 Role role, ObjectReport& report) noexcept {
  std::size_t prepared = 0;
  if (const Refusal refusal = prepare(symbols, functions, count, role, report, prepared)) {
    report.skip_all(refusal);
    return 0;
  }
  find_branches_into(patches_, prepared, symbols.text, symbols.image, refused_);
  return apply(functions, prepared, role, report);
}

/// Finds or maps memory for `count` functions of the object.
Refusal ObjectPatcher::find_area(const ObjectSymbols& symbols, std::size_t count, Area& area) noexcept {
  const unwind::Span& image = symbols.image;
  for (Area* known = areas_; known != areas_ + area_count_; ++known) {
    if (image.begin >= known->end || known->begin >= image.end || known->capacity < count) continue;
    // From now on it is this object's: another one beside it, in the rest of the old one's place, must not get it.
    known->begin = image.begin;
    known->end = image.end;
    area = *known;
    return reset(area.code);
  }
  area = {image.begin, image.end, {}, nullptr, count};
  area.functions = static_cast<PatchedFunction*>(sys::map_private(count * sizeof(PatchedFunction)));
  if (area.functions == nullptr) return "out of memory";
  if (const Refusal refusal = map_code_area(area.code, area.begin, area.end, count)) return refusal;
  if (area_count_ != kMaxAreas) areas_[area_count_++] = area;
  return nullptr;
}

/// Writes the stubs. The functions that can be patched come first in `functions`; there are `prepared` of them.
Refusal ObjectPatcher::prepare(const ObjectSymbols& symbols, const FunctionSymbol** functions, std::size_t count,
                               Role role, ObjectReport& report, std::size_t& prepared) noexcept {
  Area area;
  if (const Refusal refusal = find_area(symbols, count, area)) return refusal;
  for (std::size_t i = 0; i < count; ++i) {
    const FunctionSymbol& symbol = *functions[i];
    PatchedFunction& function = area.functions[prepared];
    Patch& patch = patches_[prepared];
    if (const Refusal refusal =
            prepare_patch(area.code, symbols.text, symbol.address, symbol.size, &function, patch)) {
      report.skip(symbol, refusal);
      continue;
    }
    function.original = patch.original;
    function.begin = patch.function_begin;
    function.end = patch.function_end;
    function.signature = symbol.allocator.signature;
    function.is_real_function = role != Role::kOther || is_real_function(symbol);
    function.zero_alignment =
        role != Role::kOther && symbol.allocator.is_memalign ? ZeroAlignment::kAny : ZeroAlignment::kRefused;
    function.unrecorded_callers_begin = role == Role::kLibc ? symbols.image.begin : 0;
    function.unrecorded_callers_end = role == Role::kLibc ? symbols.image.end : 0;
    refused_[prepared] = false;
    patched_[prepared] = &function;
    functions[prepared++] = &symbol;
  }
  return make_executable(area.code);
}

/// Applies the prepared patches that are not refused.
std::size_t ObjectPatcher::apply(const FunctionSymbol** functions, std::size_t count, Role role,
                                 ObjectReport& report) noexcept {
  std::size_t done = 0;
  const int memory = count == 0 ? -1 : sys::open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  for (std::size_t i = 0; i < count; ++i) {
    const FunctionSymbol& symbol = *functions[i];
    const Refusal refusal = refused_[i] ? "other code branches, or may branch, into its first instructions"
                                        : apply_patch(patches_[i], memory);
    if (refusal != nullptr) {
      report.skip(symbol, refusal);
      continue;
    }
    functions[done++] = &symbol;
    if (is_real_function(symbol)) redirect_hooks(symbol, *patched_[i], role == Role::kLibc);
    if (symbol.address == reinterpret_cast<std::uint64_t>(real::functions().program_free))
      program_free_is_patched_ = true;
  }
  if (!sys::failed(memory)) sys::close(memory);
  return done;
}

}  // namespace heapprof::intercept
