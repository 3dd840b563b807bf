// Decodes the columns of frames for trace_reader.py, which calls it with ctypes: in Python, that took most of the
// time of the tests that read traces. Like trace_reader.py it is written from common/event_codec.h, and uses none of
// heapprof's code.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { HEAD, TIME, ADDRESS, NODE, RARE, TEXT, COLUMNS };
enum { OP_ALLOC = 1, OP_FREE = 2, OP_REALLOC_END = 5, OP_NODE = 16, OP_TEXT = 18, OP_LAST = 21 };
// In HEAD, in place of the op of a node: plus what RARE has of it.
enum { NODE_DIFFERENCES = 24, HAS_NUMBER = 1, HAS_PARENT = 2, HAS_MODULE = 4 };

// Which fields of a record an op has: the heap address and the stack in columns of their own, the others in RARE.
enum { HEAP_ADDRESS = 1, STACK = 2, RARE_SIZE = 4, RARE_ADDRESS = 8, RARE_NODE = 16, RARE_AUX = 32 };
static const uint8_t fields_of[OP_LAST + 1] = {
    [1] = HEAP_ADDRESS | STACK,                              // alloc
    [2] = HEAP_ADDRESS,                                      // free
    [3] = HEAP_ADDRESS | STACK,                              // free with a stack
    [4] = HEAP_ADDRESS,                                      // realloc begins
    [5] = HEAP_ADDRESS | STACK,                              // realloc ends
    [6] = STACK | RARE_SIZE,                                 // realloc failed
    [7] = STACK | RARE_SIZE,                                 // alloc failed
    [8] = STACK | RARE_SIZE | RARE_ADDRESS | RARE_AUX,       // map
    [9] = RARE_SIZE | RARE_ADDRESS,                          // unmap begins
    [12] = RARE_SIZE | RARE_ADDRESS,                         // remap begins
    [13] = STACK | RARE_SIZE | RARE_ADDRESS,                 // remap ends
    [15] = STACK | RARE_SIZE | RARE_ADDRESS,                 // brk
    [16] = RARE_SIZE | RARE_ADDRESS | RARE_NODE | RARE_AUX,  // node
    [17] = RARE_SIZE | RARE_ADDRESS,                         // sample
    [18] = RARE_SIZE | RARE_ADDRESS | RARE_NODE | RARE_AUX,  // text
    [19] = RARE_ADDRESS,                                     // start of a block
};

struct column {
  const uint8_t *at, *end;
};

struct record {
  uint64_t op, time, address, size, node, aux;
  uint64_t text;  // of a text: where its bytes begin in the content
};

// False: the column ends before the varint does, or the varint has more than 64 bits.
static int next(struct column* column, uint64_t* value) {
  *value = 0;
  for (unsigned shift = 0; shift < 64 && column->at < column->end; shift += 7) {
    const uint8_t byte = *column->at++;
    *value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return shift < 63 || byte <= 1;
  }
  return 0;
}

// What a value of zigzag stands for, modulo 2^64.
static uint64_t unzigzag(uint64_t value) { return (value >> 1) ^ -(value & 1); }

// The last node that was encoded as differences.
struct node {
  uint32_t number, module;
};

// False: the column ends before all numbers of the node do.
static int next_node(struct column* rare, unsigned has, struct node* last, struct record* record) {
  uint64_t number = 1, to_parent = 0, module = (uint64_t)last->module << 1;
  if ((has & HAS_NUMBER) && !next(rare, &number)) return 0;
  if ((has & HAS_PARENT) && !next(rare, &to_parent)) return 0;
  if ((has & HAS_MODULE) && !next(rare, &module)) return 0;
  record->op = OP_NODE;
  record->node = (uint32_t)(last->number + number);
  const uint32_t parent = has & HAS_PARENT ? (uint32_t)(record->node - to_parent) : last->number;
  *last = (struct node){(uint32_t)record->node, (uint32_t)(module >> 1) & 0xffffff};
  record->size = (uint64_t)last->module << 32 | parent;
  record->aux = module & 1;
  return next(rare, &record->address);
}

// Decodes `count` records from the content of a frame; `old`: of a recording of version 1. Returns NULL, or how the
// content violates the format.
const char* decode_columns(const uint8_t* content, uint64_t bytes, uint64_t first_time, uint32_t count, int old,
                           struct record* out) {
  uint32_t sizes[COLUMNS];
  struct column columns[COLUMNS];
  if (bytes < sizeof sizes) return "no sizes of columns";
  memcpy(sizes, content, sizeof sizes);
  uint64_t at = sizeof sizes;
  for (int i = 0; i < COLUMNS; ++i) {
    if (sizes[i] > bytes - at) return "columns exceed their content";
    columns[i] = (struct column){content + at, content + at + sizes[i]};
    at += sizes[i];
  }
  if (at != bytes) return "columns do not fill their content";

  uint64_t time = first_time;
  uint64_t heap_address = 0;
  uint64_t same_time = 0;  // further records of the current run
  uint64_t stack = 0;
  struct node last_node = {0, 0};
  for (struct record* record = out; record != out + count; ++record) {
    uint64_t head, value;
    memset(record, 0, sizeof *record);
    if (!next(&columns[HEAD], &head)) return "the column of heads is too short";
    if (same_time) {
      --same_time;
    } else {
      if (!next(&columns[TIME], &value)) return "the column of times is too short";
      if (old) time += value;
      else if (value & 1) same_time = value >> 1;
      else time += value >> 1;
    }
    record->time = time;
    switch (head & 3) {
      case 0:
        if (head != 0) return "a free with a size";
        record->op = OP_FREE;
        break;
      case 1: record->op = OP_ALLOC, record->size = head >> 2; break;
      case 2: record->op = head >> 2; break;
      case 3: record->op = OP_REALLOC_END, record->size = head >> 2; break;
    }
    if (!old && (head & 3) == 2 && record->op >> 3 == NODE_DIFFERENCES >> 3) {
      if (!next_node(&columns[RARE], (unsigned)(record->op & 7), &last_node, record))
        return "the column of rare fields is too short";
      continue;
    }
    if (record->op == 0 || record->op > OP_LAST) return "an unknown op";
    const uint8_t fields = fields_of[record->op];
    if (fields & HEAP_ADDRESS) {
      if (!next(&columns[ADDRESS], &value)) return "the column of addresses is too short";
      heap_address += unzigzag(value);
      record->address = heap_address << 4 | heap_address >> 60;
    }
    if (fields & STACK) {
      if (!next(&columns[NODE], &value)) return "the column of stacks is too short";
      stack = old ? value : (uint32_t)(stack + unzigzag(value));
      record->node = stack;
    }
    if (((fields & RARE_SIZE) && !next(&columns[RARE], &record->size)) ||
        ((fields & RARE_ADDRESS) && !next(&columns[RARE], &record->address)) ||
        ((fields & RARE_NODE) && !next(&columns[RARE], &record->node)) ||
        ((fields & RARE_AUX) && !next(&columns[RARE], &record->aux)))
      return "the column of rare fields is too short";
    if (record->op == OP_TEXT) {
      if (record->aux > (uint64_t)(columns[TEXT].end - columns[TEXT].at)) return "a text exceeds its column";
      record->text = (uint64_t)(columns[TEXT].at - content);
      columns[TEXT].at += record->aux;
    }
  }
  if (same_time) return "a run of times exceeds the records";
  for (int i = 0; i < COLUMNS; ++i)
    if (columns[i].at != columns[i].end) return "a column has more values than its records use";
  return NULL;
}
