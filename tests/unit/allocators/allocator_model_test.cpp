// Rules of the models, computed by hand. library_probe.cpp compares the models with the libraries.
#include <catch2/catch.hpp>

#include "analyzer/allocators/allocator_model.h"
#include "analyzer/allocators/jemalloc.h"
#include "analyzer/allocators/span_start.h"

using heapprof::AddressRange;
using namespace heapprof::allocators;

TEST_CASE("glibc: a chunk keeps the pages of its header and of the next free chunk's header") {
  const auto model = make_model(Allocator::kGlibc);
  CHECK(model->usable_bytes(0x10010, 0) == 24);
  CHECK(model->usable_bytes(0x10010, 24) == 24);
  CHECK(model->usable_bytes(0x10010, 25) == 40);
  CHECK(model->kept_range(0x10010, 24) == AddressRange{0x10000, 0x11000});
  // The chunk is 0x10fa0 to 0x10fc0; the 48 bytes of the next header end at 0x10ff0, and then at 0x11000 + 16.
  CHECK(model->kept_range(0x10fb0, 24) == AddressRange{0x10000, 0x11000});
  CHECK(model->kept_range(0x10fd0, 24) == AddressRange{0x10000, 0x12000});
  // The header is on the page before.
  CHECK(model->kept_range(0x11000, 24) == AddressRange{0x10000, 0x12000});
  CHECK(model->header_bytes(0x11000, 24) == 8);
  CHECK(model->header_bytes(0x7f0000000010, 200'000) == 16);
}

TEST_CASE("glibc: a large block at the beginning of a page is a mapping of its own") {
  const auto model = make_model(Allocator::kGlibc);
  CHECK(model->is_unmapped_by_free(0x7f0000000010, 200'000));
  CHECK_FALSE(model->is_unmapped_by_free(0x7f0000000020, 200'000));
  CHECK_FALSE(model->is_unmapped_by_free(0x7f0000000010, 100'000));
  // 200,000 + 8 rounded to 200,016; with 8 more to whole pages: 49 of them.
  CHECK(model->usable_bytes(0x7f0000000010, 200'000) == 49 * 4096 - 16);
  CHECK(model->kept_range(0x7f0000000010, 200'000) == AddressRange{0x7f0000000000, 0x7f0000031000});
}

TEST_CASE("jemalloc: a block keeps its slab, whose beginning follows from its address") {
  const auto model = make_model(Allocator::kJemalloc);
  CHECK(model->usable_bytes(0, 1) == 8);
  CHECK(model->usable_bytes(0, 129) == 160);
  CHECK(model->usable_bytes(0, 20'000) == 20'480);
  CHECK(Jemalloc::slab_bytes(80) == 5 * 4096);
  CHECK(Jemalloc::slab_bytes(4096) == 4096);
  // Slab of five pages at 0x40000: block 60 begins at 0x40000 + 4800, in its second page.
  CHECK(model->kept_range(0x40000 + 60 * 80, 80) == AddressRange{0x40000, 0x45000});
  CHECK(model->kept_range(0x40000 + 255 * 80, 70) == AddressRange{0x40000, 0x45000});
  // A large block begins anywhere on its first page.
  CHECK(model->kept_range(0x40040, 16'384) == AddressRange{0x40000, 0x45000});
}

TEST_CASE("tcmalloc: a block keeps its span of 8 KiB pages") {
  const auto model = make_model(Allocator::kTcmalloc);
  CHECK(model->usable_bytes(0, 9) == 16);
  CHECK(model->usable_bytes(0, 300'000) == 37 * 8192);
  CHECK(model->kept_range(0x40000 + 48 * 100, 40) == AddressRange{0x40000, 0x42000});
  CHECK(model->kept_range(0x40000, 300'000) == AddressRange{0x40000, 0x8a000});
  CHECK_FALSE(model->is_unmapped_by_free(0x40000, 300'000));
}

TEST_CASE("mimalloc: small blocks keep 64 KiB, medium ones 512 KiB that begin at a multiple of 64 KiB") {
  const auto model = make_model(Allocator::kMimalloc);
  CHECK(model->usable_bytes(0, 65) == 80);
  CHECK(model->usable_bytes(0, 131'073) == 3 * 65'536);
  CHECK(model->usable_bytes(0, 600'000) == 1'048'576);
  CHECK(model->kept_range(0x123456, 100) == AddressRange{0x120000, 0x130000});
  // Blocks of 28 KiB; the fourth of a page at 0x150000.
  CHECK(model->kept_range(0x150000 + 3 * 28'672, 28'000) == AddressRange{0x150000, 0x1d0000});
  CHECK(model->is_unmapped_by_free(0x150000, 17 << 20));
}

TEST_CASE("an unknown allocator: the pages of the bytes") {
  const auto model = make_model(Allocator::kUnknown);
  CHECK(model->usable_bytes(0x1000, 17) == 17);
  CHECK(model->kept_range(0x1ff0, 17) == AddressRange{0x1000, 0x3000});
  CHECK(model->kept_range(0x1000, 0) == AddressRange{0x1000, 0x2000});
}

TEST_CASE("the beginning of a span") {
  // Sizes that are powers of two fit several beginnings: the one that is a multiple of the length is taken.
  CHECK(span_start(0x6000, 0x1000, 0x2000, 2) == 0x4000);
  CHECK(span_start(0x4000, 0x1000, 0x2000, 2) == 0x4000);
  // 0x5000 is 1 KiB behind a block of 3 KiB that begins at 0x4000 - 0x1000 * 2.
  CHECK(span_start(0x3000 + 0xc00, 0xc00, 0x1000, 3) == 0x3000);
  // No beginning is possible: the block's own unit.
  CHECK(span_start(0x3008, 0xc00, 0x1000, 3) == 0x3000);
  // The beginning of the address space.
  CHECK(span_start(0x10, 0xc00, 0x1000, 3) == 0);
}
