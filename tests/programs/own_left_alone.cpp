// An allocator of which three functions cannot be diverted, as they branch into their own first instructions: what
// comes from je_calloc, goes by je_sdallocx or moves by je_rallocx is not recorded. own_left_alone 1 calls each as
// often as the test knows, own_left_alone 0 none. Nobody calls je_memalign, of which the symbol table says that it is a
// gigabyte long.
#include <cstddef>
#include <cstring>

extern "C" {

struct Slot {
  Slot* next;
  char rest[1016];
};
Slot own_slots[256];
Slot* own_next = own_slots;
Slot* own_free = nullptr;

// The last released is the first given out.
[[gnu::noinline]] void* own_take() {
  if (own_free == nullptr) return own_next++;
  Slot* slot = own_free;
  own_free = slot->next;
  return slot;
}
[[gnu::noinline]] void own_give(void* block) {
  auto* slot = static_cast<Slot*>(block);
  slot->next = own_free;
  own_free = slot;
}

[[gnu::noinline]] void* je_malloc(std::size_t) { return own_take(); }
[[gnu::noinline]] void je_dallocx(void* block, int) { own_give(block); }

void* je_calloc(std::size_t, std::size_t);
void* je_rallocx(void*, std::size_t, int);
void je_sdallocx(void*, std::size_t, int);
void* own_calloc(std::size_t, std::size_t) { return std::memset(own_take(), 0, sizeof(Slot)); }
void* own_rallocx(void* block, std::size_t, int) {
  void* moved = own_take();
  own_give(block);
  return moved;
}
void own_sdallocx(void* block, std::size_t, int) { own_give(block); }
}

asm(R"(
        .text
        .macro left_alone name
        .globl  je_\name
        .type   je_\name, @function
je_\name:
        .cfi_startproc
        xorl    %eax, %eax
1:      incl    %eax
        cmpl    $3, %eax
        jne     1b
        jmp     own_\name
        .cfi_endproc
        .size   je_\name, . - je_\name
        .endm
        left_alone calloc
        left_alone rallocx
        left_alone sdallocx
        .globl  je_memalign
        .type   je_memalign, @function
je_memalign:
        .cfi_startproc
        xorl    %eax, %eax
        movq    %rsi, %rdi
        jmp     own_take
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
