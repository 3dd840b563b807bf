// post() without TLS: looks up the host, then connects, writes and reads with Boost.Beast, one after the other. A
// server may answer and close before it has read the whole request, so the answer is read even if writing failed.
#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/http/span_body.hpp>
#include <cstring>
#include <optional>
#include <system_error>
#include <vector>

#include "analyzer/push/http.h"
#include "analyzer/push/name_lookup.h"

namespace heapprof::push {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

NameLookup begin_lookup(const Url& url) {
  try {
    return {url.host, url.port};
  } catch (const std::system_error& error) {
    throw HttpError(HttpError::Kind::kTryAgain, std::string("no thread to look up the host (") + error.what() + ")");
  }
}

tcp::endpoint endpoint_at(const SocketAddress& address) {
  tcp::endpoint endpoint;
  endpoint.resize(address.size);
  std::memcpy(endpoint.data(), &address.bytes, address.size);
  return endpoint;
}

class Exchange {
 public:
  explicit Exchange(const Request& request) : request_(request), socket_(context_) {
    message_.method(http::verb::post);
    message_.target(request.url.path + (request.query.empty() ? "" : "?" + request.query));
    message_.version(11);
    const bool usual = request.url.port == "80";
    const std::string authority = request.url.authority();
    message_.set(http::field::host, usual ? authority.substr(0, authority.rfind(':')) : authority);
    message_.set(http::field::connection, "close");
    for (const auto& [name, value] : request.headers) message_.insert(name, value);
    message_.body() = {request.body.data(), request.body.size()};
    message_.prepare_payload();
    parser_.header_limit(kMaxAnswerHeader);
    parser_.body_limit(kMaxAnswerBody);
  }

  Answer run(const Stopped& stopped) {
    using Clock = std::chrono::steady_clock;
    using std::chrono::milliseconds;
    const Clock::time_point deadline = Clock::now() + request_.timeout;
    // How long to wait before the next call. Throws when there is nothing to wait for any more.
    const auto next_wait = [&](const char* what_is_late) {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
      if (stopped()) throw HttpError(HttpError::Kind::kStopped, "stopped");
      if (left.count() <= 0) throw HttpError(HttpError::Kind::kTryAgain, what_is_late);
      return std::min(left, milliseconds(100));
    };
    const NameLookup lookup = begin_lookup(request_.url);
    while (!lookup.wait_for(next_wait("the host was not found in time"))) continue;
    if (!lookup.error().empty())
      throw HttpError(HttpError::Kind::kTryAgain, "the host is not known (" + lookup.error() + ")");
    connect(lookup.addresses());
    while (!over_) context_.run_one_for(next_wait(connected_ ? "no answer in time" : "no connection in time"));
    if (error_) throw *error_;
    return answer();
  }

 private:
  void connect(const std::vector<SocketAddress>& addresses) {
    std::vector<tcp::endpoint> endpoints;
    for (const SocketAddress& address : addresses) endpoints.push_back(endpoint_at(address));
    asio::async_connect(socket_, endpoints, [this](error_code refused, const tcp::endpoint&) {
      if (refused) return fail(refused, "no connection");
      write();
    });
  }

  void write() {
    connected_ = true;
    http::async_write(socket_, message_, [this](error_code failed, std::size_t) {
      write_error_ = failed;
      http::async_read(socket_, buffer_, parser_, [this](error_code wrong, std::size_t) { received(wrong); });
    });
  }

  void received(error_code failed) {
    over_ = true;
    if (failed == http::error::body_limit && parser_.is_header_done()) {
      too_long_ = true;
      return;
    }
    if (!failed) return;
    const bool is_broken_off = failed.category() != http::make_error_code(http::error::bad_version).category() ||
                               failed == http::error::end_of_stream || failed == http::error::partial_message;
    if (is_broken_off)
      return fail(write_error_ ? write_error_ : failed, "the connection was closed without an answer");
    error_ = HttpError(HttpError::Kind::kHopeless, "the answer is not HTTP (" + failed.message() + ")");
  }

  void fail(error_code failed, const std::string& what) {
    over_ = true;
    error_ = HttpError(HttpError::Kind::kTryAgain, what + " (" + failed.message() + ")");
  }

  Answer answer() {
    const auto& message = parser_.get();
    const auto header = [&](http::field field) {
      const auto value = message[field];
      return std::string(value.data(), value.size());
    };
    return {
        message.result_int(),          header(http::field::content_type),          header(http::field::retry_after),
        header(http::field::location), too_long_ ? std::string() : message.body(), too_long_};
  }

  const Request& request_;
  asio::io_context context_{1};
  tcp::socket socket_;
  http::request<http::span_body<const char>> message_;
  boost::beast::flat_buffer buffer_{kMaxAnswerHeader + kMaxAnswerBody};
  http::response_parser<http::string_body> parser_;
  error_code write_error_;
  std::optional<HttpError> error_;
  bool connected_ = false;
  bool over_ = false;
  bool too_long_ = false;
};

}  // namespace

Answer post_http(const Request& request, const Stopped& stopped) { return Exchange(request).run(stopped); }

}  // namespace heapprof::push
