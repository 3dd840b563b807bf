// Who may ask the server: clients that present its token, from pages of its own.
//
//   Host      must be the server's address, so that a page whose name was resolved to it (DNS rebinding) is refused
//   token     in the cookie that the first address sets; as "Authorization: Bearer"; or as ?token= of the address
//   origin    a request that another page made is refused. Cookies alone do not prevent that: a browser also sends
//             them for pages of another port of this machine
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heapprof::serve {

/// 128 random bits as 32 hexadecimal digits. Throws std::runtime_error when the system has none.
std::string random_token();

/// Whether both are equal, in a time that depends on their lengths only.
bool equal_in_constant_time(std::string_view a, std::string_view b) noexcept;

/// The headers of a request that decide about access; empty: not sent.
struct Credentials {
  std::string_view host{};
  std::string_view cookie{};
  std::string_view authorization{};
  std::string_view origin{};
  std::string_view fetch_site{};       ///< Sec-Fetch-Site
  std::string_view token_parameter{};  ///< ?token=
};

enum class Verdict {
  kAllowed,
  kWrongHost,
  kNoToken,  ///< or a wrong one
  kForeignPage,
};

class Access {
 public:
  /// `address`: the one that the server listens on, as an IP address. Cookies have no port, so the port is part of
  /// their name.
  Access(std::string token, const std::string& address, std::uint16_t port);

  const std::string& token() const noexcept { return token_; }
  /// The value of the header Set-Cookie.
  std::string set_cookie() const;

  /// May this request be answered? `changes_state`: it is a POST, which a cookie alone does not permit: the browser
  /// must also name the server's own page as its origin.
  Verdict check(const Credentials& credentials, bool changes_state) const;

 private:
  bool is_own_host(std::string_view host) const;

  std::string token_;
  std::string address_;  ///< as in URLs: IPv6 addresses in brackets
  bool any_address_;     ///< 0.0.0.0 or ::
  std::string cookie_name_;
};

}  // namespace heapprof::serve
