#include "analyzer/render/utf8.h"

#include <catch2/catch.hpp>

using namespace heapprof::render;

namespace {
const std::string kBad = "\xef\xbf\xbd";
}

TEST_CASE("clean text is unchanged") {
  for (const std::string text :
       {"", "main", "std::vector<int>", "gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x94\xa5", "\xf4\x8f\xbf\xbf"})
    CHECK(clean_utf8(text) == text);
}

TEST_CASE("each invalid byte becomes a replacement character") {
  CHECK(clean_utf8("a\xff"
                   "b") == "a" + kBad + "b");
  CHECK(clean_utf8("\xc3") == kBad);  // cut short
  CHECK(clean_utf8("\xe2\x82") == kBad + kBad);
  CHECK(clean_utf8("\xc0\xaf") == kBad + kBad);                        // overlong /
  CHECK(clean_utf8("\xe0\x80\x80") == kBad + kBad + kBad);             // overlong
  CHECK(clean_utf8("\xed\xa0\x80") == kBad + kBad + kBad);             // surrogate
  CHECK(clean_utf8("\xf4\x90\x80\x80") == kBad + kBad + kBad + kBad);  // beyond U+10FFFF
  CHECK(clean_utf8("\x80") == kBad);
  CHECK(clean_utf8("\xc3\x28") == kBad + "(");  // the second byte starts anew
}

TEST_CASE("control characters and those that XML forbids are replaced") {
  CHECK(clean_utf8(std::string("\0", 1)) == kBad);
  CHECK(clean_utf8("a\nb\tc\x1b[31m\x7f") == "a" + kBad + "b" + kBad + "c" + kBad + "[31m" + kBad);
  CHECK(clean_utf8("\xc2\x85\xc2\x9b") == kBad + kBad);  // C1
  CHECK(clean_utf8("\xc2\xa0") == "\xc2\xa0");
  CHECK(clean_utf8("\xef\xbf\xbe\xef\xbf\xbf") == kBad + kBad);
}

TEST_CASE("clipping counts characters, not bytes") {
  CHECK(clip_utf8("abc", 3) == "abc");
  CHECK(clip_utf8("abcd", 3) == "ab\xe2\x80\xa6");
  CHECK(clip_utf8("\xc3\xbc\xc3\xbc\xc3\xbc", 2) == "\xc3\xbc\xe2\x80\xa6");
  CHECK(clip_utf8("abc", 0).empty());
  CHECK(clip_utf8("ab", 1) == "\xe2\x80\xa6");
  CHECK(length_utf8("\xc3\xbc\xe2\x82\xac") == 2);
}

TEST_CASE("padding counts characters, not bytes, and never clips") {
  CHECK(pad_left("ab", 4) == "  ab");
  CHECK(pad_right("ab", 4) == "ab  ");
  CHECK(pad_left("\xc3\xbc", 2) == " \xc3\xbc");
  CHECK(pad_right("\xc3\xbc", 2) == "\xc3\xbc ");
  CHECK(pad_left("abc", 2) == "abc");
  CHECK(pad_right("abc", 2) == "abc");
}
