// Modules of objects that are loaded and unloaded. PLUGIN_1 and PLUGIN_2 are two libraries of equal size and
// different frames (plugin.cpp). The tests call loader_activity() where the recorder's hooks would see ld.so
// allocate.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include "harness.h"
#include "library_copies.h"
#include "preload/unwind/modules.h"
#include "tests/support/skip_case.h"

using namespace unwind_test;

namespace {

const bool g_started = heapprof::unwind::start({.max_depth = 1u << 16, .shadow_stack = true});

thread_local Hook* t_hook = nullptr;
[[gnu::noinline]] void hook() {
  (*t_hook)();
  asm volatile("");
}

/// Loads a library for the lifetime of the object.
class Plugin {
 public:
  explicit Plugin(const char* path) : handle_(dlopen(path, RTLD_LAZY | RTLD_LOCAL)) {
    heapprof::unwind::loader_activity();
    if (handle_ == nullptr) FAIL(dlerror());
  }
  ~Plugin() {
    dlclose(handle_);
    heapprof::unwind::loader_activity();
  }
  Plugin(const Plugin&) = delete;
  int call(const char* function) const {
    return reinterpret_cast<int (*)(void (*)())>(dlsym(handle_, function))(hook);
  }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(dlsym(handle_, "plugin_run")); }

 private:
  void* handle_;
};

const Tree::Module* module_of(const std::map<ModuleId, std::vector<Tree::Module>>& modules, std::uint64_t address,
                              const char* path_part) {
  for (const auto& [id, known] : modules)
    if (known.back().map_begin <= address && address < known.back().map_end &&
        known.back().path.find(path_part) != std::string::npos)
      return &known.back();
  return nullptr;
}

std::string build_id_of_main() {
  std::string id;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_NOTE) continue;
          const char* at = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
          const char* end = at + segment.p_memsz;
          while (at + sizeof(ElfW(Nhdr)) < end) {
            const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
            const std::size_t align = segment.p_align == 8 ? 7 : 3;
            const char* text = at + sizeof *note + ((note->n_namesz + align) & ~align);
            if (note->n_type == NT_GNU_BUILD_ID) static_cast<std::string*>(data)->assign(text, note->n_descsz);
            at = text + ((note->n_descsz + align) & ~align);
          }
        }
        return 1;  // the program comes first
      },
      &id);
  return id;
}

}  // namespace

