#include "preload/unwind/modules.h"

#include "preload/sys/kernel.h"
#include "preload/sys/loader.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::unwind {

namespace detail {
constinit std::atomic<std::uint64_t> generation{1};
constinit ModuleState module_states[kMaxModules] = {};
}  // namespace detail

namespace {

constexpr std::uint32_t kChunkModules = 128;
constexpr std::uint32_t kChunks = kMaxModules / kChunkModules;
constexpr std::size_t kChunkBytes = kChunkModules * sizeof(Module);
constexpr std::uint32_t kHeads = 256;

constinit std::atomic<Module*> g_chunks[kChunks] = {};
constinit std::atomic<std::uint32_t> g_count{raw(ModuleId::kFirst)};
constinit std::atomic<std::uint32_t> g_heads[kHeads] = {};  ///< by hash of map.begin; Module::next links the rest
constinit std::atomic<std::uint32_t> g_trace{1};            ///< number of the trace that is being written
constinit const char* g_program_path = nullptr;

/// The modules that find_module() found last by asking the loader, by address.
constexpr std::uint32_t kRecent = 16;
constinit std::atomic<Module*> g_recent[kRecent] = {};

std::atomic<Module*>& recent_at(std::uint64_t pc) noexcept { return g_recent[(pc >> 20) % kRecent]; }

/// Whether `pc` is certainly in the module, which was confirmed in this generation: then the loader need not be asked
/// again. Only the text is taken into account, because the kernel may have mapped something else between segments of
/// the program; without readable headers, its text is its whole map.
bool certainly_contains(const Module& module, std::uint64_t pc, std::uint64_t generation) noexcept {
  return module.text.contains(pc) && state_of(module.id).confirmed.load(std::memory_order_acquire) == generation &&
         (!module.main || module.text.begin != module.map.begin);
}

Module* module_at(std::uint32_t index) noexcept {
  return &g_chunks[index / kChunkModules].load(std::memory_order_acquire)[index % kChunkModules];
}

std::atomic<std::uint32_t>& head_of(std::uint64_t map_begin) noexcept {
  return g_heads[(map_begin >> 12) * 0x9e3779b97f4a7c15 >> 56];
}
static_assert(kHeads == 1u << (64 - 56));

/// Searches the modules from `index` on, along `next`, up to but not including `end`.
Module* find_in_list(const ElfObject& wanted, std::uint32_t index, std::uint32_t end) noexcept {
  while (index != end) {
    Module* module = module_at(index);
    if (module->identity == wanted.identity && module->map.begin == wanted.map.begin) return module;
    index = module->next;
  }
  return nullptr;
}

/// Reserves an index. Returns its module, or null when there is no memory.
Module* allocate(std::uint32_t& index) noexcept {
  index = g_count.load(std::memory_order_relaxed);
  do {
    if (index >= raw(ModuleId::kPython)) return nullptr;  // the last id is reserved
  } while (!g_count.compare_exchange_weak(index, index + 1, std::memory_order_acquire, std::memory_order_relaxed));
  auto& chunk = g_chunks[index / kChunkModules];
  Module* modules = chunk.load(std::memory_order_acquire);
  if (modules == nullptr) {
    auto* fresh = static_cast<Module*>(sys::map_private(kChunkBytes));
    if (fresh == nullptr) return nullptr;
    if (chunk.compare_exchange_strong(modules, fresh, std::memory_order_acq_rel)) modules = fresh;
    else sys::unmap_private(fresh, kChunkBytes);
  }
  return &modules[index % kChunkModules];
}

/// Undoes allocate(), for an index that no other thread has seen. When another thread has allocated since, the index
/// stays unused.
void undo_allocate(std::uint32_t index) noexcept {
  std::uint32_t count = index + 1;
  g_count.compare_exchange_strong(count, index, std::memory_order_release, std::memory_order_relaxed);
}

/// Returns the module that equals `found`, after adding it if necessary; null when there is no memory.
///
/// Several threads may find the same object at once. Each prepares a module and tries to make it the head of its
/// list. The first one succeeds and determines the id. The others fail, search the modules that were added since they
/// read the head, and find it there.
Module* find_or_add(const ElfObject& found) noexcept {
  auto& head = head_of(found.map.begin);
  std::uint32_t first = head.load(std::memory_order_acquire);
  if (Module* present = find_in_list(found, first, 0)) return present;
  std::uint32_t index;
  Module* const module = allocate(index);
  if (module == nullptr) return nullptr;
  static_cast<ElfObject&>(*module) = found;
  if (module->eh_frame_hdr == 0 && sys::is_musl()) find_eh_frame(*module);
  module->id = ModuleId{index};
  detail::module_states[index].load_bias = found.load_bias;
  module->next = first;
  while (!head.compare_exchange_strong(first, index, std::memory_order_acq_rel, std::memory_order_acquire)) {
    if (Module* present = find_in_list(found, first, module->next)) {
      undo_allocate(index);
      return present;
    }
    module->next = first;
  }
  return module;
}

/// Returns the known module that holds `pc`, or null.
Module* find_known(std::uint64_t pc) noexcept {
  for (const auto& head : g_heads) {
    for (std::uint32_t index = head.load(std::memory_order_acquire); index != 0;) {
      Module* const module = module_at(index);
      if (module->map.contains(pc)) return module;
      index = module->next;
    }
  }
  return nullptr;
}

}  // namespace

