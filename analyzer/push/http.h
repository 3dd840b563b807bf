// One HTTP request of `push`, and the answer, which is not trusted: its size and time are limited, and a redirect is
// an answer like any other.
//
// http is Boost.Beast, which is in the program. https is libcurl, which is loaded when it is needed, so that it need
// not be installed: it has TLS, and knows where the system keeps its certificates.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heapprof::push {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Url {
  bool tls = false;
  std::string host;  ///< a name or an address; of IPv6 without brackets
  std::string port;
  std::string path;  ///< begins with "/"

  std::string authority() const;  ///< "collector:4318", "[::1]:4318"
  std::string text() const;
};

/// Throws std::invalid_argument, with what is wrong, when `text` is no URL of http or https, or has a user, a query
/// or a fragment.
Url parse_url(const std::string& text);

/// `text` with every byte but letters, digits and "-._~" as %XX.
std::string percent_encode(std::string_view text);

struct Request {
  Url url;
  std::string query;  ///< without "?"; empty: none
  Headers headers;
  std::string_view body;
  std::chrono::milliseconds timeout{30'000};  ///< until the answer is complete
  std::string ca_file;                        ///< certificates instead of the system's; empty: those
};

struct Answer {
  unsigned status = 0;
  std::string content_type;
  std::string retry_after;
  std::string location;
  std::string body;
  bool too_long = false;  ///< the body is longer than kMaxAnswerBody; the rest was not read
};

inline constexpr std::size_t kMaxAnswerHeader = 16 * 1024;
inline constexpr std::size_t kMaxAnswerBody = 64 * 1024;

/// There is no answer. what() is a sentence.
class HttpError : public std::runtime_error {
 public:
  enum class Kind {
    kTryAgain,  ///< it may succeed later
    kHopeless,  ///< it will fail again
    kStopped,   ///< `stopped` returned true
  };
  HttpError(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

/// Asked several times a second; true ends the request.
using Stopped = std::function<bool()>;

/// Sends the request (POST). Throws HttpError.
Answer post(const Request& request, const Stopped& stopped);

/// Its parts. `request.url.tls` is false for the first one and true for the second.
Answer post_http(const Request& request, const Stopped& stopped);
Answer post_https(const Request& request, const Stopped& stopped);

}  // namespace heapprof::push
