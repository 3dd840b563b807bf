// The table of numbers: numbers are found again while it grows, also if a thread stops while it doubles the table.
#include "preload/python/number_table.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "preload/sys/own_mappings.h"
#include "tests/support/single_step.h"

using namespace heapprof;
using python::NumberTable;

namespace {

constexpr std::uint32_t kCheck = 7;
/// The table doubles with the addition after this number of them.
constexpr std::uint64_t kFirstGrowth = (NumberTable::kFirstSlots - 1) / 8 * 5 + 1;

std::uint64_t key_of(std::uint64_t number) { return number * 16; }

void store(NumberTable& table, std::uint64_t number) {
  table.store(key_of(number), kCheck, static_cast<std::uint32_t>(number));
}

bool is_found(const NumberTable& table, std::uint64_t number) { return table.find(key_of(number), kCheck) == number; }

/// How many of the numbers in [first, end) are not found.
std::uint64_t count_missing(const NumberTable& table, std::uint64_t first, std::uint64_t end) {
  std::uint64_t missing = 0;
  for (std::uint64_t number = first; number != end; ++number)
    if (!is_found(table, number)) ++missing;
  return missing;
}

}  // namespace

TEST_CASE("A number is found by its key and check, also after the table was doubled several times") {
  NumberTable table;
  CHECK_FALSE(is_found(table, 1));
  constexpr std::uint64_t kNumbers = NumberTable::kFirstSlots * 20;
  for (std::uint64_t number = 1; number <= kNumbers; ++number) store(table, number);
  CHECK(count_missing(table, 1, kNumbers + 1) == 0);
  CHECK(table.find(key_of(1), kCheck + 1) == 0);
  table.store(key_of(1), kCheck + 1, 5);
  CHECK(table.find(key_of(1), kCheck + 1) == 5);
  CHECK(table.find(key_of(1), kCheck) == 0);
  table.reset();
  CHECK(count_missing(table, 1, kNumbers + 1) == kNumbers);
}

TEST_CASE("Keys that differ in their upper bits only are not found by searching all of them") {
  // One code object in many interpreters (code_number()); and, for comparison, many code objects in one.
  constexpr std::uint64_t kKeys = 1u << 15;
  constexpr std::uint64_t kCode = 0x7f12'3456'7890;
  NumberTable interpreters, objects;
  for (std::uint64_t number = 1; number <= kKeys; ++number) {
    interpreters.store(kCode | number << 48, kCheck, static_cast<std::uint32_t>(number));
    objects.store(kCode + number * 176, kCheck, static_cast<std::uint32_t>(number));
  }
  CHECK(interpreters.longest_search() < 100);
  CHECK(objects.longest_search() < 100);
  interpreters.reset();
  objects.reset();
}

TEST_CASE("Threads that double the table while they store the same numbers find no other number") {
  NumberTable table;
  constexpr std::uint64_t kNumbers = NumberTable::kFirstSlots * 20;
  constexpr unsigned kThreads = 4;
  std::atomic<std::uint64_t> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kNumbers; ++i) {
        const std::uint64_t number = (i + t * (kNumbers / kThreads)) % kNumbers + 1;
        store(table, number);
        const std::uint32_t found = table.find(key_of(number), kCheck);
        if (found != 0 && found != number) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  for (std::uint64_t number = 1; number <= kNumbers; ++number) store(table, number);
  CHECK(count_missing(table, 1, kNumbers + 1) == 0);
  table.reset();
}

#ifdef HEAPPROF_SINGLE_STEP
namespace {

/// A thread that stores a number and stops while it doubles the table, until the end of this object's lifetime.
class StoppedGrowth {
 public:
  /// `number` makes the table double.
  StoppedGrowth(NumberTable& table, std::uint64_t number) {
    table_ = &table;
    number_ = number;
    stopped_ = interrupted_ = finished_ = false;
    thread_ = std::thread([] {
      // Nothing but doubling takes so many instructions.
      test::interrupt_after(
          10'000, [] { store(*table_, number_); },
          [] {
            interrupted_ = true;
            stopped_ = true;
            while (!finished_) sys::call(SYS_sched_yield);
          });
      stopped_ = true;
    });
    while (!stopped_) sys::call(SYS_sched_yield);
  }
  ~StoppedGrowth() {
    finished_ = true;
    thread_.join();
  }
  StoppedGrowth(const StoppedGrowth&) = delete;
  StoppedGrowth& operator=(const StoppedGrowth&) = delete;

  /// Whether the thread has stopped there.
  static bool interrupted() { return interrupted_; }

 private:
  static inline NumberTable* table_;
  static inline std::uint64_t number_;
  static inline std::atomic<bool> stopped_, interrupted_, finished_;
  std::thread thread_;
};

/// The tables with that many slots that are mapped.
unsigned mapped_tables(std::uint64_t slots) {
  unsigned tables = 0;
  for (std::size_t slot = 0; slot < sys::own_mapping_slots(); ++slot)
    if (const sys::OwnMapping mapping = sys::own_mapping(slot);
        mapping.begin != 0 && mapping.bytes == NumberTable::table_bytes(slots))
      ++tables;
  return tables;
}

}  // namespace

TEST_CASE("Threads that store numbers while another one doubles the table make no table of their own") {
  NumberTable table;
  std::uint64_t next = 1;
  while (next <= kFirstGrowth) store(table, next++);
  // Tables of other test cases stay mapped.
  const unsigned second = mapped_tables(NumberTable::kFirstSlots * 2);
  const unsigned third = mapped_tables(NumberTable::kFirstSlots * 4);
  {
    const StoppedGrowth stopped(table, next++);
    REQUIRE(StoppedGrowth::interrupted());
    REQUIRE(mapped_tables(NumberTable::kFirstSlots * 2) == second + 1);
    // The table has room left.
    store(table, next++);
    CHECK(count_missing(table, next - 1, next) == 0);
    CHECK(mapped_tables(NumberTable::kFirstSlots * 2) == second + 1);
    // It has not, so this thread copies what the other one has left, and goes on with the larger table.
    std::uint64_t lost = 0;
    for (const std::uint64_t end = next + NumberTable::kFirstSlots; next != end; ++next) {
      store(table, next);
      if (!is_found(table, next)) ++lost;
    }
    CHECK(lost == 0);
    CHECK(mapped_tables(NumberTable::kFirstSlots * 2) == second + 1);
    CHECK(mapped_tables(NumberTable::kFirstSlots * 4) == third + 1);
    // Missing are the other thread's number, and at most those in the 64 slots that it had begun to copy.
    CHECK(count_missing(table, 1, next) <= 65);
  }
  // They are found again once they are stored again.
  std::uint64_t lost = 0;
  for (std::uint64_t number = 1; number != next; ++number) {
    store(table, number);
    if (!is_found(table, number)) ++lost;
  }
  CHECK(lost == 0);
  table.reset();
}
#endif
