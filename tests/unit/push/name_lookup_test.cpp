// A request ends in time, also while the name of its host is looked up. The getaddrinfo() of this program, which the
// program and libcurl call instead of libc's, does not return for a host whose name servers are silent.
#include <catch2/catch.hpp>

#include <dlfcn.h>
#include <netdb.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

#include "analyzer/push/http.h"
#include "tests/support/skip_case.h"

using namespace heapprof::push;

namespace {

constexpr std::chrono::milliseconds kShort{100};
constexpr std::chrono::milliseconds kLong{60'000};

/// The calls for the host with silent name servers.
struct SilentHost {
  std::mutex mutex;
  std::condition_variable changed;
  bool answers = true;
  int begun = 0;
  int running = 0;

  int look_up() {
    std::unique_lock lock(mutex);
    ++begun;
    ++running;
    changed.notify_all();
    // A request that waits for it does not hang: it returns, and the test finds that no lookup is running.
    changed.wait_for(lock, std::chrono::seconds(20), [this] { return answers; });
    --running;
    changed.notify_all();
    return EAI_NONAME;
  }
  /// Of the calls so far; waits for the first one, at most 20 s.
  int count_running() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(20), [this] { return begun != 0; });
    return running;
  }
};

SilentHost silent;

/// The error of a request that gets no answer.
HttpError error_of(const std::string& url, std::chrono::milliseconds timeout, bool stopped = false) {
  Request request;
  request.url = parse_url(url);
  request.timeout = timeout;
  try {
    post(request, [stopped] { return stopped; });
  } catch (const HttpError& error) {
    return error;
  }
  return {HttpError::Kind::kHopeless, "it has an answer"};
}

/// While it exists, the host is silent. Then all lookups end, so that the next request begins one of its own.
class Silence {
 public:
  Silence() {
    const std::lock_guard lock(silent.mutex);
    silent.answers = false;
    silent.begun = 0;
  }
  ~Silence() {
    {
      std::unique_lock lock(silent.mutex);
      silent.answers = true;
      silent.changed.notify_all();
      silent.changed.wait(lock, [] { return silent.running == 0; });
    }
    // A lookup ends later than its call: this request waits for it if it has not ended.
    error_of("http://silent.example/", kLong);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
};

}  // namespace

extern "C" int getaddrinfo(const char* host, const char*, const addrinfo*, addrinfo** list) {
  if (std::string_view(host) == "no-address.example") {
    *list = nullptr;
    return 0;
  }
  return std::string_view(host) == "silent.example" ? silent.look_up() : EAI_NONAME;
}

TEST_CASE("a request to a host whose lookup does not end ends in time") {
  const Silence silence;
  const HttpError error = error_of("http://silent.example/", kShort);
  CHECK(error.what() == std::string("the host was not found in time"));
  CHECK(error.kind() == HttpError::Kind::kTryAgain);
  CHECK(silent.count_running() == 1);

  SECTION("the next one waits for the same lookup") {
    CHECK(error_of("http://silent.example/", kShort).what() == std::string("the host was not found in time"));
    CHECK(silent.begun == 1);
  }
  SECTION("one that is stopped ends, too") {
    CHECK(error_of("http://silent.example/", kLong, true).kind() == HttpError::Kind::kStopped);
    CHECK(silent.count_running() == 1);
  }
  SECTION("one to another host does not wait for it") {
    CHECK(std::string(error_of("http://unknown.example/", kLong).what()).starts_with("the host is not known ("));
    CHECK(silent.count_running() == 1);
  }
}

TEST_CASE("the error of a host without an address says what it lacks") {
  CHECK(std::string(error_of("http://no-address.example/", kLong).what()) ==
        "the host is not known (it has no IPv4 or IPv6 address)");
}

TEST_CASE("a lookup that has ended is not used again") {
  {
    const Silence silence;
    CHECK(error_of("http://silent.example/", kShort).what() == std::string("the host was not found in time"));
    CHECK(silent.count_running() == 1);
  }
  CHECK(std::string(error_of("http://silent.example/", kLong).what()).starts_with("the host is not known ("));
  const Silence silence;
  CHECK(error_of("http://silent.example/", kShort).what() == std::string("the host was not found in time"));
  CHECK(silent.count_running() == 1);
}

TEST_CASE("a request of https to a host whose lookup does not end ends in time") {
  void* const curl = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (curl == nullptr) return heapprof::test::skip_case("libcurl is not installed");
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(curl, "curl_version"));
  int major = 0, minor = 0;
  if (version == nullptr || std::sscanf(version(), "libcurl/%d.%d", &major, &minor) != 2 ||
      (major == 7 && minor < 87))
    return heapprof::test::skip_case("libcurl waits for lookups before version 7.87");
  for (const char* const proxy : {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}) ::unsetenv(proxy);
  const Silence silence;
  CHECK(error_of("https://silent.example/", kShort).what() == std::string("no answer in time"));
  CHECK(silent.count_running() == 1);
}
