// Functions with known names and lines. Prints, for each of its stacks, the frames that a report must have.
//
// One line of JSON each: the size, which is different for each stack so that a test can find it, and the frames from
// innermost to outermost as [function, line, inlined]. A name that ends in * is a prefix. Compiled with optimisation
// and debug information. __LINE__ is evaluated on the line of each call.
#include <stdio.h>
#include <stdlib.h>

#include <new>

namespace {
void* volatile kept[16];
unsigned kept_count;
int inner_line, middle_line, outer_line, new_line, lambda_line, rust_line;

// One expression contains the call and stores its line.
#define HERE(variable) (variable = __LINE__)
}  // namespace

namespace company::storage {

[[gnu::always_inline]] inline void inlined_inner(std::size_t size) {
  kept[kept_count++] = (HERE(inner_line), malloc(size));
}

[[gnu::always_inline]] inline void inlined_middle(std::size_t size) { HERE(middle_line), inlined_inner(size); }

[[gnu::noinline]] void outer_function(std::size_t size) {
  HERE(outer_line), inlined_middle(size);
  asm volatile("" ::: "memory");
}

template <typename Key, int kWidth>
struct Table {
  struct Row {
    char bytes[kWidth];
  };
  [[gnu::noinline]] Row* make_row(const Key&) {
    Row* row = (HERE(new_line), new Row);
    kept[kept_count++] = row;
    asm volatile("" ::: "memory");
    return row;
  }
};

}  // namespace company::storage

template <typename Callable>
[[gnu::noinline]] void call(const Callable& callable) {
  callable();
  asm volatile("" ::: "memory");
}

// A mangled name of Rust: `inventory::count_rows`.
extern "C" [[gnu::noinline]] void rust_function(std::size_t size) asm("_RNvCs1234_9inventory10count_rows");
void rust_function(std::size_t size) {
  kept[kept_count++] = (HERE(rust_line), malloc(size));
  asm volatile("" ::: "memory");
}

[[gnu::noinline]] int run() {
  company::storage::outer_function(1001);
  company::storage::Table<long, 1002> table;
  table.make_row(1);
  call([] {
    kept[kept_count++] = (HERE(lambda_line), malloc(1003));
    asm volatile("" ::: "memory");
  });
  rust_function(1004);
  return 0;
}

int main() {
  run();
  printf(
      "{\"size\": 1001, \"frames\": [[\"company::storage::inlined_inner(unsigned long)\", %d, true], "
      "[\"company::storage::inlined_middle(unsigned long)\", %d, true], "
      "[\"company::storage::outer_function(unsigned long)\", %d, false]]}\n",
      inner_line, middle_line, outer_line);
  printf(
      "{\"size\": 1002, \"frames\": [[\"operator new(unsigned long)\", 0, false], "
      "[\"company::storage::Table<long, 1002>::make_row(long const&)\", %d, false]]}\n",
      new_line);
  printf(
      "{\"size\": 1003, \"frames\": [[\"run()::{lambda*\", %d, true], "
      "[\"void call<run()::{lambda()#1}>*\", 0, false]]}\n",
      lambda_line);
  printf("{\"size\": 1004, \"frames\": [[\"inventory::count_rows\", %d, false]]}\n", rust_line);
  return 0;
}
