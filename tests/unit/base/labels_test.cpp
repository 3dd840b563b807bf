// Labels as one text: what the launcher writes is what the recorder accepts and the analyzer reads.
#include "analyzer/base/labels.h"

#include <catch2/catch.hpp>

#include <string>

#include "common/settings_grammar.h"

using namespace heapprof;

TEST_CASE("labels with any characters are the same after encoding and decoding") {
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  const Labels labels = {{"a", ""},    {"b.c/d-e_9", "x=y=z"},        {"comma", "a,b,,c"}, {"percent", "100%,%2C"},
                         {"all", all}, {"text", "K\xc3\xb6ln \"1\""}, {"blank", " a  b "}};
  const std::string text = encode_labels(labels);
  CHECK(is_labels_setting(text.c_str()));
  CHECK(decode_labels(text) == labels);
  CHECK(encode_labels({{"env", "prod"}, {"note", "a,b c"}}) == "env=prod,note=a%2Cb%20c");
  CHECK(encode_labels({}).empty());
}

TEST_CASE("what is no label is left out, and of two with one key the last counts") {
  CHECK(decode_labels("").empty());
  CHECK(decode_labels(",,=x,y,") == Labels{});
  CHECK(decode_labels("a=1,nonsense,b=%zz%4,a=2%") == Labels{{"a", "2%"}, {"b", "%zz%4"}});
}

TEST_CASE("the recorder accepts labels that are complete, and nothing else") {
  const std::string key(kMaxLabelKeyBytes, 'k');
  for (const std::string& good : {std::string(), std::string("a="), std::string("a=b"), std::string("a=b=c,d=e"),
                                  std::string("k8s.pod/name=x-1_2"), std::string("a=%00%ff%2C"), key + "=",
                                  "a=" + std::string(kMaxLabelsBytes - 2, 'x')}) {
    INFO(good);
    CHECK(is_labels_setting(good.c_str()));
  }
  for (const std::string& bad :
       {std::string("a"), std::string("=b"), std::string("a=b,"), std::string(",a=b"), std::string("a b=c"),
        std::string("a=%"), std::string("a=%2"), std::string("a=%2x"), std::string("a=b\nc"), std::string("a=\x7f"),
        std::string("a=\xc3\xb6"), "k" + key + "=", "a=" + std::string(kMaxLabelsBytes - 1, 'x')}) {
    INFO(bad);
    CHECK_FALSE(is_labels_setting(bad.c_str()));
  }
}
