// What a URL means, what requests look like, and what answers mean, also those that are meant to harm.
#include "analyzer/push/endpoint.h"
#include "tests/support/seed.h"

#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

using namespace heapprof::push;

namespace {

std::string endpoint(const std::string& text, std::optional<Protocol> protocol = {}) {
  const Endpoint found = endpoint_of(text, protocol);
  return std::string(found.protocol == Protocol::kOtlp ? "otlp " : "pyroscope ") + found.url.text();
}

Answer answer(unsigned status, std::string body = {}, std::string retry_after = {}) {
  Answer made;
  made.status = status;
  made.content_type = "application/x-protobuf";
  made.retry_after = std::move(retry_after);
  made.body = std::move(body);
  return made;
}

Verdict::Kind kind_of(Protocol protocol, unsigned status) { return verdict_of(protocol, answer(status)).kind; }

}  // namespace

TEST_CASE("the URL decides the protocol") {
  CHECK(endpoint("http://host") == "pyroscope http://host:80/ingest");
  CHECK(endpoint("https://host/") == "pyroscope https://host:443/ingest");
  CHECK(endpoint("http://host:4040/base//") == "pyroscope http://host:4040/base/ingest");
  CHECK(endpoint("http://host/ingest") == "pyroscope http://host:80/ingest");
  CHECK(endpoint("http://host:4318") == "otlp http://host:4318/v1development/profiles");
  CHECK(endpoint("http://host:9/v1development/profiles") == "otlp http://host:9/v1development/profiles");
  CHECK(endpoint("http://host:9/v1/profiles") == "otlp http://host:9/v1/profiles");
  CHECK(endpoint("http://[::1]:4318/a") == "otlp http://[::1]:4318/a/v1development/profiles");
  CHECK(endpoint("http://host:4318", Protocol::kPyroscope) == "pyroscope http://host:4318/ingest");
  CHECK(endpoint("http://host", Protocol::kOtlp) == "otlp http://host:80/v1development/profiles");
}

TEST_CASE("what is no URL is refused") {
  for (const char* const text : {"",
                                 "host",
                                 "ftp://host",
                                 "http://",
                                 "http:///path",
                                 "http://:80",
                                 "http://host:",
                                 "http://host:0",
                                 "http://host:65536",
                                 "http://host:80x",
                                 "http://a b",
                                 "http://host/\r\nX: y",
                                 "http://host/?a",
                                 "http://host#a",
                                 "http://user@host",
                                 "http://user:password@host",
                                 "http://[::1",
                                 "http://[host]",
                                 "http://[::1]x",
                                 "http://h\xc3\xb6st",
                                 "http://host\\path"}) {
    INFO(text);
    CHECK_THROWS_AS(endpoint_of(text, {}), std::invalid_argument);
  }
}

TEST_CASE("labels with odd characters") {
  const Parcel parcel{"my service{}",
                      {{"host.name", "a,b}c&d"}, {"empty", ""}, {"x", "\xc3\xbc="}},
                      1'500'000'000,
                      1'600'000'000,
                      "body"};
  const Request request = request_of(endpoint_of("http://host", {}), parcel, {{"A", "b"}});
  CHECK(request.query ==
        "name=my_service__%7Bhost_name%3Da_b_c%26d%2Cx%3D%C3%BC%3D%7D&from=1&until=2&format=pprof&spyName=heapprof");
  CHECK(request.headers.front() == std::pair<std::string, std::string>("A", "b"));
  CHECK(request.body == "body");
}

TEST_CASE("statuses") {
  using Kind = Verdict::Kind;
  for (const Protocol protocol : {Protocol::kPyroscope, Protocol::kOtlp}) {
    for (const unsigned status : {200, 202, 204}) CHECK(kind_of(protocol, status) == Kind::kDelivered);
    for (const unsigned status : {429, 502, 503, 504}) CHECK(kind_of(protocol, status) == Kind::kTryAgain);
    for (const unsigned status : {301, 308, 401, 403, 404, 405}) CHECK(kind_of(protocol, status) == Kind::kUnusable);
    for (const unsigned status : {400, 413, 422}) CHECK(kind_of(protocol, status) == Kind::kRefused);
  }
  CHECK(kind_of(Protocol::kPyroscope, 500) == Kind::kTryAgain);
  CHECK(kind_of(Protocol::kOtlp, 500) == Kind::kRefused);
  CHECK(verdict_of(Protocol::kOtlp, answer(503, {}, "7")).retry_after == 7u);
  for (const char* const wrong : {"", "-1", "7s", "99999999999", "Wed, 21 Oct 2015 07:28:00 GMT"})
    CHECK(!verdict_of(Protocol::kOtlp, answer(503, {}, wrong)).retry_after);
}

TEST_CASE("answers of any bytes") {
  std::mt19937_64 random{heapprof::test::seed(26)};
  for (int i = 0; i < 20'000; ++i) {
    std::string body;
    for (std::size_t left = random() % 40; left != 0; --left)
      body += static_cast<char>(random() % 3 == 0 ? random() % 16 : random());
    const Verdict verdict = verdict_of(Protocol::kOtlp, answer(i % 2 == 0 ? 200 : 400, body));
    CHECK(verdict.reason.size() < 1000);
    CHECK(verdict.reason.find('\x1b') == std::string::npos);
  }
}

TEST_CASE("headers") {
  CHECK(parse_headers("", "f").empty());
  CHECK(parse_headers("# c\r\n\nA:b\r\nC-d:  e f \n", "f") == Headers{{"A", "b"}, {"C-d", "e f"}});
  for (const char* const wrong : {"a", ": b", "a b: c", "content-type: x", "Transfer-Encoding: chunked", "A: b\x01",
                                  "A: b\x7f", "A\xc3\xb6: b"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_headers(wrong, "f"), std::invalid_argument);
  }
}
