// heapprof push: what is sent and printed for each answer of a server, and what is refused. tests/e2e/push.py decodes
// the profiles.
#include <catch2/catch.hpp>

#include <sys/socket.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"
#include "tests/unit/cli/loopback.h"
#include "tests/unit/cli/wrong_command_lines.h"

using namespace heapprof::test;

namespace {

constexpr const char* kNotDelivered = "1 profile not delivered: 5 allocations of 7.75 KiB";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string url_of(std::uint16_t port) { return "http://127.0.0.1:" + std::to_string(port); }

/// Whether `text` is a whole request.
bool is_request(const std::string& text) {
  const std::string length = "Content-Length: ";
  const std::size_t end = text.find("\r\n\r\n"), at = text.find(length);
  return end != std::string::npos && at < end &&
         text.size() >= end + 4 + std::strtoull(text.c_str() + at + length.size(), nullptr, 10);
}

/// Takes one request, and answers it.
class Receiver {
 public:
  explicit Receiver(std::string answer) : answer_(std::move(answer)), port_(listener_.bind()) {
    listener_.listen();
    thread_ = std::thread([this] { serve(); });
  }
  ~Receiver() {
    if (thread_.joinable()) thread_.join();
  }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  std::string url() const { return url_of(port_); }
  /// The request; waits for it.
  const std::string& request() {
    thread_.join();
    return request_;
  }

 private:
  void serve() {
    const int descriptor = ::accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor < 0) return;
    LoopbackSocket connection(descriptor);
    request_ = connection.receive(is_request);
    connection.send(answer_);
  }

  const std::string answer_;
  LoopbackSocket listener_;
  const std::uint16_t port_;
  std::string request_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("push sends a profile, and prints what it has") {
  const KnownTrace trace;
  Receiver receiver("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  const Outcome outcome = run({"push", trace.path(), receiver.url()});
  const std::string request = receiver.request();
  CHECK(outcome.status == 0);
  CHECK(outcome.err == "");
  CHECK(outcome.has_line({"demo (process " + std::to_string(kMainTid) +
                          "), 0 s to 100 ms: 5 allocations of 7.75 KiB, 4.50 KiB live; sent "}));
  CHECK(request.starts_with("POST /ingest?"));
  CHECK(contains(request, "name=demo"));
  CHECK_FALSE(contains(request, "--fast"));
  CHECK(contains(request, "\r\n\r\n\x1f\x8b"));  // compressed by gzip
}

TEST_CASE("push -q prints nothing, and --protocol otlp has the path of a collector") {
  const KnownTrace trace;
  Receiver receiver("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  const Outcome outcome = run({"push", trace.path(), receiver.url(), "-q", "--protocol", "otlp"});
  CHECK(receiver.request().starts_with("POST /v1development/profiles "));
  CHECK(outcome.status == 0);
  CHECK(outcome.out == "");
  CHECK(outcome.err == "");
}

TEST_CASE("push says what was not delivered, and why, with exit status 1") {
  const KnownTrace trace;
  Receiver receiver("HTTP/1.1 401 Unauthorized\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\r\nno token");
  const Outcome refused = run({"push", trace.path(), receiver.url(), "--retries", "0"});
  CHECK(receiver.request().starts_with("POST "));
  CHECK(refused.status == 1);
  CHECK(refused.out == "");
  CHECK(contains(refused.err, receiver.url() + "/ingest: answered 401 Unauthorized: no token\n"));
  CHECK(contains(refused.err, kNotDelivered));

  LoopbackSocket closed;
  const std::string url = url_of(closed.bind());
  const Outcome down = run({"push", trace.path(), url, "--retries", "0"});
  CHECK(down.status == 1);
  CHECK(down.out == "");
  CHECK(contains(down.err, url + "/ingest: no connection (Connection refused"));
  CHECK(contains(down.err, kNotDelivered));
}

TEST_CASE("push without a recording sends nothing") {
  LoopbackSocket closed;
  const std::string url = url_of(closed.bind());
  for (const std::vector<std::string>& every : {std::vector<std::string>{}, {"--every", "1"}}) {
    std::vector<std::string> arguments = {"push", kNoFile, url};
    arguments.insert(arguments.end(), every.begin(), every.end());
    const Outcome outcome = run(arguments);
    CHECK(outcome.status == 1);
    CHECK(outcome.out == "");
    CHECK(contains(outcome.err, kNoFile));
    CHECK_FALSE(contains(outcome.err, "no connection"));
  }
}

TEST_CASE("push rejects a wrong command line with exit status 2 and names the error") {
  const KnownTrace trace;
  check_rejected({"push", trace.path()},
                 {{{}, "URL"},
                  {{"collector:4318"}, "expected http://HOST"},
                  {{"http://me:secret@host"}, "user or password"},
                  {{"http://host/?a=b"}, "query"},
                  {{"http://host:99999"}, "no port"},
                  {{"http://host", "--label", "a b=c"}, "--label"},
                  {{"http://host", "--every", "0"}, "--every"},
                  {{"http://host", "--every", "60", "--from", "1"}, "--from"},
                  {{"http://host", "--timeout", "0"}, "--timeout"},
                  {{"http://host", "--protocol", "grpc"}, "--protocol"},
                  {{"http://host", "--headers", kNoFile}, "cannot be read as a file of headers"},
                  {{"http://host", "another"}, "another"}});
}
