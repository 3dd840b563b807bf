// Who may ask the server.
#include <catch2/catch.hpp>

#include <set>

#include "analyzer/serve/access.h"

using namespace heapprof::serve;

namespace {

const std::string kToken = "0123456789abcdef0123456789abcdef";

Verdict verdict(const Credentials& credentials, bool changes_state = false,
                const std::string& address = "127.0.0.1") {
  return Access(kToken, address, 8080).check(credentials, changes_state);
}

const std::string kCookie = "heapprof_8080=" + kToken;
const std::string kBearer = "Bearer " + kToken;

}  // namespace

TEST_CASE("a token has 128 random bits") {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) {
    const std::string token = random_token();
    CHECK(token.size() == 32);
    CHECK(token.find_first_not_of("0123456789abcdef") == std::string::npos);
    tokens.insert(token);
  }
  CHECK(tokens.size() == 100);
}

TEST_CASE("texts are compared completely") {
  CHECK(equal_in_constant_time("", ""));
  CHECK(equal_in_constant_time("abc", "abc"));
  CHECK_FALSE(equal_in_constant_time("abc", "abd"));
  CHECK_FALSE(equal_in_constant_time("xbc", "abc"));
  CHECK_FALSE(equal_in_constant_time("abc", "abcd"));
  CHECK_FALSE(equal_in_constant_time("", "a"));
}

TEST_CASE("the token is accepted as a cookie, as a bearer, and as a parameter") {
  CHECK(verdict({.host = "localhost:8080", .cookie = kCookie}) == Verdict::kAllowed);
  CHECK(verdict({.host = "localhost:8080", .authorization = kBearer}) == Verdict::kAllowed);
  CHECK(verdict({.host = "localhost:8080", .authorization = "bearer " + kToken}) == Verdict::kAllowed);
  CHECK(verdict({.host = "localhost:8080", .token_parameter = kToken}) == Verdict::kAllowed);
}

TEST_CASE("without the right token nothing is allowed") {
  const std::string other = "heapprof_8081=" + kToken;
  CHECK(verdict({.host = "localhost"}) == Verdict::kNoToken);
  CHECK(verdict({.host = "localhost", .cookie = other}) == Verdict::kNoToken);
  CHECK(verdict({.host = "localhost", .cookie = "heapprof_8080="}) == Verdict::kNoToken);
  CHECK(verdict({.host = "localhost", .authorization = "Bearer "}) == Verdict::kNoToken);
  CHECK(verdict({.host = "localhost", .authorization = "Basic " + kToken}) == Verdict::kNoToken);
  CHECK(verdict({.host = "localhost", .token_parameter = kToken.substr(1)}) == Verdict::kNoToken);
}

TEST_CASE("only the server's own hosts are answered, whatever the port of a tunnel") {
  for (const char* const host : {"localhost", "LocalHost:1", "127.0.0.1:9", "[::1]:8080", "[::1]"})
    CHECK(verdict({.host = host, .cookie = kCookie}) == Verdict::kAllowed);
  for (const char* const host : {"", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil",
                                 "10.0.0.1", "[::1", "[", ":8080", "127.0.0.2"})
    CHECK(verdict({.host = host, .cookie = kCookie}) == Verdict::kWrongHost);
}

TEST_CASE("a server that listens elsewhere is asked by that address") {
  CHECK(verdict({.host = "10.0.0.1:80", .cookie = kCookie}, false, "10.0.0.1") == Verdict::kAllowed);
  CHECK(verdict({.host = "10.0.0.2:80", .cookie = kCookie}, false, "10.0.0.1") == Verdict::kWrongHost);
  CHECK(verdict({.host = "[fe80::1]:80", .cookie = kCookie}, false, "fe80::1") == Verdict::kAllowed);
  // Of all addresses, any address: only names can be made to resolve to another machine later.
  CHECK(verdict({.host = "10.0.0.2:80", .cookie = kCookie}, false, "0.0.0.0") == Verdict::kAllowed);
  CHECK(verdict({.host = "[fe80::2]", .cookie = kCookie}, false, "::") == Verdict::kAllowed);
  CHECK(verdict({.host = "evil.example", .cookie = kCookie}, false, "0.0.0.0") == Verdict::kWrongHost);
}

TEST_CASE("requests of other pages are refused") {
  const std::string own = "http://localhost:8080";
  CHECK(verdict({.host = "localhost:8080", .cookie = kCookie, .origin = own}) == Verdict::kAllowed);
  CHECK(verdict({.host = "localhost:8080", .cookie = kCookie, .fetch_site = "same-origin"}) == Verdict::kAllowed);
  CHECK(verdict({.host = "localhost:8080", .cookie = kCookie, .fetch_site = "none"}) == Verdict::kAllowed);
  for (const char* const origin : {"http://localhost:8081", "https://localhost:8080", "null", "http://evil.example"})
    CHECK(verdict({.host = "localhost:8080", .cookie = kCookie, .origin = origin}) == Verdict::kForeignPage);
  for (const char* const site : {"same-site", "cross-site"})
    CHECK(verdict({.host = "localhost:8080", .cookie = kCookie, .fetch_site = site}) == Verdict::kForeignPage);
  CHECK(verdict({.host = "localhost:8080", .authorization = kBearer, .origin = "null"}) == Verdict::kForeignPage);
}

TEST_CASE("a change needs the token as a bearer, or as a cookie with the server's own page as origin") {
  const std::string own = "http://localhost:8080";
  CHECK(verdict({.host = "localhost:8080", .cookie = kCookie}, true) == Verdict::kForeignPage);
  CHECK(verdict({.host = "localhost:8080", .cookie = kCookie, .origin = own}, true) == Verdict::kAllowed);
  CHECK(verdict({.host = "localhost:8080", .authorization = kBearer}, true) == Verdict::kAllowed);
  CHECK(verdict({.host = "localhost:8080", .token_parameter = kToken}, true) == Verdict::kNoToken);
}

TEST_CASE("the cookie is for this server only, and scripts cannot read it") {
  CHECK(Access(kToken, "127.0.0.1", 8080).set_cookie() ==
        "heapprof_8080=" + kToken + "; Path=/; HttpOnly; SameSite=Strict");
}
