#include "analyzer/symbols/debuginfod.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

namespace heapprof::symbols {

namespace {

// debuginfod_find_debuginfo(3).
struct Library {
  void* (*begin)() = nullptr;
  int (*find)(void* client, const unsigned char* build_id, int build_id_bytes, char** path) = nullptr;
  void (*end)(void* client) = nullptr;

  Library() {
    void* handle = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return;
    begin = reinterpret_cast<decltype(begin)>(dlsym(handle, "debuginfod_begin"));
    find = reinterpret_cast<decltype(find)>(dlsym(handle, "debuginfod_find_debuginfo"));
    end = reinterpret_cast<decltype(end)>(dlsym(handle, "debuginfod_end"));
  }
  bool usable() const { return begin != nullptr && find != nullptr && end != nullptr; }
};

}  // namespace

int fetch_debug_file(const std::string& build_id, std::string& path, std::string& reason) {
  static const Library library;
  const char* urls = std::getenv("DEBUGINFOD_URLS");
  if (!library.usable()) {
    reason = "libdebuginfod.so.1 is not installed";
    return -1;
  }
  if (urls == nullptr || *urls == '\0') {
    reason = "DEBUGINFOD_URLS is not set";
    return -1;
  }
  void* client = library.begin();
  if (client == nullptr) {
    reason = "debuginfod_begin failed";
    return -1;
  }
  char* found = nullptr;
  // Length 0: the build ID is hexadecimal text.
  const int fd = library.find(client, reinterpret_cast<const unsigned char*>(build_id.c_str()), 0, &found);
  library.end(client);
  if (fd < 0) {
    reason = std::strerror(-fd);
    return -1;
  }
  if (found != nullptr) path = found;
  std::free(found);
  return fd;
}

}  // namespace heapprof::symbols
