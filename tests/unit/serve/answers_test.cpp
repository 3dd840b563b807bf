// The processes of answers, with this program in place of heapprof: the name of a hidden test case is its command
// line.
#include "analyzer/serve/answers.h"

#include <catch2/catch.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <new>
#include <string>

#include "analyzer/base/reason_of.h"

using namespace heapprof::serve;

TEST_CASE("Waits until it is killed", "[.]") {
  for (;;) ::pause();
}

TEST_CASE("Prints more than an answer may have", "[.]") {
  const std::string piece(1 << 20, 'x');
  for (std::size_t bytes = 0; bytes <= Answers::kMaxAnswerBytes; bytes += piece.size())
    std::fwrite(piece.data(), 1, piece.size(), stdout);
}

TEST_CASE("An answer that is too large is an error of its own kind, for those who then ask for less") {
  boost::asio::io_context context;
  Answers answers(context, [](std::size_t) { return std::string("unchanged"); });
  Question question;
  question.words = {"Prints more than an answer may have"};
  question.traces = {0};
  question.is_json = false;
  Answer found;
  answers.ask(question, [&](const Answer& answer) { found = answer; });
  context.run();
  CHECK(found.status == 422);
  CHECK(found.is_too_large);
  CHECK(found.body->find("the answer has more than 32 MB") != std::string::npos);
  CHECK_FALSE(error_answer(422, "another one").is_too_large);
}

TEST_CASE("Prints a line", "[.]") { std::puts("{}"); }

TEST_CASE("Says that memory has run out", "[.]") {
  std::fprintf(stderr, "heapprof: t.heapprof: %s\n", heapprof::kNotEnoughMemory);
  ::_exit(2);  // with 1, what the test runner has printed would be an answer
}

TEST_CASE("That memory has run out is said in plain words, and is no refusal of the question") {
  boost::asio::io_context context;
  Answers answers(context, [](std::size_t) { return std::string("unchanged"); });
  Question question;
  question.words = {"Prints a line"};
  question.traces = {0};
  question.is_json = false;
  question.convert = [](const std::string&) -> std::string { throw std::bad_alloc(); };
  Answer here, in_child;
  answers.ask(question, [&](const Answer& answer) { here = answer; });
  question.words = {"Says that memory has run out"};
  question.convert = nullptr;
  answers.ask(question, [&](const Answer& answer) { in_child = answer; });
  context.run();
  CHECK(here.status == 500);
  CHECK(here.body->find("\"not enough memory; ") != std::string::npos);
  CHECK(in_child.status == 400);
  CHECK(in_child.body->find("t.heapprof: not enough memory; ") != std::string::npos);
  CHECK_FALSE(in_child.is_refusal);
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
