// heapprof serve: the address, an answer, the end, and what is refused. tests/e2e/serve.py tests the server.
#include <catch2/catch.hpp>

#include <csignal>
#include <cstdlib>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/temporary_file.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"
#include "tests/unit/cli/loopback.h"
#include "tests/unit/cli/wrong_command_lines.h"

using namespace heapprof::test;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The line that a server prints first, read by another thread: run() redirects standard output to a file in memory.
/// Empty: the server has ended before.
std::string address_of_server(const std::atomic<bool>& ended) {
  while (!ended) {
    char text[256];
    const ssize_t bytes = ::pread(STDOUT_FILENO, text, sizeof text, 0);
    const std::string line(text, bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
    if (line.starts_with("http://") && line.ends_with('\n')) return line.substr(0, line.size() - 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

/// The answer of the server at `address` ("http://127.0.0.1:PORT/?token=TOKEN").
std::string get(const std::string& address, const std::string& path, bool with_token) {
  const std::string host = address.substr(7, address.find('/', 7) - 7);
  const std::string token = address.substr(address.find("token=") + 6);
  LoopbackSocket connection;
  if (!connection.connect(static_cast<std::uint16_t>(std::stoul(host.substr(host.find(':') + 1))))) return {};
  connection.send("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" +
                  (with_token ? "Authorization: Bearer " + token + "\r\n" : std::string()) + "\r\n");
  return connection.receive([](const std::string&) { return false; });
}

}  // namespace

TEST_CASE("serve prints its address, answers with the figures of the recording, and ends with SIGINT") {
  const KnownTrace trace;
  std::atomic<bool> ended = false;
  std::string address, refused, report;
  std::thread client([&] {
    address = address_of_server(ended);
    if (address.empty()) return;
    refused = get(address, "/api/report", false);
    report = get(address, "/api/report", true);
    ::kill(::getpid(), SIGINT);
  });
  const Outcome outcome = run({"serve", trace.path(), "--no-open"});
  ended = true;
  client.join();
  CHECK(outcome.status == 0);
  CHECK(outcome.out == address + "\n");
  CHECK(address.starts_with("http://127.0.0.1:"));
  CHECK(contains(outcome.err, "serving " + trace.path() + "; Ctrl-C ends it\n"));
  CHECK(refused.starts_with("HTTP/1.1 401 "));
  CHECK_FALSE(contains(refused, "peak_bytes"));
  CHECK(report.starts_with("HTTP/1.1 200 "));
  CHECK(contains(report, "\"peak_bytes\":" + std::to_string(kPeakBytes)));
  CHECK(contains(report, "\"leaked_bytes\":" + std::to_string(kLeakedBytes)));
}

TEST_CASE("serve is refused without a recording, and where it cannot listen") {
  const KnownTrace trace;
  const TemporaryFile text;
  std::ofstream(text.path()) << "no trace";
  std::string directory = "/tmp/heapprof-test-XXXXXX";
  REQUIRE(::mkdtemp(directory.data()) != nullptr);
  LoopbackSocket taken;
  const std::string port = std::to_string(taken.bind());
  taken.listen();
  struct Refused {
    std::vector<std::string> arguments;
    std::string message;
  };
  for (const Refused& refused :
       {Refused{{kNoFile}, kNoFile}, Refused{{trace.path(), kNoFile}, kNoFile}, Refused{{text.path()}, text.path()},
        Refused{{directory}, directory + ": there is no recording (*.heapprof, *.hprof) in this directory"},
        Refused{{trace.path(), "--port", port}, "127.0.0.1, port " + port + ": the port is taken by another program"},
        Refused{{trace.path(), "--listen", "localhost:80"}, "invalid value 'localhost:80' for --listen"},
        Refused{{trace.path(), "--suppressions", kNoFile}, std::string(kNoFile) + ": cannot be read"}}) {
    std::vector<std::string> arguments = {"serve", "--no-open"};
    arguments.insert(arguments.end(), refused.arguments.begin(), refused.arguments.end());
    INFO(refused.message);
    const Outcome outcome = run(arguments);
    CHECK(outcome.status == 1);
    CHECK(outcome.out == "");
    CHECK(contains(outcome.err, refused.message));
  }
  std::filesystem::remove(directory);
}

TEST_CASE("serve rejects a wrong command line with exit status 2 and names the error") {
  const KnownTrace trace;
  check_rejected({"serve", "--no-open", trace.path()}, {{{"--port", "70000"}, "--port"},
                                                        {{"--port", "-1"}, "--port"},
                                                        {{"--port", "x"}, "--port"},
                                                        {{"--own", "("}, "--own"},
                                                        {{"--config", kNoFile}, kNoFile},
                                                        {{"--jsn"}, "--jsn"}});
}
