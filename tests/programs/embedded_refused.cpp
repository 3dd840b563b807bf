// An allocator with functions that cannot be patched. je_calloc, je_rallocx and je_sdallocx branch into their own
// first instructions; the symbol of je_memalign, which is never called, has a size of a gigabyte.
//
// usage: embedded_refused 1|0    1 calls the functions as often as the test expects, 0 calls none
#include <cstddef>
#include <cstring>

extern "C" {

struct Slot {
  Slot* next;
  char rest[1016];
};
Slot test_slots[256];
Slot* test_next = test_slots;
Slot* test_free = nullptr;

// The block that was freed last is allocated first.
[[gnu::noinline]] void* test_allocate() {
  if (test_free == nullptr) return test_next++;
  Slot* slot = test_free;
  test_free = slot->next;
  return slot;
}
[[gnu::noinline]] void test_release(void* block) {
  auto* slot = static_cast<Slot*>(block);
  slot->next = test_free;
  test_free = slot;
}

[[gnu::noinline]] void* je_malloc(std::size_t) { return test_allocate(); }
[[gnu::noinline]] void je_dallocx(void* block, int) { test_release(block); }

void* je_calloc(std::size_t, std::size_t);
void* je_rallocx(void*, std::size_t, int);
void je_sdallocx(void*, std::size_t, int);
void* test_calloc(std::size_t, std::size_t) { return std::memset(test_allocate(), 0, sizeof(Slot)); }
void* test_rallocx(void* block, std::size_t, int) {
  void* moved = test_allocate();
  test_release(block);
  return moved;
}
void test_sdallocx(void* block, std::size_t, int) { test_release(block); }
}

asm(R"(
        .text
        .macro refused name
        .globl  je_\name
        .type   je_\name, @function
je_\name:
        .cfi_startproc
        xorl    %eax, %eax
1:      incl    %eax
        cmpl    $3, %eax
        jne     1b
        jmp     test_\name
        .cfi_endproc
        .size   je_\name, . - je_\name
        .endm
        refused calloc
        refused rallocx
        refused sdallocx
        .globl  je_memalign
        .type   je_memalign, @function
je_memalign:
        .cfi_startproc
        xorl    %eax, %eax
        movq    %rsi, %rdi
        jmp     test_allocate
        .cfi_endproc
        .size   je_memalign, 1 << 30
)");

int main(int, char** arguments) {
  if (arguments[1][0] == '0') return 0;
  for (int i = 0; i < 10; ++i) je_malloc(100);
  for (int i = 0; i < 3; ++i) je_calloc(1, 150);
  for (int i = 0; i < 7; ++i) je_dallocx(je_calloc(2, 100), 0);
  je_dallocx(je_rallocx(je_malloc(400), 500, 0), 0);
  void* blocks[5];
  for (void*& block : blocks) block = je_malloc(300);
  for (void* block : blocks) je_sdallocx(block, 300, 0);
  for (int i = 0; i < 2; ++i) je_malloc(310);
  return 0;
}
