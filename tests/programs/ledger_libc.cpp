// Blocks that libc allocates for its callers.
//
// usage: ledger_libc WORK
//
// strdup, asprintf (which grows and trims its result with realloc) and getline (which grows its buffer). The ledger
// has the block that they return, its call site and, for strdup, its size; but not the calls inside libc.
#include <stdio.h>

#include "tests/support/sites.h"

LEDGER_SITE char* site_strdup(const char* text) {
  ledger::Entry& entry = ledger::begin(ledger::Kind::kOpaque, ledger::k_site_strdup, nullptr, strlen(text) + 1);
  char* copy = strdup(text);
  ledger::done(entry, copy);
  return copy;
}

LEDGER_SITE char* site_asprintf(int number, const char* text) {
  ledger::Entry& entry =
      ledger::begin(ledger::Kind::kOpaque, ledger::k_site_asprintf, nullptr, 0, 0, ledger::kFlagSizeUnknown);
  char* result = nullptr;
  LEDGER_CHECK(asprintf(&result, "%d: %s", number, text) > 0);
  ledger::done(entry, result);
  return result;
}

/// The line buffer, which getline allocates.
LEDGER_SITE char* site_getline(FILE* file) {
  ledger::Entry& entry =
      ledger::begin(ledger::Kind::kOpaque, ledger::k_site_getline, nullptr, 0, 0, ledger::kFlagSizeUnknown);
  char* line = nullptr;
  std::size_t capacity = 0;
  LEDGER_CHECK(getline(&line, &capacity, file) > 0);
  ledger::done(entry, line);
  return line;
}

int main(int argc, char** argv) {
  const std::uint64_t work = ledger::argument(argc, argv, 1, 300);
  ledger::open(ledger::kSiteNames, 1, static_cast<std::uint32_t>(8 * work + 16));
  ledger::set_phase(ledger::Phase::kWorking);
  static char text[3000];
  for (std::uint64_t i = 0; i < work; ++i) {
    memset(text, 'x', sizeof text);
    text[(i * 37) % (sizeof text - 2)] = '\n';
    text[(i * 37) % (sizeof text - 2) + 1] = 0;
    char* copy = site_strdup(text);
    char* printed = site_asprintf(static_cast<int>(i), text);
    FILE* file = fmemopen(text, strlen(text), "r");
    char* line = site_getline(file);
    fclose(file);
    if (i % 2 != 0) site_free(copy);
    if (i % 3 != 0) site_free(printed);
    if (i % 5 != 0) site_free(line);
  }
  ledger::set_phase(ledger::Phase::kFinished);
  return ledger::status();
}
