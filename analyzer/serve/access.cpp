#include "analyzer/serve/access.h"

#include <arpa/inet.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <stdexcept>

#include "analyzer/serve/request.h"

namespace heapprof::serve {
namespace {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
         });
}

/// "localhost:8080" without the port. The port is not checked: through a tunnel (ssh -L) it is another one.
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, std::min(host.find(']'), host.size() - 1) + 1);
  return host.substr(0, host.rfind(':'));
}

/// Whether it is an IP address, as in URLs. No name was resolved for such a host.
bool is_address(std::string_view host) {
  in6_addr ignored{};
  if (host.starts_with('[') && host.ends_with(']'))
    return ::inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &ignored) == 1;
  return ::inet_pton(AF_INET, std::string(host).c_str(), &ignored) == 1;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace

std::string random_token() {
  unsigned char bytes[16];
  for (std::size_t done = 0; done < sizeof bytes;) {
    const ssize_t got = ::getrandom(bytes + done, sizeof bytes - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw std::runtime_error("no random bytes for the token: getrandom failed");
    done += static_cast<std::size_t>(got);
  }
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference = difference | static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

Access::Access(std::string token, const std::string& address, std::uint16_t port)
    : token_(std::move(token)), address_(address.find(':') == std::string::npos ? address : "[" + address + "]"),
      any_address_(address == "0.0.0.0" || address == "::"), cookie_name_("heapprof_" + std::to_string(port)) {}

std::string Access::set_cookie() const { return cookie_name_ + "=" + token_ + "; Path=/; HttpOnly; SameSite=Strict"; }

bool Access::is_own_host(std::string_view host) const {
  const std::string_view name = without_port(host);
  for (const std::string_view own : {std::string_view("localhost"), std::string_view("127.0.0.1"),
                                     std::string_view("[::1]"), std::string_view(address_)})
    if (equal_ignoring_case(name, own)) return true;
  return any_address_ && !name.empty() && (is_address(name) || equal_ignoring_case(name, host_name()));
}

Verdict Access::check(const Credentials& credentials, bool changes_state) const {
  if (credentials.host.empty() || !is_own_host(credentials.host)) return Verdict::kWrongHost;
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view authorization = credentials.authorization;
  const bool has_bearer = authorization.size() > kBearer.size() &&
                          equal_ignoring_case(authorization.substr(0, kBearer.size()), kBearer) &&
                          equal_in_constant_time(authorization.substr(kBearer.size()), token_);
  const bool is_foreign =
      (!credentials.origin.empty() && credentials.origin != "http://" + std::string(credentials.host)) ||
      (!credentials.fetch_site.empty() && credentials.fetch_site != "same-origin" &&
       credentials.fetch_site != "none");
  if (has_bearer) return is_foreign ? Verdict::kForeignPage : Verdict::kAllowed;
  const bool has_parameter = !changes_state && equal_in_constant_time(credentials.token_parameter, token_);
  // The address with the token may be opened from anywhere: from a terminal in a browser, for example.
  if (has_parameter) return Verdict::kAllowed;
  if (!equal_in_constant_time(cookie_value(credentials.cookie, cookie_name_), token_)) return Verdict::kNoToken;
  return is_foreign || (changes_state && credentials.origin.empty()) ? Verdict::kForeignPage : Verdict::kAllowed;
}

}  // namespace heapprof::serve
