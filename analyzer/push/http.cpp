#include "analyzer/push/http.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace heapprof::push {
namespace {

bool is_port(const std::string& text) {
  unsigned port = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), port);
  return wrong == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

bool is_host_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
}

bool is_visible(char c) { return c > 0x20 && c < 0x7f; }

}  // namespace

std::string Url::authority() const {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
}

std::string Url::text() const { return (tls ? "https://" : "http://") + authority() + path; }

Url parse_url(const std::string& text) {
  Url url;
  std::string rest;
  if (text.starts_with("http://")) rest = text.substr(7);
  else if (text.starts_with("https://")) rest = text.substr(8), url.tls = true;
  else throw std::invalid_argument("expected http://HOST or https://HOST");
  if (!std::ranges::all_of(rest, is_visible))
    throw std::invalid_argument("a blank or a character that is not ASCII; encode it as %XX");
  const std::size_t slash = rest.find('/');
  url.path = slash == std::string::npos ? "/" : rest.substr(slash);
  std::string authority = rest.substr(0, slash);
  if (rest.find_first_of("?#") != std::string::npos)
    throw std::invalid_argument("it has a query ('?') or fragment ('#'); heapprof adds the query");
  if (authority.find('@') != std::string::npos)
    throw std::invalid_argument(
        "it has a user or password, which others can see in the command line; put an "
        "Authorization header into a file for --headers");
  std::string after_host;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == std::string::npos) throw std::invalid_argument("'[' without ']'");
    url.host = authority.substr(1, end - 1);
    after_host = authority.substr(end + 1);
    if (url.host.find_first_not_of("0123456789abcdefABCDEF:.") != std::string::npos ||
        url.host.find(':') == std::string::npos)
      throw std::invalid_argument("'" + url.host + "' is no address of IPv6");
  } else {
    const std::size_t colon = authority.find(':');
    url.host = authority.substr(0, colon);
    if (colon != std::string::npos) after_host = authority.substr(colon);
    if (url.host.empty() || !std::ranges::all_of(url.host, is_host_character))
      throw std::invalid_argument("'" + url.host + "' is no host name");
  }
  url.port = url.tls ? "443" : "80";
  if (!after_host.empty()) {
    if (after_host.front() != ':' || !is_port(after_host.substr(1)))
      throw std::invalid_argument("'" + after_host.substr(1) + "' is no port from 1 to 65535");
    url.port = after_host.substr(1);
  }
  return url;
}

std::string percent_encode(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || std::string_view("-._~").find(c) != std::string_view::npos) encoded += c;
    else encoded.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return encoded;
}

Answer post(const Request& request, const Stopped& stopped) {
  return request.url.tls ? post_https(request, stopped) : post_http(request, stopped);
}

}  // namespace heapprof::push