void start_modules() noexcept {
  // The first chunk suffices for nearly every program, and remains usable when system calls are forbidden later.
  if (g_chunks[0].load(std::memory_order_relaxed) == nullptr)
    g_chunks[0].store(static_cast<Module*>(sys::map_private(kChunkBytes)), std::memory_order_release);
  start_elf_objects();
}

Module* find_module(std::uint64_t pc, std::uint64_t generation) noexcept {
  auto& recent = recent_at(pc);
  if (Module* const module = recent.load(std::memory_order_acquire);
      module != nullptr && certainly_contains(*module, pc, generation))
    return module;
  // musl never unloads an object, so a known module is still there.
  if (sys::is_musl()) {
    if (Module* const known = find_known(pc)) {
      state_of(known->id).confirmed.store(generation, std::memory_order_release);
      return known;
    }
  }
  ObjectLocation location;
  if (!find_object(pc, location)) return nullptr;
  ElfObject found{};
  read_object(location, found);
  // Without _dl_find_object, anonymous memory of the program directly behind an object is located in the object.
  if (!found.map.contains(pc)) return nullptr;
  Module* const module = find_or_add(found);
  if (module == nullptr) return nullptr;
  module->name.store(location.name, std::memory_order_relaxed);
  state_of(module->id).confirmed.store(generation, std::memory_order_release);
  // What /proc/self/maps has, the program may have mapped without the loader: that may be replaced without a new
  // generation.
  if (location.load_bias_known) recent.store(module, std::memory_order_release);
  return module;
}

void define(Module& module, const Definitions& definitions) noexcept {
  const std::uint32_t trace = g_trace.load(std::memory_order_relaxed);
  if (module.defined_in.load(std::memory_order_acquire) == trace) return;
  ModuleInfo info{};
  info.id = module.id;
  info.map_begin = module.map.begin;
  info.map_end = module.map.end;
  info.load_bias = module.load_bias;
  info.build_id = reinterpret_cast<const std::uint8_t*>(module.build_id.begin);
  info.build_id_bytes = static_cast<std::uint32_t>(module.build_id.end - module.build_id.begin);
  info.main = module.main;
  char* memory = nullptr;
  info.path = module.main && g_program_path != nullptr
                  ? g_program_path
                  : find_path(module, module.name.load(std::memory_order_relaxed), memory);
  definitions.define_module(definitions.context, info);
  module.defined_in.store(trace, std::memory_order_release);
  if (memory != nullptr) sys::unmap_private(memory, kPathMemoryBytes);
}

void set_program_path(const char* path) noexcept { g_program_path = path; }

void redefine_modules() noexcept { g_trace.fetch_add(1, std::memory_order_relaxed); }

}  // namespace heapprof::unwind
