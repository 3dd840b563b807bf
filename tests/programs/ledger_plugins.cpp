// Libraries that are loaded and unloaded.
//
// usage: ledger_plugins WORK
//
// Each round loads plugin a or b (found through the RUNPATH of the library that calls dlopen), allocates in it, and
// unloads it, so that both are loaded alternately at the same addresses. Then it opens an iconv converter, for which
// libc loads and unloads libraries without a call of dlopen that a recorder can hook. A report must name the
// functions that were loaded when the block was allocated.
#include <dlfcn.h>
#include <iconv.h>

#include "tests/support/sites.h"

extern "C" void* open_plugin(const char* name);

using Allocate = void* (*)(unsigned long);

LEDGER_SITE void* site_plugin_a(Allocate allocate, std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kMalloc, ledger::k_site_plugin_a, nullptr, size);
  return ledger::done(entry, allocate(size));
}

LEDGER_SITE void* site_plugin_b(Allocate allocate, std::size_t size) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kMalloc, ledger::k_site_plugin_b, nullptr, size);
  return ledger::done(entry, allocate(size));
}

int main(int argc, char** argv) {
  const std::uint64_t work = ledger::argument(argc, argv, 1, 60);
  ledger::open(ledger::kSiteNames, 1, static_cast<std::uint32_t>(32 * work + 16));
  ledger::set_phase(ledger::Phase::kWorking);
  static constexpr const char* kCharsets[] = {"UTF-16", "ISO-8859-2", "KOI8-R",    "EUC-JP",
                                              "BIG5",   "CP1252",     "SHIFT_JIS", "ISO-2022-KR"};
  constexpr std::size_t kCharsetCount = sizeof kCharsets / sizeof kCharsets[0];
  for (std::uint64_t round = 0; round < work; ++round) {
    const bool a = (round / 2) % 2 == 0;
    void* plugin = open_plugin(a ? "libplugin_a.so" : "libplugin_b.so");
    if (plugin == nullptr) {
      ledger::fail("ledger_plugins: the plugin in the caller's RUNPATH was not found");
      return 1;
    }
    auto allocate = reinterpret_cast<Allocate>(dlsym(plugin, "plugin_allocate"));
    void* blocks[8];
    for (std::size_t i = 0; i < 8; ++i) blocks[i] = (a ? site_plugin_a : site_plugin_b)(allocate, 100 + i);
    for (std::size_t i = 1; i < 8; ++i) site_free(blocks[i]);  // the first of each round is leaked
    dlclose(plugin);

    iconv_t converter = iconv_open("UTF-8", kCharsets[round % kCharsetCount]);
    if (converter != reinterpret_cast<iconv_t>(-1)) {
      void* between = site_small(64);
      iconv_close(converter);
      site_free(between);
    }
  }
  ledger::set_phase(ledger::Phase::kFinished);
  return ledger::status();
}
