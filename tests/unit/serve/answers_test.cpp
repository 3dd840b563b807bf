// The processes of answers, with this program in place of heapprof: the name of a hidden test case is its command
// line.
#include "analyzer/serve/answers.h"

#include <catch2/catch.hpp>

#include <cerrno>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <string>

using namespace heapprof::serve;

TEST_CASE("Waits until it is killed", "[.]") {
  for (;;) ::pause();
}

TEST_CASE("The processes of answers end with the server, not only when this program has ended") {
  {
    boost::asio::io_context context;
    Answers answers(context, [](std::size_t) { return std::string("unchanged"); });
    Question question;
    question.words = {"Waits until it is killed"};
    question.traces = {0};
    answers.ask(question, [](const Answer&) {});
    REQUIRE(answers.running().size() == 1);
    REQUIRE(::waitpid(-1, nullptr, WNOHANG) == 0);
  }
  // Each child was waited for, so there is none.
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}
