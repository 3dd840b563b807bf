// Loaded copies of a library: each of them is a module that no thread has found yet.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "preload/unwind/unwinder.h"

namespace unwind_test {

class Copies {
 public:
  Copies(const char* library, std::size_t count) {
    std::string name = (std::filesystem::temp_directory_path() / "heapprof-copies-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    directory_ = name;
    for (std::size_t i = 0; i < count; ++i) {
      // The names have equal length, so that finding each copy takes the same number of instructions.
      const auto path = directory_ / ("copy" + std::to_string(1000 + i) + ".so");
      std::filesystem::copy_file(library, path);
      void* const handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
      if (handle == nullptr) throw std::runtime_error(dlerror());
      handles_.push_back(handle);
    }
    heapprof::unwind::loader_activity();
  }
  ~Copies() {
    for (std::size_t i = 0; i < handles_.size(); ++i) close(i);
    heapprof::unwind::loader_activity();
    std::filesystem::remove_all(directory_);
  }
  Copies(const Copies&) = delete;

  void close(std::size_t i) {
    if (handles_[i] != nullptr) dlclose(handles_[i]);
    handles_[i] = nullptr;
  }
  std::size_t size() const { return handles_.size(); }
  /// The address of a function in copy `i`.
  std::uint64_t address(std::size_t i) const {
    return reinterpret_cast<std::uint64_t>(dlsym(handles_[i], "plugin_run"));
  }

 private:
  std::filesystem::path directory_;
  std::vector<void*> handles_;
};

}  // namespace unwind_test
