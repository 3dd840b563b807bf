// SipHash-1-3, compared with the hash() of bytes of CPython 3.11 and later, which is the same function:
//
//   PYTHONHASHSEED=0 python3.11 -c 'print(hex(hash(b"heapprof") % 2**64))'
//
// Seed 0 is a key of zeros. From another seed CPython computes the key (lcg_urandom() in Python/bootstrap_hash.c).
#include "analyzer/base/sip_hash.h"

#include <catch2/catch.hpp>

#include <string>

using heapprof::sip_hash;
using heapprof::SipKey;

TEST_CASE("Hashes of texts are those of CPython") {
  const std::string long_text(300, 'x');  // the length counts modulo 256
  SECTION("with a key of zeros") {
    constexpr SipKey kKey = {0, 0};
    CHECK(sip_hash("a", kKey) == 0x407448d2b89b1813);
    CHECK(sip_hash("0123456", kKey) == 0x810aaf7acf670379);
    CHECK(sip_hash("heapprof", kKey) == 0x635ad386245f625d);
    CHECK(sip_hash("std::vector<int>::push_back(int const&)", kKey) == 0xf7cf9ed362c9e19a);
    CHECK(sip_hash(long_text, kKey) == 0x2f58903130dc04e4);
  }
  SECTION("with the key of seed 1") {
    constexpr SipKey kKey = {0xaed66ce184be2329, 0xebe9bbf1f1499052};
    CHECK(sip_hash("a", kKey) == 0xd6300bc9f7cc0e73);
    CHECK(sip_hash("1234567", kKey) == 0x84a31031575efe31);
    CHECK(sip_hash("heapprof", kKey) == 0xae38f1abdf090526);
    CHECK(sip_hash("operator new(unsigned long)", kKey) == 0xd79e47b4b4efc446);
    CHECK(sip_hash(long_text, kKey) == 0x805df1aea2a237b6);
  }
}
