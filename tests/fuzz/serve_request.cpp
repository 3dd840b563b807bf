// Requests to the web server of `serve`, as it uses them: HTTP, the target, who may ask, and the command line that
// answers.
#include <boost/asio/buffer.hpp>
#include <boost/beast/http.hpp>
#include <cstdlib>
#include <string>

#include "analyzer/serve/access.h"
#include "analyzer/serve/compact_json.h"
#include "analyzer/serve/question.h"
#include "analyzer/serve/request.h"
#include "tests/fuzz/input.h"

namespace {

using namespace heapprof::serve;
namespace http = boost::beast::http;

const std::string kToken = "0123456789abcdef0123456789abcdef";
const std::string kSuppressions = "--suppressions=/r";
const Subject kSubject{{"/a.heapprof", "/b.heapprof"}, {"--sysroot=/s"}, {"--source-path=/p"}, {"--no-config"},
                       {"--own=x", "--full-names"},    {"--helper=y"},   {kSuppressions}};

/// `output`: the word with which the server lets the command write to standard output.
void check_question(const std::variant<Question, Refusal>& question, std::string_view output = {}) {
  if (const auto* const refusal = std::get_if<Refusal>(&question)) {
    if (refusal->reason.empty()) std::abort();
    return;
  }
  // What the client sent stands in one word with its option, or after "--".
  bool options = true;
  for (const std::string& word : std::get<Question>(question).words) {
    if (word.find('\0') != std::string::npos) std::abort();
    if (word == "--") options = false;
    if (options && word == output) continue;
    if (options && (word.starts_with("-o") || word.starts_with("--output") || word.starts_with("--config") ||
                    word.starts_with("--junit") || (word.starts_with("--suppressions") && word != kSuppressions)))
      std::abort();
  }
  if (options) std::abort();
}

/// The addresses for Prometheus and `go tool pprof`.
void check_other_programs(Parameters parameters) {
  check_question(metrics_question(parameters, kSubject));
  check_question(pprof_question(parameters, kSubject), "--output=-");
  const std::variant<unsigned, Refusal> taken = take_seconds(parameters);
  if (const auto* const refusal = std::get_if<Refusal>(&taken)) {
    if (refusal->reason.empty()) std::abort();
    return;
  }
  if (std::get<unsigned>(taken) > kMaxSeconds || find(parameters, "seconds") != nullptr) std::abort();
  if (std::get<unsigned>(taken) == 0) return;
  // What is allocated in these seconds, as the server asks for it.
  parameters.push_back({"from", "1ns"});
  check_question(pprof_question(parameters, kSubject), "--output=-");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(16 * 1024);
  parser.body_limit(4 * 1024);
  parser.eager(true);
  boost::system::error_code failed;
  parser.put(boost::asio::const_buffer(data, size), failed);
  std::string text(reinterpret_cast<const char*>(data), size);
  compact_json(text);
  if (text.size() > size) std::abort();
  if (!parser.is_header_done()) return 0;

  const auto& request = parser.get();
  const auto view = [](boost::beast::string_view one) { return std::string_view(one.data(), one.size()); };
  const auto target = parse_target(view(request.target()));
  if (!target) return 0;
  const std::string* const token = find(target->parameters, "token");
  const Access access(kToken, "127.0.0.1", 80);
  for (const bool changes_state : {false, true}) {
    const Verdict verdict = access.check({.host = view(request[http::field::host]),
                                          .cookie = view(request[http::field::cookie]),
                                          .authorization = view(request[http::field::authorization]),
                                          .origin = view(request[http::field::origin]),
                                          .fetch_site = view(request["Sec-Fetch-Site"]),
                                          .token_parameter = token == nullptr ? std::string_view() : *token},
                                         changes_state);
    // No request is allowed that does not contain the token, escaped or not.
    if (verdict == Verdict::kAllowed &&
        std::string(reinterpret_cast<const char*>(data), size).find(kToken) == std::string::npos &&
        (token == nullptr || *token != kToken))
      std::abort();
  }
  check_other_programs(target->parameters);
  constexpr std::string_view kApi = "/api/";
  if (!target->path.starts_with(kApi)) return 0;
  const std::string_view command = std::string_view(target->path).substr(kApi.size());
  check_question(question_of(command, target->parameters, kSubject));
  check_question(control_question(command.substr(std::min(command.size(), command.find('/') + 1)), target->parameters,
                                  kSubject));
  return 0;
}