TEST_CASE("the modules of the program and of libc have the right path, build id and address") {
  REQUIRE(g_started);
  heapprof::unwind::restart_in_child();
  Recorder recorder;
  Hook here(recorder);
  t_hook = &here;
  int numbers[] = {3, 1, 2};
  qsort(numbers, 3, sizeof numbers[0], [](const void*, const void*) {
    hook();
    return 0;
  });
  CHECK(here.result.different == 0);
  const auto modules = Tree::modules();

  char path[4096] = {};
  REQUIRE(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
  const auto* main = module_of(modules, reinterpret_cast<std::uint64_t>(&module_of), path);
  REQUIRE(main != nullptr);
  CHECK(main->main);
  CHECK(main->path == path);
  CHECK(main->build_id == build_id_of_main());
  Dl_info info;
  REQUIRE(dladdr(reinterpret_cast<void*>(&build_id_of_main), &info) != 0);
  CHECK(main->load_bias == reinterpret_cast<std::uint64_t>(info.dli_fbase));

  const auto* libc = module_of(modules, reinterpret_cast<std::uint64_t>(dlsym(RTLD_DEFAULT, "qsort")), "/libc.so.6");
  REQUIRE(libc != nullptr);
  CHECK_FALSE(libc->main);
  CHECK(libc->build_id.size() == 20);
  CHECK(libc->path[0] == '/');
}

TEST_CASE("the range of the loader's text segment is found") {
  REQUIRE(g_started);
  const auto is_loader = [](std::uint64_t pc) { return heapprof::unwind::is_loader(ProgramCounter{pc}); };
  // Its function r_brk is in its text, its data is not.
  CHECK(is_loader(_r_debug.r_brk));
  CHECK_FALSE(is_loader(reinterpret_cast<std::uint64_t>(&_r_debug)));
  CHECK_FALSE(is_loader(reinterpret_cast<std::uint64_t>(&module_of)));
  CHECK_FALSE(is_loader(reinterpret_cast<std::uint64_t>(dlsym(RTLD_DEFAULT, "malloc"))));
}

TEST_CASE("two libraries are loaded in turn, at one address if possible") {
  REQUIRE(g_started);
  Recorder recorder;
  Hook here(recorder);
  t_hook = &here;
  std::set<std::uint64_t> addresses;
  std::size_t loads = 0;
  std::set<ModuleId> ids_before;
  for (const auto& [id, known] : Tree::modules()) ids_before.insert(id);
  for (int round = 0; round < 40; ++round) {
    const Plugin plugin(round % 2 == 0 ? PLUGIN_1 : PLUGIN_2);
    addresses.insert(plugin.address() & ~std::uint64_t{4095});
    plugin.call("plugin_run");
    ++loads;
  }
  INFO(here.result.first_difference);
  CHECK(here.result.different == 0);
  CHECK(here.result.stacks == loads * 8);
  if (addresses.size() == loads) heapprof::test::skip_case("no address was used twice");
  // Each library is defined once for each address at which it was loaded, not for each load.
  std::size_t defined = 0;
  for (const auto& [id, known] : Tree::modules()) defined += ids_before.contains(id) ? 0 : 1;
  CHECK(defined <= 2 * addresses.size());
  CHECK(defined >= 2);
}

TEST_CASE("libraries are loaded and unloaded while another thread captures") {
  REQUIRE(g_started);
  std::atomic<bool> done = false;
  std::atomic<std::size_t> sorted = 0;
  Comparison result;
  std::thread other([&] {
    Recorder recorder;
    Hook here(recorder);
    t_hook = &here;
    int numbers[20] = {};
    for (; !done; ++sorted) {
      qsort(numbers, 20, sizeof numbers[0], [](const void*, const void*) {
        hook();
        return 0;
      });
    }
    result = here.result;
  });
  Recorder recorder;
  Hook here(recorder);
  here.compare_with_oracle = false;  // libunwind would wait for the loader's lock all the time
  t_hook = &here;
  // On a busy machine, the other thread may run later than 200 rounds.
  for (int round = 0; round < 200 || sorted < 10; ++round) {
    const Plugin plugin(round % 2 == 0 ? PLUGIN_1 : PLUGIN_2);
    plugin.call("plugin_run");
    CHECK(here.last.reason == Truncation::kNone);
  }
  done = true;
  other.join();
  INFO(result.first_difference);
  CHECK(result.stacks > 0);
  CHECK(result.different == 0);
}

TEST_CASE("a module that several threads find at once has one id") {
  REQUIRE(g_started);
  constexpr std::size_t kThreads = 2;  // more threads than cores rarely begin together
  const Copies copies(PLUGIN_1, 150);
  std::array<std::vector<ModuleId>, kThreads> ids;
  std::atomic<std::size_t> arrived = 0;
  std::array<std::thread, kThreads> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads[thread] = std::thread([&, thread] {
      for (std::size_t i = 0; i < copies.size(); ++i) {
        ++arrived;
        for (unsigned spins = 0; arrived < (i + 1) * kThreads; ++spins)
          if (spins % 10'000 == 9'999) std::this_thread::yield();
        const auto* const module = heapprof::unwind::find_module(copies.address(i), heapprof::unwind::generation());
        ids[thread].push_back(module == nullptr ? ModuleId::kAnonymous : module->id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::size_t modules_with_several_ids = 0;
  std::set<ModuleId> all;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    std::set<ModuleId> of_one;
    for (const auto& of_thread : ids) of_one.insert(of_thread[i]);
    REQUIRE_FALSE(of_one.contains(ModuleId::kAnonymous));
    modules_with_several_ids += of_one.size() > 1 ? 1 : 0;
    all.insert(of_one.begin(), of_one.end());
  }
  CHECK(modules_with_several_ids == 0);
  CHECK(all.size() == copies.size());
}

TEST_CASE("memory mapped directly after a library is not part of it and does not change its id") {
  REQUIRE(g_started);
  Copies copies(PLUGIN_1, 20);
  std::size_t tried = 0;
  for (std::size_t i = 1; i < copies.size(); i += 2) {
    copies.close(i - 1);  // the kernel maps each library below the one before
    const auto find = [&] {
      heapprof::unwind::loader_activity();
      const auto* const module = heapprof::unwind::find_module(copies.address(i), heapprof::unwind::generation());
      REQUIRE(module != nullptr);
      return module;
    };
    const auto* const module = find();
    void* const end = reinterpret_cast<void*>((module->map.end + 4095) & ~std::uint64_t{4095});
    void* const behind = mmap(end, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (behind == end) {
      ++tried;
      CHECK(raw(find()->id) == raw(module->id));
      const auto behind_pc = reinterpret_cast<std::uint64_t>(behind) + 16;
      CHECK(heapprof::unwind::find_module(behind_pc, heapprof::unwind::generation()) == nullptr);
    }
    munmap(behind, 4096);
  }
  CHECK(tried > 0);
}

TEST_CASE("a file that the program maps in the place of another one, without the loader, is another module") {
  REQUIRE(g_started);
  constexpr std::size_t kBytes = 1 << 20;  // more than the libraries have
  void* const place = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(place != MAP_FAILED);
  const auto begin = reinterpret_cast<std::uint64_t>(place);
  const std::uint64_t generation = heapprof::unwind::generation();
  const auto find_mapped = [&](const char* path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    REQUIRE(mmap(place, kBytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) == place);
    close(fd);
    const auto* const header = static_cast<const ElfW(Ehdr)*>(place);
    const auto* const segments = reinterpret_cast<const ElfW(Phdr)*>(begin + header->e_phoff);
    std::uint64_t text = 0;
    for (unsigned i = 0; i < header->e_phnum; ++i)
      if (segments[i].p_type == PT_LOAD && (segments[i].p_flags & PF_X) != 0) text = begin + segments[i].p_vaddr;
    REQUIRE(text != 0);
    return heapprof::unwind::find_module(text, generation);
  };
  const auto* const first = find_mapped(PLUGIN_1);
  const auto* const second = find_mapped(PLUGIN_2);
  munmap(place, kBytes);
  // With _dl_find_object, the loader is asked, which does not know either.
  REQUIRE((first == nullptr) == (second == nullptr));
  if (first != nullptr) CHECK(raw(first->id) != raw(second->id));
}

TEST_CASE("a resolver of an ifunc, called by lazy binding") {
  REQUIRE(g_started);
  // On aarch64 glibc 2.36 has a wrong CFA for _dl_runtime_resolve (it omits the 16 bytes that the PLT pushes). No
  // unwinder can find the caller there, and libgcc crashes.
  if (arch::kElfMachine == EM_AARCH64)
    return heapprof::test::skip_case("no unwinder finds the caller of the resolver on aarch64");
  Recorder recorder;
  Hook here(recorder);
  t_hook = &here;
  {
    const Plugin plugin(PLUGIN_1);
    CHECK(plugin.call("plugin_lazy") == 7);
  }
  INFO(here.result.first_difference);
  CHECK(here.result.stacks == 2);
  CHECK(here.result.different == 0);
}
